"""`[bus] identity = "token"`: through every door an agent is heard with its own token, and with nothing else."""

import contextlib
import itertools
import json
import os
import secrets
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.folder_user import FolderUser
from tests.adapters.peer import Peer
from tests.adapters.shared_bus import shared_bus
from tests.adapters.test_doors import FileDoor, LineDoor, RelayDoor, SocketDoor, TextDoor
from tests.end_to_end.playground import PYTHON, Bus
from tests.polling import until

Frame = dict[str, Any]
Ask = Callable[[str, str], Frame]  # (agent, token) → the answer to a STATUS of that agent
_numbers = itertools.count(1)
WRONG = "bus_" + "x" * 43


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with shared_bus('[bus]\nidentity = "token"\n') as bus:
        yield bus


@pytest.fixture
def name() -> str:
    return f"agent-{next(_numbers)}"


def made(bus: Bus, agent: str, *more: str) -> str:
    """A new token."""
    bus.ok("token", "create", agent, *more)
    return (bus.home / "tokens" / agent).read_text().strip()


def folder_of(bus: Bus, agent: str) -> FolderUser:
    """An inbox folder, made as its owner makes one with its token; the token is another one afterwards."""
    token = made(bus, agent)
    assert bus("join", agent, "--files", env={"BUS_TOKEN": token}).code == 0
    return FolderUser(bus, agent)


def once(door: Callable[[Bus, str, str], Any], bus: Bus, agent: str, token: str, text: str = "STATUS") -> Frame:
    """One message through a door of its own."""
    with contextlib.closing(door(bus, agent, token)) as opened:
        frame: Frame = opened.ask(to="coordinator", text=text)
        return frame


def by_socket(bus: Bus, agent: str, token: str) -> Frame:
    return once(SocketDoor, bus, agent, token)


def by_line(bus: Bus, agent: str, token: str) -> Frame:
    return once(LineDoor, bus, agent, token)


def by_relay(bus: Bus, agent: str, token: str) -> Frame:
    return once(RelayDoor, bus, agent, token)


class OwnFolder(FileDoor):
    def user(self, bus: Bus, agent: str) -> FolderUser:
        return FolderUser(bus, agent)


class AllsFolder(TextDoor):
    def user(self, bus: Bus, agent: str) -> FolderUser:
        return FolderUser(bus, agent)


def by_file(bus: Bus, agent: str, token: str) -> Frame:
    return once(OwnFolder, bus, agent, token)


def by_text(bus: Bus, agent: str, token: str) -> Frame:
    return once(AllsFolder, bus, agent, token)


def by_short_command(bus: Bus, agent: str, token: str) -> Frame:
    return command(bus, agent, token, "send", "coordinator", "STATUS")


def by_command(bus: Bus, agent: str, token: str) -> Frame:
    return command(bus, agent, token, "me")


def by_token_file(bus: Bus, agent: str, token: str) -> Frame:
    path = bus.folder / f"token-of-{agent}"
    path.write_text(f"{token}\n")
    return command(bus, agent, "", "me", BUS_TOKEN_FILE=str(path)) if token else command(bus, agent, "", "me")


def command(bus: Bus, agent: str, token: str, *words: str, **env: str) -> Frame:
    done = bus(*words, agent=agent, env={**({"BUS_TOKEN": token} if token else {}), **env})
    assert done.code in {0, 77}, done
    code = done.err.split()[1] if done.code else ""
    return {"exit": done.code, "body": {"type": "REFUSED" if done.code else "TEXT", "code": code, "why": done.err}}


PROGRAM = """
import os, sys, anyio
from interlock.client import Bus, Refused
async def main():
    try:
        async with Bus(agent=sys.argv[1], token=os.environ.pop("GIVEN")) as bus:
            print("TEXT", (await bus.me()).agent)
            async for event in bus.tail(last=1, follow=False):
                pass
    except Refused as refused:
        print(refused.code, refused)
anyio.run(main)
"""


def by_program(bus: Bus, agent: str, token: str) -> Frame:
    done = subprocess.run(
        [PYTHON, "-c", PROGRAM, agent], env={**bus.environment, "GIVEN": token}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    code, _, why = done.stdout.partition(" ")
    kind = "TEXT" if code == "TEXT" else "REFUSED"
    return {"exit": 0 if kind == "TEXT" else 77, "body": {"type": kind, "code": code, "why": why}}


DOORS = [by_socket, by_line, by_relay, by_file, by_text, by_short_command, by_command, by_token_file, by_program]


@pytest.mark.parametrize("door", DOORS, ids=[each.__name__ for each in DOORS])
def test_an_agent_is_heard_with_its_own_token_alone_and_no_more_once_it_is_revoked(
    bus: Bus, name: str, door: Callable[[Bus, str, str], Frame]
) -> None:
    # given
    folder_of(bus, name)
    token = (bus.home / "tokens" / name).read_text().strip()
    others = made(bus, f"{name}-other")
    # when
    frames = [door(bus, name, given) for given in (token, "", WRONG, others, token)]
    # then
    assert [frame["body"]["type"] for frame in frames] == ["TEXT", "REFUSED", "REFUSED", "REFUSED", "TEXT"], frames
    for frame in frames[1:4]:
        assert (frame["body"]["code"], frame.get("exit", 77)) == ("CAPABILITY_DENIED", 77)
        assert f"bus token create {name}" in frame["body"]["why"]
        assert not any(each in str(frame) for each in (token, others, WRONG))
    # when
    bus.ok("token", "revoke", name)
    # then
    assert door(bus, name, token)["body"]["code"] == "CAPABILITY_DENIED"


@pytest.mark.parametrize("door", [SocketDoor, RelayDoor, LineDoor])
def test_a_session_that_lives_can_do_nothing_more_once_its_token_is_revoked(
    bus: Bus, name: str, door: Callable[[Bus, str, str], SocketDoor]
) -> None:
    # given
    live = door(bus, name, made(bus, name))
    assert live.ask(to="coordinator", text=f"REQUEST machine/{name} -")["body"]["type"] == "GRANTED"
    # when
    bus.ok("token", "revoke", name)
    again = made(bus, name)
    # then: neither with a message nor with a question, and a new token is not the old one
    assert live.ask(to="coordinator", text=f"RELEASE machine/{name}")["body"]["code"] == "CAPABILITY_DENIED"
    assert live.ask(to="supervisor", body={"type": "ME"})["body"]["code"] in {"CAPABILITY_DENIED", "BAD_MESSAGE"}
    assert live.ask(to="supervisor", body={"type": "TAIL", "last": 1})["body"]["code"] == "CAPABILITY_DENIED"
    done = once(SocketDoor, bus, name, again, f"RELEASE machine/{name}")
    assert done["body"]["type"] == "RELEASED"
    live.close()


def test_a_token_alone_says_who_somebody_is(bus: Bus, name: str) -> None:
    done = bus("me", "--json", env={"BUS_TOKEN": made(bus, name)})
    assert (done.json["agent"], done.json["how"]) == (name, "by your token")


def test_a_name_is_joined_and_taken_over_with_its_own_token_only(bus: Bus, name: str) -> None:
    # given
    mine, others = made(bus, name), made(bus, f"{name}-b")
    assert bus("join", name, "--pid", str(os.getpid()), env={"BUS_TOKEN": mine}).code == 0
    # when
    taken = bus("join", name, "--takeover", env={"BUS_TOKEN": others})
    bare = bus("join", name, "--takeover")
    own = bus("join", name, "--takeover", env={"BUS_TOKEN": mine})
    # then
    assert (taken.code, bare.code, own.code) == (77, 77, 0), (taken, bare, own)
    assert "CAPABILITY_DENIED" in taken.err
    assert "CAPABILITY_DENIED" in bare.err


def test_a_session_cannot_speak_as_another_by_joining_as_it(bus: Bus, name: str) -> None:
    made(bus, f"{name}-b")
    live = SocketDoor(bus, name, made(bus, name))
    assert live.ask(to="supervisor", body={"type": "JOIN", "agent": f"{name}-b"})["body"]["code"] == "CAPABILITY_DENIED"
    assert live.ask(to="coordinator", text="STATUS")["body"]["type"] == "TEXT"
    live.close()


def test_a_refused_post_changes_nothing_of_the_agent_that_it_names(bus: Bus, name: str) -> None:
    # given: an agent that uses no folder
    token = made(bus, name)
    by_socket(bus, name, token)
    desk = bus.home / "inboxes" / "coordinator"
    # when
    posted = desk / "new" / f"{secrets.token_hex(4)}"
    beside = desk / "tmp" / posted.name
    beside.write_text(f"From: {name}\nToken: {WRONG}\n\nREQUEST machine/{name}-x -\n")
    beside.rename(posted)
    until(lambda: not posted.exists())
    # then
    assert f"{name}-x" not in bus.ok("status", "--json", agent=name, env={"BUS_TOKEN": token})


def test_without_a_token_the_bus_says_whether_it_is_well_and_nothing_else(bus: Bus) -> None:
    with Peer(str(bus.home / "bus.sock")) as peer:
        asked = {
            kind: peer.ask(to="supervisor", body={"type": kind, **more})["body"]
            for kind, more in (
                ("PING", {}), ("HEALTH", {}), ("STATUS", {}), ("AGENTS", {}), ("TAIL", {"last": 1}),
                ("REVOKE", {"resource": "machine/x", "because": "x"}), ("RECEIPT", {"id": "x"}), ("ME", {}),
            )
        }  # fmt: skip
    refused = {kind for kind, body in asked.items() if body.get("code") == "CAPABILITY_DENIED"}
    assert refused == {"TAIL", "REVOKE", "RECEIPT", "ME"}
    assert "bus token create" in asked["TAIL"]["why"]
    assert bus("doctor", "--quick").code in {0, 1}
    assert bus("up").code == 0
    with contextlib.closing(RelayDoor(bus, "nobody")) as door:
        for kind in ("HEALTH", "STATUS", "AGENTS", "DOWN"):
            assert door.ask(to="supervisor", body={"type": kind})["body"]["code"] == "CAPABILITY_DENIED"
        assert door.ask(to="supervisor", body={"type": "PING"})["body"]["type"] == "PONG"


def test_a_token_stands_in_its_file_and_nowhere_else(bus: Bus, name: str) -> None:
    # given
    token = made(bus, name)
    for door in (by_socket, by_line, by_relay, by_command):
        door(bus, name, token)
    done = bus("run", "--resource", f"machine/{name}", "--", "sh", "-c", "true", agent=name, env={"BUS_TOKEN": token})
    assert done.code == 0, done
    # then
    found = [
        str(path)
        for path in bus.home.rglob("*")
        if path.is_file() and not path.is_symlink() and token.encode() in path.read_bytes()
    ]
    assert found == [str(bus.home / "tokens" / name)]
    # when: the supervisor itself is started by a command that was given one
    bus.ok("down")
    assert bus.start("up", env={"BUS_TOKEN": token}).end().code == 0  # a fork would not show it
    # then
    pid = int(json.loads((bus.home / "bus.lock").read_text())["pid"])
    assert b"BUS_TOKEN" not in Path(f"/proc/{pid}/environ").read_bytes()


def test_files_of_tokens_are_their_owner_s_alone_and_the_bus_keeps_a_digest(bus: Bus, name: str) -> None:
    out = bus.folder / f"secret-{name}"
    # when
    done = bus("token", "create", name, "--allow", "resource.control", "--out", str(out), "--json")
    listed = bus("token", "list", "--json")
    # then
    assert (done.json["file"], done.json["allow"]) == (str(out), ["resource.control"])
    assert out.read_text().strip() not in done.out + listed.out
    (row,) = [row for row in listed.json["tokens"] if row["agent"] == name]
    assert (row["allow"], row["file"]) == (["resource.control"], str(out))
    tokens = bus.home / "tokens"
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (out, tokens / ".known.json", tokens)]
    assert modes == [0o600, 0o600, 0o700]
    # when
    bus.ok("token", "revoke", name)
    # then
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("create",), 64, "say whose: bus token create NAME"),
        (("create", "a/b"), 64, ""),
        (("create", "supervisor"), 64, ""),
        (("create", "x", "--allow", "everything"), 64, "no capability 'everything': there is resource.control"),
        (("create", "twice"), 73, "twice has a token already: bus token revoke twice, then again"),
        (("create", "new", "--out", "/nowhere/at/all"), 74, "/nowhere/at/all: No such file or directory"),
        (("create", "new", "--out", "/dev/null"), 73, "/dev/null is there already, and nothing is overwritten"),
        (("revoke", "nobody"), 77, "nobody has no token: bus token list shows whose there are"),
        (("list", "x"), 64, "'x' is too much: bus token list shows all"),
        (("list", "--allow", "resource.control"), 64, "--allow and --out belong to bus token create"),
        (("steal",), 64, "no action 'steal'"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_made(bus: Bus, words: tuple[str, ...], code: int, says: str) -> None:
    if "twice" in words:
        bus("token", "create", "twice")
    done = bus("token", *words)
    assert (done.code, says in done.err) == (code, True), done
    assert '"new"' not in bus.ok("token", "list", "--json")


@pytest.mark.parametrize("content", ["", "two words", "x" * 600, "é"])
def test_a_token_file_that_is_none_is_named_and_its_content_is_not(bus: Bus, name: str, content: str) -> None:
    path = bus.folder / f"none-{name}"
    path.write_text(content)
    done = bus("me", agent=name, env={"BUS_TOKEN_FILE": str(path)})
    assert done.code == (65 if content else 77), done
    assert not content or (str(path) in done.err and content not in done.err)
    assert bus("me", agent=name, env={"BUS_TOKEN_FILE": f"{path}-not"}).code == 65


def test_a_list_of_tokens_that_cannot_be_read_lets_nobody_in() -> None:
    with shared_bus('[bus]\nidentity = "token"\n') as bus:
        token = made(bus, "ann")
        assert by_socket(bus, "ann", token)["body"]["type"] == "TEXT"
        store = bus.home / "tokens" / ".known.json"
        before = store.read_text()
        # when
        store.write_text("{")
        # then
        refused = by_socket(bus, "ann", token)["body"]
        assert refused["code"] == "CAPABILITY_DENIED"
        assert "nobody's token can be checked" in refused["why"]
        assert bus("token", "list").code == 78
        # when
        store.write_text(before)
        # then
        assert by_socket(bus, "ann", token)["body"]["type"] == "TEXT"


def test_in_the_open_a_token_changes_nothing_and_identity_changes_without_a_restart() -> None:
    with shared_bus() as bus:
        live = SocketDoor(bus, "ann", WRONG)
        assert live.ask(to="coordinator", text="STATUS")["body"]["type"] == "TEXT"
        # when
        (bus.home / "bus.toml").write_text('[bus]\nidentity = "token"\n')
        refused = by_socket(bus, "bob", "")
        # then
        assert refused["body"]["code"] == "CAPABILITY_DENIED"
        assert live.ask(to="coordinator", text="STATUS")["body"]["code"] == "CAPABILITY_DENIED"
        live.close()
