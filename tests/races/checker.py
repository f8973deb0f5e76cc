"""The checker: reads what critical sections wrote, and what the bus wrote into its log, and says which promise broke.

Each line is one write to a file opened with O_APPEND, so that the file has them in the order in which they happened:

    ask KEY AGENT PID[,PID]             from here on that agent wants KEY; the death of one of these ends its wish
    enter KEY UNIT FENCE AGENT PID      it is inside, PID is the process that is
    leave KEY UNIT FENCE AGENT PID      it still is, and goes on to give KEY back
    gone KEY AGENT PID CODE             the command that asked ended without it

What is allowed is what the contract allows: a section whose process was killed has no `leave`, but writes nothing after
the next `enter` either; a holder that was silent for two polls is REVOKED, may be stopped and may wake up inside, and
then its fence is lower than its successor's.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Event = Mapping[str, Any]


class Story(NamedTuple):
    """All that is known when it is over.

    Args:
        lines: of the sections, in order. events: of the bus's log, in order.
        killed: pids that were sent SIGKILL. units: key → the names of its units.
    """

    lines: tuple[str, ...]
    events: tuple[Event, ...]
    killed: frozenset[int]
    units: Mapping[str, tuple[str, ...]]


class Section(NamedTuple):
    """One line of `enter` or `leave`."""

    key: str
    unit: str
    fence: int
    agent: str
    pid: int

    def __str__(self) -> str:
        unit = f" unit {self.unit}" if self.unit else ""
        return f"{self.agent} (pid {self.pid}) in {self.key}{unit} under fence {self.fence}"


def faults(story: Story) -> list[str]:
    """What broke, a sentence each; none where every promise was kept."""
    return [*_overlaps(story), *_fences(story), *_unasked(story), *_unserved(story), *_passed_over(story)]


def served(story: Story) -> int:
    """How many sections were entered."""
    return sum(line.startswith("enter ") for line in story.lines)


def _sections(story: Story) -> Iterator[tuple[str, Section]]:
    for line in story.lines:
        word, *rest = line.split(" ")
        if word in {"enter", "leave"}:
            key, unit, fence, agent, pid = rest
            yield word, Section(key, unit if unit != "-" else "", int(fence), agent, int(pid))


def _revoked(story: Story) -> set[int]:
    """Fences that the bus took back while their owner may not have known."""
    return {event["fence"] for event in story.events if event["type"] in {"revoked", "expired"}}


def _overlaps(story: Story) -> Iterator[str]:
    """Two inside at once, more than there are units, one that never left, one that left without having entered."""
    revoked = _revoked(story)
    inside: dict[tuple[str, str], Section] = {}
    followed: dict[Section, Section] = {}  # who never left before the next one entered
    late = set[Section]()  # revoked before they entered: their fence is old
    for word, now in _sections(story):
        place = (now.key, now.unit)
        before = inside.get(place)
        if word == "leave":
            if before == now:
                del inside[place]
            elif now in followed and now.fence not in revoked:
                yield f"two at once: {now} was still inside after {followed[now]} entered"
            elif now not in followed and now not in late:
                yield f"left without having entered: {now}"
        elif before is not None and now.fence < before.fence and now.fence in revoked:
            late.add(now)
        else:
            if now.unit not in story.units[now.key]:
                has = len(story.units[now.key])
                yield f"more than there are: {now}, which has {has} unit{'s' if has > 1 else ''}"
            if before is not None:
                followed[before] = now
            inside[place] = now
    left = {now for word, now in _sections(story) if word == "leave"}
    for section in {*followed, *inside.values()} - left:
        if section.fence not in revoked and not {section.pid, *_asked_by(story, section)} & story.killed:
            yield f"lost leave: {section} never left, and nobody had killed it"


def _asked_by(story: Story, section: Section) -> frozenset[int]:
    """The processes that asked in that agent's name."""
    words = (line.split(" ") for line in story.lines if line.startswith("ask "))
    asked = (_pids(pids) for _, key, agent, pids in words if (key, agent) == (section.key, section.agent))
    return frozenset().union(*asked)


def _pids(word: str) -> frozenset[int]:
    return frozenset(map(int, word.split(",")))


def _fences(story: Story) -> Iterator[str]:
    """A fence that was used twice, one that goes back, one that nobody was granted."""
    revoked, seen = _revoked(story), set[int]()
    last: dict[tuple[str, str], Section] = {}
    granted = {(e["actor"], e["fence"]): e for e in story.events if e["type"] == "granted"}
    for word, now in _sections(story):
        if word == "leave":
            continue
        if now.fence in seen:
            yield f"reused fence: {now}"
        seen.add(now.fence)
        before = last.get((now.key, now.unit))
        if before is not None and now.fence < before.fence:
            if now.fence not in revoked:
                yield f"a fence that goes back: {now} after {before}"
            continue
        last[now.key, now.unit] = now
        grant = granted.get((now.key, now.fence))
        if grant is None or (grant["agent"], grant["unit"]) != (now.agent, now.unit):
            yield f"nobody granted that: {now}; the log has {dict(grant) if grant else 'nothing'}"
    fences = [event["fence"] for event in story.events if event["type"] == "granted"]
    if fences != sorted(set(fences)):
        yield f"the log's fences do not grow: {fences}"


def _unasked(story: Story) -> Iterator[str]:
    """More grants than wishes: somebody has what it never asked for."""
    words = (line.split(" ") for line in story.lines if line.startswith("ask "))
    asked = Counter((key, agent) for _, key, agent, _ in words)
    given = Counter((e["actor"], e["agent"]) for e in story.events if e["type"] == "granted")
    again = Counter((e["actor"], e["agent"]) for e in story.events if e["type"] == "expired")
    for (key, agent), grants in given.items():
        if key in story.units and grants - again[key, agent] > asked[key, agent]:
            yield f"a grant to nobody: {agent} was granted {key} {grants} times, and asked {asked[key, agent]} times"


def _unserved(story: Story) -> Iterator[str]:
    """Somebody alive asked, and was never inside, or was told no."""
    waiting: dict[tuple[str, str], str] = {}
    for line in story.lines:
        word, key, *rest = line.split(" ")
        match word, rest:
            case "ask", [agent, pids]:
                waiting[key, agent] = pids
            case "enter", [_, _, agent, _]:
                waiting.pop((key, agent), None)
            case "gone", [agent, pid, code]:
                pids = waiting.pop((key, agent), "")  # else it was inside, and what ended it there is seen above
                if pids and not {int(pid), *_pids(pids)} & story.killed:
                    yield f"{agent} (pid {pid}) was not served in {key}: its command ended with {code}"
    for (key, agent), pids in waiting.items():
        if not _pids(pids) & story.killed:
            yield f"starved: {agent} (pid {pids}) asked for {key} and was never inside"


def _passed_over(story: Story) -> Iterator[str]:
    """A grant to one while another, who asked earlier, waits. One that missed its grant is out of it."""
    queues: dict[str, dict[str, tuple[int, str]]] = defaultdict(dict)
    for event in story.events:
        queue = queues[event["actor"]]
        match event["type"]:
            case "requested" | "amended":
                ticket = event["ticket"]
                queue[ticket["request_id"]] = (ticket["arrival"], ticket["agent"])
            case "cancelled":
                queue.pop(event["request_id"], None)
            case "granted":
                mine = queue.pop(event["request_id"], None)
                for arrival, agent in queue.values():
                    if mine is not None and arrival < mine[0]:
                        yield (
                            f"passed over: {event['agent']} was granted {event['actor']} (fence {event['fence']}), "
                            f"but {agent} had asked before it (arrival {arrival})"
                        )
