"""Naming: which resource is meant by what an agent wrote, and which one where it wrote none. Source: contract §1."""

import re

import msgspec

from interlock.coordinator.config import Config
from interlock.coordinator.repositories import Place, Repositories
from interlock.coordinator.session import Session
from interlock.coordinator.supervisor import Supervisor
from interlock.coordinator.world import TASK, TERRITORY
from interlock.protocol.agents import Agents
from interlock.protocol.codes import Code
from interlock.protocol.grammar import split_resource
from interlock.protocol.messages import Cancel, Extend, Refused, ToCoordinator
from interlock.protocol.names import is_key, is_repository_id, nearest, short_name, why_not_resource, why_not_task
from interlock.protocol.registry import Agent
from interlock.protocol.resource_state import Ticket, find_ticket, queued_of, tickets_of, unit_of
from interlock.protocol.visible import PATH_CHARACTERS, quoted, visible

_IS_ID = re.compile(r"[0-9a-f]{32}")  # what a real repository is called; any other id is only a name


class No(Exception):
    """An expected no on the way to a mailbox."""

    def __init__(self, code: Code, why: str) -> None:
        super().__init__(why)
        self.refusal = Refused(code, why)


class Names:
    """One per bus.

    A short name means, in this order (ADR 16): what I have under that name from this very worktree; the resource of the
    given worktree's repository, then of the session's; the one that I have; the machine's; the only one that there is.
    """

    def __init__(self, supervisor: Supervisor, repositories: Repositories) -> None:
        self._supervisor = supervisor
        self._repositories = repositories
        self._indexed: Config | None = None
        self._index: dict[str, list[str]] = {}

    def resolve(self, called: str, session: Session | None = None, *, sender: str = "", worktree: str = "") -> str:
        """The full key of what an agent calls a resource. Source: contract §1.

        Args:
            session, sender: who calls it that; the sender may differ where each line names its own.
            worktree: that it named, "" or "-" for none.

        Raises:
            No: it is no name, no resource has it, or several do.
        """
        if "," in called:
            why = f"{quoted(called)} names several: REQUEST, RELEASE and CANCEL take those, and bus wait; else name one"
            raise No(Code.BAD_MESSAGE, why)
        why_not = why_not_resource(called)
        if why_not is not None:
            raise No(Code.BAD_MESSAGE, why_not)
        if is_key(called):
            self._refresh(_repository(called))
            return called
        agent = sender or (session.agent if session is not None else "")
        mine = self._mine(agent, called)
        here = worktree if worktree not in {"", "-"} else session.worktree if session is not None else ""
        from_here = [key for key, ticket in mine if here and ticket.worktree == here]
        if len(from_here) == 1:
            return from_here[0]
        places = self._places(worktree, session) if self._matters(called) else []
        for place in places:
            if self._refresh(place.id):
                return self.resolve(called, session, sender=sender, worktree=worktree)
            if self._declared_by(place, called):
                return f"repository/{place.id}/{called}"
        if len(mine) == 1:
            return mine[0][0]
        declared: list[str] = [*self._by_name().get(called, []), *self._suspended(called)]
        if f"machine/{called}" in declared:
            return f"machine/{called}"
        self._not_untrusted(called, places)
        if len(declared) == 1:
            return declared[0]
        if len(declared) > 1:
            which = " or ".join(f"{key} ({visible(self.main_of(key))})" for key in declared[:3])
            why = f"several repositories declare {quoted(called)}: ask from a worktree of one, or name {which}"
            raise No(Code.AMBIGUOUS_TARGET, why)
        raise self._unknown(called)

    def actor(self, called: str, session: Session) -> str:
        """Whose events are meant: a territory's or a task's by its key, else a resource's. Raises No."""
        if called.startswith(TERRITORY) and is_repository_id(called.removeprefix(TERRITORY)):
            return called
        if called.startswith(TASK) and why_not_task(called.removeprefix(TASK)) is None:
            return called
        return self.resolve(called, session)

    def may_ask(self, key: str, called: str, session: Session, sender: str, message_id: str, worktree: str) -> str:
        """A REQUEST for that key may go on: what it would run is trusted, and the worktree is one of the repository's.

        Returns:
            The worktree to run in: of a folder inside of one, its top, where the trusted commands belong.

        Raises:
            No: CAPABILITY_DENIED where the declaration does not count, SCOPE_DENIED for another repository's worktree.
        """
        repository = _repository(key)
        if not _IS_ID.fullmatch(repository):
            return worktree
        self._refresh(repository)
        why = self._supervisor.config.why_suspended(repository)
        places = [] if why or key in self._supervisor.config.resources else self._places(worktree, session)
        for place in places:
            if place.id == repository and self._repositories.declares(place, short_name(key)):
                why = self._repositories.why_not(place)
        if why and not self._has_ticket(key, sender, message_id):
            raise No(Code.CAPABILITY_DENIED, f"{quoted(called)} is declared only in {why}")
        if worktree == "-":
            return worktree
        there = self._repositories.files.place(worktree)
        if there is not None and self._repositories.is_member(there, repository):
            return there.worktree
        owner = visible(self.main_of(key) or f"repository {repository}")
        why = (
            f"{called} belongs to {owner} and takes only its worktrees, and {quoted(worktree, PATH_CHARACTERS)} is none"
        )
        if there is not None and there.id == repository:
            raise No(Code.SCOPE_DENIED, f"{why} that its repository knows: git worktree repair, or ask from another")
        raise No(Code.SCOPE_DENIED, f"{why}: ask from one of them")

    def shown(self, key: str, session: Session) -> str:
        """What the bus takes for that resource from this session: its short name, where that means it; else the key."""
        name, config = short_name(key), self._supervisor.config
        if key not in config.resources and not config.is_suspended(key):
            return key
        if self._by_name().get(name) == [key] and not config.suspended:
            return name
        try:
            return name if self.resolve(name, session) == key else key
        except No:
            return key

    def about(self, key: str, session: Session) -> dict[str, str]:
        """What a status adds: its `name` as `shown`, its repository, and why that one's file does not count."""
        found, config = {"name": self.shown(key, session)}, self._supervisor.config
        if key.startswith("repository/"):
            found["repository"] = visible(self.main_of(key))
            if config.is_suspended(key):
                found["suspended"] = config.why_suspended(_repository(key))
        return found

    def main_of(self, key: str) -> str:
        """The main worktree of the repository that a key belongs to, "" where it is the machine's, or not known."""
        return self._repositories.main_of(_repository(key))

    def builds(self, session: Session) -> tuple[tuple[str, ...], ...]:
        """What counts as a build in a session's worktree, beside what profiles.py knows: first words of commands."""
        found = self._supervisor.config.builds
        place = self._repositories.files.place(session.worktree) if session.worktree else None
        if place is None or not self._repositories.is_member(place, place.id):
            return found
        self._refresh(place.id)
        return found + self._supervisor.config.repository_builds.get(place.id, ())

    def extended(self, message: Extend, sender: str) -> tuple[Extend, str]:
        """The first word of an EXTEND is a resource only if the sender holds it; and its key, where that is clear.

        Or if it held it until it was taken away: who is late shall not have another one extended instead.
        """
        word, rest = split_resource(message.purpose)
        keys = [key for called, key in self._held(sender) if word in {called, key}] or self._revoked(sender, word)
        if not keys:
            return message, ""
        return msgspec.structs.replace(message, resource=word, purpose=rest), keys[0] if len(keys) == 1 else ""

    def the_only_one(self, message: ToCoordinator, sender: str) -> tuple[str, str]:
        """Where no resource is named: the one that the sender holds, or waits for to cancel; as called, and its key."""
        mine = self._held(sender)
        if isinstance(message, Cancel) or not mine:
            mine = self._waiting(sender) or mine
        if len(mine) == 1:
            return mine[0]
        lost = [] if mine or isinstance(message, Cancel) else self.lost(sender)
        if lost:
            return lost[-1]  # it says when and why that was lost
        if not mine:
            raise No(Code.NOT_HOLDER, f"{sender} holds nothing and waits for nothing: bus request RESOURCE")
        raise No(Code.AMBIGUOUS_TARGET, f"say which: {', '.join(told_apart(mine))}")

    def _held(self, sender: str) -> list[tuple[str, str]]:
        """(as called, key) of what the sender holds or has prepared, `bus run` left out."""
        world, found = self._supervisor.world, []
        for key in self._supervisor.resources_of(sender):
            unit = unit_of(world.resources[key], sender)
            if unit is not None and unit.ticket is not None:
                found.append((unit.ticket.called, key))
        return found

    def _waiting(self, sender: str) -> list[tuple[str, str]]:
        world = self._supervisor.world
        tickets = [(queued_of(world.resources[key], sender), key) for key in self._supervisor.resources_of(sender)]
        return [(ticket.called, key) for ticket, key in tickets if ticket is not None]

    def waits_for_several(self, sender: str) -> bool:
        """The sender has a place that stands for several resources."""
        askers = self._supervisor.together.askers
        if sender not in askers:
            return False
        resources = [self._supervisor.world.resources[key] for key in self._supervisor.resources_of(sender)]
        if any(each.together for resource in resources for each in tickets_of(resource, sender)):
            return True
        askers.discard(sender)
        return False

    def waiting_together(self, sender: str) -> list[str]:
        """The keys that the sender waits for, where all of them are one request for several; else none."""
        waiting = self._waiting(sender)
        tickets = [tickets_of(self._supervisor.world.resources[key], sender) for _, key in waiting]
        same = {each.request_id for found in tickets for each in found if each.together}
        return [key for _, key in waiting] if len(same) == 1 and all(len(each) == 1 for each in tickets) else []

    def holds_any(self, sender: str) -> bool:
        """The sender holds something, or something is prepared for it."""
        return bool(self._held(sender))

    def lost(self, sender: str) -> list[tuple[str, str]]:
        """(as shown, key) of what the sender held last of each resource and has no more, the last one last."""
        resources = self._supervisor.world.resources.items()
        lost = sorted((resource.lost[sender].at_ms, key) for key, resource in resources if sender in resource.lost)
        return [(short_name(key) if key in self._supervisor.config.resources else key, key) for _, key in lost]

    # --- straight helpers -------------------------------------------------------------------
    def _revoked(self, sender: str, word: str) -> list[str]:
        """Keys which that word can mean, and which the sender has lost by another's doing than its own."""
        resources = self._supervisor.world.resources
        meant = [key for key in (word, *self._by_name().get(word, ())) if key in resources]
        found = [(key, resources[key].lost.get(sender)) for key in meant]
        return [key for key, lost in found if lost is not None and lost.why != "released"]

    def _by_name(self) -> dict[str, list[str]]:
        """Declared keys by their short names."""
        if self._indexed is not self._supervisor.config:
            self._indexed, self._index = self._supervisor.config, {}
            for key in self._indexed.resources:
                self._index.setdefault(short_name(key), []).append(key)
        return self._index

    def _matters(self, called: str) -> bool:
        """Only where a repository may have its say is it worth the look which one is meant."""
        return bool(self._supervisor.config.suspended) or self._by_name().get(called) != [f"machine/{called}"]

    def _places(self, worktree: str, session: Session | None) -> list[Place]:
        """The repository of the worktree that was named, then the session's."""
        given = worktree if worktree not in {"", "-"} else ""
        directories = dict.fromkeys([given, session.worktree if session is not None else ""])
        found = [self._repositories.files.place(each) for each in directories if each]
        return [each for each in found if each is not None]

    def _refresh(self, repository: str) -> bool:
        """Take a repository's declarations as they are now; True where they have changed."""
        changed = self._repositories.refresh(repository)
        if changed:
            self._supervisor.reconfigure(self._repositories.config())
        return changed

    def _declared_by(self, place: Place, name: str) -> bool:
        """A repository that is trusted declares it, or did before its file changed."""
        key, config = f"repository/{place.id}/{name}", self._supervisor.config
        if not config.why_suspended(place.id):
            return key in config.resources
        return key in self._supervisor.world.resources or self._repositories.declares(place, name)

    def _suspended(self, name: str) -> list[str]:
        """What has that name in a repository whose file does not count now, as far as is on record."""
        keys = (f"repository/{id_}/{name}" for id_ in self._supervisor.config.suspended)
        return [key for key in keys if key in self._supervisor.world.resources]

    def _mine(self, agent: str, called: str) -> list[tuple[str, Ticket]]:
        """(key, ticket) of what an agent has or waits for under that name, `bus run` last; one ticket a key."""
        found = []
        for key in self._supervisor.resources_of(agent) if agent else ():
            resource = self._supervisor.world.resources[key]
            tickets = [unit.ticket for unit in resource.units if unit.ticket is not None]
            tickets += [resource.queue[request_id] for request_id in resource.queue.of(agent)]
            mine = [each for each in tickets if each.agent == agent and called in {each.called, short_name(key)}]
            if mine:
                found.append((key, min(mine, key=lambda each: each.run)))
        return found

    def _has_ticket(self, key: str, sender: str, message_id: str) -> bool:
        """It asks about what it has already: its own hold or place, or the very same message again."""
        resource = self._supervisor.world.resources.get(key)
        if resource is None:
            return False
        ticket = find_ticket(resource, message_id) != (None, None) or message_id in resource.ended
        return ticket or unit_of(resource, sender) is not None or queued_of(resource, sender) is not None

    def _not_untrusted(self, called: str, places: list[Place]) -> None:
        """A name that the repository at hand declares in a file that does not count. Raises No."""
        for place in places:
            if self._repositories.declares(place, called):
                why = self._repositories.why_not(place)
                raise No(Code.CAPABILITY_DENIED, f"{quoted(called)} is declared only in {why}")

    def _unknown(self, called: str) -> No:
        declared = self._by_name()
        close = nearest(called, declared)
        if close:
            hint = f"did you mean {' or '.join(close)}?"
        elif declared:
            hint = f"declared are {', '.join(sorted(declared)[:8])}"
        else:
            hint = "nothing is declared in bus.toml"
        return No(Code.UNKNOWN_RESOURCE, f"no resource {quoted(called)} is declared: {hint} (or use machine/{called})")


def known_agent(agents: Agents, name: str) -> Agent:
    """An agent that ever joined. Raises No, with the nearest names."""
    if name not in agents:
        close = nearest(name, agents)
        hint = f"did you mean {' or '.join(close)}?" if close else "see who is here: bus agents"
        raise No(Code.UNKNOWN_TARGET, f"no agent {quoted(name)} ever joined: {hint}")
    return agents[name]


def told_apart(mine: list[tuple[str, str]]) -> list[str]:
    """Names as their agent calls them; the keys of those that it calls the same. Args: mine: (as called, key)."""
    names = [called for called, _ in mine]
    return [called if names.count(called) == 1 else key for called, key in mine]


def _repository(key: str) -> str:
    """The repository id in a key, "" where it has none."""
    return key.split("/")[1] if key.startswith("repository/") else ""
