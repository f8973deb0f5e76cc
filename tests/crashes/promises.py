"""The promises of the contract, judged by what clients were told, what the log says and what lies on the disk."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio
import msgspec
from tests.end_to_end.playground import Event

from interlock.adapters.inbox_files import file_name
from interlock.adapters.paths import PART_SUFFIX, Home, is_of_a_home
from interlock.adapters.private_files import TEMPORARY
from interlock.adapters.sqlite import SqliteStore
from interlock.coordinator import records
from interlock.coordinator.journal import numbered
from interlock.coordinator.world import World

ENDS = {"released", "revoked", "expired"}
# Events of the supervisor's log that say that a fault was ours, whatever the disk did.
OURS = {"task_failed", "follow_up_failed", "post_office_failed", "intake_failed", "post_failed", "start_failed"}


class Journal(msgspec.Struct):
    """What a database holds once nobody has it open.

    Args:
        events: each with its seq, actor and type; those that were pruned are missing at the beginning.
        lived, replayed: the world that was kept at an orderly end, and the one that the records make.
    """

    events: list[Event]
    lived: World
    replayed: World | None


def read_journal(database: Path) -> Journal:
    """Read it from the first row that is left, as a start does from nothing."""
    return anyio.run(_read_journal, database)


async def _read_journal(database: Path) -> Journal:
    events: list[Event] = []
    replayed = World()
    async with SqliteStore(database) as store:
        snapshot = await store.snapshot()
        assert snapshot is not None, "an orderly end keeps a snapshot"
        lived = World.decode(snapshot.body)
        whole, after = True, 0
        while rows := await store.rows(after, 512):
            for row in rows:
                record = records.decode(row.body)
                whole = whole and (after > 0 or row.index == 1)
                after = row.index
                events += [
                    {**msgspec.to_builtins(event), "seq": seq, "actor": actor}
                    for seq, actor, event in numbered(record, 0)
                ]
                if whole:
                    replayed.apply(record)
                    replayed.hash = row.hash.hex()
    again = World.decode(replayed.encode()) if whole else None
    return Journal(events, lived, again)


def broken_promises(said: Sequence[Event], journal: Journal) -> Iterator[str]:
    """Which promises (contract, section 7) do not hold between what was said and the log; each with its number."""
    events = journal.events
    if [event["seq"] for event in events] != list(range(events[0]["seq"], events[0]["seq"] + len(events))):
        yield "the log has a gap or a repeat"
    whole = events[0]["seq"] == 1
    grants = {event["fence"]: event for event in events if event["type"] == "granted"}
    if len(grants) != sum(event["type"] == "granted" for event in events):
        yield "1: a fence was given twice"
    if any(event["fence"] != event["seq"] for event in grants.values()):
        yield "1: a fence is not its event's number"
    yield from _overlaps(events, whole)
    if whole:
        yield from _unsaid(said, events)
        ends = [event["fence"] for event in events if event["type"] in ENDS]
        if sorted(ends) != sorted(grants):
            yield f"7: granted {sorted(grants)}, ended {sorted(ends)}"
        yield from _out_of_turn(events)
    if journal.replayed is not None and journal.lived != journal.replayed:
        yield "8: what the records make is not what was lived"
    told = [(body["agent"], body["fence"]) for body in said if body["type"] == "GRANTED"]
    for agent, fence in told:
        if any(fence == other and agent != whose for whose, other in told):
            yield f"1: {agent} and another were told GRANTED under fence {fence}"


def _overlaps(events: Sequence[Event], whole: bool) -> Iterator[str]:
    """Two holders at once, as the log tells it."""
    holds: dict[str, Event] = {}
    for event in events:
        key = event["actor"]
        if event["type"] == "granted":
            if key in holds:
                yield f"1: {event['agent']} was granted {key} while {holds[key]['agent']} had it"
            holds[key] = event
        elif event["type"] in ENDS:
            if whole and holds.get(key, {}).get("fence") != event["fence"]:
                yield f"7: fence {event['fence']} of {key} ended and was not held"
            holds.pop(key, None)


def _unsaid(said: Sequence[Event], events: Sequence[Event]) -> Iterator[str]:
    """What was said and is not on record. An answer under an id that was done before says what is true now."""
    requests = {event["ticket"]["request_id"] for event in events if event["type"] == "requested"}
    grants = {(event["agent"], event["fence"]) for event in events if event["type"] == "granted"}
    letters = [event["letter"]["id"] for event in events if event["type"] == "sent"]
    sent = set(letters)
    if len(letters) != len(sent) or len(requests) != sum(event["type"] == "requested" for event in events):
        yield "2: something was done twice"
    named = [(event["type"], event["agent"]) for event in events if "agent" in event]
    done = {(kind, agent if isinstance(agent, str) else agent["name"]) for kind, agent in named}
    for body in said:
        kind, agent = body["type"], body["agent"]
        true = {
            "GRANTED": (agent, body.get("fence")) in grants,
            "QUEUED": body.get("request_id") in requests,
            "RELEASED": ("released", agent) in done,
            "CANCELLED": ("cancelled", agent) in done,
            "EXTENDED": ("extended", agent) in done,
            "JOINED": ("joined", agent) in done,
            "SENT": body.get("id") in sent,
        }
        if not true.get(kind, True):
            yield f"2: {agent} was told {kind} ({body['asked']}), and it is not on record"


def _out_of_turn(events: Sequence[Event]) -> Iterator[str]:
    """Served in the order of arrival, each as often as it asked, without those who left the queue."""
    left = {event["request_id"] for event in events if event["type"] in {"cancelled", "prepare_failed"}}
    for key in {event["actor"] for event in events if event["type"] == "requested"}:
        mine = [event for event in events if event["actor"] == key]
        tickets = [event["ticket"]["request_id"] for event in mine if event["type"] == "requested"]
        asked = [each for each in tickets if each not in left]
        served = [event["request_id"] for event in mine if event["type"] == "granted"]
        if served != asked:
            yield f"3: {key}: asked {asked}, served {served}"


def left_lying(home: Home, journal: Journal, kills: int) -> Iterator[str]:
    """Files that nobody needs any more, and folders that do not say what the inboxes say, after an orderly end.

    Args:
        kills: as many files a kill may leave in a tmp/, until the sweep of old ones finds them.
    """
    for name in os.listdir(home.root):
        if not is_of_a_home(name) or name.startswith(".trusted") or name.endswith(("-journal", PART_SUFFIX)):
            yield f"{name} was left in the home"
    for name in os.listdir(home.states):
        if name.startswith(TEMPORARY) or not (name == ".numbers" or name.endswith(".md")):
            yield f"{name} was left in {home.states.name}/"
    inboxes = home.root / "inboxes"
    for folder in sorted(inboxes.iterdir()) if inboxes.exists() else ():
        left = sorted(os.listdir(folder / "tmp"))
        if len(left) > kills:
            yield f"{left} were left in {folder.name}/tmp/"
        whys = [each for each in os.listdir(folder / "rejected") if each.endswith(".why")]
        for why in whys:
            if not (folder / "rejected" / why.removesuffix(".why")).exists():
                yield f"{why} was left in {folder.name}/rejected/ without its file"
            elif not (folder / "rejected" / why).read_bytes():
                yield f"{why} in {folder.name}/rejected/ says nothing"
        if len(os.listdir(folder / "rejected")) != 2 * len(whys):
            yield f"a file was left in {folder.name}/rejected/ without a reason: {os.listdir(folder / 'rejected')}"
        if folder.name != "coordinator":
            there = sorted(each for each in os.listdir(folder / "new") if not each.startswith("answer."))
            wanted = sorted(map(file_name, journal.lived.inbox(folder.name).unread.values()))
            if there != wanted:
                yield f"{folder.name}'s new/ holds {there}, its inbox {wanted}"
            if posts := os.listdir(folder / "out"):
                yield f"{posts} stay in {folder.name}'s out/"


def own_faults(log: Path) -> Iterator[str]:
    """What the supervisor's log has of faults that are the bus's own."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # cut by a full disk
        if entry.get("event") in OURS or "exception" in entry or entry.get("event") == "dead_letter":
            yield f"a fault of the bus's own: {entry.get('event')}: {str(entry.get('exception', ''))[-1500:]}"
