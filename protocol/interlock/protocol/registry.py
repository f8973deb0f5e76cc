"""The registry: which agents there are, as which incarnation, bound to what.

    (unknown) ── Join ──▶ here ── Leave, its process gone, takeover ──▶ gone ── Join ──▶ here (next incarnation)
                           │ ▲                                           ▲
               SessionCut  ▼ │ Join, same session                        │
                           cut ── for SESSION_CUT_MS, by its deadline ───┘

An agent that bound nothing is *unknown*, never *gone*: only a proof or its own word frees what it holds. A session is
what a program binds whose process nobody can see (ADR 18).
"""

from itertools import islice, takewhile

import msgspec

from interlock.protocol.agents import Agent as Agent  # noqa: PLC0414 - part of what is imported from here
from interlock.protocol.agents import Agents
from interlock.protocol.codes import Code
from interlock.protocol.identity import Identity, Presence
from interlock.protocol.limits import AGENTS_MAX, EXPIRED_A_STEP, LATE_MS, SESSION_CUT_MS
from interlock.protocol.messages import Joined, Left, Refused
from interlock.protocol.names import why_not_agent
from interlock.protocol.outcome import Deadline, Now, Outcome, Send, after, fold
from interlock.protocol.table import EMPTY, Table

replace = msgspec.structs.replace


class Registry(msgspec.Struct, frozen=True):
    """`cut`: living agents whose session has no connection, and when each counts as gone, the soonest first."""

    agents: Agents = Agents()
    cut: Table[str, Deadline] = EMPTY

    def living(self, name: str) -> Agent | None:
        agent = self.agents.get(name)
        return None if agent is None or agent.gone else agent

    def next_deadline(self) -> Deadline | None:
        """The earliest moment at which an Expire changes something."""
        return next(self.cut.values(), None)


# --- commands -----------------------------------------------------------------------------
class Join(msgspec.Struct, frozen=True):
    """Register, or come back.

    Args:
        session: digest of a session's secret, where that is to be bound because no process can be.
        program: it is a program's own connection that joins: it may speak for an agent without binding it.
        known: what a probe said of the process that the name is bound to now.
        ours: that process is the caller's, or one of its ancestors.
        idle: the name holds nothing and waits for nothing.
        id: of the message, to answer.
        files: it uses its inbox folder from now on.
    """

    name: str
    process: Identity | None = None
    bound_to: str = ""
    worktree: str = ""
    takeover: bool = False
    known: Presence = Presence.UNKNOWN
    id: str = ""
    session: str = ""
    program: bool = False
    ours: bool = False
    idle: bool = True
    files: bool = False


class Leave(msgspec.Struct, frozen=True):
    name: str
    id: str = ""


class ProcessGone(msgspec.Struct, frozen=True):
    process: Identity


class SessionCut(msgspec.Struct, frozen=True):
    """The last connection of a session has ended. `name` empty: a supervisor starts, and nobody is connected yet."""

    name: str = ""
    session: str = ""


class Expire(msgspec.Struct, frozen=True):
    """A deadline may have passed; which one, the state knows. `here`: (name, session) of who is connected."""

    here: frozenset[tuple[str, str]] = frozenset()


RegistryCommand = Join | Leave | ProcessGone | SessionCut | Expire


# --- events -------------------------------------------------------------------------------
class AgentJoined(msgspec.Struct, frozen=True, tag="joined"):
    agent: Agent


class AgentBound(msgspec.Struct, frozen=True, omit_defaults=True, tag="bound"):
    name: str
    process: Identity | None
    bound_to: str
    worktree: str = ""
    session: str = ""


class AgentCut(msgspec.Struct, frozen=True, tag="cut"):
    """Nobody is at the other end of its session: unknown until that deadline, then gone."""

    name: str
    incarnation: int
    until: Deadline


class AgentLeft(msgspec.Struct, frozen=True, tag="left"):
    name: str
    incarnation: int
    why: str
    at_ms: int


class AgentUsesFiles(msgspec.Struct, frozen=True, tag="uses_files"):
    """Its messages go into its inbox folder too, for good."""

    name: str


RegistryEvent = AgentJoined | AgentBound | AgentCut | AgentLeft | AgentUsesFiles


def decide(registry: Registry, command: RegistryCommand, now: Now) -> Outcome[Registry, RegistryEvent]:
    """Answer one command. Who is told AGENT GONE follows from `left` events: the supervisor passes them on."""
    match command:
        case Join(name=name):
            return _join(registry, command, now)
        case Leave(name, id_):
            agent = registry.living(name)
            if agent is None:
                refused = Left(name, "nobody of that name is here")
                return Outcome(registry, outbox=(Send(name, refused, reply_to=id_),))
            left = AgentLeft(name, agent.incarnation, "it left", now.at_ms)
            return _outcome(registry, (left,), (Send(name, Left(name, "left"), reply_to=id_),))
        case ProcessGone(process):
            why = f"its process {process.pid} is gone"
            bound = registry.agents.of_process(process)
            return _outcome(registry, tuple(AgentLeft(a.name, a.incarnation, why, now.at_ms) for a in bound))
        case SessionCut(name, session):
            everybody = () if name else registry.agents.values()
            lost = [each for each in everybody if not each.gone and each.session]
            agent = registry.living(name)
            if agent is not None and agent.session == session and session and name not in registry.cut:
                lost = [agent]
            until = after(now, SESSION_CUT_MS)
            return _outcome(registry, tuple(AgentCut(a.name, a.incarnation, until) for a in lost))
        case Expire(here):
            return _outcome(registry, tuple(_expired(registry, here, now)))


def evolve(registry: Registry, event: RegistryEvent) -> Registry:
    """Take one fact in. Total and silent, as a replay needs it."""
    match event:
        case AgentJoined(agent):
            agents = registry.agents.put(agent)
            if len(agents) > AGENTS_MAX:  # the one that has been gone longest makes room
                agents = agents.without(agents.longest_gone())
            return Registry(agents, registry.cut.without(agent.name))
        case AgentBound(name, process, bound_to, worktree, session):
            known = registry.agents[name]
            agent = replace(
                known, process=process, bound_to=bound_to, worktree=worktree or known.worktree, session=session
            )
            return Registry(registry.agents.put(agent), registry.cut.without(name))
        case AgentCut(name, _, until):
            return replace(registry, cut=registry.cut.put_last(name, until))
        case AgentLeft(name, _, why):
            agent = replace(registry.agents[name], gone=True, why=why)
            return Registry(registry.agents.put(agent), registry.cut.without(name))
        case AgentUsesFiles(name):
            return replace(registry, agents=registry.agents.put(replace(registry.agents[name], files=True)))


def conflict_of_case(spelled: str) -> str:
    """The sentence for a name that differs from a known one only by case."""
    return f"there is an agent {spelled!r} already, and names must differ by more than case: use that spelling"


# --- straight helpers ---------------------------------------------------------------------
def _join(registry: Registry, join: Join, now: Now) -> Outcome[Registry, RegistryEvent]:
    why_not = why_not_agent(join.name)
    if why_not is not None:
        return _refuse(registry, join, Code.BAD_MESSAGE, why_not)
    spelled = registry.agents.spelled(join.name)
    if spelled != join.name:
        return _refuse(registry, join, Code.NAME_CONFLICT, conflict_of_case(spelled))
    agent = registry.living(join.name)
    if agent is None:
        known = registry.agents.get(join.name)
        here = len(registry.agents) - registry.agents.gone_count
        if here >= AGENTS_MAX:
            why = f"{here} agents are here, at most {AGENTS_MAX} can be: let one leave"
            return _refuse(registry, join, Code.QUEUE_FULL, why)
        return _arrive(registry, join, known.incarnation + 1 if known is not None else 1, now, ())
    if _binds_nothing(agent, join) or _is_same(agent, join):
        events: tuple[RegistryEvent, ...] = ()
        if (join.worktree and join.worktree != agent.worktree) or (agent.name in registry.cut and join.session):
            events = (AgentBound(agent.name, agent.process, agent.bound_to, join.worktree, agent.session),)
        events += _files(agent, join)
        return _outcome(registry, events, (_welcome(_evolved(registry, agent.name, events), join),))
    if agent.process is None and not agent.session:
        bound = AgentBound(agent.name, join.process, join.bound_to, join.worktree, join.session)
        events = (bound, *_files(agent, join))
        return _outcome(registry, events, (_welcome(_evolved(registry, agent.name, events), join),))
    gone = agent.process is not None and join.known is Presence.GONE
    if not gone and not join.takeover:
        return _refuse(registry, join, Code.NAME_CONFLICT, _conflict(registry, agent))
    why = "its process is gone" if gone else "its name was taken over"
    left = AgentLeft(agent.name, agent.incarnation, why, now.at_ms)
    return _arrive(registry, join, agent.incarnation + 1, now, (left,))


def _is_same(agent: Agent, join: Join) -> bool:
    """The same process, or the same session, comes back."""
    if join.session:
        return join.session == agent.session
    return join.process is not None and join.process == agent.process


def _binds_nothing(agent: Agent, join: Join) -> bool:
    """It speaks for the agent, and the agent's life does not hang on it.

    A program does so under the process that the agent is bound to, and where the agent bound nothing but has something
    already: that was asked for by somebody else, and would be taken away at the program's end.
    """
    if join.process is None and not join.session:
        return True
    unbound = agent.process is None and not agent.session
    return join.program and (join.ours or (unbound and not join.idle))


def _conflict(registry: Registry, agent: Agent) -> str:
    bound_to = agent.bound_to or (f"pid {agent.process.pid}" if agent.process is not None else "a session")
    lives = "which lives" if agent.name not in registry.cut else "which may come back within seconds"
    return (
        f"{agent.name} is bound to {bound_to}, {lives}: "
        f"choose another name, or bus join {agent.name} --takeover if it is you"
    )


def _expired(registry: Registry, here: frozenset[tuple[str, str]], now: Now) -> list[RegistryEvent]:
    """Sessions that were cut for too long, the longest first. One whose deadline was slept through gets a fresh one.

    Who is connected, and could only not be taken down as back while the disk was full, is back now. Of many some are
    left over: their deadline is past, so the next Expire follows at once, and others have their turn between.
    """
    events: list[RegistryEvent] = []
    due = takewhile(lambda each: each[1].is_due(now), registry.cut.items())
    for name, until in islice(due, EXPIRED_A_STEP):
        agent = registry.agents[name]
        if (name, agent.session) in here:
            events.append(AgentBound(name, None, agent.bound_to, "", agent.session))
        elif until.was_slept_through(now, LATE_MS):
            events.append(AgentCut(name, agent.incarnation, after(now, SESSION_CUT_MS)))
        else:
            why = f"its session was cut {SESSION_CUT_MS // 1000}s ago and did not come back"
            events.append(AgentLeft(name, agent.incarnation, why, now.at_ms))
    return events


def _evolved(registry: Registry, name: str, events: tuple[RegistryEvent, ...]) -> Agent:
    return fold(evolve, registry, events).agents[name]


def _arrive(
    registry: Registry, join: Join, incarnation: int, now: Now, before: tuple[RegistryEvent, ...]
) -> Outcome[Registry, RegistryEvent]:
    known = registry.agents.get(join.name)
    used = known is not None and known.files
    agent = Agent(
        join.name, incarnation, now.at_ms, join.process, join.bound_to, join.worktree, session=join.session, files=used
    )
    return _outcome(registry, (*before, AgentJoined(agent), *_files(agent, join)), (_welcome(agent, join),))


def _files(agent: Agent, join: Join) -> tuple[AgentUsesFiles, ...]:
    return (AgentUsesFiles(agent.name),) if join.files and not agent.files else ()


def _welcome(agent: Agent, join: Join) -> Send:
    return Send(agent.name, Joined(agent.name, agent.incarnation, agent.bound_to, agent.worktree), reply_to=join.id)


def _refuse(registry: Registry, join: Join, code: str, why: str) -> Outcome[Registry, RegistryEvent]:
    return Outcome(registry, outbox=(Send(join.name, Refused(code, why), reply_to=join.id),))


def _outcome(
    registry: Registry, events: tuple[RegistryEvent, ...], outbox: tuple[Send, ...] = ()
) -> Outcome[Registry, RegistryEvent]:
    return Outcome(fold(evolve, registry, events), events, outbox)
