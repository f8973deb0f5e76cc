"""Checks of inbox folders: whose they are, what was no message, what nobody has taken in, what streams have left."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from shlex import quote

from interlock.adapters.doctor.scene import Finding, Scene
from interlock.adapters.folders import OF_AGENT, OF_COORDINATOR
from interlock.adapters.record_lock import holder
from interlock.adapters.small_files import read_regular
from interlock.protocol.names import COORDINATOR
from interlock.protocol.visible import visible

WAITS_S = 120.0  # a post is taken in within seconds; one that is not whole is rejected after a minute
AGENTS_LOOKED_AT = 1_024
FILES_LOOKED_AT = 4_096  # of one directory
NAMED_MAX = 8
WHY_BYTES_MAX = 512


def folders(scene: Scene) -> Iterator[Finding]:
    """Each is a real directory of ours that nobody else can write to: else what lies there is not looked at."""
    inboxes = scene.home.root / "inboxes"
    inner = [path / name for path in _agents(scene) for name in _names(path)]
    found = [finding for path in (inboxes, *_agents(scene), *inner) if (finding := _wrong(path, scene))]
    yield from found[:NAMED_MAX]


def rejected(scene: Scene) -> Iterator[Finding]:
    """Files that were no messages."""
    for folder in _agents(scene):
        path = folder / "rejected"
        files = [entry for entry in _files(path) if not entry.name.endswith(".why")]
        if files:
            last = max(files, key=_changed_s)
            why = ""
            with suppress(OSError):
                why = read_regular(f"{last.path}.why", WHY_BYTES_MAX).decode("utf-8", "replace").strip()
            count = "1 file" if len(files) == 1 else f"{len(files)} files"
            what = f"{count} posted in {folder} were no messages, the last ({visible(last.name)}): {visible(why)}"
            yield Finding("rejected", what, f"rm -r {quote(str(path))}, once read and posted again")


def waiting_posts(scene: Scene) -> Iterator[Finding]:
    """Files that nobody has taken in."""
    for folder in _agents(scene):
        is_coordinator = folder.name == COORDINATOR
        path = folder / ("new" if is_coordinator else "out")
        old = [entry for entry in _files(path) if scene.now_s - _changed_s(entry) > WAITS_S]
        if old:
            minutes = round((scene.now_s - min(map(_changed_s, old))) / 60)
            count = "1 file" if len(old) == 1 else f"{len(old)} files"
            what = f"{count} posted in {path} wait since up to {minutes} min: nobody has taken them in"
            again = "bus down && bus up" if is_coordinator else f"bus join {folder.name} --files"
            yield Finding("posts", what, again if scene.asked is not None else "bus up")


def relays(scene: Scene) -> Iterator[Finding]:
    """What a command in a sandbox has left behind, at whose end nobody lives."""
    for folder in _agents(scene):
        left = [entry.path for entry in _entries(folder / "relay") if _is_left(entry, scene.now_s)]
        if left:
            what = f"{len(left)} streams of commands lie in {folder / 'relay'}, whose commands are gone"
            yield Finding("relays", what, f"rm -r {' '.join(map(quote, left[:NAMED_MAX]))}")


# --- straight helpers -----------------------------------------------------------------------------
def _agents(scene: Scene) -> list[Path]:
    inboxes = scene.home.root / "inboxes"
    return [inboxes / entry.name for _, entry in zip(range(AGENTS_LOOKED_AT), _entries(inboxes), strict=False)]


def _names(folder: Path) -> tuple[str, ...]:
    """The directories in a folder; none where that is a link, which is not followed."""
    if folder.is_symlink() or not folder.is_dir():
        return ()
    return OF_COORDINATOR if folder.name == COORDINATOR else OF_AGENT


def _wrong(path: Path, scene: Scene) -> Finding | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    there = quote(str(path))
    aside = f"mv {there} {quote(str(scene.home.root.parent))}"
    if not stat.S_ISDIR(found.st_mode):
        return Finding("inboxes", f"{path} is no folder but a link or a file: nothing in it is read", aside)
    if found.st_uid not in {os.geteuid(), 0}:
        what = f"{path} belongs to user {found.st_uid}, not to you: nothing in it is read"
        return Finding("inboxes", what, f"sudo chown -R $(id -u) {there}")
    if found.st_mode & 0o022:
        what = f"others can write to {path} (mode {stat.S_IMODE(found.st_mode):03o}), and so speak as its agent"
        return Finding("inboxes", what, f"chmod 700 {there}")
    return None


def _entries(path: Path) -> list["os.DirEntry[str]"]:
    if path.is_symlink():
        return []
    try:
        with os.scandir(path) as entries:
            return sorted((entry for _, entry in zip(range(FILES_LOOKED_AT), entries, strict=False)), key=str)
    except OSError:
        return []


def _files(path: Path) -> list["os.DirEntry[str]"]:
    return [entry for entry in _entries(path) if entry.is_file(follow_symlinks=False)]


def _changed_s(entry: "os.DirEntry[str]") -> float:
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except OSError:
        return float("inf")


def _is_left(entry: "os.DirEntry[str]", now_s: float) -> bool:
    """Nobody holds the lock by which its command lives, and not since a moment ago."""
    if not entry.is_dir(follow_symlinks=False) or now_s - _changed_s(entry) < WAITS_S:
        return False
    try:
        fd = os.open(f"{entry.path}/up", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        return holder(fd) is None
    finally:
        os.close(fd)
