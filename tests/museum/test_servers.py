"""Dev servers that were killed, kept, or tested against by the wrong one. The cases: index.md."""

import msgspec
import pytest
from tests.coordinator.bus import Bus
from tests.coordinator.test_pools import made
from tests.museum.looking import supervise
from tests.protocol.player import Player, ordered, stands

from interlock.coordinator.config import parse_config

pytestmark = pytest.mark.anyio
CONFIG = '[resources.web]\nstart = "serve"\nurl = "http://localhost:{port}/"\nports = [{port}]\n'
WEB = "machine/web"


def test_two_sessions_killed_each_others_server_in_a_loop() -> None:
    """Each of twenty times, a server is stopped only once its holder has given it back, and by nobody before."""
    player = Player("server")
    player.play("at 0 ann REQUEST loop /w1")
    player.play("at 0 keeper up")
    player.play("at 0 step done")
    turns = [("ann", "bob", "/w1", "/w2"), ("bob", "ann", "/w2", "/w1")] * 10
    for number, (holder, other, here, there) in enumerate(turns, start=1):
        asked = player.play(f"at {number}m {other} REQUEST loop {there}")
        assert (ordered(asked), stands(player.resource)) == ([], f"held {holder} [{other}]")
        assert ordered(player.play(f"at {number}m {other} REQUEST loop {there}")) == []
        assert ordered(player.play(f"at {number}m {holder} RELEASE loop")) == [f"stop {here}"]
        assert ordered(player.play(f"at {number}m step done")) == [f"start {there}"]
        player.play(f"at {number}m keeper up")
        player.play(f"at {number}m step done")
        assert stands(player.resource) == f"held {other}"


async def test_tests_ran_against_the_old_server_for_its_port_had_moved() -> None:
    bus = Bus(config=parse_config(CONFIG.replace("{port}", "3000"), "bus.toml"))
    async with bus.running():
        a = bus.client("a")

        async def told(number: int) -> tuple[str, int]:
            """Have it started: where GRANTED, STATUS and ME say that it is; and its fence."""
            await made(bus, WEB, "", number, "/w")
            granted = await a.ask("REQUEST web /w")
            [status] = (await supervise(a, type="STATUS", resource="web"))["resources"]
            [mine] = (await supervise(a, type="ME"))["tickets"]
            assert granted["url"] == status["reach"]["url"] == mine["url"]
            return granted["url"], granted["fence"]

        await a.ask("REQUEST web /w")
        url, fence = await told(1)
        assert url == "http://localhost:3000/"
        bus.supervisor.reconfigure(parse_config(CONFIG.replace("{port}", "3001"), "bus.toml"))
        assert (await a.ask("REQUEST web /w"))["url"] == url, "what runs is still there"
        await a.ask("RELEASE web")
        await a.ask("REQUEST web /w")
        await made(bus, WEB, "", 1, "/w")  # the old one is stopped: it may not be taken for the new one
        again, later = await told(2)
        assert (again, later > fence) == ("http://localhost:3001/", True)


def test_a_half_dead_server_and_its_restarts_used_up_the_agents_turns() -> None:
    """What cannot be proved gone is left to a person, and nothing is started beside it again and again."""
    player = Player("server")
    for line in ("ann REQUEST loop /w1", "keeper up", "step done", "bob REQUEST loop /w2", "ann RELEASE loop"):
        player.play(f"at 0 {line}")
    player.play("at 1s step fails unproved pid 4711, started at tick 9, still listens")
    for minute in range(1, 10):
        assert ordered(player.play(f"at {minute}m tick")) == []
        assert ordered(player.play(f"at {minute}m bob REQUEST loop /w2")) == []
    assert stands(player.resource) == "recovery_required [bob]"
    said = msgspec.json.encode(player.play("at 10m bob (again) REQUEST loop /w2").outbox[0].body).decode()
    assert "pid 4711, started at tick 9" in said
    assert ordered(player.play("at 11m person confirms")) == ["start /w2"]
