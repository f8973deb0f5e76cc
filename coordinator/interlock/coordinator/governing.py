"""Governing: each resource is told what the gate says of it, after whatever changes that, and after a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from interlock.coordinator.presence import presence_of
from interlock.coordinator.world import GATE
from interlock.protocol.gate import blockers_of
from interlock.protocol.gate_commands import (
    CommandFinished,
    CommandRecovered,
    GateEvent,
    PolicyCleared,
    PolicySet,
)
from interlock.protocol.gate_state import CommandState
from interlock.protocol.identity import Presence
from interlock.protocol.messages import FromBus, Queued
from interlock.protocol.resource_commands import Govern

if TYPE_CHECKING:
    from interlock.coordinator.supervisor import Supervisor


class Governing:
    """One per bus."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._told: dict[str, Govern] = {}  # key → the last word, which it may not have decided yet

    def take_up(self) -> None:
        """After a start: tell every resource that has or had a policy, and watch every command again."""
        supervisor = self._supervisor
        for key in self._supervisor.world.gate.epochs:
            self.renew(key)
        for launch, command in supervisor.world.gate.commands.items():
            if command.state is not CommandState.RECOVERY_REQUIRED:
                supervisor.launches.register(GATE, launch, command.keeper, command.command)

    def renew(self, key: str) -> None:
        """Tell a resource that no word is on its way to, where what it knows is not what the gate says."""
        if key not in self._supervisor.world.gate.epochs:
            return
        known, word = self._supervisor.world.resource(key), self._word(key)
        self._told[key] = word
        if (known.policy, known.epoch, known.blockers) != (word.policy, word.epoch, word.blockers):
            self._supervisor.tell(key, word)

    def noted(self, body: FromBus) -> FromBus:
        """What is said, and where somebody waits for a controller who is gone, that too."""
        if not isinstance(body, Queued):
            return body
        policy = self._supervisor.world.gate.policies.get(body.key)
        agents = self._supervisor.world.registry.agents
        if policy is None or presence_of(self._supervisor, agents.get(policy.controller)) is not Presence.GONE:
            return body
        gone = f"{policy.controller}, its controller, is gone: a person names another, see bus policy"
        return msgspec.structs.replace(body, note="; ".join(filter(None, (body.note, gone))))

    def follow(self, event: GateEvent) -> None:
        """Tell the resources that an event of the gate concerns."""
        match event:
            case PolicySet(key) | PolicyCleared(key):
                self._tell(key)
            case CommandFinished(launch=launch) | CommandRecovered(launch=launch):
                for key in [key for key, word in self._told.items() if launch in word.blockers]:
                    self._tell(key)

    def _tell(self, key: str) -> None:
        self._supervisor.define_if_new(key)
        word = self._word(key)
        if word != self._told.get(key):
            self._told[key] = word
            self._supervisor.tell(key, word)

    def _word(self, key: str) -> Govern:
        gate = self._supervisor.world.gate
        return Govern(gate.policies.get(key), gate.epochs[key], blockers_of(gate, key))
