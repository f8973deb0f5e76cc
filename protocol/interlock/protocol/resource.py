"""The resource machine: one command in, one outcome out. All branching on commands lives in `decide`.

resource_requests.py   agents' messages            resource_events.py   the facts
resource_giving.py     RELEASE and HANDOVER        resource_evolve.py   what each fact changes
resource_handover.py   who gets a free unit        resource_state.py    what there is
resource_steps.py      which step when             resource_waiting.py  polls and claims
resource_recovery.py   what a person confirms      resource_revoking.py what a person takes back
resource_policy.py     what a controller chooses   resource_admission.py what may begin under a grant
"""

from interlock.protocol.codes import Code
from interlock.protocol.definition import Definition, Kind
from interlock.protocol.messages import (
    Cancel,
    Extend,
    Grant,
    Handover,
    Release,
    Released,
    Request,
    Restart,
    Revoked,
)
from interlock.protocol.outcome import Now, Outcome
from interlock.protocol.resource_admission import admit
from interlock.protocol.resource_commands import (
    Admit,
    AgentGone,
    Deferred,
    Define,
    Doubt,
    Forget,
    Govern,
    Heard,
    LaunchGone,
    LaunchUp,
    Mail,
    PortBlocked,
    Recover,
    ResourceCommand,
    Resume,
    Revoke,
    ServerGone,
    StepFailure,
    StepResult,
    StopServers,
    Sync,
    Tick,
    TryTogether,
    WrapperGone,
)
from interlock.protocol.resource_draft import Draft
from interlock.protocol.resource_events import (
    DefinitionPending,
    Finished,
    Forgotten,
    ResourceEvent,
)
from interlock.protocol.resource_giving import handover, release
from interlock.protocol.resource_handover import (
    cancel_ticket,
    first_of,
    has_free_unit,
    port_blocked,
    recovery_required,
    server_gone,
    settle,
    step_failure,
    step_result,
    stop_servers,
)
from interlock.protocol.resource_policy import govern, grant_ticket, tell_of_policy
from interlock.protocol.resource_recovery import doubt, recover
from interlock.protocol.resource_requests import answer_request, cancel, extend, request, restart
from interlock.protocol.resource_revoking import revoke
from interlock.protocol.resource_state import (
    Resource,
    Unit,
    UnitState,
    find_ticket,
    is_reserved_anew,
    unit_of,
)
from interlock.protocol.resource_steps import launch_up, resume
from interlock.protocol.resource_waiting import end_hold, heard, release_hold, tick

NOT_DECLARED = "its declaration was taken back: see bus status for what there is"


def decide(resource: Resource, command: ResourceCommand, now: Now) -> Outcome[Resource, ResourceEvent]:
    """Answer one command.

    Args:
        resource: as it is; it is not changed.
        command: an agent's message, or a word of the coordinator, the timer or an adapter.
        now: the moment, and the number that the next event will have.

    Returns:
        The state that is to be, its events, and what to send and do once they are durable.
    """
    draft = Draft(resource, now, command.id if isinstance(command, Mail | Admit | Recover | Revoke | Sync) else "")
    first = first_of(draft)
    match command:
        case Mail(body=Request() as body):
            request(draft, command, body)
        case Mail(body=Release() as body):
            release(draft, command, body)
        case Mail(body=Extend() as body):
            extend(draft, command, body)
        case Mail(body=Cancel() as body):
            cancel(draft, command, body)
        case Mail(body=Handover() as body):
            handover(draft, command, body)
        case Mail(body=Restart()):
            restart(draft, command)
        case Mail(body=Grant() as body):
            grant_ticket(draft, command, body)
        case Admit():
            admit(draft, command)
        case Heard(agent):
            heard(draft, agent)
        case AgentGone():
            _agent_gone(draft, command)
        case WrapperGone(request_id):
            _wrapper_gone(draft, request_id)
        case Define(definition):
            _define(draft, definition)
        case Govern():
            govern(draft, command)
        case Forget():
            if draft.state.is_idle():
                draft.event(Forgotten())
        case Resume():
            resume(draft)
        case StopServers():
            stop_servers(draft)
        case Recover():
            recover(draft, command)
        case Revoke():
            revoke(draft, command)
        case Doubt():
            doubt(draft, command)
        case Sync(_, sender):
            draft.answer(sender, Released(draft.state.key, draft.state.key))
        case Tick():
            tick(draft)
        case LaunchUp():
            launch_up(draft, command)
        case StepResult():
            step_result(draft, command)
        case StepFailure():
            step_failure(draft, command)
        case PortBlocked():
            port_blocked(draft, command)
        case ServerGone():
            server_gone(draft, command)
        case LaunchGone():
            _launch_gone(draft, command)
    settle(draft, first)
    deferred: tuple[Deferred, ...] = ()
    if isinstance(command, Mail) and isinstance(command.body, Request) and not draft.answered():
        if draft.apart and not command.body.run and has_free_unit(draft.state):
            deferred = (Deferred(draft.state.key, command.id, command.sender),)
        else:
            answer_request(draft, command)
    if draft.apart:
        draft.order(TryTogether(tuple(sorted({draft.state.key, *draft.apart})), deferred))
    tell_of_policy(draft)
    return draft.outcome()


def _define(draft: Draft, definition: Definition) -> None:
    """It counts once nobody holds anything under the old one. Who waits for a server is not granted a mere lock."""
    current = draft.state.next_definition or draft.state.definition
    if definition == current:
        return
    if definition.kind is Kind.LOCK and current.kind is not Kind.LOCK:
        preparing = (unit.ticket for unit in draft.state.units if unit.state is UnitState.PREPARING)
        for ticket in [*draft.state.queue.values(), *(each for each in preparing if each is not None)]:
            cancel_ticket(draft, ticket, NOT_DECLARED)
            key, code = draft.state.key, Code.UNKNOWN_RESOURCE
            draft.tell(ticket, Revoked(ticket.called, key, ticket.request_id, NOT_DECLARED, code=code))
    draft.event(DefinitionPending(definition))


# --- ends ---------------------------------------------------------------------------------
def _agent_gone(draft: Draft, gone: AgentGone) -> None:
    """Tickets and holds of `bus run` live by their own wrapper and command, not by the agent's process."""
    for request_id in draft.state.queue.of(gone.agent):
        ticket = draft.state.queue[request_id]
        if not ticket.run and ticket.incarnation <= gone.incarnation:
            cancel_ticket(draft, ticket, gone.why)
    unit = unit_of(draft.state, gone.agent)
    if unit is None or unit.ticket is None or unit.ticket.incarnation > gone.incarnation:
        return
    if unit.state is UnitState.PREPARING:
        cancel_ticket(draft, unit.ticket, gone.why)
    elif unit.state is UnitState.HELD:
        end_hold(draft, unit, gone.why, tell=False)


def _wrapper_gone(draft: Draft, request_id: str) -> None:
    ticket, unit = find_ticket(draft.state, request_id)
    if ticket is None:
        return
    ended = "its bus run ended" if ticket.run or ticket.process is None else f"its process {ticket.process.pid} is gone"
    if unit is None or unit.state is UnitState.PREPARING:
        cancel_ticket(draft, ticket, ended, remember=ticket.run)
    elif unit.state is UnitState.HELD and not ticket.run:
        end_hold(draft, unit, ended)  # told: whoever else goes under it has an inbox
    elif unit.state is UnitState.HELD and not unit.launches:
        release_hold(draft, unit, f"{ended} before the command began")


def _launch_gone(draft: Draft, gone: LaunchGone) -> None:
    for unit in [each for each in draft.state.units if gone.launch in each.launches]:
        _launch_gone_from(draft, unit, gone)


def _launch_gone_from(draft: Draft, unit: Unit, gone: LaunchGone) -> None:
    """One unit has it, but for what survived a lost database and may be any unit's: that is on all of them."""
    if not gone.proved:
        recovery_required(draft, unit, gone.evidence, launch=gone.launch)
        return
    agent = unit.ticket.agent if unit.ticket is not None else ""
    draft.event(Finished(agent, unit.name, unit.fence, gone.launch, gone.code, gone.evidence))
    unit = draft.state.unit(unit.name)
    if unit.launches or unit.ticket is None:
        return
    if unit.state is UnitState.DRAINING:
        end_hold(draft, unit, unit.why, code=unit.code, tell=False)
    elif gone.code is None and not unit.ticket.run and unit.epoch and is_reserved_anew(draft.state, unit):
        pass  # what was chosen for it is not used up by what never began: it is reserved again, and its time is anew
    elif unit.is_reservation() or draft.state.policy is not None:
        code = f"with code {gone.code}" if gone.code is not None else "before it began"
        release_hold(draft, unit, f"its command ended {code}")
