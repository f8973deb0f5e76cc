"""Territories: what agents say of leases, put to the machine of the repository that is meant; and what is shown of it.

    a directory ──▶ its repository ──▶ `territory/<id>`      paths, as they are called ──▶ as the repository has them

Worktrees of a clone have one territory. A second clone has one of its own, unless a trusted file's `repository_id` says
otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from interlock.coordinator.actor import Item
from interlock.coordinator.ground import Ground
from interlock.coordinator.naming import No
from interlock.coordinator.repositories import Place, Repositories
from interlock.coordinator.session import Session
from interlock.coordinator.task_rights import for_task
from interlock.coordinator.territory_views import lease_view, map_of, page_of
from interlock.coordinator.world import TERRITORY
from interlock.protocol import territory_questions as questions
from interlock.protocol.answers import one_line
from interlock.protocol.claim import BadClaim, Claim
from interlock.protocol.codes import Code
from interlock.protocol.lease import Lease
from interlock.protocol.lease_messages import (
    AskLease,
    RenewLease,
    ReturnLease,
    SplitLease,
    ToTerritory,
    TransferLease,
)
from interlock.protocol.limits import (
    LEASE_NAME_CHARACTERS_MAX,
    LEASE_WAIT_MS_MAX,
    LEASES_A_PAGE,
    PAIRS_MAX,
    PURPOSE_CHARACTERS_MAX,
    TERRITORIES_MAX,
)
from interlock.protocol.messages import FromBus, Refused
from interlock.protocol.names import nearest, why_not_commit
from interlock.protocol.registry import Agent
from interlock.protocol.territory_commands import (
    Acquire,
    RecordCommit,
    RecordVerified,
    Renew,
    Return,
    RevokeLease,
    Split,
    TerritoryCommand,
    Transfer,
)
from interlock.protocol.territory_state import Territory
from interlock.protocol.visible import PATH_CHARACTERS, quoted, visible

if TYPE_CHECKING:
    from interlock.coordinator.supervisor import Supervisor

NO_REASON = "say why: its owner reads it, and the log keeps it"
NOT_YET = "L0"  # the id of a lease that is only asked for
Deliver = Callable[..., None]
CAUSES = frozenset(
    {"no_lease", "expired_before_commit", "held_by_other", "outside_range", "released_early", "unknown_agent"}
)


class Territories:
    """One per bus. Args: repositories: which directory is whose. ground: the disk."""

    def __init__(self, supervisor: Supervisor, repositories: Repositories, ground: Ground) -> None:
        self._supervisor = supervisor
        self._repositories = repositories
        self._ground = ground

    # --- what agents say ------------------------------------------------------------------------
    async def hear(self, session: Session, message: ToTerritory, item: Item, deliver: Deliver) -> None:
        """Put one message to its machine.

        Args:
            item: with the message's id, sender, digest and size; what it says to the machine is made here.
            deliver: puts it into a mailbox, and has the answer go to the session.

        Raises:
            No: it names no repository, no path of it, no lease, or no agent.
        """
        agent = self._supervisor.world.registry.agents[item.sender]
        key, command = await self._command(session, message, item, agent)
        answered = await self._turn(message, agent.name, item.id)
        if why := self._why_not(key, command):
            answered()
            raise No(Code.DEADLOCK, why)
        if isinstance(message, AskLease) and message.run:
            self._supervisor.run_waits(item.id, session)
        elif isinstance(message, AskLease) and message.wait_ms:
            self._supervisor.follow(session)
            session.following.add(key)
        deliver(session, key, msgspec.structs.replace(item, command=command), answered=answered)

    async def _turn(self, message: ToTerritory, agent: str, id_: str) -> Callable[[], None]:
        """What may have somebody wait for somebody has its turn. Returns: to be called once it is answered."""
        deadlocks = self._supervisor.deadlocks
        if self._supervisor.is_under_way(id_):
            return _nothing
        if isinstance(message, TransferLease | SplitLease):
            return await deadlocks.alone(message.agent)
        if isinstance(message, AskLease) and message.wait_ms and not message.run:
            return await (deadlocks.alone(agent) if deadlocks.is_compound(agent) else deadlocks.shared())
        return (
            deadlocks.under_way(agent, (TERRITORY,)) if isinstance(message, AskLease) and not message.run else _nothing
        )

    def _why_not(self, key: str, command: TerritoryCommand) -> str:
        """Why agents would wait for each other for ever, if they would."""
        deadlocks, territory = self._supervisor.deadlocks, self._supervisor.world.territory(key)
        match command:
            case Acquire(run=False, wait_ms=wait_ms) if wait_ms and deadlocks.is_compound(command.sender):
                return deadlocks.why_no_lease(
                    key, Lease(NOT_YET, command.sender, command.claims, shared=command.shared)
                )
            case Transfer() | Split() if (given := territory.held.get(command.lease)) is not None:
                return deadlocks.why_no_heir(given, command.to, command.claims if isinstance(command, Split) else ())
        return ""

    async def _command(
        self, session: Session, message: ToTerritory, item: Item, agent: Agent
    ) -> tuple[str, TerritoryCommand]:
        command: TerritoryCommand
        match message:
            case AskLease():
                key, command = await self._acquire(session, message, item.id, agent)
            case SplitLease():
                key, command = await self._split(session, message, item.id, agent)
            case TransferLease(lease, to):
                heir = self._living(to)
                key = self.of(lease)
                command = Transfer(agent.name, item.id, lease, heir.name, heir.incarnation, _is_bound(heir))
            case RenewLease(lease, ttl_ms):
                key, command = self.of(lease), Renew(agent.name, item.id, lease, ttl_ms)
            case ReturnLease(lease):
                key, command = self.of(lease), Return(agent.name, item.id, lease)
        return key, command

    async def _acquire(self, session: Session, ask: AskLease, id_: str, agent: Agent) -> tuple[str, Acquire]:
        if len(ask.name) > LEASE_NAME_CHARACTERS_MAX:
            why = f"the name of a lease has at most {LEASE_NAME_CHARACTERS_MAX} characters, this one {len(ask.name)}"
            raise No(Code.BAD_MESSAGE, why)
        if not 0 <= ask.wait_ms <= LEASE_WAIT_MS_MAX:
            raise No(Code.BAD_MESSAGE, "a lease is waited for 24 hours at most: say a shorter --wait")
        place, base = self.place(session, ask.worktree)
        key = self.key_of(place)
        world = self._supervisor.world
        if key not in world.territories and len(world.territories) >= TERRITORIES_MAX:
            raise No(Code.QUEUE_FULL, f"{TERRITORIES_MAX} repositories have leases on this bus, no more can")
        claims = await self.claims(place, base, ask.claims)
        if ask.task:
            for_task(world, ask.task, agent.name, claims=(key, claims))
        ttl_ms = ask.ttl_ms or self._repositories.territory(place.id).ttl
        process = None
        if ask.bound or ask.run:
            ancestors = session.caller.ancestors()
            process = ancestors[0] if ancestors else None
        return key, Acquire(
            agent.name, agent.incarnation, id_, claims, ask.shared, ask.purpose, ttl_ms, ask.name, ask.wait_ms,
            place.worktree, process, process is None and _is_bound(agent), ask.run, id_ in world.ids, ask.task,
        )  # fmt: skip

    async def _split(self, session: Session, ask: SplitLease, id_: str, agent: Agent) -> tuple[str, Split]:
        key, heir = self.of(ask.lease), self._living(ask.agent)
        lease = self._supervisor.world.territory(key).held.get(ask.lease)
        place, base = self.place(session, session.worktree or (lease.worktree if lease is not None else ""))
        if self.key_of(place) != key:
            raise No(Code.SCOPE_DENIED, f"{ask.lease} is of another repository: say that from one of its worktrees")
        claims = await self.claims(place, base, ask.claims)
        return key, Split(
            agent.name, id_, ask.lease, heir.name, heir.incarnation, claims, ask.ttl_ms, ask.purpose,
            id_ in self._supervisor.world.ids,
        )  # fmt: skip

    # --- what clients ask -------------------------------------------------------------------------
    async def map(self, session: Session, question: questions.AskTerritory) -> questions.TerritoryReply:
        """Who has what, who waits, and where most do."""
        place, base = self.place(session, question.directory)
        within = await self.claims(place, base, (question.path,)) if question.path else ()
        world = self._supervisor.world
        territory = world.territory(self.key_of(place))
        where = visible(place.main or place.worktree)
        return questions.TerritoryReply(await map_of(territory, where, world.seq, self._supervisor.now(), within))

    async def leases(self, session: Session, question: questions.AskLeases) -> questions.LeasesReply:
        """A page of them; with the first, from when on the log tells what became of others."""
        first = await self._supervisor.journal.read(0, 1) if not question.after else []
        log_from_ms = first[0].at_ms if first and first[0].index > 1 else 0
        territory = self._territory(session, question.directory)
        agent = session.agent if question.mine else ""
        found = list(page_of(territory, agent, question.after, LEASES_A_PAGE + 1))
        now = self._supervisor.now()
        page = tuple(lease_view(lease, now) for lease in found[:LEASES_A_PAGE])
        return questions.LeasesReply(page, territory.key, log_from_ms, len(found) > LEASES_A_PAGE)

    async def commit(self, session: Session, question: questions.TellCommit) -> FromBus:
        """A hook says whose a commit is."""
        why_not = why_not_commit(question.commit)
        if why_not is not None:
            return Refused(Code.BAD_MESSAGE, why_not)
        key = self._territory(session, question.directory).key
        return await self._ask(key, lambda id_: RecordCommit(session.agent, id_, question.commit))

    async def verified(self, session: Session, question: questions.TellVerified) -> FromBus:
        """Somebody has verified commits; who does that needs no name."""
        unknown = set(question.violations) - CAUSES
        if unknown:
            return Refused(Code.BAD_MESSAGE, f"{quoted(min(unknown))} is no cause of a violation")
        if not all(
            0 <= each <= PAIRS_MAX for each in (question.pairs, question.unknown, *question.violations.values())
        ):
            return Refused(Code.BAD_MESSAGE, f"pairs are counted from 0 to {PAIRS_MAX}: say how many were judged")
        key = self._territory(session, question.directory).key
        return await self._ask(
            key,
            lambda id_: RecordVerified(
                session.agent or "a verifier", id_, question.pairs, question.violations, question.unknown
            ),
        )

    async def revoke(self, session: Session, question: questions.TakeLease) -> FromBus:
        """A person takes a lease back."""
        because = one_line(question.because, PURPOSE_CHARACTERS_MAX)
        if not because:
            return Refused(Code.BAD_MESSAGE, NO_REASON)
        sender = one_line(question.by) or session.agent or "a person"
        return await self._ask(self.of(question.lease), lambda id_: RevokeLease(sender, id_, question.lease, because))

    async def give(self, session: Session, question: questions.GiveLease) -> FromBus:
        """A person gives a lease to another agent."""
        heir, because = self._living(question.agent), one_line(question.because, PURPOSE_CHARACTERS_MAX)
        if not because:
            return Refused(Code.BAD_MESSAGE, NO_REASON)
        sender = one_line(question.by) or session.agent or "a person"
        key = self.of(question.lease)
        answered = await self._supervisor.deadlocks.alone(heir.name)
        try:
            given = self._supervisor.world.territory(key).held.get(question.lease)
            if given is not None and (why := self._supervisor.deadlocks.why_no_heir(given, heir.name)):
                return Refused(Code.DEADLOCK, why)
            return await self._ask(
                key,
                lambda id_: Transfer(
                    sender, id_, question.lease, heir.name, heir.incarnation, _is_bound(heir), because=because
                ),
            )
        finally:
            answered()

    def key_of(self, place: Place) -> str:
        """The territory of a repository."""
        self._repositories.refresh(place.id)
        return TERRITORY + (self._repositories.territory(place.id).repository_id or place.id)

    def place(self, session: Session, said: str) -> tuple[Place, str]:
        """The repository of a directory, and its real path. Raises No."""
        directory = said if said not in {"", "-"} else session.worktree
        if directory and not directory.startswith("/"):
            why = f"{quoted(directory, PATH_CHARACTERS)} is no absolute directory: LEASE /path/of/the/worktree PATH …"
            raise No(Code.BAD_MESSAGE, why)
        base = self._supervisor.effects.directory(directory) if directory else None
        place = self._repositories.files.place(base) if base is not None else None
        if base is None or place is None:
            what = quoted(directory, PATH_CHARACTERS) if directory else "the current directory"
            raise No(Code.BAD_MESSAGE, f"{what} is in no git repository: leases are of a repository's paths")
        if not self._repositories.is_member(place, place.id):
            why = (
                f"{quoted(place.worktree, PATH_CHARACTERS)} says it is a worktree of a repository that does not know it"
            )
            raise No(Code.SCOPE_DENIED, f"{why}: git worktree repair, or ask from another")
        return place, base

    async def claims(self, place: Place, base: str, texts: tuple[str, ...]) -> tuple[Claim, ...]:
        """Paths as they lie in the repository. Raises No."""
        try:
            return await self._ground.claims(place, base, texts)
        except BadClaim as error:
            raise No(Code.BAD_MESSAGE, str(error)) from None

    # --- straight helpers -------------------------------------------------------------------------
    def _territory(self, session: Session, directory: str) -> Territory:
        return self._supervisor.world.territory(self.key_of(self.place(session, directory)[0]))

    def of(self, lease: str) -> str:
        """The territory that a lease is in, or was. Raises No."""
        for key, territory in self._supervisor.world.territories.items():
            if territory.lease(lease) is not None or lease in territory.ended:
                return key
        raise No(Code.TARGET_ENDED, f"no lease {quoted(lease)} is known: bus leases shows all")

    def _living(self, name: str) -> Agent:
        agents = self._supervisor.world.registry.agents
        found = agents.get(name)
        if found is None or found.gone:
            close = nearest(name, agents) if found is None else []
            hint = f"did you mean {' or '.join(close)}?" if close else "name an agent that is here, see bus agents"
            raise No(Code.UNKNOWN_TARGET, f"no agent {quoted(name)} is here: {hint}")
        return found

    async def _ask(self, key: str, make: Callable[[str], TerritoryCommand]) -> FromBus:
        return await self._supervisor.ask(key, make)


def _nothing() -> None:
    """Nobody waits for the end of it."""


def _is_bound(agent: Agent) -> bool:
    """Something proves when it is gone: its own process, or its connections."""
    return agent.process is not None or bool(agent.session)
