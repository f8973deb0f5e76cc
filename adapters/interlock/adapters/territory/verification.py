"""One verification: base...head against a history of leases, from the repository to a report.

```text
commits, their changes ──▶ less what needs no lease ──▶ hunks, where lines matter ──▶ a verdict for each (commit, path)
merge base ──▶ head    ─────────────────────────────────────────────────────────────▶ against others' leases of now
```
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from interlock.adapters.territory.changes import Change, Commit, Range, changes_of, commits_of, find_range, net_changes
from interlock.adapters.territory.excluded import excluded
from interlock.adapters.territory.git_call import Git
from interlock.adapters.territory.history import Held, History
from interlock.adapters.territory.judging import OK, UNKNOWN, Judge, Verdict, author_of, whole
from interlock.adapters.territory.lease_index import LeaseIndex, Match
from interlock.adapters.territory.line_map import LineMaps, Pair
from interlock.adapters.territory.spans import Hunk, Span, in_each, line_pairs, moved
from interlock.protocol.envelope import read_wire_time

SHOWN_BY_LINES_MAX = 2_000  # violations whose lines are looked up only to be shown; the others are shown as files


class Violation(NamedTuple):
    """Args: lines: first and last of each part, as the commit has them; none: the file. commit: "" for all together."""

    path: str
    lines: list[tuple[int, int]]
    cause: str
    holder: str
    commit: str
    agent: str


class Report(NamedTuple):
    """What came out.

    Args:
        commits: of the range. pairs: (commit, path) that were judged. unknown: those of them from before what is known.
        excluded: pairs that need no lease. adrift: ranges that could not be followed, their version is not here.
        later: violations of commits that are younger than the history: it cannot know their leases.
    """

    range: Range
    commits: int
    pairs: int
    violations: list[Violation]
    unknown: list[Violation]
    excluded: int
    adrift: int
    later: int

    def causes(self) -> dict[str, int]:
        """How many violations of each cause, the most frequent first."""
        return dict(Counter(each.cause for each in self.violations).most_common())


class _Ranges:
    """Where a claim's lines are in a blob: followed through the diff, or as they are where that cannot be."""

    def __init__(self, maps: LineMaps) -> None:
        self._maps = maps
        self.adrift: set[tuple[str, int, int, str]] = set()

    def at(self, match: Match[Held], blob: str, *, wide: bool) -> Span:
        claim = match.claim
        span = Span(claim.first - 1, claim.last)
        if not blob or claim.blob == blob:
            return span
        hunks = self._maps.hunks(claim.blob, blob) if claim.blob else None
        if hunks is None:
            self.adrift.add((claim.pattern, claim.first, claim.last, claim.blob))
            return span
        return moved(span, hunks, wide=wide)


def verify(git: Git, base: str, head: str, history: History, caller: str) -> Report:
    """Verify what head brings to base.

    Args:
        git: of the repository. base, head: revisions. caller: whose commits are those of nobody else; "" for none.

    Raises:
        Problem: it cannot be verified, and why.
    """
    range_ = find_range(git, base, head)
    commits = commits_of(git, range_)
    changed = list(changes_of(git, commits))
    net = net_changes(git, range_)
    paths = {change.path for _, changes in changed for change in changes} | {change.path for change in net}
    free = excluded(git, range_.base, paths)
    before = sum(len(changes) for _, changes in changed)
    changed = [(commit, [each for each in changes if each.path not in free]) for commit, changes in changed]
    skipped = before - sum(len(changes) for _, changes in changed)
    net = [each for each in net if each.path not in free]
    work = _Work(LineMaps(git), LeaseIndex(history.leases), history, caller)
    work.look([change for _, changes in changed for change in changes], net)
    judged = list(work.judge_commits(changed))
    bad = [(pair, verdict) for pair, verdict in judged if verdict.cause not in {OK, UNKNOWN}]
    bad += work.judge_now(net, bad)
    unknown = [(pair, verdict) for pair, verdict in judged if verdict.cause == UNKNOWN]
    return Report(
        range_, len(commits), len(judged), work.shown(bad), work.shown(unknown, by_lines=False), skipped,
        len(work.ranges.adrift), _later(bad, commits, history),
    )  # fmt: skip


def _later(bad: Iterable[tuple["_Judged", Verdict]], commits: Iterable[Commit], history: History) -> int:
    known_to_ms = read_wire_time(history.at)
    later = {each.sha for each in commits if each.at_ms > known_to_ms and each.sha not in history.commits}
    return sum(pair.commit in later for pair, _ in bad)


class _Judged(NamedTuple):
    commit: str
    agent: str
    change: Change


class _Work:
    """What the steps share."""

    def __init__(self, maps: LineMaps, index: LeaseIndex[Held], history: History, caller: str) -> None:
        self.ranges = _Ranges(maps)
        self._maps = maps
        self._index = index
        self._history = history
        self._caller = caller
        self._judge = Judge(index, self.ranges, history.complete_from_ms)
        self._agents: dict[str, set[str]] = {}  # of each path: who committed it

    def look(self, changes: Sequence[Change], net: Sequence[Change]) -> None:
        """Ask for every diff that a verdict can need, all together: where a range is on the path, and of merges."""
        self._maps.load(pair for each in (*changes, *net) for pair in self._pairs(each))

    def _pairs(self, change: Change) -> Iterator[Pair]:
        claims = {match.claim for match in self._index.on(change.path) if match.claim.first}
        if change.by_lines and (claims or len(change.olds) > 1):
            yield from ((old, change.new) for old in change.olds)
        if change.olds[0]:
            yield from ((claim.blob, change.olds[0]) for claim in claims if claim.blob)

    def _hunks(self, change: Change) -> tuple[Hunk, ...]:
        """Its hunks where lines matter, else the whole file; nothing for a merge that adds none of its own."""
        if not change.by_lines:
            return whole(None)
        if len(change.olds) == 1 and not any(match.claim.first for match in self._index.on(change.path)):
            return whole(None)
        sides = [self._maps.hunks(old, change.new) for old in change.olds]
        known = [side for side in sides if side is not None]
        return in_each(known) if len(known) == len(sides) else whole(None)

    def judge_commits(self, changed: Iterable[tuple[Commit, list[Change]]]) -> Iterator[tuple[_Judged, Verdict]]:
        """A verdict for each commit and path."""
        for commit, changes in changed:
            author = author_of(commit.sha, commit.at_ms, commit.trailer, self._caller, self._history)
            for change in changes:
                hunks = self._hunks(change)
                if hunks:
                    self._agents.setdefault(change.path, set()).add(author.agent)
                    verdict = self._judge.of_commit(author, change.path, change.olds[0], hunks)
                    yield _Judged(commit.sha, author.agent, change), verdict

    def judge_now(
        self, net: Iterable[Change], bad: Iterable[tuple[_Judged, Verdict]]
    ) -> Iterator[tuple[_Judged, Verdict]]:
        """What is to land, against the leases of others in force now; not again what is said of a commit already."""
        said = {(pair.change.path, verdict.holder) for pair, verdict in bad}
        for change in net:
            agents = {*self._agents.get(change.path, ()), self._caller} - {""}
            verdict = self._judge.now(agents, change.path, change.olds[0], self._hunks(change))
            if verdict.cause != OK and (change.path, verdict.holder) not in said:
                yield _Judged("", ", ".join(sorted(agents)), change), verdict

    def shown(self, judged: Sequence[tuple[_Judged, Verdict]], *, by_lines: bool = True) -> list[Violation]:
        """As they are shown: with the lines that are meant, also where the verdict did not need them."""
        plain = [pair.change for pair, _ in judged if pair.change.by_lines and len(pair.change.olds) == 1]
        plain = plain[:SHOWN_BY_LINES_MAX] if by_lines else []
        self._maps.load((change.olds[0], change.new) for change in plain)
        looked = {(change.olds[0], change.new) for change in plain}
        found = []
        for pair, verdict in judged:
            lines = line_pairs(hunk.new for hunk in verdict.hunks)
            ends = (pair.change.olds[0], pair.change.new)
            if not lines and pair.change.by_lines and ends in looked:
                lines = line_pairs(hunk.new for hunk in whole(self._maps.hunks(*ends)))
            path = pair.change.path
            found.append(Violation(path, lines, verdict.cause, verdict.holder, pair.commit, pair.agent))
        return found
