"""Tailing: the event log, read by a cursor. Nothing piles up for a slow reader: it is read on when it has read."""

from collections.abc import Callable
from typing import Any

import anyio

from interlock.coordinator import views
from interlock.coordinator.journal import Journal, numbered
from interlock.coordinator.session import Session
from interlock.protocol.control import EventsReply, Tail
from interlock.protocol.limits import TAIL_RECORDS_A_READ

BACKLOG_BYTES_MAX = 512 * 1024  # a follower that is this far behind gets no more until it has read


async def tail(
    journal: Journal, session: Session, question: Tail, key: str, say: Callable[[EventsReply], None]
) -> None:
    """Say the events after a cursor, and go on for ever where the question is to follow.

    Args:
        key: of the only resource to show; "" for all.
        say: takes what was read, with the cursor to go on from.
    """
    through = min(question.since, journal.world.seq)
    if through < 0:
        through = max(0, journal.world.seq - question.last) if question.last else 0
    while not session.closed.is_set():
        for record in await journal.read(through, TAIL_RECORDS_A_READ):
            events = list[dict[str, Any]]()
            for seq, actor, event in numbered(record, through):
                through = seq
                view = views.event_view(seq, record.at_ms, actor, event)
                if key in {"", actor} and question.event_type in {"", view["type"]}:
                    events.append(view)
            if events:
                say(EventsReply(tuple(events), through))
                await session.drained(BACKLOG_BYTES_MAX)
        if through >= journal.world.seq and not question.follow:
            say(EventsReply((), through, True))
            return
        while not session.closed.is_set() and through >= journal.world.seq:
            await _commit_or_end(journal, session)


async def _commit_or_end(journal: Journal, session: Session) -> None:
    """Return at the next commit, or when the session ends."""
    async with anyio.create_task_group() as tasks:

        async def ended() -> None:
            await session.closed.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(ended)
        await journal.committed()
        tasks.cancel_scope.cancel()
