"""The load believes no wrong answer, whatever it comes in; a made journal is one that the real replay takes."""

import socket
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from scripts.benching import journal_maker
from scripts.benching.bus_talk import read_line
from scripts.benching.fixed_talk import FixedTalk
from scripts.benching.handover_talk import RESOURCE, Turns
from scripts.benching.load import Wrong, drive
from scripts.benching.others import etcd, nats
from scripts.benching.rows.one_lock import count_handovers

from interlock.adapters.sqlite import SqliteStore
from interlock.adapters.system_clock import SystemClock
from interlock.coordinator.journal import Journal
from interlock.coordinator.records import CameUp, Entry, Record, encode
from interlock.coordinator.world import REGISTRY, SUPERVISOR
from interlock.protocol.registry import Agent, AgentJoined, Registry, evolve
from interlock.protocol.resource_events import HoldGranted, HoldReleased, Requested
from interlock.protocol.resource_state import Ticket

Answer = Callable[[bytes], bytes]


@pytest.fixture
def served() -> Iterator[Callable[[Answer], socket.socket]]:
    """A client's socket whose other end answers each line as it is told; b"" closes it."""
    threads = []

    def serve(answer: Answer) -> socket.socket:
        ours, theirs = socket.socketpair()

        def run() -> None:
            with theirs:
                while (line := theirs.recv(4096)) and (said := answer(line)):
                    theirs.sendall(said)

        threads.append((threading.Thread(target=run), ours))
        threads[-1][0].start()
        return ours

    yield serve
    for thread, ours in threads:
        ours.close()
        thread.join(10)


def test_pairs_are_counted_and_each_client_ends_with_what_it_took_given_back(
    served: Callable[[Answer], socket.socket],
) -> None:
    heard: list[Counter[bytes]] = [Counter(), Counter()]

    def answering(mine: Counter[bytes]) -> Answer:
        def answer(line: bytes) -> bytes:
            mine[line] += 1
            return {b"take\n": b"taken\n", b"give\n": b"given\n"}[line]

        return answer

    talks = [FixedTalk(served(answering(each)), b"take\n", b"taken\n", b"give\n", b"given\n") for each in heard]
    load = drive(talks, 0.01)
    assert load.pairs == sum(each[b"give\n"] for each in heard) == len(load.latencies_ms) >= 2
    assert all(each[b"take\n"] == each[b"give\n"] for each in heard)


@pytest.mark.parametrize(
    ("said", "why"), [(b"busy\n", "busy"), (b"taken\ntaken\n", "taken"), (b"", "the connection was closed")]
)
def test_another_answer_ends_the_row(
    served: Callable[[Answer], socket.socket], said: bytes, why: str
) -> None:  # fmt: skip
    talk = FixedTalk(served(lambda line: said), b"take\n", b"taken\n", b"give\n", b"given\n")
    with pytest.raises(Wrong, match=why):
        drive([talk], 0.01)


def test_an_answer_in_pieces_is_one_answer() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        talk = FixedTalk(ours, b"take\n", b"taken\n", b"give\n", b"given\n")
        assert [talk.hear(b"tak"), talk.hear(b"en\n")] == [b"", b"give\n"]
        theirs.sendall(b"half")
        theirs.close()
        with pytest.raises(Wrong):
            read_line(ours)


def test_two_holders_at_once_and_a_fence_that_does_not_grow_are_found() -> None:
    turns = Turns(Counter())
    turns.granted("a", 7)
    with pytest.raises(Wrong):
        turns.granted("b", 8)
    turns.given_back()
    with pytest.raises(Wrong):
        turns.granted("b", 7)


def test_a_protobuf_message_is_read_as_it_was_written() -> None:
    body = etcd.message(1, b"x" * 300) + etcd.number(2, 1) + etcd.number(5, 1 << 40)
    assert list(etcd.fields(body)) == [(1, b"x" * 300), (2, 1), (5, 1 << 40)]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"PING\r\n", [b"PONG\r\n"]),
        (b'MSG _INBOX.0 1 9\r\n{"seq":4}\r\n', [b"HPUB", b"KV-Operation: DEL", b"Sequence: 4"]),
        (b'MSG _INBOX.0 1 9\r\n{"seq":4}\r\nPING\r\n', [b"PONG\r\n", b"Sequence: 4"]),
    ],
)
def test_a_ping_between_answers_is_answered_too(data: bytes, says: list[bytes]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        answer = nats.NatsTalk(ours, 0).hear(data)
    assert all(part in answer for part in says)


def test_an_error_of_jetstream_ends_the_row() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(Wrong, match="wrong last sequence"):
        nats.NatsTalk(ours, 0).hear(b'MSG _INBOX.0 1 9\r\n{"error":{"description":"wrong last sequence"},"seq":0}\r\n')


def test_a_made_journal_is_one_that_the_real_replay_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_maker, "SNAPSHOT_EVERY_RECORDS", 64)
    database = tmp_path / "bus.db"

    async def begin() -> None:
        journal = Journal(SqliteStore(database), SystemClock(), 0)
        await journal.open()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(journal.run)
            journal.stage(Entry(SUPERVISOR, (CameUp(1, 1, "bus"),)), None)
            joined = AgentJoined(Agent("long", 1, joined_ms=1))
            await journal.stage(Entry(REGISTRY, (joined,)), evolve(Registry(), joined)).wait()
            journal.finish()
        await journal.close(snapshot=True)

    async def replay() -> tuple[int, int, int]:
        journal = Journal(SqliteStore(database), SystemClock(), 0)
        snapshot_at = 0
        try:
            world = await journal.open()
            snapshot = await journal.snapshot()
            snapshot_at = snapshot.index if snapshot is not None else 0
        finally:
            await journal.close(snapshot=False)
        return world.index, world.seq, snapshot_at

    anyio.run(begin)
    journal_maker.lengthen(database, 301, "long")
    index, seq, snapshot_at = anyio.run(replay)
    assert index == 301
    assert index - snapshot_at == 63, "one record before the next snapshot is due"
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT count(*), max(last_seq) FROM record").fetchone() == (301, seq)


def test_hand_overs_are_counted_in_the_journal_and_those_that_one_record_holds(tmp_path: Path) -> None:
    def asks(agent: str) -> Requested:
        return Requested(agent, Ticket(agent, agent, 1, 1, "-", "", RESOURCE, 0))

    def has(agent: str) -> HoldGranted:
        return HoldGranted(agent, "", agent, 1, 0)

    def gives(agent: str) -> HoldReleased:
        return HoldReleased(agent, "", 1, "released", 0)

    rows = [
        (asks("a"), has("a")),  # it was free
        (asks("b"),),
        (gives("a"), has("b")),  # one record
        (asks("c"),),
        (gives("b"),),
        (has("c"),),  # two
        (gives("c"),),  # nobody waits
        (asks("a"), has("a")),
    ]
    database = tmp_path / "bus.db"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE record (idx INTEGER PRIMARY KEY, body BLOB)")
        for index, events in enumerate(rows, start=1):
            record = Record(index, 1, "", 0, 1, (Entry(RESOURCE, events), Entry("machine/other", events)))
            connection.execute("INSERT INTO record VALUES (?, ?)", (index, encode(record)))
    assert count_handovers(database) == (2, 1)
