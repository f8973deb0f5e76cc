"""The gate and a controller in the world of the search: what they can say, and what must be true under a policy.

The gate sets, changes and takes away policies; commands that began without the resource come and go; the controller
grants; a command is the one that its reservation is bound to, or another. `search_promises.py` asks what is here.
"""

from collections.abc import Iterator

import msgspec
from tests.protocol.search_standing import hold_to
from tests.protocol.search_world import KEEPER, Config, World, commands_on, tickets, with_hold

from interlock.protocol.codes import Code
from interlock.protocol.messages import Grant, Refused
from interlock.protocol.outcome import Outcome
from interlock.protocol.policy import Policy
from interlock.protocol.resource_commands import Admit, Govern, Mail, ResourceCommand
from interlock.protocol.resource_events import Governed, HoldGranted, HoldRevoked, ResourceEvent, Started
from interlock.protocol.resource_state import Resource, Unit, UnitState

CONTROLLER, OTHER = "ctl", "boss"
BLOCKER = "l8"
Move = tuple[str, ResourceCommand, int]  # its name, the command, how long it is until then (ms)
replace = msgspec.structs.replace


# --- what can be said ---------------------------------------------------------------------------
def of_gate(world: World, config: Config) -> Iterator[Move]:
    """What the gate can say next: every agent is treated alike, so that any of them stands for all."""
    epoch, policy = world.epoch + 1, world.policy
    everybody = Policy(epoch, CONTROLLER, config.agents)
    yield "the gate sets a policy", Govern(everybody, epoch), 0
    yield "… that a command under way is in the way of", Govern(everybody, epoch, (BLOCKER,)), 0
    for agent in config.agents:
        yield f"the gate sets a policy for {agent}", Govern(Policy(epoch, OTHER, (agent,)), epoch), 0
    if policy is not None:
        yield "the gate takes the policy away", Govern(None, epoch), 0
        yield "the blocker ends", Govern(policy, world.epoch), 0
        yield "a blocker comes late", Govern(policy, world.epoch, (BLOCKER,)), 0


def of_controller(world: World) -> Iterator[Move]:
    who = CONTROLLER if world.policy is None else world.policy.controller
    for ticket in tickets(world.resource):
        id_ = f"g{world.depth}{ticket.request_id}"
        grant = Mail(who, 1, id_, Grant(ticket.request_id, world.epoch), "r", may_control=True)
        yield f"{who} GRANT {ticket.request_id}", grant, 0
        if world.policy is not None:
            yield "without the capability", replace(grant, may_control=False), 0
            yield "of an old epoch", replace(grant, body=Grant(ticket.request_id, world.epoch + 1)), 0
            yield f"{ticket.agent} GRANT {ticket.request_id}", replace(grant, sender=ticket.agent), 0


def of_commands(world: World, unit: Unit) -> Iterator[Move]:
    """Another command than the one that was begun first, and one that is started inside it."""
    if unit.state is not UnitState.HELD or unit.ticket is None:
        return
    here = commands_on(world, unit.name)
    id_, launch = f"admit{world.depth}", f"c{world.depth}{unit.name}"
    other = Admit(unit.ticket.agent, id_, unit.fence, launch, KEEPER, "rm", "d2")
    if len(here) < 2:
        yield f"{unit.ticket.agent} admits another", other, 0
    if len(here) == 1:
        yield f"{unit.ticket.agent} admits inside", replace(other, digest="d3", inside=tuple(here)), 0


# --- what must be true ----------------------------------------------------------------------------
def present(world: World) -> int:
    """The epoch that is reserved under now; 0: under none."""
    return world.epoch if world.policy is not None else 0


def governed(world: World, command: ResourceCommand, event: Governed) -> World:
    hold_to("only the gate governs", isinstance(command, Govern), event)
    return replace(world, policy=event.policy, epoch=event.epoch, blockers=event.blockers)


def may_be_chosen(world: World, command: ResourceCommand, request_id: str) -> bool:
    """Nobody but the controller grants under a policy; True: so it was, and the queue's order does not count."""
    hold_to("nothing is granted while blockers live", not world.blockers, request_id)
    if world.policy is None:
        return False
    grant = command.body if isinstance(command, Mail) and isinstance(command.body, Grant) else None
    right = grant is not None and grant.request_id == request_id and grant.epoch == world.epoch
    right = right and isinstance(command, Mail) and command.may_control and command.sender == world.policy.controller
    hold_to("under a policy nothing is granted but by its controller", right, command, request_id)
    return True


def granted_under(world: World, event: HoldGranted) -> None:
    hold_to("nothing is granted while blockers live", not world.blockers, event)
    hold_to("a grant is of the present policy", event.epoch == present(world), event, world.epoch)


def used(world: World, command: ResourceCommand, event: Started) -> World:
    """A command begins: under a hold of the present policy that is for it, or inside one that does."""
    hold = world.holds[event.fence]
    under = [launch for launch, (_, fence) in world.commands.items() if fence == event.fence]
    digest, inside = "", False
    if isinstance(command, Admit):
        digest, inside = command.digest, any(launch in under for launch in command.inside)
    hold_to("nothing begins under an older policy", inside or hold.epoch == present(world), event, hold)
    bound = (hold.run or hold.epoch) and under
    hold_to("a reservation is for one command", inside or not bound or digest == hold.digest, event, hold, digest)
    return world if under else with_hold(world, event.fence, replace(hold, digest=digest))


def may_revoke(before: World, world: World, event: object) -> bool:
    """A policy ends what is not used yet, and only where it is another one, or something new is in its way."""
    changed = (before.policy, before.epoch) != (world.policy, world.epoch)
    changed = changed or not {*world.blockers} <= {*before.blockers}
    return changed and isinstance(event, HoldRevoked) and event.code == Code.STALE_POLICY


def chooses(before: World, world: World, mail: Mail, answer: object, outcome: Outcome[Resource, ResourceEvent]) -> None:
    """GRANT: whom the controller chooses has it where it can be given; what is refused changes nothing."""
    assert isinstance(mail.body, Grant)
    policy, wanted = before.policy, mail.body.request_id
    if isinstance(answer, Refused):
        hold_to("what is refused changes nothing", not outcome.events, mail, outcome.events)
    has = [u for u in world.resource.units if u.ticket is not None and u.ticket.request_id == wanted]
    free = any(u.state is UnitState.FREE and u.step is None for u in before.resource.units)
    able = free and not before.blockers and before.resource.next_definition is None
    right = (
        policy is not None and mail.may_control and (mail.sender, mail.body.epoch) == (policy.controller, before.epoch)
    )
    if right and able and wanted in before.resource.queue:
        hold_to("whom the controller chooses has it", has and not isinstance(answer, Refused), mail, answer)
    hold_to("whom it is said to be granted has it", has or isinstance(answer, Refused), mail, answer)


def ends_with_its_last(before: World, world: World, launch: str) -> None:
    """A reservation is over with its last command, and any hold is while a policy stands."""
    fence = before.commands[launch][1]
    hold = before.holds.get(fence)
    others = [each for each, (_, under) in world.commands.items() if under == fence]
    if hold is not None and not others and (hold.run or hold.epoch or world.policy is not None):
        hold_to("a reservation ends with its last command", fence not in world.holds, hold)


def told(world: World, outcome: Outcome[Resource, ResourceEvent]) -> World:
    """What lies in a controller's inbox about tickets."""
    lies = world.told - {(each.to, each.slot) for each in outcome.withdraw}
    lies |= {(each.to, each.slot) for each in outcome.outbox if each.slot.startswith("Ticket:")}
    return replace(world, told=lies)


def stands_governed(world: World) -> None:
    state, policy = world.resource, world.policy
    waits = {(policy.controller, f"Ticket:{request_id}") for request_id in state.queue} if policy is not None else set()
    hold_to("what waits for its controller is in its inbox, and nothing else", world.told == waits, world.told, waits)
    for ticket in state.queue.values() if policy is not None else ():
        assert policy is not None
        hold_to("who waits is enrolled", ticket.is_of(policy.participants), ticket)
    for unit in state.units:
        hold = next((hold for hold in world.holds.values() if hold.unit == unit.name and not hold.draining), None)
        if hold is None or commands_on(world, unit.name):
            continue
        hold_to("what is reserved is of the present policy", hold.epoch == present(world), hold, world.epoch)
        if hold.run or hold.epoch:
            hold_to("a reservation that is not used ends", unit.claim_at is not None, unit)
