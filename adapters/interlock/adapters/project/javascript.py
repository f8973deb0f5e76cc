"""package.json: its scripts dev, start, serve, preview, in this order; the package manager by its lock file."""

import json
import re
from typing import Any

from interlock.adapters.project.found import Candidate, Folder, port_of
from interlock.protocol.visible import visible

SCRIPTS = ("dev", "start", "serve", "preview")
LOCK_FILES = (
    ("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("bun.lock", "bun"), ("bun.lockb", "bun"),
    ("package-lock.json", "npm"), ("npm-shrinkwrap.json", "npm"),
)  # fmt: skip
INSTALL = {
    "npm": "npm ci", "pnpm": "pnpm install --frozen-lockfile", "yarn": "yarn install --immutable",
    "bun": "bun install --frozen-lockfile",
}  # fmt: skip
DEFAULT_PORTS = (
    (r"vite preview", 4173), (r"astro", 4321), (r"next", 3000), (r"nuxi?t?", 3000), (r"react-scripts", 3000),
    (r"vue-cli-service", 8080), (r"ng serve", 4200), (r"gatsby", 8000), (r"(?:start-)?storybook", 6006),
    (r"webpack(?:-dev-server| serve)", 8080), (r"parcel", 1234), (r"expo", 8081), (r"eleventy", 8080),
    (r"docusaurus", 3000), (r"wrangler", 8787), (r"netlify dev", 8888), (r"nest start", 3000), (r"strapi", 1337),
    (r"remix vite:dev", 5173), (r"remix dev", 3000), (r"svelte-kit", 5173), (r"react-router dev", 5173),
    (r"vite", 5173), (r"http-server", 8080), (r"serve", 3000), (r"json-server", 3000),
)  # fmt: skip
VITE_CONFIGS = tuple(f"vite.config.{suffix}" for suffix in ("ts", "js", "mts", "mjs", "cts", "cjs"))
HEALTH_ROUTES = (
    ("app/api/health/route.ts", "/api/health"), ("app/api/health/route.js", "/api/health"),
    ("src/app/api/health/route.ts", "/api/health"), ("pages/api/health.ts", "/api/health"),
    ("pages/api/health.js", "/api/health"), ("src/pages/api/health.ts", "/api/health"),
    ("server/api/health.ts", "/api/health"), ("server/api/health.get.ts", "/api/health"),
)  # fmt: skip


def javascript(folder: Folder) -> list[Candidate]:
    """The scripts of package.json that start something, best first."""
    text = folder.text("package.json")
    if text is None:
        return []
    try:
        package = json.loads(text)
    except (ValueError, RecursionError):
        folder.notes.append("package.json was left out: it is no JSON")
        return []
    scripts = package.get("scripts") if isinstance(package, dict) else None
    if not isinstance(scripts, dict):
        return []
    manager = _manager(folder, package)
    found = []
    for name in SCRIPTS:
        script = scripts.get(name)
        if isinstance(script, str) and script.strip():
            port, why = _port(folder, script, scripts)
            health = next((path for file, path in HEALTH_ROUTES if folder.has(file)), "")
            source = f"package.json, script {name}: {visible(script)[:200]}"
            found.append(Candidate(f"{manager} run {name}", source, port, why, health, prepare=INSTALL[manager]))
    return found


def _manager(folder: Folder, package: dict[str, Any]) -> str:
    named = package.get("packageManager")
    if isinstance(named, str) and (name := named.partition("@")[0]) in INSTALL:
        return name
    return next((manager for file, manager in LOCK_FILES if folder.has(file)), "npm")


def _port(folder: Folder, script: str, scripts: dict[str, Any]) -> tuple[int, str]:
    """Named in the script, or in vite's configuration; else the default of its tool. One script may call another."""
    called = re.match(r"(?:npm|pnpm|yarn|bun)(?: run)? ([\w:-]+)\s*$", script.strip())
    if called and isinstance(inner := scripts.get(called[1]), str) and inner != script:
        script = inner
    port, why = port_of(script, DEFAULT_PORTS)
    if why.endswith(" vite"):
        name, config = folder.first(*VITE_CONFIGS)
        said = re.search(r"\bserver\s*:\s*\{[^}]{0,500}?\bport\s*:\s*(\d{2,5})\b", config)
        if said and int(said[1]) <= 65_535:
            return int(said[1]), f"named in {name}"
    return port, why
