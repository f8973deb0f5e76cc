"""A report as people and programs read it: lines, one JSON object, GitHub's annotations."""

from collections.abc import Iterator, Sequence
from typing import Any

from interlock.adapters.territory.history import History
from interlock.adapters.territory.judging import CAUSES
from interlock.adapters.territory.verification import Report, Violation
from interlock.protocol.envelope import read_wire_time, wire_time
from interlock.protocol.visible import visible

COLUMNS = ("CAUSE", "PATH", "LINES", "HOLDER", "AGENT", "COMMIT")
ROWS_MAX = 500  # that a person is shown; --json and --sarif have all
ANNOTATIONS_MAX = 50  # GitHub shows no more of one job
LINES_SHOWN = 4


def as_json(report: Report, history: History) -> dict[str, Any]:
    """The report as one JSON object."""
    return {
        "pairs_checked": report.pairs,
        "violations": [_row(each) for each in report.violations],
        "causes": report.causes(),
        "unknown": len(report.unknown),
        "unknown_pairs": [{"path": each.path, "commit": each.commit, "agent": each.agent} for each in report.unknown],
        "excluded": report.excluded,
        "ranges_not_followed": report.adrift,
        "later_than_known": report.later,
        "commits": report.commits,
        "base": report.range.base,
        "head": report.range.head,
        "merge_base": report.range.merge_base,
        "territory": history.territory,
        "complete_from_ms": history.complete_from_ms,
        "as_of": history.at,
    }


def rows(violations: Sequence[Violation]) -> list[list[str]]:
    """The violations as a table's rows, in the order of COLUMNS. The cause stands first: no path begins a line."""
    return [
        [
            each.cause, visible(each.path), lines_text(each.lines), each.holder or "-", each.agent or "-",
            each.commit[:12] or "now",
        ]
        for each in violations[:ROWS_MAX]
    ]  # fmt: skip


def lines_text(lines: Sequence[tuple[int, int]]) -> str:
    """Lines as a claim has them: `7`, `10-40`, several with commas; `-` for the whole file."""
    named = [f"{first}" if first == last else f"{first}-{last}" for first, last in lines[:LINES_SHOWN]]
    return ",".join(named) + (",…" if len(lines) > LINES_SHOWN else "") or "-"


def summary(report: Report, history: History) -> Iterator[str]:
    """What is said below the table, a line each."""
    if len(report.violations) > ROWS_MAX:
        yield f"{len(report.violations) - ROWS_MAX} more: --json shows all"
    causes = report.causes()
    counted = ", ".join(f"{count} {cause}" for cause, count in causes.items())
    many = "1 violation" if len(report.violations) == 1 else f"{len(report.violations)} violations"
    what = f"{many} ({counted})" if causes else "no violation"
    yield f"checked {report.pairs} pairs of a commit and a path, {report.commits} commits: {what}"
    for cause in causes:
        yield f"  {cause}: {CAUSES[cause]}"
    if report.unknown:
        since = wire_time(history.complete_from_ms)
        yield f"unknown: {len(report.unknown)} pairs from before {since}, where what is known of leases begins"
    if report.later:
        until = wire_time(read_wire_time(history.at))
        yield f"too young: {report.later} violations are of commits after {until}, when this was known: export anew"
    if report.excluded:
        yield f"excluded: {report.excluded} pairs (bus.toml's [territory] exclude, linguist-generated)"
    if report.adrift:
        what = f"{report.adrift} line ranges were taken on versions that git does not have"
        yield f"not followed: {what}; their numbers count as they are"


def sentence(each: Violation) -> str:
    """A violation as one sentence, for whoever sees only that."""
    who = each.agent or "an unknown agent"
    commit = f"in {each.commit[:12]}" if each.commit else "all commits together"
    holder = f", held by {each.holder}" if each.holder else ""
    return f"{each.cause}: {visible(each.path)} changed by {who} {commit}{holder}; {CAUSES[each.cause]}"


def annotations(report: Report) -> Iterator[str]:
    """GitHub's workflow commands: an error at the file and line of each violation."""
    for each in report.violations[:ANNOTATIONS_MAX]:
        place = [("file", each.path)]
        if each.lines:
            place += [("line", str(each.lines[0][0])), ("endLine", str(each.lines[0][1]))]
        properties = ",".join(
            f"{name}={_property(value)}" for name, value in [*place, ("title", f"bus verify: {each.cause}")]
        )
        yield f"::error {properties}::{_data(sentence(each))}"
    more = len(report.violations) - ANNOTATIONS_MAX
    if more > 0:
        yield f"::warning title=bus verify::{more} more violations: the log of this step and --sarif have all"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _row(each: Violation) -> dict[str, Any]:
    return {
        "path": each.path, "lines": [list(pair) for pair in each.lines], "cause": each.cause,
        "holder": each.holder, "commit": each.commit, "agent": each.agent,
    }  # fmt: skip
