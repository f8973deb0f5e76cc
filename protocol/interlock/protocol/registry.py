"""The registry: which agents there are, as which incarnation, bound to what.

    (unknown) ── Join ──▶ here ── Leave, its process gone, takeover ──▶ gone ── Join ──▶ here (next incarnation)

An agent that bound nothing is *unknown*, never *gone*: only a proof or its own word frees what it holds.
"""

import msgspec

from interlock.protocol.codes import Code
from interlock.protocol.identity import Identity, Presence
from interlock.protocol.limits import AGENTS_MAX
from interlock.protocol.messages import Joined, Left, Refused
from interlock.protocol.names import why_not_agent
from interlock.protocol.outcome import Now, Outcome, Send, fold

replace = msgspec.structs.replace


class Agent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One name and its present incarnation.

    Args:
        process: that it bound; None: nothing.
        bound_to: the same for people: "claude (pid 4121)".
        worktree: real path of the git top it joined from; "" outside of any.
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
    files: bool = False


class Registry(msgspec.Struct, frozen=True):
    """`spelled` finds a name whatever its case: two names that differ only by case are one too many."""

    agents: dict[str, Agent] = {}
    spelled: dict[str, str] = {}

    def living(self, name: str) -> Agent | None:
        agent = self.agents.get(name)
        return None if agent is None or agent.gone else agent


# --- commands -----------------------------------------------------------------------------
class Join(msgspec.Struct, frozen=True):
    """Ask to be here.

    Args:
        known: what a probe said of the process that the name is bound to now.
        id: of the message, to answer. files: it uses its inbox folder from now on.
    """

    name: str
    process: Identity | None = None
    bound_to: str = ""
    worktree: str = ""
    takeover: bool = False
    known: Presence = Presence.UNKNOWN
    id: str = ""
    files: bool = False


class Leave(msgspec.Struct, frozen=True):
    name: str
    id: str = ""


class ProcessGone(msgspec.Struct, frozen=True):
    process: Identity


RegistryCommand = Join | Leave | ProcessGone


# --- events -------------------------------------------------------------------------------
class AgentJoined(msgspec.Struct, frozen=True, tag="joined"):
    agent: Agent


class AgentBound(msgspec.Struct, frozen=True, omit_defaults=True, tag="bound"):
    name: str
    process: Identity | None
    bound_to: str
    worktree: str = ""


class AgentLeft(msgspec.Struct, frozen=True, tag="left"):
    name: str
    incarnation: int
    why: str
    at_ms: int


class AgentUsesFiles(msgspec.Struct, frozen=True, tag="uses_files"):
    """Its messages go into its inbox folder too, for good."""

    name: str


RegistryEvent = AgentJoined | AgentBound | AgentLeft | AgentUsesFiles


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


def evolve(registry: Registry, event: RegistryEvent) -> Registry:
    """Take one fact in. Total and silent, as a replay needs it."""
    match event:
        case AgentJoined(agent):
            agents = {**registry.agents, agent.name: agent}
            spelled = {**registry.spelled, agent.name.casefold(): agent.name}
            if len(agents) > AGENTS_MAX:  # the one that has been gone longest makes room
                oldest = min((a for a in agents.values() if a.gone), key=lambda a: a.joined_ms)
                del agents[oldest.name], spelled[oldest.name.casefold()]
            return Registry(agents, spelled)
        case AgentBound(name, process, bound_to, worktree):
            agent = replace(
                registry.agents[name],
                process=process,
                bound_to=bound_to,
                worktree=worktree or registry.agents[name].worktree,
            )
            return replace(registry, agents={**registry.agents, name: agent})
        case AgentLeft(name, _, why):
            agent = replace(registry.agents[name], gone=True, why=why)
            return replace(registry, agents={**registry.agents, name: agent})
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
    if join.process is None or join.process == agent.process:
        events: tuple[RegistryEvent, ...] = ()
        if join.worktree and join.worktree != agent.worktree:
            events = (AgentBound(agent.name, agent.process, agent.bound_to, join.worktree),)
        events += _files(agent, join)
        return _outcome(registry, events, (_welcome(_evolved(registry, agent.name, events), join),))
    if agent.process is None:
        events = (AgentBound(agent.name, join.process, join.bound_to, join.worktree), *_files(agent, join))
        return _outcome(registry, events, (_welcome(_evolved(registry, agent.name, events), join),))
    if join.known is not Presence.GONE and not join.takeover:
        why = (
            f"{agent.name} is bound to {agent.bound_to or f'pid {agent.process.pid}'}, which lives: "
            f"choose another name, or bus join {agent.name} --takeover if it is you"
        )
        return _refuse(registry, join, Code.NAME_CONFLICT, why)
    why = "its process is gone" if join.known is Presence.GONE else "its name was taken over"
    left = AgentLeft(agent.name, agent.incarnation, why, now.at_ms)
    return _arrive(registry, join, agent.incarnation + 1, now, (left,))


def _evolved(registry: Registry, name: str, events: tuple[RegistryEvent, ...]) -> Agent:
    return fold(evolve, registry, events).agents[name]


def _arrive(
    registry: Registry, join: Join, incarnation: int, now: Now, before: tuple[RegistryEvent, ...]
) -> Outcome[Registry, RegistryEvent]:
    known = registry.agents.get(join.name)
    used = known is not None and known.files
    agent = Agent(join.name, incarnation, now.at_ms, join.process, join.bound_to, join.worktree, files=used)
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
