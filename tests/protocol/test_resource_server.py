"""What a server adds to a resource, rule by rule: given, when, then, heard by, how it stands, and what is ordered.

The language of the lines is `player.py`'s; a lock's rules are in `test_resource.py`.
"""
# ruff: noqa: E501 - a table is read across, one row a rule

import msgspec
import pytest
from tests.protocol.player import Row, expected, kept, ordered, played, seen, stands

from interlock.protocol.messages import Down, Granted, Queued, Revoked
from interlock.protocol.resource_commands import RunStep
from interlock.protocol.resource_events import OURS, may_end

S = "server"
STARTING = "0 ann REQUEST loop /w1"
UP = f"{STARTING}; 1s keeper up"
HELD = f"{UP}; 2s step done"
FREE = f"{HELD}; 3s ann RELEASE loop"  # it runs on in /w1
WAITED = f"{HELD}; 3s bob REQUEST loop /w2"
STOPPING = f"{WAITED}; 4s ann RELEASE loop"
BOB_STARTING = f"{STOPPING}; 5s step done"
VERIFYING = f"{FREE}; 4s bob REQUEST loop /w1"
DOWN = f"{HELD}; 3s server dies"
RESTARTING = f"{WAITED}; 4s ann RESTART loop"
RESTART_STARTING = f"{RESTARTING}; 5s step done"
DOUBT = f"{STOPPING}; 5s step fails a child lives"

HANDING_OVER = [
    Row("nothing runs: it is started for the first", "", STARTING, "requested step_started", "ann QUEUED", "preparing ann", S, "start /w1"),
    Row("the keeper is on record before GO", STARTING, "1s keeper up", "launch_started", "", "preparing ann", S, "go"),
    Row("started is granted", UP, "2s step done", "step_done granted", "ann< GRANTED", "held ann", S, ""),
    Row("one who waits keeps waiting", WAITED, "3s cyd REQUEST loop /w1", "requested", "cyd QUEUED", "held ann [bob cyd]", S, ""),
    Row("another worktree: the old one is stopped first", WAITED, "4s ann RELEASE loop", "released step_started", "ann RELEASED", "preparing bob", S, "stop /w1"),
    Row("stopped: the new one is started", STOPPING, "5s step done", "step_done step_started", "", "preparing bob", S, "start /w2"),
    Row("nobody waits: it runs on", HELD, "3s ann RELEASE loop", "released", "ann RELEASED", "free", S, ""),
    Row("same worktree: it is only verified", FREE, "4s bob REQUEST loop /w1", "requested step_started", "bob QUEUED", "preparing bob", S, "verify /w1"),
    Row("verified is granted", VERIFYING, "5s step done", "step_done granted", "bob< GRANTED", "held bob", S, ""),
    Row("not healthy: stopped", VERIFYING, "5s step fails no answer", "step_undone step_started", "", "preparing bob", S, "stop /w1"),
    Row("… then started", f"{VERIFYING}; 5s step fails no answer", "6s step done", "step_done step_started", "", "preparing bob", S, "start /w1"),
    Row("it dies under the look: that is on record", VERIFYING, "5s server dies", "down", "", "preparing bob", S, ""),
    Row("… and healthy a moment before is no grant", f"{VERIFYING}; 5s server dies", "6s step done", "step_done step_started", "", "preparing bob", S, "start /w1"),
    Row("… nor is not healthy a stop of nothing", f"{VERIFYING}; 5s server dies", "6s step fails no answer", "step_undone step_started", "", "preparing bob", S, "start /w1"),
    Row("… and a child of it is stopped first", f"{VERIFYING}; 5s server leaves a child", "6s step done", "step_done step_started", "", "preparing bob", S, "stop /w1"),
    Row("a changed definition is not carried over", f"{FREE}; 4s define other-server", "5s bob REQUEST loop /w1", "requested step_started", "bob QUEUED", "preparing bob", S, "stop /w1"),
    Row("a server died in between: just started", f"{FREE}; 4s server dies", "5s bob REQUEST loop /w1", "requested step_started", "bob QUEUED", "preparing bob", S, "start /w1"),
    Row("a child of it lives: stopped first", f"{FREE}; 4s server leaves a child", "5s bob REQUEST loop /w1", "requested step_started", "bob QUEUED", "preparing bob", S, "stop /w1"),
    Row("a worktree is needed", "", "0 ann REQUEST loop -", "", "ann REFUSED BAD_MESSAGE", "free", S, ""),
    Row("… by one already queued as well", WAITED, "4s bob REQUEST loop -", "", "bob REFUSED BAD_MESSAGE", "held ann [bob]", S, ""),
    Row("the worktree changes until preparing starts", f"{WAITED}; 4s bob REQUEST loop /w1", "5s ann RELEASE loop", "released step_started", "ann RELEASED", "preparing bob", S, "verify /w1"),
    Row("… not after", STARTING, "1s ann REQUEST loop /w9", "", "ann REFUSED RESOURCE_BUSY", "preparing ann", S, ""),
    Row("being prepared is position 1", STARTING, "1s ann REQUEST loop /w1", "", "ann QUEUED", "preparing ann", S, ""),
    Row("the owner in another worktree is refused", HELD, "3s ann REQUEST loop /w9", "claimed", "ann REFUSED RESOURCE_BUSY", "held ann", S, ""),
    Row("a word about a step that is over is ignored", FREE, "4s step done", "", "", "free", S, ""),
    Row("a pool starts a second one", HELD, "3s bob REQUEST loop /w2", "requested step_started", "bob QUEUED", "held ann; preparing bob", "servers", "start /w2"),
    Row("a pool finds the unit that runs from there", f"{HELD}; 3s bob REQUEST loop /w2; 4s keeper up; 5s step done; 6s ann RELEASE loop; 6s bob RELEASE loop", "7s cyd REQUEST loop /w2", "requested step_started", "cyd QUEUED", "free; preparing cyd", "servers", "verify /w2"),
]  # fmt: skip

FAILING = [
    Row("a failed start is the requester's", UP, "2s step fails it broke", "step_undone prepare_failed", "ann< REVOKED PREPARE_FAILED", "free", S, ""),
    Row("… and the next is served", f"{UP}; 1s bob REQUEST loop /w2", "2s step fails it broke", "step_undone prepare_failed step_started", "ann< REVOKED PREPARE_FAILED", "preparing bob", S, "start /w2"),
    Row("… and the same id is over", f"{UP}; 2s step fails it broke", "3s ann (again) REQUEST loop /w1", "", "ann REFUSED TARGET_ENDED", "free", S, ""),
    Row("never started is begun again", STARTING, "1s step never started", "step_undone step_started", "", "preparing ann", S, "start /w1"),
    Row("what is not proved gone is a person's", UP, "2s step fails unproved a child lives", "recovery_required", "ann< QUEUED", "recovery_required [ann]", S, ""),
    Row("a failed stop is the operator's", STOPPING, "5s step fails a child lives", "recovery_required", "bob< QUEUED", "recovery_required [bob]", S, ""),
    Row("the queue keeps its order", f"{STOPPING}; 4s cyd REQUEST loop /w3", "5s step fails unproved x", "recovery_required", "bob< QUEUED, cyd< QUEUED", "recovery_required [bob cyd]", S, ""),
    Row("a server that outlived the database is kept", "0 database lost, a server lives; 1s bob REQUEST loop /w2", "9s person confirms", "recovered step_started", "person RELEASED", "preparing bob", S, "stop /w1"),
    Row("… and carried over to its own worktree", "0 database lost, a server lives; 1s bob REQUEST loop /w1", "9s person confirms", "recovered step_started", "person RELEASED", "preparing bob", S, "verify /w1"),
    Row("… it may also end before", "0 database lost, a server lives; 1s bob REQUEST loop /w1; 2s server dies", "9s person confirms", "recovered step_started", "person RELEASED", "preparing bob", S, "start /w1"),
    Row("a backup's start under way is nobody's", f"{STARTING}; 1s bob REQUEST loop /w2", "2s database lost", "cancelled step_aborting cancelled recovery_required", "", "recovery_required", S, "abort"),
    Row("a person confirms: the next is served", DOUBT, "9s person confirms", "recovered step_started", "person RELEASED", "preparing bob", S, "start /w2"),
    Row("a stranger on the port is named", STARTING, "1s port held by pid 9", "blocked", "ann< QUEUED", "preparing ann", S, ""),
    Row("… once", f"{STARTING}; 1s port held by pid 9", "3s port held by pid 9", "", "", "preparing ann", S, ""),
    Row("… until it has left", f"{STARTING}; 1s port held by pid 9", "5s port free", "blocked", "", "preparing ann", S, ""),
]  # fmt: skip

ABORTING = [
    Row("RELEASE while preparing aborts", UP, "2s ann RELEASE loop", "cancelled step_aborting", "ann CANCELLED", "draining", S, "abort"),
    Row("CANCEL while preparing aborts", UP, "2s ann CANCEL loop", "cancelled step_aborting", "ann CANCELLED", "draining", S, "abort"),
    Row("death while preparing aborts", UP, "2s ann is gone", "cancelled step_aborting", "", "draining", S, "abort"),
    Row("a wrapper's death while preparing aborts", "0 ann runs REQUEST loop /w1; 1s keeper up", "2s ann's wrapper is gone", "cancelled step_aborting", "", "draining", S, "abort"),
    Row("the next waits for the proof", f"{UP}; 2s ann CANCEL loop", "3s bob REQUEST loop /w2", "requested", "bob QUEUED", "draining [bob]", S, ""),
    Row("… and has it", f"{UP}; 2s ann CANCEL loop; 3s bob REQUEST loop /w2", "4s step fails aborted", "step_undone step_started", "", "preparing bob", S, "start /w2"),
    Row("without proof a person has to look", f"{UP}; 2s ann CANCEL loop; 3s bob REQUEST loop /w2", "4s step fails unproved x", "recovery_required", "bob< QUEUED", "recovery_required [bob]", S, ""),
    Row("a start that was quicker than its abort is kept", f"{UP}; 2s ann CANCEL loop; 3s bob REQUEST loop /w1", "4s step done", "step_done step_started", "", "preparing bob", S, "verify /w1"),
    Row("a keeper that comes up too late is sent home", f"{STARTING}; 1s ann CANCEL loop", "2s keeper up", "", "", "draining", S, "abort"),
    Row("a stop is let finish", f"{STOPPING}; 5s bob CANCEL loop", "6s step done", "step_done", "", "free", S, ""),
    Row("CANCEL while verifying leaves it running", f"{VERIFYING}; 5s bob CANCEL loop", "6s step done", "step_done", "", "free", S, ""),
]  # fmt: skip

RUNNING = [
    Row("the holder is told that it is down", HELD, "3s server dies", "down", "ann< DOWN", "held ann", S, ""),
    Row("… once", f"{HELD}; 3s server leaves a child", "4s server dies", "down", "", "held ann", S, ""),
    Row("down is not GRANTED when asked again", DOWN, "4s ann REQUEST loop /w1", "claimed extended", "ann DOWN", "held ann", S, ""),
    Row("… nor for the same id", DOWN, "4s ann (again) REQUEST loop /w1", "claimed", "ann DOWN", "held ann", S, ""),
    Row("… nor for a run under the hold", DOWN, "4s ann runs REQUEST loop /w1", "claimed", "ann DOWN", "held ann", S, ""),
    Row("a waiter does not get it for that", WAITED, "4s server dies", "down", "ann< DOWN", "held ann [bob]", S, ""),
    Row("a server lost without proof is a person's", WAITED, "4s server is lost", "recovery_required", "ann< REVOKED RECOVERY_REQUIRED, bob< QUEUED", "recovery_required [bob]", S, ""),
    Row("RESTART starts what is down", DOWN, "4s ann RESTART loop", "claimed step_started", "ann QUEUED", "held ann", S, "start /w1"),
    Row("RESTART stops what runs", WAITED, "4s ann RESTART loop", "claimed step_started", "ann QUEUED", "held ann [bob]", S, "stop /w1"),
    Row("… then starts it, under the same hold", RESTARTING, "5s step done", "step_done step_started", "", "held ann [bob]", S, "start /w1"),
    Row("… and says GRANTED again", f"{RESTART_STARTING}; 6s keeper up", "7s step done", "step_done", "ann< GRANTED", "held ann [bob]", S, ""),
    Row("while it restarts it is not GRANTED", RESTARTING, "5s ann REQUEST loop /w1", "extended", "ann QUEUED", "held ann [bob]", S, ""),
    Row("RESTART twice is one", RESTARTING, "5s ann RESTART loop", "", "ann QUEUED", "held ann [bob]", S, ""),
    Row("what a recovery keeps is stopped with proof, though its leader has ended", "0 database lost, its server lives; 1s server leaves a child; 2s person confirms", "3s ann REQUEST loop /w2", "requested step_started", "ann QUEUED", "preparing ann", S, "stop /w1"),
    Row("what is left of a server is stopped with proof, though its command was in doubt", "0 ann REQUEST loop /w1; 1s keeper up; 2s step done; 3s ann admits make; 4s server leaves a child; 5s command l2 is lost; 6s person confirms", "7s bob REQUEST loop /w2", "requested step_started", "bob QUEUED", "preparing bob", S, "stop /w1"),
    Row("RESTART while it is stopped is a sign of life", f"{WAITED}; 4s stop servers", "5s ann RESTART loop", "claimed", "ann QUEUED", "held ann [bob]", S, ""),
    Row("RESTART of a stranger is refused", WAITED, "4s bob RESTART loop", "", "bob REFUSED NOT_HOLDER", "held ann [bob]", S, ""),
    Row("a restart that fails is down, and still yours", f"{RESTART_STARTING}; 6s keeper up", "7s step fails it broke", "step_undone", "ann< DOWN", "held ann [bob]", S, ""),
    Row("RELEASE in a restart waits for the stop", RESTARTING, "5s ann RELEASE loop", "released", "ann RELEASED", "draining [bob]", S, ""),
    Row("… and starts nothing more for it", f"{RESTARTING}; 5s ann RELEASE loop", "6s step done", "step_done step_started", "", "preparing bob", S, "start /w2"),
    Row("RELEASE in a restart aborts its start", f"{RESTART_STARTING}; 6s keeper up", "7s ann RELEASE loop", "step_aborting released", "ann RELEASED", "draining [bob]", S, "abort"),
    Row("death in a restart aborts its start", f"{RESTART_STARTING}; 6s keeper up", "7s ann is gone", "step_aborting revoked", "", "draining [bob]", S, "abort"),
    Row("STOP SERVERS tells the holder", f"{HELD}; 3s stop servers", "4s step done", "step_done", "ann< DOWN", "held ann", S, ""),
    Row("STOP SERVERS ends one that nobody holds", f"{FREE}; 4s stop servers", "5s step done", "step_done", "", "free", S, ""),
    Row("a person can't confirm away a stop under way", f"{DOUBT}; 6s stop servers", "7s person confirms", "", "person REFUSED RESOURCE_BUSY", "recovery_required [bob]", S, ""),
    Row("doubt about a command spares the server", f"{WAITED}; 4s ann admits make; 5s command l2 is lost", "9s person confirms", "recovered step_started", "person RELEASED", "preparing bob", S, "stop /w1"),
    Row("who waits for a server is not granted a lock", WAITED, "4s define lock", "cancelled definition_pending", "bob< REVOKED UNKNOWN_RESOURCE", "held ann", S, ""),
    Row("… nor is one for whom it is being prepared", UP, "2s define lock", "cancelled step_aborting definition_pending", "ann< REVOKED UNKNOWN_RESOURCE", "draining", S, "abort"),
    Row("what runs is not forgotten", FREE, "4s forget", "", "", "free", S, ""),
    Row("a kind that has no server stops it first", FREE, "4s define lock", "definition_pending step_started", "", "preparing", S, "stop /w1"),
    Row("… and counts after that", f"{FREE}; 4s define lock; 4s bob REQUEST loop /w2", "5s step done", "step_done defined granted", "bob< GRANTED", "held bob", S, ""),
]  # fmt: skip

RESTARTED = [
    Row("a start without a launch is begun again", STARTING, "1s restart", "step_started", "", "preparing ann", S, "start /w1"),
    Row("a start with one is adopted", UP, "2s restart", "", "", "preparing ann", S, "start /w1 adopting s1"),
    Row("a stop is begun again", STOPPING, "5s restart", "step_started", "", "preparing bob", S, "stop /w1"),
    Row("a restart goes on as one", RESTARTING, "5s restart", "step_started", "", "held ann [bob]", S, "stop /w1"),
    Row("an abort is ordered again", f"{UP}; 2s ann CANCEL loop", "3s restart", "", "", "draining", S, "start - adopting s1, abort"),
    Row("an abort of what had not begun is over", f"{STARTING}; 1s ann CANCEL loop; 1s bob REQUEST loop /w2", "2s restart", "step_undone step_started", "", "preparing bob", S, "start /w2"),
    Row("a start that nobody wants is not begun again", f"{RESTART_STARTING}; 6s ann RELEASE loop", "7s restart", "step_undone step_started", "", "preparing bob", S, "start /w2"),
    Row("a look at what has died meanwhile is a start", f"{VERIFYING}; 5s server dies", "6s restart", "step_started", "", "preparing bob", S, "start /w1"),
    Row("… and a stop of what is left", f"{VERIFYING}; 5s server leaves a child", "6s restart", "step_started", "", "preparing bob", S, "stop /w1"),
    Row("a look that nobody wants is not begun again", f"{VERIFYING}; 5s bob RELEASE loop", "6s restart", "step_undone", "", "free", S, ""),
    Row("… nor a start of what has died under it", f"{VERIFYING}; 5s bob RELEASE loop; 5s server dies", "6s restart", "step_undone", "", "free", S, ""),
    Row("a hold stays as it is", HELD, "3s restart", "", "", "held ann", S, ""),
    Row("another boot keeps holds and places", WAITED, "9m boot", "", "", "held ann [bob]", S, ""),
]  # fmt: skip

TABLE = [*HANDING_OVER, *FAILING, *ABORTING, *RUNNING, *RESTARTED]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_server(row: Row) -> None:
    assert seen(row) == expected(row)


def test_granted_says_where_it_runs_from() -> None:
    granted = played(UP, kind=S).play("at 2s step done").outbox[0].body
    assert isinstance(granted, Granted)
    assert (granted.url, granted.worktree, granted.running_since_ms) == ("http://localhost:7080", "/w1", 0)


def test_granted_says_since_when_a_carried_over_server_runs_and_at_which_commit() -> None:
    granted = played(VERIFYING, kind=S).play("at 5s step done").outbox[0].body
    assert isinstance(granted, Granted)
    assert (granted.running_ms, granted.commit) == (3_000, "c0ffee")


def test_a_server_is_stopped_with_the_definition_it_was_started_with() -> None:
    player = played(FREE, "4s define other-server", kind=S)
    stop = player.play("at 5s bob REQUEST loop /w1").steps[0]
    start = player.play("at 6s step done").steps[0]
    assert isinstance(stop, RunStep)
    assert isinstance(start, RunStep)
    assert (stop.definition.start, start.definition.start) == ("npm run dev", "npm run other")


def test_a_failure_brings_the_last_lines_and_the_path_of_the_log() -> None:
    revoked = played(UP, kind=S).play("at 2s step fails it broke").outbox[0].body
    down = played(HELD, kind=S).play("at 3s server dies").outbox[0].body
    assert isinstance(revoked, Revoked)
    assert isinstance(down, Down)
    assert revoked.tail == down.tail == ("Error: it broke",)
    assert revoked.log == down.log == "/logs/loop.log"
    assert revoked.why == "PREPARE_FAILED: it broke"


def test_who_waits_for_a_stranger_s_port_is_told_who_that_is() -> None:
    player = played(STARTING, "1s port held by pid 9", kind=S)
    queued = player.play("at 2s ann REQUEST loop /w1").outbox[0].body
    assert isinstance(queued, Queued)
    assert queued.note.startswith("port 7080 is held by pid 9; end that process yourself")


def test_who_waits_for_another_resource_s_port_is_not_told_to_end_its_server() -> None:
    ours = f"port 7080 is held by {OURS}machine/web: bus status machine/web says who has it"
    assert (may_end(ours), may_end('port 7080 is held by "this bus\'s own server of x" (pid 9)'), may_end("")) == (
        False,
        True,
        True,
    )
    player = played(STARTING, f"1s port held by {ours.partition(' held by ')[2]}", kind=S)
    queued = player.play("at 2s ann REQUEST loop /w1").outbox[0].body
    assert isinstance(queued, Queued)
    assert queued.note == f"{ours}; once that is given back and stopped the hand-over goes on by itself"


def test_the_same_fence_after_a_restart_of_the_server() -> None:
    player = played(HELD, kind=S)
    fence = player.resource.units[0].fence
    for line in ("3s ann RESTART loop", "4s step done", "5s keeper up"):
        player.play(f"at {line}")
    granted = player.play("at 6s step done").outbox[0].body
    assert isinstance(granted, Granted)
    assert granted.fence == player.resource.units[0].fence == fence


def test_a_definition_never_takes_a_held_server_away() -> None:
    player = played(WAITED, "4s define lock", kind=S)
    assert stands(player.resource) == "held ann"
    outcome = player.play("at 5s ann RELEASE loop")
    assert (kept(outcome), ordered(outcome)) == (["released", "step_started"], ["stop /w1"])
    assert kept(player.play("at 6s step done")) == ["step_done", "defined"]


def test_what_a_journal_keeps_is_small() -> None:
    player = played(BOB_STARTING, kind=S)
    assert len(msgspec.json.encode(player.journal)) < 4_096
