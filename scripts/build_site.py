"""Builds the site: the pages as they lie in the repository, in the order of a table, with the one tool that draws them.

    docs/**.md, ARCHITECTURE.md, …  ──▶ .site/docs (links rewritten)  ──▶ zensical --strict ──▶ site/

The pages need no tool to be read: they are plain Markdown, links included. `tests/architecture/test_pages.py` checks
them by the functions here that draw nothing: `places` and `navigation`.
"""

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
STAGE = ROOT / ".site"
SITE = ROOT / "site"
TOP = ("index", "performance", "experiment")  # pages of no section
# The order of the site. A folder's pages that are not named here follow in the order of their file names.
SECTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Guide": (
        "guide",
        (
            "share-a-dev-server", "prompts", "gpu-pool", "test-database", "several-resources", "gated-commands",
            "territory", "territory-map", "verify", "territory-hooks", "tasks", "stop-only-what-is-yours",
            "agents-in-containers", "a-person-takes-over", "python", "daemons-that-outlive-builds", "resources",
            "configuration", "identity",
        ),
    ),
    "Operations": ("operations", ("install-upgrade-uninstall", "doctor", "back-up-and-recover", "troubleshooting")),
    "Reference": ("reference", ("commands", "configuration", "python")),
    "Protocol": ("protocol", ("README", "messages", "events", "codes", "limits")),
    "Project": ("project", ("architecture", "contributing", "changelog")),
    "Decisions": ("adr", ("README",)),
}  # fmt: skip
OUTSIDE = {  # pages at the repository's top that belong to the site
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
}
SHIM = "https://unpkg.com/iframe-worker/shim"
FETCHED = re.compile(r'<(?:script|img|iframe|link rel="(?:stylesheet|preconnect|preload)")[^>]*?="(https?://[^"]+)"')
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
CONFIG = """\
[project]
site_name = "Interlock"
site_description = "Many agents, one dev server, no collisions."
use_directory_urls = false
dev_addr = "127.0.0.1:8000"
extra_css = ["site.css"]
nav = {nav}

[project.theme]
language = "en"
font = false # the reader's own: nothing is fetched
features = [
  "navigation.sections", "navigation.top", "navigation.footer", "toc.follow", "content.code.copy", "search.highlight",
]

[project.theme.icon]
logo = "lucide/traffic-cone"

[[project.theme.palette]]
media = "(prefers-color-scheme)"
toggle.icon = "lucide/sun-moon"
toggle.name = "Light"

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "lucide/sun"
toggle.name = "Dark"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "lucide/moon"
toggle.name = "As the system has it"

[project.plugins.search]

[project.plugins.offline]
"""


def places() -> dict[Path, str]:
    """Every page of the site: its file in the repository, and its place in the site."""
    found = {page: page.relative_to(DOCS).as_posix() for page in sorted(DOCS.rglob("*.md"))}
    return {**found, **{ROOT / name: place for name, place in OUTSIDE.items()}}


def navigation() -> dict[str, list[str]]:
    """The pages of each section, in order. A section without a page is left out."""
    every = set(places().values())
    sections: dict[str, list[str]] = {"": [f"{name}.md" for name in TOP if f"{name}.md" in every]}
    for title, (folder, first) in SECTIONS.items():
        inside = sorted(place for place in every if place.startswith(f"{folder}/"))
        named = [f"{folder}/{name}.md" for name in first if f"{folder}/{name}.md" in every]
        if inside:
            sections[title] = [*named, *(place for place in inside if place not in named)]
    return sections


def heading(text: str) -> str:
    """A page's title: its first heading, without the marks of Markdown."""
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return re.sub(r"[`*]", "", found[1]).strip() if found else ""


def rewritten(page: Path, text: str) -> str:
    """A page's text with its relative links as they must be at its place in the site."""
    where = places()
    here = os.path.dirname(where[page])

    def link(found: re.Match[str]) -> str:
        target, hash_, anchor = found[2].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return found[0]
        place = where.get((page.parent / target).resolve())
        if place is None:  # a picture beside it, or a file that the site does not have: the tool says so
            return found[0]
        return f"{found[1]}{os.path.relpath(place, here or '.')}{hash_}{anchor}{found[3]}"

    return LINK.sub(link, text)


def stage() -> None:
    """Lay out .site/docs and its configuration; only what has changed is written, so that a server sees that."""
    wanted: dict[Path, bytes] = {}
    for page, place in places().items():
        wanted[STAGE / "docs" / place] = rewritten(page, page.read_text()).encode()
    for file in DOCS.rglob("*"):
        if file.is_file() and file.suffix != ".md":
            wanted[STAGE / "docs" / file.relative_to(DOCS)] = file.read_bytes()
    wanted[STAGE / "zensical.toml"] = CONFIG.format(nav=_nav()).encode()
    for path in (STAGE / "docs").rglob("*"):
        if path.is_file() and path not in wanted:
            path.unlink()
    for path, data in wanted.items():
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def _nav() -> str:
    titles = {place: heading(page.read_text()) for page, place in places().items()}
    return "[\n" + "".join(_entries(titles)) + "]"


def _entries(titles: dict[str, str]) -> Iterator[str]:
    for section, pages in navigation().items():
        lines = [f"{{ {_quoted(titles[place])} = {_quoted(place)} }}" for place in pages]
        if section:
            yield f"  {{ {_quoted(section)} = [{', '.join(lines)}] }},\n"
        else:
            yield from (f"  {line},\n" for line in lines)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def build() -> int:
    """Build site/ anew; it replaces the old one only when nothing is wrong."""
    shutil.rmtree(STAGE, ignore_errors=True)
    stage()
    done = subprocess.run(
        [_tool(), "build", "--strict", "--clean"], cwd=STAGE, capture_output=True, text=True, check=False
    )
    if done.returncode:
        print((done.stdout + done.stderr).partition("Traceback")[0] or done.stderr, file=sys.stderr)
        print("site: not built: mend what is named above, then scripts/site again", file=sys.stderr)
        return done.returncode
    for page in (STAGE / "site").rglob("*.html"):
        page.write_text(_offline(page))
    fetched = sorted({url for page in (STAGE / "site").rglob("*.html") for url in FETCHED.findall(page.read_text())})
    if fetched:
        print(f"the site would fetch {', '.join(fetched)} when it is looked at: take it in", file=sys.stderr)
        return 1
    shutil.rmtree(SITE, ignore_errors=True)
    (STAGE / "site").rename(SITE)
    print(f"built: {SITE.relative_to(ROOT)}/index.html, {len(places())} pages")
    return 0


def _offline(page: Path) -> str:
    """A drawn page without the one script that the tool takes from the net; ours does the same (docs/worker.js)."""
    ours = os.path.relpath(STAGE / "site" / "worker.js", page.parent)
    return page.read_text().replace(SHIM, ours)


def serve(port: str) -> int:
    """Show the site on 127.0.0.1 until Ctrl-C, and stage again whatever changes."""
    stage()
    over = threading.Event()

    def follow() -> None:
        while not over.wait(0.5):
            stage()

    threading.Thread(target=follow, daemon=True).start()
    try:
        return subprocess.run([_tool(), "serve", "--dev-addr", f"127.0.0.1:{port}"], cwd=STAGE, check=False).returncode
    except KeyboardInterrupt:
        return 130
    finally:
        over.set()


def _tool() -> str:
    return str(Path(sys.executable).with_name("zensical"))


def main() -> int:
    words = sys.argv[1:]
    if words[:1] == ["--serve"] and len(words) <= 2:
        return serve(words[1] if words[1:] else "8000")
    if words:
        print("usage: scripts/site [--serve [PORT]]", file=sys.stderr)
        return 64
    return build()


if __name__ == "__main__":
    sys.exit(main())
