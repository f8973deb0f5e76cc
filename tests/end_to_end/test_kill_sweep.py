"""The supervisor killed at the N-th record of a whole conversation, N swept over all of it: no promise is broken.

There are two conversations, one about a server and one about a board that commands prepare: each kill plays one.
"""

import contextlib
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest
from tests.end_to_end.conftest import Home, a_bus
from tests.end_to_end.playground import (
    WAIT_S,
    Bus,
    Event,
    Follower,
    Repository,
    executions,
    fetch,
    free_port,
    server_config,
)

from interlock.adapters.cli.connection import Connection, Lost
from interlock.adapters.cli.options import Options
from interlock.adapters.sqlite import SqliteStore
from interlock.coordinator import records
from interlock.coordinator.world import World

RECORDS_MAX = 110  # more than the conversation has
NOTE = "echo {} $(basename $PWD) >> ../ran"
PREPARE = f'prepare = "{NOTE.format("npm")}"'
BOARD = "\n".join(
    ["[resources.board]", 'kind = "command"', *(f'{s} = "{NOTE.format(s)}"' for s in ("stop", "prepare", "verify")), ""]
)
RAN = {
    "server": ["npm w1", "npm w2"],
    "board": ["prepare w1", "verify w1", "stop w1", "prepare w2", "verify w2"],
}


class Talk:
    """A whole conversation over the command's own connection, which starts a new supervisor where the last has died.

    `said` is what the clients were told, in order.
    """

    def __init__(self, bus: Bus, port: int, one: Path, two: Path) -> None:
        self.bus, self.port, self.one, self.two = bus, port, one, two
        self.said: list[Event] = []

    def about_a_server(self, repository: Repository) -> None:
        with self._as("A") as a, self._as("B") as b, self._as("C") as c:
            self._ask(a, "request-of-a", f"REQUEST server-loop {self.one} the login page, 20m")
            self._wait(a)
            assert fetch(self.port) == repository.page(self.one)
            self._ask(b, "request-of-b", f"REQUEST server-loop {self.two} the header")
            self._ask(c, "request-of-c", f"REQUEST server-loop {self.two} the footer")
            self._ask(a, "letter", "are you there?", to="B")
            self._ask(a, "extend", "EXTEND server-loop a little more, 5m")
            self._ask(a, "release-of-a", "RELEASE server-loop")
            self._wait(b)
            assert fetch(self.port) == repository.page(self.two)
            self._ask(b, "release-of-b", "RELEASE server-loop")
            self._wait(c)
            assert fetch(self.port) == repository.page(self.two)
            self._ask(c, "release-of-c", "RELEASE server-loop")

    def about_a_board(self) -> None:
        with self._as("A") as a, self._as("B") as b:
            self._ask(a, "board-of-a", f"REQUEST board {self.one} flash it")
            self._wait(a, "board")
            self._ask(a, "board-from-a", "RELEASE board")
            self._ask(b, "board-of-b", f"REQUEST board {self.two} flash it")
            self._wait(b, "board")
            self._ask(b, "board-from-b", "RELEASE board")

    def _as(self, agent: str) -> Connection:
        return Connection(Options(agent, "--as", str(self.bus.home)), notices=False)

    def _ask(self, connection: Connection, message_id: str, text: str, to: str = "coordinator") -> None:
        body = connection.ask(to, message_id=message_id, text=text)["body"]
        assert body["type"] != "REFUSED", body
        self.said.append({**body, "agent": connection.agent()})

    def _wait(self, connection: Connection, resource: str = "server-loop") -> None:
        """Ask what is true until it is GRANTED, woken by whatever comes."""
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            question = {"type": "WAIT", "resource": resource, "follow": True}
            body = connection.ask("supervisor", body=question)["body"]
            self.said.append({**body, "agent": connection.agent()})
            if body["type"] == "GRANTED":
                return
            assert body["type"] == "QUEUED", body
            with contextlib.suppress(Lost):
                connection.receive(WAIT_S)
        raise AssertionError(f"never granted: {self.said}")


def broken_promises(said: list[Event], events: list[Event]) -> list[str]:
    """Which promises (contract, section 7) do not hold between what clients were told and what the log says."""
    broken = []
    if [event["seq"] for event in events] != list(range(1, len(events) + 1)):
        broken.append("the log has a gap or a repeat")
    grants = {event["fence"]: event for event in events if event["type"] == "granted"}
    for body in said:
        if body["type"] == "GRANTED" and grants.get(body["fence"], {}).get("agent") != body["agent"]:
            broken.append(
                f"2: {body['agent']} was told GRANTED under fence {body['fence']}, which the log does not know"
            )
        if body["type"] == "QUEUED" and not any(
            event["type"] == "requested" and event["ticket"]["request_id"] == body["request_id"] for event in events
        ):
            broken.append(f"2: {body['agent']} was told QUEUED, and the log knows of no request")
    asked = [event["agent"] for event in events if event["type"] == "requested"]
    served = [event["agent"] for event in events if event["type"] == "granted"]
    if served != asked:
        broken.append(f"3: asked {asked}, served {served}")
    ends = [event["fence"] for event in events if event["type"] in {"released", "revoked", "expired"}]
    if sorted(ends) != sorted(grants):
        broken.append(f"7: granted {sorted(grants)}, ended {sorted(ends)}")
    return broken


def test_the_check_of_promises_sees_what_is_broken() -> None:
    asked = {"seq": 1, "type": "requested", "agent": "A", "ticket": {"request_id": "x"}}
    granted, released = (
        {"seq": 2, "type": "granted", "agent": "A", "fence": 2},
        {"seq": 3, "type": "released", "fence": 2},
    )
    told = {"type": "GRANTED", "agent": "A", "fence": 2}
    assert broken_promises([told], [asked, granted, released]) == []
    assert broken_promises([{**told, "fence": 1}], [asked, granted, released])
    assert broken_promises([{"type": "QUEUED", "agent": "B", "request_id": "y"}], [asked, granted, released])
    assert broken_promises([], [asked, granted, {**released, "seq": 4}])
    assert broken_promises([], [asked, granted])
    assert broken_promises([], [asked, granted, released, {**released, "seq": 4}])
    assert broken_promises([], [asked, {**granted, "agent": "B"}, released])


async def lived_and_replayed(database: Path) -> tuple[World, World]:
    """The world that was kept at an orderly end, and the one that all records make from nothing."""
    async with SqliteStore(database) as store:
        snapshot = await store.snapshot()
        assert snapshot is not None
        replayed = World()
        while rows := await store.rows(replayed.index, 512):
            for row in rows:
                replayed.apply(records.decode(row.body))
                replayed.hash = row.hash.hex()
        lived = World.decode(snapshot.body)
    return lived, World.decode(replayed.encode())


def one_kill(about: str, when: str, number: int) -> bool:
    """A conversation with a kill at one record; whether there is such a record. Asserts that all promises hold."""
    with a_bus() as bus:
        # given
        port, repository = free_port(), Repository(bus)
        Home(bus.home).write(server_config(port, options="--build-s 0", more=PREPARE) if about == "server" else BOARD)
        one, two = repository.worktrees(2)
        dying = bus.up_and_dying(when, number)
        follower = Follower(bus)
        # when
        talk = Talk(bus, port, one, two)
        talk.about_a_server(repository) if about == "server" else talk.about_a_board()
        died = dying.process.poll() is not None
        dying.kill()
        dying.end()
        bus.ok("up")
        follower.until("released", agent="C" if about == "server" else "B")
        # then
        assert broken_promises(talk.said, follower.events) == [], follower.told()
        ran = (bus.folder / "ran").read_text().splitlines()
        assert ran == RAN[about], "nothing is run twice"
        if about == "server":
            assert (executions(one), executions(two)) == (1, 1), "nothing is run twice"
            assert [message["text"] for message in bus.inbox("B") if message["from"] == "A"] == ["are you there?"]
        bus.ok("down", "--stop-servers")
        lived, replayed = anyio.run(lived_and_replayed, bus.home / "bus.db")
        assert lived == replayed, "8: restart is replay"
        return died


@pytest.fixture
def no_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' own process speaks to the bus here: it must not look like somebody's client."""
    for name in [name for name in os.environ if name.startswith("BUS_")]:
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("no_caller")
@pytest.mark.parametrize(("about", "when", "number"), [("server", "after", 19), ("board", "after", 12)])
def test_a_kill_in_a_whole_conversation_breaks_no_promise(about: str, when: str, number: int) -> None:
    assert one_kill(about, when, number)


@pytest.mark.slow
@pytest.mark.usefixtures("no_caller")
@pytest.mark.parametrize("about", ["server", "board"])
def test_a_kill_at_any_record_of_a_whole_conversation_breaks_no_promise(about: str) -> None:
    # given every record once it is on disk, and some before; those before the third belong to the start itself
    moments = [
        (when, number)
        for number in range(3, RECORDS_MAX)
        for when in (("before", "after") if number % 3 == 0 else ("after",))
    ]
    over = threading.Event()

    def look(moment: tuple[str, int]) -> str:
        if over.is_set():
            return ""
        try:
            if not one_kill(about, *moment):
                over.set()
        except Exception as error:
            return f"killed {moment[0]} record {moment[1]}: {error}"
        return ""

    # when, two at a time
    with ThreadPoolExecutor(2) as workers:
        broken = [each for each in workers.map(look, moments) if each]
    # then
    assert over.is_set(), "the conversation has grown: raise RECORDS_MAX"
    assert broken == []
