"""What a decision costs does not grow with how many there are. Counted, not timed: steps of the interpreter, and bytes.

Steps find whatever looks at everybody; bytes find what copies everybody, which is one step of the interpreter.
"""

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType, SimpleNamespace
from typing import Any

import msgspec
import pytest

from interlock.coordinator.counting import counts_as, inside_of
from interlock.coordinator.governing import Governing
from interlock.coordinator.identify import identify
from interlock.coordinator.launch_watch import LaunchWatch
from interlock.coordinator.world import World
from interlock.protocol import gate as gates
from interlock.protocol import inbox as inboxes
from interlock.protocol import registry as registries
from interlock.protocol import resource as resources
from interlock.protocol.agents import Agent, Agents
from interlock.protocol.gate_commands import AdmitCommand, CommandBegan, CommandFinished, CommandGone
from interlock.protocol.gate_state import Gate, Managed
from interlock.protocol.identity import Identity, Presence
from interlock.protocol.inbox import Ack, Deliver, Inbox, Post
from interlock.protocol.letters import Letter, Letters
from interlock.protocol.limits import PARTICIPANTS_MAX
from interlock.protocol.messages import Cancel, Grant, Release, Request, Text
from interlock.protocol.outcome import Deadline, Now, Outcome
from interlock.protocol.policy import Policy
from interlock.protocol.registry import Expire, Join, Leave, ProcessGone, Registry, SessionCut
from interlock.protocol.resource_commands import AgentGone, Heard, Mail, Tick
from interlock.protocol.resource_queue import Queue
from interlock.protocol.resource_state import Ended, Lost, Resource, Unit, UnitState
from interlock.protocol.resource_ticket import Ticket
from interlock.protocol.table import Table

FEW, MANY = 40, 4_000
NOW = Now(1_000_000, "b", 1_000_000, 90_000)
KEY = "machine/r"
Work = Callable[[int], Callable[[], object]]


def ticket(number: int, *, absent: bool = False) -> Ticket:
    return Ticket(f"t{number}", f"a{number}", 1, number, "-", "x", KEY, 0, absent=absent)


def resource(waiters: int, *, absent: bool = False) -> Resource:
    """So many wait; every other place of them is in the middle of what `MANY` changes have made of it."""
    queue = Queue(ticket(n, absent=absent) for n in range(1, waiters))
    queue = queue.add(ticket(waiters)).remove(f"t{waiters // 2}").add(ticket(waiters // 2))
    held = Unit("", UnitState.HELD, ticket(0), 1, 1, 1, claimed=True, poll_at=Deadline("b", NOW.mono_ms))
    ended = Table({f"e{n}": Ended("x", 0, "") for n in range(min(waiters, 256))})
    lost = Table({f"l{n}": Lost(0, "", 1) for n in range(min(waiters, 1_024))})
    return Resource(KEY, units=(held,), queue=queue, next_arrival=waiters + 1, ended=ended, lost=lost)


def registry(agents: int) -> Registry:
    """So many are here, each in a process and a worktree of its own, or by a session that is cut; and some are gone."""
    here = [
        Agent(f"a{n}", 1, n, process(n) if n % 2 else None, worktree=f"/w{n}", session="" if n % 2 else f"s{n}")
        for n in range(agents)
    ]
    gone = [Agent(f"g{n}", 1, n, gone=True) for n in range(agents)]
    cut = Table({f"a{n}": Deadline("b", NOW.mono_ms + 1 + n) for n in range(2, agents, 2)})
    return Registry(Agents([*here, *gone]), cut)


def process(number: int) -> Identity:
    return Identity("m", "b", 1, number, 1)


def inbox(letters: int) -> Inbox:
    unread = [Letter(f"m{n}", "bob", 1, Text("x")) for n in range(letters)]
    acked = {f"r{n}": Letter(f"r{n}", "bob", 1, Text("x"), acked_ms=1) for n in range(min(letters, 256))}
    both = Letters([*unread, Letter("p", "coordinator", 1, Text("x"), "StillUsing:r")])
    return Inbox("ann", both, Table(acked), last=letters + 1)


def of_resource(make: Callable[[int], Any], *, absent: bool = False) -> Work:
    def work(many: int) -> Callable[[], object]:
        state, command = resource(many, absent=absent), make(many)
        return lambda: resources.decide(state, command, NOW)

    return work


def of_registry(make: Callable[[int], Any]) -> Work:
    def work(many: int) -> Callable[[], object]:
        state, command = registry(many), make(many)

        def decide() -> tuple[object, object]:
            outcome = registries.decide(state, command, NOW)
            return outcome, outcome.state.next_deadline()

        return decide

    return work


def of_inbox(make: Callable[[int], Any]) -> Work:
    def work(many: int) -> Callable[[], object]:
        state, command = inbox(many), make(many)
        return lambda: inboxes.decide(state, command, NOW)

    return work


def governed(waiters: int) -> Resource:
    """A queue that a controller chooses from: its unit is free."""
    policy = Policy(1, "boss", tuple(f"a{n}" for n in range(PARTICIPANTS_MAX)))
    queue = Queue(msgspec.structs.replace(ticket(n), agent=f"a{n % PARTICIPANTS_MAX}") for n in range(1, waiters + 1))
    return Resource(KEY, queue=queue, next_arrival=waiters + 1, policy=policy)


def of_governed(make: Callable[[int], Any]) -> Work:
    def work(many: int) -> Callable[[], object]:
        state, command = governed(many), make(many)
        return lambda: resources.decide(state, command, NOW)

    return work


def gate(commands: int) -> Gate:
    """So many run, and all of them hold up a resource whose policy came later."""
    runs = [Managed(f"l{n}", f"a{n}", process(n), "make", "/w", "d", 1, blocks=(KEY,)) for n in range(commands)]
    return Gate(Table({KEY: Policy(1, "boss", ("ann",))}), Table({KEY: 1}), Table((each.launch, each) for each in runs))


def of_gate(make: Callable[[int], Any]) -> Work:
    def work(many: int) -> Callable[[], object]:
        state, command = gate(many), make(many)
        return lambda: gates.decide(state, command, NOW)

    return work


def beside(many: int) -> tuple[Any, list[Any]]:
    """What the coordinator keeps beside such a gate, and what it tells."""
    told: list[Any] = []
    effects = SimpleNamespace(probe=lambda _: Presence.ALIVE, watch=lambda *_: None, forget=lambda _: None)
    world = World(gate=gate(many), registry=registry(many))
    supervisor: Any = SimpleNamespace(world=world, effects=effects, tell=lambda *word: told.append(word))
    supervisor.define_if_new = lambda _: None
    supervisor.authority = SimpleNamespace(by_token=lambda: False)
    supervisor.launches, supervisor.governing = LaunchWatch(supervisor), Governing(supervisor)
    supervisor.governing.take_up()
    return supervisor, told


def follow_an_end(many: int) -> Callable[[], object]:
    supervisor, told = beside(many)
    world, ends = supervisor.world, iter(range(many))

    def work() -> object:
        launch = f"l{next(ends)}"
        world.gate = gates.decide(world.gate, CommandGone(launch, proved=True), NOW).state
        supervisor.governing.follow(CommandFinished("a", launch, 1))
        return told.pop()

    return work


def count(many: int) -> Callable[[], object]:
    """As whom one counts that is inside of two commands, one seen and one said."""
    supervisor, _ = beside(many)
    caller = SimpleNamespace(ancestors=lambda: [process(-1), process(7)])
    session: Any = SimpleNamespace(caller=caller, owner="")

    def work() -> object:
        inside = inside_of(supervisor, session, "a1", ("l3",))
        assert counts_as(supervisor, session, "a1", inside) == ("a3", "a7")
        return inside

    return work


def mail(number: int, body: Any, id_: str = "new") -> Mail:
    return Mail(f"a{number}", 1, id_, body, KEY)


def chosen(request_id: str) -> Mail:
    return Mail("boss", 1, "new", Grant(request_id), KEY, may_control=True)


def fresh(number: int) -> Managed:
    return Managed("new", "new", process(-1), "make", "/w", "d", 0, also=(f"a{number}",))


def find(*, worktree: str = "", chain: int = 0) -> Work:
    def work(many: int) -> Callable[[], object]:
        state = registry(many)
        above = [process(many + n) for n in range(5)] + ([process(chain)] if chain else [])
        return lambda: identify(state, agent="", how="", ancestors=above, worktree=worktree, user="")

    return work


DECISIONS: list[tuple[str, Work]] = [
    ("a hold is given back, and the first is granted", of_resource(lambda n: mail(0, Release(KEY)))),
    ("the same while all but one are absent", of_resource(lambda n: mail(0, Release(KEY)), absent=True)),
    ("one more asks", of_resource(lambda n: mail(n + 1, Request(KEY, "-")))),
    ("one in the middle asks again", of_resource(lambda n: mail(n // 2, Request(KEY, "-"), f"t{n // 2}"))),
    ("one in the middle gives up", of_resource(lambda n: mail(n // 2, Cancel(KEY)))),
    ("one in the middle is gone", of_resource(lambda n: AgentGone(f"a{n // 2}", 1, "it left"))),
    ("one who was absent is back", of_resource(lambda n: Heard("a3"), absent=True)),
    ("the owner is asked", of_resource(lambda n: Tick())),
    ("one more joins", of_registry(lambda n: Join("new", process(n + 1), worktree="/new", id="i"))),
    ("one joins again", of_registry(lambda n: Join("a1", process(1), worktree="/other", id="i"))),
    ("one whose process is gone is followed", of_registry(lambda n: Join("a1", process(-1), known=Presence.GONE))),
    ("one leaves", of_registry(lambda n: Leave("a1", "i"))),
    ("a process is gone", of_registry(lambda n: ProcessGone(process(1)))),
    ("a session is cut", of_registry(lambda n: SessionCut("a0", "s0"))),
    ("a cut session is back", of_registry(lambda n: Join("a2", session="s2", program=True, id="i"))),
    ("a deadline of none is looked at", of_registry(lambda n: Expire())),
    ("a message comes", of_inbox(lambda n: Post("bob", "new", "hello"))),
    ("a message is handed over", of_inbox(lambda n: Deliver(("m1",)))),
    ("a message is read", of_inbox(lambda n: Ack(("m1",)))),
    ("a caller is found by its process", find(chain=1)),
    ("a caller is found by its worktree", find(worktree="/w1")),
    ("a caller is not found", find(worktree="/nowhere")),
    ("one more asks for what is governed", of_governed(lambda n: mail(1, Request(KEY, "-", run=True)))),
    ("a controller chooses one in the middle", of_governed(lambda n: chosen(f"t{n // 2}"))),
    ("a controller chooses one that is over", of_governed(lambda n: chosen("nobody's"))),
    ("a command is admitted", of_gate(lambda n: AdmitCommand("i", fresh(n)))),
    ("a command has begun", of_gate(lambda n: CommandBegan(f"l{n // 2}", process(1), 1))),
    ("a command ends", of_gate(lambda n: CommandGone(f"l{n // 2}", proved=True))),
    ("a resource is told of one that held it up", follow_an_end),
    ("an agent is counted as others", count),
]


def steps(work: Callable[[], object]) -> int:
    """How many instructions of the interpreter it takes."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def kept_bytes(work: Callable[[], object]) -> int:
    """What its outcome keeps in memory beyond what was there before."""
    work()
    tracemalloc.start()
    try:
        outcome = work()
        kept, _ = tracemalloc.get_traced_memory()
        del outcome
    finally:
        tracemalloc.stop()
    return kept


@pytest.mark.parametrize("work", [work for _, work in DECISIONS], ids=[name for name, _ in DECISIONS])
def test_a_decision_among_many_takes_the_steps_of_one_among_few(work: Work) -> None:
    few, many = steps(work(FEW)), steps(work(MANY))
    assert many < few + 1_000, f"{few} steps among {FEW}, {many} among {MANY}: it looks at all of them, see table.py"


@pytest.mark.parametrize("work", [work for _, work in DECISIONS], ids=[name for name, _ in DECISIONS])
def test_a_decision_among_many_copies_little(work: Work) -> None:
    kept = kept_bytes(work(MANY))
    assert kept < 32_000, f"{kept} bytes are kept by one decision among {MANY}: it copies all of them, see table.py"


@pytest.mark.parametrize(
    ("make", "decide", "command"),
    [
        (resource, resources.decide, lambda n: mail(10_000 + n, Request(KEY, "-"), f"new{n}")),
        (resource, resources.decide, lambda n: mail(0, Cancel(KEY)) if n == 0 else mail(n, Cancel(KEY))),
        (registry, registries.decide, lambda n: Join(f"new{n}", process(10_000 + n), worktree=f"/new{n}")),
        (registry, registries.decide, lambda n: Leave(f"a{n}")),
        (inbox, inboxes.decide, lambda n: Ack((f"m{n}",))),
    ],
    ids=["requests", "cancels", "joins", "leaves", "acks"],
)
def test_many_decisions_one_after_another_cost_what_as_many_single_ones_do(
    make: Callable[[int], Any], decide: Callable[[Any, Any, Now], Outcome[Any, Any]], command: Callable[[int], Any]
) -> None:
    """Also what is done only now and then is counted here: folding what has come loose into a new base."""

    def forty(many: int) -> Callable[[], object]:
        first = make(many)

        def work() -> None:
            state = first
            for n in range(40):
                state = decide(state, command(n), NOW).state

        return work

    few, many = steps(forty(200)), steps(forty(MANY))
    assert many < 1.5 * few, f"{few} steps for forty among 200, {many} among {MANY}"
