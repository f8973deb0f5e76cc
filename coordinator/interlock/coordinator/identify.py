"""Who am I: nobody should have to repeat a name, and an `export` dies between an agent's tool calls.

--as, BUS_AGENT, its instance key ─▶ the name joined from one of the caller's ancestors
    ─▶ the run, where CI numbers it ─▶ the name joined in this worktree ─▶ $USER at a terminal
    ─▶ the session, in CI that numbers nothing ─▶ nobody, and how to say it

A run comes before the worktree: on a runner that stays, that worktree is the one of every run before.
"""

import msgspec

from interlock.protocol.codes import Code
from interlock.protocol.identity import Identity
from interlock.protocol.names import why_not_agent
from interlock.protocol.registry import Agent, Registry, conflict_of_case


class Found(msgspec.Struct, frozen=True):
    """A name and how it was found; or no name, and a sentence that says how to give one."""

    agent: str = ""
    how: str = ""
    why: str = ""
    code: Code = Code.BAD_MESSAGE


def identify(
    registry: Registry, *, agent: str, how: str, ancestors: list[Identity], worktree: str, user: str, run: str = "",
    unnumbered: str = "",
) -> Found:  # fmt: skip
    """Find the caller's name. Source: contract §1.

    Args:
        agent, how: a name that was given, and where.
        ancestors: the caller and its ancestors, nearest first.
        worktree: real path of its git top. user: $USER at a terminal, else "".
        run, unnumbered: names that the client made for a run of CI: one with a number, one without.
    """
    if agent:
        why_not = why_not_agent(agent)
        if why_not:
            return Found(why=why_not)
        spelled = registry.agents.spelled(agent)
        if spelled != agent:
            return Found(why=conflict_of_case(spelled), code=Code.NAME_CONFLICT)
        return Found(agent, how)
    for process in ancestors:
        candidates = registry.agents.of_process(process)
        if len(candidates) > 1:
            candidates = [each for each in candidates if each.worktree == worktree] or candidates
        if candidates:
            return _the_one(candidates, f"joined from your process {process.pid}")
    if run and why_not_agent(run) is None:
        return Found(run, "the run of CI")
    here = registry.agents.in_worktree(worktree) if worktree else []
    if here:
        return _the_one(here, f"joined in {worktree}")
    if user and why_not_agent(user) is None:
        return Found(user, "$USER at a terminal")
    if unnumbered and why_not_agent(unnumbered) is None:
        return Found(unnumbered, "the session, in CI")
    return Found(why="the bus does not know who you are: bus join NAME, or --as NAME, or set BUS_AGENT")


def _the_one(candidates: list[Agent], how: str) -> Found:
    if len(candidates) == 1:
        return Found(candidates[0].name, how)
    names = ", ".join(sorted(each.name for each in candidates))
    return Found(why=f"several agents {how}, {names}: say which with --as NAME", code=Code.AMBIGUOUS_TARGET)
