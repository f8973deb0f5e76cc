"""Joining: how a name becomes an agent's, bound to what its caller runs under: by JOIN, or with a first message."""

import msgspec

from interlock.coordinator.mail import NoFolder
from interlock.coordinator.session import Session
from interlock.coordinator.supervisor import Supervisor
from interlock.coordinator.world import REGISTRY
from interlock.protocol import control
from interlock.protocol.codes import Code
from interlock.protocol.durations import format_duration
from interlock.protocol.identity import Presence
from interlock.protocol.messages import FromBus, Joined, Refused
from interlock.protocol.registry import Join


class Joining:
    """One per bus."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    async def join(self, session: Session, question: control.JoinBus) -> FromBus:
        """Take in whom a client says that it is. Returns the answer; `session` speaks as that agent from then on."""
        name = question.agent or session.owner or session.worktree.rpartition("/")[2]
        if not name:
            why = "give a name: bus join NAME (outside of a git worktree there is no folder to take it from)"
            return Refused(Code.BAD_MESSAGE, why)
        if session.owner not in {"", name}:
            why = f"this comes through the inbox folder of {session.owner}: it cannot join as {name}"
            return Refused(Code.CAPABILITY_DENIED, why)
        if (denied := self._supervisor.authority.why_not(session, name)) is not None:
            return denied
        joining = self.register(session, name, pid=question.pid, takeover=question.takeover, files=question.files)
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
            session.proof = session.shown  # what it joined with is what it goes on with
        return body

    async def register(
        self, session: Session, name: str, *, pid: int = 0, takeover: bool = False, files: bool = False
    ) -> FromBus:
        """Register a name, bound to what its caller runs under.

        Args:
            name: that it is to have. pid: the process to bind it to; 0: what the caller runs under.
            takeover: even where another that may live has it. files: it uses its inbox folder.
        """
        supervisor = self._supervisor
        bound = session.caller.bind_to(pid) if pid else session.caller.binding(supervisor.config.hosts)
        if takeover and session.claimed:
            return Refused(Code.CAPABILITY_DENIED, "a name is not taken over through a file: do it outside the sandbox")
        if pid == 1:
            return Refused(Code.BAD_MESSAGE, "process 1 is everybody's ancestor: bind to a process of your own")
        if pid and bound is None:
            return Refused(Code.BAD_MESSAGE, f"there is no process {pid} to bind to")
        program = session.program == name
        if program and not pid:
            bound = session.caller.itself()
        known = supervisor.world.registry.living(name)
        presence, ours = Presence.UNKNOWN, False
        if known is not None and known.process is not None:
            presence = supervisor.effects.probe(known.process)
            ours = program and known.process in session.caller.ancestors()
        process, label = bound if bound is not None else (None, "a session of its own" if program else "")
        secret = session.secret if program and process is None else ""
        join = Join(
            name, process, label, session.worktree, takeover, presence,
            session=secret, program=program, ours=ours, idle=not supervisor.resources_of(name), files=files,
        )  # fmt: skip
        body = await supervisor.ask(REGISTRY, lambda id_: msgspec.structs.replace(join, id=id_))
        if isinstance(body, Joined) and not body.bound_to:
            wait = format_duration(3 * supervisor.config.poll_every)
            body = msgspec.structs.replace(body, note=f"if you vanish, others wait up to {wait}")
        return body
