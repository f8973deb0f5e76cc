"""The router: one envelope in, one command in the right mailbox, or one sentence that says why not.

It checks what is the same for every message (sender, incarnation, id, rate, names) and nothing of what a
message does: that is the machines' business.
"""

import re
from collections.abc import Awaitable

import msgspec

from interlock.coordinator import rates
from interlock.coordinator.actor import Item
from interlock.coordinator.authority import digest_of
from interlock.coordinator.coordinating import Coordinating
from interlock.coordinator.counting import counts_as, inside_of
from interlock.coordinator.deadlocks import Then
from interlock.coordinator.desk import Desk
from interlock.coordinator.ids import new_id
from interlock.coordinator.naming import No, known_agent
from interlock.coordinator.reading import read, text_of
from interlock.coordinator.repeats import Repeats
from interlock.coordinator.session import Session
from interlock.coordinator.several import Several
from interlock.coordinator.store import NotWritten
from interlock.coordinator.supervisor import Supervisor
from interlock.coordinator.task_rights import for_task
from interlock.coordinator.world import INBOX, resource_of
from interlock.protocol.answers import format_answer
from interlock.protocol.codes import Code
from interlock.protocol.definition import Kind
from interlock.protocol.envelope import Envelope, read_wire_time
from interlock.protocol.grammar import BadText
from interlock.protocol.inbox import Post
from interlock.protocol.lease_messages import ToTerritory
from interlock.protocol.limits import RESOURCES_LIVE_MAX
from interlock.protocol.messages import (
    Cancel,
    Extend,
    FromBus,
    Grant,
    Handover,
    Joined,
    Refused,
    Release,
    Request,
    Sent,
    Status,
)
from interlock.protocol.names import COORDINATOR, RESERVED, SUPERVISOR, why_not_agent
from interlock.protocol.registry import Agent
from interlock.protocol.resource_commands import Mail, MailBody
from interlock.protocol.task_messages import ToTask
from interlock.protocol.visible import PATH_CHARACTERS, quoted

_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.:-]{0,63}")


class Router:
    """One per bus."""

    def __init__(self, supervisor: Supervisor, desk: Desk) -> None:
        self._supervisor = supervisor
        self._desk = desk
        self._names = desk.names
        self._repeats = Repeats(supervisor, desk.tickets)
        self._several = Several(supervisor, desk.names, desk.tickets, self._mail, self._request, self._is_new)
        desk.coordinating = Coordinating(supervisor, desk.names, desk.board, desk.gate, self.hear)
        self._rate = rates.of_agents(supervisor.clock)
        self._pair_rate = rates.of_pairs(supervisor.clock)

    def hear(self, session: Session, envelope: Envelope) -> Awaitable[None] | None:
        """Take one envelope of a session; its answer goes to the session, now or when it is durable.

        Returns:
            None where it is in its mailbox or answered; else what has to be awaited before the next envelope.
        """
        message_id = envelope.id or new_id()
        session.shown = digest_of(envelope.token) or session.proof
        envelope.token = ""  # nobody behind here needs it, and what is not there is in no log
        try:
            if not _ID.fullmatch(message_id):
                raise No(Code.BAD_MESSAGE, "an id has 1 to 64 letters, digits, '_', '.', ':' or '-'")
            if self._supervisor.stopping.is_set():
                raise No(Code.JOURNAL_UNAVAILABLE, "the bus is going down: send it again when it is up")
            if not self._rate.take(_counted_for(session, envelope)):
                raise No(Code.RATE_LIMITED, "more than 1000 messages a second: wait a second, then send again")
            if envelope.to == SUPERVISOR:
                work = self._desk.hear(session, message_id, envelope)
                return None if work is None else self._guarded(session, message_id, work)
            sender = self._sender(session, envelope)
            if (why_not := self._supervisor.authority.why_not(session, sender)) is not None:
                raise No(Code(why_not.code), why_not.why)
            if self._supervisor.world.registry.living(sender) is None:
                return self._guarded(session, message_id, self._join_first(session, envelope, sender, message_id))
            work = self._route(session, envelope, sender, message_id)
            return None if work is None else self._guarded(session, message_id, work)
        except (No, BadText) as no:
            self._say_no(session, message_id, no)
        return None

    async def _guarded(self, session: Session, message_id: str, work: Awaitable[None]) -> None:
        try:
            await work
        except (No, BadText) as no:
            self._say_no(session, message_id, no)

    def _say_no(self, session: Session, message_id: str, no: No | BadText) -> None:
        refusal = no.refusal if isinstance(no, No) else Refused(Code.BAD_MESSAGE, str(no))
        self._supervisor.say(session, message_id, refusal)

    def _route(self, session: Session, envelope: Envelope, sender: str, message_id: str) -> Awaitable[None] | None:
        self._not_of_the_past(session, envelope, sender)
        work = None
        if envelope.to == COORDINATOR:
            work = self._to_coordinator(session, envelope, sender, message_id)
        else:
            self._to_agent(session, envelope, sender, message_id)
        self._supervisor.heard(sender)
        return work

    async def _join_first(self, session: Session, envelope: Envelope, sender: str, message_id: str) -> None:
        """The first message from a new name, or from one that is gone, joins it."""
        body = await self._desk.joining.register(session, sender)
        if isinstance(body, Refused):
            raise No(Code(body.code), body.why)
        if isinstance(body, Joined):
            session.incarnation = body.incarnation
            session.notes.append(format_answer(body))
        work = self._route(session, envelope, sender, message_id)
        if work is not None:
            await work

    # --- who ------------------------------------------------------------------------------
    def _sender(self, session: Session, envelope: Envelope) -> str:
        only = session.owner or session.agent
        sender = envelope.sender or only
        if not sender:
            raise No(Code(session.nobody.code), session.nobody.why)
        if sender.lower() in RESERVED:
            raise No(Code.CAPABILITY_DENIED, f"nothing but the bus may speak as {quoted(sender)}: use your own name")
        if only and sender != only:
            raise No(Code.CAPABILITY_DENIED, f"this session is {only}'s: it cannot speak as {quoted(sender)}")
        return sender

    def _not_of_the_past(self, session: Session, envelope: Envelope, sender: str) -> None:
        """A message that carries an older incarnation changes nothing."""
        meant = envelope.incarnation or session.incarnation
        agent = self._supervisor.world.registry.living(sender)
        if meant and agent is not None and meant < agent.incarnation:
            why = f"that was incarnation {meant} of {sender}, which is gone; now it is {agent.incarnation}: bus me"
            raise No(Code.TARGET_ENDED, why)

    # --- to agents --------------------------------------------------------------------------
    def _to_agent(self, session: Session, envelope: Envelope, sender: str, message_id: str) -> None:
        to = self._known(envelope.to).name
        text = " ".join(envelope.args) if envelope.args is not None else envelope.text
        if text is None and bytes(envelope.body):
            text = text_of(envelope.body)
        if not text or "\0" in text:
            raise No(Code.BAD_MESSAGE, f"the message {'holds a NUL' if text else 'is empty'}: send an agent a text")
        if not self._pair_rate.take(f"{sender}>{to}"):
            raise No(Code.RATE_LIMITED, f"more than 10 messages a second to {to}: wait a second, then send again")
        content = text.encode("utf-8", "surrogatepass")
        digest = self._repeats.digest(message_id, f"{sender}>{to}", content)
        if message_id in self._supervisor.world.ids and self._supervisor.world.inbox(to).find(message_id) is None:
            self._supervisor.say(session, message_id, Sent(to, message_id, "acked"))  # read so long ago that it is gone
            return
        post = Post(sender, message_id, text, envelope.reply_to)
        item = Item(post, message_id, sender, digest, len(content))
        self._deliver(session, INBOX + to, item)

    def _known(self, name: str) -> Agent:
        """An agent that ever joined."""
        return known_agent(self._supervisor.world.registry.agents, name)

    def _living(self, name: str) -> Agent:
        agent = self._known(name)
        if agent.gone:
            raise No(Code.UNKNOWN_TARGET, f"{name} is gone ({agent.why}): name an agent that is here, see bus agents")
        return agent

    # --- to the coordinator -------------------------------------------------------------------
    def _to_coordinator(
        self, session: Session, envelope: Envelope, sender: str, message_id: str
    ) -> Awaitable[None] | None:
        message = read(envelope)
        content = msgspec.json.encode(message)
        digest = self._repeats.digest(message_id, f"{sender}>{COORDINATOR}", content)
        if isinstance(message, Status):
            self._supervisor.say(session, message_id, self._desk.board.status_text(session, message.resource))
            return None
        if isinstance(message, ToTerritory):
            item = Item(message, message_id, sender, digest, len(content))
            return self._desk.territories.hear(session, message, item, self._deliver)
        if isinstance(message, ToTask):
            item = Item(message, message_id, sender, digest, len(content))
            return self._desk.tasks.hear(session, message, item, self._deliver)
        if isinstance(message, Grant) and session.claimed:
            raise No(Code.CAPABILITY_DENIED, "a file cannot carry GRANT, for it only says whose it is: use bus send")
        if isinstance(message, Grant):
            self._grant(session, message, sender, Item(message, message_id, sender, digest, len(content)))
            return None
        sent_ms = read_wire_time(envelope.at) if envelope.at else 0
        message, several = self._several.divide(message, session, sender)
        if several:
            item = Item(None, message_id, sender, digest, len(content))
            return self._several.hear(session, message, several, item, sent_ms)
        key = ""
        if isinstance(message, Extend) and not message.resource:
            message, key = self._names.extended(message, sender)
        if isinstance(message, Request) and not message.resource:
            raise No(Code.BAD_MESSAGE, "the resource is empty: name one, see bus status")
        called = message.resource
        if not called:
            called, key = self._names.the_only_one(message, sender)
        elif not key:
            given = message.worktree if isinstance(message, Request) else ""
            key = self._names.resolve(called, session, sender=sender, worktree=given)
        body = msgspec.structs.replace(message, resource=key)
        if isinstance(body, Request):
            body = self._request(body, called, session, sender, message_id)
        again = message_id in self._supervisor.world.ids
        if again and (answer := self._repeats.what_became(message_id, sender, called, body)) is not None:
            self._supervisor.say(session, message_id, answer)
            return None
        mail = self._mail(session, body, sender, message_id, called, sent_ms)
        if isinstance(body, Request) and body.run:
            self._supervisor.run_waits(message_id, session)
        if isinstance(body, Request) and not self._supervisor.world.has_room_for(key):
            raise No(Code.QUEUE_FULL, f"{RESOURCES_LIVE_MAX} resources are in use, no more can be: release some")
        item = Item(mail, message_id, sender, digest, len(content))
        deadlocks = self._supervisor.deadlocks
        may_wait = isinstance(body, Request) and body.queue and not body.run
        if may_wait and deadlocks.is_compound(sender, (key,)) and not self._supervisor.is_under_way(message_id):
            return self._ask_alone(session, key, item)
        if isinstance(body, Request) and not self._supervisor.states.covers(key):
            begun = deadlocks.under_way(sender, (key,)) if not body.run else None
            return self._cover_first(session, key, item, begun)
        self._supervisor.define_if_new(key)
        begun = deadlocks.under_way(sender, (key,)) if isinstance(body, Request) and not body.run else None
        self._deliver(session, key, item, urgent=isinstance(body, Release | Extend | Cancel), answered=begun)
        return None

    def _grant(self, session: Session, grant: Grant, sender: str, item: Item) -> None:
        """A GRANT names a ticket: it goes to the resource that has it, which knows who may say so."""
        supervisor = self._supervisor
        if not supervisor.may_control(session, sender):
            how = supervisor.authority.how_to_control(sender)
            raise No(Code.CAPABILITY_DENIED, f"{sender} may not grant: {how}")
        key = resource_of(supervisor.world, grant.request_id)
        if key is None:
            why = f"no ticket {quoted(grant.request_id)} waits or is held: bus status shows who waits"
            raise No(Code.TARGET_ENDED, why)
        incarnation = supervisor.world.registry.agents[sender].incarnation
        called = self._names.shown(key, session)
        mail = Mail(sender, incarnation, item.id, grant, called, may_control=True)
        self._deliver(session, key, msgspec.structs.replace(item, command=mail))

    async def _ask_alone(self, session: Session, key: str, item: Item) -> None:
        """Who has something else could close a circle: nothing comes between the look and the record."""
        deadlocks = self._supervisor.deadlocks
        answered = await deadlocks.alone(item.sender)
        if why := deadlocks.why_not(item.sender, (key,)):
            answered()
            raise No(Code.DEADLOCK, why)
        await self._cover_first(session, key, item, answered)

    async def _cover_first(self, session: Session, key: str, item: Item, answered: Then | None = None) -> None:
        """Nobody is queued for what has no state file: were the database lost, nothing would tell that it is held."""
        try:
            if not self._supervisor.states.covers(key):
                await self._supervisor.states.cover(key)
        except NotWritten as error:
            if answered is not None:
                answered()
            raise No(Code.JOURNAL_UNAVAILABLE, f"the bus cannot write ({error}): nothing was changed") from None
        self._supervisor.define_if_new(key)
        self._deliver(session, key, item, answered=answered)

    def _request(self, body: Request, called: str, session: Session, sender: str, message_id: str) -> Request:
        """What only the world can say of a request: its directory, and who stands behind a `bus run`."""
        if body.worktree != "-" and not body.worktree.startswith("/"):
            there = quoted(body.worktree, PATH_CHARACTERS)
            why = f"{there} is no absolute directory: REQUEST {called} - WHAT FOR, where no worktree matters"
            raise No(Code.BAD_MESSAGE, why)
        real = self._supervisor.effects.directory(body.worktree) if body.worktree != "-" else "-"
        key = body.resource
        if self._supervisor.config.definition(key).kind is not Kind.LOCK and (real is None or real == "-"):
            there = quoted(body.worktree, PATH_CHARACTERS)
            raise No(
                Code.BAD_MESSAGE,
                f"{called} runs from a worktree: {there} is no existing absolute directory; "
                f"say REQUEST {called} /path/of/the/worktree WHY, or in a shell cd there first",
            )
        if body.task:
            for_task(self._supervisor.world, body.task, sender, resource=key)
        ancestors = session.caller.ancestors() if body.run or body.attended else []
        worktree = self._names.may_ask(key, called, session, sender, message_id, real or body.worktree)
        process = ancestors[0] if ancestors else None
        return msgspec.structs.replace(body, worktree=worktree, process=process)

    def _mail(self, session: Session, body: MailBody, sender: str, message_id: str, called: str, sent_ms: int) -> Mail:
        """A message to a resource, with what only the world can say of its sender."""
        agent = self._supervisor.world.registry.agents[sender]
        heir = self._living(body.agent).incarnation if isinstance(body, Handover) else 0
        also: tuple[str, ...] = ()
        if isinstance(body, Request):
            inside = inside_of(self._supervisor, session, sender)
            judged = body.run or bool(self._supervisor.world.gate.policies)  # else its own process says enough
            also = counts_as(self._supervisor, session, sender, inside, above=judged)
        return Mail(sender, agent.incarnation, message_id, body, called, sent_ms, heir, also)

    def _is_new(self, session: Session, item: Item, answered: Then | None = None) -> bool:
        """Nobody waits for the answer to that message yet; who does hears it, and so does this session.

        Args: answered: called then, too.
        """
        supervisor = self._supervisor

        def hear(body: FromBus) -> None:
            if answered is not None:
                answered()
            supervisor.say(session, item.id, body)

        session.asked(item.id)
        return supervisor.expect(item.id, hear, item.digest)

    def _deliver(
        self, session: Session, address: str, item: Item, *, urgent: bool = False, answered: Then | None = None
    ) -> None:
        supervisor = self._supervisor
        if not self._is_new(session, item, answered):
            return  # The same id is under way: its answer goes to both.
        if not supervisor.tell(address, None, item=item, urgent=urgent):
            full = Refused(Code.QUEUE_FULL, f"the mailbox of {address} is full: try again")
            supervisor.answer(item.id, item.sender, full)


def _counted_for(session: Session, envelope: Envelope) -> str:
    """Whom the session can speak as: what it says in another's name may not use that one's share up.

    What is no name is not remembered: it may be as long as a line.
    """
    only = session.owner or session.agent
    named = envelope.sender if why_not_agent(envelope.sender) is None else ""
    return only or named or f"session {id(session)}"
