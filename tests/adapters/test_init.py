"""`bus init` and `bus brief`: what real projects come to, and that no project can make a file that is wrong."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.adapters.cli.brief import LINES_MAX, brief, describe
from interlock.adapters.project.draft import Draft, draft, toml_string
from interlock.adapters.project.found import Candidate, Folder
from interlock.adapters.project.others import published
from interlock.coordinator.config import Config, parse_config
from interlock.coordinator.repositories import declared
from interlock.protocol.definition import ServerDefinition

COMPOSE = """services:
  db:
    image: postgres   # ports: ["1:1"]
    expose: ["9"]
  web:
    ports:
      - "127.0.0.1:8080:80"
      - target: 90
        published: 9090
    healthcheck:
      test: ["CMD", "curl", "-f", "http://localhost:80/healthz"]
"""
FASTAPI = 'from fastapi import FastAPI\napi: FastAPI = FastAPI()\n\n@api.get("/healthz")\ndef ok(): ...\n'


def project(folder: Path, **files: str) -> Draft:
    """A folder with these files (`__` for a slash), and the draft that it makes."""
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return draft(str(folder), str(folder))


def server(made: Draft) -> ServerDefinition:
    found = declared(made.text.encode(), "bus.toml", "0" * 32, Config())
    [definition] = found.values()
    assert definition.server is not None
    return definition.server


def scripts(**scripts: object) -> str:
    return json.dumps({"scripts": scripts})


@pytest.mark.parametrize(
    ("files", "start", "port"),
    [
        ({"package.json": scripts(dev="vite", preview="vite preview"), "pnpm-lock.yaml": ""}, "pnpm run dev", 5173),
        ({"package.json": scripts(dev="vite"), "vite.config.ts": "x({ server: { host: true, port: 3456 } })"},
         "npm run dev", 3456),
        ({"package.json": scripts(dev="next dev --port=4001"), "yarn.lock": ""}, "yarn run dev", 4001),
        ({"package.json": scripts(start="PORT=8123 react-scripts start"), "bun.lock": ""}, "bun run start", 8123),
        ({"package.json": scripts(dev="npm run dev:web", **{"dev:web": "next dev"})}, "npm run dev", 3000),
        ({"package.json": scripts(build="x", serve="ng serve")}, "npm run serve", 4200),
        ({"package.json": json.dumps({"packageManager": "pnpm@9.1", "scripts": {"dev": "x"}}), "yarn.lock": ""},
         "pnpm run dev", 0),
        ({"package.json": scripts(dev="next dev -p ${PORT:-3210}")}, "npm run dev", 3210),
        ({"Procfile": "web: python manage.py runserver 9001\n"}, "python manage.py runserver 9001", 9001),
        ({"Procfile": "web: python3 -m http.server 9002 --bind ::1"}, "python3 -m http.server 9002 --bind ::1", 9002),
        ({"manage.py": "from django.core import x", "uv.lock": ""}, "uv run python manage.py runserver", 8000),
        ({"main.py": FASTAPI}, "uvicorn main:api --reload", 8000),
        ({"app__main.py": "app = flask.Flask(__name__)", "poetry.lock": ""},
         "poetry run flask --app app.main:app run", 5000),
        ({"pyproject.toml": '[tool.poe.tasks]\ndev = "uvicorn a:b --port 8765"\n'}, "poe dev", 8765),
        ({"pyproject.toml": '[project.scripts]\nserve = "a:b"\n', "uv.lock": ""}, "uv run serve", 0),
        ({"Procfile.dev": "css: tailwind\nweb: bin/rails server -p 3100\n", "package.json": scripts(dev="vite")},
         "bin/rails server -p 3100", 3100),
        ({"Procfile.dev": "web: bin/rails s\n", "bin__dev": "#!/bin/sh"}, "bin/dev", 3000),
        ({"Procfile": "worker: x\nweb: gunicorn a\n", "manage.py": "x"}, "gunicorn a", 8000),
        ({"Makefile": "build:\n\tx\nrun: build ## go\n\tdocker compose up\n", "docker-compose.yml": COMPOSE},
         "make run", 8080),
        ({"Makefile": "dev := 1\nserve:\n\t@python -m http.server 8999 --port 8999\n"}, "make serve", 8999),
        ({"justfile": "dev:\n    uvicorn a:b\n"}, "just dev", 8000),
        ({"compose.yaml": COMPOSE}, "docker compose up", 8080),
        ({"frontend__package.json": scripts(dev="vite")}, "cd frontend && npm run dev", 5173),
        ({"Cargo.toml": "", "src__main.rs": ""}, "cargo run", 0),
    ],
)  # fmt: skip
def test_what_a_project_says_of_itself_is_found(tmp_path: Path, files: dict[str, str], start: str, port: int) -> None:
    made = project(tmp_path, **files)
    found = server(made)
    assert found.start == start
    assert (f"http://localhost:{port}/" == found.url) if port else not found.url
    assert bool(port) is not any("port" in note for note in made.notes)


def test_containers_ports_are_not_taken_for_the_commands_own(tmp_path: Path) -> None:
    found = server(project(tmp_path, **{"compose.yaml": COMPOSE}))
    assert found.ports == ()
    assert found.health == "http://localhost:8080/healthz"
    assert published(Folder(str(tmp_path)))[1] == [8080, 9090]


def test_a_health_path_in_the_code_is_only_suggested(tmp_path: Path) -> None:
    made = project(tmp_path, **{"main.py": FASTAPI})
    assert not server(made).health
    assert '# health = "http://localhost:8000/healthz"' in made.text


def test_the_others_that_were_found_stand_as_comments(tmp_path: Path) -> None:
    made = project(tmp_path, **{"package.json": scripts(dev="vite", start="node ."), "Makefile": "dev:\n\tvite\n"})
    assert '#   start = "npm run start"' in made.text
    assert '#   start = "make dev"' in made.text


def test_where_a_person_stands_is_looked_at_first(tmp_path: Path) -> None:
    project(tmp_path, **{"package.json": scripts(dev="vite"), "it's here__package.json": scripts(dev="next")})
    found = server(draft(str(tmp_path), str(tmp_path / "it's here")))
    assert found.start == """cd 'it'"'"'s here' && npm run dev"""


def test_nothing_found_is_a_file_with_an_example(tmp_path: Path) -> None:
    made = project(tmp_path)
    assert made.chosen is None
    assert declared(made.text.encode(), "f", "0" * 32, Config()) == {}
    assert "filled in" in made.notes[0]


@pytest.mark.parametrize(
    "content",
    [b"{", b"\xff\xfe\x00", b"[" * 300_000, b'{"scripts": 3}', b'{"scripts": {"dev": ["x"]}}', b"[]", b"null", b"",
     b'{"a":' * 200_000, b" " * (2 << 20), b'{"scripts": {"dev": ""}}', b'{"n": ' + b"9" * 10_000 + b"}"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["package.json", "pyproject.toml", "Makefile", "Procfile", "compose.yaml", "main.py"])
def test_garbage_is_left_out(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    made = draft(str(tmp_path), str(tmp_path))
    declared(made.text.encode(), "f", "0" * 32, Config())
    assert all(len(note.splitlines()) == 1 for note in made.notes)


def test_no_link_and_no_pipe_is_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(scripts(dev="vite"))
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "package.json").symlink_to(secret)
    os.mkfifo(tmp_path / "p" / "Procfile")
    made = draft(str(tmp_path / "p"), str(tmp_path / "p"))
    assert made.chosen is None
    assert {"package.json was left out: it is a link", "Procfile was left out: no regular file"} <= set(made.notes)


HOSTILE = st.text(st.characters(codec=None), max_size=40) | st.sampled_from(
    ['"', "\\", '"""', "'''", "\n[bus]\n", "\x00", "\x7f", "\u2028", "\x1b[2J", "#", "\ud800", "\U000e0001", "." * 99]
)


@settings(max_examples=150)
@given(text=HOSTILE, others=st.lists(HOSTILE, max_size=3), port=st.integers(1, 65_535), known=st.booleans())
def test_whatever_was_found_the_file_is_right(text: str, others: list[str], port: int, known: bool) -> None:
    from interlock.adapters.project.draft import _text

    chosen = Candidate(f"run {text}", text, port if known else 0, text, "/ok", known, text)
    made = _text(chosen, [Candidate(each, each, prepare=each) for each in others])
    safe = "\0" not in text and text.count(".") < 60
    if safe:
        [found] = declared(made.encode(), "f", "0" * 32, Config()).values()
        assert found.server is not None
        assert found.server.start == f"run {text}".encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@settings(max_examples=60)
@given(script=HOSTILE, process=HOSTILE, recipe=HOSTILE)
def test_whatever_stands_in_a_project_the_file_is_right(
    tmp_path_factory: pytest.TempPathFactory, script: str, process: str, recipe: str
) -> None:
    folder = tmp_path_factory.mktemp("p")
    (folder / "package.json").write_text(json.dumps({"scripts": {"start": script}}))
    (folder / "Procfile").write_bytes(f"web: {process}\n".encode("utf-8", "surrogatepass"))
    (folder / "Makefile").write_bytes(f"dev:\n\t{recipe}\n".encode("utf-8", "surrogatepass"))
    made = draft(str(folder), str(folder))
    found = declared(made.text.encode(), "f", "0" * 32, Config())
    assert bool(found) is (made.chosen is not None)
    assert all(line.isprintable() or line == "" for line in made.text.split("\n"))


def test_a_string_comes_back_as_it_was() -> None:
    import tomllib

    for text in ('say "hi"\\n', "tab\there", "new\nline", "\x00\x1f\x7f\x85", "über 🚀"):
        assert tomllib.loads(f"a = {toml_string(text)}")["a"] == text


# --- brief ----------------------------------------------------------------------------------
@pytest.mark.parametrize("number", [0, 1, 5, 6, 7, 200])
def test_a_brief_never_has_more_than_twelve_lines_and_names_what_it_can(number: int) -> None:
    lines = brief({f"r{each}": "a thing" for each in range(number)})
    assert len(lines) <= LINES_MAX
    named = sum(line.startswith("- r") for line in lines)
    assert named == number or f"- and {number - named} more: bus status" in lines


def test_a_brief_says_what_each_is() -> None:
    toml = (
        '[resources.web]\nstart = "x"\nurl = "http://localhost:1/"\n[resources.db]\n[resources.gpu]\nunits=["0","1"]\n'
    )
    said = [describe(each) for each in parse_config(toml, "f").resources.values()]
    assert said[0].startswith("a server at http://localhost:1/, started from your worktree")
    assert said[1:] == ["one agent at a time", "one of 2 units, BUS_UNIT says which"]
