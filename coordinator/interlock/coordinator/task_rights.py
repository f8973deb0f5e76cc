"""For a task: may this agent reserve that, or run something, for it? Asked before anything of it is done."""

from interlock.coordinator.naming import No
from interlock.coordinator.world import TASK, World
from interlock.protocol.claim import Claim
from interlock.protocol.codes import Code
from interlock.protocol.names import why_not_task
from interlock.protocol.task_scope import why_not_claims, why_not_for, why_not_resource


def for_task(
    world: World, task: str, agent: str, *, resource: str = "", claims: tuple[str, tuple[Claim, ...]] | None = None
) -> None:
    """Is the task the agent's, under way, and is what is to be reserved within what it lets?

    Args:
        task: its id. resource: key of what is to be reserved. claims: the territory, and paths of it.

    Raises:
        No: BAD_MESSAGE, TARGET_ENDED, or SCOPE_DENIED with the scope in the sentence.
    """
    why_not = why_not_task(task)
    if why_not is not None:
        raise No(Code.BAD_MESSAGE, why_not)
    known = world.task(TASK + task)
    why = why_not_for(known, agent)
    if why:
        over = known.assignment is None or known.is_over()
        raise No(Code.TARGET_ENDED if over else Code.SCOPE_DENIED, why)
    why = why_not_resource(known, resource) if resource else why_not_claims(known, *claims) if claims else ""
    if why:
        raise No(Code.SCOPE_DENIED, why)
