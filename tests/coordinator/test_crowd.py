"""Many at once: what a crowd does at one moment holds up nobody else, and what is over leaves nothing behind."""

from collections.abc import Callable
from typing import Any

import anyio
import msgspec
import pytest
from anyio.lowlevel import checkpoint
from tests.coordinator.bus import Bus, FakeCaller, process, settled
from tests.coordinator.memory_store import MemoryStore
from tests.coordinator.virtual_time import VirtualClock

from interlock.coordinator import timer as timers
from interlock.coordinator import world as worlds
from interlock.coordinator.actor import Actor
from interlock.coordinator.dispatcher import TURNS_AT_ONCE
from interlock.coordinator.records import Entry, Record
from interlock.coordinator.store import Snapshot
from interlock.coordinator.timer import FIRED_AT_ONCE, Timer
from interlock.coordinator.world import ENTRIES_A_PIECE, REGISTRY, World
from interlock.protocol import registry as registries
from interlock.protocol.agents import Agent, Agents
from interlock.protocol.inbox import Inbox
from interlock.protocol.limits import EXPIRED_A_STEP, SESSION_CUT_MS
from interlock.protocol.messages import Text
from interlock.protocol.outcome import Deadline, Send
from interlock.protocol.plain import to_plain
from interlock.protocol.registry import AgentJoined, Registry
from interlock.protocol.resource_queue import Queue
from interlock.protocol.resource_state import Resource, Unit, UnitState, tickets_of
from interlock.protocol.resource_ticket import Ticket

pytestmark = pytest.mark.anyio
KEY = "machine/r"
CROWD = 600
DUE_MS = 5_000


class Meanwhile:
    """Somebody else who always wants a turn. `most`: of what is counted, how many were done between two of these."""

    def __init__(self) -> None:
        self.count = self.most = 0
        self._before = 0

    def counts(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            self.count += 1
            return work(*args)

        return counted

    async def until(self, done: Callable[[], bool]) -> None:
        while not done():
            self.most, self._before = max(self.most, self.count - self._before), self.count
            await checkpoint()


def held(number: int, clock: VirtualClock) -> Resource:
    """Held by one who is to be asked at a moment that all have in common, and waited for by another."""
    mine, other = (Ticket(f"t{who}{number}", f"{who}{number}", 1, at, "-", "x", KEY, 0) for at, who in enumerate("hw"))
    poll_at = Deadline(clock.boot(), clock.mono_ms() + DUE_MS)
    unit = Unit("", UnitState.HELD, mine, number + 1, claimed=True, poll_at=poll_at)
    return Resource(f"machine/r{number}", units=(unit,), queue=Queue([other]), next_arrival=3)


async def test_polls_that_are_due_at_one_moment_are_all_sent_and_hold_up_nobody(
    monkeypatch: pytest.MonkeyPatch, clock: VirtualClock
) -> None:
    """etcd 12105: leases that ended together were ended 600 s late."""
    # given
    agents = Agents(Agent(f"{who}{n}", 1, 0) for who in "hw" for n in range(CROWD))
    world = World(Registry(agents), {each.key: each for each in (held(n, clock) for n in range(CROWD))}, seq=CROWD + 1)
    bus = Bus(MemoryStore(kept=Snapshot(0, b"", world.encode())), clock=clock)
    meanwhile = Meanwhile()
    monkeypatch.setattr(Actor, "step", meanwhile.counts(Actor.step))
    monkeypatch.setattr(Actor, "written", meanwhile.counts(Actor.written))

    def are_asked() -> bool:
        return all(bus.supervisor.world.inbox(f"h{n}").unread for n in range(CROWD))

    async with bus.running():
        # when
        await anyio.sleep(DUE_MS / 1000)
        began_s = anyio.current_time()
        await meanwhile.until(are_asked)
        # then
        assert anyio.current_time() - began_s < 0.01, "nothing of it waits for a timer"
    assert meanwhile.count >= CROWD
    assert meanwhile.most <= 2 * TURNS_AT_ONCE


async def test_a_process_that_takes_hundreds_of_agents_along_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch, clock: VirtualClock
) -> None:
    # given
    host = process()
    agents = Agents(Agent(f"h{n}", 1, 0, host) for n in range(CROWD))
    resources = {each.key: each for each in (held(n, clock) for n in range(CROWD))}
    bus = Bus(
        MemoryStore(kept=Snapshot(0, b"", World(Registry(agents), resources, seq=CROWD + 1).encode())), clock=clock
    )
    meanwhile = Meanwhile()
    async with bus.running():
        await settled()
        monkeypatch.setattr(Actor, "step", meanwhile.counts(Actor.step))
        monkeypatch.setattr(Actor, "written", meanwhile.counts(Actor.written))
        # when
        bus.effects.end(host)
        await meanwhile.until(lambda: all(bus.supervisor.world.inbox(f"w{n}").unread for n in range(CROWD)))
    # then
    assert meanwhile.count >= CROWD
    assert meanwhile.most <= 2 * TURNS_AT_ONCE


async def test_the_timer_gives_others_a_turn_among_many_that_are_due(clock: VirtualClock) -> None:
    meanwhile, fired = Meanwhile(), list[str]()
    timer = Timer(clock, meanwhile.counts(fired.append))
    for number in range(CROWD):
        timer.arm(f"machine/r{number}", Deadline(clock.boot(), clock.mono_ms()))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(timer.run)
        await meanwhile.until(lambda: len(fired) == CROWD)
        tasks.cancel_scope.cancel()
    assert sorted(fired) == sorted(f"machine/r{number}" for number in range(CROWD))
    assert meanwhile.most <= timers.FIRED_AT_ONCE == FIRED_AT_ONCE


async def test_sessions_that_are_cut_together_are_all_gone_in_time_and_in_small_records(clock: VirtualClock) -> None:
    # given
    crowd = 3 * EXPIRED_A_STEP
    agents = Agents(Agent(f"a{n}", 1, 0, session=f"s{n}") for n in range(crowd))
    bus = Bus(MemoryStore(kept=Snapshot(0, b"", World(Registry(agents), seq=1).encode())), clock=clock)
    async with bus.running():
        # when
        await anyio.sleep(SESSION_CUT_MS / 1000 + 0.1)
        # then
        assert bus.supervisor.world.registry.agents.gone_count == crowd
        assert not bus.supervisor.world.registry.cut
    assert max(len(row.body) for row in bus.store.durable[2:]) < 200 * EXPIRED_A_STEP


async def test_a_program_that_asks_again_and_again_is_watched_once(bus: Bus) -> None:
    """Each request of a program that lived for weeks left a watch behind, and its end as many words."""
    mine = process()
    attended = {"type": "REQUEST", "resource": KEY, "worktree": "-", "attended": True}
    async with bus.running():
        tool = bus.client("a", FakeCaller(chain=[mine]))
        for _ in range(5):
            assert (await tool.ask(attended))["type"] == "GRANTED"
            await tool.ask(f"RELEASE {KEY}")
        await tool.ask(attended)
        assert bus.effects.watched(mine) == 1
        seq = bus.supervisor.world.seq
        bus.effects.end(mine)
        await settled()
        assert bus.supervisor.world.resource(KEY).is_idle()
        assert bus.supervisor.world.seq == seq + 1, "its last hold has ended, and nothing else was said"
        assert not bus.supervisor.watching.watched()


async def test_a_process_is_let_go_once_nothing_lives_by_it(bus: Bus) -> None:
    """What had a hold once was watched, and kept a descriptor open, for as long as it lived."""
    mine, bound = process(), process()
    attended = {"type": "REQUEST", "resource": KEY, "worktree": "-", "attended": True}
    async with bus.running():
        tool, other = bus.client("a", FakeCaller(chain=[mine])), bus.client("b", FakeCaller(bound))
        await other.ask({"type": "JOIN", "agent": "b"}, to="supervisor")
        await tool.ask(attended)
        await tool.ask(attended | {"resource": "machine/other"})
        for resource, watched in ((KEY, 1), ("machine/other", 0)):
            bus.supervisor.let_go()
            assert bus.effects.watched(mine) == 1
            await tool.ask(f"RELEASE {resource}")
            bus.supervisor.let_go()
            assert bus.effects.watched(mine) == watched
        assert bus.effects.watched(bound) == 1
        await other.ask({"type": "LEAVE"}, to="supervisor")
        bus.supervisor.let_go()
        assert bus.supervisor.watched() == bus.effects.watched(bound) == 0
        # when: it comes again
        await tool.ask(attended)
        assert bus.effects.watched(mine) == 1
        bus.effects.end(mine)
        await settled()
        assert bus.supervisor.world.resource(KEY).is_idle()


async def test_a_look_at_what_lives_by_processes_asks_once_for_each_agent(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ten thousand `bus run`s of one agent in a queue it took half a minute."""
    asked = list[str]()

    def count(resource: Resource, agent: str) -> list[Ticket]:
        asked.append(agent)
        return tickets_of(resource, agent)

    async with bus.running():
        for _ in range(20):
            run = {"type": "REQUEST", "resource": KEY, "worktree": "-", "run": True}
            await bus.client("a", FakeCaller(chain=[process()])).ask(run)
        monkeypatch.setattr("interlock.coordinator.watching.tickets_of", count)
        bus.supervisor.let_go()
        assert asked == ["a"]
        assert bus.supervisor.watched() == 20


async def test_a_session_that_ends_is_forgotten_with_the_runs_that_waited_on_it(bus: Bus) -> None:
    async with bus.running():
        one, other = bus.client("a"), bus.client("b")
        for client in (one, other):
            await client.post({"type": "REQUEST", "resource": KEY, "worktree": "-", "run": True})
        bus.supervisor.forget(one.session)
        assert set(bus.supervisor.runs.values()) == {other.session}


def test_the_inbox_of_an_agent_that_is_forgotten_goes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bus on which every agent had a new name kept the unread letters of all of them, for ever."""
    # given
    monkeypatch.setattr(registries, "AGENTS_MAX", 3)
    monkeypatch.setattr(worlds, "INBOXES_MAX", 5)
    world = World()
    # when
    for number in range(1, 41):
        agent = Agent(f"a{number}", 1, number, gone=True)
        entry = Entry(REGISTRY, (AgentJoined(agent),), (Send(agent.name, Text("hello")),))
        world.apply(Record(number, 1, "", 0, world.seq + 1, (entry,)))
        # then
        assert len(world.registry.agents) <= 3
        assert len(world.inboxes) <= 6
    assert {*world.registry.agents} <= {*world.inboxes}
    assert World.decode(world.encode()).encode() == world.encode()


async def test_a_large_snapshot_is_made_in_pieces_that_are_one_whole() -> None:
    # given
    inboxes = {name: Inbox(name) for name in (f"a{n}" for n in range(4 * ENTRIES_A_PIECE + 1))}
    world = World(Registry(Agents([Agent("a0", 1, 0)])), inboxes=inboxes, ids={"i": "d"}, seq=7, bus="b")
    # then
    assert max(map(len, world.pieces())) < len(world.encode()) / 2
    assert msgspec.json.decode(world.encode()) == msgspec.json.decode(msgspec.json.encode(world, enc_hook=to_plain))
    assert World.decode(world.encode()).encode() == world.encode()
    assert World.decode(World().encode()).encode() == World().encode()
