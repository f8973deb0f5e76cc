"""The desk: what clients ask of the bus itself. It reads committed state, and changes only inboxes and the registry."""

import hashlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

import msgspec

from interlock.coordinator import views
from interlock.coordinator.forgetting import forget
from interlock.coordinator.identify import Found, identify
from interlock.coordinator.ids import new_id
from interlock.coordinator.log_care import back_up, verify
from interlock.coordinator.mail import NoFolder
from interlock.coordinator.naming import Names
from interlock.coordinator.repositories import NoRepositories, Repositories
from interlock.coordinator.session import Frame, Session
from interlock.coordinator.store import Copy
from interlock.coordinator.supervisor import Supervisor
from interlock.coordinator.tailing import tail
from interlock.coordinator.tickets import Tickets
from interlock.coordinator.world import INBOX, REGISTRY
from interlock.protocol import control
from interlock.protocol.answers import format_answer, one_line
from interlock.protocol.codes import Code, exit_code
from interlock.protocol.control import Control
from interlock.protocol.envelope import Envelope, Hello, wire_time
from interlock.protocol.identity import Presence
from interlock.protocol.inbox import Ack, Deliver, Letter, state_of
from interlock.protocol.limits import (
    INBOX_BYTES_A_CALL,
    INBOX_MESSAGES_A_CALL,
    NOTICES_A_COMMAND,
    PURPOSE_CHARACTERS_MAX,
)
from interlock.protocol.messages import NEWS, FromBus, Joined, Left, Refused, Text, tag_of
from interlock.protocol.names import why_not_launch
from interlock.protocol.registry import Leave
from interlock.protocol.resource_commands import Admit, Recover, Revoke, Sync
from interlock.protocol.resource_state import UnitState

_controls = msgspec.json.Decoder(Control)


class Joiner(Protocol):
    """The part of the router that the desk needs."""

    def join(
        self, session: Session, name: str, *, pid: int = 0, takeover: bool = False, files: bool = False
    ) -> Awaitable[FromBus]: ...


class Desk:
    """One per bus. Args: version, home: for PING. go_down: called once with whether servers stop too."""

    joiner: Joiner
    copy: Callable[[], Copy]  # where a backup goes

    def __init__(
        self, supervisor: Supervisor, version: str, home: str, go_down: Callable[[bool], None],
        repositories: Repositories | None = None,
    ) -> None:  # fmt: skip
        self._supervisor = supervisor
        self.names = Names(supervisor, repositories or Repositories(NoRepositories(), supervisor.config))
        self.tickets = Tickets(supervisor, self.names)
        self._version = version
        self._home = home
        self._go_down = go_down
        self._told: set[str] = set()  # agents that have heard of the recovery

    def welcome(self, session: Session, hello: Hello) -> control.Welcome:
        """Find out who opens a session, count it as a sign of life, and show unread news."""
        supervisor = self._supervisor
        session.worktree = session.caller.worktree(hello.cwd) if hello.cwd else ""
        found = identify(
            supervisor.world.registry,
            agent=hello.agent or session.owner,
            how="owner of the inbox folder" if session.owner else hello.how or "given",
            ancestors=[] if hello.agent else session.caller.ancestors(),
            worktree=session.worktree,
            user=hello.user,
        )
        if session.owner and found.agent != session.owner:
            why = f"this comes through the inbox folder of {session.owner}: it cannot speak as {found.agent}"
            found = Found(why=why, code=Code.CAPABILITY_DENIED)
        session.agent, session.how = found.agent, found.how
        if supervisor.recovery and found.agent not in self._told:
            self._told.add(found.agent)
            session.notes.append(supervisor.recovery)
        if not found.agent:
            session.nobody = Refused(found.code, found.why)
            exits = int(exit_code(found.code))
            return control.Welcome("", "", 0, found.why, (), supervisor.config.wait, found.code, exits)
        agent = supervisor.world.registry.living(found.agent)
        if agent is None:
            config = supervisor.config
            return control.Welcome(found.agent, found.how, run_wait_ms=config.wait, spare=config.spare)
        session.incarnation = hello.incarnation or agent.incarnation
        supervisor.heard(found.agent)
        notices = self._notices(found.agent) if hello.notices else ()
        return control.Welcome(
            found.agent, found.how, session.incarnation, "", notices, supervisor.config.wait,
            spare=supervisor.config.spare,
        )  # fmt: skip

    def hear(self, session: Session, message_id: str, envelope: Envelope) -> Awaitable[None] | None:
        """Take one question and answer it; what takes a moment is returned, to be awaited."""
        try:
            question = _controls.decode(bytes(envelope.body) or b"{}")
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            self._supervisor.say(session, message_id, Refused(Code.BAD_MESSAGE, f"no question to the bus: {error}"))
            return None
        return self._answerer(question, session, message_id)

    def _answerer(self, question: Control, session: Session, message_id: str) -> Awaitable[None] | None:
        """All branching on questions. Those without a name need none."""

        def say(body: Any) -> None:
            self._say(session, message_id, body)

        match question:
            case _ if session.is_file and _is_a_persons(question):
                why = f"{tag_of(question)} is a person's to say, not a folder's: do it outside the sandbox"
                say(Refused(Code.CAPABILITY_DENIED, why))
            case control.Ping():
                say(control.Pong(self._version, self._supervisor.pid, self._home, recovery=self._supervisor.recovery))
            case control.Verify():
                return verify(self._supervisor.journal, session, say)
            case control.BackUp():
                at_ms = self._supervisor.clock.wall_ms()
                return back_up(self._supervisor.journal, self.copy(), session, at_ms, say)
            case control.AskHealth():
                say(self._health())
            case control.AskStatus(resource):
                say(self._status(session, resource))
            case control.AskAgents():
                say(self._agents())
            case control.Tail():
                key = self.names.resolve(question.resource, session) if question.resource else ""
                if session.reads_log:
                    say(Refused(Code.RESOURCE_BUSY, "this session reads the log already: open another one"))
                else:
                    session.reads_log = True
                    session.asked(message_id)
                    self._supervisor.spawn(self._tail, session, message_id, question, key)
            case control.AskLogs(resource, unit):
                say(self._logs(session, resource, unit))
            case control.GoDown(stop_servers):
                say(control.GoingDown(self._supervisor.pid))
                self._go_down(stop_servers)
            case control.RecoverResource(resource, code):
                return self._recover(session, message_id, resource, code)
            case control.RevokeHold():
                return self._revoke(session, message_id, question)
            case control.ForgetRepository(repository):
                say(forget(self._supervisor, repository))
            case control.JoinBus():
                return self._join(session, message_id, question)
            case control.AskReceipt(id_):
                say(self._receipt(id_))
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
            case control.ReadInbox(last):
                say(self._inbox(session.agent, last))
            case control.AckMessages(ids):
                self._supervisor.heard(session.agent)
                return self._ask(session, message_id, INBOX + session.agent, lambda id_: Ack(ids, id_))
            case control.Wait(resource, follow):
                say(self.tickets.wait(session, resource, follow))
            case control.Check(resource):
                say(self.tickets.check(session, resource))
            case control.ReportEnd(resource, launch):
                return self._report_end(session, message_id, self.names.resolve(resource, session), launch)
            case control.AdmitLaunch(launch=launch) if (why_not := why_not_launch(launch)) is not None:
                say(Refused(Code.BAD_MESSAGE, why_not))
            case control.AdmitLaunch(keeper=keeper) if self._supervisor.effects.probe(keeper) is not Presence.ALIVE:
                why = "the keeper of that command cannot be seen from here: run it on the bus's own machine"
                say(Refused(Code.CAPABILITY_DENIED, why))
            case control.AdmitLaunch(resource, fence, launch, keeper, command):
                sender = session.agent
                return self._ask(
                    session, message_id, self.names.resolve(resource, session),
                    lambda id_: Admit(sender, id_, fence, launch, keeper, command),
                )  # fmt: skip
        return None

    def _is_past(self, session: Session) -> bool:
        """The session speaks for an incarnation that a later one has followed: it changes nothing any more."""
        agent = self._supervisor.world.registry.living(session.agent)
        return agent is not None and 0 < session.incarnation < agent.incarnation

    # --- answers ----------------------------------------------------------------------------
    def status_text(self, session: Session, resource: str) -> Text:
        """The answer to a STATUS message."""
        keys = [self.names.resolve(resource, session)] if resource else self._shown()
        now_ms = self._supervisor.clock.wall_ms()
        shown = [(key, resource or self.names.shown(key, session)) for key in keys]
        lines = [views.summary_line(self.tickets.resource(key), name, now_ms) for key, name in shown]
        return Text("\n".join(lines) or "no resource is declared or in use")

    def _inbox(self, agent: str, last: int) -> control.InboxReply:
        inbox, now_ms = self._supervisor.world.inbox(agent), self._supervisor.clock.wall_ms()
        if last:
            letters = sorted([*inbox.acked.values(), *inbox.unread.values()], key=lambda each: each.at_ms)[-last:]
            return control.InboxReply(tuple(views.letter_view(each, now_ms) for each in letters))
        shown: list[Letter] = []
        size = 0
        for letter in inbox.unread.values():
            size += len(format_answer(letter.body).encode("utf-8", "replace"))
            if shown and (len(shown) == INBOX_MESSAGES_A_CALL or size > INBOX_BYTES_A_CALL):
                break
            shown.append(letter)
        if any(not letter.delivered for letter in shown):
            self._supervisor.tell(INBOX + agent, Deliver(tuple(letter.id for letter in shown)))
        return control.InboxReply(
            tuple(views.letter_view(each, now_ms) for each in shown), len(inbox.unread) - len(shown)
        )

    def _receipt(self, id_: str) -> control.ReceiptReply | Refused:
        for agent, inbox in self._supervisor.world.inboxes.items():
            letter = inbox.find(id_)
            if letter is not None:
                return control.ReceiptReply(id_, agent, state_of(letter), letter)
        return Refused(
            Code.TARGET_ENDED, f"no message {id_} is known here, or it was read long ago: bus tail has the log"
        )

    def _status(self, session: Session, called: str) -> control.StatusReply | Refused:
        keys = [self.names.resolve(called, session)] if called else self._shown()
        config, now_ms = self._supervisor.config, self._supervisor.clock.wall_ms()
        rows = {key: views.status_of(self.tickets.resource(key), key in config.resources, now_ms) for key in keys}
        return control.StatusReply(tuple(row | self.names.about(key, session) for key, row in rows.items()))

    def _agents(self) -> control.AgentsReply:
        world, rows = self._supervisor.world, []
        for agent in world.registry.agents.values():
            holds, waits_for = views.standing(world, agent.name, self._supervisor.resources_of(agent.name))
            presence = "gone" if agent.gone else "unknown"
            if not agent.gone and agent.session:
                presence = "unknown" if agent.name in world.registry.cut else "alive"
            elif not agent.gone and agent.process is not None:
                presence = str(self._supervisor.effects.probe(agent.process))
            rows.append(
                {
                    "agent": agent.name,
                    "presence": presence,
                    "bound_to": agent.bound_to,
                    "worktree": agent.worktree,
                    "incarnation": agent.incarnation,
                    "joined_at": wire_time(agent.joined_ms),
                    "why": agent.why,
                    "holds": holds,
                    "waits_for": waits_for,
                    "unread": len(world.inbox(agent.name).unread),
                }
            )
        return control.AgentsReply(tuple(rows))

    def _health(self) -> control.Health:
        supervisor = self._supervisor
        frozen, launches = supervisor.dispatcher.frozen(), tuple(supervisor.world.launches())
        problem = supervisor.states.problem
        return control.Health(self._version, supervisor.pid, supervisor.recovery, frozen, problem, launches)

    def _logs(self, session: Session, called: str, unit: str) -> control.LogsReply | Refused:
        """The log of the unit that is named, else of the asker's own, else of the only one that has any."""
        keys = [self.names.resolve(called, session)] if called else self._supervisor.resources_of(session.agent)
        what = called or "what you hold"
        for key in keys:
            logs = views.logs_of(self.tickets.resource(key), session.agent, unit)
            if len(logs) > 1:
                return Refused(Code.AMBIGUOUS_TARGET, f"say which: --unit {' or --unit '.join(logs)}", called)
            if logs:
                return control.LogsReply(self._supervisor.effects.log_path(next(iter(logs.values()))))
            what += f" unit {unit}" if unit else ""
        return Refused(Code.TARGET_ENDED, f"nothing runs for {what}: its last log is named in bus tail", called)

    async def _tail(self, session: Session, message_id: str, question: control.Tail, key: str) -> None:
        try:
            await tail(
                self._supervisor.journal, session, question, key, lambda body: self._say(session, message_id, body)
            )
        finally:
            session.reads_log = False
            session.answered(message_id)

    # --- answers that take a moment -----------------------------------------------------------
    async def _join(self, session: Session, message_id: str, question: control.JoinBus) -> None:
        name = question.agent or session.owner or session.worktree.rpartition("/")[2]
        if not name:
            why = "give a name: bus join NAME (outside of a git worktree there is no folder to take it from)"
            self._say(session, message_id, Refused(Code.BAD_MESSAGE, why))
            return
        if session.owner not in {"", name}:
            why = f"this comes through the inbox folder of {session.owner}: it cannot join as {name}"
            self._say(session, message_id, Refused(Code.CAPABILITY_DENIED, why))
            return
        joining = self.joiner.join(session, name, pid=question.pid, takeover=question.takeover, files=question.files)
        if question.session:
            joining = self._supervisor.attendance.join(session, name, question.session, joining)
        body = await joining
        if isinstance(body, Joined) and question.files:
            try:
                body = msgspec.structs.replace(body, folder=self._supervisor.mail.use(name))
            except NoFolder as error:
                body = msgspec.structs.replace(body, note=str(error))
        if isinstance(body, Joined):
            session.agent, session.how, session.incarnation = body.agent, "joined just now", body.incarnation
        self._supervisor.say(session, message_id, body)

    async def _leave(self, session: Session, message_id: str) -> None:
        body = await self._supervisor.ask(REGISTRY, lambda id_: Leave(session.agent, id_))
        if isinstance(body, Left):
            self._supervisor.attendance.left(session)
        self._supervisor.say(session, message_id, body)

    async def _ask(self, session: Session, message_id: str, address: str, make: Callable[[str], Any]) -> None:
        self._supervisor.say(session, message_id, await self._supervisor.ask(address, make))

    async def _report_end(self, session: Session, message_id: str, key: str, launch: str) -> None:
        """Look at what the keeper on record left, and answer once that is decided: our answer means it is over."""
        units = self.tickets.resource(key).units
        holder = next((unit for unit in units if launch in unit.launches), None)
        if holder is not None and holder.ticket is not None and holder.ticket.agent == session.agent:
            gone = await self._supervisor.effects.launch_result(launch, holder.launches[launch].keeper)
            if gone is not None:
                self._supervisor.tell(key, gone)
        await self._ask(session, message_id, key, lambda id_: Sync(id_, session.agent))

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
            await self._ask(session, message_id, key, lambda id_: Recover(id_, sender))

    async def _revoke(self, session: Session, message_id: str, question: control.RevokeHold) -> None:
        because = one_line(question.because, PURPOSE_CHARACTERS_MAX)
        if not because:
            why = "say why: its owner reads it, and the log keeps it"
            self._say(session, message_id, Refused(Code.BAD_MESSAGE, why, question.resource))
            return
        sender = session.agent or one_line(question.by) or "a person"
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

    def _notices(self, agent: str) -> tuple[tuple[str, str, str], ...]:
        unread = self._supervisor.world.inbox(agent).unread.values()
        news = [letter for letter in unread if tag_of(letter.body) in NEWS][:NOTICES_A_COMMAND]
        return tuple((each.id, getattr(each.body, "resource", ""), format_answer(each.body)) for each in news)

    def _shown(self) -> list[str]:
        """Declared resources, and whatever else is in use."""
        used = [key for key, resource in self._supervisor.world.resources.items() if not resource.is_idle()]
        return sorted({*self._supervisor.config.resources, *used})


def _is_a_persons(question: Control) -> bool:
    """It takes from others, or is done to the bus itself: who writes to a folder may be anybody, in any sandbox."""
    match question:
        case control.GoDown() | control.RevokeHold() | control.ForgetRepository() | control.BackUp():
            return True
        case control.RecoverResource(code=code):
            return bool(code)
        case _:
            return False
