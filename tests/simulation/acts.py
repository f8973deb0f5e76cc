"""What may happen in a story: what agents do, and everything that goes wrong. One method an action, `do_<action>`."""

import asyncio
from typing import TYPE_CHECKING, Any

import anyio
from tests.simulation.clients import Agent, Run
from tests.simulation.declared import BOARD, LOCK, PAGES, POOL, WEB
from tests.simulation.gated import GATED
from tests.simulation.machine import Broken
from tests.simulation.promises import Key

from interlock.coordinator.store import Unknown
from interlock.protocol.gate_state import CommandState
from interlock.protocol.resource_state import UnitState

if TYPE_CHECKING:
    from tests.simulation.story import Story

COMMON = {
    "request": 24, "release": 10, "extend": 5, "cancel": 3, "restart": 2, "status": 4, "letter": 5, "inbox": 4,
    "run": 6, "wait": 30, "again": 6, "other_content": 1, "handover": 4, "no_wait": 2,
}  # fmt: skip  # how often, beside one another
TROUBLES = {
    "agent_dies": 3, "last_words": 4, "agent_leaves": 2, "silence": 3, "cut": 5, "away": 5,
    "wrapper_dies": 3, "command_keeper_dies": 1, "server_dies": 2, "leader_dies": 1, "server_keeper_dies": 1,
    "step_keeper_dies": 1, "revoke": 2,
    "stranger": 2, "worktree": 1, "wall_jumps": 2, "suspend": 1,
    "crash": 5, "reboot": 1, "orderly": 1, "full": 2, "unknown": 1, "recover": 3,
    "pause": 3, "configure": 1, "lost": 1,
}  # fmt: skip


class Acts:
    """Args: story: in which it happens."""

    def __init__(self, story: "Story") -> None:
        self._story = story

    # --- what agents do -------------------------------------------------------------------------
    def someone(self) -> Agent:
        return self._story.chance.choice([each for each in self._story.agents if not each.silent] or self._story.agents)

    def something(self) -> str:
        return self._story.chance.choice([LOCK, LOCK, POOL, WEB, WEB, PAGES, BOARD, BOARD])

    async def do_request(self) -> None:
        await self.request_by(self.someone())

    async def request_by(self, agent: Agent) -> None:
        time = self._story.chance.choice(["", "", ", 30s", ", 5m"])
        agent.post(f"REQUEST {self.something()} {self._story.chance.choice(['/w/1', '/w/2', '/w/3'])} work{time}")

    async def do_several(self) -> None:
        """Two or three together: as often as a story is told to."""
        agent, chance = self.someone(), self._story.chance
        some = ",".join(chance.sample([LOCK, POOL, WEB, PAGES, BOARD], chance.choice([2, 2, 3])))
        what = chance.choice(["REQUEST", "REQUEST", "REQUEST", "RELEASE", "CANCEL"])
        if what == "RELEASE":
            self._story.truth.released |= {(agent.name, key) for key in some.split(",")}
        agent.post(
            f"REQUEST {some} {chance.choice(['/w/1', '/w/2'])} work, 30s" if what == "REQUEST" else f"{what} {some}"
        )

    async def do_release(self) -> None:
        agent, key = self.someone(), self.something()
        self._story.truth.released.add((agent.name, key))
        agent.post(f"RELEASE {key}")

    async def do_handover(self) -> None:
        agent, key = self.someone(), self.something()
        self._story.truth.released.add((agent.name, key))
        agent.post(f"HANDOVER {key} {self._story.chance.choice(self._story.agents).name}")

    async def do_no_wait(self) -> None:
        body = {"type": "REQUEST", "resource": self.something(), "worktree": "/w/1", "purpose": "now", "queue": False}
        self.someone().post(body)

    async def do_extend(self) -> None:
        self.someone().post(f"EXTEND {self.something()} more{self._story.chance.choice(['', ', 40s'])}")

    async def do_cancel(self) -> None:
        self.someone().post(f"CANCEL {self.something()}")

    async def do_restart(self) -> None:
        self.someone().post(f"RESTART {self._story.chance.choice([WEB, WEB, PAGES, BOARD])}")

    async def do_status(self) -> None:
        self.someone().post("STATUS")

    async def do_letter(self) -> None:
        self.someone().post("hello", self._story.chance.choice(self._story.agents).name)

    async def do_inbox(self) -> None:
        agent = self.someone()
        if self._story.life is not None:
            unread = [*self._story.life.supervisor.world.inbox(agent.name).unread][:3]
            agent.post({"type": "ACK", "ids": unread}, "supervisor")

    async def do_run(self) -> None:
        self._story.runs.append(
            Run(self._story, self.someone().name, len(self._story.runs), self._story.chance.choice([LOCK, POOL, BOARD]))
        )

    async def do_wait(self) -> None:
        await anyio.sleep(self._story.chance.choice([0.2, 1, 3, 9, 16, 25]))

    async def do_again(self) -> None:
        """A message that was sent before, perhaps long ago, is sent again, the same id and all."""
        agent = self.someone()
        if agent.said:
            envelope = self._story.chance.choice(agent.said)
            self._story.log(f"{agent.name} sends {envelope['id']} again")
            agent.pending[envelope["id"]] = envelope
            agent.again(envelope)

    async def do_other_content(self) -> None:
        agent = self.someone()
        if agent.said and (id_ := self._story.chance.choice(agent.said)["id"]) not in agent.pending:
            self._story.log(f"{agent.name} uses {id_} for something else")
            self._story.truth.requests.add(id_)
            agent.again({"to": "coordinator", "id": id_, "text": f"REQUEST {LOCK} - quite something else"})

    async def do_policy(self) -> None:
        """A policy comes, changes or goes; only in stories that are told for it (`often`)."""
        story = self._story
        body: dict[str, Any] = {"type": "SET_POLICY", "resource": story.chance.choice(GATED)}
        if story.chance.random() < 0.6:
            names = [each.name for each in story.agents]
            body |= {"controller": "a", "participants": story.chance.sample(names, story.chance.randint(1, len(names)))}
        story.agents[0].post(body, "supervisor")

    async def do_task(self) -> None:
        """Work is given, begun, reserved for, reported and judged, by anybody; only where it is told for it."""
        story, agent = self._story, self.someone()
        life, id_ = story.life, f"t{story.chance.randint(1, 6)}"
        known = life.supervisor.world.tasks.get(f"task/{id_}") if life is not None else None
        if known is None or known.assignment is None:
            agent.post(f"ASSIGN {id_} {story.chance.choice(story.agents).name} - work")
            return
        worker = next(each for each in story.agents if each.name == known.assignment.assignee)
        often = {"reserve": 8, "begin": 1, "report": 4, "released": 2, "judge": 6, "withdraw": 1}
        [what] = story.chance.choices([*often], [*often.values()])
        match what:
            case "reserve":
                worker.post({"type": "REQUEST", "resource": self.something(), "worktree": "/w/1", "task": id_})
            case "begin":
                worker.post(f"BEGIN {id_}")
            case "report" | "released":
                worker.post(f"REPORT {id_} {'released ' if what == 'released' else ''}- done")
            case "judge":
                named = f"report={known.report.number}" if known.report is not None else ""
                words = ["ACCEPT {} {}", "REJECT {} {} - again", "REJECT {} {} - again", "REJECT {} {} for-good - no"]
                agent.post(story.chance.choice(words).format(id_, named))
            case _:
                agent.post(f"WITHDRAW {id_} - not needed")

    async def do_confirm(self) -> None:
        """A person ends what is left of commands in doubt, and confirms that; likewise only where it is told for it."""
        life = self._story.life
        if life is None or life.failed is not None:
            return
        for launch, command in life.supervisor.world.gate.commands.items():
            if command.state is CommandState.RECOVERY_REQUIRED:
                self._story.machine.sweep(self._story.machine.trees[launch].key)
                ask = {"type": "RECOVER_LAUNCH", "launch": launch}
                heard = await life.says(ask)
                await life.says(ask | {"code": heard.get("code", "")})

    # --- what goes wrong --------------------------------------------------------------------------
    async def do_agent_dies(self) -> None:
        agent = self.someone()
        self._story.log(f"-- {agent.name} dies")
        agent.die()
        if self._story.chance.random() < 0.5:
            await anyio.sleep(self._story.chance.choice([0, 0.01, 2]))
        agent.rise()

    async def do_last_words(self) -> None:
        """It asks and is gone at the same moment: which of the two is recorded first, nobody can say."""
        agent = self.someone()
        self._story.log(f"-- {agent.name} says its last words")
        if agent.process is None:
            self._story.truth.ended.add(agent.name)
            agent.post({"type": "LEAVE"}, "supervisor")
            await self.request_by(agent)
            return
        self._story.truth.ended.add(agent.name)
        self._story.machine.kill(agent.process)
        for _ in range(4):
            await anyio.sleep(self._story.chance.choice([0, 0.01, 0.02]))
            await self.request_by(agent)
        await anyio.sleep(self._story.chance.choice([0.06, 1]))
        agent.die()
        agent.rise()

    async def do_agent_leaves(self) -> None:
        agent = self.someone()
        self._story.truth.ended.add(agent.name)
        agent.post({"type": "LEAVE"}, "supervisor")

    async def do_silence(self) -> None:
        agent = self._story.chance.choice(self._story.agents)
        agent.silent = not agent.silent
        self._story.log(f"-- {agent.name} {'falls silent' if agent.silent else 'is back'}")
        if agent.silent and agent.wire is not None:
            agent.wire.cut()

    async def do_cut(self) -> None:
        whom = self._story.chance.choice([*self._story.agents, *self._story.runs])
        if whom.wire is not None:
            self._story.log(f"-- the wire of {whom.name} is cut")
            whom.wire.cut()
            await anyio.sleep(self._story.chance.choice([0, 0.01, 1]))
            self._story.reconnect()

    async def do_away(self) -> None:
        """Nobody is at the other end of a session for a while: too long, or not quite."""
        sessions = [each for each in self._story.agents if each.session and each.wire is not None and not each.silent]
        if not sessions:
            return
        agent = self._story.chance.choice(sessions)
        self._story.log(f"-- {agent.name} is away")
        agent.silent = True
        assert agent.wire is not None
        agent.wire.cut()

        def back() -> None:
            agent.silent = False
            agent.connect()

        asyncio.get_running_loop().call_later(self._story.chance.choice([8, 9.97, 12, 30]), back)

    async def do_pause(self) -> None:
        """SIGSTOP, and SIGCONT later."""
        whom = self._story.chance.choice([*self._story.agents, *self._story.runs])
        if whom.wire is not None:
            wait_s = self._story.chance.choice([1, 12, 45])
            self._story.log(f"-- {whom.name} is paused for {wait_s} s")
            whom.wire.pause(asyncio.get_running_loop().time() + wait_s)
            self._story.truth.troubles.append(self._story.now_s() + wait_s)

    async def do_wrapper_dies(self) -> None:
        living = [run for run in self._story.runs if run.state != "over"]
        if living:
            run = self._story.chance.choice(living)
            self._story.log(f"-- the wrapper of {run.id} dies")
            run.die()

    async def do_command_keeper_dies(self) -> None:
        self._lose_keeper("command")

    async def do_step_keeper_dies(self) -> None:
        self._lose_keeper("step")

    async def do_server_keeper_dies(self) -> None:
        self._lose_keeper("server")

    def _lose_keeper(self, of: str) -> None:
        trees = [
            tree for tree in self._story.machine.trees.values() if tree.lives and tree.keeper_lives and tree.of == of
        ]
        if trees:
            tree = self._story.chance.choice(trees)
            self._story.log(f"-- the keeper of {tree.launch} is killed")
            self._story.machine.lose_keeper(tree)

    async def do_server_dies(self) -> None:
        for tree in self._story.machine.servers():
            self._story.log(f"-- the server {tree.launch} dies")
            self._story.machine.end(tree, 1)

    async def do_leader_dies(self) -> None:
        for tree in self._story.machine.servers():
            self._story.log(f"-- the leader of {tree.launch} dies, something of it lives on")
            tree.leader_lives = tree.ready = False

    async def do_stranger(self) -> None:
        if self._story.machine.strangers.pop((WEB, ""), None) is None:
            self._story.machine.strangers[WEB, ""] = "port 7080 is held by nc (pid 7)"
        self._story.log(f"-- strangers: {self._story.machine.strangers}")

    async def do_worktree(self) -> None:
        self._story.machine.worktrees ^= {"/w/2"}
        self._story.log(f"-- worktrees: {sorted(self._story.machine.worktrees)}")

    async def do_wall_jumps(self) -> None:
        self._story.clock.wall += self._story.chance.choice([-86_400_000, -1_000, 1_000, 86_400_000])
        self._story.log("-- the wall clock is set")

    async def do_suspend(self) -> None:
        ms = self._story.chance.choice([500, 30_000, 3_600_000])
        self._story.clock.suspend(ms)
        self._story.slept_s += ms / 1000
        self._story.slept_at_s = self._story.now_s()
        self._story.truth.troubles.append(self._story.now_s())
        self._story.log(f"-- the machine sleeps for {ms} ms")

    async def do_crash(self) -> None:
        await self._story.crash()
        await anyio.sleep(self._story.chance.choice([0, 0.01, 2, 40]))
        await self._story.begin()
        self._story.reconnect()

    async def do_reboot(self) -> None:
        await self._story.crash()
        self._story.log("-- the machine starts anew")
        for each in [*self._story.agents, *self._story.runs]:
            each.die()
        self._story.machine.reboot()
        for agent in self._story.agents:
            agent.rise()
        await self._story.begin()
        self._story.reconnect()

    async def do_orderly(self) -> None:
        """`bus down`, with or without its servers, then `bus up`."""
        if self._story.life is not None and self._story.life.failed is None:
            servers = self._story.chance.random() < 0.5
            self._story.log(f"-- the bus goes down{' with its servers' if servers else ''}")
            await self._story.life.stop(servers=servers)
            left = [tree for tree in self._story.machine.servers() if tree.keeper_lives]
            doubt = any(self._story.promises.keys.get(key, Key()).doubt for key in (WEB, PAGES))
            if servers and left and not doubt and self._story.life.failed is None and not self._story.store.full:
                raise Broken(f"the bus is down, and {left} runs on")
            await self.do_crash()

    async def do_configure(self) -> None:
        """The configuration is another one from now on, or again as it was."""
        story = self._story
        story.config = story.configs[story.config is story.configs[0]]
        story.log(f"-- the configuration is as {'before' if story.config is story.configs[0] else 'changed'}")
        if story.life is not None and story.life.failed is None:
            story.life.reconfigure(story.config)

    async def do_lost(self) -> None:
        """The database is lost while no supervisor lives; what lies beside it is not."""
        await self._story.crash()
        self._story.lose_database()
        await self._story.begin()
        self._story.reconnect()

    async def do_full(self) -> None:
        self._story.store.full = not self._story.store.full
        self._story.truth.troubles.append(self._story.now_s())
        self._story.log(f"-- the disk {'is full' if self._story.store.full else 'has room again'}")

    async def do_unknown(self) -> None:
        self._story.store.faults[self._story.store.appends + 1] = Unknown("EIO")
        self._story.store.written_anyhow = self._story.chance.random() < 0.5
        self._story.log("-- the disk will fail")

    async def do_recover(self) -> None:
        """A person looks, ends what is left, and confirms with the code."""
        if self._story.life is None or self._story.life.failed is not None:
            return
        for key in (LOCK, POOL, WEB, PAGES, BOARD):
            resource = self._story.life.supervisor.world.resources.get(key)
            if resource is not None and any(u.state is UnitState.RECOVERY_REQUIRED for u in resource.units):
                self._story.machine.sweep(key)
                await self._story.life.recover(key)

    async def do_revoke(self) -> None:
        """A person takes something back."""
        if self._story.life is not None and self._story.life.failed is None:
            key = self.something()
            self._story.truth.revoked.add(key)
            await self._story.life.says({"type": "REVOKE", "resource": key, "because": "mine"})
