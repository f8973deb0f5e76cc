"""Checks of a home's files: whose they are, what they are, and what does not belong there."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from interlock.adapters.doctor.scene import Finding, Scene
from interlock.adapters.paths import is_of_a_home
from interlock.adapters.state_folder import StateFolder

FOREIGN_NAMED_MAX = 8
DATABASE_HEADER_BYTES = 100
DATABASE_MAGIC = b"SQLite format 3\0"  # https://www.sqlite.org/fileformat.html, the header


def folders(scene: Scene) -> Iterator[Finding]:
    """Each folder is a real one, ours, and nobody else's."""
    home = scene.home
    for folder in (home.root, home.launches, home.logs, home.states, home.tokens):
        try:
            found = os.lstat(folder)
        except FileNotFoundError:
            continue
        if not stat.S_ISDIR(found.st_mode):
            yield Finding(
                "home", f"{folder} is no folder but a link or a file: the bus refuses it", f"mv {folder} {folder}.aside"
            )
        elif found.st_uid != os.geteuid():
            what = f"{folder} belongs to user {found.st_uid}, not to you: the bus refuses it"
            yield Finding("home", what, f"sudo chown -R $(id -u) {folder}")
        elif found.st_mode & 0o077:
            what = f"{folder} is open to others (mode {stat.S_IMODE(found.st_mode):03o})"
            yield Finding("home", what, f"chmod 700 {folder}")


def files(scene: Scene) -> Iterator[Finding]:
    """Each file is a regular one, and ours."""
    home = scene.home
    for path in (home.config, home.lock, home.down, home.database, Path(f"{home.database}-wal")):
        found = _lstat(path)
        if found is None:
            continue
        if stat.S_ISLNK(found.st_mode):
            what = f"{path} is a symbolic link, and none is followed here"
            yield Finding("home", what, f"cp --remove-destination $(readlink -f {path}) {path}")
        elif not stat.S_ISREG(found.st_mode):
            yield Finding("home", f"{path} is no regular file", f"mv {path} {path}.aside")
        elif found.st_uid != os.geteuid():
            yield Finding("home", f"{path} belongs to user {found.st_uid}, not to you", f"sudo chown $(id -u) {path}")


def foreign(scene: Scene) -> Iterator[Finding]:
    """What nobody who knows homes has put there."""
    try:
        names = sorted(os.listdir(scene.home.root))
    except OSError:
        return
    odd = [name for name in names if not is_of_a_home(name)]
    if odd:
        more = f" and {len(odd) - FOREIGN_NAMED_MAX} more" if len(odd) > FOREIGN_NAMED_MAX else ""
        what = f"{scene.home.root} holds what is not the bus's: {', '.join(map(repr, odd[:FOREIGN_NAMED_MAX]))}{more}"
        yield Finding("foreign", what, "move them elsewhere")


def configuration(scene: Scene) -> Iterator[Finding]:
    if scene.config_problem:
        kept = "the last good one stays in force" if scene.asked is not None else "the bus does not start"
        yield Finding("configuration", f"{scene.config_problem} ({kept})", f"${{EDITOR:-vi}} {scene.home.config}")


def database(scene: Scene) -> Iterator[Finding]:
    """As far as can be told from outside: only the supervisor opens it."""
    if scene.asked is not None or scene.lock_pid:
        return
    home = scene.home
    found, log = _lstat(home.database), _lstat(Path(f"{home.database}-wal"))
    is_empty = found is None or (stat.S_ISREG(found.st_mode) and found.st_size == 0)
    if is_empty and log is not None and log.st_size > 0:
        what = f"{home.database} is empty or gone, but its log is not: what it held last is in that log alone"
        yield Finding("database", what, "put its backup back, or: bus up --recover")
    elif is_empty and _has_state(scene):
        what = f"{home.database} is empty or gone: the next start recovers from {home.states.name}/, and grants nothing"
        yield Finding("database", what, "put its backup back, or: bus up")
    elif found is not None and stat.S_ISREG(found.st_mode) and not _is_whole(home.database, found.st_size):
        what = f"{home.database} is cut short, or no database"
        yield Finding("database", what, "put its backup back, or: bus up --recover")


def state_files(scene: Scene) -> Iterator[Finding]:
    """They can be written, and nothing stands in their place."""
    home = scene.home
    try:
        names = [entry.name for entry in os.scandir(home.states) if not entry.is_file(follow_symlinks=False)]
    except OSError:
        return
    for name in names[:FOREIGN_NAMED_MAX]:
        yield Finding(
            "state_files",
            f"{home.states / name} is a link or no regular file",
            f"mv {home.states / name} {home.root.parent}",
        )
    if scene.asked is not None and scene.asked.health["state_files"]:
        what = f"{scene.asked.health['state_files']}: after a loss of the database less would be known"
        yield Finding("state_files", what, f"ls -la {home.states}")


def _is_whole(database: Path, size: int) -> bool:
    """Its first page says what it is, and how many pages there are. Nobody has it open: no supervisor runs."""
    try:
        with open(database, "rb") as file:
            header = file.read(DATABASE_HEADER_BYTES)
    except OSError:
        return True  # that it cannot be read is said elsewhere
    if len(header) < DATABASE_HEADER_BYTES or not header.startswith(DATABASE_MAGIC):
        return False
    page = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    return size >= pages * (65_536 if page == 1 else page)


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _has_state(scene: Scene) -> bool:
    try:
        found = StateFolder(scene.home).read()
    except OSError:
        return False
    return found.mark is not None or bool(found.files) or bool(scene.survivors)
