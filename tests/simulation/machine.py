"""The simulated machine: processes, servers and their keepers, ports, worktrees. It outlives every supervisor.

What a promise says of living processes is asked here, and of nothing that the bus believes.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.coordinator.virtual_time import VirtualClock

from interlock.protocol.identity import Identity


class Broken(AssertionError):
    """A promise does not hold."""


@dataclass(eq=False)
class Tree:
    """What one keeper started. Args: of: "server", "command" or "step". fence: of a command's hold; -1: a step of a
    resource that is made by commands. kind: of a step.

    `keeper_lives`: the shim; `lives`: anything of the tree itself. `proved`: the keeper left word that all is gone.
    """

    launch: str
    keeper: Identity
    of: str
    key: str
    unit: str
    worktree: str = "-"
    fence: int = 0
    keeper_lives: bool = True
    lives: bool = False
    leader_lives: bool = False
    went: bool = False
    ready: bool = False
    proved: bool = False
    forgotten: bool = False
    code: int | None = None
    kind: str = ""
    orphaned: bool = False


@dataclass
class Machine:
    """Args: chance: the story's. log: takes a line for the story. made: what commands have made of a unit, and from
    which worktree: begun, prepared, or verified too. faults: whether steps may go wrong."""

    chance: random.Random
    clock: VirtualClock
    log: Callable[[str], None]
    alive: set[Identity] = field(default_factory=set)
    trees: dict[str, Tree] = field(default_factory=dict)
    strangers: dict[tuple[str, str], str] = field(default_factory=dict)
    worktrees: set[str] = field(default_factory=lambda: {"/w/1", "/w/2", "/w/3"})
    executed: set[str] = field(default_factory=set)
    made: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    faults: bool = False
    watched: dict[Identity, list[Callable[[], None]]] = field(default_factory=dict)
    pid: int = 100

    def spawn(self) -> Identity:
        self.pid += 1
        process = Identity("machine", self.clock.boot(), 1, self.pid, self.pid * 7)
        self.alive.add(process)
        return process

    def kill(self, process: Identity) -> None:
        """End a process, and tell whoever watches it a moment later."""
        if process in self.alive:
            self.alive.discard(process)
            for then in self.watched.pop(process, []):
                asyncio.get_running_loop().call_later(self.chance.uniform(0, 0.05), then)

    def watch(self, process: Identity, then: Callable[[], None]) -> Callable[[], None]:
        if process in self.alive:
            watched = self.watched.setdefault(process, [])
            watched.append(then)
            return lambda: watched.remove(then)
        return asyncio.get_running_loop().call_later(self.chance.uniform(0, 0.05), then).cancel

    # --- trees ------------------------------------------------------------------------------
    def keep(self, launch: str, of: str, key: str, unit: str, worktree: str = "-", fence: int = 0) -> Tree:
        """Start a keeper, which waits for GO."""
        tree = Tree(launch, self.spawn(), of, key, unit, worktree, fence)
        self.trees[launch] = tree
        return tree

    def go(self, tree: Tree) -> None:
        """Execute. Promises 1 and 5: at this moment nothing else may live on that unit."""
        if not tree.keeper_lives:
            return
        if tree.launch in self.executed:
            raise Broken(f"{tree.launch} is executed twice")
        self.executed.add(tree.launch)
        others = [each for each in self.living(tree.key, tree.unit, tree.of) if not self._together(each, tree)]
        if others:
            raise Broken(f"{tree.launch} begins on {tree.key} {tree.unit!r} while {others[0].launch} lives there")
        tree.went = tree.lives = tree.leader_lives = True
        if tree.of == "step":
            self._step_goes(tree)
        self.log(f"  {tree.of} {tree.launch} runs from {tree.worktree} as fence {tree.fence}")

    def _step_goes(self, tree: Tree) -> None:
        """It ends by itself, whatever becomes of the supervisor that began it."""
        at = (tree.key, tree.unit)
        if tree.kind == "prepare":
            if self.living(*at, "server") or (tree.fence < 0 and at in self.made):
                raise Broken(f"{tree.launch} prepares {at} while {self.made.get(at)} stands there")
            if tree.fence < 0:
                self.made[at] = (tree.worktree, "begun")
        code = 0 if not self.faults or self.chance.random() < 0.9 else 1
        asyncio.get_running_loop().call_later(self.chance.uniform(0.1, 6), self._step_ends, tree, code)

    def _step_ends(self, tree: Tree, code: int) -> None:
        at = (tree.key, tree.unit)
        if not tree.keeper_lives or not tree.lives:
            return
        if tree.orphaned:
            pass
        elif tree.fence < 0 and tree.kind == "stop" and code == 0:
            self.made.pop(at, None)
        elif tree.fence < 0 and tree.kind != "stop":
            self.made[at] = (tree.worktree, "prepared" if tree.kind == "prepare" or code else "verified")
        self.end(tree, code)

    def living(self, key: str, unit: str, of: str) -> list[Tree]:
        trees = self.trees.values()
        return [each for each in trees if each.lives and (each.key, each.unit, each.of) == (key, unit, of)]

    def servers(self) -> list[Tree]:
        return [tree for tree in self.trees.values() if tree.lives and tree.of == "server"]

    def end(self, tree: Tree, code: int = 0) -> None:
        """All of it is gone, and its keeper has left word of that."""
        tree.lives = tree.leader_lives = tree.ready = False
        tree.code = code if tree.went else None
        tree.proved = tree.keeper_lives or tree.proved
        self.lose_keeper(tree)

    def lose_keeper(self, tree: Tree) -> None:
        tree.keeper_lives = False
        self.kill(tree.keeper)

    def sweep(self, key: str) -> None:
        """A person has looked, and ended whatever the bus could not prove gone."""
        for tree in list(self.trees.values()):
            if tree.key == key and tree.lives and not tree.keeper_lives:
                tree.lives = tree.leader_lives = False
                self.log(f"  a person ends what is left of {tree.launch}")

    def orphan(self) -> None:
        """The database is lost: what commands made is what a person looks at, and no step of then counts any more."""
        self.made.clear()
        for tree in self.trees.values():
            tree.orphaned = True

    def reboot(self) -> None:
        """Nothing lives on; of a process of another boot everybody knows that it is gone."""
        self.clock.reboot()
        self.watched.clear()
        self.alive.clear()
        for tree in self.trees.values():
            tree.keeper_lives = tree.lives = tree.leader_lives = tree.ready = False
            tree.proved = True

    @staticmethod
    def _together(one: Tree, other: Tree) -> bool:
        """Several commands may run under one hold."""
        return one is other or (one.of == "command" and one.fence == other.fence)
