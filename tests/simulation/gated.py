"""The gate in a story: what must be so of every event that reaches the disk, and at rest."""

from typing import TYPE_CHECKING, Any

from tests.simulation.machine import Broken

from interlock.protocol.gate_commands import (
    CommandAdmitted,
    CommandFinished,
    CommandRecovered,
    PolicyCleared,
    PolicySet,
)
from interlock.protocol.gate_state import CommandState, Managed
from interlock.protocol.policy import Policy

if TYPE_CHECKING:
    from tests.simulation.story import Story

GATED = ("machine/gated", "machine/other")  # nobody asks for them: whom their policies cover is not admitted


class Ledger:
    """What the log says of the gate, kept apart from it."""

    def __init__(self) -> None:
        self.policies: dict[str, Policy] = {}
        self.live: dict[str, Managed] = {}
        self.epochs: dict[str, int] = {}

    def durable(self, event: Any) -> None:
        match event:
            case PolicySet(key, policy, blockers=blockers):
                self._grows(key, policy.epoch)
                covered = {launch for launch, each in self.live.items() if _covers(policy, key, each)}
                if covered != set(blockers):
                    raise Broken(f"a policy adopts what runs and is covered: {key} {blockers}, not {covered}")
                self.policies[key] = policy
            case PolicyCleared(key, epoch):
                self._grows(key, epoch)
                del self.policies[key]
            case CommandAdmitted(command=command):
                without = [key for key, each in self.policies.items() if _covers(each, key, command)]
                if without or command.launch in self.live:
                    raise Broken(f"nothing is admitted without what covers it, and once: {command} {without}")
                self.live[command.launch] = command
            case CommandFinished(launch=launch) | CommandRecovered(launch=launch):
                del self.live[launch]

    def _grows(self, key: str, epoch: int) -> None:
        if epoch <= self.epochs.get(key, 0):
            raise Broken(f"an epoch only grows: {key} {epoch}")
        self.epochs[key] = epoch


def the_gate_agrees(story: "Story") -> None:
    """At rest: the ledger has what runs, its resources know of it, and each has heard what the gate says."""
    assert story.life is not None
    world = story.life.supervisor.world
    for launch, command in world.gate.commands.items():
        if command.state is CommandState.RECOVERY_REQUIRED:
            continue
        if not story.machine.trees[launch].keeper_lives:
            raise Broken(f"a command that is gone is still on record: {command}")
        for hold in command.holds:
            if not any(launch in unit.launches for unit in world.resource(hold.key).units):
                raise Broken(f"a command runs, and what it runs under does not know: {command}")
    for key in world.gate.epochs:
        known, said = world.resource(key), (world.gate.policies.get(key), world.gate.epochs[key])
        blockers = [launch for launch, command in world.gate.commands.items() if key in command.blocks]
        if (known.policy, known.epoch, known.blockers) != (*said, tuple(blockers)):
            raise Broken(f"a resource has not heard what the gate says: {known} {said}")
    for key, resource in world.resources.items():
        strangers = {launch for unit in resource.units for launch in unit.launches} - {*world.gate.commands}
        if strangers and not story.told["lost"]:
            raise Broken(f"a command runs under {key}, and is not on record: {strangers}")


def _covers(policy: Policy, key: str, command: Managed) -> bool:
    return command.is_of(policy.participants) and all(hold.key != key for hold in command.holds)
