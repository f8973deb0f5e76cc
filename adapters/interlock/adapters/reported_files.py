"""Files that somebody hands in, read by the bus itself: their SHA-256 is what was there, and nobody's claim.

A link at a path's end is followed, as whoever opens the file would; what it leads to is named. It waits for no pipe and
no device, and holds a piece of a file at a time.
"""

import hashlib
import os
import stat

from interlock.adapters.small_files import SAFE
from interlock.coordinator.ground import NoFile
from interlock.protocol.limits import FILE_REPORTED_BYTES_MAX
from interlock.protocol.task_state import FileFact
from interlock.protocol.visible import one_sentence

PIECE_BYTES = 1024 * 1024


def files_of(top: str, base: str, names: tuple[str, ...]) -> tuple[FileFact, ...]:
    """Files as they are now, each once. Args: as of Ground.files. Raises NoFile."""
    found: dict[str, FileFact] = {}
    for name in names:
        try:
            if "\0" in name or not name:
                raise ValueError
            real = os.path.realpath(os.path.join(base, name), strict=True)
            sha256, size = _read(real)
        except FileNotFoundError:
            raise NoFile(f"{one_sentence(name)} does not exist: report what is there, or name it as a gap") from None
        except ValueError:
            raise NoFile("the name of a file is empty, or holds a NUL: name what was made") from None
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise NoFile(f"{one_sentence(name)} cannot be read ({why.lower()}): report a regular file") from None
        path = os.path.relpath(real, top) if top and real.startswith(top.rstrip("/") + "/") else real
        found[path] = FileFact(path, sha256, size)
    return tuple(found.values())


def look_at(top: str, paths: tuple[str, ...]) -> tuple[FileFact, ...]:
    """The same again, of paths from the top or absolute ones; without a hash where one cannot be read any more."""
    found = []
    for path in paths:
        try:
            sha256, size = _read(os.path.join(top or "/", path))
        except (OSError, ValueError):
            sha256, size = "", 0
        found.append(FileFact(path, sha256, size))
    return tuple(found)


def _read(path: str) -> tuple[str, int]:
    """A regular file's SHA-256 and size (bytes). Raises OSError."""
    fd = os.open(path, os.O_RDONLY | SAFE)
    try:
        seen = os.fstat(fd)
        if not stat.S_ISREG(seen.st_mode):
            raise OSError(0, "it is no regular file")
        digest, size = hashlib.sha256(), 0
        while piece := os.read(fd, PIECE_BYTES):
            size += len(piece)
            if size > FILE_REPORTED_BYTES_MAX:
                raise OSError(0, f"it has more than {FILE_REPORTED_BYTES_MAX // 1024**3} GiB")
            digest.update(piece)
        return digest.hexdigest(), size
    finally:
        os.close(fd)
