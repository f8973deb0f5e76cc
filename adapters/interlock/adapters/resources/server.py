"""The kind `server`: stop the old one with proof, start the new one from the new owner's worktree, verify it.

    start:  ports free ──▶ keeper up ──▶ (LaunchUp, durable) ──▶ Go ──▶ ready line, ports ours, health ──▶ StepResult
            what was begun and is not wanted or does not come up is stopped, and proved gone ──▶ StepFailure

It decides nothing: each step ends in one command to the resource's mailbox.
"""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec
import structlog
from anyio.abc import TaskGroup

from interlock.adapters.git_head import short_head
from interlock.adapters.launch_result import read_result
from interlock.adapters.launches import LaunchFailed, LaunchSpec, new_launch, reap, start_keeper
from interlock.adapters.paths import Home
from interlock.adapters.process import probe, wait_gone
from interlock.adapters.readiness import LOOK_S_MAX, Readiness, in_the_way, last_lines, pause_s
from interlock.adapters.resources.launching import (
    Launching,
    StepFailed,
    environment,
    has_failed,
    how,
    login_shell,
)
from interlock.adapters.stopping import stop_tree
from interlock.adapters.terminals import open_window
from interlock.protocol.durations import format_duration
from interlock.protocol.identity import Identity, Presence
from interlock.protocol.limits import STRANGER_PROBE_MS
from interlock.protocol.names import short_name
from interlock.protocol.resource_commands import (
    AbortStep,
    Go,
    Order,
    PortBlocked,
    RunStep,
    ServerGone,
    StepFailure,
    StepResult,
)
from interlock.protocol.resource_state import Server, StepKind

log = structlog.get_logger("server")
VERIFY_S = 5.0  # a running server that is not healthy for so long is started anew
LEADER_GRACE_S = 1.0  # a keeper leaves so soon after its leader, if nothing of the tree is left


class _Running:
    """A step under way. `go` is set once its launch is durable; `scope` is cancelled to abort it."""

    def __init__(self, kind: StepKind) -> None:
        self.kind = kind
        self.go = anyio.Event()
        self.scope = anyio.CancelScope()


class ServerSteps:
    """Args: home: where launches and logs lie. tell: puts a command into a resource's mailbox."""

    def __init__(self, home: Home, tasks: TaskGroup, tell: Callable[[str, Any], object], umask: int = -1) -> None:
        self._home = home
        self._launching = Launching(home, tell)
        self._umask = umask
        self._tasks = tasks
        self._tell = tell
        self._running: dict[tuple[str, str, int], _Running] = {}
        self._adopted: set[str] = set()
        self._halting = False

    def begin(self, key: str, order: Order) -> None:
        """Begin a step, let its launch go, or abort it. Never waits."""
        at = (key, order.unit, order.step)
        match order:
            case RunStep(kind=StepKind.START) if self._halting:
                pass  # Its intent is on record: the next supervisor begins it.
            case RunStep():
                self._running[at] = _Running(order.kind)
                self._tasks.start_soon(self._run, key, order, self._running[at])
            case Go() if at in self._running:
                self._running[at].go.set()
            case AbortStep() if at in self._running:
                self._running[at].scope.cancel()

    def halt(self) -> None:
        """Begin no start any more, and end those under way, as if they had never begun."""
        self._halting = True
        for running in self._running.values():
            if running.kind is StepKind.START:
                running.scope.cancel()

    def adopt(self, key: str, unit: str, server: Server) -> None:
        """Watch a server; its end by itself is told as ServerGone."""
        if server.launch not in self._adopted:
            self._adopted.add(server.launch)
            self._tasks.start_soon(self._watch, key, unit, server)

    # --- steps ------------------------------------------------------------------------------
    async def _run(self, key: str, order: RunStep, running: _Running) -> None:
        try:
            match order.kind:
                case StepKind.STOP:
                    end = await self._stop(order)
                case StepKind.VERIFY:
                    end = await self._verify(order)
                case StepKind.START:
                    end = await self._start(key, order, running)
        except Exception as error:  # our own fault: nothing is proved
            log.error("step_failed", resource=key, step=order.step, exc_info=error)
            end = StepFailure(order.unit, order.step, f"a fault of the bus itself: {error}", proved=False)
        self._running.pop((key, order.unit, order.step), None)
        self._tell(key, end)

    async def _stop(self, order: RunStep) -> StepResult | StepFailure:
        server = order.server
        assert server is not None
        stopped = await stop_tree(
            server.keeper, self._result(server.launch), order.definition.stop_timeout_ms, server.launch
        )
        reap()
        if not stopped.proved:
            return StepFailure(order.unit, order.step, f"the old server: {stopped.evidence}", proved=False)
        return StepResult(order.unit, order.step, evidence=stopped.evidence)

    async def _verify(self, order: RunStep) -> StepResult | StepFailure:
        server = order.server
        assert server is not None
        readiness = Readiness(server.definition, server.keeper, self._log(server.launch))
        missing = "it is gone"
        with anyio.move_on_after(VERIFY_S):
            while probe(server.keeper) is Presence.ALIVE:
                missing = await readiness.missing()
                if not missing:
                    return StepResult(order.unit, order.step, evidence="healthy, carried over")
                await anyio.sleep(LOOK_S_MAX)
        return StepFailure(order.unit, order.step, f"the running server is not healthy: {missing}")

    async def _start(self, key: str, order: RunStep, running: _Running) -> StepResult | StepFailure:
        """All ways in which a start can end, in one place: ready, failed, unwanted; the latter two proved gone."""
        launch, keeper = order.launch, order.keeper
        why = "no longer wanted"
        with running.scope:
            try:
                if keeper is None:
                    launch, keeper = await self._launch(key, order, running)
                if not await self._launching.was_let_go(launch, keeper):
                    return StepFailure(order.unit, order.step, "its keeper left before GO", never_started=True)
                commit = await anyio.to_thread.run_sync(short_head, order.worktree)  # while it comes up
                await self._until_ready(order, launch, keeper)
                since_ms = time.time_ns() // 1_000_000
                server = Server(launch, keeper, order.worktree, order.definition, commit, since_ms)
                return StepResult(order.unit, order.step, server)
            except (StepFailed, LaunchFailed) as error:
                why = str(error)
        halted = self._halting and running.scope.cancel_called
        if keeper is None:
            return StepFailure(order.unit, order.step, why, never_started=halted)
        tail = last_lines(self._log(launch))
        stopped = await stop_tree(keeper, self._result(launch), order.definition.stop_timeout_ms, launch)
        reap()
        why = why if stopped.proved else f"{why}; {stopped.evidence}"
        again = halted and stopped.proved
        return StepFailure(order.unit, order.step, why, stopped.proved, again, str(self._log(launch)), tail)

    async def _launch(self, key: str, order: RunStep, running: _Running) -> tuple[str, Identity]:
        """Wait for the ports, start the keeper, have it recorded, and let it go."""
        if not Path(order.worktree).is_dir():  # noqa: ASYNC240 - one stat of a local directory
            raise StepFailed(f"the worktree {order.worktree} is gone")
        await self._ports_free(key, order)
        launch = new_launch(short_name(key), order.step)
        shell = login_shell()
        spec = LaunchSpec(
            argv=(shell, "-lc", order.definition.start),
            cwd=order.worktree,
            env=_environment(key, order, self._home),
            result=str(self._result(launch)),
            launch=launch,
            stop_timeout_ms=order.definition.stop_timeout_ms,
            log=str(self._log(launch)) if order.definition.terminal == "tmux" else "",
            spare=order.definition.spare,
        )
        output = self._launching.open_log(launch)
        try:
            if spec.log:
                keeper = await open_window(self._home, spec, title=short_name(key), umask=self._umask)
            else:
                keeper = await start_keeper(
                    spec,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    new_session=True,
                    umask=self._umask,
                )
        finally:
            os.close(output)
        await self._launching.let_go(key, order.unit, order.step, launch, keeper, running.go)
        return launch, keeper.identity

    async def _ports_free(self, key: str, order: RunStep) -> None:
        """Whoever is on the port is told of and left alone; the start goes on by itself once it has left."""
        while who := await anyio.to_thread.run_sync(in_the_way, order.definition.ports, self._home):
            self._tell(key, PortBlocked(order.unit, order.step, who))
            await anyio.sleep(STRANGER_PROBE_MS / 1000)
        self._tell(key, PortBlocked(order.unit, order.step, ""))

    async def _until_ready(self, order: RunStep, launch: str, keeper: Identity) -> None:
        readiness = Readiness(order.definition, keeper, self._log(launch))
        begun = time.monotonic()
        missing = "nothing yet"
        with anyio.move_on_after(order.definition.start_timeout_ms / 1000):
            while True:
                missing = await readiness.missing()
                result = read_result(self._result(launch))
                if not missing and not has_failed(result):
                    return
                if result.gone or has_failed(result) or probe(keeper) is Presence.GONE:
                    raise StepFailed(f"the start command ended {how(result)} before the server was ready ({missing})")
                await anyio.sleep(pause_s(time.monotonic() - begun))
        raise StepFailed(f"not ready within {format_duration(order.definition.start_timeout_ms)}: {missing}")

    # --- watching ---------------------------------------------------------------------------
    async def _watch(self, key: str, unit: str, server: Server) -> None:
        """Say when it ends: its whole tree, or its command while something of the tree lives on."""
        path, log_path = self._result(server.launch), self._log(server.launch)
        leader = read_result(path).leader
        if leader is not None:
            await wait_gone(leader)
            with anyio.move_on_after(LEADER_GRACE_S):
                await wait_gone(server.keeper)
            result = read_result(path)
            if probe(server.keeper) is Presence.ALIVE and has_failed(result):
                why = f"the server's command ended {how(result)}, some of its processes live on"
                gone = ServerGone(unit, server.launch, why, proved=False, alive=True, log=str(log_path))
                self._tell(key, _with_tail(gone, log_path))
        await wait_gone(server.keeper)
        reap()
        stopped = await stop_tree(server.keeper, path, 0, server.launch)
        why = f"the server ended {how(read_result(path))}" if stopped.proved else stopped.evidence
        gone = ServerGone(unit, server.launch, why, proved=stopped.proved, log=str(log_path))
        self._tell(key, _with_tail(gone, log_path))
        self._adopted.discard(server.launch)

    def _result(self, launch: str) -> Path:
        return self._launching.result(launch)

    def _log(self, launch: str) -> Path:
        return self._launching.log(launch)


# --- straight helpers ---------------------------------------------------------------------
def _with_tail(gone: ServerGone, path: Path) -> ServerGone:
    return msgspec.structs.replace(gone, tail=last_lines(path))


def _environment(key: str, order: RunStep, home: Home) -> dict[str, str]:
    definition = order.definition
    return environment(home, key, order.unit, order.agent, order.worktree, definition.url, definition.env)
