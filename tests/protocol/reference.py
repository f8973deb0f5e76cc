"""A second opinion on locks: a naive model of the contract's sentences, written apart from the machine.

It knows lists and loops and no word of the machine's code: who owns it, who waits in which order, who is asked when.
`test_reference.py` plays both.
"""

from dataclasses import dataclass

POLL, CLAIM, TIME_MAX, LATE, RESERVED = 180_000, 120_000, 1_800_000, 1_000, 30_000


@dataclass(eq=False)
class Place:
    agent: str
    arrival: int
    declared: int | None = None
    absent: bool = False
    silent_since: int = 0
    missed: int = 0


@dataclass(eq=False)
class Owner:
    place: Place
    noticed: bool
    respected_until: int
    claim_due: int | None = None
    poll_due: int | None = None
    silent_polls: int = 0
    given_under: int = 0  # the number of the policy whose controller gave it
    unused_until: int | None = None
    commands: int = 0


class Reference:
    """The contract, read aloud."""

    def __init__(self, units: int) -> None:
        self.owners: list[Owner | None] = [None] * units
        self.line: list[Place] = []
        self.polled: list[Owner] = []
        self.arrivals = 0
        self.look_due: int | None = None
        self.last_look = 0
        self.doubtful: set[int] = set()  # numbers of units that a person must confirm first
        self.units_to_be, self.waits_for_new = units, False
        self.enrolled: list[str] | None = None  # of the policy, if there is one
        self.policies, self.blocked = 0, False

    def owner(self, agent: str) -> Owner | None:
        for owner in self.owners:
            if owner is not None and owner.place.agent == agent:
                return owner
        return None

    def place(self, agent: str) -> Place | None:
        for place in self.line:
            if place.agent == agent:
                return place
        return None

    def request(self, agent: str, time: int | None, now: int) -> str:
        self.heard(agent)
        owner, place = self.owner(agent), self.place(agent)
        if self.enrolled is not None and agent not in self.enrolled:
            self.serve(now)
            return "REFUSED"
        if owner is not None:
            if time is not None:
                owner.respected_until = now + min(time, TIME_MAX)
            self.serve(now)
            return "GRANTED"
        if place is None:
            self.arrivals += 1
            self.line.append(Place(agent, self.arrivals, time))
        elif time is not None:
            place.declared = time
        self.serve(now, asking=agent)
        return "GRANTED" if self.owner(agent) is not None else "QUEUED"

    def release(self, agent: str, now: int) -> str:
        owner = self.owner(agent)
        if owner is not None and owner.commands:
            return "REFUSED"
        if owner is not None:
            self.owners[self.owners.index(owner)] = None
            self.serve(now)
            return "RELEASED"
        return "CANCELLED" if self.leave(agent, now) else "REFUSED"

    def handover(self, agent: str, heir: str, now: int) -> str:
        owner = self.owner(agent)
        there = [place for place in self.line if not place.absent]
        if owner is None or self.owner(heir) is not None or (there and there[0].agent != heir):
            return "REFUSED"
        if self.enrolled is not None or owner.commands:
            return "REFUSED"
        if not there:
            if self.place(heir) is not None:
                return "REFUSED"
            self.arrivals += 1
            self.line.append(Place(heir, self.arrivals))
        given = self.owners.index(owner)
        self.owners[given] = None
        self.serve(now, given=given if not there else None)
        return "RELEASED"

    def cancel(self, agent: str, now: int) -> str:
        owner = self.owner(agent)
        if owner is not None and owner.given_under and not owner.commands:
            self.owners[self.owners.index(owner)] = None
            self.serve(now)
            return "CANCELLED"
        if owner is not None:
            self.heard(agent)
            self.serve(now)
            return "REFUSED"
        return "CANCELLED" if self.leave(agent, now) else "REFUSED"

    def leave(self, agent: str, now: int) -> bool:
        place = self.place(agent)
        if place is not None:
            self.line.remove(place)
        self.serve(now)
        return place is not None

    def extend(self, agent: str, time: int | None, now: int) -> str:
        owner = self.owner(agent)
        if owner is None:
            return "REFUSED"
        self.heard(agent)
        if time is not None:
            owner.respected_until = now + min(time, TIME_MAX)
        self.serve(now)
        return "EXTENDED"

    def gone(self, agent: str, now: int) -> None:
        owner = self.owner(agent)
        if owner is not None:
            self.owners[self.owners.index(owner)] = None
        self.leave(agent, now)

    def revoke(self, agent: str, now: int) -> str:
        """A person takes it from one owner; a lock is passed on at once."""
        owner = self.owner(agent)
        if owner is None:
            return "REFUSED"
        self.owners[self.owners.index(owner)] = None
        self.serve(now)
        return "REVOKED"

    def declare(self, units: int, now: int) -> None:
        """What is declared counts once nobody has anything of what was, nothing being in doubt. Until then all wait."""
        self.waits_for_new = self.waits_for_new or units != self.units_to_be
        self.units_to_be = units
        self.serve(now)

    def lose(self) -> None:
        """The database is gone: so are holds and places, and every unit is in doubt."""
        self.line, self.polled = [], []
        self.owners = [None] * len(self.owners)
        self.doubtful = set(range(len(self.owners)))

    def confirm(self, now: int) -> str:
        """A person has looked."""
        answer = "RELEASED" if self.doubtful else "REFUSED"
        self.doubtful = set()
        self.serve(now)
        return answer

    def govern(self, enrolled: list[str] | None, blocked: bool, now: int) -> None:
        """Another policy: what nothing was started under is over, and so are the places of others."""
        if self.enrolled is None and enrolled is None:
            return
        self.enrolled, self.policies = enrolled, self.policies + 1
        self.blocked = blocked
        if enrolled is not None:
            self.line = [place for place in self.line if place.agent in enrolled]
        self.owners = [owner if owner is not None and owner.commands else None for owner in self.owners]
        self.serve(now)

    def block(self, blocked: bool, now: int) -> None:
        """Something that has to end first has begun, or has ended."""
        if blocked and not self.blocked:
            self.owners = [owner if owner is not None and owner.commands else None for owner in self.owners]
        self.blocked = blocked
        self.serve(now)

    def choose(self, agent: str, now: int) -> str:
        """GRANT, by the controller."""
        place, free = self.place(agent), self.free()
        if self.enrolled is None:
            return "REFUSED"
        if self.owner(agent) is not None:
            return "TEXT"
        if place is None or self.blocked or not free:
            return "REFUSED"
        self.line.remove(place)
        place.absent = False
        until = 0 if place.declared is None else now + min(place.declared, TIME_MAX)
        self.owners[free[0]] = Owner(place, False, until, given_under=self.policies)
        self.serve(now)
        return "TEXT"

    def begin(self, agent: str, now: int) -> str:
        """A command wants to begin."""
        owner = self.owner(agent)
        present = self.policies if self.enrolled is not None else 0
        if owner is None or owner.given_under != present:
            return "REFUSED"
        if owner.given_under and owner.commands:
            return "REFUSED"
        owner.commands += 1
        if not owner.noticed:
            owner.noticed, owner.place.missed = True, 0
        self.serve(now)
        return "ADMITTED"

    def end(self, agent: str, now: int) -> None:
        """A command of its owner has ended."""
        owner = self.owner(agent)
        assert owner is not None
        owner.commands -= 1
        if not owner.commands and (owner.given_under or self.enrolled is not None):
            self.owners[self.owners.index(owner)] = None
        self.serve(now)

    def heard(self, agent: str) -> None:
        owner, place = self.owner(agent), self.place(agent)
        if owner is not None and not owner.noticed:
            owner.noticed, owner.claim_due, owner.place.missed = True, None, 0
        elif owner is not None and owner.poll_due is not None and (owner.silent_polls or owner in self.polled):
            owner.poll_due, owner.silent_polls = None, 0
            self.polled.remove(owner)
        if place is not None:
            place.absent = False

    def tick(self, now: int) -> None:
        """The absent are looked at. At most one owner loses it, then whoever is due is asked."""
        if self.look_due is not None and self.look_due <= now:
            if now - self.look_due <= LATE:
                self.line = [place for place in self.line if not place.absent or place.silent_since >= self.last_look]
                self.last_look = now
            self.look_due = now + TIME_MAX
            self.serve(now)
        for number, owner in enumerate(self.owners):
            if owner is not None and owner.unused_until is not None and owner.unused_until <= now:
                if now - owner.unused_until <= LATE:
                    self.owners[number] = None
                    self.serve(now)
                    return
                owner.unused_until = now + RESERVED
            if owner is None or owner.claim_due is None or owner.claim_due > now:
                continue
            if now - owner.claim_due > LATE:
                owner.claim_due = now + CLAIM
                continue
            self.owners[number] = None
            owner.place.missed += 1
            owner.place.absent, owner.place.silent_since = True, now
            if owner.place.missed < 3:
                self.line.append(owner.place)
                self.line.sort(key=lambda place: place.arrival)
            self.serve(now)
            return
        for number, owner in enumerate(self.owners):
            due = owner is not None and owner.poll_due is not None and owner.poll_due <= now
            if not due or owner is None or owner.poll_due is None or now - owner.poll_due > LATE:
                continue
            if owner.silent_polls == 2 and owner.respected_until <= now:
                self.owners[number] = None
                self.serve(now)
                return
        for owner in self.owners:
            if owner is None or owner.poll_due is None or owner.poll_due > now:
                continue
            if now - owner.poll_due <= LATE:
                owner.silent_polls = owner.silent_polls + 1 if owner.respected_until <= now else 0
                if owner not in self.polled:
                    self.polled.append(owner)
            owner.poll_due = now + POLL
        self.serve(now)

    def serve(self, now: int, asking: str = "", given: int | None = None) -> None:
        """Whoever is first and there takes the first free unit, or the one given; who is waited for is asked."""
        if self.waits_for_new and not self.doubtful and self.owners == [None] * len(self.owners):
            self.owners, self.waits_for_new = [None] * self.units_to_be, False
            given = given if given is not None and given < self.units_to_be else None  # else it is of the past
        by_itself = not self.waits_for_new and self.enrolled is None and not self.blocked
        while by_itself and (free := self.free()):
            there = [place for place in self.line if not place.absent]
            if not there:
                break
            first = there[0]
            self.line.remove(first)
            until = 0 if first.declared is None else now + min(first.declared, TIME_MAX)
            noticed = first.agent == asking
            if noticed:
                first.missed = 0
            unit, given = free[0] if given is None else given, None
            self.owners[unit] = Owner(first, noticed, until)
        if not any(place.absent for place in self.line):
            self.look_due = None
        elif self.look_due is None:
            self.look_due, self.last_look = now + TIME_MAX, 0
        waited = any(not place.absent for place in self.line)
        for owner in self.owners:
            if owner is None:
                continue
            idle = owner.given_under and not owner.commands
            owner.unused_until = (owner.unused_until or now + RESERVED) if idle else None
            if not waited or owner.given_under or owner.commands:
                owner.claim_due = owner.poll_due = None
                owner.silent_polls = 0
                if owner in self.polled:
                    self.polled.remove(owner)
            elif owner.noticed:
                owner.poll_due = owner.poll_due or now + POLL
            else:
                owner.claim_due = owner.claim_due or now + CLAIM

    def free(self) -> list[int]:
        return [n for n, owner in enumerate(self.owners) if owner is None and n not in self.doubtful]

    def next_due(self) -> int | None:
        owners = [owner for owner in self.owners if owner is not None]
        due = [at for owner in owners for at in (owner.claim_due, owner.poll_due, owner.unused_until) if at]
        return min([*due, *([self.look_due] if self.look_due is not None else [])], default=None)
