"""Stopping a tree through its keeper, also one adopted after a restart, and the proof that it is gone.

What this module never does: signal anything but a verified keeper, call a tree gone on less than its keeper's own word
(or another boot), or take the environment's mark for more than evidence.
"""

import os
import signal
import sys
from pathlib import Path

import anyio
import msgspec

from interlock.adapters.launch_result import LaunchResult, read_result
from interlock.adapters.process import Fact, identify, marked, probe, send_signal, wait_gone
from interlock.adapters.process_table import program
from interlock.protocol.identity import Identity, Presence

STOP_MARGIN_MS = 10_000  # beyond the keeper's own wait: SIGKILL, the last scans and one fsync
EVIDENCE_MAX = 10  # processes named in one sentence


class Stopped(msgspec.Struct, frozen=True):
    """How a stop came out: proved, or not, and one sentence that says by what."""

    proved: bool
    evidence: str


async def stop_tree(keeper: Identity, result: Path, timeout_ms: int, mark: str) -> Stopped:
    """Stop a keeper's whole tree, also one adopted after a restart, and say whether its end is proved.

    Args:
        keeper: who keeps it.
        result: the file it reports into.
        timeout_ms: the keeper's own wait between SIGTERM and SIGKILL; this waits 10 s longer.
        mark: the launch's BUS_LAUNCH, for evidence where there is no proof.

    Returns:
        Proved only if the keeper's own report says so, it never executed anything, or that was before another boot.
    """
    name = f"keeper pid {keeper.pid}"
    if probe(keeper) is Presence.ALIVE:
        send_signal(keeper, signal.SIGTERM)
        with anyio.move_on_after((timeout_ms + STOP_MARGIN_MS) / 1000):
            await wait_gone(keeper)
    end = judge(keeper, result, mark)
    if end is not None:
        return end
    if probe(keeper) is Presence.UNKNOWN:
        return Stopped(False, f"{name} cannot be seen from here (another machine or pid namespace, or hidden)")
    return Stopped(False, f"{name} still has living processes {timeout_ms + STOP_MARGIN_MS} ms after SIGTERM")


def judge(keeper: Identity, result: Path, mark: str) -> Stopped | None:
    """Say what is proved of a launch whose keeper is gone; None while it is not, or cannot be seen. Signals nobody.

    Args: as for `stop_tree`.
    """
    if probe(keeper) is not Presence.GONE:
        return None
    name = f"keeper pid {keeper.pid}"
    left = read_result(result)
    here = identify(os.getpid())
    if here is not None and here.boot != keeper.boot:
        return Stopped(True, f"{name} ran before this boot")
    if left.keeper is not None and left.keeper != keeper:
        return Stopped(False, f"{result.name} is another keeper's; {_evidence(mark)}")
    if left.gone and left.subreaper:
        return Stopped(True, f"{name} reaped its whole tree{spared_sentence(left)}")
    if left.not_started or (left.keeper == keeper and not left.went):
        return Stopped(True, f"{name} never executed its command")
    if sys.platform != "linux" and left.gone and not marked(mark):  # no sub-reaper there: the best that can be had
        return Stopped(True, f"{name} reaped what it could see, and nothing carries the mark {mark}")
    return Stopped(False, f"{name} died before its tree was proved gone; {_evidence(mark)}")


def spared_sentence(left: LaunchResult) -> str:
    """What was left running because the configuration spares it, to be put behind a sentence; "" where nothing was."""
    called = [(program([each.command], "") or "a daemon", each.pid) for each in left.spared[:EVIDENCE_MAX]]
    named = ", ".join(f"{name} (pid {pid})" for name, pid in called)
    more = f" and {len(left.spared) - EVIDENCE_MAX} more" if len(left.spared) > EVIDENCE_MAX else ""
    return f"; left running, as a daemon that outlives commands: {named}{more}" if named else ""


def _evidence(mark: str) -> str:
    """What still carries the mark, in words."""
    found = marked(mark)
    if not found:
        return f"no living process carries the mark {mark}"
    named = "; ".join(_describe(seen) for seen in found[:EVIDENCE_MAX])
    more = f"; and {len(found) - EVIDENCE_MAX} more" if len(found) > EVIDENCE_MAX else ""
    return f"then still carrying the mark {mark}: {named}{more}"


def _describe(seen: Fact) -> str:
    return f"pid {seen.pid} ({program(seen.command, seen.name)}, start ticks {seen.identity.start_ticks})"
