"""The Python door for plain code: the same words, from threads, safe against Ctrl-C; and its types, for everybody."""

import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.playground import PYTHON, ROOT, WAIT_S, together
from tests.end_to_end.playground import Bus as Command

from interlock.client import BlockingBus, BlockingGrant, Lost, Queued, Refused

INTERRUPTED = """
import select, sys
from interlock.client import BlockingBus
with BlockingBus(agent=sys.argv[1]) as bus:
    try:
        print("ASKS", flush=True)
        with bus.hold(sys.argv[2]) as grant:
            print("IN", flush=True)
            while not select.select([sys.stdin], [], [], 1.0)[0]:  # one call could miss the signal just before it
                pass
    except KeyboardInterrupt:
        print([each.state for each in bus.me().tickets], flush=True)
        raise
"""
LEFT_OPEN = """
import sys
from interlock.client import BlockingBus
bus = BlockingBus(agent=sys.argv[1]).__enter__()
print(bus.hold(sys.argv[2]).__enter__().fence, flush=True)
"""
TYPED = """
import datetime
from interlock.client import BlockingBus, BlockingGrant, Bus, Grant, Lost, Message, Queued, Refused

async def use() -> str:
    async with Bus(agent="a") as bus:
        async with bus.hold("server-loop", worktree="/w", purpose="try", time="20m", timeout=30) as grant:
            reveal_type(grant)
            reveal_type(await grant.lost.wait())
        answer = await bus.request("server-loop", time=datetime.timedelta(minutes=5))
        reveal_type(answer)
        if isinstance(answer, Queued):
            return f"{answer.position} {answer.holder}"
        async for message in bus.inbox():
            reveal_type(message)
        async for event in bus.tail(since=0):
            print(event["seq"])
        try:
            await bus.send("b", "hello")
        except Refused as refused:
            return refused.code + refused.next
    return ""

def plain() -> int:
    with BlockingBus() as bus, bus.hold("server-loop") as grant:
        reveal_type(grant)
        reveal_type(bus.me().tickets[0].fence)
        return grant.fence

def wrong() -> None:
    BlockingBus(agent=3)
"""


@pytest.fixture(scope="module")
def command() -> Iterator[Command]:
    with shared_bus('[bus]\npoll_every = "150ms"\n') as bus:
        yield bus


@pytest.fixture
def bus(command: Command, request: pytest.FixtureRequest) -> Iterator[BlockingBus]:
    with BlockingBus(agent=request.node.name[:60].removeprefix("test_"), home=str(command.home)) as bus:
        yield bus


def test_every_word_works_in_plain_code(bus: BlockingBus, command: Command) -> None:
    with BlockingBus(agent="plain-rival", home=str(command.home)) as rival:
        with bus.hold("machine/plain", purpose="try", time="20m") as grant:
            grant.check()
            grant.extend("more", time="30m")
            assert grant.until is not None
            place = rival.request("machine/plain")
            assert isinstance(place, Queued)
            assert isinstance(rival.wait("machine/plain", timeout=0), Queued)
            assert bus.status("machine/plain")[0]["holders"][0]["agent"] == bus.agent
            assert grant.lost.wait(timeout=0.01) == ""
            with pytest.raises(Refused, match="CAPABILITY_DENIED"):
                grant.restart()
        granted = rival.wait("machine/plain")
        assert isinstance(granted, BlockingGrant)
        rival.extend("machine/plain", "a bit", time="1m")
        granted.release()
        sent = rival.send(bus.agent, "hello")
        assert [each.text for each in bus.inbox(timeout=0)] == ["hello"]
        assert rival.receipt(sent.id) == "acked"
        assert {"requested", "granted"} <= {each["type"] for each in bus.tail(since=0, follow=False)}
        assert {bus.agent, rival.agent} <= {each["agent"] for each in bus.agents()}
        assert not bus.me().tickets


def test_threads_have_their_turns_and_nested_blocks_share(bus: BlockingBus) -> None:
    inside, fences = threading.Lock(), list[int]()

    def use() -> None:
        with bus.hold("machine/threads") as grant:
            assert inside.acquire(blocking=False), "two threads are in"
            with bus.hold("machine/threads") as inner:
                assert (inner.fence, inner.shared) == (grant.fence, True)
            fences.append(grant.fence)
            inside.release()

    together([use] * 4)
    assert len(set(fences)) == 4


def test_a_lost_hold_is_said_at_the_end_of_its_block(bus: BlockingBus, command: Command) -> None:
    with BlockingBus(agent="blocking-rival", home=str(command.home)) as rival:
        hold = bus.hold("machine/lost", answer_polls=False)
        grant = hold.__enter__()
        rival.request("machine/lost")
        assert "no answer to 2 polls" in grant.lost.wait()
        assert grant.lost.is_set()
        with pytest.raises(Lost, match=r"machine/lost .* is not yours any more"):
            hold.__exit__(None, None, None)


def test_a_wait_that_takes_too_long_ends(bus: BlockingBus, command: Command) -> None:
    with BlockingBus(agent="slow-rival", home=str(command.home)) as rival, rival.hold("machine/slow", time="20m"):
        with pytest.raises(Refused, match="RESOURCE_WAIT_TIMEOUT"):
            bus.hold("machine/slow", timeout=0.05).__enter__()
        assert not bus.me().tickets


def test_ctrl_c_while_waiting_leaves_no_place(bus: BlockingBus, command: Command) -> None:
    with bus.hold("machine/ctrl-c", time="20m"):
        other = command.launch([str(PYTHON), "-c", INTERRUPTED, "interrupted-1", "machine/ctrl-c"])
        for event in bus.tail(since=0, event_type="requested"):
            if event["agent"] == "interrupted-1":
                break
        other.kill(signal.SIGINT)
        done = other.end()
    assert done.out.splitlines() == ["ASKS", "[]"], done
    assert "KeyboardInterrupt" in done.err


def test_ctrl_c_inside_gives_it_back(bus: BlockingBus, command: Command) -> None:
    other = command.launch([str(PYTHON), "-c", INTERRUPTED, "interrupted-2", "machine/ctrl-c-2"], stdin=subprocess.PIPE)
    other.out.until("IN")
    other.kill(signal.SIGINT)
    done = other.end()
    assert done.out.splitlines()[-1] == "[]", done
    with bus.hold("machine/ctrl-c-2", timeout="20s") as grant:
        assert not grant.shared


def test_a_bus_that_nobody_closed_ends_with_its_program_and_gives_back(bus: BlockingBus, command: Command) -> None:
    done = command.launch([str(PYTHON), "-c", LEFT_OPEN, "leaves-it-open", "machine/left-open"]).end()
    assert done.code == 0, done
    with bus.hold("machine/left-open", timeout="20s") as grant:
        assert grant.fence > int(done.out)


def test_an_error_in_the_block_is_raised_as_it_is(command: Command) -> None:
    def block() -> None:
        with BlockingBus(agent="fails", home=str(command.home)) as bus, bus.hold("machine/fails"):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        block()


@pytest.mark.slow
def test_users_get_types(tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text(TYPED)
    done = subprocess.run(
        [str(ROOT / ".venv/bin/mypy"), "--strict", "--config-file=", "--cache-dir", str(tmp_path / "cache"), "use.py"],
        cwd=tmp_path, text=True, capture_output=True, timeout=4 * WAIT_S, check=False,
    )  # fmt: skip
    revealed = [line.partition('"')[2].rstrip('"') for line in done.stdout.splitlines() if "Revealed" in line]
    grants, feeds = "interlock.adapters.client.grants.Grant", "interlock.adapters.client.feeds.Message"
    assert revealed == [
        grants, "str", f"{grants} | interlock.protocol.messages.Queued", feeds,
        "interlock.adapters.client.blocking.BlockingGrant", "int",
    ], done.stdout  # fmt: skip
    assert [line for line in done.stdout.splitlines() if "error:" in line] == [
        'use.py:31: error: Argument "agent" to "BlockingBus" has incompatible type "int"; expected "str"  [arg-type]'
    ]
