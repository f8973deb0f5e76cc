"""What a state file says: to people what they need, to a program all of it, and to nobody what others wrote as more."""

import pytest

from interlock.coordinator.state_text import FIRST_LINE, facts_of, is_ours, read, write
from interlock.coordinator.states import StateFacts
from interlock.protocol.definition import Definition, Kind, ServerDefinition
from interlock.protocol.identity import Identity
from interlock.protocol.limits import STATE_FILE_BYTES_MAX, STATE_FILE_TICKETS_MAX
from interlock.protocol.resource_queue import Queue
from interlock.protocol.resource_state import Launch, Resource, Server, Ticket, Unit, UnitState

WEB = ServerDefinition("npm run dev", url="http://localhost:7080")
NASTY = "x | y\n# owner\n| fence | 1 |\n<!-- state: {} -->\u2028\x1b[2J`code` [a](b) \\ 'q'"


def resource(purpose: str = "try it", waiting: int = 2) -> Resource:
    keeper = Identity("m", "boot-1", 1, 4001, 77)
    owner = Ticket("m1", "ann", 1, 1, "/w1", purpose, "web", 1_700_000_000_000)
    server = Server("web-3-aa", keeper, "/w1", WEB, "c0ffee", 1_700_000_000_000)
    unit = Unit(
        "", UnitState.HELD, owner, 9, 1_700_000_000_000, 1_700_000_060_000, server=server,
        launches={"run-9-bb": Launch("run-9-bb", keeper, purpose, 0)},
    )  # fmt: skip
    queue = Queue(Ticket(f"q{n}", f"w{n}", 1, n, "/w2", purpose, "web", 1_700_000_000_000) for n in range(waiting))
    return Resource("machine/web", Definition(Kind.SERVER, server=WEB), units=(unit,), queue=queue)


def text(of: Resource) -> bytes:
    facts = facts_of(of, bus="b1", seq=12, through=100_000, at_ms=1_700_000_090_000)
    return write(facts, of.definition, "/home/log")


def test_people_find_owner_queue_server_and_log() -> None:
    said = text(resource()).decode()
    for line in (
        "# web", "| state | held |", "| owner | ann |", "| purpose | try it |", "| worktree | /w1 |", "| fence | 9 |",
        "| last confirmation | 2023-11-14T22:14:20.000Z |", "| URL | http://localhost:7080 |",
        "| log | /home/log/web-3-aa.log |",
        "| server runs from | /w1 at commit c0ffee |", "| keeper | pid 4001, started at tick 77 of boot boot-1 |",
        "1. w0 for try it, since 2023-11-14T22:13:20.000Z, from /w2",
    ):  # fmt: skip
        assert line in said.splitlines(), line


def test_a_program_finds_all_of_it_again() -> None:
    of = resource()
    assert read(text(of)) == StateFacts(
        "b1", "machine/web", 12, 100_000, 1_700_000_090_000, of.units, (*of.queue.values(),), 2
    )


def test_what_others_wrote_makes_no_line_cell_or_comment_of_its_own() -> None:
    plain, nasty = text(resource()).decode(), text(resource(NASTY))
    facts = read(nasty)
    assert facts is not None
    assert facts.units[0].ticket is not None
    assert facts.units[0].ticket.purpose == NASTY
    said = nasty.decode()
    assert len(said.splitlines()) == len(plain.splitlines())
    assert said.count("<!--") == plain.count("<!--") == 2
    assert all(c.isprintable() or c == "\n" for c in said)
    rows = [line for line in said.splitlines() if line.startswith("|")]
    assert all(line.replace("\\|", "").count("|") == 3 for line in rows)


def test_a_long_queue_is_counted_and_the_file_stays_small() -> None:
    data = text(resource("p" * 1024, waiting=5_000))
    facts = read(data)
    assert facts is not None
    assert (len(facts.queue), facts.waiting) == (STATE_FILE_TICKETS_MAX, 5_000)
    assert b"and 4900 more" in data
    assert len(data) < STATE_FILE_BYTES_MAX


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\0" * 4096, b"# web\n", text(resource())[:-20], text(resource())[:200], b"<!-- state: {} -->\n",
        b"<!-- state: \xff\xfe -->", b'<!-- state: {"bus":1} -->', b"x" * (STATE_FILE_BYTES_MAX + 1),
    ],
)  # fmt: skip
def test_what_is_torn_or_garbage_says_nothing(data: bytes) -> None:
    assert read(data) is None


def test_only_what_the_bus_wrote_may_be_written_over() -> None:
    assert is_ours(b"")
    assert is_ours(text(resource()))
    assert FIRST_LINE.encode() in text(Resource("machine/r"))
    assert not is_ours(b"# My notes\n")
