"""Leases that were lost, kept for ever, given twice, or taken by somebody else's word. The cases: index.md."""

from typing import Any

import pytest
from tests.coordinator.bus import Bus, FakeCaller, passes, process, settled
from tests.coordinator.virtual_time import VirtualClock
from tests.museum.looking import KEY, MINUTE_S, holders, queue, supervise, unread

from interlock.coordinator.config import parse_config
from interlock.coordinator.toml_values import ConfigError
from interlock.protocol.limits import LATE_MS

pytestmark = pytest.mark.anyio
REVOKED_AFTER_S = 9 * MINUTE_S  # two polls unanswered, three minutes apart


# --- fences -------------------------------------------------------------------------------
async def test_the_old_holders_release_deleted_the_successors_lock(bus: Bus) -> None:
    async with bus.running():
        a, b = bus.client("a"), bus.client("b")
        fence = (await a.ask(f"REQUEST {KEY} -"))["fence"]
        await a.ask(f"RELEASE {KEY}")
        await b.ask(f"REQUEST {KEY} -")
        for text in (f"RELEASE {KEY}", f"RELEASE {KEY} fence={fence}", f"RELEASE {KEY} fence={fence + 1}"):
            assert (await a.ask(text))["code"] in {"NOT_HOLDER", "STALE_FENCE"}
        assert holders(bus) == ["b"]


async def test_a_holder_that_was_paused_came_back_and_wrote_over_its_successor(bus: Bus) -> None:
    keeper = process()
    async with bus.running():
        a, b = bus.client("a"), bus.client("b")
        fence = (await a.ask(f"REQUEST {KEY} -"))["fence"]
        await b.ask(f"REQUEST {KEY} -")
        await passes(REVOKED_AFTER_S + 1)
        assert holders(bus) == ["b"]
        admit = {"type": "ADMIT", "holds": {KEY: fence}, "launch": "run-1", "keeper": _wire(keeper)}
        refused = {
            "CHECK": await supervise(a, type="CHECK", resource=KEY),
            "EXTEND": await a.ask(f"EXTEND {KEY}, 5m"),
            "RELEASE": await a.ask(f"RELEASE {KEY} fence={fence}"),
            "ADMIT": await supervise(a, **admit, command="make"),
        }
        codes = {what: answer.get("code") for what, answer in refused.items()}
        assert codes == {
            "CHECK": "NOT_HOLDER", "EXTEND": "NOT_HOLDER", "RELEASE": "NOT_HOLDER", "ADMIT": "STALE_FENCE",
        }  # fmt: skip
        assert holders(bus) == ["b"]


def _wire(identity: Any) -> dict[str, Any]:
    return {name: getattr(identity, name) for name in identity.__struct_fields__}


async def test_a_renewal_outlived_the_release_and_held_it_for_ever(bus: Bus) -> None:
    async with bus.running():
        a = bus.client("a")
        for first, second in (("RELEASE", "EXTEND"), ("EXTEND", "RELEASE")):
            await a.ask(f"REQUEST {KEY} -")
            one, other = await a.post(f"{first} {KEY}"), await a.post(f"{second} {KEY}")
            said = [(await a.answer(each))["body"]["type"] for each in (one, other)]
            assert said == (["RELEASED", "REFUSED"] if first == "RELEASE" else ["EXTENDED", "RELEASED"])
            assert holders(bus) == []


async def test_a_lost_reply_to_a_release_left_it_held_for_one_side(bus: Bus) -> None:
    async with bus.running():
        a = bus.client("a")
        await a.ask(f"REQUEST {KEY} -")
        for _ in range(3):
            assert (await a.ask(f"RELEASE {KEY}", "the-same"))["type"] == "RELEASED"
        assert holders(bus) == []


# --- time ---------------------------------------------------------------------------------
async def test_an_expired_lease_stood_until_somebody_swept(bus: Bus) -> None:
    async with bus.running():
        a, b = bus.client("a"), bus.client("b")
        await a.ask({"type": "REQUEST", "resource": KEY, "run": True})
        await passes(29)
        assert holders(bus) == ["a"]
        await passes(2)  # nobody asks for anything, and nothing sweeps
        assert (await b.ask(f"REQUEST {KEY} -"))["type"] == "GRANTED"


async def test_a_quiet_holder_lost_a_long_lease_early_and_its_release_said_success(bus: Bus) -> None:
    async with bus.running():
        a, b = bus.client("a"), bus.client("b")
        await a.ask(f"REQUEST {KEY} - a long night, 3h")
        await passes(180 * MINUTE_S)
        assert holders(bus) == ["a"]
        await b.ask(f"REQUEST {KEY} -")
        await passes(40 * MINUTE_S)
        assert holders(bus) == ["b"]
        assert await unread(a) == ["REVOKED"]
        refused = await a.ask(f"RELEASE {KEY}")
        assert refused["code"] == "NOT_HOLDER"
        assert "no answer to 2 polls" in refused["why"]


@pytest.mark.parametrize("time_ms", [0, -1, -(10**18), 10**18, 1.5, "", "never"])
async def test_a_time_of_nought_meant_for_ever(bus: Bus, time_ms: object) -> None:
    async with bus.running():
        answer = await bus.client("a").ask({"type": "REQUEST", "resource": KEY, "time_ms": time_ms})
        assert (answer["type"], answer["code"]) == ("REFUSED", "BAD_MESSAGE")
        assert KEY not in bus.supervisor.world.resources


@pytest.mark.parametrize("value", ['"0s"', '"-1s"', "0", "180", '"never"', '""', "nan", "inf"])
@pytest.mark.parametrize("key", ["poll_every", "claim", "reservation", "time_max", "keep"])
def test_a_configured_time_of_nought_meant_for_ever(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=r"bus\.toml:2: "):
        parse_config(f"[bus]\n{key} = {value}\n", "bus.toml")


async def test_a_laptop_that_slept_lost_its_lease_though_nobody_wanted_it(bus: Bus, clock: VirtualClock) -> None:
    async with bus.running():
        a = bus.client("a")
        fence = (await a.ask(f"REQUEST {KEY} - x, 10m"))["fence"]
        clock.suspend(10 * 3_600_000)
        await passes(MINUTE_S)
        assert (await a.ask(f"EXTEND {KEY}"))["fence"] == fence


async def test_after_waking_the_sweep_ran_before_anybody_could_renew(bus: Bus, clock: VirtualClock) -> None:
    async with bus.running():
        a, b = bus.client("a"), bus.client("b")
        fence = (await a.ask(f"REQUEST {KEY} -"))["fence"]
        await b.ask(f"REQUEST {KEY} -")
        await passes(REVOKED_AFTER_S - MINUTE_S)
        clock.suspend(3_600_000)  # the moment at which it would have been lost was slept through
        await passes(2 * MINUTE_S)
        assert (await a.ask(f"EXTEND {KEY}"))["fence"] == fence
        await passes(2 * MINUTE_S)
        assert (holders(bus), queue(bus)) == (["a"], ["b"])


@pytest.mark.parametrize("hours", [-1, 1, -24 * 365])
async def test_a_stepped_wall_clock_made_leases_end_at_once_or_never(bus: Bus, clock: VirtualClock, hours: int) -> None:
    async with bus.running():
        a, b = bus.client("a"), bus.client("b")
        await a.ask(f"REQUEST {KEY} -")
        await b.ask(f"REQUEST {KEY} -")
        await passes(MINUTE_S)
        clock.wall += hours * 3_600_000
        await passes(REVOKED_AFTER_S - MINUTE_S - 0.1)
        assert holders(bus) == ["a"]
        await passes(0.2)
        assert holders(bus) == ["b"]


async def test_leases_that_expired_together_ended_minutes_late(bus: Bus) -> None:
    keys = [f"machine/r{number}" for number in range(300)]
    async with bus.running():
        clients = [bus.client(f"a{number}") for number in range(len(keys))]
        for key, client in zip(keys, clients, strict=True):
            await client.post({"type": "REQUEST", "resource": key, "run": True})
        await settled()
        assert all(holders(bus, key) for key in keys)
        await passes(30 + LATE_MS / 1000)
        assert not any(holders(bus, key) for key in keys)


# --- who ----------------------------------------------------------------------------------
async def test_a_new_session_of_the_same_client_had_the_lock_beside_the_old_one(bus: Bus) -> None:
    async with bus.running():
        old, b = bus.client("a"), bus.client("b")
        await supervise(old, type="JOIN", agent="a", session="secret-1")
        await old.ask(f"REQUEST {KEY} -")
        await b.ask(f"REQUEST {KEY} -")
        new = bus.client("a")
        assert (await supervise(new, type="JOIN", agent="a", session="secret-2"))["code"] == "NAME_CONFLICT"
        await supervise(new, type="JOIN", agent="a", session="secret-2", takeover=True)
        await settled()
        assert (await new.ask(f"REQUEST {KEY} -"))["type"] == "QUEUED"
        assert (holders(bus), queue(bus)) == (["b"], ["a"])


async def test_a_release_under_another_case_of_the_name_said_zero_released(bus: Bus) -> None:
    async with bus.running():
        a = bus.client("Foo")
        await a.ask(f"REQUEST {KEY} -")
        for name in ("foo", "FOO"):
            refused = await bus.client(name).ask(f"RELEASE {KEY}")
            assert (refused["code"], "Foo" in refused["why"]) == ("NAME_CONFLICT", True)
        assert (await a.ask(f"RELEASE {KEY}"))["type"] == "RELEASED"


async def test_a_dead_workers_lock_was_never_noticed(bus: Bus) -> None:
    worker = process()
    async with bus.running():
        a, b = bus.client("a", FakeCaller(worker)), bus.client("b")
        await a.ask(f"REQUEST {KEY} -")
        await b.ask(f"REQUEST {KEY} -")
        bus.effects.end(worker)
        await settled()
        assert holders(bus) == ["b"]


async def test_locks_of_holders_that_died_with_the_daemon_were_kept(bus: Bus) -> None:
    worker = process()
    async with bus.running():
        a, b = bus.client("a", FakeCaller(worker)), bus.client("b")
        await a.ask(f"REQUEST {KEY} -")
        await b.ask(f"REQUEST {KEY} -")
    bus.effects.end(worker)
    bus = Bus(bus.store.crash(), effects=bus.effects, clock=bus.clock)
    async with bus.running():
        await settled()
        assert holders(bus) == ["b"]
