"""The ground: how a repository's paths are as its disk has them. The port; an adapter fills it."""

from collections.abc import Sequence
from typing import Protocol

from interlock.coordinator.repositories import Place
from interlock.protocol.claim import Claim, parse_claim


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


class NoGround:
    """Ground of a bus without a disk: paths are what they are called."""

    async def claims(self, place: Place, base: str, texts: Sequence[str]) -> tuple[Claim, ...]:
        return tuple(parse_claim(text) for text in texts)
