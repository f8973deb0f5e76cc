"""Several resources of which some are prepared first: all are granted once all are ready, or the request ends."""

from contextlib import AbstractAsyncContextManager

import pytest
from tests.coordinator.bus import Bus, FakeCaller, process, settled
from tests.coordinator.several_resources import agents, lived

from interlock.coordinator.config import parse_config
from interlock.protocol.definition import server_of
from interlock.protocol.resource_commands import LaunchUp, ServerGone, StepFailure, StepResult
from interlock.protocol.resource_state import Server, StepKind, Unit

pytestmark = pytest.mark.anyio
CONFIG = """[resources.web]
start = "serve"
[resources.api]
start = "serve"
[resources.db]
"""


def running(bus: Bus | None = None) -> AbstractAsyncContextManager[Bus]:
    return lived(bus or Bus(config=parse_config(CONFIG, "bus.toml")))


def unit(bus: Bus, name: str) -> Unit:
    return bus.supervisor.world.resources[f"machine/{name}"].units[0]


def states(bus: Bus, *names: str) -> list[str]:
    return [str(unit(bus, name).state) for name in names]


async def made(bus: Bus, name: str, launch: str) -> None:
    """The step under way there succeeds."""
    key, step = f"machine/{name}", unit(bus, name).step
    assert step is not None
    keeper, server = process(), None
    if step.kind is StepKind.START:
        bus.supervisor.tell(key, LaunchUp("", step.number, launch, keeper))
        definition = server_of(bus.supervisor.config.resources[key], "")
        assert definition is not None
        server = Server(launch, keeper, "/w", definition, "c0ffee", 1)
    bus.supervisor.tell(key, StepResult("", step.number, server))
    await settled()


async def fails(bus: Bus, name: str, *, proved: bool = True) -> None:
    step = unit(bus, name).step
    assert step is not None
    bus.supervisor.tell(f"machine/{name}", StepFailure("", step.number, "it did not come up", proved=proved))
    await settled()


async def test_all_are_granted_once_the_last_is_ready() -> None:
    async with running() as bus:
        ann, bob = agents(bus, "ann", "bob")
        queued = await ann.ask("REQUEST web,api,db /w try it")
        assert (queued["type"], queued["position"]) == ("QUEUED", 1)
        await settled()
        assert states(bus, "web", "api", "db") == ["preparing"] * 3
        assert (await bob.ask("REQUEST db - x"))["type"] == "QUEUED"
        await made(bus, "web", "s1")
        assert states(bus, "web", "api", "db") == ["preparing"] * 3
        await made(bus, "api", "s2")
        assert states(bus, "web", "api", "db") == ["held"] * 3
        fences = [unit(bus, name).fence for name in ("web", "api", "db")]
        assert len(set(fences)) == 3
        found = await ann.ask({"type": "WAIT", "resource": ""}, to="supervisor")
        assert (found["type"], len(found["together"])) == ("GRANTED", 3)
        assert (await bob.ask("RELEASE db"))["type"] == "CANCELLED"


async def test_one_that_does_not_come_up_ends_all_and_is_said_once() -> None:
    async with running() as bus:
        ann, bob = agents(bus, "ann", "bob")
        await ann.ask("REQUEST web,api,db /w try it")
        await bob.ask("REQUEST db - x")
        await made(bus, "web", "s1")
        await fails(bus, "api")
        assert states(bus, "api", "db") == ["free", "held"]
        assert unit(bus, "web").ticket is None
        unread = [each.body for each in bus.supervisor.world.inbox("ann").unread.values()]
        assert [getattr(each, "code", "") for each in unread] == ["PREPARE_FAILED"]
        holder = unit(bus, "db").ticket
        assert holder is not None
        assert holder.agent == "bob"


async def test_what_cannot_be_proved_gone_ends_all_too() -> None:
    async with running() as bus:
        (ann,) = agents(bus, "ann")
        await ann.ask("REQUEST web,db /w try it")
        await fails(bus, "web", proved=False)
        assert states(bus, "web", "db") == ["recovery_required", "free"]
        assert not bus.supervisor.world.resources["machine/web"].queue
        unread = [each.body for each in bus.supervisor.world.inbox("ann").unread.values()]
        assert [getattr(each, "code", "") for each in unread if type(each).__name__ == "Revoked"] == [
            "RECOVERY_REQUIRED"
        ]


async def test_what_dies_while_it_waits_for_the_others_is_made_again() -> None:
    async with running() as bus:
        (ann,) = agents(bus, "ann")
        await ann.ask("REQUEST web,api /w try it")
        await made(bus, "web", "s1")
        bus.supervisor.tell("machine/web", ServerGone("", "s1", "it died", True))
        await settled()
        await made(bus, "api", "s2")
        assert states(bus, "web", "api") == ["preparing"] * 2
        await made(bus, "web", "s3")
        assert states(bus, "web", "api") == ["held"] * 2


async def test_cancel_while_it_is_prepared_frees_all() -> None:
    async with running() as bus:
        (ann,) = agents(bus, "ann")
        await ann.ask("REQUEST web,db /w try it")
        assert (await ann.ask("CANCEL web"))["type"] == "CANCELLED"
        await fails(bus, "web")  # the start that was ended
        assert states(bus, "web", "db") == ["free", "free"]


async def test_a_restart_in_between_goes_on() -> None:
    async with running() as bus:
        (ann,) = agents(bus, "ann")
        await ann.ask("REQUEST web,api,db /w try it")
        await made(bus, "web", "s1")
    async with running(Bus(bus.store.crash(), config=parse_config(CONFIG, "bus.toml"))) as bus:
        await settled()
        assert states(bus, "web", "api", "db") == ["preparing"] * 3
        await made(bus, "api", "s2")
        assert states(bus, "web", "api", "db") == ["held"] * 3


async def test_who_is_gone_meanwhile_leaves_nothing_behind() -> None:
    async with running() as bus:
        living = process()
        ann = bus.client("ann", FakeCaller(living))
        await ann.ask("REQUEST web,db /w try it")
        bus.effects.end(living)
        await settled()
        await fails(bus, "web")
        assert states(bus, "web", "db") == ["free", "free"]


@pytest.mark.parametrize("read", [False, True])
async def test_who_asks_after_it_did_not_come_up_hears_its_last_words_all_the_same(read: bool) -> None:
    """A server may be down again before its agent follows what becomes of its place."""
    async with running() as bus:
        [ann] = agents(bus, "ann")
        await ann.ask("REQUEST web /w try it")
        step = unit(bus, "web").step
        assert step is not None
        failed = StepFailure("", step.number, "it did not come up", proved=True, log="/log/s1.log", tail=("it broke",))
        bus.supervisor.tell("machine/web", failed)
        await settled()
        if read:
            [letter] = bus.supervisor.world.inbox("ann").unread.values()
            await ann.ask({"type": "ACK", "ids": [letter.id]}, to="supervisor")
        found = await ann.ask({"type": "WAIT", "resource": "web"}, to="supervisor")
        assert (found["type"], found["code"], found["tail"]) == ("REVOKED", "PREPARE_FAILED", ["it broke"])
        assert found["log"] == "/log/s1.log"
        assert "it did not come up" in found["why"]
