"""A program in a sandbox that denies the socket has the same client: through the folders, with the same results."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.adapters.folder_user import joined
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.playground import FIXTURES, PYTHON, WAIT_S, Bus
from tests.polling import until

SANDBOXED = [str(PYTHON), str(FIXTURES / "sandboxed.py"), "--deny", "socket", "--"]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="seccomp is Linux's")

# What the program does is said here once, and played by several tests: each line that it prints is waited for.
PROGRAM = """
import anyio, sys
from interlock.client import Bus, BusUnavailable, Lost, Refused

async def all_of_it(bus):
    async with bus.hold("machine/box", purpose="a look") as grant:
        print("held", grant.fence > 0, flush=True)
        await grant.check()
        for each in await bus.status("machine/box"):
            print(each["holders"][0]["agent"], flush=True)
    async for event in bus.tail(since=0, resource="machine/box", follow=False):
        print(event["type"], flush=True)
    async for message in bus.inbox():
        print(message.sender, message.text, flush=True)
        break
    try:
        await bus.send("nobody-here", "hi")
    except Refused as refused:
        print(refused.code, flush=True)

async def cancelled(bus):
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait_for_it, bus)
        await anyio.to_thread.run_sync(sys.stdin.readline)
        tasks.cancel_scope.cancel()
    print("cancelled", [each["queue"] for each in await bus.status("machine/taken")], flush=True)

async def wait_for_it(bus):
    async with bus.hold("machine/taken"):
        print("not to be", flush=True)

async def over_a_restart(bus):
    async with bus.hold("machine/over") as grant:
        async for event in bus.tail(since=grant.fence, resource="machine/over"):
            print("saw", event["type"], event.get("agent"), flush=True)
            if event.get("agent") == "second":
                break
        await grant.check()
        print("still held", flush=True)
    print("given back", flush=True)

async def main(name, steps):
    try:
        async with Bus(agent=name) as bus:
            print("in", bus.agent, flush=True)
            for step in steps:
                await globals()[step](bus)
        print("out", flush=True)
    except BusUnavailable as error:
        print("unavailable:", error, flush=True)

anyio.run(main, sys.argv[1], sys.argv[2:])
"""


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with shared_bus() as bus:
        yield bus


def test_hold_status_tail_inbox_and_refusals_are_the_same_inside(bus: Bus) -> None:
    # given
    bus.ok("join", "boxed")
    bus.ok("send", "boxed", "hello inside", agent="outsider")
    # when
    done = subprocess.run(
        [*SANDBOXED, sys.executable, "-c", PROGRAM, "boxed", "all_of_it"], env=bus.environment, text=True,
        capture_output=True, timeout=2 * WAIT_S, check=False, cwd=bus.folder,
    )  # fmt: skip
    if done.returncode == 99:
        pytest.skip(done.stderr.strip())
    # then
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "in boxed", "held True", "boxed", "requested", "granted", "released",
        "outsider hello inside", "UNKNOWN_TARGET", "out",
    ]  # fmt: skip


def test_a_cancelled_wait_and_a_new_supervisor_are_the_same_inside(bus: Bus) -> None:
    # given
    bus.ok("request", "machine/taken", agent="taker")
    argv = [*SANDBOXED, sys.executable, "-c", PROGRAM, "waiter", "cancelled", "over_a_restart"]
    running = bus.launch(argv, env=bus.environment, stdin=subprocess.PIPE)
    running.out.until("in waiter")
    until(lambda: bus.status("machine/taken")["queue"])
    # when: cancelled
    assert running.process.stdin is not None
    running.process.stdin.write("\n")
    running.process.stdin.flush()
    # then
    running.out.until("cancelled [[]]")
    # when: another supervisor
    until(lambda: bus.status("machine/over")["state"] == "held")
    assert bus("request", "machine/over", agent="first").code == 75
    running.out.until("saw requested first")
    bus.kill_supervisor()
    bus.ok("up")
    assert bus("request", "machine/over", agent="second").code == 75
    # then
    assert running.out.until("still held")
    assert running.out.until("given back")
    done = running.end()
    assert (done.code, done.err) == (0, "")
    assert bus("wait", "machine/over", "--timeout", "30s", agent="first").out.startswith("GRANTED machine/over")


def test_without_a_supervisor_it_says_so_at_once_and_starts_none(bus: Bus) -> None:
    home = bus.folder / "none"
    home.mkdir(mode=0o700)
    done = subprocess.run(
        [*SANDBOXED, sys.executable, "-c", PROGRAM, "early"], env=bus.environment | {"BUS_HOME": str(home)}, text=True,
        capture_output=True, timeout=WAIT_S, check=False, cwd=bus.folder,
    )  # fmt: skip
    assert done.stdout.startswith("unavailable: no supervisor runs for ")
    assert done.stdout.endswith("start it outside: bus up\n")
    assert list(home.iterdir()) == []


CONTAINER = """
set -eu
mkdir -p "$VIEW/inboxes/mounted"
mount --bind "$BUS_HOME/inboxes/mounted" "$VIEW/inboxes/mounted"
mount -t tmpfs none "$BUS_HOME"
mount -t proc proc /proc
export BUS_HOME="$VIEW"
exec "$@"
"""


def test_where_only_its_own_folder_is_to_be_seen_it_is_the_same_too(bus: Bus) -> None:
    # given
    joined(bus, "mounted")
    bus.ok("send", "mounted", "hello inside", agent="outsider")
    inside = ["unshare", "--mount", "--pid", "--fork", "sh", "-c", CONTAINER, "sh", sys.executable, "-c", PROGRAM]
    # when
    done = subprocess.run(
        [*inside, "mounted", "all_of_it"], text=True, capture_output=True, check=False, cwd="/",
        env=bus.environment_of(env={"VIEW": str(bus.folder / "container")}), timeout=2 * WAIT_S,
    )  # fmt: skip
    if "unshare failed" in done.stderr or "mount: " in done.stderr:
        pytest.skip(f"no namespaces here: {done.stderr.strip()}")
    # then
    assert done.stderr == ""
    said = done.stdout.splitlines()
    assert said[:3] == ["in mounted", "held True", "mounted"]
    assert said[-3:] == ["outsider hello inside", "UNKNOWN_TARGET", "out"]
