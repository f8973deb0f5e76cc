"""Stopping what runs along with the bus (`bus down --stop-servers`): servers, and what commands have prepared."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import anyio

from interlock.protocol.resource_commands import StopServers
from interlock.protocol.resource_state import Resource, StepKind, Unit, UnitState

if TYPE_CHECKING:
    from interlock.coordinator.supervisor import Supervisor


async def end_servers(supervisor: Supervisor) -> None:
    """Stop what runs, and what is only just being started."""
    supervisor.effects.halt()
    with anyio.move_on_after(_bound_s(supervisor)):
        while busy := _with_servers(supervisor):
            for key in busy:
                supervisor.tell(key, StopServers())
            await supervisor.journal.committed()


def _with_servers(supervisor: Supervisor) -> list[str]:
    """Where something runs or is prepared that has yet to be stopped. What else is under way is its keeper's."""

    resources = supervisor.world.resources
    return [key for key, each in resources.items() if any(map(partial(_runs, each), each.units))]


def _runs(resource: Resource, unit: Unit) -> bool:
    step, command = unit.step, resource.definition.command
    if unit.state is UnitState.RECOVERY_REQUIRED:  # one that outlived the database can be stopped; one in doubt not
        return unit.server is not None and unit.server.alive
    if unit.server is not None or (step is not None and step.kind is StepKind.STOP):
        return True
    if step is None:
        return unit.prepared is not None and unit.prepared.definition.stop != ""
    return step.launch != "" and (command is None or command.repeatable)  # it is being ended, to begin anew later


def _bound_s(supervisor: Supervisor) -> float:
    longest = 0
    for resource in supervisor.world.resources.values():
        servers = [unit.server.definition.stop_timeout_ms for unit in resource.units if unit.server is not None]
        stops = [unit.prepared.definition.step_timeout_ms for unit in resource.units if unit.prepared is not None]
        declared = resource.definition.server
        longest = max(longest, *servers, *stops, declared.stop_timeout_ms if declared is not None else 0)
    return 15 + longest / 1000
