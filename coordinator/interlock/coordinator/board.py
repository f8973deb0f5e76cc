"""The board: what the bus shows of itself to whoever asks. It reads committed state, and changes nothing but that a
letter which was shown counts as delivered."""

from interlock.coordinator import views
from interlock.coordinator.gate_desk import governed_view
from interlock.coordinator.naming import Names
from interlock.coordinator.presence import presence_of
from interlock.coordinator.session import Session
from interlock.coordinator.supervisor import Supervisor
from interlock.coordinator.tickets import Tickets
from interlock.coordinator.world import INBOX
from interlock.protocol import control
from interlock.protocol.answers import format_answer
from interlock.protocol.codes import Code
from interlock.protocol.envelope import wire_time
from interlock.protocol.inbox import Deliver, Letter, state_of
from interlock.protocol.inbox import since as letters_since
from interlock.protocol.limits import INBOX_BYTES_A_CALL, INBOX_MESSAGES_A_CALL
from interlock.protocol.messages import Refused, Text
from interlock.protocol.names import COORDINATOR
from interlock.protocol.visible import quoted


class Board:
    """One per bus. Args: version: of this program."""

    def __init__(self, supervisor: Supervisor, names: Names, tickets: Tickets, version: str) -> None:
        self._supervisor = supervisor
        self._names = names
        self._tickets = tickets
        self._version = version

    def status_text(self, session: Session, resource: str) -> Text:
        """The answer to a STATUS message."""
        keys = [self._names.resolve(resource, session)] if resource else self.shown()
        now_ms = self._supervisor.clock.wall_ms()
        shown = [(key, resource or self._names.shown(key, session)) for key in keys]
        lines = [views.summary_line(self._tickets.resource(key), name, now_ms) for key, name in shown]
        return Text("\n".join(lines) or "no resource is declared or in use")

    def inbox(self, agent: str, last: int, since: int = -1) -> control.InboxReply:
        """An agent's unread letters, as many as an answer holds; `last`: so many of any, read or not.

        Args: since: instead, those that came after the letter of this number, read or not.
        """
        inbox, now_ms = self._supervisor.world.inbox(agent), self._supervisor.clock.wall_ms()
        if last:
            letters = sorted([*inbox.acked.values(), *inbox.unread.values()], key=lambda each: each.at_ms)[-last:]
            return control.InboxReply(tuple(views.letter_view(each, now_ms) for each in letters))
        shown: list[Letter] = []
        size = 0
        letters = list(inbox.unread.values()) if since < 0 else letters_since(inbox, since)
        for letter in letters:
            size += len(format_answer(letter.body).encode("utf-8", "replace"))
            if shown and (len(shown) == INBOX_MESSAGES_A_CALL or size > INBOX_BYTES_A_CALL):
                break
            shown.append(letter)
        if any(not letter.delivered and not letter.acked_ms for letter in shown):
            self._supervisor.tell(INBOX + agent, Deliver(tuple(letter.id for letter in shown)))
        return control.InboxReply(tuple(views.letter_view(each, now_ms) for each in shown), len(letters) - len(shown))

    def receipt(self, id_: str) -> control.ReceiptReply | Refused:
        """What became of a message: how far it has come to an agent, or that it was taken in. Args: id_: of it."""
        for agent, inbox in self._supervisor.world.inboxes.items():
            letter = inbox.find(id_)
            if letter is not None:
                return control.ReceiptReply(id_, agent, state_of(letter), letter)
        if id_ in self._supervisor.world.ids or self._supervisor.is_under_way(id_):
            return control.ReceiptReply(id_, COORDINATOR, "taken")
        why = f"no message {quoted(id_)} is known here, or it was read long ago: bus tail has the log"
        return Refused(Code.TARGET_ENDED, why)

    def status(self, session: Session, called: str) -> control.StatusReply | Refused:
        """One resource, by the name that it is called, or all that are shown."""
        keys = [self._names.resolve(called, session)] if called else self.shown()
        config, now_ms = self._supervisor.config, self._supervisor.clock.wall_ms()
        rows = {key: views.status_of(self._tickets.resource(key), key in config.resources, now_ms) for key in keys}
        return control.StatusReply(
            tuple(
                row | governed_view(self._supervisor, key) | self._names.about(key, session)
                for key, row in rows.items()
            )
        )

    def agents(self) -> control.AgentsReply:
        """Every agent that is known, what it has, and what it waits for."""
        world, rows = self._supervisor.world, []
        for agent in world.registry.agents.values():
            holds, waits_for = views.standing(world, agent.name, self._supervisor.resources_of(agent.name))
            rows.append(
                {
                    "agent": agent.name,
                    "presence": str(presence_of(self._supervisor, agent)),
                    "state": "waiting_resource" if waits_for else "holding" if holds else "idle",
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

    def health(self) -> control.Health:
        """How the bus itself is."""
        supervisor = self._supervisor
        frozen, launches = supervisor.dispatcher.frozen(), tuple(dict.fromkeys(supervisor.world.launches()))
        problem = supervisor.states.problem
        return control.Health(
            self._version, supervisor.pid, supervisor.recovery, frozen, problem, launches, supervisor.counts()
        )

    def logs(self, session: Session, called: str, unit: str) -> control.LogsReply | Refused:
        """The log of the unit that is named, else of the asker's own, else of the only one that has any."""
        keys = [self._names.resolve(called, session)] if called else self._supervisor.resources_of(session.agent)
        what = called or "what you hold"
        for key in keys:
            logs = views.logs_of(self._tickets.resource(key), session.agent, unit)
            if len(logs) > 1:
                return Refused(Code.AMBIGUOUS_TARGET, f"say which: --unit {' or --unit '.join(logs)}", called)
            if logs:
                return control.LogsReply(self._supervisor.effects.log_path(next(iter(logs.values()))))
            what += f" unit {quoted(unit)}" if unit else ""
        return Refused(Code.TARGET_ENDED, f"nothing runs for {what}: its last log is named in bus tail", called)

    def shown(self) -> list[str]:
        """Keys of declared resources, and of whatever else is in use."""
        used = [key for key, resource in self._supervisor.world.resources.items() if not resource.is_idle()]
        return sorted({*self._supervisor.config.resources, *used})
