"""The territory machine, as a table: what is said, who is told, what the state is then."""

# ruff: noqa: E501 - a table is read across, one row a rule

from typing import NamedTuple

import pytest
from tests.protocol.territory_player import Player

from interlock.protocol.limits import EXPIRED_A_STEP
from interlock.protocol.territory_state import next_deadline


class Row(NamedTuple):
    name: str
    before: str
    line: str
    said: str  # the beginning of the answer
    told: str
    state: str


ANN = "ann acquires src/**"
BOB = "bob acquires src/a.py wait=5m"
FIRST_COME = [
    Row("a free path is leased at once", "", ANN, "LEASED L1 src/** (fence 1) - yours for 2m", "", "ann L1 src/**"),
    Row("what overlaps it is refused where it may not wait", ANN, "bob acquires src/a.py", "REFUSED OVERLAP", "", "ann L1 src/**"),
    Row("… or waits", ANN, BOB, "LEASE QUEUED L2 src/a.py - ann has src/**", "", "ann L1 src/**; (bob L2 src/a.py)"),
    Row("what overlaps nothing is leased beside it", ANN, "bob acquires test/a.py", "LEASED L2", "", "ann L1 src/**; bob L2 test/a.py"),
    Row("src2 is not in src", ANN, "bob acquires src2/x", "LEASED L2", "", "ann L1 src/**; bob L2 src2/x"),
    Row("two shared leases overlap in peace", f"{ANN} shared", "bob acquires src/a.py shared", "LEASED L2", "", "ann L1 src/** shared; bob L2 src/a.py shared"),
    Row("… a third that is exclusive waits", f"{ANN} shared", BOB, "LEASE QUEUED", "", "ann L1 src/** shared; (bob L2 src/a.py)"),
    Row("… and who comes after it waits behind it, shared or not", f"{ANN} shared; {BOB}", "cyd acquires src/a.py shared wait=1m", "LEASE QUEUED L3 src/a.py - bob waits for src/a.py", "", "ann L1 src/** shared; (bob L2 src/a.py); (cyd L3 src/a.py shared)"),
    Row("who is given back to is who came first", f"{ANN}; {BOB}; cyd acquires src/a.py wait=5m", "ann returns L1", "LEASE ENDED L1", "bob< LEASED L2", "bob L2 src/a.py; (cyd L3 src/a.py)"),
    Row("all that overlaps nothing any more is served at once", f"{ANN}; {BOB}; cyd acquires src/b.py wait=5m", "ann returns L1", "LEASE ENDED", "bob< LEASED L2, cyd< LEASED L3", "bob L2 src/a.py; cyd L3 src/b.py"),
    Row("who gives up stands in nobody's way", "ann acquires a; bob acquires a b wait=5m; cyd acquires b wait=5m", "bob returns L2", "LEASE ENDED L2", "cyd< LEASED L3", "ann L1 a; cyd L3 b"),
    Row("all claims or none", "ann acquires a", "bob acquires b a", "REFUSED OVERLAP", "", "ann L1 a"),
    Row("lines of one file apart", "ann acquires a.py:1-9", "bob acquires a.py:10-20", "LEASED L2", "", "ann L1 a.py:1-9; bob L2 a.py:10-20"),
    Row("… a line in common", "ann acquires a.py:1-9", "bob acquires a.py:9-20", "REFUSED OVERLAP", "", "ann L1 a.py:1-9"),
    Row("… the file has the lines", "ann acquires a.py:1-9", "bob acquires *.py", "REFUSED OVERLAP", "", "ann L1 a.py:1-9"),
    Row("an agent is not in its own way", ANN, "ann acquires src/a.py", "LEASED L2", "", "ann L1 src/**; ann L2 src/a.py"),
    Row("the same name is the same lease", f"{ANN} name=k", f"{ANN} name=k", "LEASED L1", "", "ann L1 src/**"),
    Row("… of that agent alone", f"{ANN} name=k", "bob acquires doc name=k", "LEASED L2", "", "ann L1 src/**; bob L2 doc"),
    Row("… with other claims it is a conflict", f"{ANN} name=k", "ann acquires doc name=k", "REFUSED ID_CONFLICT", "", "ann L1 src/**"),
    Row("… with another kind too", f"{ANN} name=k", f"{ANN} shared name=k", "REFUSED ID_CONFLICT", "", "ann L1 src/**"),
    Row("… and is another once it is over", f"{ANN} name=k; ann returns L1", f"{ANN} name=k", "LEASED L3", "", "ann L3 src/**"),
    Row("the same message is not done again", f"{ANN} id=q; ann returns L1", f"{ANN} id=q", "LEASE ENDED L1", "", ""),
    Row("a ring is refused", "ann acquires a; bob acquires b; ann acquires b wait=5m", "bob acquires a wait=5m", "REFUSED DEADLOCK", "", "ann L1 a; bob L2 b; (ann L3 b)"),
    Row("… over three too", "ann acquires a; bob acquires b; cyd acquires c; ann acquires b wait=5m; bob acquires c wait=5m", "cyd acquires a wait=5m", "REFUSED DEADLOCK", "", "ann L1 a; bob L2 b; cyd L3 c; (ann L4 b); (bob L5 c)"),
    Row("… of one that holds nothing yet, and is waited for", "zoe acquires x; bob acquires y; ann acquires x wait=5m; bob acquires x wait=5m", "ann acquires y wait=5m", "REFUSED DEADLOCK", "", "zoe L1 x; bob L2 y; (ann L3 x); (bob L4 x)"),
    Row("… and what is no ring is not", "ann acquires a; bob acquires b; cyd acquires b wait=5m", "bob acquires a wait=5m", "LEASE QUEUED", "", "ann L1 a; bob L2 b; (cyd L3 b); (bob L4 a)"),
    Row("a time too short", "", "ann acquires a ttl=9s", "REFUSED BAD_MESSAGE", "", ""),
    Row("a time too long", "", "ann acquires a ttl=25h", "REFUSED BAD_MESSAGE", "", ""),
]  # fmt: skip

TIME = [
    Row("it lasts its time", f"{ANN} ttl=1m", "59999ms passes", "", "", "ann L1 src/**"),
    Row("… and not longer, and says so", f"{ANN} ttl=1m; {BOB}", "60s passes", "", "ann< LEASE ENDED L1, bob< LEASED L2", "bob L2 src/a.py"),
    Row("renewed it begins anew", f"{ANN} ttl=1m; 50s passes; ann renews L1", "50s passes", "", "", "ann L1 src/**"),
    Row("… for another time", f"{ANN} ttl=1m; ann renews L1 ttl=10m", "9m passes", "", "", "ann L1 src/**"),
    Row("a lost one is not renewed", f"{ANN} ttl=1m; 60s passes", "ann renews L1", "REFUSED TARGET_ENDED", "", ""),
    Row("nor another's", ANN, "bob renews L1", "REFUSED NOT_HOLDER", "", "ann L1 src/**"),
    Row("nor one that waits", f"{ANN}; {BOB}", "bob renews L2", "REFUSED NOT_HOLDER", "", "ann L1 src/**; (bob L2 src/a.py)"),
    Row("nor what never was", "", "ann renews L9", "REFUSED TARGET_ENDED", "", ""),
    Row("slept through it begins anew, once", f"{ANN} ttl=1m; {BOB}", "1h of sleep", "", "", "ann L1 src/**; (bob L2 src/a.py)"),
    Row("… and no more", f"{ANN} ttl=1m; cyd acquires src/b wait=3h; 1h of sleep", "60s passes", "", "ann< LEASE ENDED L1, cyd< LEASED L2", "cyd L2 src/b"),
    Row("after a boot it begins anew", f"{ANN} ttl=1m", "reboot", "", "", "ann L1 src/**"),
    Row("… and no more", f"{ANN} ttl=1m; reboot", "60s passes", "", "ann< LEASE ENDED L1", ""),
    Row("who waits has its own time again, once, however often it sleeps", f"{ANN} ttl=24h; {BOB}; 1h of sleep; 1h of sleep", "300s passes", "", "bob< LEASE ENDED L2", "ann L1 src/**"),
    Row("who waits, waits so long", f"{ANN} ttl=10m; {BOB}", "5m passes", "", "bob< LEASE ENDED L2", "ann L1 src/**"),
    Row("what is due is over before anybody asks", f"{ANN} ttl=1m", "bob acquires src/a.py", "REFUSED OVERLAP", "", "ann L1 src/**"),
    Row("returned twice is returned", f"{ANN}; ann returns L1", "ann returns L1", "LEASE ENDED L1", "", ""),
    Row("a lost one cannot be returned", f"{ANN} ttl=1m; 60s passes", "ann returns L1", "REFUSED TARGET_ENDED", "", ""),
]  # fmt: skip

BOUND = [
    Row("what a process keeps no clock ends", f"{ANN} pid=7", "48h passes", "", "", "ann L1 src/**"),
    Row("… its end does, at once", f"{ANN} pid=7; {BOB}", "ann dies pid=7", "", "bob< LEASED L2", "bob L2 src/a.py"),
    Row("… another's does not", f"{ANN} pid=7", "ann dies pid=8", "", "", "ann L1 src/**"),
    Row("a place in the queue ends with it too", f"{ANN}; {BOB} pid=7; cyd acquires src/a.py wait=5m", "bob dies pid=7", "", "", "ann L1 src/**; (cyd L3 src/a.py)"),
    Row("a gone agent's leases are free", f"{ANN} bound; {BOB}", "ann leaves", "", "bob< LEASED L2", "bob L2 src/a.py"),
    Row("… but what a process of its own keeps", f"{ANN} pid=7", "ann leaves", "", "", "ann L1 src/**"),
    Row("under a command it stays in force", f"{ANN} pid=7; ann runs l1 L1; {BOB}", "ann dies pid=7", "", "", "ann L1! src/**; (bob L3 src/a.py)"),
    Row("… until that is gone", f"{ANN} pid=7; ann runs l1 L1; {BOB}; ann dies pid=7", "l1 ends", "", "bob< LEASED L3", "bob L3 src/a.py"),
    Row("… or its time is over, where nobody can say", f"{ANN} pid=7 ttl=1m; ann runs l1 L1; ann dies pid=7; l1 ends unproved", "60s passes", "", "", ""),
    Row("no clock ends it under a command", f"{ANN} ttl=1m; ann runs l1 L1", "60s passes", "", "", "ann L1 src/**"),
    Row("it is not returned under a command", f"{ANN}; ann runs l1 L1", "ann returns L1", "REFUSED RESOURCE_BUSY", "", "ann L1 src/**"),
    Row("a command runs under its own fence alone", ANN, "ann runs l1 L1 fence=9", "REFUSED STALE_FENCE", "", "ann L1 src/**"),
    Row("… and under its own agent's", ANN, "bob runs l1 L1", "REFUSED NOT_HOLDER", "", "ann L1 src/**"),
]  # fmt: skip

GIVEN = [
    Row("given on it is another's under a new fence", ANN, "ann transfers L1 bob", "LEASE ENDED L1 src/** - transferred: to bob", "bob< LEASED L1", "bob L1 src/**"),
    Row("… and nobody else's any more", f"{ANN}; ann transfers L1 bob", "ann renews L1", "REFUSED NOT_HOLDER", "", "bob L1 src/**"),
    Row("… whose other lease was in its way is served", f"{ANN}; {BOB}", "ann transfers L1 bob", "LEASE ENDED", "bob< LEASED L1, bob< LEASED L2", "bob L1 src/**; bob L2 src/a.py"),
    Row("not what another of mine overlaps", f"{ANN}; ann acquires src/a.py", "ann transfers L1 bob", "REFUSED OVERLAP", "", "ann L1 src/**; ann L2 src/a.py"),
    Row("a person may give an orphan's on", ANN, "person transfers L1 bob", "LEASE ENDED", "bob< LEASED L1, ann< LEASE ENDED L1", "bob L1 src/**"),
    Row("a part of it is another's for a while", ANN, "ann splits L1 bob src/a.py ttl=30s", "LEASED L2", "bob< LEASED L2", "ann L1 src/**; bob L2 src/a.py"),
    Row("… and returns", f"{ANN}; ann splits L1 bob src/a.py ttl=30s", "30s passes", "", "bob< LEASE ENDED L2", "ann L1 src/**"),
    Row("… not longer than the whole", f"{ANN} ttl=1m", "ann splits L1 bob src/a.py ttl=2m", "REFUSED BAD_MESSAGE", "", "ann L1 src/**"),
    Row("… not more than it is", ANN, "ann splits L1 bob doc", "REFUSED SCOPE_DENIED", "", "ann L1 src/**"),
    Row("… not the same part twice", f"{ANN}; ann splits L1 bob src/a.py", "ann splits L1 cyd src/a.py", "REFUSED OVERLAP", "", "ann L1 src/**; bob L2 src/a.py"),
    Row("… which stays another's when the whole is given back", f"{ANN}; ann splits L1 bob src/a.py; cyd acquires src/a.py wait=1m; dan acquires src/b wait=1m", "ann returns L1", "LEASE ENDED", "dan< LEASED L4", "bob L2 src/a.py; dan L4 src/b; (cyd L3 src/a.py)"),
    Row("a part of a part is nobody's conflict with the whole, whatever becomes of what is between", f"{ANN}; ann splits L1 bob src/a/**; bob splits L2 cyd src/a/x.py; bob returns L2", "ann splits L1 dan src/b.py", "LEASED L5", "dan< LEASED L5", "ann L1 src/**; cyd L3 src/a/x.py; dan L5 src/b.py"),
    Row("… which others cannot have", f"{ANN}; ann splits L1 bob src/a/**; bob splits L2 cyd src/a/x.py; bob returns L2", "ann splits L1 dan src/a/**", "REFUSED OVERLAP", "", "ann L1 src/**; cyd L3 src/a/x.py"),
    Row("the same split again is the same part", f"{ANN}; ann splits L1 bob src/a.py id=q", "ann splits L1 bob src/a.py id=q", "LEASED L2", "", "ann L1 src/**; bob L2 src/a.py"),
    Row("… and none once that is over", f"{ANN}; ann splits L1 bob src/a.py id=q; bob returns L2", "ann splits L1 bob src/a.py id=q", "REFUSED TARGET_ENDED", "", "ann L1 src/**"),
    Row("a revoked lease is not granted by asking again", f"{ANN} id=q pid=7; ann runs l1 L1; person revokes L1", f"{ANN} id=q pid=7", "REFUSED TARGET_ENDED", "", "ann L1! src/**"),
    Row("one that was given on is not taken again by asking again", f"{ANN} id=q; ann transfers L1 bob", f"{ANN} id=q", "REFUSED TARGET_ENDED", "", "bob L1 src/**"),
    Row("a person takes it back", f"{ANN}; {BOB}", "person revokes L1", "LEASE ENDED L1 src/** - revoked: from ann", "ann< LEASE ENDED L1, bob< LEASED L2", "bob L2 src/a.py"),
]  # fmt: skip


@pytest.mark.parametrize("row", [*FIRST_COME, *TIME, *BOUND, *GIVEN], ids=lambda row: row.name)
def test_territory(row: Row) -> None:
    player = Player().play(row.before)
    player.play(row.line)
    said = player.text() if player.said is not None else ""
    assert (said[: len(row.said)], ", ".join(player.told), player.state()) == (row.said, row.told, row.state), said


def test_expiry_does_not_wait_for_the_timer() -> None:
    player = Player().play("ann acquires a ttl=10s")
    player.mono_ms += 10_500
    player.play("bob acquires a")
    assert player.state() == "bob L3 a"


def test_what_is_known_of_a_lost_lease_is_said() -> None:
    player = Player().play("ann acquires a ttl=1m; 60s passes; 5s passes; ann renews L1")
    assert player.said.why == "L1 of ann is over since 5s (expired: not renewed for 1m): acquire it anew"


def test_many_that_end_at_one_moment_go_a_step_at_a_time_and_all_of_them() -> None:
    player = Player().play("; ".join(f"ann acquires f{n} ttl=10s" for n in range(EXPIRED_A_STEP + 9)))
    player.play("10s passes")
    assert len(player.territory.held) == 9
    deadline = next_deadline(player.territory, player.boot)
    assert deadline is not None
    assert deadline.mono_ms <= player.mono_ms
    assert player.play("0s passes").state() == ""


def test_one_that_is_overdue_among_very_many_is_not_renewed_in_silence() -> None:
    player = Player().play("; ".join(f"ann acquires f{n} ttl=10s" for n in range(EXPIRED_A_STEP + 9)))
    player.mono_ms += 10_500
    player.play(f"ann renews L{EXPIRED_A_STEP + 9}")
    assert player.text() == "REFUSED TARGET_ENDED"
