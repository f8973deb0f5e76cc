"""The gate machine: policies and the ledger of managed commands in one place, so that the two are put in an order.

    SetPolicy before AdmitCommand: the command must hold the resource    (else STALE_POLICY)
    AdmitCommand before SetPolicy: the command is a blocker of the resource until its tree is gone

It grants nothing: what follows from a policy at its resource, the resource decides (`Govern`).
"""

from collections.abc import Iterator
from functools import lru_cache

import msgspec

from interlock.protocol.codes import Code
from interlock.protocol.gate_commands import (
    AdmitCommand,
    ClearPolicy,
    CommandAdmitted,
    CommandBegan,
    CommandDraining,
    CommandFinished,
    CommandGone,
    CommandInDoubt,
    CommandRecovered,
    CommandStarted,
    GateCommand,
    GateEvent,
    LeaderEnded,
    PolicyCleared,
    PolicySet,
    RecoverCommand,
    SetPolicy,
    SyncGate,
)
from interlock.protocol.gate_state import CommandOver, CommandState, Gate, Hold
from interlock.protocol.limits import (
    COMMANDS_MAX,
    LAUNCHES_OVER_KEPT,
    PARTICIPANTS_MAX,
    POLICIES_MAX,
    RESOURCES_LIVE_MAX,
)
from interlock.protocol.messages import Admitted, FromBus, PolicyIs, Refused, Text
from interlock.protocol.names import why_not_agent
from interlock.protocol.outcome import Now, Outcome, Send, fold
from interlock.protocol.policy import Policy

replace = msgspec.structs.replace
Decided = Outcome[Gate, GateEvent]


def decide(gate: Gate, command: GateCommand, now: Now) -> Decided:
    """Answer one command. What the resources are told of it follows from the state: the coordinator does that."""
    match command:
        case SetPolicy():
            return _set_policy(gate, command, now)
        case ClearPolicy():
            return _clear_policy(gate, command, now)
        case AdmitCommand():
            return _admit(gate, command, now)
        case CommandBegan(launch, leader, group):
            known = gate.commands.get(launch)
            if known is None or known.state is not CommandState.ADMITTED:
                return Outcome(gate)
            return _outcome(gate, CommandStarted(known.agent, launch, leader, group))
        case LeaderEnded(launch):
            known = gate.commands.get(launch)
            if known is None or known.state not in {CommandState.ADMITTED, CommandState.STARTED}:
                return Outcome(gate)
            return _outcome(gate, CommandDraining(known.agent, launch))
        case CommandGone():
            return _gone(gate, command, now)
        case RecoverCommand():
            return _recover(gate, command, now)
        case SyncGate(id_, sender):
            return _answer(gate, sender, Text(""), id_)


def evolve(gate: Gate, event: GateEvent) -> Gate:
    """Take one fact in. Total and silent, as a replay needs it."""
    match event:
        case PolicySet(key, policy, blockers=blockers):
            gate = _block(gate, key, frozenset(blockers))
            return replace(gate, policies=gate.policies.put(key, policy), epochs=gate.epochs.put(key, policy.epoch))
        case PolicyCleared(key, epoch):
            gate = _block(gate, key, frozenset())
            return replace(gate, policies=gate.policies.without(key), epochs=gate.epochs.put(key, epoch))
        case CommandAdmitted(command=command):
            return replace(gate, commands=gate.commands.put(command.launch, command))
        case CommandStarted(launch=launch, leader=leader, group=group):
            return _change(gate, launch, state=CommandState.STARTED, leader=leader, group=group)
        case CommandDraining(launch=launch):
            return _change(gate, launch, state=CommandState.DRAINING)
        case CommandInDoubt(launch=launch, why=why):
            return _change(gate, launch, state=CommandState.RECOVERY_REQUIRED, why=why)
        case CommandFinished(launch=launch, at_ms=at_ms, code=code):
            return _strike_off(gate, launch, at_ms, code)
        case CommandRecovered(launch=launch, at_ms=at_ms):
            return _strike_off(gate, launch, at_ms, None)


def covering(gate: Gate, agent: str, also: tuple[str, ...], recognised: bool) -> Iterator[tuple[str, Policy]]:
    """(key, policy) of every policy that covers a command.

    Args: agent: whose it is. also: as whom that one counts besides. recognised: a build tool's.
    """
    names = (agent, *also)
    for key, policy in gate.policies.items():
        if policy.profile.takes(recognised) and not _names_of(policy.participants).isdisjoint(names):
            yield key, policy


# --- policies -----------------------------------------------------------------------------
def _set_policy(gate: Gate, command: SetPolicy, now: Now) -> Decided:
    participants = tuple(dict.fromkeys(command.participants))
    refused = _why_not_policy(gate, command, participants)
    if refused is not None:
        return _answer(gate, command.sender, refused, command.id)
    key, epoch = command.key, gate.epochs.get(command.key, 0) + 1
    policy = Policy(epoch, command.controller, participants, command.profile)
    blockers = tuple(_adopted(gate, key, policy))
    answer = PolicyIs(key, key, epoch, policy.controller, participants, policy.profile, blockers)
    event = PolicySet(key, policy, command.sender, now.at_ms, blockers)
    return _outcome(gate, event, Send(command.sender, answer, reply_to=command.id))


def _why_not_policy(gate: Gate, command: SetPolicy, participants: tuple[str, ...]) -> Refused | None:
    key, controller = command.key, command.controller
    if not command.may_control:
        return _no_capability(command.sender)
    if not participants:
        return Refused(Code.BAD_MESSAGE, "a policy without participants covers nobody: name them", key)
    if len(participants) > PARTICIPANTS_MAX:
        why = f"{len(participants)} participants are named, at most {PARTICIPANTS_MAX} can be: name fewer"
        return Refused(Code.BAD_MESSAGE, why, key)
    for name in (controller, *participants):
        why_not = why_not_agent(name)
        if why_not is not None:
            return Refused(Code.BAD_MESSAGE, why_not, key)
    if not command.controller_here:
        why = f"the controller {controller} is not here: it has to join first (bus join {controller}), see bus agents"
        return Refused(Code.CONTROLLER_UNAVAILABLE, why, key)
    if _is_stale(gate, key, command.epoch):
        return _stale_epoch(gate, key, command.epoch)
    if key not in gate.policies and len(gate.policies) >= POLICIES_MAX:
        why = f"{len(gate.policies)} policies are set, at most {POLICIES_MAX} can be: take one away"
        return Refused(Code.QUEUE_FULL, why, key)
    if key not in gate.epochs and len(gate.epochs) >= RESOURCES_LIVE_MAX:
        why = f"{len(gate.epochs)} resources have had a policy, at most {RESOURCES_LIVE_MAX} can: use one of those"
        return Refused(Code.QUEUE_FULL, why, key)
    return None


def _clear_policy(gate: Gate, command: ClearPolicy, now: Now) -> Decided:
    key = command.key
    if not command.may_control:
        return _answer(gate, command.sender, _no_capability(command.sender), command.id)
    if key not in gate.policies:
        refused = Refused(Code.TARGET_ENDED, f"{key} has no policy: the coordinator grants by itself", key)
        return _answer(gate, command.sender, refused, command.id)
    if _is_stale(gate, key, command.epoch):
        return _answer(gate, command.sender, _stale_epoch(gate, key, command.epoch), command.id)
    epoch = gate.epochs[key] + 1
    answer = Send(command.sender, PolicyIs(key, key, epoch), reply_to=command.id)
    return _outcome(gate, PolicyCleared(key, epoch, command.sender, now.at_ms), answer)


def _adopted(gate: Gate, key: str, policy: Policy) -> Iterator[str]:
    """Launches under way that a new policy covers and that do not hold its resource."""
    participants = _names_of(policy.participants)
    for launch, command in gate.commands.items():
        counts = command.agent in participants or not participants.isdisjoint(command.also)
        if counts and policy.profile.takes(command.recognised) and all(hold.key != key for hold in command.holds):
            yield launch


def _is_stale(gate: Gate, key: str, epoch: int) -> bool:
    """The sender knows another epoch than the present one; what never had a policy is at 1, as its status says."""
    return epoch not in {0, gate.epochs.get(key, 1)}


def _stale_epoch(gate: Gate, key: str, epoch: int) -> Refused:
    why = f"{key} is at epoch {gate.epochs.get(key, 1)} now, not {epoch}: look at its policy, then say it again"
    return Refused(Code.STALE_POLICY, why, key)


def _no_capability(sender: str) -> Refused:
    return Refused(Code.CAPABILITY_DENIED, f"{sender} may not set policies: a person allows it")


# --- the ledger ---------------------------------------------------------------------------
def _admit(gate: Gate, command: AdmitCommand, now: Now) -> Decided:
    """The final check, in order with every change of a policy: after this event the command may begin."""
    managed = command.command
    known = gate.commands.get(managed.launch)
    admitted = _admitted(managed.launch, known.holds if known is not None else managed.holds)
    if known is not None:
        same = (known.agent, known.keeper, known.digest) == (managed.agent, managed.keeper, managed.digest)
        other = Refused(Code.ID_CONFLICT, f"another command is on record as {managed.launch}: use a new launch id")
        return _answer(gate, managed.agent, admitted if same else other, command.id)
    if len(gate.commands) >= COMMANDS_MAX:
        why = f"{len(gate.commands)} commands run under the bus, at most {COMMANDS_MAX} can: wait until some end"
        return _answer(gate, managed.agent, Refused(Code.QUEUE_FULL, why), command.id)
    held = {hold.key for hold in managed.holds}
    for key, policy in covering(gate, managed.agent, managed.also, managed.recognised):
        if key not in held or command.epochs.get(key) != policy.epoch:
            why = f"the policy of {key} is at epoch {policy.epoch} now: the command was not started; run it again"
            return _answer(gate, managed.agent, Refused(Code.STALE_POLICY, why, key), command.id)
    managed = replace(managed, state=CommandState.ADMITTED, since_ms=now.at_ms, blocks=())
    event = CommandAdmitted(managed.agent, managed)
    return _outcome(gate, event, Send(managed.agent, admitted, reply_to=command.id))


def _admitted(launch: str, holds: tuple[Hold, ...]) -> Admitted:
    if not holds:
        return Admitted("", "", 0, launch)
    return Admitted(holds[0].key, holds[0].key, holds[0].fence, launch)


def _gone(gate: Gate, gone: CommandGone, now: Now) -> Decided:
    known = gate.commands.get(gone.launch)
    if known is None:
        return Outcome(gate)
    if gone.proved:
        return _outcome(gate, CommandFinished(known.agent, gone.launch, now.at_ms, gone.code, gone.evidence))
    if known.state is CommandState.RECOVERY_REQUIRED:
        return Outcome(gate)
    return _outcome(gate, CommandInDoubt(known.agent, gone.launch, gone.evidence))


def _recover(gate: Gate, command: RecoverCommand, now: Now) -> Decided:
    """A person's word strikes off what is in doubt, and nothing else."""
    launch, known = command.launch, gate.commands.get(command.launch)
    if known is None:
        refused = Refused(Code.TARGET_ENDED, f"no command {launch} is on record any more: bus ps lists them")
        return _answer(gate, command.sender, refused, command.id)
    if known.state is not CommandState.RECOVERY_REQUIRED:
        refused = Refused(Code.RESOURCE_BUSY, f"{known.command} ({launch}) is {known.state}: nothing of it is in doubt")
        return _answer(gate, command.sender, refused, command.id)
    answer = Text(f"RECOVERED {launch} - {known.command} of {known.agent} is struck off")
    event = CommandRecovered(known.agent, launch, command.sender, now.at_ms)
    return _outcome(gate, event, Send(command.sender, answer, reply_to=command.id))


# --- straight helpers ---------------------------------------------------------------------
@lru_cache(POLICIES_MAX)
def _names_of(participants: tuple[str, ...]) -> frozenset[str]:
    """The same as a set: each command is looked for in every policy."""
    return frozenset(participants)


def _block(gate: Gate, key: str, blockers: frozenset[str]) -> Gate:
    """Exactly those commands block that resource from now on."""
    changed = {}
    for launch, command in gate.commands.items():
        if (key in command.blocks) is not (launch in blockers):
            others = tuple(each for each in command.blocks if each != key)
            blocks = (*others, key) if launch in blockers else others
            changed[launch] = replace(command, blocks=blocks)
    return replace(gate, commands=gate.commands.put_all(changed))


def _strike_off(gate: Gate, launch: str, at_ms: int, code: int | None) -> Gate:
    """It is over; how it ended is known for a while."""
    known = gate.commands[launch]
    over = CommandOver(known.agent, known.command, at_ms, code, known.task)
    newest = gate.over.put_last(launch, over).newest(LAUNCHES_OVER_KEPT)
    return replace(gate, commands=gate.commands.without(launch), over=newest)


def _change(gate: Gate, launch: str, **changes: object) -> Gate:
    return replace(gate, commands=gate.commands.put(launch, replace(gate.commands[launch], **changes)))


def _outcome(gate: Gate, event: GateEvent, *outbox: Send) -> Decided:
    return Outcome(fold(evolve, gate, (event,)), (event,), outbox)


def _answer(gate: Gate, to: str, body: FromBus, message_id: str) -> Decided:
    return Outcome(gate, outbox=(Send(to, body, reply_to=message_id),))
