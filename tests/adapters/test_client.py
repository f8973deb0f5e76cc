"""The Python door on a running bus: what a program says, holds, hears and loses."""

import importlib.util
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.playground import PYTHON, WAIT_S, Running
from tests.end_to_end.playground import Bus as Command
from tests.polling import until_said

from interlock.client import Bus, BusUnavailable, Grant, Lost, Queued, Refused

pytestmark = pytest.mark.anyio
POLL_MS = 150
TOML = f"""
[bus]
poll_every = "{POLL_MS}ms"

[resources.gpu]
units = ["0", "1"]

[resources.two-names]
"""
BACKENDS = ["asyncio", *(["trio"] if importlib.util.find_spec("trio") else [])]  # both, where both are there
PROGRAM = """
import sys, anyio
from interlock.client import Bus
async def main():
    async with Bus(agent=sys.argv[1], takeover="takeover" in sys.argv) as bus:
        async with bus.hold(sys.argv[2], cancel_on_lost=True) as grant:
            print("IN", grant.fence, flush=True)
            await anyio.sleep_forever()
anyio.run(main)
"""


@pytest.fixture(params=BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def command() -> Iterator[Command]:
    with shared_bus(TOML) as bus:
        yield bus


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test has, for agents and resources."""
    test, _, backend = request.node.name.partition("[")
    return f"{test.removeprefix('test_')[:48]}.{backend[:4]}".rstrip("].")
    return (
        f"{request.node.name}".replace("test_", "")[:48].partition("[")[0].rstrip("_") + f".{request.node.name[-4:-1]}"
    )


@pytest.fixture
async def bus(command: Command, name: str) -> AsyncIterator[Bus]:
    async with Bus(agent=f"{name}.a", home=str(command.home)) as bus:
        yield bus


@pytest.fixture
async def rival(command: Command, name: str) -> AsyncIterator[Bus]:
    async with Bus(agent=f"{name}.b", home=str(command.home)) as bus:
        yield bus


def program(command: Command, agent: str, resource: str, *more: str) -> Running:
    """Another process that holds a resource until it is killed."""
    return command.launch([str(PYTHON), "-c", PROGRAM, agent, resource, *more])


async def state(bus: Bus, resource: str) -> str:
    return str((await bus.status(resource))[0]["state"])


async def queued(bus: Bus, resource: str) -> None:
    """Return once somebody waits for it."""
    async for event in bus.tail(since=0, event_type="requested"):
        if event["actor"] == resource and (await bus.status(resource))[0]["queue"]:
            return


# --- holding ----------------------------------------------------------------------------------
async def test_a_hold_is_ours_inside_the_block_and_nobodys_after_it(bus: Bus, name: str) -> None:
    key = f"machine/{name}"
    async with bus.hold(key, purpose="try", time="20m") as grant:
        await grant.check()
        (status,) = await bus.status(key)
        assert (status["holders"][0]["agent"], status["holders"][0]["purpose"]) == (bus.agent, "try")
        assert status["fence"] == grant.fence
        assert grant.until is not None
    assert await state(bus, key) == "free"
    assert not (await bus.me()).tickets


async def test_an_error_in_the_block_gives_it_back_and_is_raised_as_it_is(bus: Bus, name: str) -> None:
    with pytest.raises(ZeroDivisionError):
        async with bus.hold(f"machine/{name}"):
            raise ZeroDivisionError
    assert await state(bus, f"machine/{name}") == "free"


async def test_who_waits_is_granted_when_the_holder_is_done(bus: Bus, rival: Bus, name: str) -> None:
    key, served = f"machine/{name}", []

    async def wait() -> None:
        async with rival.hold(key) as grant:
            served.append(grant.fence)

    async with anyio.create_task_group() as tasks, bus.hold(key) as grant:
        tasks.start_soon(wait)
        await queued(bus, key)
        assert not served
    assert served[0] > grant.fence
    assert not (await rival.me()).unread, "the program has read its own news"


async def test_a_hold_inside_a_hold_goes_under_it(bus: Bus, name: str) -> None:
    async with bus.hold(f"machine/{name}") as outer:
        async with bus.hold(f"machine/{name}") as inner:
            assert (inner.fence, inner.shared) == (outer.fence, True)
        await outer.check()


async def test_tasks_of_one_program_have_their_turns(bus: Bus, name: str) -> None:
    inside, fences = [0], []

    async def use() -> None:
        async with bus.hold(f"machine/{name}") as grant:
            inside[0] += 1
            assert inside[0] == 1
            fences.append(grant.fence)
            await grant.check()
            inside[0] -= 1

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(use)
    assert fences == sorted(set(fences))
    assert len(fences) == 5

    async def is_refused() -> None:
        with pytest.raises(Refused, match="RESOURCE_BUSY"):
            await bus.hold(f"machine/{name}", timeout=0).__aenter__()

    async with anyio.create_task_group() as tasks:
        hold = bus.hold(f"machine/{name}")
        tasks.start_soon(is_refused)  # it sees the hold that is taken below, from outside of it
        async with hold:
            await bus.me()


@pytest.mark.parametrize("first", ["two-names", "machine/two-names"])
async def test_tasks_that_call_one_resource_by_two_names_have_their_turns_too(bus: Bus, rival: Bus, first: str) -> None:
    inside, fences = [0], []

    async def use(called: str) -> None:
        async with bus.hold(called) as grant:
            inside[0] += 1
            assert inside[0] == 1
            fences.append(grant.fence)
            await grant.check()
            async with bus.hold("two-names") as inner:  # inside of it, by either name, it is the same hold
                assert inner.fence == grant.fence
            inside[0] -= 1

    async with anyio.create_task_group() as tasks, rival.hold("two-names"):  # all of them queue
        second = "two-names" if first != "two-names" else "machine/two-names"
        for called in (first, second, first, second):
            tasks.start_soon(use, called)
        await queued(rival, "machine/two-names")
    assert fences == sorted(set(fences))
    assert len(fences) == 4


async def test_what_the_agent_holds_already_is_shared_and_stays(bus: Bus, command: Command, name: str) -> None:
    command.ok("request", f"machine/{name}", agent=bus.agent)
    async with bus.hold(f"machine/{name}") as grant:
        assert grant.shared
    assert await state(bus, f"machine/{name}") == "held"
    await bus.release(f"machine/{name}")


async def test_a_program_inside_a_bus_run_goes_under_its_hold(command: Command, name: str) -> None:
    text = (
        "import sys; from interlock.client import BlockingBus\n"
        "with BlockingBus() as bus, bus.hold(sys.argv[1]) as grant: grant.check(); print(grant.shared, grant.fence)"
    )
    done = command(
        "run", "--resource", f"machine/{name}", "--", str(PYTHON), "-c", text, f"machine/{name}", agent=f"{name}.a"
    )
    assert done.out.startswith("True "), done


async def test_a_wait_that_takes_too_long_leaves_no_place(bus: Bus, rival: Bus, name: str) -> None:
    async with rival.hold(f"machine/{name}"):
        with pytest.raises(Refused) as refused:
            await bus.hold(f"machine/{name}", timeout=0.05).__aenter__()
        assert (refused.value.code, refused.value.retry) == ("RESOURCE_WAIT_TIMEOUT", True)
        with pytest.raises(Refused, match="RESOURCE_BUSY"):
            await bus.hold(f"machine/{name}", timeout=0).__aenter__()
        assert not (await bus.me()).tickets


async def asked_and_cancelled(bus: Bus, rival: Bus, resource: str) -> None:
    """It asks, keeping its place, and is cancelled once it waits."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bus.hold(resource, keep_place=True).__aenter__)
        await queued(rival, resource)
        tasks.cancel_scope.cancel()


async def test_a_place_that_is_kept_is_taken_up_again(bus: Bus, rival: Bus, name: str) -> None:
    async with rival.hold(f"machine/{name}"):
        await asked_and_cancelled(bus, rival, f"machine/{name}")
        (ticket,) = (await bus.me()).tickets
        assert ticket.state == "queued"
    async with bus.hold(f"machine/{name}", purpose="other") as grant:
        assert grant.request_id == ticket.request_id
        assert not grant.shared
    assert await state(bus, f"machine/{name}") == "free"


async def test_a_kept_place_that_is_over_is_asked_for_anew(bus: Bus, rival: Bus, name: str) -> None:
    async with rival.hold(f"machine/{name}"):
        await asked_and_cancelled(bus, rival, f"machine/{name}")
        await bus.cancel(f"machine/{name}")
    async with bus.hold(f"machine/{name}") as grant:
        assert not grant.shared


# --- asking step by step ------------------------------------------------------------------------
async def test_request_wait_extend_release(bus: Bus, rival: Bus, name: str) -> None:
    key = f"machine/{name}"
    first = await rival.request(key, time="20m")
    assert isinstance(first, Grant)
    place = await bus.request(key, purpose="later")
    assert isinstance(place, Queued)
    assert (place.position, place.holder) == (1, rival.agent)
    assert isinstance(await bus.wait(key, timeout=0), Queued)
    await first.extend("a bit more", time="10m")
    await first.release()
    granted = await bus.wait()
    assert isinstance(granted, Grant)
    assert granted.request_id == place.request_id
    await bus.release()
    assert await state(bus, key) == "free"


async def test_a_refusal_has_its_code_and_what_to_do(bus: Bus, rival: Bus, name: str) -> None:
    with pytest.raises(Refused) as refused:
        await bus.request("gpus")
    assert (refused.value.code, refused.value.next[:12]) == ("UNKNOWN_RESOURCE", "did you mean")
    async with rival.hold(f"machine/{name}", time="20m"):
        with pytest.raises(Refused, match="RESOURCE_BUSY"):
            await bus.request(f"machine/{name}", queue=False)
    with pytest.raises(Refused, match="NOT_HOLDER"):
        await bus.release(f"machine/{name}")
    with pytest.raises(ValueError, match="no duration"):
        bus.hold(f"machine/{name}", time="soon")


async def test_units_of_a_pool_go_to_different_agents(bus: Bus, rival: Bus) -> None:
    async with bus.hold("gpu") as one, rival.hold("gpu") as other:
        assert {one.unit, other.unit} == {"0", "1"}


# --- losing -------------------------------------------------------------------------------------
async def test_a_living_block_answers_polls(bus: Bus, rival: Bus, name: str) -> None:
    key = f"machine/{name}"
    async with anyio.create_task_group() as tasks, bus.hold(key) as grant:
        tasks.start_soon(rival.request, key)
        polls = 0
        async for event in bus.tail(since=0, resource=key, event_type="polled"):
            polls += event["fence"] == grant.fence
            if polls == 4:
                break
        await grant.check()
        assert not grant.lost.is_set()


async def test_who_wants_to_answer_itself_and_does_not_loses_it(bus: Bus, rival: Bus, name: str) -> None:
    key = f"machine/{name}"
    hold = bus.hold(key, answer_polls=False)
    grant = await hold.__aenter__()
    await rival.request(key)
    with anyio.fail_after(WAIT_S):
        assert "no answer to 2 polls" in await grant.lost.wait()
    with pytest.raises(Lost, match="no answer to 2 polls") as lost:
        await hold.__aexit__(None, None, None)
    assert (lost.value.fence, lost.value.resource) == (grant.fence, key)


async def test_a_block_can_be_cancelled_when_its_hold_is_lost(bus: Bus, rival: Bus, name: str) -> None:
    key = f"machine/{name}"

    async def block() -> None:
        async with bus.hold(key, answer_polls=False, cancel_on_lost=True):
            await rival.request(key)
            await anyio.sleep_forever()

    with pytest.raises(Lost):
        await block()
    await bus.me()  # and what comes after it is not cancelled


async def test_a_hold_that_its_agent_gave_back_elsewhere_is_lost(bus: Bus, command: Command, name: str) -> None:
    hold = bus.hold(f"machine/{name}")
    grant = await hold.__aenter__()
    command.ok("release", f"machine/{name}", agent=bus.agent)
    with anyio.fail_after(WAIT_S):
        assert "released" in await grant.lost.wait()
    for call in (grant.check, grant.extend, grant.restart):
        with pytest.raises(Lost):
            await call()
    await grant.release()  # does nothing: it is over
    with pytest.raises(Lost, match="released"):
        await hold.__aexit__(None, None, None)


async def test_a_tool_whose_agent_leaves_hears_so(command: Command, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUS_AGENT", f"{name}.t")
    async with Bus(home=str(command.home)) as bus:
        hold = bus.hold(f"machine/{name}")
        grant = await hold.__aenter__()
        command.ok("leave", agent=f"{name}.t")
        with anyio.fail_after(WAIT_S):
            assert "it left" in await grant.lost.wait()
        with pytest.raises(Lost):
            await hold.__aexit__(None, None, None)


async def test_an_agent_that_leaves_by_another_command_loses_what_it_had(bus: Bus, command: Command, name: str) -> None:
    hold = bus.hold(f"machine/{name}")
    grant = await hold.__aenter__()
    command.ok("leave", agent=bus.agent)
    with anyio.fail_after(WAIT_S):
        assert "it left" in await grant.lost.wait()
    with pytest.raises(Lost, match="it left"):
        await hold.__aexit__(None, None, None)
    async with bus.hold(f"machine/{name}") as again:
        assert again.fence > grant.fence


# --- who it is ------------------------------------------------------------------------------------
async def test_a_program_that_is_killed_frees_what_it_has(bus: Bus, command: Command, name: str) -> None:
    other = program(command, f"{name}.b", f"machine/{name}")
    other.out.until("IN")
    async with anyio.create_task_group() as tasks:

        async def wait() -> None:
            async with bus.hold(f"machine/{name}"):
                pass

        tasks.start_soon(wait)
        await queued(bus, f"machine/{name}")
        other.kill()
        other.end()
    (b,) = [each for each in await bus.agents() if each["agent"] == f"{name}.b"]
    assert b["presence"] == "gone"


async def test_a_hold_ends_with_its_process_also_where_the_agent_lives_on(
    bus: Bus, command: Command, name: str
) -> None:
    environment = command.environment_of(f"{name}.c")
    tool = command.launch([str(PYTHON), "-c", PROGRAM, "", f"machine/{name}"], env=environment)
    tool.out.until("IN")
    tool.kill()
    tool.end()
    async with bus.hold(f"machine/{name}") as grant:
        assert not grant.shared
    (c,) = [each for each in await bus.agents() if each["agent"] == f"{name}.c"]
    assert c["presence"] != "gone"


async def test_one_name_is_one_living_program(bus: Bus, command: Command, name: str) -> None:
    other = program(command, f"{name}.b", f"machine/{name}")
    other.out.until("IN")
    with pytest.raises(Refused, match="NAME_CONFLICT") as refused:
        await Bus(agent=f"{name}.b", home=str(command.home)).__aenter__()
    assert f"python (pid {other.pid})" in refused.value.why or f"(pid {other.pid})" in refused.value.why
    async with Bus(agent=f"{name}.b", home=str(command.home), takeover=True) as mine:
        assert "Lost: " in (said := other.end().err), said
        async with mine.hold(f"machine/{name}"):
            pass


async def test_several_of_one_program_are_one_agent_until_the_last_is_closed(
    bus: Bus, command: Command, name: str
) -> None:
    grant = await bus.request(f"machine/{name}")
    assert isinstance(grant, Grant)
    async with Bus(agent=bus.agent, home=str(command.home)) as other:
        assert (await other.me()).tickets[0].fence == grant.fence
    await grant.check()


async def test_a_closed_program_has_left_and_holds_nothing(rival: Bus, command: Command, name: str) -> None:
    async with Bus(agent=f"{name}.a", home=str(command.home)) as bus:
        await bus.request(f"machine/{name}")
    async with rival.hold(f"machine/{name}") as grant:
        assert not grant.shared
    with pytest.raises(Refused, match="closed"):
        await bus.me()


# --- saying and reading -----------------------------------------------------------------------------
async def test_messages_come_once_and_are_acked_when_the_next_is_taken(bus: Bus, rival: Bus) -> None:
    sent = [await rival.send(bus.agent, text) for text in ("one", "two")]
    inbox = bus.inbox()
    assert (await inbox.__anext__()).text == "one"
    await until_said(lambda: rival.receipt(sent[0].id), "delivered")  # on record a moment after it was shown
    assert (await inbox.__anext__()).text == "two"
    assert await rival.receipt(sent[0].id) == "acked"
    assert [each.text async for each in bus.inbox(timeout=0)] == ["two"], "not acked: it is shown to the next one"


async def test_an_inbox_waits_for_what_comes(bus: Bus, rival: Bus) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rival.send, bus.agent, "late")
        message = await bus.inbox().__anext__()
    assert (message.text, message.sender, message.type) == ("late", rival.agent, "TEXT")


async def test_a_tail_can_be_cancelled_and_goes_on_where_it_was(
    bus: Bus, rival: Bus, command: Command, name: str
) -> None:
    begun = json.loads(command.ok("tail", "--json", "-n", "1"))["seq"]  # or it might begin with what comes later
    tail = bus.tail(since=begun, resource=f"machine/{name}")
    with anyio.move_on_after(0.05):
        await tail.__anext__()
    async with rival.hold(f"machine/{name}") as grant:
        events = [await tail.__anext__() for _ in range(4)]
    assert [each["type"] for each in events] == ["definition_pending", "defined", "requested", "granted"]
    assert events[-1]["seq"] == grant.fence
    numbers = [each["seq"] async for each in bus.tail(since=0, follow=False)]
    assert numbers == list(range(1, len(numbers) + 1))
    newest = [each["seq"] async for each in bus.tail(last=3, follow=False)]
    assert len(newest) == 3


async def test_messages_to_nobody_and_too_long_ones_are_refused(bus: Bus) -> None:
    with pytest.raises(Refused, match="UNKNOWN_TARGET"):
        await bus.send("nobody-of-that-name", "hello")
    with pytest.raises(Refused, match="MESSAGE_TOO_LARGE"):
        await bus.send(bus.agent, "x" * 70_000)
    await bus.me()


# --- restarts ---------------------------------------------------------------------------------------
async def test_a_hold_goes_on_over_a_killed_supervisor(bus: Bus, command: Command, name: str) -> None:
    async with bus.hold(f"machine/{name}") as grant:
        command.kill_supervisor()
        await grant.check()  # which starts another one
        assert not grant.lost.is_set()
    assert await state(bus, f"machine/{name}") == "free"


async def test_a_waiter_keeps_its_place_over_a_killed_supervisor(
    bus: Bus, rival: Bus, command: Command, name: str
) -> None:
    served: list[Any] = []

    async def wait() -> None:
        async with bus.hold(f"machine/{name}") as grant:
            served.append(grant)

    async with anyio.create_task_group() as tasks, rival.hold(f"machine/{name}"):
        tasks.start_soon(wait)
        await queued(rival, f"machine/{name}")
        command.kill_supervisor()
        assert [each["agent"] for each in (await rival.status(f"machine/{name}"))[0]["queue"]] == [bus.agent]
    assert served


async def test_a_tail_follows_over_a_killed_supervisor(bus: Bus, command: Command) -> None:
    known = command.ok("tail", "--json", "--type", "up").splitlines()
    tail = bus.tail(since=0, event_type="up")
    seen = [(await tail.__anext__())["seq"] for _ in known]
    command.kill_supervisor()
    assert (await tail.__anext__())["seq"] > seen[-1]


async def test_a_hold_whose_bus_is_down_at_its_end_is_given_back_when_it_is_up_again(
    bus: Bus, command: Command, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("interlock.adapters.client.debts.WAIT_S", 0.05)
    async with bus.hold(f"machine/{name}"):
        command.ok("down")
    assert f"giving back machine/{name}" in caplog.text
    with pytest.raises(BusUnavailable, match="taken down with bus down: bus up starts it again"):
        async with Bus(agent=f"{name}.c", home=str(command.home)):
            pass
    command.ok("up")
    async for event in bus.tail(since=0, resource=f"machine/{name}", event_type="released"):
        assert event["why"] == "released"
        break


async def test_a_stopped_supervisor_is_said_to_be_one(
    bus: Bus, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.adapters.client.holdings.PATIENCE_S", 0.1)
    pid = command.supervisor()
    os.kill(pid, signal.SIGSTOP)
    try:
        with anyio.move_on_after(0.2):
            await bus.me()
        with pytest.raises(BusUnavailable, match="does not answer"):
            await bus._holdings.supervisor({"type": "ME"}, patience_s=0.1)
    finally:
        os.kill(pid, signal.SIGCONT)
    await bus.me()


def test_what_it_imports_is_little(command: Command) -> None:
    code = (
        "import sys, interlock.client; heavy = {'typer', 'rich', 'psutil', 'structlog', 'aiosqlite', 'asyncio',"
        " 'click', 'sqlite3', 'platformdirs', 'subprocess'}; print(sorted(heavy & set(sys.modules)))"
    )
    assert command.launch([str(PYTHON), "-c", code]).end().out == "[]\n"
