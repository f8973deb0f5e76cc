"""The normal form: two worlds that have the same one go on alike, and keep or break the same promises.

Times are relative; ids, fences and arrivals are only an order; agents are named by where they stand, for the machine
treats all names alike. What the world knows is in it too, not only what the machine believes: else a wrong belief
would hide behind a right one that was seen before.
"""

from typing import Any

from tests.protocol.search_world import ANY, INTERVAL_MS, LATE_MS, Config, World, tickets

from interlock.protocol.outcome import Deadline
from interlock.protocol.resource_state import Ticket, Unit


def normal(world: World, config: Config) -> int:
    form = _Form(world)
    resource = world.resource
    units = [form.unit(unit) for unit in resource.units]
    queue = [form.ticket(ticket) for ticket in resource.queue.values()]
    kept = sorted(resource.remembered.items(), key=lambda item: item[1].arrival)
    remembered = [(form.name(a), form.ranks[r.arrival], form.ahead(r.until), _left(world, a)) for a, r in kept]
    names = form.names
    enrolled = world.policy.participants if world.policy is not None else ()
    said = sorted((names.get(agent, 99), world.told_of(agent), agent in enrolled) for agent in config.agents)
    gate = (world.policy is not None, len(enrolled), world.blockers)
    now, pending = resource.definition, resource.next_definition is not None
    defined = (now is config.definition or now == config.definition, pending)
    return hash((*units, None, *queue, None, *remembered, None, *said, defined, form.rest(resource.look_at), gate))


def _left(world: World, agent: str) -> int:
    return max(0, world.remembered[agent][1] - world.now_ms) if agent in world.remembered else -1


class _Form:
    def __init__(self, world: World) -> None:
        self.world, self.now_ms, self.boot = world, world.now_ms, world.boot_id()
        self.names: dict[str, int] = {}
        self.holds = {hold.unit: hold for hold in world.holds.values()}
        arrivals = [ticket.arrival for ticket in tickets(world.resource)]
        arrivals += [each.arrival for each in world.resource.remembered.values()]
        self.ranks = {n: i for i, n in enumerate(sorted(arrivals))}

    def name(self, agent: str) -> int:
        return self.names.setdefault(agent, len(self.names))

    def rest(self, at: Deadline | None) -> int | None:
        if at is None:
            return None
        return max(-LATE_MS, at.mono_ms - self.now_ms) if at.boot == self.boot else -9 * LATE_MS

    def ahead(self, at: Deadline | None) -> int | None:
        """Where it only counts whether it is over."""
        return None if at is None else max(0, at.mono_ms - self.now_ms) if at.boot == self.boot else 0

    def ticket(self, t: Ticket) -> tuple[Any, ...]:
        world = self.world
        ours = t.incarnation == world.incarnation.get(t.agent, 1)
        repeats = world.last_id.get(t.agent) == t.request_id
        absent = (t.absent, t.overdue, t.request_id in world.absent)
        lives = t.process is not None
        return (self.name(t.agent), t.run, lives, t.worktree, t.time_ms, absent, t.misses, self.ranks[t.arrival],
                ours, repeats)  # fmt: skip

    def unit(self, u: Unit) -> tuple[Any, ...]:
        world, name = self.world, u.name
        step = u.step and (u.step.kind, bool(u.step.launch), u.step.aborting, u.step.restart, u.step.halt)
        server = u.server and (u.server.worktree, u.server.alive, u.server.definition.start)
        stands = u.prepared and (u.prepared.worktree, u.prepared.ready, u.prepared.definition.prepare)
        here = sum(where in {name, ANY} for where, _ in world.commands.values())
        truth = (here, world.trees.get(name), world.made.get(name), name in world.doubt, self._hold(name))
        grace = max(0, world.grace.get(name, 0) - self.now_ms)
        return (u.state, u.ticket and self.ticket(u.ticket), self.ahead(u.until), u.claimed, self.rest(u.claim_at),
                self.rest(u.poll_at), u.polls, u.polled, len(u.launches), step, server, stands, self.ahead(u.free_at),
                grace, bool(u.blocked), self._epoch(u.epoch), u.digest, truth)  # fmt: skip

    def _epoch(self, epoch: int) -> int:
        """None, the present one, or an older one."""
        return 0 if not epoch else 1 if epoch == self.world.epoch else 2

    def _hold(self, name: str) -> tuple[Any, ...] | None:
        hold, now_ms = self.holds.get(name), self.now_ms
        if hold is None:
            return None
        held_ms = min(now_ms - hold.granted_ms, INTERVAL_MS) if not hold.noticed else 0
        polls = [(min(now_ms - at, 2 * INTERVAL_MS), at >= hold.until_ms) for at in hold.polls[-3:]]
        apart = len(hold.polls) < 2 or hold.polls[-1] - hold.polls[-2] >= INTERVAL_MS
        kind = (self._epoch(hold.epoch), hold.digest)
        return kind, held_ms, hold.noticed, hold.draining, max(0, hold.until_ms - now_ms), tuple(polls), apart
