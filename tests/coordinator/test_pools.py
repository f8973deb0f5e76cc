"""A pool of servers and a made board as clients see them: status, me, logs, recovery, a person's word, going down."""

from typing import Any

import anyio
import pytest
from tests.coordinator.bus import Bus, Client, FakeCaller, process, settled

from interlock.coordinator.config import parse_config
from interlock.protocol.definition import server_of
from interlock.protocol.resource_commands import LaunchUp, RunCommand, ServerGone, StepResult
from interlock.protocol.resource_state import Server, StepKind, UnitState

pytestmark = pytest.mark.anyio
CONFIG = """[bus]
revoke_grace = "7s"
[resources.web]
units = ["7081", "7082"]
start = "serve {unit}"
url = "http://x:{unit}"
[resources.board]
kind = "command"
stop = "off"
prepare = "flash"
"""
WEB, BOARD = "machine/web", "machine/board"


def a_bus() -> Bus:
    return Bus(config=parse_config(CONFIG, "bus.toml"))


def agent(bus: Bus, name: str) -> Client:
    return bus.client(name, FakeCaller(process()))


async def made(bus: Bus, key: str, unit: str, number: int, worktree: str) -> None:
    """Whatever is under way on a unit succeeds, one step."""
    step = bus.supervisor.world.resources[key].unit(unit).step
    assert step is not None
    server = None
    keeper = process(9000 + number)
    bus.supervisor.tell(key, LaunchUp(unit, step.number, f"s{number}", keeper))
    if step.kind is StepKind.START:
        definition = server_of(bus.supervisor.config.resources[key], unit)
        assert definition is not None
        server = Server(f"s{number}", keeper, worktree, definition, "c0ffee", 1)
    bus.supervisor.tell(key, StepResult(unit, step.number, server))
    await settled()


async def both_held(bus: Bus) -> tuple[Client, Client]:
    ann, bob = agent(bus, "ann"), agent(bus, "bob")
    await ann.ask("REQUEST web /w1 try it")
    await made(bus, WEB, "7081", 1, "/w1")
    await bob.ask("REQUEST web /w2 try it too")
    await made(bus, WEB, "7082", 2, "/w2")
    return ann, bob


async def supervise(client: Client, **ask: Any) -> dict[str, Any]:
    return await client.ask(ask, to="supervisor")


async def test_each_unit_is_shown_with_its_own_server_and_address() -> None:
    bus = a_bus()
    async with bus.running():
        ann, bob = await both_held(bus)
        status = (await supervise(ann, type="STATUS", resource="web"))["resources"][0]
        assert status["reach"] == {}
        shown = [(unit["unit"], unit["url"], unit["worktree"]) for unit in status["units"]]
        assert shown == [("7081", "http://x:7081", "/w1"), ("7082", "http://x:7082", "/w2")]
        [ticket] = (await supervise(bob, type="ME"))["tickets"]
        assert (ticket["unit"], ticket["url"]) == ("7082", "http://x:7082")
        checked = await supervise(bob, type="CHECK", resource="web")
        assert (checked["unit"], checked["url"]) == ("7082", "http://x:7082")


async def test_logs_are_one_s_own_else_the_only_ones_else_it_is_asked_which() -> None:
    bus = a_bus()
    async with bus.running():
        ann, bob = await both_held(bus)
        cyd = agent(bus, "cyd")
        assert (await supervise(ann, type="LOGS"))["path"] == "/log/s1.log"
        assert (await supervise(bob, type="LOGS", resource="web"))["path"] == "/log/s2.log"
        assert (await supervise(cyd, type="LOGS", resource="web"))["code"] == "AMBIGUOUS_TARGET"
        assert (await supervise(cyd, type="LOGS", resource="web", unit="7082"))["path"] == "/log/s2.log"
        assert (await supervise(cyd, type="LOGS", resource="web", unit="7083"))["code"] == "TARGET_ENDED"
        await cyd.ask("REQUEST board /w3 flash it")
        await made(bus, BOARD, "", 3, "/w3")
        assert (await supervise(ann, type="LOGS", resource="board"))["path"] == "/log/s3.log"


async def test_the_evidence_of_a_pool_names_its_units_and_one_word_frees_what_is_in_doubt() -> None:
    bus = a_bus()
    async with bus.running():
        ann, _ = await both_held(bus)
        bus.supervisor.tell(WEB, ServerGone("7082", "s2", "its keeper died", proved=False))
        await settled()
        evidence = await supervise(ann, type="RECOVER", resource="web")
        assert evidence["why"] == ["unit 7082: its keeper died"]
        assert (await supervise(ann, type="RECOVER", resource="web", code=evidence["code"]))["type"] == "RELEASED"
        units = bus.supervisor.world.resources[WEB].units
        assert [unit.state for unit in units] == [UnitState.HELD, UnitState.FREE]


async def test_a_person_s_word_names_a_unit_and_its_grace_ends_by_the_timer() -> None:
    bus = a_bus()
    async with bus.running():
        _, bob = await both_held(bus)
        cyd = agent(bus, "cyd")
        await cyd.ask("REQUEST web /w3 the demo")
        ask = {"type": "REVOKE", "resource": "web", "because": "the\ndemo", "by": "kim"}
        assert (await cyd.ask(ask, to="supervisor"))["code"] == "AMBIGUOUS_TARGET"
        assert (await cyd.ask({**ask, "because": " "}, to="supervisor"))["code"] == "BAD_MESSAGE"
        begun = len(bus.effects.begun)
        revoked = await cyd.ask({**ask, "unit": "7082"}, to="supervisor")
        assert (revoked["type"], revoked["why"]) == ("REVOKED", "from bob")
        lost = (await supervise(bob, type="CHECK", resource="web"))["why"]
        assert "revoked by kim (the demo)" in lost  # who sits at the terminal, in whoever's worktree that is
        await anyio.sleep(6.9)
        assert len(bus.effects.begun) == begun
        await anyio.sleep(0.2)
        assert [order.unit for _, order in bus.effects.begun[begun:]] == ["7082"]


async def test_going_down_with_servers_stops_what_commands_have_made_and_leaves_what_they_are_making() -> None:
    bus = a_bus()
    async with bus.running():
        ann = agent(bus, "ann")
        await ann.ask("REQUEST board /w1 flash it")
        bus.go(lambda: bus.supervisor.stop(stop_servers=True))
        await settled()  # it is being made: that is its keeper's, and nothing waits for it
        assert bus.supervisor.world.resources[BOARD].units[0].state is UnitState.PREPARING
        assert [order.kind for _, order in bus.effects.begun if isinstance(order, RunCommand)] == [StepKind.PREPARE]
    bus = a_bus()
    async with bus.running():
        ann = agent(bus, "ann")
        await ann.ask("REQUEST board /w1 flash it")
        await made(bus, BOARD, "", 1, "/w1")
        bus.go(lambda: bus.supervisor.stop(stop_servers=True))
        await settled()
        stop = bus.effects.begun[-1][1]
        assert isinstance(stop, RunCommand)
        assert (stop.kind, stop.command, stop.worktree, stop.agent) == (StepKind.STOP, "off", "/w1", "ann")
        await made(bus, BOARD, "", 2, "/w1")
        assert [body["why"] for body in ann.heard("DOWN")] == []
        unread = bus.supervisor.world.inbox("ann").unread.values()
        assert [getattr(letter.body, "why", "") for letter in unread][-1] == "the bus was told to stop its servers"
