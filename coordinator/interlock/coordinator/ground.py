"""The ground: how a repository's paths are as its disk has them. The port; an adapter fills it."""

from collections.abc import Sequence
from typing import Protocol

from interlock.coordinator.repositories import Place
from interlock.protocol.claim import Claim, parse_claim
from interlock.protocol.task_state import FileFact


class Ground(Protocol):
    """What the coordinator needs of the disk to know which paths are meant."""

    async def claims(self, place: Place, base: str, texts: Sequence[str]) -> tuple[Claim, ...]:
        """Claims as they lie in the repository, whatever spelling they were named by.

        Args:
            place: the repository, and the worktree that they were named in.
            base: real path of the directory in it that they are relative to.
            texts: as an agent wrote them.

        Raises:
            BadClaim: one is outside of the repository, or no path; the text says what to write instead.
        """

    async def files(self, top: str, base: str, names: Sequence[str], *, within: bool = False) -> tuple[FileFact, ...]:
        """Files as they are now, read to their end.

        Args:
            top: of the worktree that they are in; "" for none. base: the directory that names are relative to.
            within: of others nothing is looked at.

        Raises:
            NoFile: one is not there, is no regular file, cannot be read, or is too large.
        """

    async def look(self, top: str, paths: Sequence[str]) -> tuple[FileFact, ...]:
        """The same of paths as `files` gave them; one that cannot be read any more has no hash."""


class NoFile(Exception):
    """It cannot be read; the text is one sentence."""


class NoGround:
    """Ground of a bus without a disk: paths are what they are called."""

    async def claims(self, place: Place, base: str, texts: Sequence[str]) -> tuple[Claim, ...]:
        return tuple(parse_claim(text) for text in texts)

    async def files(self, top: str, base: str, names: Sequence[str], *, within: bool = False) -> tuple[FileFact, ...]:
        if names:
            raise NoFile(f"{names[0]} is not there: this bus has no disk")
        return ()

    async def look(self, top: str, paths: Sequence[str]) -> tuple[FileFact, ...]:
        return tuple(FileFact(path, "") for path in paths)
