"""A policy: who decides who is next at a resource, and whose commands may not run without it."""

from enum import StrEnum

import msgspec


class Profile(StrEnum):
    """Which commands of a participant need the resource: those of build tools, or every one."""

    BUILD = "build"
    STRICT = "strict"

    def takes(self, recognised: bool) -> bool:
        """Whether a command needs it. Args: recognised: `profiles.py` knows it as a build."""
        return recognised or self is Profile.STRICT


class Policy(msgspec.Struct, frozen=True, omit_defaults=True):
    """The policy of one resource.

    Args:
        epoch: grows with each change; what was reserved under an older one is stale.
        controller: the agent that chooses the next ticket.
        participants: whose commands it covers, in order, each once; at most PARTICIPANTS_MAX.
    """

    epoch: int
    controller: str
    participants: tuple[str, ...]
    profile: Profile = Profile.STRICT
