"""Tasks: what agents say of work, put to the task's machine once the door has found out what is so.

REPORT ──▶ its files read and hashed, its launches looked up in the ledger ──▶ `task/<id>`
ACCEPT ──▶ the reported files read again ──▶ `task/<id>`: as they were reported?
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from interlock.coordinator.actor import Item
from interlock.coordinator.ground import Ground, NoFile
from interlock.coordinator.naming import Names, No, known_agent
from interlock.coordinator.session import Session
from interlock.coordinator.territories import Territories
from interlock.coordinator.world import TASK
from interlock.protocol.claim import Claim, claim_text
from interlock.protocol.codes import Code
from interlock.protocol.limits import TASKS_MAX, TASKS_OF_ASSIGNER_MAX
from interlock.protocol.names import why_not_commit
from interlock.protocol.task import standing
from interlock.protocol.task_commands import Assign, Begin, HandIn, Judge, TaskCommand, Withdraw
from interlock.protocol.task_messages import (
    AcceptTask,
    AssignTask,
    BeginTask,
    RejectTask,
    ReportTask,
    ToTask,
    WithdrawTask,
)
from interlock.protocol.task_scope import is_outside
from interlock.protocol.task_state import Assignment, Change, FileFact, Report, Task, TaskLaunch
from interlock.protocol.visible import visible

if TYPE_CHECKING:
    from interlock.coordinator.supervisor import Supervisor

Deliver = Callable[[Session, str, Item], None]
_LETTERS = frozenset("ACDMRTUX?")  # of git's list


class Tasks:
    """One per bus. Args: ground: the disk."""

    def __init__(self, supervisor: Supervisor, names: Names, territories: Territories, ground: Ground) -> None:
        self._supervisor = supervisor
        self._names = names
        self._territories = territories
        self._ground = ground

    async def hear(self, session: Session, message: ToTask, item: Item, deliver: Deliver) -> None:
        """Put one message to its machine.

        Args:
            item: with the message's id, sender, digest and size; what it says to the machine is made here.
            deliver: puts it into a mailbox, and has the answer go to the session.

        Raises:
            No: it names no agent, resource, path, file or launch that there is; or it was said before, and is over.
        """
        world, key = self._supervisor.world, TASK + message.task
        if item.id in world.ids and key in world.tasks:
            self._supervisor.say(session, item.id, standing(world.tasks[key]))
            return
        command = await self._command(session, message, item)
        deliver(session, key, msgspec.structs.replace(item, command=command))

    async def _command(self, session: Session, message: ToTask, item: Item) -> TaskCommand:
        sender, id_, task = item.sender, item.id, self._supervisor.world.task(TASK + message.task)
        match message:
            case AssignTask():
                return Assign(sender, id_, await self._assignment(session, message, sender))
            case BeginTask():
                return Begin(sender, id_)
            case ReportTask():
                report = await self._report(session, message, sender, task)
                return HandIn(sender, id_, report, *self._reserved_for(task))
            case AcceptTask(_, because, despite, named):
                number, now = await self._look(task)
                return Judge(sender, id_, True, because, despite, False, number, now, named)
            case RejectTask(_, because, for_good, named):
                number = task.report.number if task.report is not None else 0
                return Judge(sender, id_, False, because, False, for_good, number, named=named)
            case WithdrawTask(_, because):
                return Withdraw(sender, id_, because)

    async def _assignment(self, session: Session, ask: AssignTask, sender: str) -> Assignment:
        world = self._supervisor.world
        if TASK + ask.task not in world.tasks and len(world.tasks) - len(world.tasks_over) >= TASKS_MAX:
            raise No(Code.QUEUE_FULL, f"{TASKS_MAX} tasks are not over, no more can be: accept or withdraw some")
        mine = (each.assignment for each in world.tasks.values() if not each.is_over())
        if sum(each is not None and each.assigner == sender for each in mine) >= TASKS_OF_ASSIGNER_MAX:
            why = f"{TASKS_OF_ASSIGNER_MAX} tasks of yours are not over, no more can be: accept or withdraw some"
            raise No(Code.QUEUE_FULL, why)
        assignee = self._known(ask.agent)
        acceptor = self._known(ask.acceptor) if ask.acceptor else ""
        territory, claims = "", tuple[Claim, ...]()
        if ask.changes:
            place, base = self._territories.place(session, ask.worktree)
            territory = self._territories.key_of(place)
            claims = await self._territories.claims(place, base, ask.changes)
        resources = tuple(
            self._names.resolve(each, session, sender=sender, worktree=ask.worktree) for each in ask.resources
        )
        return Assignment(
            sender, assignee, ask.objective, territory, claims, tuple(dict.fromkeys(resources)), ask.constraints,
            ask.acceptance, ask.deliverable, acceptor, _commit(ask.base),
        )  # fmt: skip

    async def _report(self, session: Session, said: ReportTask, sender: str, task: Task) -> Report:
        """What it names, as it is at this moment. Raises No."""
        known = task.assignment
        if said.handed_to:
            self._known(said.handed_to)
        if known is None or task.is_over() or sender != known.assignee:  # the machine says so: nothing is read for it
            return Report(0, sender, 0)
        launches = tuple(self._launch(each, sender, task) for each in dict.fromkeys(said.launches))
        top, territory, base = "", "", said.worktree if said.worktree not in {"", "-"} else session.worktree
        if said.files or said.changes:
            try:
                place, base = self._territories.place(session, said.worktree)
                top, territory = place.worktree, self._territories.key_of(place)
            except No:
                if known.territory or not base.startswith("/"):
                    raise
        within = session.is_file  # for a hash tells something of a file, and a folder's agent sees no other
        if within and said.files:
            agent = self._supervisor.world.registry.agents[sender]
            if top != agent.worktree and territory != known.territory:
                why = "a folder's message names files of its agent's own worktree, or of the task's repository"
                raise No(Code.SCOPE_DENIED, f"{why}: bus task report can name others")
        try:
            files = await self._ground.files(top, base, said.files, within=within)
        except NoFile as error:
            raise No(Code.BAD_MESSAGE, str(error)) from None
        return Report(
            0, sender, 0, top,
            tuple(_judged(each, is_outside(known, territory, each.path)) for each in files),
            tuple(
                Change(each.path, each.how, is_outside(known, territory, each.path))
                for each in said.changes if each.how in _LETTERS
            ),
            max(0, said.more), _commit(said.head), launches, said.gaps, said.summary, said.released, said.handed_to,
        )  # fmt: skip

    def _reserved_for(self, task: Task) -> tuple[tuple[str, ...], tuple[str, ...], frozenset[str]]:
        """What is reserved for a task now, what is waited for, and to whom some of it was handed over."""
        world = self._supervisor.world
        booked = [each.reservation for each in world.bookings.values() if each.task == task.id]
        held = tuple(f"{each.what} (fence {each.fence})" for each in booked if not each.over_ms)
        heirs = {each.handed_to for each in (*booked, *task.reserved.values()) if each.handed_to}
        return held, tuple(self._waited_for(task)), frozenset(heirs)

    def _waited_for(self, task: Task) -> Iterator[str]:
        """Places in queues, and what is being prepared; leases that wait."""
        world = self._supervisor.world
        agent = task.assignment.assignee if task.assignment is not None else ""
        for key in self._supervisor.resources_of(agent):
            resource = world.resources[key]
            prepared = (unit.ticket for unit in resource.units if unit.ticket is not None and not unit.fence)
            for ticket in (*prepared, *(resource.queue[each] for each in resource.queue.of(agent))):
                if ticket.task == task.id:
                    yield ticket.called
        for territory in world.territories.values():
            for lease in territory.waiting.values():
                if lease.task == task.id:
                    yield f"{' '.join(map(claim_text, lease.claims))} ({lease.id})"

    async def _look(self, task: Task) -> tuple[int, tuple[FileFact, ...]]:
        """The files of its report as they are now, and which report that is."""
        report = task.report
        if report is None:
            return 0, ()
        return report.number, await self._ground.look(report.root, [each.path for each in report.files])

    # --- straight helpers -------------------------------------------------------------------
    def _launch(self, launch: str, sender: str, task: Task) -> TaskLaunch:
        """What the ledger holds of a command that has ended. Raises No."""
        gate, shown = self._supervisor.world.gate, visible(launch)[:128]
        running, over = gate.commands.get(launch), gate.over.get(launch)
        owner = running.agent if running is not None else over.agent if over is not None else ""
        if owner not in {"", sender}:
            raise No(Code.NOT_HOLDER, f"{shown} is {owner}'s command, and no evidence of yours: name one that you ran")
        if running is not None:
            raise No(Code.RESOURCE_BUSY, f"{shown} ({running.command}) has not ended: report when it has, see bus ps")
        if over is not None:
            other = over.task if over.task != task.id else ""
            return TaskLaunch(launch, over.command, over.code, over.over_ms, other)
        known = task.launches.get(launch)
        if known is None or not known.over_ms:
            why = f"no command {shown} of yours is in the ledger: run it as bus run --task {task.id} -- COMMAND"
            raise No(Code.TARGET_ENDED, why)
        return known

    def _known(self, name: str) -> str:
        return known_agent(self._supervisor.world.registry.agents, name).name


def _judged(file: FileFact, outside: bool) -> FileFact:
    return msgspec.structs.replace(file, outside=outside) if outside else file


def _commit(said: str) -> str:
    """Raises No."""
    why_not = why_not_commit(said) if said else None
    if why_not is not None:
        raise No(Code.BAD_MESSAGE, why_not)
    return said
