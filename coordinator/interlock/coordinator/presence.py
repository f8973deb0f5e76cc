"""Presence: whether an agent is alive, gone, or nobody can say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.protocol.identity import Presence
from interlock.protocol.registry import Agent

if TYPE_CHECKING:
    from interlock.coordinator.supervisor import Supervisor


def presence_of(supervisor: Supervisor, agent: Agent | None) -> Presence:
    """Look now. Args: agent: as the registry has it; None: it never joined, or is forgotten."""
    if agent is None or agent.gone:
        return Presence.GONE
    if agent.session:
        return Presence.UNKNOWN if agent.name in supervisor.world.registry.cut else Presence.ALIVE
    if agent.process is not None:
        return supervisor.effects.probe(agent.process)
    return Presence.UNKNOWN
