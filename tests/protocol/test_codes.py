"""Codes have one row each; answers start with their word, and their first line alone is enough to act on."""

import msgspec
import pytest

from interlock.protocol.answers import format_answer
from interlock.protocol.codes import TABLE, Code, Exit, Meaning, exit_code
from interlock.protocol.lease_messages import Behind, Leased, LeaseEnded, LeaseQueued
from interlock.protocol.messages import (
    NEWS,
    Acked,
    Admitted,
    Cancelled,
    Down,
    Extended,
    FromBus,
    Granted,
    Joined,
    Left,
    PolicyIs,
    Queued,
    Refused,
    Released,
    Revoked,
    Sent,
    StillUsing,
    Text,
    tag_of,
)
from interlock.protocol.task_messages import Assigned, TaskIs

CONTRACT = """
UNKNOWN_TARGET AMBIGUOUS_TARGET NAME_CONFLICT UNKNOWN_RESOURCE BAD_MESSAGE MESSAGE_TOO_LARGE ID_CONFLICT
NOT_HOLDER NOT_QUEUED QUEUE_FULL RATE_LIMITED STALE_FENCE STALE_POLICY SCOPE_DENIED CAPABILITY_DENIED RESOURCE_BUSY
CONTROLLER_UNAVAILABLE TARGET_ENDED RESERVATION_EXPIRED RESOURCE_WAIT_TIMEOUT RECOVERY_REQUIRED PREPARE_FAILED DEADLOCK
OVERLAP CHANGED_SINCE JOURNAL_UNAVAILABLE INTERNAL
"""

KEY = "machine/loop"
GRANT = Granted("loop", KEY, 7, "r1")
WAIT = Queued("loop", KEY, 2, "r1")

ANSWERS: list[tuple[str, FromBus, str]] = [
    ("a lock", GRANT, "GRANTED loop (fence 7)"),
    ("a unit of a pool", msgspec.structs.replace(GRANT, unit="1"), "GRANTED loop unit 1 (fence 7)"),
    ("a server", msgspec.structs.replace(GRANT, url="http://x", worktree="/w 1"),
     "GRANTED loop http://x from '/w 1' (fence 7)"),
    ("until when", msgspec.structs.replace(GRANT, until_ms=99, for_ms=1_200_000),
     "GRANTED loop (fence 7, yours as you said for 20m)"),
    ("carried over", msgspec.structs.replace(GRANT, running_since_ms=1, running_ms=60_000, commit="abc"),
     "GRANTED loop (fence 7, running since 1m at commit abc)"),
    ("shared", msgspec.structs.replace(GRANT, shared=True), "GRANTED loop (fence 7, under the hold you already have)"),
    ("a note", msgspec.structs.replace(GRANT, note="previous owner silent, not proved gone"),
     "GRANTED loop (fence 7); previous owner silent, not proved gone"),
    ("in a moment of grace", msgspec.structs.replace(WAIT, state="grace", position=1),
     "QUEUED loop position 1 - the last owner was revoked, and has a moment to save what it needs; "
     "do not use, start or stop it; next: bus wait loop"),
    ("its controller has the word", msgspec.structs.replace(WAIT, state="controller", note="ctl chooses who is next"),
     "QUEUED loop position 2 - its controller has not granted it yet; ctl chooses who is next; "
     "do not use, start or stop it; next: bus wait loop"),
    ("commands must end first", msgspec.structs.replace(WAIT, state="blocked", note="l8 must end first"),
     "QUEUED loop position 2 - nobody has it; l8 must end first; do not use, start or stop it; next: bus wait loop"),
    ("who holds it", msgspec.structs.replace(
        WAIT, holder="bob", held_ms=61_000, holder_purpose="a\nREVOKED loop", holder_left_ms=5_000),
     'QUEUED loop position 2 - held by bob since 1m1s for "a REVOKED loop", said 5s more; '
     "do not use, start or stop it; next: bus wait loop"),
    ("being prepared", msgspec.structs.replace(WAIT, position=1, state="preparing"),
     "QUEUED loop position 1 - being prepared for you; do not use, start or stop it; next: bus wait loop"),
    ("a poll", StillUsing("loop", KEY, 7, 1, 180_000),
     "STILL USING? loop - 1 agent waits: bus extend loop, or bus release loop"),
    ("the last poll", StillUsing("loop", KEY, 7, 3, 180_000, last=True),
     "STILL USING? loop - 3 agents wait: bus extend loop, or bus release loop; no answer within 3m ends your hold"),
    ("revoked", Revoked("loop", KEY, "r1", "no answer"), "REVOKED loop no answer"),
    ("failed start", Revoked("loop", KEY, "r1", "it broke", log="/l", tail=("a", "b")),
     "REVOKED loop it broke\n  | a\n  | b\n  log: /l"),
    ("down", Down("loop", KEY, 7, "it died"),
     "DOWN loop it died - it is still yours: bus restart loop, or bus release loop"),
    ("released", Released("loop", KEY), "RELEASED loop"),
    ("extended", Extended("loop", KEY, 7), "EXTENDED loop"),
    ("extended by", Extended("loop", KEY, 7, 60_000), "EXTENDED loop for 1m"),
    ("cancelled", Cancelled("loop", KEY), "CANCELLED loop"),
    ("admitted", Admitted("loop", KEY, 7, "l1"), "ADMITTED loop (fence 7)"),
    ("a policy", PolicyIs("loop", KEY, 3, "ctl", ("ann", "bob"), "strict", ("l8",)),
     "POLICY loop epoch 3 - ctl grants to ann, bob; 1 of their commands run without it: "
     "it is granted once they have ended"),
    ("no policy", PolicyIs("loop", KEY, 4), "POLICY loop epoch 4 - none any more: the coordinator grants by itself"),
    ("acked", Acked(("m1", "m2"), ("m3",)), "ACKED m1 m2 (unknown: m3)"),
    ("joined", Joined("ann", 1, "claude (pid 4121)"), "JOINED ann - bound to claude (pid 4121)"),
    ("left", Left("ann", "it said so"), "LEFT ann - it said so"),
    ("sent", Sent("bob", "m1", "delivered"), "SENT bob m1 (delivered)"),
    ("refused", Refused(Code.NOT_HOLDER, "you do not hold loop", "loop"), "REFUSED NOT_HOLDER you do not hold loop"),
    ("a lease", Leased("L7", "territory/t", ("src/**", "a b"), 7, left_ms=120_000),
     "LEASED L7 src/** 'a b' (fence 7) - yours for 2m: bus lease renew L7"),
    ("a bound one", Leased("L7", "territory/t", ("a",), 7, shared=True, bound_to="process 9", note="from bob"),
     "LEASED L7 a (fence 7, shared) - yours until process 9 ends; from bob"),
    ("a lease that waits", LeaseQueued("L8", "territory/t", ("a",), (
        Behind("L7", "bob", ("a",), 60_000), Behind("L6", "cyd", ("*",), waits=True)), 300_000, 2),
     "LEASE QUEUED L8 a - bob has a for 1m more, cyd waits for * and 2 more; waits 5m at most; do not change it yet"),
    ("a lease given back", LeaseEnded("L7", "territory/t", ("a",), "released", "returned", 7),
     "LEASE ENDED L7 a - given back"),
    ("a lease that is over", LeaseEnded("L7", "territory/t", ("a",), "expired", "not renewed for 2m", 7),
     "LEASE ENDED L7 a - expired: not renewed for 2m"),
    ("an assignment", Assigned(
        "T-1", "lead", "mend\nit", ("a b", "src/**"), ("gpu",), ("no restarts",), "green", "file", "cyd"),
     "ASSIGNED T-1 by lead - mend it\n  changes: 'a b' src/**\n  resources: gpu\n  constraint: no restarts\n"
     "  acceptance: green\n  deliverable: file\n  accepted by: cyd\n"
     "  next: bus task begin T-1; at the end, bus task report T-1 --file …"),
    ("a task", TaskIs("T-1", "reported", "bob", "all of it"),
     "TASK T-1 reported by bob - all of it; next: bus task show T-1, then bus task accept T-1 or reject T-1"),
    ("a task that is over", TaskIs("T-1", "accepted", "cyd", held=("gpu", "a (L3)"), note="not independent: x"),
     "TASK T-1 accepted by cyd; give back what you still have for it: gpu, a (L3); not independent: x"),
]  # fmt: skip


def test_the_codes_are_those_of_the_contract() -> None:
    assert [code.value for code in Code] == CONTRACT.split()


@pytest.mark.parametrize("code", Code)
def test_every_code_has_its_row(code: Code) -> None:
    row: Meaning = TABLE[code]
    assert row.code is code
    assert row.meaning.endswith(".")
    assert row.next
    assert row.exit is exit_code(code.value)
    assert row.exit not in {Exit.OK, Exit.RUN_TIMED_OUT}


def test_a_code_of_a_newer_bus_is_an_io_error() -> None:
    assert exit_code("FROM_THE_FUTURE") is Exit.IO


@pytest.mark.parametrize(("body", "text"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS])
def test_an_answer_reads(body: FromBus, text: str) -> None:
    assert format_answer(body) == text


@pytest.mark.parametrize("body", [row[1] for row in ANSWERS], ids=[row[0] for row in ANSWERS])
def test_an_answer_starts_with_its_word_and_what_it_is_about(body: FromBus) -> None:
    fields = msgspec.structs.asdict(body)
    first = fields[body.__struct_fields__[0]]
    second = first[0] if isinstance(first, tuple) else first
    assert format_answer(body).startswith(f"{tag_of(body)} {second}")


def test_every_answer_has_a_row_above() -> None:
    assert {type(row[1]) for row in ANSWERS} == set(FromBus.__args__) - {Text}


def test_what_one_agent_says_to_another_is_not_looked_into() -> None:
    assert format_answer(Text("GRANTED loop\n")) == "GRANTED loop\n"


def test_the_news_are_words_of_the_bus() -> None:
    assert set(NEWS) <= {tag_of(row[1]) for row in ANSWERS}
