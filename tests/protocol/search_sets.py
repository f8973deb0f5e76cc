"""The search over several resources: agents that ask for each of them and for all together, in every order.

It has the coordinator's part in it as the coordinator does it: a joint step is asked for and comes some time later, a
restart loses what was asked for and asks anew, who has something else is looked at before it may wait. What is true is
counted apart from what the machine says of itself: that everybody can be served is shown by serving everybody, with the
machine itself.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from time import process_time
from typing import Any

import msgspec
import pytest
from tests.protocol.search import Found, Seen

from interlock.protocol import resource as machine
from interlock.protocol import resource_joint
from interlock.protocol.definition import Definition
from interlock.protocol.messages import Cancel, Refused, Release, Request
from interlock.protocol.outcome import Now, Outcome, fold
from interlock.protocol.resource_commands import (
    AgentGone,
    AskTogether,
    Deferred,
    GiveTogether,
    Heard,
    Mail,
    MailBody,
    SettleTogether,
    TogetherCommand,
    TryTogether,
)
from interlock.protocol.resource_events import HoldGranted, TicketCancelled
from interlock.protocol.resource_evolve import evolve
from interlock.protocol.resource_joint import decide_together, sets_of
from interlock.protocol.resource_state import Resource, Unit, UnitState, queued_of, tickets_of, unit_of, wants_to_hear
from interlock.protocol.wait_for import Place, World, deadlocked, pool_of

replace = msgspec.structs.replace
Check = Callable[[World, str], frozenset[str]]


class Plan(msgspec.Struct, frozen=True):
    """Args: units: of each resource. passes: how often a set may be passed (a small number goes deep)."""

    name: str
    agents: tuple[str, ...] = ("a", "b")
    units: tuple[int, ...] = (1, 1)
    passes: int = 2

    def keys(self) -> tuple[str, ...]:
        return tuple(f"machine/{'xyzw'[number]}" for number in range(len(self.units)))


class Town(msgspec.Struct, frozen=True):
    """Args: asked: a joint step has been asked for, with whom it has to answer. passed: request id → how often somebody
    who came later was served where it waits. number: of requests so far."""

    states: dict[str, Resource]
    asked: tuple[Deferred, ...] | None = None
    passed: dict[str, int] = {}
    number: int = 0
    seq: int = 1


Move = tuple[str, Callable[[Town], Town]]


def begin(plan: Plan) -> Town:
    states = {}
    for key, many in zip(plan.keys(), plan.units, strict=True):
        names = tuple(str(each) for each in range(many)) if many > 1 else ("",)
        states[key] = Resource(key, Definition(units=names), units=tuple(Unit(name) for name in names))
    return Town(states)


def moves(town: Town, plan: Plan) -> Iterator[Move]:
    keys = plan.keys()
    for agent in plan.agents:
        for many in range(1, len(keys) + 1):
            for some in combinations(keys, many):
                yield f"{agent} REQUEST {_short(some)}", partial(_request, agent=agent, keys=some)
        for key in keys:
            if tickets_of(town.states[key], agent):
                yield f"{agent} RELEASE {_short([key])}", partial(_say, agent=agent, key=key, body=Release(key))
                yield f"{agent} CANCEL {_short([key])}", partial(_say, agent=agent, key=key, body=Cancel(key))
            if any(each.agent == agent for each in sets_of(town.states[key])):
                yield f"{agent}'s place at {_short([key])} ends", partial(_ends, agent=agent, key=key)
        if all(unit_of(town.states[key], agent) for key in keys):
            yield f"{agent} RELEASE all", partial(_release_all, agent=agent)
    if town.asked is not None:
        yield "the joint step", _joint_step
    yield "a restart", _restart


# --- the coordinator's part -----------------------------------------------------------------
def _request(town: Town, agent: str, keys: tuple[str, ...]) -> Town:
    if _would_deadlock(town, agent, keys):
        return town
    town = replace(town, number=town.number + 1)
    mails = {key: _mail(town, agent, Request(key), key) for key in keys}
    if len(keys) == 1:
        return _say(town, agent, keys[0], Request(keys[0]))
    return _heard(_together(town, AskTogether(mails), mails[keys[0]]), agent)


def _release_all(town: Town, agent: str) -> Town:
    mails = {key: _mail(town, agent, Release(key), key) for key in town.states}
    return _heard(_together(town, GiveTogether(mails, "all"), next(iter(mails.values()))), agent)


def _say(town: Town, agent: str, key: str, body: MailBody) -> Town:
    ticket = queued_of(town.states[key], agent)
    if ticket is not None and ticket.together and not isinstance(body, Request):  # it means all of the set
        mails = {each: _mail(town, agent, replace(body, resource=each), each) for each in ticket.together}
        return _heard(_together(town, GiveTogether(mails, key), mails[key]), agent)
    mail = _mail(town, agent, body, key)
    outcome = machine.decide(town.states[key], mail, _now(town))
    deferred = [d for order in outcome.steps if isinstance(order, TryTogether) for d in order.deferred]
    answers = [send for send in outcome.outbox if send.reply_to == mail.id]
    assert len(answers) + len(deferred) == 1, "every message is answered once, or by the joint step"
    return _heard(_take(town, {key: outcome}), agent)


def _ends(town: Town, agent: str, key: str) -> Town:
    """One resource hears that the agent has gone, and the others have not yet."""
    return _take(town, {key: machine.decide(town.states[key], AgentGone(agent, 1, "gone"), _now(town))})


def _heard(town: Town, agent: str) -> Town:
    """Whatever an agent does, is a sign of life to all that it has."""
    for key in town.states:
        if wants_to_hear(town.states[key], agent):
            town = _take(town, {key: machine.decide(town.states[key], Heard(agent), _now(town))})
    return town


def _joint_step(town: Town) -> Town:
    assert town.asked is not None
    return _together(replace(town, asked=None), SettleTogether(town.asked), None)


def _restart(town: Town) -> Town:
    """What was asked for is lost; a set that is there has a joint step at the start."""
    there = any(True for state in town.states.values() for _ in sets_of(state))
    return replace(town, asked=() if there else None)


def _together(town: Town, command: TogetherCommand, mail: Mail | None) -> Town:
    outcomes = decide_together(town.states, command, _now(town), lambda agent, id_: _waits_elsewhere(town, agent, id_))
    said = [send.reply_to for outcome in outcomes.values() for send in outcome.outbox if send.reply_to]
    wanted = [mail.id] if mail is not None else []
    if isinstance(command, SettleTogether):
        wanted = [each.id for each in command.deferred]
    assert sorted(said) == sorted(wanted), "every message is answered once"
    if mail is not None and any(isinstance(s.body, Refused) for o in outcomes.values() for s in o.outbox if s.reply_to):
        silent = [
            e for o in outcomes.values() for e in o.events if type(e).__name__ not in {"Claimed", "Heard", "Armed"}
        ]
        assert not silent or town.asked is not None, "a refusal changes nothing"
    return _take(town, outcomes)


def _waits_elsewhere(town: Town, agent: str, request_id: str) -> bool:
    return any(each != request_id for state in town.states.values() for each in state.queue.of(agent))


def _would_deadlock(town: Town, agent: str, keys: tuple[str, ...]) -> bool:
    """As `deadlocks.py` has it: looked at if the agent has anything besides."""
    others = [key for key, state in town.states.items() if key not in keys and tickets_of(state, agent)]
    new = tuple(key for key in keys if not town.states[key].queue.of(agent))
    if not others or not new:
        return False
    pools = {key: pool_of(state, lambda name: False) for key, state in town.states.items()}
    for key in new:
        pool = pools[key]
        pools[key] = replace(pool, queue=(*pool.queue, Place(agent, "?", tuple(sorted(new)))))
    return bool(deadlocked(World(pools), agent))


def _take(town: Town, outcomes: dict[str, Outcome[Resource, Any]]) -> Town:
    """A record is durable: what was promised of it is looked at, and it counts."""
    states, passed, seq = dict(town.states), dict(town.passed), town.seq
    asked = town.asked
    granted: dict[str, set[str]] = {}
    for key, outcome in outcomes.items():
        assert fold(evolve, states[key], outcome.events) == outcome.state, "restart is replay"
        for number, event in enumerate(outcome.events):
            if isinstance(event, HoldGranted):
                assert event.fence == seq + number, "a fence is the number of its event"
                granted.setdefault(event.request_id, set()).add(key)
        seq += len(outcome.events)
        for order in outcome.steps:
            assert isinstance(order, TryTogether)
            asked = (*(asked or ()), *order.deferred)
    passes: set[tuple[str, str]] = set()
    for key, outcome in outcomes.items():
        passes |= set(_passes(outcome))
        states[key] = outcome.state
    for _, request_id in passes:
        passed[request_id] = passed.get(request_id, 0) + 1
    for request_id, there in granted.items():
        ticket = next(
            u.ticket for u in states[next(iter(there))].units if u.ticket and u.ticket.request_id == request_id
        )
        assert set(ticket.together or there) == there, "a set is granted as one, in one record"
    waiting = {id_ for state in states.values() for id_ in state.queue}
    if asked is None and any(_may_pass_now(states, outcome, key) for key, outcome in outcomes.items()):
        asked = ()
    return Town(states, asked, {k: v for k, v in passed.items() if k in waiting}, town.number, seq)


def _passes(outcome: Outcome[Resource, Any]) -> Iterator[tuple[str, str]]:
    """Who is granted while somebody who came earlier waits on: that has to be a set."""
    for event in outcome.events:
        unit = outcome.state.unit(event.unit) if isinstance(event, HoldGranted) else None
        if unit is None or unit.ticket is None or unit.ticket.request_id != event.request_id:
            continue
        for other in outcome.state.queue.values():
            if other.arrival < unit.ticket.arrival and not _has_a_free_unit(outcome.state):
                assert other.together, "arrivals are served in order"
                yield event.request_id, other.request_id


def _may_pass_now(states: dict[str, Resource], outcome: Outcome[Resource, Any], key: str) -> bool:
    """As `together.look_again` has it: an agent waits for less than before, and stands behind a set elsewhere."""
    agents = [event.agent for event in outcome.events if isinstance(event, HoldGranted | TicketCancelled)]
    for agent in agents:
        for other, state in states.items():
            if other != key and state.queue.of(agent) and any(state.queue.sets()) and _has_a_free_unit(state):
                return True
    return False


def _has_a_free_unit(state: Resource) -> bool:
    return any(unit.state is UnitState.FREE for unit in state.units)


# --- what must be true of each world --------------------------------------------------------
def stands(town: Town, plan: Plan) -> None:
    for state in town.states.values():
        for ticket in state.queue.values():
            if ticket.together:
                parts = [town.states[key] for key in ticket.together]
                held = [p for p in parts for u in p.units if u.ticket and u.ticket.request_id == ticket.request_id]
                assert not held, "no set holds half"
                whole = all(ticket.request_id in part.queue for part in parts)
                assert whole or town.asked is not None, "what is not whole is looked at"
                if whole:
                    marks = {p.queue[ticket.request_id].arrival for p in parts} | {ticket.arrival}
                    assert len(marks) == 1, "a set has one arrival number"
                assert town.passed.get(ticket.request_id, 0) <= plan.passes, "a set is passed so often at most"
        first = state.queue.first_present()
        if first is not None and _has_a_free_unit(state) and not first.together:
            raise AssertionError("no free unit with a waiter")
    assert _everybody_is_served(town, plan), "nobody is in a circle"


def _everybody_is_served(town: Town, plan: Plan) -> bool:
    """Whoever waits for nothing gives all back, again and again, and joint steps come as they are asked for."""
    for _ in range(4 * len(plan.agents) * len(town.states)):
        if town.asked is not None:
            town = _joint_step(town)
            continue
        free = next((agent for agent in plan.agents if _may_finish(town, agent)), None)
        if free is None:
            break
        for key in [key for key, state in town.states.items() if unit_of(state, free) is not None]:
            town = _say(town, free, key, Release(key))
    return not any(state.queue for state in town.states.values())


def _may_finish(town: Town, agent: str) -> bool:
    has = any(unit_of(state, agent) is not None for state in town.states.values())
    return has and not any(state.queue.of(agent) for state in town.states.values())


# --- the search -------------------------------------------------------------------------------
def search_sets(plan: Plan, depth: int, *, states_max: int = 0) -> Seen:
    """As `search.search`, over several resources. Raises Found."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resource_joint, "PASSES_MAX", plan.passes)
        return _search(plan, depth, states_max)


def _search(plan: Plan, depth: int, states_max: int) -> Seen:
    began, first = process_time(), begin(plan)
    seen = {normal(first)}
    level: list[tuple[Town, tuple[str, ...]]] = [(first, ())]
    steps = deep = 0
    while level and deep < depth:
        following: list[tuple[Town, tuple[str, ...]]] = []
        for town, way in level:
            if states_max and len(seen) > states_max:
                return Seen(plan.name, len(seen), steps, deep, False, process_time() - began)
            for name, move in moves(town, plan):
                steps += 1
                try:
                    after = move(town)
                    form = normal(after)
                    if form in seen:
                        continue
                    stands(after, plan)
                except (AssertionError, KeyError) as broken:
                    told = "".join(f"\n  {each}" for each in (*way, name))
                    raise Found(f"{broken!r}, by{told}") from broken
                seen.add(form)
                following.append((after, (*way, name)))
        level, deep = following, deep + 1
    return Seen(plan.name, len(seen), steps, deep, not level, process_time() - began)


def normal(town: Town) -> object:
    """What decides about the future: places by their order in each queue, requests by whose they are."""
    form = []
    for state in town.states.values():
        queue = tuple(
            (each.agent, each.together, each.passed, town.passed.get(each.request_id, 0))
            for each in state.queue.values()
        )
        form.append((queue, tuple((unit.state, *_whose(unit), unit.claimed) for unit in state.units)))
    asked = None if town.asked is None else frozenset((each.key, each.sender) for each in town.asked)
    return tuple(form), asked


def _whose(unit: Unit) -> tuple[str, tuple[str, ...]]:
    return (unit.ticket.agent, unit.ticket.together) if unit.ticket is not None else ("", ())


def _mail(town: Town, agent: str, body: MailBody, key: str) -> Mail:
    return Mail(agent, 1, f"{agent}{town.number}", body, key)


def _now(town: Town) -> Now:
    return Now(1_000_000, "b", 0, town.seq)


def _short(keys: Any) -> str:
    return ",".join(key.rpartition("/")[2] for key in keys)


TWO = Plan("sets: two agents, two locks")
POOLED = Plan("sets: two agents, a lock and a pool", units=(1, 2))
THREE = Plan("sets: three agents, two locks", ("a", "b", "c"))
WIDE = Plan("sets: three agents, three locks", ("a", "b", "c"), (1, 1, 1), passes=1)
SETS = [TWO, POOLED, THREE, WIDE]
