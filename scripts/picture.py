"""Draws terminals with what was really printed: docs/demo.svg, docs/pool.svg, docs/doctor.svg, docs/map.svg.

    scripts/demo ──▶ what it printed ──▶ some of its scenes, whole ──▶ docs/demo.svg
    a bus of its own, with a pool; a home that is broken ──▶ what `bus` prints ──▶ docs/pool.svg, docs/doctor.svg
    ten agents and their leases ──▶ `bus map` ──▶ docs/map.svg

Nothing is written by hand. What differs from run to run (folder, port, process ids) is put as `…` or a round number, so
that a review sees only what has really changed. The picture fetches nothing: its font is the reader's own monospace,
and every run of text is told its width, so that columns stay straight in any of them.
"""

import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
HOME = "~/.local/state/interlock"  # what the folder of a bus of its own is called in a picture
SCENES = (  # the beginnings of the demo's lines of heading that are shown, and how many of its commands
    ("# A asks", ("bus --as A request",)),
    ("# B asks", ("bus --as B send", "bus status")),
    ("# A releases", ("bus --as A release", "bus --as B wait")),
    ("# C waits", ("bus --as C request", "kill", "bus --as C wait", "bus --as B check")),
)
TEN_AGENTS = {  # each asks for a lease; eve has a part of ann's
    "ann": ("src/auth/**", "README.md:10-40", "--ttl", "10m", "--for", "login by passkey"),
    "bob": ("src/cart/**", "--ttl", "10m", "--for", "vouchers"),
    "cyd": ("src/api/v2/*.py", "--ttl", "30m", "--for", "paging"),
    "dan": ("docs", "--shared", "--ttl", "10m", "--for", "spelling"),
    "fay": ("docs", "--shared", "--ttl", "10m", "--for", "screenshots"),
    "gil": ("tests/cart", "--ttl", "10m", "--for", "a slow test"),
    "hal": ("src/auth/login.py", "--wait", "30m", "--for", "typo"),
    "ivy": ("src/auth/*.py", "--wait", "30m", "--for", "type hints"),
    "joe": ("README.md:30-60", "--wait", "30m", "--for", "install steps"),
}
COLUMNS = 118
FONT_PX = 14
CELL_PX = 8.43  # what most monospace fonts take for a character at that size
LINE_PX = 20
EDGE_PX = 18
BAR_PX = 38
WORDS = {  # what the bus says first, and its colour
    "GRANTED": "good", "RELEASED": "good", "QUEUED": "wait", "REFUSED": "bad", "JOINED": "dim",
    "[exit": "dim", "RESOURCE": "strong",
    "PATHS": "strong",
    "home:": "bad", "configuration:": "bad", "database:": "bad", "recovery:": "bad", "port:": "bad", "down:": "bad",
}  # fmt: skip
STYLE = """
    text { font: 14px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace; }
    text { fill: #d6deeb; white-space: pre; }
    .strong { font-weight: 700; fill: #ffffff; } .note { fill: #8a9bb4; font-style: italic; } .dim { fill: #8a9bb4; }
    .prompt { fill: #7fdbca; } .place { fill: #8a9bb4; } .good { fill: #a5e075; font-weight: 700; }
    .wait { fill: #ffcb6b; font-weight: 700; } .bad { fill: #ff869a; font-weight: 700; }
"""


def transcript() -> str:
    """What the demo prints, played now; its commits have a fixed date, so that they are called the same each time."""
    date = {f"GIT_{who}_DATE": "2025-01-01T00:00:00Z" for who in ("AUTHOR", "COMMITTER")}
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "demo.py")],
        env={**os.environ, **date}, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=300,
    )  # fmt: skip
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
        raise SystemExit("picture: the demo failed: nothing is drawn")
    return done.stdout


def lines(printed: str) -> list[str]:
    """The lines of the scenes that are shown, each command with its output (not its progress), wrapped."""
    printed = re.sub(r"\S*/interlock-demo-\w+/", "…/", printed)
    printed = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:7080", printed)
    for number, pid in enumerate(dict.fromkeys(re.findall(r"(?:pid|process|kill -9) (\d+)", printed)), start=1):
        printed = re.sub(rf"\b{pid}\b", str(4100 + number), printed)
    printed = re.sub(r"\b[1-3]s (ago|more)", r"0s \1", printed)
    shown: list[str] = []
    for beginning, commands in SCENES:
        scene = next(part for part in re.split(r"\n(?=# )", printed) if part.startswith(beginning))
        heading, *parts = re.split(r"\n(?=(?:\(\S+\) )?\$ )", scene.rstrip("\n"))
        shown += ["", heading] if shown else [heading]
        for part in parts:
            if any(re.match(rf"(?:\(\S+\) )?\$ {re.escape(command)}", part) for command in commands):
                shown += [
                    piece for line in part.split("\n") if not line.startswith("waiting:") for piece in _wrapped(line)
                ]
    return shown


class Bus:
    """A bus of its own in a folder of its own, and what its commands print."""

    def __init__(self, folder: Path, configuration: str) -> None:
        self.folder, self.home = folder, folder / "home"
        self.home.mkdir(mode=0o700)
        (self.home / "bus.toml").write_text(configuration)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("BUS_")}
        self.environment = {**kept, "BUS_HOME": str(self.home), "NO_COLOR": "1"}

    def wait(self, *words: str, cwd: Path) -> subprocess.Popen[str]:
        """A command that waits for something, once it says so."""
        waits = subprocess.Popen(
            [str(ROOT / ".venv" / "bin" / "bus"), *words], env=self.environment, cwd=cwd, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert waits.stderr is not None
        if not any(line.startswith("waiting") for line in waits.stderr):
            raise SystemExit(f"picture: bus {' '.join(words)} does not wait: nothing is drawn")
        return waits

    def say(self, *words: str, cwd: Path | None = None) -> list[str]:
        """The lines of one command as they are shown: with the command before them, and its exit code after them."""
        done = subprocess.run(
            [str(ROOT / ".venv" / "bin" / "bus"), *words], env=self.environment, cwd=cwd or self.folder, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False,
        )  # fmt: skip
        printed = done.stdout.replace(str(self.home), HOME).replace(str(self.folder), "…")
        shown = [line for line in printed.splitlines() if not line.startswith(("waiting:", "JOINED"))]
        return [f"$ {' '.join(['bus', *words])}", *shown, *([f"[exit {done.returncode}]"] if done.returncode else [])]

    def down(self) -> None:
        self.say("down", "--stop-servers")


def pool(folder: Path) -> list[str]:
    """Two servers of a pool, and who waits for one."""
    base = _two_ports()
    worktrees = [folder / name for name in ("login", "header", "footer")]
    for worktree in worktrees:
        worktree.mkdir()
    bus = Bus(
        folder,
        f'[resources.preview]\nkind = "server"\nunits = ["1", "2"]\nurl = "http://localhost:{base}{{unit}}/"\n'
        f'start = "exec python3 -m http.server {base}{{unit}} --bind 127.0.0.1"\nports = ["{base}{{unit}}"]\n',
    )
    try:
        for worktree, why in zip(worktrees, ("login page", "the header", "on a phone"), strict=True):
            wait = ("--wait", "30s") if worktree.name != "footer" else ()
            bus.say("--as", worktree.name, "request", "preview", "--worktree", str(worktree), "--for", why, *wait)
        shown = [*bus.say("status", "preview"), *bus.say("--as", "header", "release")]
        shown += [line for line in bus.say("--as", "footer", "wait", "--timeout", "30s") if "QUEUED" not in line]
    finally:
        bus.down()
    shown = [re.sub(rf"\b{base}(?=[12]\b)", "708", line) for line in shown]
    return [piece for line in _steady("\n".join(shown)).split("\n") for piece in _wrapped(line)]


def ten_agents(folder: Path) -> list[str]:
    """Ten agents in one repository: who has what, a part that was given on, and who waits for whom."""
    shop, waits = folder / "shop", list[subprocess.Popen[str]]()
    shop.mkdir()
    subprocess.run(["git", "init", "--quiet", str(shop)], check=True)
    bus = Bus(folder, "")
    try:
        bus.say("--as", "eve", "join", "eve")
        for agent, words in TEN_AGENTS.items():
            command = ["--as", agent, "lease", "acquire", *words]
            if "--wait" in words:
                waits.append(bus.wait(*command, cwd=shop))
            else:
                said = " ".join(bus.say(*command, cwd=shop))
            if agent == "ann":
                lease = said.partition("LEASED ")[2].split()[0]
                bus.say(
                    "--as", "ann", "lease", "split", lease, "eve", "src/auth/form.py", "--for", "the form", cwd=shop
                )
        shown = bus.say("map", cwd=shop)
    finally:
        for each in waits:
            each.terminate()
            each.communicate()
        bus.down()
    steady = re.sub(r"(?<=since |waits )\ds", "8s", "\n".join(shown))
    steady = re.sub(r"(?<=since |waits )\d\ds", "18s", steady)
    return re.sub(r"(?<=m4|m5)\ds(?= left)", "0s", steady).split("\n")


def _two_ports() -> int:
    """N, where the ports N1 and N2 are free."""
    for base in range(3100, 3200):
        try:
            for port in (base * 10 + 1, base * 10 + 2):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return base
    raise SystemExit("picture: no two ports are free: nothing is drawn")


def doctor(folder: Path) -> list[str]:
    """A home whose database was lost, that is open to others, and whose configuration has a slip of the pen."""
    bus = Bus(folder, "[resources.gpu]\n")
    try:
        bus.say("--as", "trainer", "request", "gpu", "--for", "a long night")
    finally:
        bus.down()
    (bus.home / "bus.db").unlink()
    (bus.home / "bus.toml").write_text(
        '[resources.gpu]\n\n[resources.server-loop]\nstart = "npm run dev"\nport = [7080]\n'
    )
    bus.home.chmod(0o755)
    shown = re.sub(r"Python [\d.]+, SQLite [\d.]+", "Python 3, SQLite 3", "\n".join(bus.say("doctor")))
    return [piece for line in _steady(shown).split("\n") for piece in _wrapped(line)]


def _steady(printed: str) -> str:
    """Without what differs from run to run."""
    for number, pid in enumerate(dict.fromkeys(re.findall(r"(?:pid|process|kill -9) (\d+)", printed)), start=1):
        printed = re.sub(rf"\b{pid}\b", str(4100 + number), printed)
    printed = re.sub(r"(?<=since )\ds|(?<=\()\ds(?=\))", "5s", printed)  # as wide as it was: columns stay columns
    return re.sub(r"(?<=since )\d\ds|(?<=\()\d\ds(?=\))", "15s", printed)


def _wrapped(line: str) -> Iterator[str]:
    while len(line) > COLUMNS:
        at = line.rfind(" ", 0, COLUMNS) + 1 or COLUMNS
        yield line[:at].rstrip()
        line = "  " + line[at:]
    yield line


def draw(shown: list[str], title: str) -> str:
    """An SVG of a terminal that shows these lines."""
    width = round(COLUMNS * CELL_PX + 2 * EDGE_PX)
    height = BAR_PX + len(shown) * LINE_PX + EDGE_PX
    rows = []
    for number, line in enumerate(shown):
        y = BAR_PX + (number + 0.75) * LINE_PX
        column = 0
        for style, text in _spans(line):
            if text.strip():
                start = column + len(text) - len(text.lstrip())
                words = text.strip()
                rows.append(
                    f'<text x="{EDGE_PX + start * CELL_PX:.1f}" y="{y:g}" textLength="{len(words) * CELL_PX:.1f}"'
                    f"{f' class={chr(34)}{style}{chr(34)}' if style else ''}>{escape(words)}</text>"
                )
            column += len(text)
    dots = "".join(
        f'<circle cx="{EDGE_PX + 6 + 20 * n}" cy="19" r="6" fill="{colour}"/>'
        for n, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">\n'
        "  <!-- Made by scripts/picture from what was really printed. Folder, port and process ids are put as … or a "
        "round number. -->\n"
        f"  <style>{STYLE}  </style>\n"
        f'  <rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="9" fill="#131b2c" stroke="#46536b"/>\n'
        f"  {dots}\n"
        f'  <text x="{width / 2:g}" y="24" text-anchor="middle" class="dim">{escape(title)}</text>\n  '
        + "\n  ".join(rows)
        + "\n</svg>\n"
    )


def _spans(line: str) -> Iterator[tuple[str, str]]:
    """A line in pieces, each with its style."""
    if line.startswith("# "):
        yield "note", line
        return
    command = re.match(r"(\(\S+\) )?(\$ )(.*)", line)
    if command:
        yield "place", command[1] or ""
        yield "prompt", command[2]
        yield "strong", command[3]
        return
    word, blank, rest = line.partition(" ")
    if word in WORDS:
        yield WORDS[word], word
        yield WORDS[word] if WORDS[word] in {"dim", "strong"} else "", blank + rest
    else:
        yield "", line


def main() -> int:
    words = sys.argv[1:]
    printed = Path(words[1]).read_text() if words[:1] == ["--from"] and len(words) == 2 else transcript()
    drawn = {"demo": (lines(printed), "scripts/demo - one dev server, three worktrees")}
    for name, scene, title in (
        ("pool", pool, "bus status - two servers, three agents"),
        ("doctor", doctor, "bus doctor - a home that is broken"),
        ("map", ten_agents, "bus map - ten agents in one repository"),
    ):
        with tempfile.TemporaryDirectory(prefix="interlock-picture-") as folder:
            drawn[name] = (scene(Path(folder)), title)
    for name, (shown, title) in drawn.items():
        (DOCS / f"{name}.svg").write_text(draw(shown, title))
        print(f"drawn: docs/{name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
