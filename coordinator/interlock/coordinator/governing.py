"""Governing: each resource is told what the gate says of it, after whatever changes that, and after a restart."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from interlock.coordinator.presence import presence_of
from interlock.coordinator.world import GATE
from interlock.protocol.gate_commands import (
    CommandFinished,
    CommandRecovered,
    GateEvent,
    PolicyCleared,
    PolicySet,
)
from interlock.protocol.gate_state import CommandState, Managed
from interlock.protocol.identity import Presence
from interlock.protocol.limits import BLOCKERS_TOLD_MAX
from interlock.protocol.messages import FromBus, Queued
from interlock.protocol.resource_commands import Govern

if TYPE_CHECKING:
    from interlock.coordinator.supervisor import Supervisor


class Governing:
    """One per bus."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._told: dict[str, Govern] = {}  # key → the last word, which it may not have decided yet
        self._held_up: dict[str, dict[str, None]] = {}  # key → launches that hold it up, the oldest first
        self._holding_up: dict[str, dict[str, None]] = {}  # the same the other way round

    def take_up(self) -> None:
        """After a start: tell every resource that has or had a policy, and watch every command again."""
        supervisor = self._supervisor
        for launch, command in supervisor.world.gate.commands.items():
            self._holding_up[launch] = dict.fromkeys(command.blocks)
            for key in command.blocks:
                self._held_up.setdefault(key, {})[launch] = None
        for key in supervisor.world.gate.epochs:
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

    def blockers(self, key: str) -> list[Managed]:
        """Commands under way that the policy of a resource covers and that run without it, the oldest first."""
        return list(self._blockers(key))

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
            case PolicySet(key, blockers=blockers):
                self._block(key, blockers)
                self._tell(key)
            case PolicyCleared(key):
                self._block(key, ())
                self._tell(key)
            case CommandFinished(launch=launch) | CommandRecovered(launch=launch):
                for key in self._holding_up.pop(launch, ()):
                    del self._held_up[key][launch]
                    self._tell(key)

    def _tell(self, key: str) -> None:
        self._supervisor.define_if_new(key)
        word = self._word(key)
        if word != self._told.get(key):
            self._told[key] = word
            self._supervisor.tell(key, word)

    def _word(self, key: str) -> Govern:
        gate = self._supervisor.world.gate
        blockers = (each.launch for each in islice(self._blockers(key), BLOCKERS_TOLD_MAX))
        return Govern(gate.policies.get(key), gate.epochs[key], tuple(blockers))

    # --- who holds up what: looked up here, for to look for it among all commands takes milliseconds ---------------
    def _blockers(self, key: str) -> Iterable[Managed]:
        commands = self._supervisor.world.gate.commands
        found = (commands.get(launch) for launch in self._held_up.get(key, ()))
        return (command for command in found if command is not None)

    def _block(self, key: str, blockers: tuple[str, ...]) -> None:
        """Exactly those commands hold it up from now on."""
        for launch in self._held_up.pop(key, ()):
            del self._holding_up[launch][key]
        self._held_up[key] = dict.fromkeys(blockers)
        for launch in blockers:
            self._holding_up.setdefault(launch, {})[key] = None
