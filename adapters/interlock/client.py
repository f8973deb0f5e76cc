"""The Python door: `from interlock.client import Bus, BlockingBus`.

    async with Bus(agent="login-agent") as bus:
        async with bus.hold("server-loop", worktree="/work/login", purpose="try the login page", time="20m") as grant:
            await visit(grant.url)

Over anyio, so on asyncio and on trio; `BlockingBus` has the same words for plain code. docs/guide/python.md has more.
"""

from typing import TYPE_CHECKING, Any

from interlock.adapters.client.bus import Bus
from interlock.adapters.client.durations import Duration
from interlock.adapters.client.errors import BusError, BusUnavailable, Lost, Refused
from interlock.adapters.client.feeds import Inbox, Message, Tail
from interlock.adapters.client.grants import Grant, Loss
from interlock.adapters.client.holds import Hold
from interlock.protocol.control import Holding, MeReply
from interlock.protocol.messages import Extended, Queued, Sent

if TYPE_CHECKING:
    from interlock.adapters.client.blocking import BlockingBus, BlockingGrant, BlockingHold

__all__ = [
    "BlockingBus", "BlockingGrant", "BlockingHold", "Bus", "BusError", "BusUnavailable", "Duration", "Extended",
    "Grant", "Hold", "Holding", "Inbox", "Loss", "Lost", "MeReply", "Message", "Queued", "Refused", "Sent", "Tail",
]  # fmt: skip


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The blocking half, once somebody wants it: it brings threads along."""
        if name in {"BlockingBus", "BlockingGrant", "BlockingHold"}:
            from interlock.adapters.client import blocking

            return getattr(blocking, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
