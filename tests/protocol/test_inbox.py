"""The inbox, command by command, and what the coordinator's own messages do in it."""

# ruff: noqa: E501 - a table is read across, one row a rule

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.protocol.inbox import (
    Ack,
    Deliver,
    Inbox,
    InboxCommand,
    InboxEvent,
    Letter,
    MessageAcked,
    MessageDelivered,
    MessageSent,
    Post,
    decide,
    evolve,
    put,
    since,
    state_of,
    withdraw,
)
from interlock.protocol.letters import Letters
from interlock.protocol.limits import ACKED_KEPT, UNREAD_MAX
from interlock.protocol.messages import Acked, Refused, Sent, StillUsing, Text
from interlock.protocol.outcome import Now, fold

NOW = Now(5_000, "boot", 5_000, 1)
HELLO = Letter("m1", "bob", 1_000, Text("hello"))
EMPTY = Inbox("ann")
ONE = put(EMPTY, HELLO)
SEEN = fold(evolve, ONE, [MessageDelivered("ann", ("m1",))])
READ = fold(evolve, ONE, [MessageAcked("ann", ("m1",), 2_000)])

TABLE: list[tuple[str, Inbox, InboxCommand, tuple[InboxEvent, ...], object]] = [
    # name                                  given  when                          then                                          heard
    ("a message is queued",                 EMPTY, Post("bob", "m1", "hello"),   (MessageSent("ann", Letter("m1", "bob", 5_000, Text("hello"), seq=1)),), Sent("ann", "m1")),
    ("the same id is the same message",     ONE,   Post("bob", "m1", "hello"),   (),                                           Sent("ann", "m1", "queued")),
    ("also once it was handed over",        SEEN,  Post("bob", "m1", "hello"),   (),                                           Sent("ann", "m1", "delivered")),
    ("also once it was read",               READ,  Post("bob", "m1", "hello"),   (),                                           Sent("ann", "m1", "acked")),
    ("a door hands it over",                ONE,   Deliver(("m1",)),             (MessageDelivered("ann", ("m1",)),),          None),
    ("a second time is no news",            SEEN,  Deliver(("m1",)),             (),                                           None),
    ("what is not there is not handed over", ONE,  Deliver(("m2",)),             (),                                           None),
    ("the agent has read it",               ONE,   Ack(("m1",), "q"),            (MessageAcked("ann", ("m1",), 5_000),),       Acked(("m1",))),
    ("reading needs no handing over",       SEEN,  Ack(("m1",), "q"),            (MessageAcked("ann", ("m1",), 5_000),),       Acked(("m1",))),
    ("a second ack changes nothing",        READ,  Ack(("m1",), "q"),            (),                                           Acked(("m1",))),
    ("an unknown id is said to be unknown", ONE,   Ack(("m9",), "q"),            (),                                           Acked((), ("m9",))),
    ("some of them",                        ONE,   Ack(("m9", "m1"), "q"),       (MessageAcked("ann", ("m1",), 5_000),),       Acked(("m1",), ("m9",))),
]  # fmt: skip


@pytest.mark.parametrize(("given", "when", "then", "heard"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_inbox(given: Inbox, when: InboxCommand, then: tuple[InboxEvent, ...], heard: object) -> None:
    outcome = decide(given, when, NOW)
    assert outcome.events == then
    assert [send.body for send in outcome.outbox] == ([] if heard is None else [heard])
    assert outcome.state == fold(evolve, given, outcome.events)


def test_a_full_inbox_refuses_the_newcomer_with_both_numbers() -> None:
    full = Inbox("ann", Letters(Letter(str(n), "bob", 1, Text("x")) for n in range(UNREAD_MAX)))
    outcome = decide(full, Post("bob", "one more", "x"), NOW)
    refused = outcome.outbox[0].body
    assert not outcome.events
    assert isinstance(refused, Refused)
    assert refused.code == "QUEUE_FULL"
    assert refused.why.count(str(UNREAD_MAX)) == 2


def test_of_the_coordinators_own_only_the_newest_of_each_slot_waits() -> None:
    first = Letter("c1", "coordinator", 1, StillUsing("x", "machine/x", 4), slot="StillUsing:machine/x")
    second = Letter("c2", "coordinator", 2, StillUsing("x", "machine/x", 4, last=True), slot="StillUsing:machine/x")
    other = Letter("c3", "coordinator", 3, StillUsing("y", "machine/y", 5), slot="StillUsing:machine/y")
    inbox = fold(put, EMPTY, [first, other, HELLO, second])
    assert list(inbox.unread) == ["c3", "m1", "c2"]


def test_what_no_longer_holds_is_withdrawn_only_while_it_is_unread() -> None:
    poll = Letter("c1", "coordinator", 1, StillUsing("x", "machine/x", 4), slot="StillUsing:machine/x")
    unread = put(ONE, poll)
    assert list(withdraw(unread, poll.slot).unread) == ["m1"]
    read = fold(evolve, unread, [MessageAcked("ann", ("c1",), 9)])
    assert withdraw(read, poll.slot) == read


def test_a_message_goes_from_queued_to_delivered_to_acked() -> None:
    assert state_of(HELLO) == "queued"
    assert state_of(SEEN.unread["m1"]) == "delivered"
    assert state_of(READ.acked["m1"]) == "acked"


def test_read_messages_are_kept_up_to_a_bound_the_newest_of_them() -> None:
    inbox = EMPTY
    for n in range(ACKED_KEPT + 5):
        inbox = put(inbox, Letter(str(n), "bob", n, Text("x")))
        inbox = fold(evolve, inbox, [MessageAcked("ann", (str(n),), n)])
    assert len(inbox.acked) == ACKED_KEPT
    assert next(iter(inbox.acked)) == "5"


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["", "a", "b"]), st.integers(0, 3)), max_size=30))
def test_whoever_reads_on_from_a_number_misses_nothing_and_gets_nothing_twice(
    moves: list[tuple[int, str, int]],
) -> None:
    """Whatever numbers letters come with, and whenever one is read, replaced or looked at."""
    inbox, cursor = EMPTY, 0
    got: list[str] = []
    for number, (seq, slot, read) in enumerate(moves):
        inbox = put(inbox, Letter(f"m{number}", "bob", 1_000, Text("x"), slot, seq=seq))
        if read == 1:
            inbox = evolve(inbox, MessageAcked("ann", (f"m{number}",), 2_000))
        if read < 2:  # it looks, and nothing that it has not had yet was withdrawn meanwhile
            found = since(inbox, cursor)
            assert [each.seq for each in found] == sorted({each.seq for each in found})
            kept = {each.id for each in (*inbox.unread.values(), *inbox.acked.values())}
            assert {each.id for each in found} == kept - set(got)
            got += [each.id for each in found]
            cursor = max([cursor, *(each.seq for each in found)])
    assert len(got) == len(set(got))


def test_an_inbox_of_an_earlier_version_goes_on_above_what_it_has() -> None:
    old = Inbox("ann", Letters([Letter("m1", "bob", 1_000, Text("x"), seq=40)]))
    new = put(old, Letter("m2", "bob", 1_000, Text("y"), seq=38))
    assert [each.id for each in since(new, 40)] == ["m2"]
