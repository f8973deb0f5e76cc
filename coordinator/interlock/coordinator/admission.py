"""Admission: what `bus run` asks of the gate and of the resources that its command runs under.

    COVER ─▶ (its tickets) ─▶ ADMIT: each resource in key order, durable ─▶ the gate, durable ─▶ GO ─▶ STARTED ─▶ ENDED
                                       └──── one refuses: what was admitted before is taken back ────┘

Until the gate has admitted it nothing is executed, so what is taken back is proved never to have run.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import anyio
import msgspec

from interlock.coordinator.actor import Item
from interlock.coordinator.counting import counts_as, inside_of
from interlock.coordinator.naming import Names
from interlock.coordinator.task_rights import for_task
from interlock.coordinator.territories import Territories
from interlock.coordinator.world import GATE
from interlock.protocol import gate_questions
from interlock.protocol.answers import one_line
from interlock.protocol.codes import Code
from interlock.protocol.gate import covering
from interlock.protocol.gate_commands import AdmitCommand, CommandBegan, LeaderEnded, SyncGate
from interlock.protocol.gate_state import Hold, Managed
from interlock.protocol.identity import Identity, Presence
from interlock.protocol.limits import DIGEST_CHARACTERS_MAX, HOLDS_MAX, MESSAGE_BYTES_MAX
from interlock.protocol.messages import Admitted, FromBus, Refused, Released, Text
from interlock.protocol.names import why_not_launch
from interlock.protocol.resource_commands import Admit, LaunchGone, Sync
from interlock.protocol.resource_state import Unit
from interlock.protocol.territory_commands import AdmitUnder

if TYPE_CHECKING:
    from interlock.coordinator.session import Session
    from interlock.coordinator.supervisor import Supervisor

COMMAND_CHARACTERS_MAX = 256  # of a program's name


class Admission:
    """One per bus."""

    def __init__(self, supervisor: Supervisor, names: Names, territories: Territories) -> None:
        self._supervisor = supervisor
        self._names = names
        self._territories = territories
        self._under_way: dict[str, anyio.Event] = {}  # launch → its admission is decided

    def cover(self, session: Session, question: gate_questions.AskCover) -> gate_questions.Covered:
        """Which policies cover a command, and at which epoch each is."""
        supervisor, agent = self._supervisor, session.agent
        also = counts_as(supervisor, session, agent, inside_of(supervisor, session, agent, question.inside))
        gate = supervisor.world.gate
        epochs = {key: policy.epoch for key, policy in covering(gate, agent, also, question.recognised)}
        return gate_questions.Covered(epochs, {key: self._names.shown(key, session) for key in epochs})

    async def admit(self, session: Session, question: gate_questions.AdmitLaunch) -> FromBus:
        """Have a command on record with every resource that it runs under, then with the gate; or with nobody."""
        refused = self._why_not(question)
        if refused is not None:
            return refused
        launch = question.launch
        while launch in self._under_way:  # asked again over another connection: one after the other
            await self._under_way[launch].wait()
        self._under_way[launch] = anyio.Event()
        try:
            with self._supervisor.launches.admitting(launch):
                return await self._admit(session, question)
        finally:
            self._under_way.pop(launch).set()

    def began(self, session: Session, question: gate_questions.ReportStart) -> FromBus:
        """The command was executed: that may go on record with whatever comes next."""
        refused = self._not_yours(session, question.launch)
        if refused is None:
            began = CommandBegan(question.launch, question.leader, question.group)
            self._supervisor.tell(GATE, None, item=Item(began, lazy=True))
        return refused or Text("started")

    async def ended(self, session: Session, question: gate_questions.ReportEnd) -> FromBus:
        """Look at what its keeper left, and answer once that is decided: our answer means that its holds are over."""
        launch = question.launch
        refused = self._not_yours(session, launch)
        if refused is not None:
            return refused
        if question.leader_only:
            self._supervisor.tell(GATE, LeaderEnded(launch))
            return Text("draining")
        keys, keeper = self._supervisor.launches.where(launch), self._keeper(launch)
        if keeper is not None:
            await self._supervisor.launches.look(launch, keeper)
        answer: FromBus = Released(launch, "")
        for key in keys:
            answer = await self._supervisor.ask(key, lambda id_: Sync(id_, session.agent))
        await self._supervisor.ask(GATE, lambda id_: SyncGate(id_, session.agent))
        return answer

    # --- straight helpers -------------------------------------------------------------------
    def _why_not(self, question: gate_questions.AdmitLaunch) -> Refused | None:
        why_not = why_not_launch(question.launch)
        if why_not is not None:
            return Refused(Code.BAD_MESSAGE, why_not)
        if len(question.holds) + len(question.leases) > HOLDS_MAX:
            many = len(question.holds) + len(question.leases)
            why = f"{many} resources are named, one command can have {HOLDS_MAX}: name fewer"
            return Refused(Code.BAD_MESSAGE, why)
        long = max(len(question.directory), 32 * len(question.digest), 4 * len(question.command))
        if len(question.digest) > DIGEST_CHARACTERS_MAX or long > MESSAGE_BYTES_MAX:
            return Refused(Code.BAD_MESSAGE, "the command, its digest or its directory is too long to be on record")
        if self._supervisor.effects.probe(question.keeper) is not Presence.ALIVE:
            why = "the keeper of that command cannot be seen from here: run it on the bus's own machine"
            return Refused(Code.CAPABILITY_DENIED, why)
        other = self._supervisor.launches.of_keeper(question.keeper)
        if other not in {"", question.launch}:  # who is below it is that command's, and nobody else's
            why = f"process {question.keeper.pid} is the keeper of {other}: each command has one of its own"
            return Refused(Code.ID_CONFLICT, why)
        return None

    async def _admit(self, session: Session, question: gate_questions.AdmitLaunch) -> FromBus:
        supervisor, agent, launch = self._supervisor, session.agent, question.launch
        said = question.holds or ({question.resource: question.fence} if question.resource else {})
        called = {self._names.resolve(each, session): each for each in said}
        holds = tuple(Hold(key, said[called[key]]) for key in sorted(called))
        program = one_line(question.command, COMMAND_CHARACTERS_MAX)
        inside = inside_of(supervisor, session, agent, question.inside)
        also = counts_as(supervisor, session, agent, inside)
        command = Managed(
            launch, agent, question.keeper, program, question.directory, question.digest, 0,
            recognised=question.recognised, also=also, holds=holds, task=question.task,
        )  # fmt: skip
        admitted = list[str]()
        answer: FromBus = Admitted("", "", 0, launch)
        if question.task:
            for_task(supervisor.world, question.task, agent)
        known = launch in supervisor.world.gate.commands  # it may run already: nothing of it is taken back
        for hold in () if known else holds:
            admit = Admit(agent, "", hold.fence, launch, question.keeper, program, question.digest, inside, also)
            answer = await supervisor.ask(hold.key, partial(_with_id, admit))
            if not isinstance(answer, Admitted):
                break
            admitted.append(hold.key)
        for lease, fence in {} if known or not isinstance(answer, Admitted) else question.leases.items():
            key = self._territories.of(lease)
            under = partial(AdmitUnder, agent, lease=lease, fence=fence, launch=launch)
            answer = await supervisor.ask(key, partial(under, keeper=question.keeper, command=program))
            if not isinstance(answer, Admitted):
                break
            admitted.append(key)
        if isinstance(answer, Admitted):
            answer = await supervisor.ask(GATE, lambda id_: AdmitCommand(id_, command, question.epochs))
        if isinstance(answer, Admitted):
            return Admitted(called.get(answer.key, answer.key), answer.key, answer.fence, launch)
        for key in admitted:
            supervisor.tell(key, LaunchGone(launch, True, None, "it was not admitted, and never began"))
        return answer

    def _not_yours(self, session: Session, launch: str) -> Refused | None:
        """A launch of another's is not the asker's to speak of; for one that is not on record nothing is changed."""
        command = self._supervisor.world.gate.commands.get(launch)
        owners = {command.agent} if command is not None else self._owners(launch)
        if not owners or session.agent in owners:
            return None
        return Refused(Code.NOT_HOLDER, f"that command is {', '.join(sorted(owners))}'s: only its own bus run says so")

    def _owners(self, launch: str) -> set[str]:
        """Whose it is as its resources know, where no gate does: it began under an earlier version."""
        units = (unit for key in self._supervisor.launches.where(launch) for unit in self._units(key))
        return {unit.ticket.agent for unit in units if launch in unit.launches and unit.ticket is not None}

    def _keeper(self, launch: str) -> Identity | None:
        command = self._supervisor.world.gate.commands.get(launch)
        if command is not None:
            return command.keeper
        units = (unit for key in self._supervisor.launches.where(launch) for unit in self._units(key))
        return next((unit.launches[launch].keeper for unit in units if launch in unit.launches), None)

    def _units(self, key: str) -> tuple[Unit, ...]:
        return self._supervisor.world.resource(key).units


def _with_id(admit: Admit, id_: str) -> Admit:
    return msgspec.structs.replace(admit, id=id_)
