"""The sampler: what a supervisor and its home take up, seen from outside, and what the bus counts of itself.

It reads /proc and the home's folders, and asks HEALTH over the socket; the database is only ever looked at with stat.
"""

import contextlib
import json
import os
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil

Sample = dict[str, float]
ASK_S = 5.0


def sample(home: Path) -> Sample | None:
    """All rows; None where no supervisor answers just now."""
    try:
        with _asked(home) as counts:  # its own connection is always in the sample, never now and then
            process = psutil.Process(int(counts.pop("pid")))
            return {**_process(process), **_database(home), **_files(home), **counts}
    except (OSError, ValueError, KeyError, psutil.Error):
        return None


@contextlib.contextmanager
def _asked(home: Path) -> Iterator[Sample]:
    """What the supervisor counts, by the names of its HEALTH answer, and its pid. At the end it has seen us go."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ASK_S)
        connection.connect(str(home / "bus.sock"))
        connection.sendall(b'{"id":"sample","to":"supervisor","body":{"type":"HEALTH"}}\n')
        with connection.makefile("rb") as lines:
            body = json.loads(lines.readline())["body"]
            yield {"pid": body["pid"], **{f"bus: {name}": count for name, count in body["counts"].items()}}
            connection.shutdown(socket.SHUT_WR)
            lines.read()


def _process(process: psutil.Process) -> Sample:
    rows: Counter[str] = Counter()
    folder = f"/proc/{process.pid}/fd"
    for fd in os.listdir(folder):
        try:
            rows[f"descriptors: {_kind(os.readlink(f'{folder}/{fd}'))}"] += 1
        except OSError:
            continue
    return {
        **rows,
        "threads": process.num_threads(),
        "children": len(process.children()),
        "memory MB": process.memory_info().rss / 2**20,
    }


def _kind(target: str) -> str:
    """Sockets, pipes, one each for the kernel's own things such as [pidfd]; files by name, so that a second shows."""
    kind, colon, rest = target.partition(":")
    if kind == "anon_inode":
        return rest.strip("[]")
    return kind if colon else f"file {Path(target).name}" if target.startswith("/") else target


def _database(home: Path) -> Sample:
    return {
        "database MB": os.stat(home / "bus.db").st_size / 2**20,
        "database log MB": os.stat(home / "bus.db-wal").st_size / 2**20,
    }


def files_of(home: Path, row: str) -> list[str]:
    """The files that such a row counts, newest last."""
    paths = [path for each, path in _each_file(home) if each == row]
    return [str(path.relative_to(home)) for path in sorted(paths, key=lambda path: path.lstat().st_mtime)]


def _files(home: Path) -> Sample:
    """Files in each folder of the home; those of all agents' inboxes together."""
    rows: Counter[str] = Counter(row for row, _ in _each_file(home))
    return {**rows, "log MB": sum(each.stat().st_size for each in (home / "log").iterdir()) / 2**20}


def _each_file(home: Path) -> Iterator[tuple[str, Path]]:
    for folder, _, names in os.walk(home):
        parts = Path(folder).relative_to(home).parts
        where = "/".join(("inboxes", "…", *parts[2:3]) if parts[:1] == ("inboxes",) and len(parts) > 1 else parts[:1])
        for name in names:
            yield f"files: {where or 'home'}", Path(folder, name)
