"""`bus drift`: what is changed in the worktrees of this repository, and is under no lease of who is there."""

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, say_err, say_out

if TYPE_CHECKING:
    from interlock.adapters.territory.drift import Drift, Drifted

EVERY_S = 2.0  # a look is not begun sooner after the one before; what takes longer than a fifth of it comes more seldom
EVERY_MOST_S = 60.0


def command(
    watch: bool = typer.Option(False, "--watch", help="Go on, and say only what changes, until Ctrl-C."),
) -> int:
    """Compare what is changed in each worktree, by content, with the leases: exit 0 if all is covered, else 1."""
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:
        raise Failure(64, "the current directory is gone: cd into one that exists") from None
    if watch:
        return _watch(here)
    drift = _look(here)
    if Given.options.json:
        _say_all_json(drift)
    else:
        _say_all(drift)
    if drift.failed and not drift.drifted:
        raise Failure(74, "not every worktree could be looked at: mend what stands above, then bus drift again")
    return 1 if drift.drifted else 0


def _look(here: str) -> "Drift":
    """Raises Failure."""
    from interlock.adapters.git import place_of
    from interlock.adapters.territory.asking import leases_in_force
    from interlock.adapters.territory.drift import scan
    from interlock.adapters.territory.git_calls import GitFailed

    place = place_of(here)
    if place is None:
        raise Failure(64, "no git repository here: go into one, then bus drift again")
    told = leases_in_force(Given.options, place.worktree, start=True, agents=True)
    try:
        return scan(here, told)
    except GitFailed as error:
        raise Failure(74, f"{error}: mend that, then bus drift again") from None


def _watch(here: str) -> int:
    """Until somebody ends it. A bus or a git that fails meanwhile is said once, and asked again."""
    from interlock.adapters.territory.drift import changes

    before: list[Drifted] = []
    complaint, first = "", True
    while True:
        began = time.monotonic()
        try:
            drift = _look(here)
        except Failure as failure:
            if first or failure.exit_code == 64:
                raise
            if str(failure) != complaint:
                say_err(f"bus: {failure}")
            complaint = str(failure)
        else:
            complaint = ""
            came, went = changes(before, drift.drifted)
            _say_changes(came, went)
            for each in drift.failed if first else ():
                say_err(f"bus: {each}")
            if first and not drift.drifted and not Given.options.json:
                say_out(f"nothing is out of place in {drift.looked_at} worktrees; Ctrl-C ends this")
            before, first = drift.drifted, False
        took_s = time.monotonic() - began
        time.sleep(min(max(EVERY_S, 5 * took_s), EVERY_MOST_S))


def _say_all(drift: "Drift") -> None:
    from interlock.protocol.visible import unhidden

    shown = ""
    for each in drift.drifted:
        if each.worktree != shown:
            shown = each.worktree
            say_out(f"{unhidden(shown)} ({', '.join(each.agents) or 'nobody has joined or leased there'})")
        say_out(f"  {_line(each)}")
    for left in drift.left_out:
        say_err(f"note: {unhidden(left)}")
    for failed in drift.failed:
        say_err(f"bus: {unhidden(failed)}")
    if drift.drifted:
        others = sum(each.trouble.cause == "held_by_other" for each in drift.drifted)
        number = len(drift.drifted)
        paths = "1 changed path is" if number == 1 else f"{number} changed paths are"
        say_out(f"{paths} not under a lease of who is there; held by others: {others}")
        say_out("next: bus lease acquire PATH in that worktree, or put the file back as it was")
    elif not drift.failed:
        say_out(f"nothing is out of place: {_worktrees(drift.looked_at)}, every changed path under a lease")


def _say_all_json(drift: "Drift") -> None:
    from interlock.adapters.cli.output import say_json

    say_json({
        "drift": _facts(drift.drifted), "worktrees": drift.looked_at, "left_out": drift.left_out,
        "failed": drift.failed,
    })  # fmt: skip


def _say_changes(came: Sequence["Drifted"], went: Sequence["Drifted"]) -> None:
    from interlock.adapters.cli.output import say_json
    from interlock.protocol.visible import unhidden

    for sign, word, rows in (("-", "gone", went), ("+", "drift", came)):
        for each in rows:
            if Given.options.json:
                say_json({"change": word, **_facts([each])[0]})
            else:
                say_out(f"{sign} {unhidden(each.worktree)}: {_line(each)}")


def _line(each: "Drifted") -> str:
    """One path, and what is wrong with it."""
    from interlock.protocol.durations import format_age
    from interlock.protocol.visible import one_sentence, unhidden

    trouble = each.trouble
    path = unhidden(trouble.path)
    if trouble.cause == "held_by_other":
        left = "" if trouble.left_s is None else f", {format_age(trouble.left_s * 1000)} left"
        purpose = f' for "{one_sentence(trouble.purpose)}"' if trouble.purpose else ""
        return f"{path} is held by {trouble.holder} ({unhidden(trouble.claim)}{left}){purpose}"
    if trouble.cause == "outside_range":
        return f"{path} is changed outside of the lines that {trouble.holder} has ({unhidden(trouble.claim)})"
    return f"{path} is under no lease"


def _facts(rows: Sequence["Drifted"]) -> list[dict[str, Any]]:
    from interlock.adapters.territory.troubles import facts

    return [{"worktree": each.worktree, "agents": list(each.agents), **facts(each.trouble)} for each in rows]


def _worktrees(number: int) -> str:
    return "1 worktree" if number == 1 else f"{number} worktrees"
