"""What is not bound to a language: Procfile, Makefile, justfile, compose files; frameworks with one known command."""

import re

from interlock.adapters.project.found import Candidate, Folder, health_in, port_of
from interlock.adapters.project.javascript import DEFAULT_PORTS as JAVASCRIPT_PORTS
from interlock.adapters.project.python import DEFAULT_PORTS as PYTHON_PORTS
from interlock.protocol.visible import visible

TARGETS = ("dev", "run", "serve", "start", "server", "up")
COMPOSE = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")
DEFAULT_PORTS = (
    (r"rails (?:s|server)", 3000), (r"phx\.server", 4000), (r"artisan serve", 8000), (r"hugo", 1313), (r"jekyll", 4000),
    *PYTHON_PORTS, *JAVASCRIPT_PORTS,
)  # fmt: skip
_PORT_ITEM = re.compile(
    r"""^["']?(?:(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:]+\]):)?(\d{2,5})(?::\d{2,5})?(?:/tcp)?["']?$"""
)


def procfile(folder: Folder) -> list[Candidate]:
    """Procfile.dev, then Procfile: its web process first."""
    found = []
    for file in ("Procfile.dev", "Procfile"):
        lines = [re.match(r"([\w-]+)\s*:\s*(\S.*)$", line) for line in (folder.text(file) or "").split("\n")]
        processes = [(line[1], line[2].strip()) for line in lines if line and line[2].isprintable()]
        processes.sort(key=lambda each: each[0] != "web")
        if file == "Procfile.dev" and processes and folder.has("bin/dev"):
            found.append(Candidate("bin/dev", "bin/dev, with Procfile.dev", *port_of(processes[0][1], DEFAULT_PORTS)))
        found += [
            Candidate(command, f"{file}, process {name}", *port_of(command, DEFAULT_PORTS))
            for name, command in processes[:8]
        ]
    return found


def makefile(folder: Folder) -> list[Candidate]:
    """The targets of a Makefile or a justfile that start something; ports by their recipes, or by the compose file."""
    found = []
    for tool, files in (
        ("make", ("GNUmakefile", "makefile", "Makefile")),
        ("just", ("justfile", "Justfile", ".justfile")),
    ):
        file, text = folder.first(*files)
        for target in TARGETS:
            made = re.search(rf"(?m)^{target}(?:\s[^:=\n]*)?:(?![:=])[^\n]*\n((?:[ \t]+[^\n]*\n|\n)*)", text + "\n")
            if made is None:
                continue
            recipe = made[1]
            port, why = port_of(recipe, DEFAULT_PORTS)
            own, health = True, ""
            if re.search(r"docker[ -]compose", recipe):
                name, ports, health = published(folder)
                own, port, why = False, *((ports[0], f"published in {name}") if ports else (port, why))
            first = next((line.strip() for line in recipe.split("\n") if line.strip()), "nothing")
            source = f"{file}, target {target}: {visible(first)[:200]}"
            found.append(Candidate(f"{tool} {target}", source, port, why, health, own))
    return found


def compose(folder: Folder) -> list[Candidate]:
    """A compose file: its containers together are the server."""
    name, ports, health = published(folder)
    if not name:
        return []
    why = f"published in {name}" if ports else ""
    return [Candidate("docker compose up", name, ports[0] if ports else 0, why, health, own_port=False)]


def frameworks(folder: Folder) -> list[Candidate]:
    """One command that everybody uses."""
    found = []
    if folder.has("bin/rails"):
        found.append(("bin/rails server", "bin/rails"))
    if "phoenix" in (folder.text("mix.exs") or ""):
        found.append(("mix phx.server", "mix.exs"))
    if folder.has("artisan"):
        found.append(("php artisan serve", "artisan"))
    if folder.has("hugo.toml", "hugo.yaml"):
        found.append(("hugo server", "hugo's configuration"))
    if folder.has("Cargo.toml") and folder.has("src/main.rs"):
        found.append(("cargo run", "Cargo.toml"))
    if folder.has("go.mod") and folder.has("main.go"):
        found.append(("go run .", "go.mod"))
    return [Candidate(start, source, *port_of(start, DEFAULT_PORTS)) for start, source in found]


def published(folder: Folder) -> tuple[str, list[int], str]:
    """The compose file, the ports of this machine that it publishes, and the health path that it asks; in its order."""
    name, text = folder.first(*COMPOSE)
    ports: list[int] = []
    inside = -1
    for line in text.split("\n"):
        bare = line.split(" #")[0].rstrip()
        indent = len(bare) - len(bare.lstrip())
        if (
            inside >= 0
            and bare.strip()
            and (indent < inside or (indent == inside and not bare.lstrip().startswith("-")))
        ):
            inside = -1
        listed = re.match(r"\s*ports\s*:\s*(?:\[(.*)\])?\s*$", bare)
        if listed:
            inside = indent
            items = (listed[1] or "").split(",")
        elif inside >= 0:
            items = [re.sub(r"^-\s*", "", bare.strip())]
        else:
            continue
        for item in items:
            said = re.match(r"published\s*:\s*[\"']?(\d{2,5})", item.strip()) or _PORT_ITEM.match(item.strip())
            if said and 1 <= int(said[1]) <= 65_535:
                ports.append(int(said[1]))
    return name, ports, health_in(text, 0)
