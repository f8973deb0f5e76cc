"""A ticket: one place in a queue, and later the hold that comes of it."""

import msgspec

from interlock.protocol.identity import Identity


class Ticket(msgspec.Struct, frozen=True, omit_defaults=True):
    """One place in the queue, and later the hold that comes of it.

    Args:
        request_id: its name, for ever.
        incarnation: of the agent, when it asked.
        arrival: the order of service; kept over restarts, retries and missed grants.
        worktree: real path, or "-".
        called: what the agent called the resource.
        asked_ms: wall clock.
        run: belongs to one `bus run`.
        process: it lives and dies with that one: the wrapper of a `bus run`, or the program that attends it.
        absent: did not notice its grant; passed over until it is heard of again.
        overdue: was absent when the absent were last looked at; at the next look its place ends.
        misses: grants in a row that it did not notice.
        also: as whom its agent counted besides, when it asked.
        task: of its agent, that it is for.
        together: keys of all that it is granted together, in key order; one such ticket waits at each of them. Empty:
            it is for this resource alone.
        passed: how often one that came later was granted what this one could have had.
    """

    request_id: str
    agent: str
    incarnation: int
    arrival: int
    worktree: str
    purpose: str
    called: str
    asked_ms: int
    time_ms: int | None = None
    run: bool = False
    process: Identity | None = None
    absent: bool = False
    overdue: bool = False
    misses: int = 0
    also: tuple[str, ...] = ()
    task: str = ""
    together: tuple[str, ...] = ()
    passed: int = 0

    def is_of(self, participants: tuple[str, ...]) -> bool:
        """Whether one of them is who its agent counts as."""
        return self.agent in participants or any(each in participants for each in self.also)
