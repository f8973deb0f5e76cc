"""`bus init`, `bus config` and `bus brief` as a person calls them, on three shapes of projects; no supervisor runs."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.end_to_end.conftest import a_bus
from tests.end_to_end.playground import Bus

from interlock.adapters.git import place_of
from interlock.adapters.kept_list import now
from interlock.adapters.paths import Home
from interlock.adapters.trust import LocalRepositories
from interlock.coordinator.repositories import Trusted, digest

COMPOSE = 'services:\n  web:\n    build: .\n    ports: ["8088:80"]\n  db:\n    ports:\n      - 5432:5432\n'
SHAPES = {
    "vite": {"package.json": '{"scripts": {"dev": "vite", "preview": "vite preview"}}', "pnpm-lock.yaml": ""},
    "django": {"manage.py": "import django\n", "uv.lock": ""},
    "compose": {"docker-compose.yml": COMPOSE, "Makefile": "run:\n\tdocker compose up --build\n"},
}
STARTS = {
    "vite": ("pnpm run dev", "http://localhost:5173/", [5173]),
    "django": ("uv run python manage.py runserver", "http://localhost:8000/", [8000]),
    "compose": ("make run", "http://localhost:8088/", None),
}


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with a_bus() as bus:
        bus.environment["BUS_AUTOSTART"] = "0"
        yield bus


def repository(bus: Bus, name: str, files: dict[str, str]) -> Path:
    folder = bus.folder / name
    folder.mkdir()
    for file, text in files.items():
        (folder / file).write_text(text)
    git(bus, folder, "init", "-q", "-b", "main")
    git(bus, folder, "commit", "-q", "--allow-empty", "-m", "x")
    return folder


def git(bus: Bus, folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
    subprocess.run(["git", *identity, "-C", str(folder), *words], check=True, env=bus.environment)


def trust(bus: Bus, folder: Path) -> None:
    """A person's word, without the person."""
    home, place = Home(bus.home), place_of(str(folder))
    home.create()
    assert place is not None
    LocalRepositories(home).trust(
        Trusted(place.id, place.common, place.file, digest(Path(place.file).read_bytes()), now())
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_a_first_file_for_a_project(bus: Bus, shape: str) -> None:
    folder = repository(bus, shape, SHAPES[shape])
    start, url, ports = STARTS[shape]
    # it can be looked at first
    shown = bus.ok("init", "--print", cwd=folder)
    assert not (folder / "bus.toml").exists()
    # it is written, says what it would run and how to go on
    said = bus.ok("init", cwd=folder)
    assert (folder / "bus.toml").read_text() == shown
    assert f"start = {start}" in said
    assert f"bus config trust {folder / 'bus.toml'}" in said
    # it is right
    [checked] = bus("--json", "config", "check", str(folder), cwd=folder).json["files"]
    server = checked["resources"]["dev-server"]["server"]
    assert (server["start"], server["url"], server.get("ports")) == (start, url, ports)
    # it is never overwritten
    done = bus("init", cwd=folder)
    assert (done.code, len(done.err.splitlines())) == (73, 1)
    assert (folder / "bus.toml").read_text() == shown
    # it counts, and agents are told of it, once a person trusts it
    brief = bus("brief", cwd=folder)
    assert "dev-server" not in brief.out
    assert "does not count now" in brief.err
    assert "is not trusted" in bus.ok("config", cwd=folder)
    trust(bus, folder)
    assert f"- dev-server: a server at {url}" in bus.ok("brief", cwd=folder)
    assert f"{folder / 'bus.toml'} counts (trusted " in bus.ok("config", cwd=folder)


def test_in_a_worktree_the_main_one_gets_the_file(bus: Bus) -> None:
    folder = repository(bus, "main-one", {})
    git(bus, folder, "worktree", "add", "-q", str(bus.folder / "linked"))
    (bus.folder / "linked" / "package.json").write_text('{"scripts": {"dev": "vite"}}')
    written = bus("--json", "init", cwd=bus.folder / "linked").json
    assert written["file"] == str(folder / "bus.toml")
    assert 'start = "npm run dev"' in (folder / "bus.toml").read_text()
    (bus.folder / "linked" / "bus.toml").write_text("[resources.x]\n")
    assert "only the one in the main worktree counts" in bus.ok(
        "config", "check", "bus.toml", cwd=bus.folder / "linked"
    )


def test_a_file_that_is_named_is_checked_on_its_own_where_the_home_s_is_wrong(bus: Bus) -> None:
    home, right, wrong = bus.folder / "odd-home", bus.folder / "right.toml", bus.folder / "wrong.toml"
    home.mkdir(mode=0o700)
    (home / "bus.toml").write_text("[buss]\n")
    right.write_text("[resources.web]\n")
    wrong.write_text("[resourcess.web]\n")
    checked = {path: bus("--home", str(home), "config", "check", str(path)) for path in (right, wrong, home)}
    assert (checked[right].code, f"{right}: right, 1 resource" in checked[right].out) == (0, True)
    assert f"note: nothing counts before the home's own file is mended: {home}/bus.toml:1: " in checked[right].out
    assert (checked[wrong].code, f"{wrong}:1: unknown key 'resourcess'" in checked[wrong].err) == (78, True)
    assert (checked[home].code, f"{home}/bus.toml:1: unknown key 'buss'" in checked[home].err) == (78, True)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["init"], 64), (["config", "trust"], 64), (["config", "untrust"], 64), (["config", "frob"], 64),
        (["config", "check", "/nowhere/bus.toml"], 78), (["config", "check", "/etc/passwd"], 78),
        (["forget", "nothing"], 64), (["forget", "x", "--gone"], 64),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_sentence(bus: Bus, words: list[str], code: int) -> None:
    outside = bus.folder / "outside"
    outside.mkdir(exist_ok=True)
    done = bus(*words, cwd=outside)
    assert (done.code, len(done.err.splitlines()), done.out) == (code, 1, "")
    assert ": " in done.err.partition("bus: ")[2]


def test_a_damaged_trust_store_is_said_and_not_overwritten(bus: Bus) -> None:
    home = Home(bus.home)
    home.create()
    store = home.root / "trusted.json"
    before = store.read_bytes() if store.exists() else None
    store.write_text("garbage")
    try:
        for words in (["config", "untrust"], ["forget"], ["forget", "--gone"]):
            done = bus(*words)
            assert (done.code, len(done.err.splitlines())) == (78, 1)
            assert "no trust store: move it away" in done.err
        assert "no trust store" in bus.ok("config")
        assert json.loads(bus.ok("--json", "config"))["problem"]
        assert store.read_text() == "garbage"
    finally:
        os.unlink(store) if before is None else store.write_bytes(before)
