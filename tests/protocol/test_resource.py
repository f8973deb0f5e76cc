"""The resource, rule by rule. Read a row as: given, when, then, heard by, and how it stands after.

`ann GRANTED` is a direct answer, `ann< GRANTED` news in an inbox, `ann/run< GRANTED` goes to the wrapper of a
`bus run`. The language of the lines is `player.py`'s; what servers add is in `test_resource_server.py`.
"""
# ruff: noqa: E501 - a table is read across, one row a rule

import msgspec
import pytest
from tests.protocol.player import Player, Row, expected, heard, kept, played, seen, stands

from interlock.protocol import resource_requests
from interlock.protocol.messages import Granted, Queued, Refused, Released, Revoked
from interlock.protocol.outcome import Deadline
from interlock.protocol.plain import to_plain
from interlock.protocol.registry import Registry
from interlock.protocol.resource_waiting import next_deadline
from interlock.protocol.table import Table

FREE = ""
HELD = "0 ann REQUEST loop - tests"
WAITED = f"{HELD}; 0 bob REQUEST loop - tests"
TWO_WAIT = f"{WAITED}; 0 cyd REQUEST loop"
POLLED = f"{WAITED}; 3m tick"
POLLED_TWICE = f"{POLLED}; 6m tick"
UNNOTICED = f"{TWO_WAIT}; 1m ann RELEASE loop"  # bob is granted at 1m, and has not noticed
PASSED_OVER = f"{UNNOTICED}; 3m tick"
RUN = "0 ann runs REQUEST loop"
RUNNING = f"{RUN}; 0 ann admits make"  # launch l1
UNDER_HOLD = f"{WAITED}; 1s ann admits make"  # launch l1
DRAINING = f"{UNDER_HOLD}; 2s ann is gone"

ASKING = [
    Row("free is granted at once", FREE, "0 ann REQUEST loop", "requested granted", "ann GRANTED", "held ann"),
    Row("held is queued", HELD, "1s bob REQUEST loop", "requested", "bob QUEUED", "held ann [bob]"),
    Row("first come, first in the queue", WAITED, "1s cyd REQUEST loop", "requested", "cyd QUEUED", "held ann [bob cyd]"),
    Row("the owner asks again: granted, extended", HELD, "1s ann REQUEST loop - more, 5m", "extended", "ann GRANTED", "held ann"),
    Row("a second REQUEST merges", TWO_WAIT, "1s bob REQUEST loop", "", "bob QUEUED", "held ann [bob cyd]"),
    Row("another purpose replaces the first", TWO_WAIT, "1s bob REQUEST loop - other, 5m", "amended", "bob QUEUED", "held ann [bob cyd]"),
    Row("another worktree too, at the same place", TWO_WAIT, "1s bob REQUEST loop /w2", "amended", "bob QUEUED", "held ann [bob cyd]"),
    Row("the same id again is done once", HELD, "1s ann (again) REQUEST loop", "", "ann GRANTED", "held ann"),
    Row("the same id again in the queue", WAITED, "1s bob (again) REQUEST loop", "", "bob QUEUED", "held ann [bob]"),
    Row("the same id after its end", f"{HELD}; 0 ann RELEASE loop", "1s ann (again) REQUEST loop", "", "ann REFUSED TARGET_ENDED", "free"),
    Row("the same id after CANCEL", f"{WAITED}; 0 bob CANCEL loop", "1s bob (again) REQUEST loop", "", "bob REFUSED TARGET_ENDED", "held ann"),
    Row("--no-wait takes what is free", FREE, "0 ann (no wait) REQUEST loop", "requested granted", "ann GRANTED", "held ann"),
    Row("--no-wait never queues", HELD, "0 bob (no wait) REQUEST loop", "", "bob REFUSED RESOURCE_BUSY", "held ann"),
    Row("--no-wait of one already queued keeps its place", WAITED, "0 bob (no wait) REQUEST loop", "", "bob QUEUED", "held ann [bob]"),
    Row("--no-wait passes nobody but the absent", f"{PASSED_OVER}; 4m cyd RELEASE loop", "5m dan (no wait) REQUEST loop", "requested granted", "dan GRANTED", "held dan [bob (absent)]"),
    Row("--no-wait does not queue for a definition", f"{HELD}; 0 define server; 0 bob REQUEST loop /w", "1s cyd (no wait) REQUEST loop", "", "cyd REFUSED RESOURCE_BUSY", "held ann; free [bob]", "pool"),
    Row("a second unit is granted", HELD, "0 bob REQUEST loop", "requested granted", "bob GRANTED", "held ann; held bob", "pool"),
    Row("past the last unit one waits", WAITED, "0 cyd REQUEST loop", "requested", "cyd QUEUED", "held ann; held bob [cyd]", "pool"),
]  # fmt: skip

GIVING_BACK = [
    Row("released goes to the next at once", TWO_WAIT, "1s ann RELEASE loop", "released granted", "ann RELEASED, bob< GRANTED, cyd< QUEUED", "held bob [cyd]"),
    Row("released with nobody waiting is free", HELD, "1s ann RELEASE loop", "released", "ann RELEASED", "free"),
    Row("the right fence releases", HELD, "1s ann RELEASE loop fence=2", "released", "ann RELEASED", "free"),
    Row("another fence does not", HELD, "1s ann RELEASE loop fence=1", "", "ann REFUSED STALE_FENCE", "held ann"),
    Row("another's fence does not", HELD, "1s bob RELEASE loop fence=2", "", "bob REFUSED STALE_FENCE", "held ann"),
    Row("sent before the grant does not", HELD.replace("0 ", "9s "), "10s ann (sent 8s) RELEASE loop", "", "ann REFUSED STALE_FENCE", "held ann"),
    Row("sent after the grant does", HELD.replace("0 ", "9s "), "10s ann (sent 9s) RELEASE loop", "released", "ann RELEASED", "free"),
    Row("a stranger can't release", HELD, "1s bob RELEASE loop", "", "bob REFUSED NOT_HOLDER", "held ann"),
    Row("RELEASE in the queue cancels", TWO_WAIT, "1s bob RELEASE loop", "cancelled", "bob CANCELLED, cyd< QUEUED", "held ann [cyd]"),
    Row("a fence in the queue is stale", WAITED, "1s bob RELEASE loop fence=2", "", "bob REFUSED STALE_FENCE", "held ann [bob]"),
    Row("RELEASE twice says it is over", f"{HELD}; 1s ann RELEASE loop", "2s ann RELEASE loop", "", "ann REFUSED NOT_HOLDER", "free"),
    Row("not while a command runs under it", UNDER_HOLD, "2s ann RELEASE loop", "", "ann REFUSED RESOURCE_BUSY", "held ann [bob]"),
    Row("EXTEND without a poll is fine", HELD, "1s ann EXTEND loop, 10m", "extended", "ann EXTENDED", "held ann"),
    Row("EXTEND of a stranger is refused", HELD, "1s bob EXTEND loop", "", "bob REFUSED NOT_HOLDER", "held ann"),
    Row("EXTEND from the queue is refused", WAITED, "1s bob EXTEND loop", "", "bob REFUSED NOT_HOLDER", "held ann [bob]"),
    Row("CANCEL leaves the queue", TWO_WAIT, "1s bob CANCEL loop", "cancelled", "bob CANCELLED, cyd< QUEUED", "held ann [cyd]"),
    Row("CANCEL further back wakes nobody", TWO_WAIT, "1s cyd CANCEL loop", "cancelled", "cyd CANCELLED", "held ann [bob]"),
    Row("CANCEL of the owner points to RELEASE", HELD, "1s ann CANCEL loop", "", "ann REFUSED NOT_QUEUED", "held ann"),
    Row("CANCEL of a stranger is refused", HELD, "1s bob CANCEL loop", "", "bob REFUSED NOT_QUEUED", "held ann"),
    Row("a lock has nothing to restart", HELD, "1s ann RESTART loop", "", "ann REFUSED CAPABILITY_DENIED", "held ann"),
    Row("… which is a sign of life", f"{WAITED}; 1s ann RELEASE loop", "2s bob RESTART loop", "claimed", "bob REFUSED CAPABILITY_DENIED", "held bob"),
    Row("… as a CANCEL of the owner is", f"{WAITED}; 1s ann RELEASE loop", "2s bob CANCEL loop", "claimed", "bob REFUSED NOT_QUEUED", "held bob"),
    Row("a finished owner goes to the back", f"{TWO_WAIT}; 1s ann RELEASE loop", "2s ann REQUEST loop", "requested", "ann QUEUED", "held bob [cyd ann]"),
]  # fmt: skip

HANDING_ON = [
    Row("HANDOVER to the first in the queue", TWO_WAIT, "1s ann HANDOVER loop bob", "released granted", "ann RELEASED, bob< GRANTED, cyd< QUEUED", "held bob [cyd]"),
    Row("HANDOVER overtakes nobody", TWO_WAIT, "1s ann HANDOVER loop cyd", "", "ann REFUSED RESOURCE_BUSY", "held ann [bob cyd]"),
    Row("HANDOVER to one who has not asked", HELD, "1s ann HANDOVER loop bob", "requested released granted", "ann RELEASED, bob< GRANTED", "held bob"),
    Row("… with the worktree and the server as they stand", "0 ann REQUEST loop /w1; 0 keeper up; 1s step done", "2s ann HANDOVER loop bob", "requested released step_started", "ann RELEASED", "preparing bob", "server", "verify /w1"),
    Row("… the very unit, though another is free", f"{WAITED}; 1s ann RELEASE loop", "2s bob HANDOVER loop cyd", "requested released granted", "bob RELEASED, cyd< GRANTED", "free; held cyd", "pool"),
    Row("HANDOVER to the one who has it", HELD, "1s ann HANDOVER loop ann", "", "ann REFUSED RESOURCE_BUSY", "held ann"),
    Row("HANDOVER to one with a unit of its own", WAITED, "1s ann HANDOVER loop bob", "", "ann REFUSED RESOURCE_BUSY", "held ann; held bob", "pool"),
    Row("HANDOVER to one who is absent", PASSED_OVER, "4m cyd HANDOVER loop bob", "", "cyd REFUSED RESOURCE_BUSY", "held cyd [bob (absent)]"),
    Row("HANDOVER of a stranger", HELD, "1s bob HANDOVER loop cyd", "", "bob REFUSED NOT_HOLDER", "held ann"),
    Row("HANDOVER from the queue", WAITED, "1s bob HANDOVER loop cyd", "", "bob REFUSED NOT_HOLDER", "held ann [bob]"),
    Row("HANDOVER not while a command runs under it", UNDER_HOLD, "2s ann HANDOVER loop bob", "", "ann REFUSED RESOURCE_BUSY", "held ann [bob]"),
    Row("HANDOVER while it is being prepared", "0 ann REQUEST loop /w1", "1s ann HANDOVER loop bob", "", "ann REFUSED RESOURCE_BUSY", "preparing ann", "server"),
]  # fmt: skip

ENDING = [
    Row("a dead owner loses it at once", WAITED, "1s ann is gone", "revoked granted", "bob< GRANTED", "held bob"),
    Row("a dead waiter leaves the queue", TWO_WAIT, "1s bob is gone", "cancelled", "cyd< QUEUED", "held ann [cyd]"),
    Row("an old incarnation's end means nobody", f"{HELD}; 1s ann is gone; 2s ann REQUEST loop", "3s ann's former self is gone", "", "", "held ann"),
    Row("a dead owner's command keeps the hold", UNDER_HOLD, "2s ann is gone", "draining", "", "draining ann [bob]"),
    Row("… until it has ended", DRAINING, "3s command l1 ends 0", "finished revoked granted", "bob< GRANTED", "held bob"),
    Row("… and a lost one is a person's", DRAINING, "3s command l1 is lost", "recovery_required", "bob< QUEUED", "recovery_required [bob]"),
    Row("asked anew while the last command runs", DRAINING, "3s ann REQUEST loop", "", "ann REFUSED RESOURCE_BUSY", "draining ann [bob]"),
    Row("the same id after the hold was lost", DRAINING, "3s ann (again) REQUEST loop", "", "ann REFUSED TARGET_ENDED", "draining ann [bob]"),
    Row("a command that ends leaves an asked hold", UNDER_HOLD, "3s command l1 ends 0", "finished", "", "held ann [bob]"),
    Row("a lost command is a person's", UNDER_HOLD, "3s command l1 is lost", "recovery_required", "ann< REVOKED RECOVERY_REQUIRED, bob< QUEUED", "recovery_required [bob]"),
    Row("doubt grants nobody", f"{UNDER_HOLD}; 3s command l1 is lost", "4s cyd REQUEST loop", "requested", "cyd QUEUED", "recovery_required [bob cyd]"),
    Row("a person ends the doubt", f"{UNDER_HOLD}; 3s command l1 is lost", "9s person confirms", "recovered granted", "person RELEASED, bob< GRANTED", "held bob"),
    Row("not while another command lives there", f"{UNDER_HOLD}; 1s ann admits more; 3s command l1 is lost", "9s person confirms", "", "person REFUSED RESOURCE_BUSY", "recovery_required [bob]"),
    Row("… but once it has ended", f"{UNDER_HOLD}; 1s ann admits more; 3s command l1 is lost; 4s command l2 ends 0", "9s person confirms", "recovered granted", "person RELEASED, bob< GRANTED", "held bob"),
    Row("nothing in doubt, nothing to confirm", HELD, "9s person confirms", "", "person REFUSED TARGET_ENDED", "held ann"),
    Row("a lost database frees nothing", "", "0 database lost", "recovery_required", "", "recovery_required"),
    Row("… and ends what a backup tells of", TWO_WAIT, "1s database lost", "cancelled cancelled recovery_required", "ann< REVOKED RECOVERY_REQUIRED", "recovery_required"),
    Row("… nor does it grant to who asks later", "0 database lost", "1s ann REQUEST loop", "requested", "ann QUEUED", "recovery_required [ann]"),
    Row("a command that outlived it must end first", "0 database lost, a command lives", "9s person confirms", "", "person REFUSED RESOURCE_BUSY", "recovery_required"),
    Row("… which frees nothing by itself", "0 database lost, a command lives; 0 ann REQUEST loop", "4s command l1 ends 0", "finished", "", "recovery_required [ann]"),
    Row("… a person does", "0 database lost, a command lives; 0 ann REQUEST loop; 4s command l1 ends 0", "9s person confirms", "recovered granted", "person RELEASED, ann< GRANTED", "held ann"),
    Row("what lives on a unit that is only to be must end first", "0 database lost, a command lives", "9s person confirms", "recovered", "person RELEASED", "recovery_required; free", "pool"),
    Row("a database lost again is doubted again", "0 database lost, a command lives", "1s database lost", "recovery_required", "", "recovery_required"),
    Row("what is idle is forgotten", f"{HELD}; 1s ann RELEASE loop", "2s forget", "forgotten", "", "free"),
    Row("what is held is not", HELD, "2s forget", "", "", "held ann"),
    Row("a definition waits while it is held", HELD, "1s define pool", "definition_pending", "", "held ann"),
    Row("… and counts once it is free", f"{HELD}; 1s define pool; 1s bob REQUEST loop; 1s cyd REQUEST loop; 1s dan REQUEST loop", "2s ann RELEASE loop", "released defined granted granted", "ann RELEASED, bob< GRANTED, cyd< GRANTED, dan< QUEUED", "held bob; held cyd [dan]"),
    Row("… and who named no worktree is told that one is needed now", f"{HELD}; 0 define server; 1s bob REQUEST loop -", "2s ann RELEASE loop", "released defined cancelled", "ann RELEASED, bob< REVOKED BAD_MESSAGE", "free"),
    Row("… also the one to whom it is handed over", f"{HELD}; 0 define server", "2s ann HANDOVER loop bob", "requested released defined cancelled", "ann RELEASED, bob< REVOKED BAD_MESSAGE", "free"),
    Row("a free resource is defined at once", FREE, "0 define pool", "definition_pending defined", "", "free; free"),
    Row("the same definition changes nothing", HELD, "0 define lock", "", "", "held ann"),
]  # fmt: skip

WAITING = [
    Row("no queue, no poll", HELD, "3m tick", "", "", "held ann"),
    Row("the first poll after one interval", WAITED, "3m tick", "polled", "ann< STILL USING?", "held ann [bob]"),
    Row("not before", WAITED, "2m59s999ms tick", "", "", "held ann [bob]"),
    Row("a second after two", POLLED, "6m tick", "polled", "ann< STILL USING?", "held ann [bob]"),
    Row("two silent polls end the hold", POLLED_TWICE, "9m tick", "revoked granted", "ann< REVOKED, bob< GRANTED", "held bob"),
    Row("EXTEND answers both", f"{POLLED_TWICE}; 8m ann EXTEND loop", "9m tick", "", "", "held ann [bob]"),
    Row("any sign of life answers", f"{POLLED_TWICE}; 8m ann is heard", "9m tick", "", "", "held ann [bob]"),
    Row("… and the count begins anew", f"{POLLED_TWICE}; 8m ann is heard; 11m tick", "14m tick", "polled", "ann< STILL USING?", "held ann [bob]"),
    Row("a sign of life of the waiter does not", f"{POLLED_TWICE}; 8m bob is heard", "9m tick", "revoked granted", "ann< REVOKED, bob< GRANTED", "held bob"),
    Row("the queue running empty ends the count", f"{POLLED_TWICE}; 7m bob CANCEL loop; 7m bob REQUEST loop", "9m tick", "", "", "held ann [bob]"),
    Row("a deadline slept through loses nobody", POLLED_TWICE, "9m2s tick", "", "", "held ann [bob]"),
    Row("… one fresh interval later it does", f"{POLLED_TWICE}; 9m2s tick", "12m2s tick", "revoked granted", "ann< REVOKED, bob< GRANTED", "held bob"),
    Row("another boot loses nobody", f"{POLLED_TWICE}; 20m boot", "20m1s tick", "", "", "held ann [bob]"),
    Row("… one fresh interval later it does, too", f"{POLLED_TWICE}; 20m boot; 20m1s tick", "23m1s tick", "revoked granted", "ann< REVOKED, bob< GRANTED", "held bob"),
    Row("before the declared time no poll counts", f"{WAITED}; 0 ann EXTEND loop, 10m; 3m tick; 6m tick", "9m tick", "polled", "ann< STILL USING?", "held ann [bob]"),
    Row("… after it two do", f"{WAITED}; 0 ann EXTEND loop, 10m; 3m tick; 6m tick; 9m tick; 12m tick; 15m tick", "18m tick", "revoked granted", "ann< REVOKED, bob< GRANTED", "held bob"),
    Row("a command under the hold is not polled", UNDER_HOLD, "3m1s tick", "", "", "held ann [bob]"),
    Row("… but its owner is once it has ended", f"{UNDER_HOLD}; 5m command l1 ends 0", "8m tick", "polled", "ann< STILL USING?", "held ann [bob]"),
    Row("a grant nobody noticed passes on", UNNOTICED, "3m tick", "expired granted", "bob< REVOKED, cyd< GRANTED, bob< QUEUED", "held cyd [bob (absent)]"),
    Row("not before", UNNOTICED, "2m59s999ms tick", "", "", "held bob [cyd]"),
    Row("a sign of life notices it", f"{UNNOTICED}; 2m bob is heard", "3m tick", "", "", "held bob [cyd]"),
    Row("nobody else waits: it stays", f"{UNNOTICED}; 2m cyd CANCEL loop", "3m tick", "", "", "held bob"),
    Row("a claim slept through loses nobody", UNNOTICED, "3m2s tick", "", "", "held bob [cyd]"),
    Row("another boot gives a fresh claim", f"{UNNOTICED}; 9m boot", "9m tick", "", "", "held bob [cyd]"),
    Row("an absent ticket is not granted", PASSED_OVER, "4m cyd RELEASE loop", "released", "cyd RELEASED", "free [bob (absent)]"),
    Row("once heard of it is, at its old place", f"{PASSED_OVER}; 3m ann REQUEST loop; 4m bob is heard", "5m cyd RELEASE loop", "released granted", "cyd RELEASED, bob< GRANTED, ann< QUEUED", "held bob [ann]"),
    Row("heard of while it is free: granted at once", f"{PASSED_OVER}; 4m cyd RELEASE loop", "5m bob REQUEST loop", "returned granted", "bob GRANTED", "held bob"),
    Row("who is absent and silent keeps its place for a while", f"{PASSED_OVER}; 4m cyd RELEASE loop", "33m tick", "", "", "free [bob (absent)]"),
    Row("… not for ever: its agent may be gone, and nobody to tell", f"{PASSED_OVER}; 4m cyd RELEASE loop; 33m tick", "63m tick", "cancelled", "bob< REVOKED", "free"),
    Row("… heard of meanwhile it is as new", f"{PASSED_OVER}; 33m tick; 34m bob is heard", "63m tick", "", "", "held cyd [bob]"),
    Row("… a look slept through takes nothing", f"{PASSED_OVER}; 4m cyd RELEASE loop; 33m tick", "63m2s tick", "", "", "free [bob (absent)]"),
    Row("… on another boot it has all its time again", f"{PASSED_OVER}; 4m cyd RELEASE loop; 33m tick; 40m boot; 40m1s tick", "70m1s tick", "cancelled", "bob< REVOKED", "free"),
    Row("the owner asked is not asked by the absent", f"{PASSED_OVER}; 3m cyd is heard", "6m tick", "", "", "held cyd [bob (absent)]"),
]  # fmt: skip

RUNS = [
    Row("a run is granted, not yet noticed", FREE, "0 ann runs REQUEST loop", "requested granted", "ann GRANTED", "held ann"),
    Row("two runs of one agent never merge", RUN, "0 ann runs REQUEST loop", "requested", "ann QUEUED", "held ann [ann]"),
    Row("under a hold of the same agent it shares", HELD, "0 ann runs REQUEST loop", "", "ann GRANTED", "held ann"),
    Row("a run and a request of one agent are two", f"{RUN}; 0 bob REQUEST loop", "0 ann REQUEST loop", "requested", "ann QUEUED", "held ann [bob ann]"),
    Row("its command is admitted", RUN, "0 ann admits make", "claimed started", "ann ADMITTED", "held ann"),
    Row("not under a fence that is over", HELD, "0 bob admits make", "", "bob REFUSED STALE_FENCE", "held ann"),
    Row("its end gives the unit back", f"{RUNNING}; 0 bob REQUEST loop", "1s command l1 ends 3", "finished released granted", "bob< GRANTED", "held bob"),
    Row("a grant not used in time is over", RUN, "30s tick", "revoked", "ann/run< REVOKED RESERVATION_EXPIRED", "free"),
    Row("not before", RUN, "29s999ms tick", "", "", "held ann"),
    Row("used it is not", RUNNING, "30s tick", "", "", "held ann"),
    Row("slept through it gets a fresh interval", RUN, "32s tick", "", "", "held ann"),
    Row("the wrapper's news go to the wrapper", f"{HELD}; 0 bob runs REQUEST loop", "1s ann RELEASE loop", "released granted", "ann RELEASED, bob/run< GRANTED", "held bob"),
    Row("a wrapper gone before its command", f"{RUN}; 0 bob REQUEST loop", "1s ann's wrapper is gone", "released granted", "bob< GRANTED", "held bob"),
    Row("a wrapper gone under its command", f"{RUNNING}; 0 bob REQUEST loop", "1s ann's wrapper is gone", "", "", "held ann [bob]"),
    Row("a program gone from its hold", "0 ann attends REQUEST loop; 0 bob REQUEST loop", "1s ann's program is gone", "revoked granted", "ann< REVOKED, bob< GRANTED", "held bob"),
    Row("a program gone from the queue", f"{HELD}; 0 bob attends REQUEST loop", "1s bob's program is gone", "cancelled", "", "held ann"),
    Row("a program gone while a command runs under it", "0 ann attends REQUEST loop; 0 ann admits make", "1s ann's program is gone", "draining", "ann< REVOKED", "draining ann"),
    Row("who asks besides keeps the place", f"{HELD}; 0 bob attends REQUEST loop; 0 bob REQUEST loop", "1s bob's program is gone", "", "", "held ann [bob]"),
    Row("a program is polled like anybody", "0 ann attends REQUEST loop; 0 bob REQUEST loop", "3m tick", "polled", "ann< STILL USING?", "held ann [bob]"),
    Row("a wrapper gone from the queue", f"{HELD}; 0 bob runs REQUEST loop", "1s bob's wrapper is gone", "cancelled", "", "held ann"),
    Row("a run does not die with its agent", f"{RUNNING}; 0 bob REQUEST loop", "1s ann is gone", "", "", "held ann [bob]"),
    Row("nor does its place", f"{HELD}; 0 bob runs REQUEST loop", "1s bob is gone", "", "", "held ann [bob]"),
    Row("a run that withdraws is remembered", f"{HELD}; 0 bob runs REQUEST loop; 0 cyd REQUEST loop; 1s bob withdraws", "2m bob runs REQUEST loop", "requested", "bob QUEUED", "held ann [bob cyd]"),
    Row("… for two minutes", f"{HELD}; 0 bob runs REQUEST loop; 0 cyd REQUEST loop; 1s bob withdraws", "2m1s bob runs REQUEST loop", "requested", "bob QUEUED", "held ann [cyd bob]"),
    Row("… once", f"{HELD}; 0 bob runs REQUEST loop; 0 cyd REQUEST loop; 1s bob withdraws; 2s bob runs REQUEST loop", "3s bob runs REQUEST loop", "requested", "bob QUEUED", "held ann [bob cyd bob]"),
    Row("RELEASE without a fence spares the run", RUN, "1s ann RELEASE loop", "", "ann REFUSED RESOURCE_BUSY", "held ann"),
    Row("RELEASE with its fence ends it", RUN, "1s ann RELEASE loop fence=2", "released", "ann RELEASED", "free"),
]  # fmt: skip

TABLE = [*ASKING, *GIVING_BACK, *HANDING_ON, *ENDING, *WAITING, *RUNS]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_resource(row: Row) -> None:
    assert seen(row) == expected(row)


# --- what does not fit into a row -----------------------------------------------------------
def test_three_grants_in_a_row_unnoticed_cancel_the_ticket() -> None:
    player = played(TWO_WAIT)
    for minute in (10, 20, 30):
        player.play(f"at {minute}m ann is heard")
        player.play(f"at {minute}m ann RELEASE loop")
        player.play(f"at {minute}m ann REQUEST loop")
        outcome = player.play(f"at {minute + 2}m tick")
        assert [event for event in kept(outcome) if event != "granted"] == ["expired"] + ["cancelled"] * (minute == 30)
        for each in ("cyd RELEASE loop", "cyd REQUEST loop", "ann is heard"):
            player.play(f"at {minute + 3}m {each}")
        player.play(f"at {minute + 3}m bob is heard") if minute < 30 else None
    assert "bob" not in stands(player.resource)


def test_the_queue_is_full_for_the_newcomer_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_requests, "QUEUE_TICKETS_MAX", 2)
    player = played(TWO_WAIT)
    refused = player.play("at 1s dan REQUEST loop").outbox[0].body
    assert isinstance(refused, Refused)
    assert refused.code == "QUEUE_FULL"
    assert refused.why.startswith("2 wait for loop already, at most 2 can")
    assert heard(player.play("at 1s cyd REQUEST loop")) == ["cyd QUEUED"]


def test_another_agent_s_id_is_a_conflict_and_tells_nothing() -> None:
    player = played(HELD)
    player.last_id["bob"] = player.last_id["ann"]
    assert heard(player.play("at 1s bob (again) REQUEST loop")) == ["bob REFUSED ID_CONFLICT"]


def test_fences_grow_and_are_the_number_of_the_grant() -> None:
    player = played(WAITED)
    first = player.resource.units[0].fence
    seq = player.seq
    outcome = player.play("at 1s ann RELEASE loop")
    granted = outcome.outbox[1].body
    assert isinstance(granted, Granted)
    assert granted.fence == seq + kept(outcome).index("granted") > first


def test_a_new_owner_is_told_that_the_last_was_only_silent() -> None:
    player = played(POLLED_TWICE)
    revoked, granted = (send.body for send in player.play("at 9m tick").outbox)
    assert isinstance(revoked, Revoked)
    assert revoked.why == "no answer to 2 polls, 3m apart"
    assert isinstance(granted, Granted)
    assert granted.note == "previous owner silent, not proved gone"


def test_who_lost_it_is_told_when_and_why() -> None:
    player = played(POLLED_TWICE, "9m tick")
    refused = player.play("at 19m ann EXTEND loop").outbox[0].body
    assert isinstance(refused, Refused)
    assert refused.why == "loop is not yours any more since 10m: no answer to 2 polls, 3m apart"


def test_a_place_says_who_holds_it_what_for_and_how_long() -> None:
    player = played("0 ann REQUEST loop - the login page, 20m")
    queued = player.play("at 5m bob REQUEST loop").outbox[0].body
    assert isinstance(queued, Queued)
    assert (queued.holder, queued.holder_purpose, queued.held_ms) == ("ann", "the login page", 300_000)
    assert queued.holder_left_ms == 900_000


def test_the_declared_time_is_respected_up_to_time_max_only() -> None:
    player = played("0 ann REQUEST loop - x, 2h")
    unit = player.resource.units[0]
    assert unit.until == Deadline("boot1", 30 * 60_000)
    assert unit.until_ms - unit.since_ms == 2 * 3_600_000


def test_the_next_deadline_is_the_earliest_and_none_where_nobody_waits() -> None:
    assert next_deadline(played(HELD).resource, "boot1") is None
    assert next_deadline(played(WAITED).resource, "boot1") == Deadline("boot1", 180_000)
    assert next_deadline(played(UNNOTICED).resource, "boot1") == Deadline("boot1", 180_000)


def test_a_deadline_of_the_last_boot_comes_first_however_late_its_clock_showed() -> None:
    player = played(UNNOTICED)
    player.play("at 10m boot")
    unit, old = player.resource.units[0], Deadline("boot1", 10**9)
    other = msgspec.structs.replace(unit, name="1", poll_at=Deadline("boot2", 180_000), claim_at=None)
    both = msgspec.structs.replace(player.resource, units=(msgspec.structs.replace(unit, claim_at=old), other))
    assert next_deadline(both, "boot2") == old
    cut = Registry(cut=Table({"bob": old, "ann": Deadline("boot2", 10_000)}))  # in the order in which they were cut
    assert cut.next_deadline() == old


def test_news_that_no_longer_hold_are_taken_back_from_inboxes() -> None:
    def taken_back(given: str, when: str) -> list[str]:
        return [f"{each.to} {each.slot.partition(':')[0]}" for each in played(given).play(f"at {when}").withdraw]

    assert taken_back(POLLED, "4m ann EXTEND loop") == ["ann StillUsing"]
    assert taken_back(POLLED, "4m bob CANCEL loop") == ["bob Queued", "ann StillUsing"]
    assert taken_back(UNNOTICED, "2m bob RELEASE loop")[:3] == ["bob Granted", "bob StillUsing", "bob Down"]
    assert taken_back(WAITED, "1s ann RELEASE loop")[-2:] == ["bob Queued", "bob Revoked"]


def test_what_ended_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    player = Player()
    for _ in range(300):
        player.play("at 1 ann REQUEST loop")
        player.play("at 1 ann RELEASE loop")
        player.journal, player.began = [], player.resource
    assert len(player.resource.ended) == 256
    assert len(player.resource.lost) == 1
    assert player.resource.is_idle()
    assert len(msgspec.json.encode(player.resource, enc_hook=to_plain)) < 64 * 1024


def test_a_person_who_frees_some_units_hears_which_are_not() -> None:
    player = played("0 database lost, a command lives", kind="pool")
    [answer] = player.play("at 9s person confirms").outbox
    assert isinstance(answer.body, Released)
    assert answer.body.note.startswith("not 0: ")
    assert "still runs there: confirm again once that has ended" in answer.body.note
