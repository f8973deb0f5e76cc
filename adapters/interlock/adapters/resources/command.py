"""Commands that a hand-over waits for: the steps of the kind `command`, and a server's preparing.

    keeper up ──▶ (LaunchUp, durable) ──▶ Go ──▶ it ends with 0, and so does its whole tree ──▶ StepResult
    another code, too long, not wanted any more: stopped, and proved gone ──▶ StepFailure
    after a restart: its keeper lives: waited for; it has ended: what it left in its file; neither: interrupted

It decides nothing: each ends in one command to the resource's mailbox. What it never does: run one twice by itself, or
call one ended while something of it lives.
"""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import structlog
from anyio.abc import TaskGroup

from interlock.adapters.launch_result import LaunchResult, read_result
from interlock.adapters.launches import LaunchFailed, LaunchSpec, new_launch, reap, start_keeper
from interlock.adapters.paths import Home
from interlock.adapters.process import marked, probe, wait_gone
from interlock.adapters.process_table import age_s
from interlock.adapters.readiness import last_lines, pause_s
from interlock.adapters.resources.launching import (
    Launching,
    StepFailed,
    environment,
    has_failed,
    how,
    login_shell,
)
from interlock.adapters.stopping import judge, stop_tree
from interlock.protocol.durations import format_duration
from interlock.protocol.identity import Identity, Presence
from interlock.protocol.names import short_name
from interlock.protocol.resource_commands import AbortStep, Go, Order, RunCommand, StepFailure, StepResult
from interlock.protocol.resource_state import StepKind

log = structlog.get_logger("command")
STOP_TIMEOUT_MS = 10_000  # between SIGTERM and SIGKILL, for one that takes too long or is not wanted any more
LEFT_NAMED_MAX = 5  # processes named in one sentence


class _Running:
    """One under way. `go` is set once its launch is durable; `scope` is cancelled to abort it."""

    def __init__(self, order: RunCommand) -> None:
        self.order = order
        self.go = anyio.Event()
        self.scope = anyio.CancelScope()
        self.halted = False


class CommandSteps:
    """Args: home: where launches and logs lie. tell: puts a command into a resource's mailbox. umask: the commands'."""

    def __init__(self, home: Home, tasks: TaskGroup, tell: Callable[[str, Any], object], umask: int = -1) -> None:
        self._home = home
        self._launching = Launching(home, tell)
        self._tasks = tasks
        self._tell = tell
        self._umask = umask
        self._running: dict[tuple[str, str, int], _Running] = {}
        self._halting = False

    def begin(self, key: str, order: Order) -> None:
        """Begin a command, let its launch go, or abort it. Never waits."""
        at = (key, order.unit, order.step)
        match order:
            case RunCommand() if self._halting and order.kind is not StepKind.STOP:
                pass  # Its intent is on record: the next supervisor begins it, or takes it up.
            case RunCommand():
                self._running[at] = _Running(order)
                self._tasks.start_soon(self._run, key, self._running[at])
            case Go() if at in self._running:
                self._running[at].go.set()
            case AbortStep() if at in self._running:
                self._running[at].scope.cancel()

    def halt(self) -> None:
        """Begin none any more but stops. End those that may be begun anew; the others are their keepers'."""
        self._halting = True
        for running in self._running.values():
            if running.order.repeatable and running.order.kind is not StepKind.STOP:
                running.halted = True
                running.scope.cancel()

    async def _run(self, key: str, running: _Running) -> None:
        order = running.order
        try:
            end = await self._steps(key, running)
        except Exception as error:  # our own fault: nothing is proved
            log.error("step_failed", resource=key, step=order.step, exc_info=error)
            end = StepFailure(order.unit, order.step, f"a fault of the bus itself: {error}", proved=False)
        self._running.pop((key, order.unit, order.step), None)
        self._tell(key, end)

    async def _steps(self, key: str, running: _Running) -> StepResult | StepFailure:
        """All ways in which one can end, in one place."""
        order = running.order
        launch, keeper, why = order.launch, order.keeper, "no longer wanted"
        with running.scope:
            try:
                if keeper is None:
                    launch, keeper = await self._launch(key, running)
                if not await self._launching.was_let_go(launch, keeper):
                    return StepFailure(order.unit, order.step, "its keeper left before GO", never_started=True)
                return await self._ended(order, launch, keeper)
            except (StepFailed, LaunchFailed) as error:
                why = str(error)
        if keeper is None:
            return StepFailure(order.unit, order.step, why, never_started=running.halted)
        return await self._ended_by_us(order, launch, keeper, why, halted=running.halted)

    async def _launch(self, key: str, running: _Running) -> tuple[str, Identity]:
        """Start the keeper, have it recorded, and let it go."""
        order = running.order
        if not Path(order.worktree).is_dir():  # noqa: ASYNC240 - one stat of a local directory
            raise StepFailed(f"the worktree {order.worktree}, in which its {order.kind} would run, is gone")
        launch = new_launch(short_name(key), order.step)
        spec = LaunchSpec(
            argv=(login_shell(), "-lc", order.command),
            cwd=order.worktree,
            env=environment(self._home, key, order.unit, order.agent, order.worktree, order.url, order.env),
            result=str(self._launching.result(launch)),
            launch=launch,
            stop_timeout_ms=STOP_TIMEOUT_MS,
            spare=order.spare,
        )
        output = self._launching.open_log(launch)
        streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
        try:
            keeper = await start_keeper(spec, new_session=True, umask=self._umask, **streams)
        finally:
            os.close(output)
        await self._launching.let_go(key, order.unit, order.step, launch, keeper, running.go)
        return launch, keeper.identity

    async def _ended(self, order: RunCommand, launch: str, keeper: Identity) -> StepResult | StepFailure:
        """Wait for its end, and say what it was.

        Raises:
            StepFailed: it has failed, or takes too long; what is left of it may live.
        """
        path = self._launching.result(launch)
        with anyio.move_on_after(_left_s(order)) as patience:
            if has_failed(await self._leader_ended(path, keeper)) and probe(keeper) is not Presence.GONE:
                raise StepFailed(f"{order.kind} ended {how(read_result(path))}")
            await wait_gone(keeper)
        if patience.cancelled_caught and probe(keeper) is not Presence.GONE:
            raise StepFailed(_too_long(order, read_result(path), launch))
        reap()
        result, stopped = read_result(path), judge(keeper, path, launch)
        if stopped is None or not result.ended:
            why = f"{order.kind} was interrupted, and nobody knows how it ended"
            why = why if stopped is None or stopped.proved else f"{why}; {stopped.evidence}"
            proved = stopped is not None and stopped.proved
            unseen = stopped is not None and not marked(launch)
            return self._failure(order, launch, why, proved=proved, interrupted=unseen)
        if has_failed(result):
            return self._failure(order, launch, f"{order.kind} ended {how(result)}", proved=stopped.proved)
        if not stopped.proved:
            return self._failure(order, launch, f"{order.kind}: {stopped.evidence}", proved=False)
        return StepResult(order.unit, order.step, evidence=f"it ended with code 0; {stopped.evidence}")

    async def _leader_ended(self, path: Path, keeper: Identity) -> LaunchResult:
        """Wait for the end of the command itself, whatever it leaves."""
        begun, seen = time.monotonic(), False
        while True:
            result = read_result(path)
            if result.ended or probe(keeper) is Presence.GONE:
                return read_result(path)
            if result.leader is not None and not seen:
                await wait_gone(result.leader)
                begun, seen = time.monotonic(), True  # its keeper says so in a moment
            await anyio.sleep(pause_s(time.monotonic() - begun))

    async def _ended_by_us(
        self, order: RunCommand, launch: str, keeper: Identity, why: str, *, halted: bool
    ) -> StepFailure:
        stopped = await stop_tree(keeper, self._launching.result(launch), STOP_TIMEOUT_MS, launch)
        reap()
        why = why if stopped.proved else f"{why}; {stopped.evidence}"
        again = halted and stopped.proved
        return self._failure(order, launch, why, proved=stopped.proved, interrupted=again)

    def _failure(
        self, order: RunCommand, launch: str, why: str, *, proved: bool, interrupted: bool = False
    ) -> StepFailure:
        path = self._launching.log(launch)
        return StepFailure(
            order.unit, order.step, why, proved, log=str(path), tail=last_lines(path), interrupted=interrupted
        )


# --- straight helpers ---------------------------------------------------------------------
def _left_s(order: RunCommand) -> float:
    """How much of its time is left: of one that is taken up again its keeper's age is gone."""
    all_s = order.timeout_ms / 1000
    return all_s if order.keeper is None else max(0.0, all_s - age_s(order.keeper.start_ticks))


def _too_long(order: RunCommand, result: LaunchResult, launch: str) -> str:
    within = format_duration(order.timeout_ms)
    if not result.ended:
        return f"{order.kind} has not ended within {within}"
    left = ", ".join(f"{seen.name} (pid {seen.pid})" for seen in marked(launch)[:LEFT_NAMED_MAX])
    what = f": {left}" if left else ""
    return (
        f"{order.kind} ended {how(result)} and left processes in the background that live {within} later{what}; "
        "it is over when all of it has ended"
    )
