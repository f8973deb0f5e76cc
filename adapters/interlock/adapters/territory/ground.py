"""The ground: a repository's paths as the disk has them, whatever spelling they were named by.

    src/../src/./auth, /real/or/linked/way/src/auth, SRC/Auth where the disk folds case   ──▶   src/auth

What lies outside of the worktree, in git's own folder or in a repository within, is refused. It reads names and links,
and the content of a file of which lines are claimed; it changes nothing and calls nobody.
"""

import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Iterator, Sequence

import anyio
import msgspec

from interlock.adapters.reported_files import files_of, look_at
from interlock.adapters.small_files import read_regular
from interlock.coordinator.repositories import Place
from interlock.protocol.claim import BadClaim, Claim, parse_claim
from interlock.protocol.limits import LEASED_FILE_BYTES_MAX, READERS_MAX
from interlock.protocol.task_state import FileFact
from interlock.protocol.visible import visible

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_MAGIC = re.compile(r"[*?\[\]{}\\]")
_LINES = re.compile(r":[0-9]+(?:-[0-9]+)?\Z")


class DiskGround:
    """Ground of this machine's disk."""

    def __init__(self) -> None:
        self._limiter: anyio.CapacityLimiter | None = None  # which belongs to a running loop

    async def claims(self, place: Place, base: str, texts: Sequence[str]) -> tuple[Claim, ...]:
        return await anyio.to_thread.run_sync(claims_of, place.worktree, base, tuple(texts))

    async def files(self, top: str, base: str, names: Sequence[str], *, within: bool = False) -> tuple[FileFact, ...]:
        return await anyio.to_thread.run_sync(files_of, top, base, tuple(names), within, limiter=self._readers())

    async def look(self, top: str, paths: Sequence[str]) -> tuple[FileFact, ...]:
        return await anyio.to_thread.run_sync(look_at, top, tuple(paths), limiter=self._readers())

    def _readers(self) -> anyio.CapacityLimiter:
        """Threads of their own: whoever reports large files holds up nobody who asks for a lease."""
        self._limiter = self._limiter or anyio.CapacityLimiter(READERS_MAX)
        return self._limiter


def claims_of(top: str, base: str, texts: Sequence[str]) -> tuple[Claim, ...]:
    """Claims as they lie in a worktree. Args: top, base: real paths. Raises BadClaim."""
    found = [claim for text in texts for claim in _claims(top, base, text)]
    return tuple(dict.fromkeys(found))


def normal(path: str) -> str:
    """A path's one spelling: composed, as git has it on a disk that decomposes."""
    return unicodedata.normalize("NFC", path)


# --- straight helpers ---------------------------------------------------------------------
def _claims(top: str, base: str, text: str) -> Iterator[Claim]:
    if not text:  # such as "$PATHS" that nobody set: it is not the whole repository
        raise BadClaim("the pattern is empty: '**' is the whole repository")
    turned = text.replace("\\", "/")
    if _DRIVE.match(text) or (turned != text and "/" not in text and os.path.lexists(_join(base, turned))):
        raise BadClaim(f"'{visible(text)}' has a drive or backslashes: write it relative to the repository, with '/'")
    lines = _LINES.search(text)
    if lines is not None and os.path.lexists(_join(base, text)):
        lines = None  # a file of that very name
    plain = text[: lines.start()] if lines is not None else text
    head, magic = (plain, "") if os.path.lexists(_join(base, plain)) else _split(plain)
    for path in _real(top, base, head, text):
        if not path and not magic:
            yield Claim("**")
            continue
        pattern = "/".join(filter(None, (_escaped(path), magic)))
        claim = parse_claim(normal(pattern) + (lines[0] if lines is not None else ""))
        yield claim if magic else _with_blob(claim, os.path.join(top, path))


def _split(pattern: str) -> tuple[str, str]:
    """The directories in front of the first wildcard, as a path; and the rest, as a pattern."""
    names = pattern.split("/")
    at = next((number for number, name in enumerate(names) if _MAGIC.search(name)), len(names))
    head, rest = "/".join(names[:at]), "/".join(names[at:])
    if head == "" and at and rest:
        head = "/"
    if any(name in {".", ".."} for name in names[at:]):
        raise BadClaim(f"'{visible(pattern)}' has '.' or '..' behind a wildcard: write the path without them")
    return head, rest


def _join(base: str, path: str) -> str:
    return os.path.join(base, path.removeprefix(":/")) if "\0" not in path else base


def _real(top: str, base: str, path: str, text: str) -> list[str]:
    """Where a path really is, from the top; a link is claimed with what it leads to, for each can be changed."""
    start = os.path.join(top, path.removeprefix(":/")) if path.startswith(":/") else os.path.join(base, path)
    parent, name = os.path.split(start.rstrip("/") or "/")
    if name in {"", ".", ".."}:
        parent, name = start, ""
    itself = os.path.join(os.path.realpath(parent), name) if name else os.path.realpath(start)
    found = [_within(top, itself, text)]
    if name and os.path.islink(itself):
        target = os.path.realpath(itself)
        if target == top or target.startswith(top + "/"):
            found.append(_within(top, target, text))
    return found


def _within(top: str, real: str, text: str) -> str:
    """A path from the top, in the disk's own case. Raises BadClaim."""
    if real == top:
        return ""
    if not real.startswith(top.rstrip("/") + "/"):
        raise BadClaim(f"'{visible(text)}' is outside of {visible(top)}: leases are of that repository's paths")
    names = real[len(top.rstrip("/")) + 1 :].split("/")
    folder, found = top, list[str]()
    for called in names:
        name = _as_on_disk(folder, called)
        if name.casefold() == ".git":
            raise BadClaim(f"'{visible(text)}' is in git's own folder: what git keeps there needs no lease")
        folder = os.path.join(folder, name)
        found.append(name)
        if os.path.lexists(os.path.join(folder, ".git")):
            raise BadClaim(f"'{visible(text)}' is in a repository of its own: go into that one and ask from there")
    return "/".join(found)


def _as_on_disk(folder: str, name: str) -> str:
    """A name's case as the disk has it, where the disk takes others for it too."""
    other = name.swapcase()
    if other == name:
        return name
    try:
        if not os.path.samestat(os.lstat(os.path.join(folder, name)), os.lstat(os.path.join(folder, other))):
            return name
        alike = [each for each in os.listdir(folder) if each.casefold() == name.casefold()]
    except OSError:
        return name
    return alike[0] if len(alike) == 1 else name


def _escaped(path: str) -> str:
    return _MAGIC.sub(lambda found: "\\" + found[0], path)


def _with_blob(claim: Claim, path: str) -> Claim:
    """A file is known as one by the object id that git would give its content as it is now.

    A directory has none, nor what is not there, or cannot be read, or is too large.
    """
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return claim
        data = read_regular(path, LEASED_FILE_BYTES_MAX, follow=False)
    except OSError:
        return claim
    if len(data) > LEASED_FILE_BYTES_MAX:
        return claim
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    return msgspec.structs.replace(claim, blob=blob)
