"""The registry, command by command. Read a row as: given, when, then, and what its sender hears."""

# ruff: noqa: E501 - a table is read across, one row a rule

from typing import Any

import pytest

from interlock.protocol.agents import Agents
from interlock.protocol.identity import Identity, Presence
from interlock.protocol.limits import AGENTS_MAX
from interlock.protocol.messages import Joined, Left, Refused
from interlock.protocol.outcome import Deadline, Now, fold
from interlock.protocol.registry import (
    Agent,
    AgentBound,
    AgentCut,
    AgentJoined,
    AgentLeft,
    AgentUsesFiles,
    Expire,
    Join,
    Leave,
    ProcessGone,
    Registry,
    RegistryCommand,
    RegistryEvent,
    SessionCut,
    decide,
    evolve,
)

NOW = Now(5_000, "boot", 5_000, 1)
CLAUDE = Identity("machine", "boot", 1, 4121, 77)
OTHER = Identity("machine", "boot", 1, 4122, 78)


def registry(*agents: Agent) -> Registry:
    return fold(evolve, Registry(), [AgentJoined(agent) for agent in agents])


ANN = Agent("ann", 1, 1_000, CLAUDE, "claude (pid 4121)", "/a")
FREE = Agent("ann", 1, 1_000)
GONE = Agent("ann", 3, 1_000, CLAUDE, gone=True, why="it left")
BOB = Agent("bob", 1, 1_000, CLAUDE, "claude (pid 4121)", "/b")
FILES = Agent("ann", 1, 1_000, files=True)
GONE_FILES = Agent("ann", 3, 1_000, gone=True, why="it left", files=True)
EMPTY = Registry()
BOX = Agent("ann", 1, 1_000, session="s1", bound_to="a session of its own")
UNTIL = Deadline("boot", 15_000)
CUT = evolve(registry(BOX), AgentCut("ann", 1, UNTIL))


def cut(until_ms: int) -> Registry:
    return evolve(registry(BOX), AgentCut("ann", 1, Deadline("boot", until_ms)))


def program(**more: Any) -> Join:
    return Join("ann", program=True, **more)


TABLE: list[tuple[str, Registry, RegistryCommand, tuple[RegistryEvent, ...], type]] = [
    # name                                         given          when                                then                                               heard
    ("a new name joins",                           EMPTY,         Join("ann", CLAUDE, "c", "/a"),     (AgentJoined(Agent("ann", 1, 5_000, CLAUDE, "c", "/a")),), Joined),
    ("a name that is gone opens an incarnation",   registry(GONE), Join("ann"),                       (AgentJoined(Agent("ann", 4, 5_000)),),            Joined),
    ("again from the same process is the same",    registry(ANN), Join("ann", CLAUDE, "c", "/a"),     (),                                                Joined),
    ("again without a process is the same",        registry(ANN), Join("ann"),                        (),                                                Joined),
    ("from another worktree it has moved",         registry(ANN), Join("ann", CLAUDE, "c", "/b"),     (AgentBound("ann", CLAUDE, "claude (pid 4121)", "/b"),), Joined),
    ("binding where none was bound is the same",   registry(FREE), Join("ann", CLAUDE, "c"),          (AgentBound("ann", CLAUDE, "c"),),                 Joined),
    ("it uses its folder from now on",             registry(FREE), Join("ann", files=True),           (AgentUsesFiles("ann"),),                          Joined),
    ("which it did already",                       registry(FILES), Join("ann", files=True),          (),                                                Joined),
    ("a new name uses its folder at once",         EMPTY,         Join("ann", files=True),            (AgentJoined(Agent("ann", 1, 5_000)), AgentUsesFiles("ann")), Joined),
    ("its next incarnation uses it still",         registry(GONE_FILES), Join("ann"),                 (AgentJoined(Agent("ann", 4, 5_000, files=True)),), Joined),
    ("another process while the first lives",      registry(ANN), Join("ann", OTHER, known=Presence.ALIVE), (),                                          Refused),
    ("another process while nobody can tell",      registry(ANN), Join("ann", OTHER, known=Presence.UNKNOWN), (),                                        Refused),
    ("another process after the first has gone",   registry(ANN), Join("ann", OTHER, known=Presence.GONE), (AgentLeft("ann", 1, "its process is gone", 5_000), AgentJoined(Agent("ann", 2, 5_000, OTHER))), Joined),
    ("a takeover says that it is meant",           registry(ANN), Join("ann", OTHER, takeover=True, known=Presence.ALIVE), (AgentLeft("ann", 1, "its name was taken over", 5_000), AgentJoined(Agent("ann", 2, 5_000, OTHER))), Joined),
    ("a name that differs by case only",           registry(ANN), Join("Ann"),                        (),                                                Refused),
    ("a reserved name",                            EMPTY,         Join("coordinator"),                (),                                                Refused),
    ("a reserved name in capitals",                EMPTY,         Join("All"),                        (),                                                Refused),
    ("a name with a separator",                    EMPTY,         Join("a--b"),                       (),                                                Refused),
    ("an agent leaves",                            registry(ANN), Leave("ann"),                       (AgentLeft("ann", 1, "it left", 5_000),),          Left),
    ("nobody leaves",                              EMPTY,         Leave("ann"),                       (),                                                Left),
    ("who is gone cannot leave again",             registry(GONE), Leave("ann"),                      (),                                                Left),
    ("a process takes all that it is bound to",    registry(ANN, BOB), ProcessGone(CLAUDE),           (AgentLeft("ann", 1, "its process 4121 is gone", 5_000), AgentLeft("bob", 1, "its process 4121 is gone", 5_000)), type(None)),
    ("another process takes nobody",               registry(ANN), ProcessGone(OTHER),                 (),                                                type(None)),
    ("an agent that bound nothing is never taken", registry(FREE), ProcessGone(CLAUDE),               (),                                                type(None)),
    # --- programs, and their sessions (ADR 18)
    ("a new program is bound to its process",      EMPTY,         program(process=CLAUDE),            (AgentJoined(Agent("ann", 1, 5_000, CLAUDE)),),    Joined),
    ("one that nobody can see to its session",     EMPTY,         program(session="s1"),              (AgentJoined(Agent("ann", 1, 5_000, session="s1")),), Joined),
    ("again over the same session is the same",    registry(BOX), program(session="s1"),              (),                                                Joined),
    ("a cut session is unknown for a while",       registry(BOX), SessionCut("ann", "s1"),            (AgentCut("ann", 1, UNTIL),),                      type(None)),
    ("… counted once",                             CUT,           SessionCut("ann", "s1"),            (),                                                type(None)),
    ("another session's end takes nobody",         registry(BOX), SessionCut("ann", "s2"),            (),                                                type(None)),
    ("a session's end takes nobody with a process", registry(ANN), SessionCut("ann", "s1"),           (),                                                type(None)),
    ("… nor who bound nothing",                    registry(FREE), SessionCut("ann", ""),             (),                                                type(None)),
    ("back in time is the same",                   CUT,           program(session="s1"),              (AgentBound("ann", None, "a session of its own", "", "s1"),), Joined),
    ("too late is gone",                           cut(5_000),    Expire(),                           (AgentLeft("ann", 1, "its session was cut 10s ago and did not come back", 5_000),), type(None)),
    ("before its time nobody is gone",             CUT,           Expire(),                           (),                                                type(None)),
    ("who is connected all the same is back",      cut(5_000),    Expire(frozenset({("ann", "s1")})), (AgentBound("ann", None, "a session of its own", "", "s1"),), type(None)),
    ("a deadline that was slept through is anew",  cut(3_000),    Expire(),                           (AgentCut("ann", 1, UNTIL),),                      type(None)),
    ("a start counts anew for all",                cut(5_000),    SessionCut(),                       (AgentCut("ann", 1, UNTIL),),                      type(None)),
    ("… and for nobody with a process",            registry(ANN, FREE), SessionCut(),                 (),                                                type(None)),
    ("another session while the first lives",      registry(BOX), program(session="s2"),              (),                                                Refused),
    ("another session while the first may be back", CUT,          program(session="s2"),              (),                                                Refused),
    ("another session takes over",                 CUT,           program(session="s2", takeover=True), (AgentLeft("ann", 1, "its name was taken over", 5_000), AgentJoined(Agent("ann", 2, 5_000, session="s2"))), Joined),
    ("a process while a session lives",            registry(BOX), Join("ann", CLAUDE),                (),                                                Refused),
    ("a program under the agent's own process",    registry(ANN), program(process=OTHER, ours=True, known=Presence.ALIVE), (),                           Joined),
    ("a program under another process",            registry(ANN), program(process=OTHER, known=Presence.ALIVE), (),                                      Refused),
    ("a program that is started again",            registry(ANN), program(process=OTHER, known=Presence.GONE), (AgentLeft("ann", 1, "its process is gone", 5_000), AgentJoined(Agent("ann", 2, 5_000, OTHER))), Joined),
    ("a program binds where nothing was",          registry(FREE), program(process=OTHER, bound_to="p"), (AgentBound("ann", OTHER, "p"),),               Joined),
    ("… but not who has something already",        registry(FREE), program(process=OTHER, idle=False), (),                                               Joined),
    ("after its end the cut is forgotten",         evolve(CUT, AgentLeft("ann", 1, "it left", 5_000)), Expire(), (),                                     type(None)),
]  # fmt: skip


@pytest.mark.parametrize(("given", "when", "then", "heard"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_registry(given: Registry, when: RegistryCommand, then: tuple[RegistryEvent, ...], heard: type) -> None:
    outcome = decide(given, when, NOW)
    assert outcome.events == then
    assert [type(send.body) for send in outcome.outbox] == ([] if heard is type(None) else [heard])
    assert outcome.state == fold(evolve, given, outcome.events)


def test_the_refusal_names_the_first_spelling() -> None:
    body = decide(registry(ANN), Join("ANN"), NOW).outbox[0].body
    assert isinstance(body, Refused)
    assert body.code == "NAME_CONFLICT"
    assert "'ann'" in body.why


def test_two_agents_in_one_process_are_two_agents() -> None:
    both = registry(ANN, BOB)
    assert both.living("ann") != both.living("bob")
    assert decide(both, Leave("ann"), NOW).state.living("bob") == BOB


def test_names_past_the_limit_make_room_by_those_that_are_gone_longest() -> None:
    many = [Agent(f"a{n}", 1, n, gone=True, why="it left") for n in range(AGENTS_MAX)]
    full = Registry(Agents(many))
    joined = decide(full, Join("newcomer"), NOW).state
    assert len(joined.agents) == AGENTS_MAX
    assert "a0" not in joined.agents
    assert joined.living("newcomer") is not None


def test_the_newcomer_is_refused_where_everybody_is_here() -> None:
    many = [Agent(f"a{n}", 1, n) for n in range(AGENTS_MAX)]
    full = Registry(Agents(many))
    outcome = decide(full, Join("newcomer"), NOW)
    assert not outcome.events
    assert isinstance(outcome.outbox[0].body, Refused)
