"""The Python door for plain code: the same words, from threads, safe against Ctrl-C; and its types, for everybody."""

import _weakrefset
import asyncio
import contextlib
import gc
import linecache
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType
from typing import Any, Self

import anyio
import anyio.lowlevel
import pytest
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.playground import PYTHON, ROOT, WAIT_S, together
from tests.end_to_end.playground import Bus as Command
from tests.polling import until

from interlock.adapters.client import blocking
from interlock.client import BlockingBus, BlockingGrant, BusUnavailable, Lost, Queued, Refused

LINES_MAX = 2000
TraceFunction = Callable[[FrameType, str, Any], Any]
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


ENDS_INSIDE = """
from interlock.client import BlockingBus
def inside():
    with BlockingBus(agent="ends-inside") as bus, bus.hold("machine/ends-inside"):
        yield
open_at_the_end = inside()
next(open_at_the_end)
print("DONE")
"""
FORKS = """
import os, sys
from interlock.client import BlockingBus
with BlockingBus(agent="forks") as bus, bus.hold("machine/forks"):
    child = os.fork()
    if not child:
        try:
            bus.me()
        except RuntimeError:
            sys.exit(7)  # which leaves both blocks
        sys.exit(8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert [each.state for each in bus.me().tickets] == ["held"]
    print("DONE")
"""
SNIFFIO = """
import contextvars, threading
class AsyncLibraryNotFoundError(RuntimeError): pass
current_async_library_cvar = contextvars.ContextVar("current_async_library_cvar", default=None)
class _Local(threading.local): name = None
thread_local = _Local()
def current_async_library():
    import asyncio
    name = thread_local.name or current_async_library_cvar.get()
    try:
        name = name or (asyncio.current_task() and "asyncio")
    except RuntimeError:
        pass
    if not name:
        raise AsyncLibraryNotFoundError
    return name
"""
ELSEWHERE = """
import sniffio, threading
from interlock.client import BlockingBus
def other():
    with bus.hold("machine/elsewhere"):
        agents.append(bus.agent)
for library in (None, "trio"):
    agents = []
    sniffio.current_async_library_cvar.set(library)
    sniffio.thread_local.name = library  # as trio does while it runs in this thread
    with BlockingBus(agent="elsewhere") as bus:
        with bus.hold("machine/elsewhere"):
            thread = threading.Thread(target=other)
            thread.start()
            bus.me()
        thread.join()
print(*agents)
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


class Interruption:
    """Ctrl-C at the n-th line that this thread runs or function that it calls, in whatever file that is.

    Left out are the start of a thread, whose own locks do not survive it; `with` itself, `__enter__` and `__exit__`,
    for no block is safe in their first and last moments; what runs because an object goes, which no exception leaves;
    and `try:`, at which Python handles no signal.
    """

    def __init__(self, at: int) -> None:
        self.left = at

    def __enter__(self) -> Self:
        gc.disable()  # else what goes, goes at another line each time
        sys.settrace(self._trace)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        sys.settrace(None)
        gc.enable()
        return kind is KeyboardInterrupt

    def _trace(self, frame: FrameType, event: str, argument: object) -> TraceFunction:
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        block = file == blocking.__file__ and name in ("__enter__", "__exit__")
        outside = block or file == __file__ or is_left_out(frame)
        if event in ("call", "line") and not outside and linecache.getline(file, frame.f_lineno).strip() != "try:":
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self._trace


def is_left_out(frame: FrameType | None) -> bool:
    """It is called by the start of a thread, by `__del__`, or by a weak reference."""
    while frame is not None:
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        starts = file == threading.__file__ and name == "start"
        if starts or name == "__del__" or file in (weakref.__file__, _weakrefset.__file__):
            return True
        frame = frame.f_back
    return False


def interrupted_everywhere(prepare: Callable[[], AbstractContextManager[object]], after: Callable[[], None]) -> None:
    """Enter and leave a block as often as it takes lines in this thread, interrupted at another line each time."""
    for at in range(1, LINES_MAX):
        block = prepare()
        with contextlib.suppress(Refused), Interruption(at) as interruption, block:
            pass
        after()
        if interruption.left > 0:
            assert at > 50
            return
    raise AssertionError(f"it takes more than {LINES_MAX} lines")


def test_a_hold_that_is_interrupted_at_any_line_leaves_nothing(bus: BlockingBus) -> None:
    def after() -> None:
        assert bus.me().tickets == ()

    interrupted_everywhere(lambda: bus.hold("machine/any-line", timeout="20s"), after)
    interrupted_everywhere(lambda: bus.hold_all("machine/any-line", "machine/any-other", timeout="20s"), after)


def test_a_wait_that_is_interrupted_at_any_line_leaves_no_place(bus: BlockingBus, command: Command) -> None:
    def after() -> None:
        assert bus.me().tickets == ()

    with BlockingBus(agent="line-rival", home=str(command.home)) as rival, rival.hold("machine/wait-line", time="20m"):
        interrupted_everywhere(lambda: bus.hold("machine/wait-line", timeout="30ms"), after)


def test_a_call_that_is_interrupted_at_any_line_is_over(bus: BlockingBus) -> None:
    began, over, so_far = list[str](), list[str](), list[int]()

    async def work() -> None:
        began.append("")
        try:
            for _ in range(200):
                await anyio.lowlevel.checkpoint()
        finally:
            over.append("")

    class Block(contextlib.AbstractContextManager[None]):
        def __enter__(self) -> None:
            try:
                bus.call(work)
            finally:
                so_far.append(len(over))

        def __exit__(self, *raised: object) -> None:
            pass

    def after() -> None:
        bus.call(anyio.lowlevel.checkpoint)  # whatever was queued before it has had its turn
        assert len(began) == len(over) == so_far.pop()

    interrupted_everywhere(Block, after)
    assert over


def loops() -> set[threading.Thread]:
    """The threads of all open buses."""
    return {each for each in threading.enumerate() if each.name == "interlock"}


def test_a_bus_whose_opening_is_interrupted_at_any_line_leaves_no_thread(command: Command) -> None:
    def after() -> None:
        until(lambda: loops() <= before)

    before = loops()
    interrupted_everywhere(lambda: BlockingBus(agent="any-line", home=str(command.home)), after)


def test_a_bus_that_nobody_has_any_more_is_left(bus: BlockingBus, command: Command) -> None:
    before = loops()
    BlockingBus(agent="forgotten", home=str(command.home)).__enter__().hold("machine/forgotten").__enter__()
    until(lambda: loops() <= before)
    with bus.hold("machine/forgotten", timeout="20s") as grant:
        assert not grant.shared


def test_a_bus_that_is_closed_says_so(command: Command) -> None:
    bus = BlockingBus(agent="closed", home=str(command.home))
    with pytest.raises(RuntimeError, match="closed, or not open yet: use it as `with"):
        bus.me()
    with bus, pytest.raises(RuntimeError, match="opened once"):
        bus.__enter__()
    with pytest.raises(RuntimeError, match="closed, or not open yet: use it as `with"):
        bus.me()
    with pytest.raises(RuntimeError, match="opened once"):
        bus.__enter__()


def test_a_call_on_its_own_loop_is_an_error_and_not_a_wait_for_ever(bus: BlockingBus) -> None:
    async def calls() -> None:
        bus.me()

    async def closes() -> None:
        bus.__exit__(None, None, None)

    for inside in (calls, closes):
        with pytest.raises(RuntimeError, match="would wait for itself"):
            bus.call(inside)
    assert bus.me().agent == bus.agent


def test_a_call_whose_work_was_cancelled_by_somebody_else_leaves_the_bus_open(bus: BlockingBus) -> None:
    async def waits() -> None:
        task = asyncio.ensure_future(asyncio.sleep(60))
        task.cancel()
        await task

    for _ in range(2):
        with pytest.raises(CancelledError):
            bus.call(waits)
    assert bus.me().agent == bus.agent


def test_an_opening_that_has_failed_may_be_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUS_AUTOSTART", "0")
    bus = BlockingBus(agent="early", home=str(tmp_path / "bus"))
    for _ in range(2):
        with pytest.raises(BusUnavailable):
            bus.__enter__()
    del bus
    with pytest.raises(TypeError):
        BlockingBus(wrong=True)  # type: ignore[call-arg] # what is to be refused


def test_a_hold_that_is_entered_twice_stays_what_it_is(bus: BlockingBus) -> None:
    hold = bus.hold("machine/twice")
    with hold:
        with pytest.raises(RuntimeError, match="used once"):
            hold.__enter__()
        assert [each.resource for each in bus.me().tickets] == ["machine/twice"]


@pytest.mark.parametrize("program", [ENDS_INSIDE, FORKS], ids=["at its end", "in a fork"])
def test_nobody_waits_for_a_loop_that_is_not_there_any_more(program: str, command: Command) -> None:
    done = command.launch([str(PYTHON), "-c", program]).end()
    assert (done.code, done.out, done.err) == (0, "DONE\n", ""), done


def test_another_library_s_loop_in_the_same_thread_does_not_matter(command: Command, tmp_path: Path) -> None:
    (tmp_path / "sniffio.py").write_text(SNIFFIO)  # who has trio has it; anyio asks it where it can be imported
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{ELSEWHERE}"
    done = command.launch([str(PYTHON), "-c", program]).end()
    assert (done.code, done.out) == (0, "elsewhere\n"), done


def test_closing_ends_the_calls_of_other_threads(command: Command) -> None:
    said = list[str]()
    with BlockingBus(agent="line-rival", home=str(command.home)) as rival, rival.hold("machine/closing", time="20m"):
        closing = BlockingBus(agent="closes", home=str(command.home))

        def wait() -> None:
            try:
                closing.hold("machine/closing").__enter__()
            except RuntimeError as error:
                said.append(str(error))

        thread = threading.Thread(target=wait)
        with closing:
            thread.start()
            until(lambda: closing.me().tickets)
        thread.join()
    assert "this bus is closed" in said[0]


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
