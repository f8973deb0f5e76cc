"""What commands add to a resource, rule by rule, what preparing adds to a server, and what a person takes back.

The language of the lines is `player.py`'s; what a lock and a server do besides is in the tables beside this one.
"""
# ruff: noqa: E501 - a table is read across, one row a rule

import msgspec
import pytest
from tests.protocol.player import PAGES, Player, Row, expected, heard, kept, ordered, played, seen, stands

from interlock.protocol.definition import Definition
from interlock.protocol.messages import Down, Granted, Queued, Refused, Revoked
from interlock.protocol.outcome import Deadline
from interlock.protocol.plain import from_plain
from interlock.protocol.resource_commands import RunCommand, RunStep
from interlock.protocol.resource_state import Resource
from interlock.protocol.resource_waiting import next_deadline

B = "board"
ASKED = "0 ann REQUEST loop /w1"
PREPARING = f"{ASKED}; 1s keeper up"
LOOKING = f"{PREPARING}; 2s step done; 2s keeper up"
HELD = f"{LOOKING}; 3s step done"
FREE = f"{HELD}; 4s ann RELEASE loop"  # it stays prepared from /w1
WAITED = f"{HELD}; 4s bob REQUEST loop /w2"
STOPPING = f"{WAITED}; 5s ann RELEASE loop; 5s keeper up"
AGAIN = f"{FREE}; 5s bob REQUEST loop /w1; 5s keeper up"

HANDING_OVER = [
    Row("nothing stands: it is prepared for the first", "", ASKED, "requested step_started", "ann QUEUED", "preparing ann", B, "prepare /w1"),
    Row("the keeper is on record before GO", ASKED, "1s keeper up", "launch_started", "", "preparing ann", B, "go"),
    Row("prepared is looked at", PREPARING, "2s step done", "step_done step_started", "", "preparing ann", B, "verify /w1"),
    Row("… and verified is granted", LOOKING, "3s step done", "step_done granted", "ann< GRANTED", "held ann", B, ""),
    Row("nobody waits: it stays as it is", HELD, "4s ann RELEASE loop", "released", "ann RELEASED", "free", B, ""),
    Row("same worktree: only a look", FREE, "5s bob REQUEST loop /w1", "requested step_started", "bob QUEUED", "preparing bob", B, "verify /w1"),
    Row("… a good one is granted", AGAIN, "6s step done", "step_done granted", "bob< GRANTED", "held bob", B, ""),
    Row("… a bad one has it all redone", AGAIN, "6s step fails no answer", "step_undone step_started", "", "preparing bob", B, "stop /w1"),
    Row("another worktree: the stop runs in the last one's", FREE, "5s bob REQUEST loop /w2", "requested step_started", "bob QUEUED", "preparing bob", B, "stop /w1"),
    Row("… then it is prepared in the new one", f"{STOPPING}", "6s step done", "step_done step_started", "", "preparing bob", B, "prepare /w2"),
    Row("a changed definition is not carried over", f"{FREE}; 5s define other-board", "6s bob REQUEST loop /w1", "requested step_started", "bob QUEUED", "preparing bob", B, "stop /w1"),
    Row("a kind that has no commands has it stopped first", FREE, "5s define lock", "definition_pending step_started", "", "preparing", B, "stop /w1"),
    Row("… and counts after that", f"{FREE}; 5s define lock; 5s keeper up", "6s step done", "step_done defined", "", "free", B, ""),
    Row("a worktree is needed", "", "0 ann REQUEST loop -", "", "ann REFUSED BAD_MESSAGE", "free", B, ""),
    Row("the owner in another worktree is refused", HELD, "4s ann REQUEST loop /w9", "claimed", "ann REFUSED RESOURCE_BUSY", "held ann", B, ""),
    Row("only a look", "", ASKED, "requested step_started", "ann QUEUED", "preparing ann", "only-verify", "verify /w1"),
    Row("… that says no is the requester's, once", f"{ASKED}; 1s keeper up", "2s step fails no", "step_undone prepare_failed", "ann< REVOKED PREPARE_FAILED", "free", "only-verify", ""),
    Row("… carried over too", f"{ASKED}; 1s keeper up; 2s step done; 3s ann RELEASE loop; 4s bob REQUEST loop /w1; 4s keeper up", "5s step fails no", "step_undone prepare_failed", "bob< REVOKED PREPARE_FAILED", "free", "only-verify", ""),
    Row("only a stop: granted at once", "", ASKED, "requested granted", "ann GRANTED", "held ann", "only-stop", ""),
    Row("… and again in the same worktree", f"{ASKED}; 1s ann RELEASE loop", "2s bob REQUEST loop /w1", "requested granted", "bob GRANTED", "held bob", "only-stop", ""),
    Row("… and stopped for another", f"{ASKED}; 1s bob REQUEST loop /w2", "2s ann RELEASE loop", "released step_started", "ann RELEASED", "preparing bob", "only-stop", "stop /w1"),
    Row("only preparing: granted after it", f"{ASKED}; 1s keeper up", "2s step done", "step_done granted", "ann< GRANTED", "held ann", "only-prepare", ""),
    Row("… again in the same worktree at once", f"{ASKED}; 1s keeper up; 2s step done; 3s ann RELEASE loop", "4s bob REQUEST loop /w1", "requested granted", "bob GRANTED", "held bob", "only-prepare", ""),
    Row("… in another anew", f"{ASKED}; 1s keeper up; 2s step done; 3s ann RELEASE loop", "4s bob REQUEST loop /w2", "requested step_started", "bob QUEUED", "preparing bob", "only-prepare", "prepare /w2"),
]  # fmt: skip

BOTH = f"{HELD}; 4s bob REQUEST loop /w2; 5s keeper up; 5s step done; 5s keeper up; 6s step done; 7s ann RELEASE loop"
POOL = [
    Row("a pool finds the unit that is prepared from there", f"{BOTH}; 7s bob RELEASE loop", "8s cyd REQUEST loop /w2", "requested step_started", "cyd QUEUED", "free; preparing cyd", "boards", "verify /w2"),
    Row("… and hands over the one that is given", BOTH, "8s bob HANDOVER loop cyd", "requested released step_started", "bob RELEASED", "free; preparing cyd", "boards", "verify /w2"),
]  # fmt: skip

FAILING = [
    Row("failed preparing is the requester's", PREPARING, "2s step fails it broke", "step_undone prepare_failed", "ann< REVOKED PREPARE_FAILED", "free", B, ""),
    Row("… and what it left is stopped before the next", f"{PREPARING}; 1s bob REQUEST loop /w2", "2s step fails it broke", "step_undone prepare_failed step_started", "ann< REVOKED PREPARE_FAILED", "preparing bob", B, "stop /w1"),
    Row("… in the same worktree too", f"{PREPARING}; 1s bob REQUEST loop /w1", "2s step fails it broke", "step_undone prepare_failed step_started", "ann< REVOKED PREPARE_FAILED", "preparing bob", B, "stop /w1"),
    Row("one that never began left nothing", f"{ASKED}; 1s bob REQUEST loop /w2", "2s step fails its worktree is gone", "step_undone prepare_failed step_started", "ann< REVOKED PREPARE_FAILED", "preparing bob", B, "prepare /w2"),
    Row("a failed look is the requester's", LOOKING, "3s step fails no answer", "step_undone prepare_failed", "ann< REVOKED PREPARE_FAILED", "free", B, ""),
    Row("a failed stop is the operator's", STOPPING, "6s step fails it hangs", "recovery_required", "bob< QUEUED", "recovery_required [bob]", B, ""),
    Row("… and not tried again once a person confirms", f"{STOPPING}; 6s step fails it hangs", "7s person confirms", "recovered step_started", "person RELEASED", "preparing bob", B, "prepare /w2"),
    Row("what is not proved gone is a person's", PREPARING, "2s step fails unproved a child lives", "recovery_required", "ann< QUEUED", "recovery_required [ann]", B, ""),
    Row("interrupted is a person's", PREPARING, "2s step is interrupted", "recovery_required", "ann< QUEUED", "recovery_required [ann]", B, ""),
    Row("… also where a boot proves it gone", PREPARING, "2s step is interrupted by a boot", "recovery_required", "ann< QUEUED", "recovery_required [ann]", B, ""),
    Row("… but what may be repeated is", PREPARING, "2s step is interrupted", "step_undone step_started", "", "preparing ann", "board-repeats", "prepare /w1"),
    Row("… a stop too", STOPPING, "6s step is interrupted", "step_undone step_started", "", "preparing bob", "board-repeats", "stop /w1"),
    Row("… a look too, and it is still a carried one", AGAIN, "6s step is interrupted", "step_undone step_started", "", "preparing bob", "board-repeats", "verify /w1"),
    Row("never started is begun again", f"{FREE}; 5s bob REQUEST loop /w1", "6s step never started", "step_undone step_started", "", "preparing bob", B, "verify /w1"),
    Row("CANCEL lets finish what may not be interrupted", PREPARING, "2s ann CANCEL loop", "cancelled", "ann CANCELLED", "draining", B, ""),
    Row("… and it is looked at for the same worktree", f"{PREPARING}; 2s ann CANCEL loop; 3s step done", "4s bob REQUEST loop /w1", "requested step_started", "bob QUEUED", "preparing bob", B, "stop /w1"),
    Row("… before it has begun it is ended", ASKED, "2s ann CANCEL loop", "cancelled step_aborting", "ann CANCELLED", "draining", B, "abort"),
    Row("… what may be repeated is ended at any time", PREPARING, "2s ann is gone", "cancelled step_aborting", "", "draining", "board-repeats", "abort"),
    Row("doubt about a command spares what stands", f"{WAITED}; 5s ann admits make; 6s command l3 is lost", "9s person confirms", "recovered step_started", "person RELEASED", "preparing bob", B, "stop /w1"),
]  # fmt: skip

HOLDING = [
    Row("RESTART has it all redone", HELD, "4s ann RESTART loop", "claimed step_started", "ann QUEUED", "held ann", B, "stop /w1"),
    Row("… stopped, it is prepared", f"{HELD}; 4s ann RESTART loop; 4s keeper up", "5s step done", "step_done step_started", "", "held ann", B, "prepare /w1"),
    Row("… verified, it is GRANTED again", f"{HELD}; 4s ann RESTART loop; 4s keeper up; 5s step done; 5s keeper up; 6s step done; 6s keeper up", "7s step done", "step_done", "ann< GRANTED", "held ann", B, ""),
    Row("… failed, it is down and still hers", f"{HELD}; 4s ann RESTART loop; 4s keeper up; 5s step done; 5s keeper up", "6s step fails it broke", "step_undone", "ann< DOWN", "held ann", B, ""),
    Row("… down is not GRANTED when asked again", f"{HELD}; 4s ann RESTART loop; 4s keeper up; 5s step done; 5s keeper up; 6s step fails it broke", "7s ann REQUEST loop /w1", "extended", "ann DOWN", "held ann", B, ""),
    Row("RESTART of nothing but a stop is refused", ASKED, "1s ann RESTART loop", "", "ann REFUSED CAPABILITY_DENIED", "held ann", "only-stop", ""),
    Row("STOP SERVERS tells the holder", f"{HELD}; 4s stop servers; 4s keeper up", "5s step done", "step_done", "ann< DOWN", "held ann", B, ""),
    Row("… and ends what nobody holds", FREE, "5s stop servers", "step_started", "", "preparing", B, "stop /w1"),
    Row("… but not where there is no stop", f"{ASKED}; 1s keeper up; 2s step done", "5s stop servers", "", "", "held ann", "only-prepare", ""),
    Row("a step under way is adopted after a restart", PREPARING, "2s restart", "", "", "preparing ann", B, "prepare /w1 adopting s1"),
    Row("… one without a launch is begun again", ASKED, "2s restart", "step_started", "", "preparing ann", B, "prepare /w1"),
    Row("… but not a look that nobody wants", f"{FREE}; 5s bob REQUEST loop /w1; 5s bob CANCEL loop", "6s restart", "step_undone", "", "free", B, ""),
    Row("… a stop in the last one's worktree", STOPPING, "6s restart", "", "", "preparing bob", B, "stop /w1 adopting s3"),
]  # fmt: skip

S = "prepared"
SERVER_HELD = f"{PREPARING}; 2s step done; 2s keeper up; 3s step done"
SERVERS = [
    Row("a server is prepared before its start", "", ASKED, "requested step_started", "ann QUEUED", "preparing ann", S, "prepare /w1"),
    Row("… then started", PREPARING, "2s step done", "step_done step_started", "", "preparing ann", S, "start /w1"),
    Row("… then granted", f"{PREPARING}; 2s step done; 2s keeper up", "3s step done", "step_done granted", "ann< GRANTED", "held ann", S, ""),
    Row("failed preparing is the requester's", PREPARING, "2s step fails it broke", "step_undone prepare_failed", "ann< REVOKED PREPARE_FAILED", "free", S, ""),
    Row("the next is prepared in its own worktree, once the last is stopped", f"{SERVER_HELD}; 4s bob REQUEST loop /w2; 5s ann RELEASE loop", "6s step done", "step_done step_started", "", "preparing bob", S, "prepare /w2"),
    Row("same worktree: only verified", f"{SERVER_HELD}; 5s ann RELEASE loop", "6s bob REQUEST loop /w1", "requested step_started", "bob QUEUED", "preparing bob", S, "verify /w1"),
    Row("RESTART prepares nothing", f"{SERVER_HELD}; 4s ann RESTART loop", "5s step done", "step_done step_started", "", "held ann", S, "start /w1"),
    Row("CANCEL ends it", PREPARING, "2s ann CANCEL loop", "cancelled step_aborting", "ann CANCELLED", "draining", S, "abort"),
    Row("interrupted by a boot it is done again", PREPARING, "2s step is interrupted by a boot", "step_undone step_started", "", "preparing ann", S, "prepare /w1"),
    Row("… otherwise a person looks", PREPARING, "2s step is interrupted", "recovery_required", "ann< QUEUED", "recovery_required [ann]", S, ""),
]  # fmt: skip

LOCKED = "0 ann REQUEST loop; 0 bob REQUEST loop"
GRACE = f"{WAITED}; 5s person revokes"
DOUBT = f"{WAITED}; 5s ann admits make; 5s person revokes; 6s command l3 is lost"
RUNS = "0 ann REQUEST loop /w1; 1s keeper up; 2s step done; 3s bob REQUEST loop /w2"  # a server
SILENT = f"{RUNS}; 4s ann is heard; 184s tick; 364s tick"
REVOKING = [
    Row("a lock is passed on at once", LOCKED, "5s person revokes", "revoked granted", "ann< REVOKED, person REVOKED, bob< GRANTED", "held bob", "lock", ""),
    Row("nobody holds it", "", "5s person revokes", "", "person REFUSED TARGET_ENDED", "free", "lock", ""),
    Row("several hold it", LOCKED, "5s person revokes", "", "person REFUSED AMBIGUOUS_TARGET", "held ann; held bob", "pool", ""),
    Row("… a unit says which", LOCKED, "5s person revokes 1", "revoked", "bob< REVOKED, person REVOKED", "held ann; free", "pool", ""),
    Row("… a holder too", LOCKED, "5s person revokes of ann", "revoked", "ann< REVOKED, person REVOKED", "free; held bob", "pool", ""),
    Row("… but not a wrong one", LOCKED, "5s person revokes 0 of bob", "", "person REFUSED TARGET_ENDED", "held ann; held bob", "pool", ""),
    Row("a command under it is let finish", f"{LOCKED}; 1s ann admits make", "5s person revokes", "draining", "ann< REVOKED, person REVOKED", "draining ann [bob]", "lock", ""),
    Row("… then the next is served", f"{LOCKED}; 1s ann admits make; 5s person revokes", "6s command l1 ends 0", "finished revoked granted", "bob< GRANTED", "held bob", "lock", ""),
    Row("… and that is not revoked again", f"{LOCKED}; 1s ann admits make; 5s person revokes", "6s person revokes", "", "person REFUSED TARGET_ENDED", "draining ann [bob]", "lock", ""),
    Row("a bus run hears it at its wrapper", "0 ann runs REQUEST loop", "5s person revokes", "revoked", "ann/run< REVOKED, person REVOKED", "free", "lock", ""),
    Row("what is being prepared is taken back too", PREPARING, "5s person revokes", "cancelled", "ann< REVOKED, person REVOKED", "draining", B, ""),
    Row("what stands is let be for the grace", WAITED, "5s person revokes", "revoked", "ann< REVOKED, person REVOKED", "draining [bob]", B, ""),
    Row("… not a moment less", GRACE, "9999 tick", "", "", "draining [bob]", B, ""),
    Row("… nor more", GRACE, "10s tick", "drained step_started", "", "preparing bob", B, "stop /w1"),
    Row("… a newcomer waits with the others", GRACE, "6s cyd REQUEST loop /w1", "requested", "cyd QUEUED", "draining [bob cyd]", B, ""),
    Row("… a restart does not end it", f"{GRACE}; 6s restart", "10s tick", "drained step_started", "", "preparing bob", B, "stop /w1"),
    Row("… a boot does", GRACE, "6s boot", "", "", "draining [bob]", B, ""),
    Row("… and then it goes on", f"{GRACE}; 6s boot", "6s tick", "drained step_started", "", "preparing bob", B, "stop /w1"),
    Row("… stop servers does not wait for it", GRACE, "6s stop servers", "step_started", "", "draining [bob]", B, "stop /w1"),
    Row("the grace counts from REVOKED, not from a command's end", f"{WAITED}; 5s ann admits make; 5s person revokes", "9s command l3 ends 0", "finished revoked", "", "draining [bob]", B, ""),
    Row("… which may be later", f"{WAITED}; 5s ann admits make; 5s person revokes; 20s command l3 ends 0", "20s tick", "drained step_started", "", "preparing bob", B, "stop /w1"),
    Row("doubt about a command does not end the grace", DOUBT, "9s person confirms", "recovered", "person RELEASED", "draining [bob]", B, ""),
    Row("… it ends in its time", f"{DOUBT}; 9s person confirms", "10s tick", "drained step_started", "", "preparing bob", B, "stop /w1"),
    Row("… which frees nothing while it is in doubt", DOUBT, "20s tick", "", "", "recovery_required [bob]", B, ""),
    Row("… and is over for whoever confirms later", f"{DOUBT}; 20s person confirms", "20s tick", "drained step_started", "", "preparing bob", B, "stop /w1"),
    Row("silence has a grace", SILENT, "544s tick", "revoked", "ann< REVOKED", "draining [bob]", "server", ""),
    Row("an unnoticed grant has one", f"{RUNS}", "123s tick", "expired", "ann< REVOKED, ann< QUEUED", "draining [ann (absent) bob]", "server", ""),
    Row("RELEASE has none", RUNS, "5s ann RELEASE loop", "released step_started", "ann RELEASED", "preparing bob", "server", "stop /w1"),
    Row("death has none", RUNS, "5s ann is gone", "revoked step_started", "", "preparing bob", "server", "stop /w1"),
    Row("where nothing runs there is none", f"{RUNS}; 4s server dies", "5s person revokes", "revoked step_started", "ann< REVOKED, person REVOKED", "preparing bob", "server", "start /w2"),
    Row("a server that dies in it is just not there", f"{RUNS}; 4s person revokes; 5s server dies", "9s tick", "drained step_started", "", "preparing bob", "server", "start /w2"),
]  # fmt: skip

TABLE = [*HANDING_OVER, *POOL, *FAILING, *HOLDING, *SERVERS, *REVOKING]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_command(row: Row) -> None:
    assert seen(row) == expected(row)


def test_a_stop_runs_for_the_last_owner_in_its_worktree_with_the_definition_it_was_prepared_with() -> None:
    player = played(FREE, "5s define other-board", kind=B)
    stop = player.play("at 6s bob REQUEST loop /w1").steps[0]
    player.play("at 6s keeper up")
    prepare = player.play("at 7s step done").steps[0]
    assert isinstance(stop, RunCommand)
    assert isinstance(prepare, RunCommand)
    assert (stop.command, stop.worktree, stop.agent) == ("./off", "/w1", "ann")
    assert (prepare.command, prepare.worktree, prepare.agent) == ("./flash --other", "/w1", "bob")


def test_each_unit_of_a_pool_is_started_with_its_own_definition_and_says_its_own_url() -> None:
    player = played("0 ann REQUEST loop /w1; 1s keeper up; 2s step done", kind="pages")
    start = player.play("at 3s bob REQUEST loop /w2").steps[0]
    player.play("at 4s keeper up")
    granted = player.play("at 5s step done").outbox[0].body
    assert isinstance(start, RunStep)
    assert isinstance(granted, Granted)
    own = start.definition
    assert (own.start, own.ports, own.env, own.unit_ports) == ("serve 7082", (7082,), (("PORT", "7082"),), ())
    assert (granted.url, granted.unit) == ("http://x:7082", "7082")
    assert PAGES.url == "http://x:{unit}"


def test_the_third_asker_of_a_pool_gets_the_first_unit_that_is_free_and_its_own_server_where_that_runs() -> None:
    both = "0 ann REQUEST loop /w1; 1s keeper up; 2s step done; 3s bob REQUEST loop /w2; 4s keeper up; 5s step done"
    player = played(both, "6s cyd REQUEST loop /w3", kind="pages")
    outcome = player.play("at 7s bob RELEASE loop")
    assert (stands(player.resource), ordered(outcome)) == ("held ann; preparing cyd", ["stop /w2"])
    player = played(both, "6s ann RELEASE loop; 6s bob RELEASE loop", kind="pages")
    assert ordered(player.play("at 7s cyd REQUEST loop /w2")) == ["verify /w2"]
    assert stands(player.resource) == "free; preparing cyd"
    player = played(both, "6s ann RELEASE loop; 6s bob RELEASE loop", kind="pages")
    assert ordered(player.play("at 7s cyd REQUEST loop /w3")) == ["stop /w1"]


def test_a_person_s_words_reach_the_owner_the_log_and_who_asks_later() -> None:
    player = played(LOCKED, kind="lock")
    outcome = player.play("at 5s person revokes")
    revoked = next(send.body for send in outcome.outbox if isinstance(send.body, Revoked) and send.to == "ann")
    assert revoked.why == "revoked by person (the demo begins)"
    assert getattr(outcome.events[0], "why", "") == revoked.why
    refused = player.play("at 6s ann EXTEND loop").outbox[0].body
    assert isinstance(refused, Refused)
    assert refused.why.endswith("revoked by person (the demo begins)")


def test_who_revokes_under_a_command_is_told_what_still_runs() -> None:
    answer = played(LOCKED, "1s ann admits make", kind="lock").play("at 5s person revokes").outbox[-1].body
    assert isinstance(answer, Revoked)
    assert answer.why.startswith("from ann; make (pid 4001) still runs under it")


def test_a_failure_brings_the_last_lines_and_the_path_of_the_log() -> None:
    down = played(HELD, "4s ann RESTART loop; 4s keeper up; 5s step done; 5s keeper up", kind=B)
    told = down.play("at 6s step fails it broke").outbox[0].body
    revoked = played(PREPARING, kind=B).play("at 2s step fails it broke").outbox[0].body
    assert isinstance(told, Down)
    assert isinstance(revoked, Revoked)
    assert told.tail == revoked.tail == ("Error: it broke",)
    assert told.log == revoked.log == "/logs/loop.log"


def test_why_it_is_down_is_said_to_whoever_asks_later_until_it_is_up_again() -> None:
    player = played(
        HELD, "4s ann RESTART loop; 4s keeper up; 5s step done; 5s keeper up; 6s step fails it broke", kind=B
    )
    down = player.play("at 7s ann REQUEST loop /w1").outbox[0].body
    assert isinstance(down, Down)
    assert down.why == "did not come up again: it broke"
    player.play("at 8s ann RESTART loop")
    assert player.resource.units[0].why == ""


def test_who_waits_for_the_grace_is_told_so_and_the_timer_knows_when_it_ends() -> None:
    player = played(GRACE, kind=B)
    queued = player.play("at 6s bob REQUEST loop /w2").outbox[0].body
    assert isinstance(queued, Queued)
    assert queued.state == "grace"
    assert next_deadline(player.resource, "boot1") == Deadline("boot1", 10_000)


def test_a_state_of_the_first_version_reads_as_it_was() -> None:
    """As its journals and snapshots have them: fields are only ever added."""
    old = (
        b'{"key":"machine/loop","definition":{"kind":"server","server":{"start":"npm run dev","ports":[7080]}},'
        b'"units":[{"name":"","state":"held","ticket":{"request_id":"r1","agent":"ann","incarnation":1,"arrival":1,'
        b'"worktree":"/w1","purpose":"x","called":"loop","asked_ms":1},"fence":7,"since_ms":5,"server":{"launch":"s1",'
        b'"keeper":{"machine":"m","boot":"boot1","pid_namespace":1,"pid":4001,"start_ticks":1},"worktree":"/w1",'
        b'"definition":{"start":"npm run dev","ports":[7080]}},"step":{"number":9,"kind":"stop","restart":true}}]}'
    )
    player = Player("server")
    player.resource = player.began = msgspec.json.decode(old, type=Resource, dec_hook=from_plain)
    player.seq = 10
    assert player.resource.definition.revoke_grace_ms == Definition().revoke_grace_ms
    assert kept(player.play("at 5s restart")) == ["step_started"]
    outcome = player.play("at 6s step done")
    assert (kept(outcome), ordered(outcome), heard(outcome)) == (["step_done", "step_started"], ["start /w1"], [])
