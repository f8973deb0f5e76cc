"""In a sandbox that denies the socket the same commands have the same output and codes; or what to allow is said.

The sandboxes are real: a seccomp filter, Landlock, and a mount namespace with one folder (tests/fixtures/sandboxed.py).
"""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.adapters.folder_user import joined
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.playground import BUS, FIXTURES, PYTHON, WAIT_S, Bus, Done, Running

SANDBOXED = [str(PYTHON), str(FIXTURES / "sandboxed.py")]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="seccomp and Landlock are Linux's")


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with shared_bus() as bus:
        yield bus


def boxed(
    bus: Bus, *words: str, box: list[str] | None = None, agent: str = "", env: dict[str, str] | None = None
) -> Done:
    """Run a command inside. Args: box: what it denies."""
    argv = [*SANDBOXED, *(box or ["--deny", "socket"]), "--", str(BUS), *words]
    done = subprocess.run(
        argv, cwd=bus.folder, env=bus.environment_of(agent, env), text=True, capture_output=True, timeout=2 * WAIT_S,
        check=False, start_new_session=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode == 99 and "no sandbox here" in done.stderr:
        pytest.skip(done.stderr.strip())
    return Done(done.returncode, done.stdout, done.stderr)


def start_boxed(bus: Bus, *words: str, agent: str = "") -> Running:
    return bus.launch([*SANDBOXED, "--deny", "socket", "--", str(BUS), *words], env=bus.environment_of(agent))


@pytest.mark.parametrize("code", ["EPERM", "EACCES"])
@pytest.mark.parametrize("call", ["socket", "connect"])
def test_every_refusal_of_the_socket_leads_through_the_folders(bus: Bus, call: str, code: str) -> None:
    box = ["--deny", call, "--errno", code]
    key = f"machine/{call}-{code.lower()}"
    assert boxed(bus, "request", key, box=box, agent="boxer").out.startswith(f"GRANTED {key} (fence ")
    assert boxed(bus, "release", key, box=box, agent="boxer").out == f"RELEASED {key}\n"


def test_all_verbs_say_and_exit_the_same_inside_and_outside(bus: Bus) -> None:
    """Each once outside and once inside, with the same standing; only ids, fences and ages may differ."""
    # given
    bus.ok("join", "same-pal")
    bus.ok("request", "machine/same-taken", agent="same-pal")
    verbs = [
        ["join", "same"], ["me"], ["agents", "--json"], ["request", "machine/same"], ["check", "machine/same"],
        ["extend", "machine/same", "--for", "more"], ["wait", "machine/same", "--timeout", "0"],
        ["status", "machine/same"],
        ["release", "machine/same"], ["release", "machine/same"], ["check", "machine/same"],
        ["request", "machine/same-taken", "--no-wait"], ["request", "machine/same-taken"],
        ["cancel", "machine/same-taken"], ["send", "same-pal", "hi"], ["send", "nobody-here", "hi"],
        ["send", "coordinator", "STATUS", "machine/same-taken"], ["send", "coordinator", "NOSUCH"], ["inbox"],
        ["ack", "nosuch"], ["receipt", "nosuch"], ["logs", "machine/same"], ["restart", "machine/same"],
        ["recover", "machine/same"], ["tail", "-n", "1", "--type", "nosuch"], ["up"],
        ["run", "--resource", "machine/same", "--", "sh", "-c", "echo out; echo err >&2; exit 7"], ["leave"],
    ]  # fmt: skip
    differ = []
    # when
    for words in verbs:
        outside, inside = bus(*words, agent="same"), None
        undo = {"request": "release", "release": "request", "leave": "join", "cancel": "request"}.get(words[0])
        if undo and outside.code in {0, 75} and "--no-wait" not in words:
            bus(undo, *words[1:], agent="same")
        inside = boxed(bus, *words, agent="same")
        if words[0] != "agents" and normal(outside) != normal(inside):
            differ.append((words, outside, inside))
        assert inside.code == outside.code, (words, outside, inside)
    # then
    assert not differ


def normal(done: Done) -> tuple[int, list[str], list[str]]:
    """Without numbers that grow and ids."""
    import re

    def plain(text: str) -> list[str]:
        text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+", "N", text)
        return [line for line in text.splitlines() if not line.startswith(("JOINED", "GRANTED machine/same-taken"))]

    return done.code, plain(done.out), plain(done.err)


def test_a_wait_inside_is_woken_and_a_tail_follows(bus: Bus) -> None:
    # given
    bus.ok("request", "machine/wake", agent="wake-a")
    assert boxed(bus, "request", "machine/wake", agent="wake-b").code == 75
    waiting = start_boxed(bus, "wait", "machine/wake", "--timeout", "60s", agent="wake-b")
    waiting.err.until("held by wake-a")
    following = start_boxed(bus, "tail", "-f", "--resource", "machine/wake", "--json")
    following.out.until('"granted"')
    # when
    bus.ok("release", "machine/wake", agent="wake-a")
    # then
    assert waiting.end().out.startswith("GRANTED machine/wake")
    assert json.loads(following.out.until('"released"'))["agent"] == "wake-a"
    following.kill(signal.SIGTERM)
    following.end()


def test_a_wait_inside_survives_a_restart_of_the_supervisor(bus: Bus) -> None:
    # given
    bus.ok("request", "machine/over", agent="over-a")
    boxed(bus, "request", "machine/over", agent="over-b")
    waiting = start_boxed(bus, "wait", "machine/over", "--timeout", "60s", agent="over-b")
    waiting.err.until("held by over-a")
    # when
    bus.kill_supervisor()
    bus.ok("up")
    bus.ok("release", "machine/over", agent="over-a")
    # then
    assert waiting.end().out.startswith("GRANTED machine/over")


def test_a_killed_bus_run_inside_gives_back_what_it_had(bus: Bus) -> None:
    # given
    running = start_boxed(bus, "run", "--resource", "machine/killed", "--", "sh", "-c", "echo begun; exec sleep 600",
                          agent="killed-a")  # fmt: skip
    running.out.until("begun")
    # when
    running.kill()
    # then
    said = bus.ok("request", "machine/killed", "--wait", "30s", agent="killed-b")  # QUEUED before it, where it is quick
    assert "GRANTED machine/killed" in said.splitlines()[-1], said


def test_the_kernel_says_who_calls_from_inside(bus: Bus) -> None:
    """Joined from this very process, as its parent: nobody has to say the name again."""
    # given
    bus.ok("join", "kernel", "--pid", str(os.getpid()))
    # when
    me = boxed(bus, "me", "--json")
    # then
    assert me.json["agent"] == "kernel"
    assert me.json["how"] == f"joined from your process {os.getpid()}"
    bus.ok("leave", agent="kernel")


def test_a_name_is_not_taken_over_from_inside(bus: Bus) -> None:
    sleeper = bus.launch(["sleep", "600"])
    bus.ok("join", "owned", "--pid", str(sleeper.pid))
    refused = boxed(bus, "join", "owned", "--takeover")
    assert (refused.code, "CAPABILITY_DENIED" in refused.err) == (77, True)


def test_nothing_is_revoked_or_confirmed_from_inside_though_the_terminal_is_one(bus: Bus) -> None:
    """`script` gives the command a terminal: so can any program."""
    bus.ok("request", "machine/terminal", agent="terminal-a")
    for words in ("revoke machine/terminal --because mine", "recover machine/terminal --confirm abc"):
        program = shlex.join([*SANDBOXED, "--deny", "socket", "--", str(BUS)]) + f" --as mallory {words}"
        done = subprocess.run(
            [sys.executable, "-c", "import pty, sys; sys.exit(pty.spawn(['sh', '-c', sys.argv[1]]) >> 8)", program],
            env=bus.environment_of(), text=True, capture_output=True, timeout=WAIT_S, cwd=bus.folder, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert (done.returncode, "is a person's to say, not a folder's" in done.stdout) == (77, True), done
    assert bus.status("machine/terminal")["state"] == "held"


def test_where_folders_cannot_be_written_the_setting_that_allows_it_is_named(bus: Bus) -> None:
    box = ["--deny", "socket", "--write", "/nowhere"]
    for words, code in ((["status"], 69), (["send", "coordinator", "STATUS"], 69),
                        (["run", "--resource", "machine/x", "--", "true"], 125)):  # fmt: skip
        done = boxed(bus, *words, box=box, agent="denied")
        assert (done.code, done.out, len(done.err.splitlines())) == (code, "", 1)
        for setting in (
            "sandbox.filesystem.allowWrite",
            "allowAllUnixSockets",
            "sandbox_workspace_write.writable_roots",
        ):
            assert setting in done.err
        assert str(bus.home / "inboxes") in done.err


def test_a_run_that_cannot_note_its_end_says_so_before_anybody_waits(bus: Bus) -> None:
    box = ["--deny", "socket", "--write", str(bus.home / "inboxes")]
    done = boxed(bus, "run", "--resource", "machine/unnoted", "--", "true", box=box, agent="unnoted")
    assert done.code == 125
    assert f"bus run notes in {bus.home / 'launches'} how its command ends" in done.err
    assert bus.status("machine/unnoted")["state"] == "free"


def test_no_supervisor_is_started_from_inside(bus: Bus) -> None:
    for words in (["status"], ["send", "coordinator", "STATUS"], ["inbox"], ["up"], ["me"]):
        home = bus.folder / "never"
        home.mkdir(mode=0o700, exist_ok=True)
        done = boxed(bus, *words, agent="early", env={"BUS_HOME": str(home)})
        assert (done.code, "bus up" in done.err, len(done.err.splitlines())) == (69, True, 1), done
        assert list(home.iterdir()) == []


def test_a_dead_supervisor_is_known_without_waiting_and_left_dead(bus: Bus) -> None:
    # given
    pid = bus.kill_supervisor()
    # when
    done = boxed(bus, "status")
    # then
    assert (done.code, "no supervisor runs" in done.err, "start it outside: bus up" in done.err) == (69, True, True)
    assert bus.supervisor() == pid
    bus.ok("up")


def test_the_short_way_stays_short_inside(bus: Bus) -> None:
    program = (
        "import sys; from interlock.adapters.cli import entry; sys.argv = ['bus', 'send', 'coordinator', 'STATUS'];"
        " entry.main(); print(*sorted(sys.modules))"
    )
    done = subprocess.run(
        [*SANDBOXED, "--deny", "socket", "--", sys.executable, "-c", program], capture_output=True, text=True,
        check=True, timeout=WAIT_S, env=bus.environment_of("lean"), cwd=bus.folder,
    )  # fmt: skip
    loaded = {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()}
    assert not loaded & {
        "typer",
        "anyio",
        "msgspec",
        "psutil",
        "rich",
        "asyncio",
        "structlog",
        "platformdirs",
        "ctypes",
    }


CONTAINER = """
set -eu
mkdir -p "$VIEW/inboxes/mounted"
mount --bind "$BUS_HOME/inboxes/mounted" "$VIEW/inboxes/mounted"
mount -t tmpfs none "$BUS_HOME"
mount -t proc proc /proc
export BUS_HOME="$VIEW"
say() { "$BUS" "$@" 2>&1 || echo "[exit $?]"; }
say request machine/contained --for 'a look'
say me
say --as other me
say join --pid 2
say up
cd "$VIEW/inboxes/mounted"
printf 'STATUS machine/contained\\n' > tmp/s; mv tmp/s out/s
until ls new | grep -q answer.s; do :; done
cat new/answer.s.*
say release
ls "$VIEW"
"""


def test_a_container_that_mounts_its_own_folder_and_no_other_does_the_whole_protocol(bus: Bus) -> None:
    # given
    joined(bus, "mounted")
    view = bus.folder / "container"
    # when
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "sh", "-c", CONTAINER], text=True, capture_output=True, check=False,
        env=bus.environment_of(env={"VIEW": str(view), "BUS": str(BUS)}), timeout=2 * WAIT_S, cwd="/",
    )  # fmt: skip
    if "unshare failed" in done.stderr or "mount: " in done.stderr:
        pytest.skip(f"no namespaces here: {done.stderr.strip()}")
    # then
    assert done.returncode == 0, done
    lines = iter(done.stdout.splitlines())
    assert next(lines).startswith("GRANTED machine/contained (fence ")
    assert next(lines) == "mounted (owner of the inbox folder), not bound"
    assert "machine/contained held fence" in next(lines)
    assert "0 unread" in next(lines)
    assert "it cannot speak as other" in next(lines)
    assert next(lines) == "[exit 77]"
    assert "there is no process 2 to bind to" in next(lines)  # another pid namespace's number is nobody's here
    assert next(lines) == "[exit 64]"
    assert "start it outside: bus up" in next(lines)
    assert next(lines) == "[exit 69]"
    assert "contained held, mounted" in json.loads(next(lines))["text"]
    assert next(lines) == "RELEASED machine/contained"
    assert list(lines) == ["inboxes"]
    assert Path(bus.home / "bus.lock").exists()
