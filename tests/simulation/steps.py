"""The effects of one supervisor's life on the simulated machine. They end with it; what they started does not."""

from collections.abc import Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup
from tests.simulation.machine import Machine, Tree

from interlock.coordinator.effects import Traces
from interlock.protocol.identity import Identity, Presence
from interlock.protocol.limits import STRANGER_PROBE_MS
from interlock.protocol.resource_commands import (
    AbortStep,
    Go,
    LaunchGone,
    LaunchUp,
    Order,
    PortBlocked,
    RunCommand,
    RunStep,
    ServerGone,
    StepFailure,
    StepResult,
)
from interlock.protocol.resource_state import Server, StepKind

LOOK_S = 0.05


class Steps:
    """Implements coordinator.effects.Effects.

    Args:
        tasks: of this life. tell: puts a command into a resource's mailbox. faults: whether steps may go wrong.
    """

    def __init__(self, machine: Machine, tasks: TaskGroup, tell: Callable[[str, Any], object], *, faults: bool) -> None:
        self.dead = False
        self._machine = machine
        self._tasks = tasks
        self._tell = tell
        self._faults = faults
        self._running: dict[tuple[str, str, int], tuple[anyio.Event, anyio.CancelScope]] = {}
        self._adopted: set[str] = set()
        self._halting = False
        self._starts: list[tuple[str, str, int]] = []
        self._own: list[Tree] = []  # keepers that leave with this supervisor if they were never told GO

    def die(self) -> None:
        self.dead = True
        for tree in self._own:
            if tree.keeper_lives and not tree.went:
                self._machine.end(tree)

    # --- the port ---------------------------------------------------------------------------
    def begin(self, key: str, order: Order) -> None:
        if self.dead:
            return
        at = (key, order.unit, order.step)
        match order:
            case RunStep(kind=StepKind.START) if self._halting:
                pass  # Its intent is on record: the next supervisor begins it.
            case RunStep(kind=kind):
                if kind is StepKind.START:
                    self._starts.append(at)
                self._running[at] = (anyio.Event(), anyio.CancelScope())
                self._tasks.start_soon(self._run, key, order)
            case RunCommand() if self._halting and order.kind is not StepKind.STOP:
                pass  # Likewise.
            case RunCommand():
                if order.repeatable and order.kind is not StepKind.STOP:
                    self._starts.append(at)
                self._running[at] = (anyio.Event(), anyio.CancelScope())
                self._tasks.start_soon(self._run_command, key, order)
            case Go() if at in self._running:
                self._running[at][0].set()
            case AbortStep() if at in self._running:
                self._running[at][1].cancel()

    def halt(self) -> None:
        self._halting = True
        for at in self._starts:
            if at in self._running:
                self._running[at][1].cancel()

    def adopt(self, key: str, unit: str, server: Server) -> None:
        if server.launch not in self._adopted and not self.dead:
            self._adopted.add(server.launch)
            self._tasks.start_soon(self._watch, key, unit, server.launch)

    def watch(self, identity: Identity, then: Callable[[], None]) -> Callable[[], None]:
        return self._machine.watch(identity, lambda: None if self.dead else then())

    def probe(self, identity: Identity) -> Presence:
        return Presence.ALIVE if identity in self._machine.alive else Presence.GONE

    async def launch_result(self, launch: str, keeper: Identity) -> LaunchGone:
        while keeper in self._machine.alive:  # noqa: ASYNC110 - the machine is looked at, as a real one is
            await anyio.sleep(LOOK_S)
        await anyio.sleep(self._machine.chance.uniform(0, 0.05))
        tree = self._machine.trees[launch]
        proved = tree.proved and not tree.forgotten
        return LaunchGone(launch, proved, tree.code, "its keeper said so" if proved else "its keeper left no word")

    async def traces(self, launch: str, keeper: Identity) -> Traces:
        return Traces("", "")

    def forget(self, launch: str) -> None:
        if launch in self._machine.trees and not self.dead:
            self._machine.trees[launch].forgotten = True

    def directory(self, path: str) -> str | None:
        return path if path in self._machine.worktrees else None

    def log_path(self, launch: str) -> str:
        return f"/log/{launch}"

    # --- steps ------------------------------------------------------------------------------
    async def _run(self, key: str, order: RunStep) -> None:
        match order.kind:
            case StepKind.STOP:
                end = await self._stop(order)
            case StepKind.VERIFY:
                end = await self._verify(order)
            case StepKind.START:
                end = await self._start(key, order)
        self._running.pop((key, order.unit, order.step), None)
        if not self.dead:
            self._machine.log(f"  {order.kind} {order.step} of {key} {order.unit!r}: {type(end).__name__}")
            self._tell(key, end)

    async def _run_command(self, key: str, order: RunCommand) -> None:
        end = await self._command(key, order)
        self._running.pop((key, order.unit, order.step), None)
        if not self.dead:
            doubt = isinstance(end, StepFailure) and (order.kind is StepKind.STOP or end.interrupted or not end.proved)
            if doubt and isinstance(end, StepFailure) and not end.never_started:  # a person will look, and clear it
                self._machine.made.pop((key, order.unit), None)
            self._machine.log(f"  {order.kind} {order.step} of {key} {order.unit!r}: {end}")
            self._tell(key, end)

    async def _command(self, key: str, order: RunCommand) -> StepResult | StepFailure:
        go, scope = self._running[key, order.unit, order.step]
        tree = self._machine.trees[order.launch] if order.launch else None
        with scope:
            if tree is None:
                if order.worktree not in self._machine.worktrees:
                    return StepFailure(order.unit, order.step, f"the worktree {order.worktree} is gone")
                name = f"{key[8:]}-{order.step}-{self._machine.pid}"
                fence = 0 if order.url else -1
                tree = self._machine.keep(name, "step", key, order.unit, order.worktree, fence)
                tree.kind = str(order.kind)
                self._own.append(tree)
                self._tell(key, LaunchUp(order.unit, order.step, tree.launch, tree.keeper))
                await go.wait()
                if not self.dead:
                    self._machine.go(tree)
            while not tree.went and tree.keeper_lives:  # noqa: ASYNC110 - likewise
                await anyio.sleep(LOOK_S)
            if not tree.went:
                return StepFailure(order.unit, order.step, "its keeper left before GO", never_started=True)
            while tree.keeper_lives:  # noqa: ASYNC110 - likewise
                await anyio.sleep(LOOK_S)
            proved = tree.proved and not tree.forgotten
            if tree.code is None or not proved:
                lost = not tree.lives
                return StepFailure(order.unit, order.step, "nobody knows how it ended", proved, interrupted=lost)
            if tree.code:
                return StepFailure(order.unit, order.step, f"it ended with code {tree.code}")
            return StepResult(order.unit, order.step, evidence="its keeper said so")
        halted = self._halting
        if tree is None or not tree.went:
            return StepFailure(order.unit, order.step, "no longer wanted", never_started=halted)
        proved = await self._kill(tree)
        return StepFailure(order.unit, order.step, "no longer wanted", proved, interrupted=halted and proved)

    async def _stop(self, order: RunStep) -> StepResult | StepFailure:
        assert order.server is not None
        await anyio.sleep(self._machine.chance.uniform(0.01, 2))
        if await self._kill(self._machine.trees[order.server.launch]):
            return StepResult(order.unit, order.step, evidence="its keeper said so")
        return StepFailure(order.unit, order.step, "the old server: not proved gone", proved=False)

    async def _kill(self, tree: Tree) -> bool:
        """Whether the whole tree is proved gone."""
        if tree.keeper_lives and self._faults and self._machine.chance.random() < 0.03:
            tree.lives = self._machine.chance.random() < 0.5
            self._machine.lose_keeper(tree)
        if not tree.keeper_lives:
            return tree.proved and not tree.forgotten
        self._machine.end(tree, 143)
        return True

    async def _verify(self, order: RunStep) -> StepResult | StepFailure:
        assert order.server is not None
        await anyio.sleep(self._machine.chance.uniform(0.01, 1))
        tree = self._machine.trees[order.server.launch]
        if tree.ready and tree.keeper_lives and (not self._faults or self._machine.chance.random() < 0.9):
            return StepResult(order.unit, order.step, evidence="healthy")
        return StepFailure(order.unit, order.step, "the running server is not healthy")

    async def _start(self, key: str, order: RunStep) -> StepResult | StepFailure:
        go, scope = self._running[key, order.unit, order.step]
        tree = self._machine.trees[order.launch] if order.launch else None
        why = "no longer wanted"
        with scope:
            if tree is None:
                if order.worktree not in self._machine.worktrees:
                    return StepFailure(order.unit, order.step, f"the worktree {order.worktree} is gone")
                await self._ports_free(key, order)
                tree = self._machine.keep(
                    f"{key[8:]}-{order.step}-{self._machine.pid}", "server", key, order.unit, order.worktree
                )
                self._own.append(tree)
                self._tell(key, LaunchUp(order.unit, order.step, tree.launch, tree.keeper))
                await go.wait()
                if not self.dead:
                    self._machine.go(tree)
            while not tree.went and tree.keeper_lives:  # noqa: ASYNC110 - likewise
                await anyio.sleep(LOOK_S)
            if not tree.went:
                return StepFailure(order.unit, order.step, "its keeper left before GO", never_started=True)
            await anyio.sleep(self._machine.chance.uniform(0.1, 8))
            if tree.leader_lives and (not self._faults or self._machine.chance.random() < 0.85):
                tree.ready = True
                definition = order.definition
                server = Server(tree.launch, tree.keeper, tree.worktree, definition, "", self._machine.clock.wall_ms())
                return StepResult(order.unit, order.step, server)
            why = "not ready in time"
        halted = self._halting and scope.cancel_called
        if tree is None:
            return StepFailure(order.unit, order.step, why, never_started=halted)
        proved = await self._kill(tree)
        return StepFailure(order.unit, order.step, why, proved, halted and proved)

    async def _ports_free(self, key: str, order: RunStep) -> None:
        while who := self._machine.strangers.get((key, order.unit)):
            self._tell(key, PortBlocked(order.unit, order.step, who))
            await anyio.sleep(STRANGER_PROBE_MS / 1000)
        self._tell(key, PortBlocked(order.unit, order.step, ""))

    async def _watch(self, key: str, unit: str, launch: str) -> None:
        tree = self._machine.trees[launch]
        said = False
        while tree.keeper_lives:
            if not tree.leader_lives and not said:
                said = True
                self._tell(key, ServerGone(unit, launch, "it ended, some of it lives on", proved=False, alive=True))
            await anyio.sleep(LOOK_S * 10)
        proved = tree.proved and not tree.forgotten
        self._tell(key, ServerGone(unit, launch, "the server ended" if proved else "no word of it", proved=proved))
