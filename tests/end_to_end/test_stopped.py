"""A supervisor that is stopped (SIGSTOP, a debugger, a frozen container): every command ends, and says so."""

import os
import signal

import pytest
from tests.end_to_end.conftest import Home
from tests.end_to_end.playground import Bus, Running

from interlock.adapters.cli.exits import MEANINGS

# Each verb that asks the bus, and how it is given. `tail -f` follows for ever, by design; it says once that it waits.
ASKS = {
    "run": "--resource machine/x -- true", "request": "machine/x --wait 1s", "wait": "--timeout 1s",
    "check": "machine/x", "release": "machine/x", "handover": "machine/x b", "extend": "machine/x", "me": "",
    "status": "", "join": "newcomer", "logs": "machine/x -f", "tail": "-n 3", "send": "b hello", "inbox": "--wait 1s",
    "up": "", "down": "", "cancel": "machine/x", "restart": "machine/x", "leave": "", "agents": "", "ack": "1",
    "receipt": "1", "backup": "copy.db", "recover": "machine/x",
    "policy": "", "grant": "1", "coordinate": '{"operation":"status"}', "ps": "",
    "task": "list", "lease": "acquire src", "leases": "", "map": "", "watch": "", "stats": "",
    "guard": "kill 999999999", "stop-process": "999999999", "outcome": "machine/x",
}  # fmt: skip
ASKS_NOBODY = {"hooks", "completion", "errors", "help", "init", "brief", "config", "token"}
SAYS_SOMETHING_ELSE = {
    "verify": "it wants a --base", "export": "it wants a repository", "attach": "it wants a terminal",
    "revoke": "it wants a terminal", "uninstall": "it wants --yes", "leases": "it wants a repository",
    "drift": "of an older bus it is refused, and outside of a repository it asks nothing",
    "doctor": "it says how the supervisor is, and that is stopped", "forget": "it reads the trusted repositories first",
}  # fmt: skip


def test_each_verb_is_in_one_of_the_tables() -> None:
    assert {*ASKS} | ASKS_NOBODY | {*SAYS_SOMETHING_ELSE} == {*MEANINGS}


@pytest.mark.slow
def test_each_verb_ends_with_69_and_a_sentence_while_the_supervisor_is_stopped(bus: Bus, home: Home) -> None:
    """One sat in a read for eleven minutes, and one said that it did not know who was asking."""
    bus.ok("request", "machine/x", agent="a")
    stopped = bus.supervisor()
    os.kill(stopped, signal.SIGSTOP)
    try:
        running: dict[str, Running] = {}
        for verb, words in ASKS.items():  # all together: each waits for some ten seconds
            running[verb] = bus.start(verb, *words.split(), agent="a")
        ended = {verb: each.end() for verb, each in running.items()}
    finally:
        os.kill(stopped, signal.SIGCONT)
    assert {verb: done.code for verb, done in ended.items()} == dict.fromkeys(ASKS, 69) | {"run": 125}
    for done in ended.values():
        said = done.err + done.out  # one of them says everything in JSON
        assert "does not answer" in said or "does not accept" in said, done
    assert bus.ok("check", "machine/x", agent="a"), "and nothing of it was done"
