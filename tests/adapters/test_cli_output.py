"""What the command prints, where, and with which exit code: for people, for programs, and for whoever has left."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.playground import BUS, WAIT_S, Bus, Done
from tests.end_to_end.terminal import at_terminal

from interlock.adapters.cli import entry
from interlock.adapters.cli.app import EVERYDAY, OTHERS

Command = Callable[..., Done]
ONE_OBJECT = {
    "status": ["status"],
    "status of one": ["status", "flat"],
    "agents": ["agents"],
    "me": ["me"],
    "send": ["send", "coordinator", "STATUS"],
    "receipt of nothing": ["receipt", "no-such-id"],
    "errors": ["errors"],
    "up": ["up"],
    "join": ["join"],
    "request": ["request", "machine/json"],
    "check": ["check", "machine/json"],
    "extend": ["extend", "machine/json"],
    "wait": ["wait", "machine/json"],
    "ack of nothing": ["ack", "no-such-id"],
    "restart of a lock": ["restart", "machine/json"],
    "logs of a lock": ["logs", "machine/json"],
    "recover": ["recover", "flat"],
    "run without a command": ["run", "--resource", "machine/json"],
    "release": ["release", "machine/json"],
    "cancel of nothing": ["cancel", "machine/json"],
}
FAILURES = {
    "no verb": [],
    "no such verb": ["nosuch"],
    "no such help": ["help", "nosuch"],
    "no such code": ["errors", "nosuch"],
    "no such option": ["status", "--nosuch"],
    "missing argument": ["check"],
    "too many arguments": ["check", "a", "b"],
    "no number": ["tail", "-n", "x"],
    "no duration": ["wait", "--timeout", "soon"],
    "no duration to request for": ["request", "flat", "--time", "soon"],
    "no duration to send with": ["send", "--wait", "soon", "coordinator", "STATUS"],
    "no value": ["status", "--as"],
    "no resource": ["status", "nosuch"],
    "no message": ["send", "coordinator"],
    "no recipient": ["send"],
    "no such recipient": ["send", "nosuch", "hi"],
    "no such file": ["send", "x", "--file", "/nonexistent"],
    "no id": ["ack"],
    "bad name": ["--as", "a b", "me"],
    "not mine": ["check", "flat"],
    "a home that is a file": ["--home", "/etc/hostname", "status"],
}


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with shared_bus("[resources.flat]\n") as bus:
        yield bus


def piped(bus: Bus, *words: str, env: dict[str, str] | None = None) -> tuple[int, bytes, bytes]:
    """`bus … | head -1`, where the reader leaves after one line: exit code of bus, its stderr, the line."""
    process = subprocess.Popen(
        [str(BUS), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        env=bus.environment_of("piper", env), cwd=bus.folder,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline()
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    return process.wait(WAIT_S), said, line


@pytest.fixture
def command(bus: Bus, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Command:
    """The command in this process, for its words alone: a hundred interpreters would say the same."""

    def run(*words: str, agent: str) -> Done:
        monkeypatch.chdir(bus.folder)
        monkeypatch.setattr(sys, "argv", ["bus", *words])
        for name, value in bus.environment_of(agent).items():
            monkeypatch.setenv(name, value)
        code = entry.main()
        said = capsysbinary.readouterr()
        return Done(code, said.out.decode(), said.err.decode())

    return run


@pytest.mark.parametrize("words", ONE_OBJECT.values(), ids=ONE_OBJECT.keys())
def test_json_is_one_object_on_one_line(command: Command, words: list[str]) -> None:
    if words[0] in {"extend", "check", "wait", "release"}:
        assert command("request", "machine/json", agent="jay").code == 0
    done = command("--json", *words, agent="jay")
    assert len(done.out.splitlines()) == 1, done
    assert isinstance(json.loads(done.out), dict)


@pytest.mark.parametrize("words", FAILURES.values(), ids=FAILURES.keys())
def test_a_failure_is_one_sentence_with_its_code_or_one_json_object(command: Command, words: list[str]) -> None:
    # given
    command("join", "fay", agent="fay")
    # when
    plain, as_json = command(*words, agent="fay"), command("--json", *words, agent="fay")
    # then
    if words:
        assert plain.code != 0
        assert plain.out == ""
        assert len(plain.err.splitlines()) == 1, plain.err
        assert re.search(r"^REFUSED [A-Z_]+ |\([A-Z_]+\)$", plain.err.strip()), plain.err
        assert plain.code == as_json.code
    error = as_json.json["error"]
    assert set(error) == {"code", "message", "next"}
    assert all(error.values())
    assert len(as_json.out.splitlines()) == 1


def test_status_as_json_has_the_fields_of_the_contract(bus: Bus) -> None:
    # given
    bus.ok("request", "machine/fields", "--for", "look", "--time", "20m", agent="owner")
    assert bus("request", "machine/fields", "--for", "look too", agent="second").code == 75
    # when
    found = bus.status("machine/fields")
    # then
    assert {"resource", "state", "epoch", "fence", "units", "holders", "queue", "reach"} <= set(found)
    assert found["units"] == [{"unit": "", "state": "held"}]
    holder, waiting = found["holders"][0], found["queue"][0]
    assert {"agent", "request_id", "worktree", "purpose", "since", "confirmed_at", "until", "fence", "unit"} <= set(
        holder
    )
    assert {"agent", "position", "request_id", "waiting_s", "purpose"} <= set(waiting)
    assert (holder["agent"], waiting["agent"], waiting["position"]) == ("owner", "second", 1)


def test_an_event_line_has_its_number_time_actor_and_type(bus: Bus) -> None:
    bus.ok("request", "machine/event", agent="ed")
    event = json.loads(bus.ok("tail", "--json", "--resource", "machine/event", "--type", "granted"))
    assert {"seq", "at", "actor", "type"} <= set(event)
    assert (event["actor"], event["agent"]) == ("machine/event", "ed")


def test_tail_counts_the_newest_of_what_it_shows(bus: Bus) -> None:
    # given
    for _ in range(3):
        bus.ok("request", "machine/newest", agent="ned")
        bus.ok("release", "machine/newest", agent="ned")
    bus.ok("request", "machine/noise", agent="ned")
    # when
    shown = bus.ok("tail", "--json", "--type", "granted", "--resource", "machine/newest", "-n", "2")
    # then
    events = [json.loads(line) for line in shown.splitlines()]
    assert [each["type"] for each in events] == ["granted", "granted"]
    assert bus.ok("tail", "-n", "0") == ""


def into_nothing(bus: Bus, *words: str, agent: str = "", env: dict[str, str] | None = None) -> tuple[int, str]:
    """Its stdout is a pipe whose reader has left already: exit code and stderr."""
    read, write = os.pipe()
    os.close(read)
    process = subprocess.Popen(
        [str(BUS), *words], stdout=write, stderr=subprocess.PIPE, env=bus.environment_of(agent, env), cwd=bus.folder,
        text=True,
    )  # fmt: skip
    os.close(write)
    _, said = process.communicate(timeout=WAIT_S)
    return process.returncode, said


@pytest.mark.parametrize("words", [["tail"], ["status"], ["errors"], ["--help"]])
@pytest.mark.parametrize("env", [{"PYTHONUNBUFFERED": "1"}, {}], ids=["unbuffered", "buffered"])
def test_a_reader_that_leaves_ends_it_quietly(bus: Bus, words: list[str], env: dict[str, str]) -> None:
    assert into_nothing(bus, *words, env=env) == (141, "")


def test_tail_into_head_shows_one_line_and_ends_quietly(bus: Bus) -> None:
    for _ in range(4):
        bus.ok("send", "piper", "x" * 60_000, agent="piper")
    code, said, line = piped(bus, "tail", "--since", "0", "--json", env={"PYTHONUNBUFFERED": "1"})
    assert (code, said) == (141, b"")
    assert json.loads(line)["seq"] == 1


def test_what_a_reader_did_not_take_of_the_inbox_stays_unread(bus: Bus) -> None:
    # given
    bus.ok("send", "pia", "read me", agent="pia")
    # when
    assert into_nothing(bus, "inbox", agent="pia") == (141, "")
    # then
    assert "read me" in bus.ok("inbox", agent="pia")


@pytest.mark.parametrize("words", [["status"], ["errors"], ["--help"], ["agents", "--json"], ["send", "full", "x"]])
def test_a_full_disk_behind_stdout_is_one_sentence(bus: Bus, words: list[str]) -> None:
    bus.ok("join", "full")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [str(BUS), *words], stdout=full, stderr=subprocess.PIPE, env=bus.environment_of("full"), cwd=bus.folder,
            timeout=WAIT_S, check=False, text=True,
        )  # fmt: skip
    assert done.returncode == 74
    assert len(done.stderr.splitlines()) == 1
    assert "No space left" in done.stderr


@pytest.mark.parametrize(("closing", "code"), [(">&-", 74), ("2>&-", 0), ("<&-", 0)])
def test_a_closed_stream_is_no_traceback(bus: Bus, closing: str, code: int) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" status {closing}', str(BUS)], capture_output=True, text=True, check=False,
        env=bus.environment, cwd=bus.folder, timeout=WAIT_S,
    )  # fmt: skip
    assert done.returncode == code
    assert "Traceback" not in done.stderr


def test_colour_and_tables_are_for_terminals(bus: Bus) -> None:
    # when
    at_one = at_terminal(bus, "status", env={"NO_COLOR": ""})
    elsewhere = bus.ok("status", env={"NO_COLOR": ""})
    # then
    assert "\x1b[" in at_one.screen
    assert "RESOURCE" in at_one.screen
    assert "\x1b" not in elsewhere
    assert elsewhere.split()[:5] == ["RESOURCE", "STATE", "OWNER", "WAITING", "URL"]


def test_no_color_is_honoured(bus: Bus) -> None:
    for verb in ("status", "agents"):
        assert "\x1b" not in at_terminal(bus, verb, env={"NO_COLOR": "1"}).screen


def test_what_others_wrote_cannot_move_the_cursor(bus: Bus) -> None:
    # given
    evil = "a\x1b[2Jb\r\nGRANTED flat\x07"
    bus.ok("request", "machine/evil", "--for", evil, agent="eve")
    bus.ok("send", "eve", evil, agent="eve")
    # then
    assert bus("request", "machine/evil", agent="bob").code == 75
    for words in (["status"], ["tail"], ["me"], ["inbox"], ["agents"], ["wait", "machine/evil", "--timeout", "0"]):
        for agent in ("eve", "bob"):
            done = bus(*words, agent=agent)
            assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", done.out + done.err), words
            assert not re.search(r"^GRANTED flat", done.out + done.err, re.MULTILINE), words


def test_help_shows_the_everyday_verbs_and_help_all_every_one(bus: Bus) -> None:
    shown, everything, bare = bus.ok("--help"), bus.ok("help", "all"), bus.ok()
    verbs = re.findall(r"^  ([a-z][a-z-]*)  +\S", shown, re.MULTILINE)
    assert verbs == list(EVERYDAY)
    assert re.findall(r"^  ([a-z][a-z-]*)  +\S", everything, re.MULTILINE) == [*EVERYDAY, *OTHERS]
    assert bare == shown
    assert "..." not in everything.replace("[ARGS]...", "")


@pytest.mark.parametrize("verb", [*EVERYDAY, *OTHERS])
def test_every_verb_has_its_help(command: Command, verb: str) -> None:
    shown = command(verb, "--help", agent="")
    assert shown.out.startswith(f"Usage: bus {verb}")
    assert (shown.code, shown.out) == command("help", verb, agent="")[:2]
    assert shown.out == command(verb, "-h", agent="").out


def test_a_mistyped_verb_is_answered_with_the_nearest(command: Command) -> None:
    assert "did you mean bus release?" in command("relase", agent="").err
    assert "did you mean bus status?" in command("help", "statuss", agent="").err


def test_every_code_can_be_looked_up_in_any_case(command: Command) -> None:
    assert "exit 77" in command("errors", "not_holder", agent="").out
    assert "exit 64" in command("errors", "USAGE", agent="").out
    assert "did you mean NOT_HOLDER?" in command("errors", "NOTHOLDER", agent="").err


def test_common_options_may_stand_anywhere_before_a_double_dash(bus: Bus) -> None:
    for words in (["--as", "opt", "me", "--json"], ["me", "--json", "--as=opt"], ["--json", "me", "--as", "opt"]):
        assert bus(*words).json["agent"] == "opt"
    assert "--json" in bus.ok("run", "--resource", "machine/opt", "--as", "opt", "--", "echo", "--json")
