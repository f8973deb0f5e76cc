"""The gate's desk: policies as they are set and shown, the ledger of commands, and what a person confirms of it."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from interlock.coordinator.naming import Names
from interlock.coordinator.presence import presence_of
from interlock.coordinator.territory_views import under
from interlock.coordinator.views import reservations_of
from interlock.coordinator.world import GATE
from interlock.protocol import control, gate_questions
from interlock.protocol.answers import one_line
from interlock.protocol.codes import Code
from interlock.protocol.envelope import wire_time
from interlock.protocol.gate_commands import ClearPolicy, RecoverCommand, SetPolicy
from interlock.protocol.gate_state import CommandState, Managed
from interlock.protocol.identity import Presence
from interlock.protocol.limits import RESOURCES_LIVE_MAX
from interlock.protocol.messages import FromBus, PolicyIs, Refused, Released, Text
from interlock.protocol.names import nearest
from interlock.protocol.policy import Policy, Profile
from interlock.protocol.resource_commands import Recover
from interlock.protocol.resource_state import UnitState
from interlock.protocol.visible import quoted, visible

if TYPE_CHECKING:
    from interlock.coordinator.session import Session
    from interlock.coordinator.supervisor import Supervisor


class GateDesk:
    """One per bus."""

    def __init__(self, supervisor: Supervisor, names: Names) -> None:
        self._supervisor = supervisor
        self._names = names

    # --- policies -----------------------------------------------------------------------------
    async def set_policy(self, session: Session, question: gate_questions.SetController) -> FromBus:
        """Install, change or take away the policy of a resource."""
        supervisor, agent, called = self._supervisor, session.agent, question.resource
        if session.claimed:
            why = "a file cannot carry a policy, for it only says whose it is: do it outside the sandbox"
            return Refused(Code.CAPABILITY_DENIED, why)
        profiles = [str(each) for each in Profile]
        if question.profile not in profiles:
            close = nearest(question.profile, profiles)
            hint = f"did you mean {close[0]!r}?" if close else '"build" or "strict"'
            return Refused(Code.BAD_MESSAGE, f"profile {quoted(question.profile)} is unknown: {hint}", called)
        key = self._names.resolve(called, session)
        if not supervisor.may_control(session, agent):
            why = f"{agent} may not set policies: {supervisor.authority.how_to_control(agent)}"
            return Refused(Code.CAPABILITY_DENIED, why, called)
        if not supervisor.world.has_room_for(key):
            why = f"{RESOURCES_LIVE_MAX} resources are in use, no more can be: release some"
            return Refused(Code.QUEUE_FULL, why, called)
        here = supervisor.world.registry.living(question.controller) is not None
        if not question.controller:
            answer = await supervisor.ask(GATE, lambda id_: ClearPolicy(id_, agent, True, key, question.epoch))
        elif here and not supervisor.authority.is_controller(question.controller):
            how = supervisor.authority.how_to_control(visible(question.controller)[:64])
            return Refused(Code.CAPABILITY_DENIED, f"its controller could not grant: {how}", called)
        else:
            profile = Profile(question.profile)
            answer = await supervisor.ask(
                GATE,
                lambda id_: SetPolicy(
                    id_, agent, True, key, question.controller, here, question.participants, profile, question.epoch
                ),
            )
        return msgspec.structs.replace(answer, resource=called) if isinstance(answer, PolicyIs) else answer

    def policies(
        self, session: Session, question: gate_questions.AskPolicies
    ) -> gate_questions.PoliciesReply | Refused:
        """Every policy, or that of one resource."""
        policies, called = self._supervisor.world.gate.policies, question.resource
        if not called:
            return gate_questions.PoliciesReply(
                tuple(self._policy(key, each, session) for key, each in policies.items())
            )
        key = self._names.resolve(called, session)
        if key not in policies:
            why = f"{called} has no policy: the coordinator grants by itself, first come, first served"
            return Refused(Code.TARGET_ENDED, why, called)
        return gate_questions.PoliciesReply((self._policy(key, policies[key], session),))

    def _policy(self, key: str, policy: Policy, session: Session) -> dict[str, Any]:
        blockers = [each.launch for each in self._supervisor.governing.blockers(key)]
        name = self._names.shown(key, session)
        row = {"resource": key, "name": name, **policy_view(self._supervisor, policy)}
        return {**row, "participants": list(policy.participants), "blockers": blockers}

    # --- commands -----------------------------------------------------------------------------
    def commands(self) -> gate_questions.CommandsReply:
        """Every managed command, the oldest first."""
        now_ms = self._supervisor.clock.wall_ms()
        return gate_questions.CommandsReply(
            tuple(self._shown(each, now_ms) for each in self._supervisor.world.gate.commands.values())
        )

    def _shown(self, command: Managed, now_ms: int) -> dict[str, Any]:
        leases = under(self._supervisor.world.territories.values(), command.launch)
        return {**command_view(command, now_ms), "leases": leases}

    async def recover(
        self, session: Session, question: gate_questions.RecoverLaunch
    ) -> control.EvidenceReply | FromBus:
        """First the evidence and a code that names it; with that code, a person's word that the command has ended."""
        launch, world = question.launch, self._supervisor.world
        command = world.gate.commands.get(launch)
        if command is None or command.state is not CommandState.RECOVERY_REQUIRED:
            state = "is not on record any more" if command is None else f"is {command.state}"
            return Refused(
                Code.TARGET_ENDED, f"{visible(launch)[:128]} needs no recovery: it {state}; bus ps lists all"
            )
        why = await self._evidence(command)
        expected = hashlib.blake2b("\0".join((launch, *why)).encode(), digest_size=3).hexdigest()
        if question.code != expected:
            return control.EvidenceReply(launch, why, expected)
        sender = session.agent or "a person"
        answer = await self._supervisor.ask(GATE, lambda id_: RecoverCommand(id_, sender, launch))
        if isinstance(answer, Refused):
            return answer
        freed: list[str] = []
        left: list[str] = []
        for hold in command.holds:
            doubts = self._doubts(hold.key)
            if doubts and all(each == command.why for each in doubts):
                released = await self._supervisor.ask(hold.key, lambda id_: Recover(id_, sender))
                (freed if isinstance(released, Released) else left).append(hold.key)
            elif doubts:
                left.append(hold.key)
        said = answer.text if isinstance(answer, Text) else f"RECOVERED {launch}"
        said += f"; free again: {', '.join(freed)}" if freed else ""
        said += f"; still in doubt for more than this, look with bus recover: {', '.join(left)}" if left else ""
        return Text(said)

    async def recovered(self, sender: str, key: str) -> None:
        """A person has confirmed that a resource's old use has ended: so have the commands that are in doubt there."""
        for launch, command in self._supervisor.world.gate.commands.items():
            doubtful = command.state is CommandState.RECOVERY_REQUIRED
            if doubtful and any(hold.key == key for hold in command.holds) and not self._doubts(key):
                await self._supervisor.ask(GATE, partial(RecoverCommand, sender=sender, launch=launch))

    async def _evidence(self, command: Managed) -> tuple[str, ...]:
        traces = await self._supervisor.effects.traces(command.launch, command.keeper)
        holds = ", ".join(f"{hold.key} (fence {hold.fence})" for hold in command.holds) or "nothing"
        marked = ", ".join(map(one_line, traces.marked))
        return (
            f"{command.command} of {command.agent}, admitted {wire_time(command.since_ms)}: {command.why}",
            f"it was started in {visible(command.directory) or 'a directory that is not known'} and ran under {holds}",
            traces.keeper,
            traces.report,
            f"processes that still carry its mark: {marked}"
            if marked
            else "no process that can be seen carries its mark",
        )

    def _doubts(self, key: str) -> list[str]:
        units = self._supervisor.world.resource(key).units
        return [unit.why for unit in units if unit.state is UnitState.RECOVERY_REQUIRED]


def policy_view(supervisor: Supervisor, policy: Policy) -> dict[str, Any]:
    """A policy as status and `bus policy` show it: whose it is, and whether its controller is here."""
    presence = presence_of(supervisor, supervisor.world.registry.agents.get(policy.controller))
    return {
        "epoch": policy.epoch,
        "controller": policy.controller,
        "controller_gone": presence is Presence.GONE,
        "controller_presence": str(presence),
        "participants": len(policy.participants),
        "profile": str(policy.profile),
    }


def governed_view(supervisor: Supervisor, key: str) -> dict[str, Any]:
    """What `bus status` adds of the gate: the policy, what has to end before anything is granted, what is reserved."""
    policy = supervisor.world.gate.policies.get(key)
    return {
        "policy": policy_view(supervisor, policy) if policy is not None else None,
        "blockers": blockers_view(supervisor, key),
        "reservations": reservations_of(supervisor.world.resource(key)),
    }


def blockers_view(supervisor: Supervisor, key: str) -> list[dict[str, str]]:
    """The commands that hold a resource up, as `bus status` and `bus coordinate` show them."""
    return [
        {"launch": each.launch, "agent": each.agent, "command": each.command, "state": str(each.state)}
        for each in supervisor.governing.blockers(key)
    ]


def command_view(command: Managed, now_ms: int) -> dict[str, Any]:
    """A managed command as `bus ps` shows it."""
    view: dict[str, Any] = {
        "launch": command.launch,
        "agent": command.agent,
        "state": str(command.state),
        "command": command.command,
        "directory": command.directory,
        "since": wire_time(command.since_ms),
        "age_s": max(0, now_ms - command.since_ms) // 1000,
        "holds": {hold.key: hold.fence for hold in command.holds},
        "blocks": list(command.blocks),
        "keeper_pid": command.keeper.pid,
        "keeper": msgspec.to_builtins(command.keeper),
        "recognised": command.recognised,
    }
    if command.leader is not None:
        view |= {"pid": command.leader.pid, "group": command.group}
    return view | ({"why": command.why} if command.why else {})
