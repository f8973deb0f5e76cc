"""Files that somebody hands in, read by the bus itself: their SHA-256 is what was there, and nobody's claim.

A link is followed to the file that it leads to, which is the one that is named. Looked at again, no link is followed:
what has become one is not the file that was handed in. It waits for no pipe and no device.
"""

import hashlib
import os
import stat

from interlock.adapters.small_files import SAFE
from interlock.coordinator.ground import NoFile
from interlock.protocol.limits import REPORTED_BYTES_MAX
from interlock.protocol.task_state import FileFact
from interlock.protocol.visible import one_sentence

PIECE_BYTES = 1024 * 1024
OF_THE_SYSTEM = ("/proc/", "/sys/")  # what stands there is made up when it is read


def files_of(top: str, base: str, names: tuple[str, ...], within: bool = False) -> tuple[FileFact, ...]:
    """Files as they are now, each once. Args: as of Ground.files. Raises NoFile."""
    found: dict[str, FileFact] = {}
    left = REPORTED_BYTES_MAX
    for name in names:
        try:
            if "\0" in name or not name:
                raise ValueError
            real = os.path.realpath(os.path.join(base, name))
            if within and not _is_in(top, real):
                raise NoFile(f"{one_sentence(name)} is outside of the worktree: bus task report can name it")
            if real.startswith(OF_THE_SYSTEM):
                raise OSError(0, "it is the system's, and no file of a disk")
            sha256, size = _read(real, left)
        except FileNotFoundError:
            raise NoFile(f"{one_sentence(name)} does not exist: report what is there, or name it as a gap") from None
        except ValueError:
            raise NoFile("the name of a file is empty, or holds a NUL: name what was made") from None
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise NoFile(f"{one_sentence(name)} cannot be read ({why.lower()}): report a regular file") from None
        left -= size
        path = os.path.relpath(real, top) if _is_in(top, real) else real
        found[path] = FileFact(path, sha256, size)
    return tuple(found.values())


def look_at(top: str, paths: tuple[str, ...]) -> tuple[FileFact, ...]:
    """The same again, of paths as they were found; without a hash where such a file is not there any more."""
    found = []
    for path in paths:
        sha256, size, place = "", 0, os.path.join(top or "/", path)
        try:
            if os.path.realpath(place) == place:  # else a link has been put in its way
                sha256, size = _read(place, REPORTED_BYTES_MAX)
        except (OSError, ValueError):
            pass
        found.append(FileFact(path, sha256, size))
    return tuple(found)


def _is_in(top: str, real: str) -> bool:
    return bool(top) and real.startswith(top.rstrip("/") + "/")


def _read(path: str, bytes_max: int) -> tuple[str, int]:
    """A regular file's SHA-256 and size (bytes). Raises OSError."""
    fd = os.open(path, os.O_RDONLY | SAFE | os.O_NOFOLLOW)
    try:
        seen = os.fstat(fd)
        if not stat.S_ISREG(seen.st_mode):
            raise OSError(0, "it is no regular file")
        digest, left = hashlib.sha256(), bytes_max
        too_large = f"all files of a report have {REPORTED_BYTES_MAX // 1024**2} MiB at most: report one with its hash"
        if seen.st_size > left:
            raise OSError(0, too_large)
        while piece := os.read(fd, PIECE_BYTES):
            left -= len(piece)
            if left < 0:  # it grows while it is read
                raise OSError(0, too_large)
            digest.update(piece)
        return digest.hexdigest(), bytes_max - left
    finally:
        os.close(fd)
