"""At rest: what must be so once all trouble has ended and everything had time to go on."""

from typing import TYPE_CHECKING

from tests.simulation.gated import the_gate_agrees
from tests.simulation.machine import Broken

from interlock.coordinator.take_up import departed
from interlock.coordinator.world import TASK
from interlock.protocol.limits import LATE_MS
from interlock.protocol.resource_state import Resource, Ticket, UnitState, first_grantable
from interlock.protocol.resource_waiting import next_deadline
from interlock.protocol.task_messages import Assigned

if TYPE_CHECKING:
    from tests.simulation.story import Story


def under_way(story: "Story") -> str:
    assert story.life is not None
    for key, resource in story.life.supervisor.world.resources.items():
        for unit in resource.units:
            if unit.step is not None or unit.state is UnitState.PREPARING:
                return f"{key} {unit.name!r} {unit.state} {unit.step}"
    waiting = [id_ for each in [*story.agents, *story.runs] for id_ in each.pending]
    return f"no answer to {waiting}" if waiting else ""


def nothing_is_lost(story: "Story") -> None:
    assert story.life is not None
    supervisor = story.life.supervisor
    for key, resource in supervisor.world.resources.items():
        waiter = first_grantable(resource)
        together = waiter.together if waiter is not None else ()
        others = [supervisor.world.resource(each) for each in together]  # all of a set, or it waits on
        able = all(_serves(each) and first_grantable(each) in _of(each, waiter) for each in others)
        if waiter is not None and _serves(resource) and able:
            raise Broken(f"a lost wake-up: {key} is free and {waiter} waits")
        tickets = [*resource.queue.values(), *(u.ticket for u in resource.units if u.ticket and not u.launches)]
        for ticket in tickets:
            if ticket is not None and departed(supervisor.world.registry, ticket) is not None:
                raise Broken(f"who is gone still stands there: {key} {ticket}")
            if ticket is not None and ticket.run and ticket.process not in story.machine.alive:
                raise Broken(f"a bus run that is gone still stands there: {key} {ticket}")
        at = next_deadline(resource, story.clock.boot())
        awake = story.now_s() - story.slept_at_s > 60  # timers do not run in a sleep: what was due then is late
        if (
            awake
            and at is not None
            and (at.boot != story.clock.boot() or at.mono_ms < story.clock.mono_ms() - 2 * LATE_MS)
        ):
            raise Broken(f"a deadline is forgotten: {key} {at}")
        for unit in resource.units:
            for launch in unit.launches:
                if not story.machine.trees[launch].keeper_lives:
                    raise Broken(f"a command that is gone still holds: {key} {launch}")
    for agent in supervisor.world.registry.agents.values():
        if agent.process is not None and not agent.gone and agent.process not in story.machine.alive:
            raise Broken(f"a dead process is not noticed: {agent}")
        if agent.session and not agent.gone and agent.name not in supervisor.world.registry.cut:
            wire = next(each.wire for each in story.agents if each.name == agent.name)
            if wire is None or wire.broken:
                raise Broken(f"a session that is away is not noticed: {agent}")
    the_gate_agrees(story)
    the_tasks_agree(story)
    if story.promises.seq != supervisor.world.seq:
        raise Broken(f"the world is at {supervisor.world.seq}, the disk at {story.promises.seq}")


def the_tasks_agree(story: "Story") -> None:
    """What a task's record says is held for it is held for it, and nothing else is; what was read is on record."""
    assert story.life is not None
    world = story.life.supervisor.world
    held = {
        (unit.ticket.task, unit.fence)
        for resource in world.resources.values()
        for unit in resource.units
        if unit.ticket is not None and unit.ticket.task and unit.fence
    }
    said = {(task.id, each.fence) for task in world.tasks.values() for each in task.held()}
    if held != said:
        raise Broken(f"held for tasks is {held}, and on their records stands {said}")
    for agent, inbox in world.inboxes.items():
        for letter in inbox.acked.values():
            if isinstance(letter.body, Assigned) and not world.task(TASK + letter.body.task).read_ms:
                raise Broken(f"{agent} has read {letter.body.task}, and its record does not say so")


def _serves(resource: Resource) -> bool:
    free = [unit for unit in resource.units if unit.state is UnitState.FREE and unit.step is None]
    return bool(free) and resource.next_definition is None


def _of(resource: Resource, waiter: Ticket | None) -> list[Ticket | None]:
    """The waiter's own ticket there."""
    return [resource.queue.get(waiter.request_id)] if waiter is not None else []
