"""The desk: what clients ask of the bus itself. It reads committed state, and changes only inboxes and the registry."""

import hashlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from interlock.coordinator.admission import Admission
from interlock.coordinator.authority import digest_of
from interlock.coordinator.board import Board
from interlock.coordinator.coordinating import Coordinating
from interlock.coordinator.forgetting import forget
from interlock.coordinator.gate_desk import GateDesk
from interlock.coordinator.ground import Ground, NoGround
from interlock.coordinator.identify import Found, identify
from interlock.coordinator.ids import new_id
from interlock.coordinator.joining import Joining
from interlock.coordinator.log_care import back_up, verify
from interlock.coordinator.naming import Names
from interlock.coordinator.owners import owners
from interlock.coordinator.repositories import NoRepositories, Repositories
from interlock.coordinator.session import Frame, Session
from interlock.coordinator.store import Copy
from interlock.coordinator.supervisor import Supervisor
from interlock.coordinator.tailing import tail
from interlock.coordinator.task_desk import TaskDesk
from interlock.coordinator.tasks import Tasks
from interlock.coordinator.territories import Territories
from interlock.coordinator.tickets import Tickets
from interlock.coordinator.world import INBOX, REGISTRY
from interlock.protocol import control, gate_questions, task_questions, territory_questions
from interlock.protocol.answers import format_answer, one_line
from interlock.protocol.codes import Code, exit_code
from interlock.protocol.control import Control
from interlock.protocol.envelope import Envelope, Hello, wire_time
from interlock.protocol.inbox import Ack
from interlock.protocol.limits import (
    NOTICES_A_COMMAND,
    PURPOSE_CHARACTERS_MAX,
)
from interlock.protocol.messages import NEWS, FromBus, Left, Refused, Released, tag_of
from interlock.protocol.profiles import DAEMONS
from interlock.protocol.registry import Leave
from interlock.protocol.resource_commands import Recover, Revoke
from interlock.protocol.resource_state import UnitState
from interlock.protocol.visible import one_sentence

_controls = msgspec.json.Decoder(Control)


class Desk:
    """One per bus. Args: version, home: for PING. go_down: called once with whether servers stop too."""

    copy: Callable[[], Copy]  # where a backup goes
    coordinating: Coordinating  # made by the router, through which its messages go

    def __init__(
        self, supervisor: Supervisor, version: str, home: str, go_down: Callable[[bool], None],
        repositories: Repositories | None = None, ground: Ground | None = None,
    ) -> None:  # fmt: skip
        self._supervisor = supervisor
        repositories = repositories or Repositories(NoRepositories(), supervisor.config)
        self.names = Names(supervisor, repositories)
        ground = ground or NoGround()
        self.territories = Territories(supervisor, repositories, ground)
        self.tasks = Tasks(supervisor, self.names, self.territories, ground)
        self._task_desk = TaskDesk(supervisor, ground)
        self.tickets = Tickets(supervisor, self.names)
        self._version = version
        self._home = home
        self._go_down = go_down
        self.joining = Joining(supervisor)
        self.board = Board(supervisor, self.names, self.tickets, version)
        self.admission = Admission(supervisor, self.names, self.territories)
        self.gate = GateDesk(supervisor, self.names)
        self._is_replaying = False
        self._told: set[str] = set()  # agents that have heard of the recovery

    def welcome(self, session: Session, hello: Hello) -> control.Welcome:
        """Find out who opens a session, count it as a sign of life, and show unread news."""
        supervisor = self._supervisor
        session.worktree = session.caller.worktree(hello.cwd) if hello.cwd else ""
        session.proof = session.shown = digest_of(hello.token)
        hello.token = ""  # nobody behind here needs it, and what is not there is in no log
        by_token = "" if hello.agent or session.owner else supervisor.authority.agent_of(session)
        found = identify(
            supervisor.world.registry,
            agent=hello.agent or session.owner or by_token,
            how="owner of the inbox folder" if session.owner else "by your token" if by_token else hello.how or "given",
            ancestors=[] if hello.agent else session.caller.ancestors(),
            worktree=session.worktree,
            user=hello.user,
            run=hello.run,
            unnumbered=hello.unnumbered,
        )
        if session.owner and found.agent != session.owner:
            why = f"this comes through the inbox folder of {session.owner}: it cannot speak as {found.agent}"
            found = Found(why=why, code=Code.CAPABILITY_DENIED)
        why_not = supervisor.authority.why_not(session, found.agent) if found.agent else None
        if why_not is not None:
            found = Found(why=why_not.why, code=Code.CAPABILITY_DENIED)
        session.agent, session.how = found.agent, found.how
        if supervisor.recovery and found.agent not in self._told and supervisor.world.is_in_doubt():
            self._told.add(found.agent)
            session.notes.append(supervisor.recovery)
        if not found.agent:
            session.nobody = Refused(found.code, found.why)
            exits = int(exit_code(found.code))
            return control.Welcome("", "", 0, found.why, (), supervisor.config.wait, found.code, exits)
        agent = supervisor.world.registry.living(found.agent)
        if agent is None:
            return control.Welcome(
                found.agent, found.how, run_wait_ms=supervisor.config.wait, spare=self._spare(),
                builds=self.names.builds(session), reservation_ms=supervisor.config.reservation,
            )  # fmt: skip
        session.incarnation = hello.incarnation or agent.incarnation
        supervisor.heard(found.agent)
        notices = self._notices(found.agent) if hello.notices else ()
        return control.Welcome(
            found.agent, found.how, session.incarnation, "", notices, supervisor.config.wait,
            spare=self._spare(), builds=self.names.builds(session), reservation_ms=supervisor.config.reservation,
        )  # fmt: skip

    def hear(self, session: Session, message_id: str, envelope: Envelope) -> Awaitable[None] | None:
        """Take one question and answer it; what takes a moment is returned, to be awaited."""
        try:
            question = _controls.decode(bytes(envelope.body) or b"{}")
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            self._supervisor.say(
                session, message_id, Refused(Code.BAD_MESSAGE, f"no question to the bus: {one_sentence(str(error))}")
            )
            return None
        return self._answerer(question, session, message_id)

    def _answerer(self, question: Control, session: Session, message_id: str) -> Awaitable[None] | None:
        """All branching on questions. Those without a name need none."""

        def say(body: Any) -> None:
            self._say(session, message_id, body)

        if (why_not := self._supervisor.authority.why_not_ask(session, question)) is not None:
            say(why_not)
            return None
        match question:
            case _ if session.is_file and _is_a_persons(question):
                why = f"{tag_of(question)} is a person's to say, not a folder's: do it outside the sandbox"
                say(Refused(Code.CAPABILITY_DENIED, why))
            case control.Ping():
                say(control.Pong(self._version, self._supervisor.pid, self._home, recovery=self._supervisor.recovery))
            case control.Verify(replay):
                return self._verify(session, replay, say)
            case control.BackUp():
                at_ms = self._supervisor.clock.wall_ms()
                return back_up(self._supervisor.journal, self.copy(), session, at_ms, say)
            case control.AskHealth():
                say(self.board.health())
            case control.AskStatus(resource):
                say(self.board.status(session, resource))
            case control.AskAgents():
                say(self.board.agents())
            case control.Tail():
                key = self.names.actor(question.resource, session) if question.resource else ""
                if session.reads_log:
                    say(Refused(Code.RESOURCE_BUSY, "this session reads the log already: open another one"))
                else:
                    session.reads_log = True
                    session.asked(message_id)
                    self._supervisor.spawn(self._tail, session, message_id, question, key)
            case control.AskLogs(resource, unit):
                say(self.board.logs(session, resource, unit))
            case control.GoDown(stop_servers):
                say(control.GoingDown(self._supervisor.pid))
                self._go_down(stop_servers)
            case control.RecoverResource(resource, code):
                return self._recover(session, message_id, resource, code)
            case gate_questions.AskPolicies():
                say(self.gate.policies(session, question))
            case gate_questions.AskCommands():
                say(self.gate.commands())
            case gate_questions.AskOwners():
                say(owners(self._supervisor.world))
            case gate_questions.RecoverLaunch():
                return self._when_known(say, self.gate.recover(session, question))
            case territory_questions.AskTerritory():
                return self._when_known(say, self.territories.map(session, question))
            case territory_questions.AskLeases(mine=False):
                return self._when_known(say, self.territories.leases(session, question))
            case territory_questions.TakeLease():
                return self._when_known(say, self.territories.revoke(session, question))
            case territory_questions.GiveLease():
                return self._when_known(say, self.territories.give(session, question))
            case territory_questions.TellVerified():
                return self._when_known(say, self.territories.verified(session, question))
            case task_questions.AskTasks(mine=False):
                say(self._task_desk.tasks(session, question))
            case task_questions.AskTask():
                return self._when_known(say, self._task_desk.task(question))
            case control.RevokeHold():
                return self._revoke(session, message_id, question)
            case control.ForgetRepository(repository):
                say(forget(self._supervisor, repository))
            case control.JoinBus():
                return self._join(session, message_id, question)
            case control.AskReceipt(id_):
                say(self.board.receipt(id_))
            case _ if not session.agent:
                say(session.nobody)
            case _ if self._is_past(session):
                why = f"that was an earlier incarnation of {session.agent}, which is gone: bus me"
                say(Refused(Code.TARGET_ENDED, why))
            case control.AskMe():
                say(self.tickets.me(session))
            case control.LeaveBus(session=True) if not self._supervisor.attendance.is_last(session):
                say(Left(session.agent, "its life does not hang on this connection"))
            case control.LeaveBus():
                return self._leave(session, message_id)
            case control.ReadInbox(last, since):
                say(self.board.inbox(session.agent, last, since))
            case control.AckMessages(ids):
                self._supervisor.heard(session.agent)
                return self._ask(session, message_id, INBOX + session.agent, lambda id_: Ack(ids, id_))
            case control.Wait(resource, follow):
                say(self.tickets.wait(session, resource, follow))
            case control.Check(resource):
                say(self.tickets.check(session, resource))
            case task_questions.AskTasks():
                say(self._task_desk.tasks(session, question))
            case territory_questions.AskLeases():
                return self._when_known(say, self.territories.leases(session, question))
            case territory_questions.TellCommit():
                return self._when_known(say, self.territories.commit(session, question))
            case gate_questions.AskCover():
                say(self.admission.cover(session, question))
            case gate_questions.AdmitLaunch():
                return self._when_known(say, self.admission.admit(session, question))
            case gate_questions.ReportStart():
                say(self.admission.began(session, question))
            case gate_questions.ReportEnd():
                return self._when_known(say, self.admission.ended(session, question))
            case gate_questions.Coordinate(request):
                return self._when_known(say, self.coordinating.answer(session, request))
            case gate_questions.SetController():
                return self._when_known(say, self.gate.set_policy(session, question))
        return None

    def _is_past(self, session: Session) -> bool:
        """The session speaks for an incarnation that a later one has followed: it changes nothing any more."""
        agent = self._supervisor.world.registry.living(session.agent)
        return agent is not None and 0 < session.incarnation < agent.incarnation

    # --- answers that take a moment -----------------------------------------------------------
    async def _verify(self, session: Session, replay: bool, say: Callable[[Any], None]) -> None:
        if replay and self._is_replaying:  # each holds a world of its own
            why = "the log is being replayed for somebody else: ask again when that is done"
            say(Refused(Code.RESOURCE_BUSY, why))
            return
        journal, self._is_replaying = self._supervisor.journal, self._is_replaying or replay
        try:
            await verify(journal, say, lambda: journal.world, session.closed.is_set, replay=replay)
        finally:
            self._is_replaying = self._is_replaying and not replay

    async def _tail(self, session: Session, message_id: str, question: control.Tail, key: str) -> None:
        try:
            await tail(
                self._supervisor.journal, session, question, key, lambda body: self._say(session, message_id, body)
            )
        finally:
            session.reads_log = False
            session.answered(message_id)

    async def _join(self, session: Session, message_id: str, question: control.JoinBus) -> None:
        self._supervisor.say(session, message_id, await self.joining.join(session, question))

    async def _leave(self, session: Session, message_id: str) -> None:
        body = await self._supervisor.ask(REGISTRY, lambda id_: Leave(session.agent, id_))
        if isinstance(body, Left):
            self._supervisor.attendance.left(session)
        self._supervisor.say(session, message_id, body)

    async def _ask(self, session: Session, message_id: str, address: str, make: Callable[[str], Any]) -> None:
        self._supervisor.say(session, message_id, await self._supervisor.ask(address, make))

    async def _when_known(self, say: Callable[[Any], None], answer: Awaitable[Any]) -> None:
        say(await answer)

    async def _recover(self, session: Session, message_id: str, called: str, code: str) -> None:
        """First the evidence and a code that names it; with that code, a person's word that the old use has ended."""
        key = self.names.resolve(called, session)
        resource = self.tickets.resource(key)
        doubtful = [unit for unit in resource.units if unit.state is UnitState.RECOVERY_REQUIRED]
        why = tuple(f"unit {unit.name}: {unit.why}" if unit.name else unit.why for unit in doubtful)
        expected = hashlib.blake2b("\0".join((key, *why)).encode(), digest_size=3).hexdigest()
        if not why:
            self._say(session, message_id, Refused(Code.TARGET_ENDED, f"{called} needs no recovery", called))
        elif code != expected:
            self._say(session, message_id, control.EvidenceReply(called, why, expected))
        else:
            sender = session.agent or "a person"
            body = await self._supervisor.ask(key, lambda id_: Recover(id_, sender))
            if isinstance(body, Released):
                await self.gate.recovered(sender, key)
            self._say(session, message_id, body)

    async def _revoke(self, session: Session, message_id: str, question: control.RevokeHold) -> None:
        because = one_line(question.because, PURPOSE_CHARACTERS_MAX)
        if not because:
            why = "say why: its owner reads it, and the log keeps it"
            self._say(session, message_id, Refused(Code.BAD_MESSAGE, why, question.resource))
            return
        sender = one_line(question.by) or session.agent or "a person"
        key = self.names.resolve(question.resource, session)
        make = partial(Revoke, sender=sender, because=because, unit=question.unit, holder=question.holder)
        await self._ask(session, message_id, key, make)

    # --- straight helpers -------------------------------------------------------------------
    def _say(self, session: Session, message_id: str, body: Any) -> None:
        """Answer with facts; the exit code is that of a refusal, else 0."""
        if isinstance(body, FromBus):
            self._supervisor.say(session, message_id, body)
            return
        notes = tuple(session.notes)
        session.notes.clear()
        now = wire_time(self._supervisor.clock.wall_ms())
        code = exit_code(body.code) if isinstance(body, Refused) else 0
        session.push(Frame(new_id(), "supervisor", session.agent, now, body, message_id, "", code, notes))

    def _spare(self) -> tuple[tuple[str, ...], ...]:
        """What the tree of a `bus run` may leave behind: what builds leave, and what the configuration adds."""
        return (*DAEMONS, *(each for each in self._supervisor.config.spare if each not in DAEMONS))

    def _notices(self, agent: str) -> tuple[tuple[str, str, str], ...]:
        unread = self._supervisor.world.inbox(agent).unread.values()
        news = [letter for letter in unread if tag_of(letter.body) in NEWS][:NOTICES_A_COMMAND]
        return tuple((each.id, getattr(each.body, "resource", ""), format_answer(each.body)) for each in news)


def _is_a_persons(question: Control) -> bool:
    """It takes from others, or is done to the bus itself: who writes to a folder may be anybody, in any sandbox."""
    match question:
        case control.GoDown() | control.RevokeHold() | control.ForgetRepository() | control.BackUp():
            return True
        case territory_questions.TakeLease() | territory_questions.GiveLease():
            return True
        case control.RecoverResource(code=code) | gate_questions.RecoverLaunch(code=code):
            return bool(code)
        case _:
            return False
