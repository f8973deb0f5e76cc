"""The registry: which agents there are, as which incarnation, bound to what.

    (unknown) ── Join ──▶ here ── Leave, its process gone, takeover ──▶ gone ── Join ──▶ here (next incarnation)
                           │ ▲                                           ▲
               SessionCut  ▼ │ Join, same session                        │
                           cut ── for SESSION_CUT_MS, by its deadline ───┘

An agent that bound nothing is *unknown*, never *gone*: only a proof or its own word frees what it holds. A session is
what a program binds whose process nobody can see (ADR 18).
"""

import msgspec

from interlock.protocol.codes import Code
from interlock.protocol.identity import Identity, Presence
from interlock.protocol.limits import AGENTS_MAX, LATE_MS, SESSION_CUT_MS
from interlock.protocol.messages import Joined, Left, Refused
from interlock.protocol.names import why_not_agent
from interlock.protocol.outcome import Deadline, Now, Outcome, Send, after, earliest, fold

replace = msgspec.structs.replace


class Agent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One name and its present incarnation.

    Args:
        process: that it bound; None: nothing.
        bound_to: the same for people: "claude (pid 4121)".
        worktree: real path of the git top it joined from; "" outside of any.
        session: digest of the session that it bound instead of a process; "": none.
        gone: proved gone, or it left; `why` says which.
        files: it uses its inbox folder; that outlives its incarnations.
    """

    name: str
    incarnation: int
    joined_ms: int
    process: Identity | None = None
    bound_to: str = ""
    worktree: str = ""
    gone: bool = False
    why: str = ""
    session: str = ""
    files: bool = False


class Registry(msgspec.Struct, frozen=True):
    """`spelled` finds a name whatever its case: two names that differ only by case are one too many.

    `cut`: living agents whose session has no connection, and when each counts as gone.
    """

    agents: dict[str, Agent] = {}
    spelled: dict[str, str] = {}
    cut: dict[str, Deadline] = {}

    def living(self, name: str) -> Agent | None:
        agent = self.agents.get(name)
        return None if agent is None or agent.gone else agent

    def next_deadline(self, boot: str) -> Deadline | None:
        """The earliest moment at which an Expire changes something, on this boot."""
        return earliest(self.cut.values(), boot)


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
            bound = [a for a in registry.agents.values() if not a.gone and a.process == process]
            return _outcome(registry, tuple(AgentLeft(a.name, a.incarnation, why, now.at_ms) for a in bound))
        case SessionCut(name, session):
            lost = [a for a in registry.agents.values() if not a.gone and a.session and not name]
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
            agents = {**registry.agents, agent.name: agent}
            spelled = {**registry.spelled, agent.name.casefold(): agent.name}
            if len(agents) > AGENTS_MAX:  # the one that has been gone longest makes room
                oldest = min((a for a in agents.values() if a.gone), key=lambda a: a.joined_ms)
                del agents[oldest.name], spelled[oldest.name.casefold()]
            return Registry(agents, spelled, _without(registry.cut, agent.name))
        case AgentBound(name, process, bound_to, worktree, session):
            agent = replace(
                registry.agents[name],
                process=process,
                bound_to=bound_to,
                worktree=worktree or registry.agents[name].worktree,
                session=session,
            )
            return replace(registry, agents={**registry.agents, name: agent}, cut=_without(registry.cut, name))
        case AgentCut(name, _, until):
            return replace(registry, cut={**registry.cut, name: until})
        case AgentLeft(name, _, why):
            agent = replace(registry.agents[name], gone=True, why=why)
            return replace(registry, agents={**registry.agents, name: agent}, cut=_without(registry.cut, name))
        case AgentUsesFiles(name):
            agent = replace(registry.agents[name], files=True)
            return replace(registry, agents={**registry.agents, name: agent})


def conflict_of_case(spelled: str) -> str:
    """The sentence for a name that differs from a known one only by case."""
    return f"there is an agent {spelled!r} already, and names must differ by more than case: use that spelling"


# --- straight helpers ---------------------------------------------------------------------
def _join(registry: Registry, join: Join, now: Now) -> Outcome[Registry, RegistryEvent]:
    why_not = why_not_agent(join.name)
    if why_not is not None:
        return _refuse(registry, join, Code.BAD_MESSAGE, why_not)
    spelled = registry.spelled.get(join.name.casefold(), join.name)
    if spelled != join.name:
        return _refuse(registry, join, Code.NAME_CONFLICT, conflict_of_case(spelled))
    agent = registry.living(join.name)
    if agent is None:
        known = registry.agents.get(join.name)
        here = sum(not a.gone for a in registry.agents.values()) if len(registry.agents) >= AGENTS_MAX else 0
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
    """Sessions that were cut for too long. One whose deadline was slept through gets a fresh one first.

    Who is connected, and could only not be taken down as back while the disk was full, is back now.
    """
    events: list[RegistryEvent] = []
    for name, until in registry.cut.items():
        agent = registry.agents[name]
        if (name, agent.session) in here:
            events.append(AgentBound(name, None, agent.bound_to, "", agent.session))
        elif until.is_due(now) and until.was_slept_through(now, LATE_MS):
            events.append(AgentCut(name, agent.incarnation, after(now, SESSION_CUT_MS)))
        elif until.is_due(now):
            why = f"its session was cut {SESSION_CUT_MS // 1000}s ago and did not come back"
            events.append(AgentLeft(name, agent.incarnation, why, now.at_ms))
    return events


def _without(cut: dict[str, Deadline], name: str) -> dict[str, Deadline]:
    return {each: at for each, at in cut.items() if each != name} if name in cut else cut


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
