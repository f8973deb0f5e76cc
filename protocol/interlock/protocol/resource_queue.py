"""The queue of a resource: its tickets in order of service, found by their id, by their agent, or by who is next.

It never changes: a change makes a new queue, at the same small cost however many wait (ADR 24).
"""

from collections.abc import Iterable, Iterator

from interlock.protocol.line import EMPTY_LINE, Line
from interlock.protocol.resource_ticket import Ticket
from interlock.protocol.table import Table


class Queue:
    """Args: tickets: in any order; the order of service is that of their arrival."""

    __slots__ = ("_absent", "_by_agent", "_order", "_present", "_sets", "_tickets")

    def __init__(self, tickets: Iterable[Ticket] = ()) -> None:
        by_id: dict[str, Ticket] = {}
        by_agent: dict[str, tuple[str, ...]] = {}
        for ticket in tickets:
            by_id[ticket.request_id] = ticket
            by_agent[ticket.agent] = (*by_agent.get(ticket.agent, ()), ticket.request_id)
        self._tickets, self._by_agent = Table(by_id), Table(by_agent)
        self._order = Line(map(_place, by_id.values()))
        self._present = Line(_place(ticket) for ticket in by_id.values() if not ticket.absent)
        self._absent = Line(_place(ticket) for ticket in by_id.values() if ticket.absent)
        self._sets = Line(_place(ticket) for ticket in by_id.values() if ticket.together)

    # --- changes: each makes a new queue --------------------------------------------------------
    def add(self, ticket: Ticket) -> "Queue":
        """With this ticket, at the place that its arrival gives it."""
        place = _place(ticket)
        if not self:  # nearly always: what is free is asked for, and granted in the same step
            order = EMPTY_LINE.add(place)
            by_agent = {ticket.agent: (ticket.request_id,)}
            present, absent = (EMPTY_LINE, order) if ticket.absent else (order, EMPTY_LINE)
            sets = order if ticket.together else EMPTY_LINE
            return _of(Table({ticket.request_id: ticket}), Table(by_agent), order, present, absent, sets)
        mine = (*self.of(ticket.agent), ticket.request_id)
        return _of(
            self._tickets.put(ticket.request_id, ticket),
            self._by_agent.put(ticket.agent, mine),
            self._order.add(place),
            self._present if ticket.absent else self._present.add(place),
            self._absent.add(place) if ticket.absent else self._absent,
            self._sets.add(place) if ticket.together else self._sets,
        )

    def replace(self, ticket: Ticket) -> "Queue":
        """With this ticket instead of the one of the same id, agent and arrival."""
        before, place = self._tickets[ticket.request_id], _place(ticket)
        present, absent = self._present, self._absent
        assert (before.agent, before.arrival) == (ticket.agent, ticket.arrival)
        if ticket.absent and not before.absent:
            present, absent = present.remove(place), absent.add(place)
        elif before.absent and not ticket.absent:
            present, absent = present.add(place), absent.remove(place)
        sets = self._sets.remove(place) if before.together and not ticket.together else self._sets
        return _of(self._tickets.put(ticket.request_id, ticket), self._by_agent, self._order, present, absent, sets)

    def remove(self, request_id: str) -> "Queue":
        """Without that ticket, which is in it."""
        ticket = self._tickets[request_id]
        if len(self) == 1:
            return EMPTY_QUEUE
        place = _place(ticket)
        mine = tuple(each for each in self.of(ticket.agent) if each != request_id)
        return _of(
            self._tickets.without(request_id),
            self._by_agent.put(ticket.agent, mine) if mine else self._by_agent.without(ticket.agent),
            self._order.remove(place),
            self._present if ticket.absent else self._present.remove(place),
            self._absent.remove(place) if ticket.absent else self._absent,
            self._sets.remove(place) if ticket.together else self._sets,
        )

    # --- reading --------------------------------------------------------------------------------
    def __getitem__(self, request_id: str) -> Ticket:
        return self._tickets[request_id]

    def get(self, request_id: str) -> Ticket | None:
        """The ticket of that id, if it waits here."""
        return self._tickets.get(request_id)

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._tickets

    def __len__(self) -> int:
        return len(self._tickets)

    def __iter__(self) -> Iterator[str]:
        """The ids, in order of service."""
        return iter(self._order)

    def values(self) -> Iterator[Ticket]:
        """The tickets, in order of service."""
        return (self._tickets[request_id] for request_id in self._order)

    def of(self, agent: str) -> tuple[str, ...]:
        """Ids of an agent's tickets."""
        return self._by_agent.get(agent, ())

    def first(self) -> str:
        """The id at the front; "" where nobody waits."""
        return self._order.first()

    def first_present(self) -> Ticket | None:
        """Whose turn it is: the first who is not absent."""
        return self._tickets.get(self._present.first())

    def absent(self) -> Iterator[Ticket]:
        """Who did not notice its grant, in order of service."""
        return (self._tickets[request_id] for request_id in self._absent)

    def sets(self) -> Iterator[Ticket]:
        """Those that are granted together with others elsewhere, in order of service."""
        return (self._tickets[request_id] for request_id in self._sets)

    def present(self) -> Iterator[Ticket]:
        """Those that are not absent, in order of service."""
        return (self._tickets[request_id] for request_id in self._present)

    def has_absent(self) -> bool:
        """Somebody did not notice its grant, and has not been heard of since."""
        return bool(self._absent.first())

    def absent_of(self, agent: str) -> list[str]:
        """Ids of those of an agent's tickets. Nearly always nobody is absent, and none of its tickets is looked at."""
        return [each for each in self.of(agent) if self._tickets[each].absent] if self.has_absent() else []

    def ahead_of(self, request_id: str) -> int:
        """How many stand before that ticket, which is in it."""
        return self._order.index(_place(self._tickets[request_id]))

    def __eq__(self, other: object) -> bool:
        return self._tickets == other._tickets if isinstance(other, Queue) else NotImplemented

    __hash__ = None  # type: ignore[assignment] # as of a dictionary

    def __repr__(self) -> str:
        return f"Queue({list(self.values())})"


# --- straight helpers -------------------------------------------------------------------------
def _place(ticket: Ticket) -> tuple[int, str]:
    return ticket.arrival, ticket.request_id


def _of(
    tickets: Table[str, Ticket], by_agent: Table[str, tuple[str, ...]], order: Line, present: Line, absent: Line,
    sets: Line,
) -> Queue:  # fmt: skip
    if not tickets:
        return EMPTY_QUEUE
    queue = Queue.__new__(Queue)
    queue._tickets, queue._by_agent, queue._order = tickets, by_agent, order
    queue._present, queue._absent, queue._sets = present, absent, sets
    return queue


EMPTY_QUEUE = Queue()  # as EMPTY of table.py
