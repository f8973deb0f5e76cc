"""A resource under a policy, rule by rule: its controller ctl says who is next. Read a row as in `test_resource.py`.

`ctl< TEXT` is what the controller finds in its inbox: a ticket that waits for it, or that there is room again.
"""
# ruff: noqa: E501 - a table is read across, one row a rule

import msgspec
import pytest
from tests.protocol.player import Player, Row, expected, heard, played, seen, stands

from interlock.protocol.answers import format_answer
from interlock.protocol.outcome import Now
from interlock.protocol.resource import decide
from interlock.protocol.resource_waiting import next_deadline

SET = "0 gate says ctl for ann,bob epoch 1"
ASKED = f"{SET}; 0 ann REQUEST loop - tests; 0 bob REQUEST loop"
GIVEN = f"{ASKED}; 1s ctl grants ann 1"  # ann's fence is 4
USED = f"{GIVEN}; 2s ann admits make digest=d1"  # launch l1
RUN = f"{SET}; 0 ann runs REQUEST loop; 1s ctl grants ann 1"  # its fence is 3
RUNNING = f"{RUN}; 2s ann admits make digest=d1"
BLOCKED = f"{SET} blocked l8,l9; 0 ann REQUEST loop"
POOLED = f"{ASKED}; 1s ctl grants ann; 1s ctl grants bob"
CHANGED = "gate says ctl for ann,bob epoch 2"
NARROWED = "gate says ctl for bob epoch 2"
CLEARED = "gate says nobody epoch 2"
HELD = "0 ann REQUEST loop; 0 bob REQUEST loop; 0 cyd REQUEST loop"
BEFORE = "0 ann REQUEST loop; 1s ann admits make"
SERVED = f"{SET}; 0 ann REQUEST loop /w1; 1s ctl grants ann"
PASSED_OVER = "0 cyd REQUEST loop; 0 ann REQUEST loop; 0 bob REQUEST loop; 0 cyd RELEASE loop; 2m tick"

ASKING = [
    Row("what is free waits for its controller", SET, "0 ann REQUEST loop", "requested", "ann QUEUED, ctl< TEXT", "free [ann]"),
    Row("so does a bus run", SET, "0 ann runs REQUEST loop", "requested", "ann QUEUED, ctl< TEXT", "free [ann]"),
    Row("who is no participant has no place", SET, "0 cyd REQUEST loop", "", "cyd REFUSED SCOPE_DENIED", "free"),
    Row("nor has its bus run", SET, "0 cyd runs REQUEST loop", "", "cyd REFUSED SCOPE_DENIED", "free"),
    Row("who counts as one has", SET, "0 cyd (as dan,ann) REQUEST loop", "requested", "cyd QUEUED, ctl< TEXT", "free [cyd]"),
    Row("--no-wait gets nothing", SET, "0 ann (no wait) REQUEST loop", "", "ann REFUSED RESOURCE_BUSY", "free"),
    Row("another purpose is told too", ASKED, "0 ann REQUEST loop - other", "amended", "ann QUEUED, ctl< TEXT", "free [ann bob]"),
    Row("a second REQUEST merges, and is not told again", ASKED, "0 ann REQUEST loop", "", "ann QUEUED", "free [ann bob]"),
    Row("the owner asks again: it has it", GIVEN, "2s ann REQUEST loop", "claimed extended", "ann GRANTED", "held ann [bob]"),
    Row("a hand-over is the controller's", GIVEN, "2s ann HANDOVER loop bob", "", "ann REFUSED SCOPE_DENIED", "held ann [bob]"),
]  # fmt: skip

CHOOSING = [
    Row("the first that waits", ASKED, "1s ctl grants ann 1", "granted", "ann< GRANTED, ctl TEXT, bob< QUEUED", "held ann [bob]"),
    Row("another than the first", ASKED, "1s ctl grants bob 1", "granted", "bob< GRANTED, ctl TEXT", "held bob [ann]"),
    Row("whichever epoch there is", ASKED, "1s ctl grants bob", "granted", "bob< GRANTED, ctl TEXT", "held bob [ann]"),
    Row("a bus run hears it at its wrapper", f"{SET}; 0 ann runs REQUEST loop", "1s ctl grants ann", "granted", "ann/run< GRANTED, ctl TEXT", "held ann"),
    Row("said again it is answered alike", GIVEN, "2s ctl grants ann 1", "", "ctl TEXT", "held ann [bob]"),
    Row("… and once its command runs", USED, "3s ctl grants ann 1", "", "ctl TEXT", "held ann [bob]"),
    Row("not without the capability", ASKED, "1s ann grants ann 1", "", "ann REFUSED CAPABILITY_DENIED", "free [ann bob]"),
    Row("not by another who has it", ASKED, "1s boss grants ann 1", "", "boss REFUSED SCOPE_DENIED", "free [ann bob]"),
    Row("not without a policy", HELD, "1s ctl grants bob", "", "ctl REFUSED SCOPE_DENIED", "held ann [bob cyd]"),
    Row("not under another epoch", ASKED, "1s ctl grants ann 2", "", "ctl REFUSED STALE_POLICY", "free [ann bob]"),
    Row("not what nobody asked for", ASKED, "1s ctl grants m99 1", "", "ctl REFUSED TARGET_ENDED", "free [ann bob]"),
    Row("not what is over", f"{ASKED}; 0 ann CANCEL loop", "1s ctl grants ann 1", "", "ctl REFUSED TARGET_ENDED", "free [bob]"),
    Row("not what drains", f"{USED}; 3s ann is gone", "4s ctl grants ann 1", "", "ctl REFUSED TARGET_ENDED", "draining ann [bob]"),
    Row("not while another has it", GIVEN, "2s ctl grants bob 1", "", "ctl REFUSED RESOURCE_BUSY", "held ann [bob]"),
    Row("not while blockers live", BLOCKED, "1s ctl grants ann 1", "", "ctl REFUSED RESOURCE_BUSY", "free [ann]"),
    Row("not what nobody can say is free", f"{USED}; 3s command l1 is lost", "4s ctl grants bob", "", "ctl REFUSED RECOVERY_REQUIRED", "recovery_required [bob]"),
    Row("a second unit too", f"{ASKED}; 1s ctl grants bob", "2s ctl grants ann", "granted", "ann< GRANTED, ctl TEXT", "held bob; held ann", "pool"),
    Row("one that did not notice its last grant", f"{PASSED_OVER}; 2m bob RELEASE loop; 3m {SET[2:]}", "3m ctl grants ann", "returned granted", "ann< GRANTED, ctl TEXT", "held ann"),
]  # fmt: skip

OF_SERVERS = [
    Row("a server is started as ever", f"{SET}; 0 ann REQUEST loop /w1", "1s ctl grants ann", "step_started", "ctl TEXT", "preparing ann", "server", "start /w1"),
    Row("asked again while it is prepared", SERVED, "2s ctl grants ann 1", "", "ctl TEXT", "preparing ann", "server", ""),
    Row("and granted once it is up", f"{SERVED}; 1s keeper up", "2s step done", "step_done granted", "ann< GRANTED", "held ann", "server"),
    Row("what is prepared under an older policy ends", f"{SERVED}; 1s keeper up", f"2s {CHANGED}", "governed cancelled step_aborting", "ann< REVOKED STALE_POLICY", "draining", "server", "abort"),
    Row("… and nobody is next by itself", f"{SERVED}; 1s bob REQUEST loop /w2; 1s keeper up; 2s {CHANGED}", "3s step fails", "step_undone", "ctl< TEXT", "free [bob]", "server", ""),
    Row("a doubt is a person's, then the controller's", f"{SERVED}; 1s keeper up; 2s step fails unproved", "3s person confirms", "recovered", "person RELEASED, ctl< TEXT", "free [ann]", "server", ""),
]  # fmt: skip

CHANGING = [
    Row("installed, it ends what is reserved and not used", HELD, f"1s {CHANGED}", "governed revoked cancelled", "ann< REVOKED STALE_POLICY, cyd< REVOKED STALE_POLICY, bob< QUEUED, ctl< TEXT, ctl< TEXT", "free [bob]"),
    Row("… and not what has started", BEFORE, f"2s {NARROWED}", "governed", "", "held ann"),
    Row("said again it changes nothing", GIVEN, f"2s {SET[2:]}", "", "", "held ann [bob]"),
    Row("changed, it ends what is reserved and not used", GIVEN, f"2s {CHANGED}", "governed revoked", "ann< REVOKED STALE_POLICY, bob< QUEUED, ctl< TEXT, ctl< TEXT", "free [bob]"),
    Row("… of a bus run at its wrapper", RUN, f"2s {CHANGED}", "governed revoked", "ann/run< REVOKED STALE_POLICY", "free"),
    Row("… and not what has started", USED, f"3s {CHANGED}", "governed", "bob< QUEUED, ctl< TEXT", "held ann [bob]"),
    Row("a place ends with the enrolment", ASKED, f"1s {NARROWED}", "governed cancelled", "ann< REVOKED STALE_POLICY, bob< QUEUED, ctl< TEXT, ctl< TEXT", "free [bob]"),
    Row("who counts as one who is enrolled keeps it", f"{SET}; 0 cyd (as bob) REQUEST loop", f"1s {NARROWED}", "governed", "cyd< QUEUED, ctl< TEXT, ctl< TEXT", "free [cyd]"),
    Row("a new controller is told of all that wait", ASKED, "1s gate says boss for ann,bob epoch 2", "governed", "ann< QUEUED, bob< QUEUED, boss< TEXT, boss< TEXT, boss< TEXT", "free [ann bob]"),
    Row("taken away, the first is served", ASKED, f"1s {CLEARED}", "governed granted", "ann< GRANTED, bob< QUEUED", "held ann [bob]"),
    Row("… what is reserved ends", GIVEN, f"2s {CLEARED}", "governed revoked granted", "ann< REVOKED STALE_POLICY, bob< GRANTED", "held bob"),
    Row("… what has started stays", USED, f"3s {CLEARED}", "governed", "bob< QUEUED", "held ann [bob]"),
    Row("… and ends with its command", f"{USED}; 3s {CLEARED}", "4s command l1 ends 0", "finished released granted", "bob< GRANTED", "held bob"),
    Row("a number without a policy changes nothing else", HELD, f"1s {CLEARED}", "governed", "", "held ann [bob cyd]"),
    Row("blockers end, and its controller hears of it", BLOCKED, f"1s {SET[2:]}", "governed", "ctl< TEXT", "free [ann]"),
    Row("one that comes late ends what is not used", GIVEN, f"2s {SET[2:]} blocked l8", "governed revoked", "ann< REVOKED STALE_POLICY", "free [bob]"),
    Row("… and not what has started", USED, f"3s {SET[2:]} blocked l8", "governed", "", "held ann [bob]"),
    Row("one of two ends: still nothing", BLOCKED, "1s gate says ctl for ann,bob epoch 1 blocked l9", "governed", "", "free [ann]"),
]  # fmt: skip

USING = [
    Row("its first use binds it", GIVEN, "2s ann admits make digest=d1", "claimed started", "ann ADMITTED", "held ann [bob]"),
    Row("not the same again, side by side", USED, "3s ann admits make digest=d1", "", "ann REFUSED RESOURCE_BUSY", "held ann [bob]"),
    Row("another command is refused", USED, "3s ann admits rm digest=d2", "", "ann REFUSED SCOPE_DENIED", "held ann [bob]"),
    Row("unless it is started inside", USED, "3s ann admits cc digest=d2 inside=l7,l1", "started", "ann ADMITTED", "held ann [bob]"),
    Row("by whoever that command started", USED, "3s kid admits cc digest=d2 inside=l1 fence=4", "started", "kid ADMITTED", "held ann [bob]"),
    Row("inside another it is refused", USED, "3s ann admits cc digest=d2 inside=l7", "", "ann REFUSED SCOPE_DENIED", "held ann [bob]"),
    Row("a bus run's own is bound too", RUNNING, "3s ann admits rm digest=d2", "", "ann REFUSED SCOPE_DENIED", "held ann"),
    Row("bound without a policy too", "0 ann runs REQUEST loop; 0 ann admits make digest=d1", "1s ann admits rm digest=d2", "", "ann REFUSED SCOPE_DENIED", "held ann"),
    Row("a hold without a policy takes what its owner starts", f"{BEFORE} digest=d1", "3s ann admits rm digest=d2", "started", "ann ADMITTED", "held ann"),
    Row("who counts as its owner may use it", GIVEN, "2s kid (as ann) admits make fence=4", "claimed started", "kid ADMITTED", "held ann [bob]"),
    Row("a stranger may not", GIVEN, "2s bob admits make fence=4", "", "bob REFUSED STALE_FENCE", "held ann [bob]"),
    Row("its last command takes the hold along", USED, "3s command l1 ends 0", "finished released", "ctl< TEXT", "free [bob]"),
    Row("not its last but one", f"{USED}; 2s ann admits make digest=d1 inside=l1", "3s command l1 ends 0", "finished", "", "held ann [bob]"),
    Row("a hold of before the policy ends so too", f"{BEFORE}; 2s {NARROWED}", "3s command l1 ends 0", "finished released", "", "free"),
    Row("… and takes nothing new", f"{BEFORE}; 2s {CHANGED}", "3s ann admits rm", "", "ann REFUSED STALE_POLICY", "held ann"),
    Row("… but what is inside", f"{BEFORE}; 2s {NARROWED}", "3s ann admits cc inside=l1", "started", "ann ADMITTED", "held ann"),
    Row("nothing new under an older epoch", f"{USED}; 3s {CHANGED}", "4s ann admits make digest=d1", "", "ann REFUSED STALE_POLICY", "held ann [bob]"),
    Row("an admission taken back leaves it reserved", USED, "3s command l1 never began", "finished", "", "held ann [bob]"),
    Row("… for any command of its owner", f"{USED}; 3s command l1 never began", "4s ann admits rm digest=d2", "started", "ann ADMITTED", "held ann [bob]"),
    Row("… for its time, which begins anew", f"{USED}; 3s command l1 never began", "34s tick", "revoked", "ann< REVOKED RESERVATION_EXPIRED, ctl< TEXT", "free [bob]"),
    Row("… unless its policy has changed", f"{USED}; 3s {CHANGED}", "4s command l1 never began", "finished released", "ctl< TEXT", "free [bob]"),
    Row("… a bus run's goes with it", RUNNING, "3s command l1 never began", "finished released", "", "free"),
    Row("too late for its reservation: says so", f"{GIVEN}; 31s tick", "32s ann admits make fence=4", "", "ann REFUSED RESERVATION_EXPIRED", "free [bob]"),
    Row("… of a bus run too", f"{RUN}; 31s tick", "32s ann admits make fence=3", "", "ann REFUSED RESERVATION_EXPIRED", "free"),
    Row("… and of one that counts as its owner", f"{GIVEN}; 31s tick", "32s kid (as ann) admits make fence=4", "", "kid REFUSED RESERVATION_EXPIRED", "free [bob]"),
    Row("ended by a policy: says so", f"{GIVEN}; 2s {CHANGED}", "3s ann admits make fence=4", "", "ann REFUSED STALE_POLICY", "free [bob]"),
    Row("given back: it is over", f"{GIVEN}; 2s ann RELEASE loop", "3s ann admits make fence=4", "", "ann REFUSED STALE_FENCE", "free [bob]"),
]  # fmt: skip

RUNS_UNDER = [
    Row("a bus run uses what its agent has", GIVEN, "2s ann runs REQUEST loop", "claimed", "ann GRANTED", "held ann [bob]"),
    Row("or who it counts as", GIVEN, "2s kid (as ann) runs REQUEST loop", "", "kid GRANTED", "held ann [bob]"),
    Row("its own first", POOLED, "2s ann (as bob) runs REQUEST loop", "claimed", "ann GRANTED", "held ann; held bob", "pool"),
    Row("which of several has to be said", POOLED, "2s kid (as ann,bob) runs REQUEST loop", "", "kid REFUSED AMBIGUOUS_TARGET", "held ann; held bob", "pool"),
    Row("one that is over is refused", GIVEN, "2s ann (using m99) runs REQUEST loop", "claimed", "ann REFUSED TARGET_ENDED", "held ann [bob]"),
    Row("what is in use is not used again", USED, "3s ann runs REQUEST loop", "requested", "ann QUEUED, ctl< TEXT", "held ann [bob ann]"),
    Row("but inside", USED, "3s ann (under 4) runs REQUEST loop", "", "ann GRANTED", "held ann [bob]"),
    Row("inside one who is not enrolled any more", f"{USED}; 3s {NARROWED}", "4s ann (under 4) runs REQUEST loop", "", "ann GRANTED", "held ann [bob]"),
    Row("another's bus run is not used", RUN, "2s ann runs REQUEST loop", "requested", "ann QUEUED, ctl< TEXT", "held ann [ann]"),
    Row("without a policy another's hold is not", "0 ann REQUEST loop", "1s kid (as ann) runs REQUEST loop", "requested", "kid QUEUED", "held ann [kid]"),
]  # fmt: skip

GIVING_BACK = [
    Row("RELEASE frees what is not used", GIVEN, "2s ann RELEASE loop", "released", "ann RELEASED, ctl< TEXT", "free [bob]"),
    Row("so does CANCEL", GIVEN, "2s ann CANCEL loop", "released", "ann CANCELLED, ctl< TEXT", "free [bob]"),
    Row("of a bus run too", RUN, "2s ann withdraws", "released", "ann CANCELLED", "free"),
    Row("CANCEL leaves the queue", ASKED, "1s ann CANCEL loop", "cancelled", "ann CANCELLED, bob< QUEUED", "free [bob]"),
    Row("RELEASE not what has started", USED, "3s ann RELEASE loop", "", "ann REFUSED RESOURCE_BUSY", "held ann [bob]"),
    Row("nor CANCEL", USED, "3s ann CANCEL loop", "", "ann REFUSED RESOURCE_BUSY", "held ann [bob]"),
    Row("nor of a bus run", RUNNING, "3s ann withdraws", "", "ann REFUSED RESOURCE_BUSY", "held ann"),
    Row("RELEASE not another's", GIVEN, "2s bob RELEASE loop fence=4", "", "bob REFUSED STALE_FENCE", "held ann [bob]"),
    Row("its agent's end frees what is not used", GIVEN, "2s ann is gone", "revoked", "ctl< TEXT", "free [bob]"),
    Row("… and not what has started", USED, "3s ann is gone", "draining", "", "draining ann [bob]"),
]  # fmt: skip

EXPIRING = [
    Row("not used in its time it ends, though nobody waits", f"{SET}; 0 ann REQUEST loop; 0 ctl grants ann", "30s tick", "revoked", "ann< REVOKED RESERVATION_EXPIRED", "free"),
    Row("and the next waits for the controller", GIVEN, "31s tick", "revoked", "ann< REVOKED RESERVATION_EXPIRED, ctl< TEXT", "free [bob]"),
    Row("to notice it is not to use it", f"{GIVEN}; 20s ann is heard", "31s tick", "revoked", "ann< REVOKED RESERVATION_EXPIRED, ctl< TEXT", "free [bob]"),
    Row("nor is EXTEND", f"{GIVEN}; 20s ann EXTEND loop", "31s tick", "revoked", "ann< REVOKED RESERVATION_EXPIRED, ctl< TEXT", "free [bob]"),
    Row("a bus run's ends at its wrapper", RUN, "31s tick", "revoked", "ann/run< REVOKED RESERVATION_EXPIRED", "free"),
    Row("a bus run that asks again has its time anew", f"{RUN}; 20s ann (again) runs REQUEST loop", "31s tick", "", "", "held ann"),
    Row("… and no more than that", f"{RUN}; 20s ann (again) runs REQUEST loop", "50s tick", "revoked", "ann/run< REVOKED RESERVATION_EXPIRED", "free"),
    Row("… without a policy too", "0 ann runs REQUEST loop; 20s ann (again) runs REQUEST loop", "31s tick", "", "", "held ann"),
    Row("another one's asking does not count", f"{RUN}; 20s ann runs REQUEST loop", "31s tick", "revoked", "ann/run< REVOKED RESERVATION_EXPIRED, ctl< TEXT", "free [ann]"),
    Row("nor asking again for what a controller gave to an agent", f"{GIVEN}; 20s ann (again) REQUEST loop", "31s tick", "revoked", "ann< REVOKED RESERVATION_EXPIRED, ctl< TEXT", "free [bob]"),
    Row("used it does not end", USED, "31s tick", "", "", "held ann [bob]"),
    Row("slept through: one fresh interval", GIVEN, "90s tick", "", "", "held ann [bob]"),
    Row("… and no other", f"{GIVEN}; 90s tick", "120s tick", "revoked", "ann< REVOKED RESERVATION_EXPIRED, ctl< TEXT", "free [bob]"),
    Row("of another boot: one fresh interval", f"{GIVEN}; 5s boot", "5s tick", "", "", "held ann [bob]"),
    Row("nobody is polled for it", f"{GIVEN}; 20s ann is heard", "25s tick", "", "", "held ann [bob]"),
    Row("nothing is asked while a command runs", USED, "9m tick", "", "", "held ann [bob]"),
]  # fmt: skip

KEEPING = [
    Row("a policy is not forgotten", SET, "1s forget", "", "", "free"),
    Row("without one it is", f"{SET}; 1s {CLEARED}", "2s forget", "forgotten", "", "free"),
]  # fmt: skip

TABLE = ASKING + CHOOSING + OF_SERVERS + CHANGING + USING + RUNS_UNDER + GIVING_BACK + EXPIRING + KEEPING


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_policy_rule(row: Row) -> None:
    assert seen(row) == expected(row)


# --- what the words say -------------------------------------------------------------------
def inbox_of(player: Player, agent: str, *lines: str) -> dict[str, str]:
    """What lies unread in an agent's inbox after these lines, by slot."""
    found: dict[str, str] = {}
    for line in lines:
        outcome = player.play(f"at {line}")
        for gone in outcome.withdraw:
            if gone.to == agent:
                found.pop(gone.slot, None)
        found |= {send.slot: format_answer(send.body) for send in outcome.outbox if send.to == agent and send.slot}
    return found


def test_the_controller_has_a_line_for_each_ticket_that_waits_and_for_no_other() -> None:
    player = Player()
    asked = inbox_of(player, "ctl", SET, "0 ann REQUEST loop - tests", "0 bob REQUEST loop")
    assert asked == {
        "Ticket:ann2": "REQUESTED machine/loop by ann, request ann2, epoch 1: tests; bus grant ann2 --epoch 1",
        "Ticket:bob3": "REQUESTED machine/loop by bob, request bob3, epoch 1; bus grant bob3 --epoch 1",
    }
    [answer] = [send.body for send in player.play("at 1s ctl grants ann").outbox if send.reply_to]
    assert format_answer(answer) == "GRANTED machine/loop to ann (request ann2, epoch 1)"
    for line, left in [
        (f"2s {CHANGED}", {"Ticket:bob3", "Free:machine/loop"}), ("3s ctl grants bob", set()),
        ("33s tick", set()), ("34s ann REQUEST loop", {"Ticket:ann11"}), (f"35s {CLEARED}", set()),
    ]:  # fmt: skip
        assert {*inbox_of(player, "ctl", line)} == left, line


def test_what_a_controller_was_told_is_taken_back() -> None:
    def taken_back(given: str, when: str) -> list[str]:
        return [each.slot for each in played(given).play(f"at {when}").withdraw if each.to == "ctl"]

    assert taken_back(ASKED, "1s ctl grants ann") == ["Ticket:ann2", "Free:machine/loop"]
    assert taken_back(ASKED, "1s ann CANCEL loop") == ["Ticket:ann2"]
    assert taken_back(ASKED, "1s bob is gone") == ["Ticket:bob3"]
    all_of_it = ["Ticket:ann2", "Ticket:bob3", "Free:machine/loop"]
    assert taken_back(ASKED, f"1s {CLEARED}") == all_of_it
    assert taken_back(ASKED, "1s gate says boss for ann,bob epoch 2") == all_of_it
    assert taken_back(f"{GIVEN}; 31s tick", "32s ctl grants bob") == ["Ticket:bob3", "Free:machine/loop"]


def test_who_waits_is_told_what_for() -> None:
    def why(given: str) -> str:
        player = played(given)
        [answer] = [send.body for send in player.play("at 9s ann REQUEST loop").outbox if send.reply_to]
        return format_answer(answer)

    assert "its controller has not granted it yet; ctl chooses who is next (epoch 1);" in why(SET)
    assert "nobody has it; l8, l9 began without it and must end first (bus ps); ctl chooses" in why(BLOCKED)
    assert "held by bob" in why(f"{SET}; 0 bob REQUEST loop; 0 ctl grants bob")


def test_a_refusal_names_who_has_it() -> None:
    def why(given: str, when: str, kind: str = "lock") -> str:
        return format_answer(played(given, kind=kind).play(f"at {when}").outbox[0].body)

    assert "it is held by ann since" in why(GIVEN, "2s ctl grants bob")
    assert "nobody" not in why(
        f"{SERVED}; 1s keeper up; 2s {CHANGED}; 3s bob REQUEST loop /w", "3s ctl grants bob", "server"
    )
    assert "l8, l9 began without it" in why(BLOCKED, "2s ctl grants ann")
    assert "its epoch is 1" in why(ASKED, "2s ctl grants ann 7")
    assert "ann2 (ann), bob3 (bob)" in format_answer(
        played(POOLED, kind="pool").play("at 2s kid (as ann,bob) runs REQUEST loop").outbox[0].body
    )


def test_a_bus_run_may_say_which_reservation_it_uses() -> None:
    for which, said in [
        ("bob3", "GRANTED loop unit 1"),
        ("cyd9", "REFUSED TARGET_ENDED no reservation 'cyd9' of yours"),
    ]:
        player = played(POOLED, kind="pool")
        asked = player.command(f"kid (using {which}) runs REQUEST loop")
        asked = msgspec.structs.replace(asked, also=("ann", "bob"))
        [answer] = decide(player.resource, asked, Now(3_000, "boot1", 3_000, player.seq)).outbox
        assert format_answer(answer.body).startswith(said)


def test_nothing_is_granted_by_itself_however_long_it_waits() -> None:
    player = played(ASKED)
    for when in ("1m tick", "9m ann is heard", "10m restart", "11m boot", "12m tick"):
        player.play(f"at {when}")
        assert stands(player.resource) == "free [ann bob]"
    assert next_deadline(player.resource, "boot2") is None


def test_many_that_wait_are_told_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.protocol.resource_policy.TICKETS_TOLD_MAX", 2)
    player = played("0 cyd REQUEST loop; 0 cyd admits make; " + "; ".join(f"0 a{n} REQUEST loop" for n in range(5)))
    outcome = player.play("at 1s gate says ctl for a0,a1,a2,a3,a4 epoch 1")
    assert [line for line in heard(outcome) if line == "ctl< TEXT"] == ["ctl< TEXT"] * 2
    assert stands(player.resource) == "held cyd [a0 a1 a2 a3 a4]"
