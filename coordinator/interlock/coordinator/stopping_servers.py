"""Stopping the servers along with the bus (`bus down --stop-servers`), in bounded time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from interlock.protocol.resource_commands import StopServers
from interlock.protocol.resource_state import StepKind, Unit, UnitState

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
    def runs(unit: Unit) -> bool:
        step = unit.step
        begun = step is not None and (step.kind is not StepKind.START or step.launch != "")
        if unit.state is UnitState.RECOVERY_REQUIRED:  # one that outlived the database can be stopped; one in doubt not
            return unit.server is not None and unit.server.alive
        return unit.server is not None or begun

    return [key for key, resource in supervisor.world.resources.items() if any(runs(unit) for unit in resource.units)]


def _bound_s(supervisor: Supervisor) -> float:
    servers = [each.server for each in supervisor.config.resources.values() if each.server is not None]
    return 15 + max((server.stop_timeout_ms for server in servers), default=0) / 1000
