"""Python: a Django project, tasks and scripts of pyproject.toml, applications of FastAPI, Flask and the like."""

import re
import tomllib
from typing import Any

from interlock.adapters.project.found import Candidate, Folder, port_of

TOML_CHARACTERS_MAX = 256 * 1024
DOTS_MAX = 100  # in one line, strings left out: a key of thousands of parts takes its reader seconds
TASKS = ("dev", "serve", "start", "run", "server", "web")
TASK_TABLES = (
    (("tool", "poe", "tasks"), "poe"), (("tool", "taskipy", "tasks"), "task"), (("tool", "pdm", "scripts"), "pdm run"),
    (("tool", "rye", "scripts"), "rye run"), (("tool", "hatch", "envs", "default", "scripts"), "hatch run"),
)  # fmt: skip
RUNNERS = (
    ("uv.lock", "uv run ", "uv sync"), ("poetry.lock", "poetry run ", "poetry install"),
    ("pdm.lock", "pdm run ", "pdm install"), ("Pipfile", "pipenv run ", "pipenv install --dev"),
)  # fmt: skip
DEFAULT_PORTS = (
    (r"runserver", 8000), (r"uvicorn", 8000), (r"fastapi", 8000), (r"hypercorn", 8000), (r"gunicorn", 8000),
    (r"litestar", 8000), (r"flask", 5000), (r"streamlit", 8501), (r"gradio", 7860), (r"mkdocs", 8000),
    (r"jupyter", 8888), (r"http\.server", 8000),
)  # fmt: skip
APPLICATIONS = (
    "main.py",
    "app.py",
    "server.py",
    "api.py",
    "app/main.py",
    "src/main.py",
    "src/app.py",
    "app/__init__.py",
)
FRAMEWORKS = (
    (r"FastAPI|Starlette|Litestar|Quart|Sanic", "uvicorn {module}:{name} --reload"),
    (r"Flask", "flask --app {module}:{name} run"),
)


def python(folder: Folder) -> list[Candidate]:
    """What pyproject.toml, manage.py and the usual files start, best first."""
    runner, prepare = next(((run, first) for file, run, first in RUNNERS if folder.has(file)), ("", ""))
    found = _django(folder, runner) + _tasks(folder, runner) + _applications(folder, runner)
    return [
        Candidate(each.start, each.source, each.port, each.why_port, each.health, prepare=prepare) for each in found
    ]


def _django(folder: Folder, runner: str) -> list[Candidate]:
    text = folder.text("manage.py")
    if text is None or "django" not in text.lower():
        return []
    start = f"{runner}python manage.py runserver"
    return [Candidate(start, "manage.py: a Django project", *port_of(start, DEFAULT_PORTS))]


def _tasks(folder: Folder, runner: str) -> list[Candidate]:
    text = folder.text("pyproject.toml")
    if text is None:
        return []
    keys = re.sub(r""""[^"\n]*"|'[^'\n]*'""", "", text)
    if len(text) > TOML_CHARACTERS_MAX or max(line.count(".") for line in keys.split("\n")) > DOTS_MAX:
        folder.notes.append("pyproject.toml was left out: it is too large, or has a key of too many parts")
        return []
    try:
        project = tomllib.loads(text)
    except (ValueError, RecursionError):
        folder.notes.append("pyproject.toml was left out: it is no TOML")
        return []
    found = []
    for path, command in TASK_TABLES:
        table = _table(project, path)
        for task in TASKS:
            if task in table:
                start = f"{runner}{command} {task}" if command in {"poe", "task"} else f"{command} {task}"
                port, why = port_of(str(table[task]), DEFAULT_PORTS)
                found.append(Candidate(start, f"pyproject.toml, [{'.'.join(path)}] {task}", port, why))
    scripts = _table(project, ("project", "scripts"))
    found += [Candidate(f"{runner}{t}", f"pyproject.toml, [project.scripts] {t}") for t in TASKS if t in scripts]
    return found


def _applications(folder: Folder, runner: str) -> list[Candidate]:
    found = []
    for file in APPLICATIONS:
        text = folder.text(file) or ""
        for pattern, start in FRAMEWORKS:
            made = re.search(rf"(?m)^([A-Za-z_]\w{{0,60}})\s*(?::[^=\n]+)?=\s*(?:\w+\.)?({pattern})\(", text)
            if made:
                module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
                command = runner + start.format(module=module, name=made[1])
                port, why = port_of(command, DEFAULT_PORTS)
                found.append(Candidate(command, f"{file}: {made[1]} = {made[2]}(…)", port, why, _health(text)))
        if re.search(r"(?m)^import streamlit", text):
            command = f"{runner}streamlit run {file}"
            found.append(Candidate(command, f"{file}: a Streamlit app", *port_of(command, DEFAULT_PORTS)))
    return found


def _health(text: str) -> str:
    """A route that an application itself declares for the purpose."""
    made = re.search(r"""\.(?:get|route)\(\s*["'](/(?:api/)?(?:healthz?(?:/live)?|livez|readyz))["']""", text)
    return made[1] if made else ""


def _table(project: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    found: Any = project
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}
