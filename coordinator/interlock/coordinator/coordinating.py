"""Coordinating: `bus coordinate`, one operation as a JSON object in, what is then true of its resource out.

    {"operation": "request", …} ─▶ the message that it means ─▶ the router, like any other ─▶ a result, or an error

It may do nothing that the message which it becomes may not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from interlock.coordinator.board import Board
from interlock.coordinator.gate_desk import GateDesk, blockers_view, policy_view
from interlock.coordinator.ids import new_id
from interlock.coordinator.naming import Names, No
from interlock.coordinator.session import NoDoor, Session
from interlock.coordinator.views import reservations_of, status_of
from interlock.coordinator.world import resource_of
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Envelope
from interlock.protocol.gate_questions import CoordinateReply, SetController
from interlock.protocol.grammar import BadText
from interlock.protocol.messages import Refused
from interlock.protocol.names import COORDINATOR, nearest
from interlock.protocol.resource_state import Resource, Ticket, Unit, UnitState, find_ticket, queued_of, unit_of
from interlock.protocol.visible import quoted

if TYPE_CHECKING:
    from interlock.coordinator.supervisor import Supervisor

Hear = Callable[[Session, Envelope], Awaitable[None] | None]

FIELDS = {  # operation → (must be there, may be there)
    "status": (set[str](), {"resource"}),
    "request": ({"resource"}, {"reason"}),
    "grant": ({"requestId"}, {"epoch"}),
    "release": (set[str](), {"requestId", "resource"}),
    "cancel_request": ({"requestId"}, set[str]()),
    "set_controller": ({"resource", "controller"}, {"participants", "profile", "epoch"}),
}
WHOLE_NUMBERS = {"epoch"}
LISTS = {"participants"}


class Coordinating:
    """One per bus. Args: hear: the router's: takes one envelope of a session."""

    def __init__(self, supervisor: Supervisor, names: Names, board: Board, gate: GateDesk, hear: Hear) -> None:
        self._supervisor = supervisor
        self._names = names
        self._board = board
        self._gate = gate
        self._hear = hear

    async def answer(self, session: Session, request: dict[str, Any]) -> CoordinateReply:
        """Perform one operation; its result, or {"error": {"code", "message"}}. The status of all is a list of them."""
        try:
            _check(request)
            if request == {"operation": "status"}:
                each = [self._result(session, key, self._ticket_of(session, key)) for key in self._board.shown()]
                return CoordinateReply({"resources": each})
            key, request_id = await self._perform(session, request)
        except No as no:
            refused = no.refusal
            return CoordinateReply({"error": {"code": str(refused.code), "message": refused.why}})
        except BadText as bad:
            return CoordinateReply({"error": {"code": str(Code.BAD_MESSAGE), "message": str(bad)}})
        return CoordinateReply(self._result(session, key, request_id))

    async def _perform(self, session: Session, request: dict[str, Any]) -> tuple[str, str]:
        """All branching on operations. Returns: the resource's key, and the id of the ticket that it is about."""
        match request["operation"]:
            case "request":
                key = self._names.resolve(request["resource"], session)
                body = {"resource": key, "worktree": session.worktree or "-", "purpose": request.get("reason", "")}
                answer = await self._say(session, "REQUEST", **body)
                return key, str(answer.get("request_id", ""))
            case "grant":
                id_ = request["requestId"]
                await self._say(session, "GRANT", request_id=id_, epoch=request.get("epoch", 0))
                return resource_of(self._supervisor.world, id_) or "", id_
            case "release" | "cancel_request":
                key, ticket, unit = self._mine(session, request)
                await self._give_back(session, key, ticket, unit)
                return key, ticket.request_id
            case "set_controller":
                participants, controller = tuple(request.get("participants", ())), request["controller"]
                if controller == "" or (controller is None and participants):
                    why = "name the controller; null, without participants, takes the policy away"
                    raise No(Code.BAD_MESSAGE, why)
                set_ = SetController(
                    request["resource"], controller or "", participants, request.get("profile", "strict"),
                    request.get("epoch", 0),
                )  # fmt: skip
                refused = await self._gate.set_policy(session, set_)
                if isinstance(refused, Refused):
                    raise No(Code(refused.code), refused.why)
        key = self._names.resolve(request["resource"], session)
        return key, self._ticket_of(session, key)

    def _mine(self, session: Session, request: dict[str, Any]) -> tuple[str, Ticket, Unit | None]:
        """The asker's ticket that is meant, and the unit that it has reached. Raises No."""
        world, id_ = self._supervisor.world, request.get("requestId", "")
        if not id_:
            if "resource" not in request:
                raise No(Code.BAD_MESSAGE, "say which: a requestId, or a resource")
            key = self._names.resolve(request["resource"], session)
            id_ = self._ticket_of(session, key)
            if not id_:
                raise No(Code.NOT_HOLDER, f"you neither hold {request['resource']} nor wait for it")
        found = resource_of(world, id_)
        if found is None:
            raise No(Code.TARGET_ENDED, f"no request {quoted(id_)} is known here: it may be over for long")
        ticket, unit = find_ticket(world.resource(found), id_)
        if ticket is None:
            ended = world.resource(found).ended[id_]
            raise No(Code.TARGET_ENDED, f"that request of {ended.agent} is over: {ended.why}")
        if ticket.agent != session.agent:
            raise No(Code.NOT_HOLDER, f"that request is {ticket.agent}'s: only {ticket.agent} can end it")
        return found, ticket, unit

    async def _give_back(self, session: Session, key: str, ticket: Ticket, unit: Unit | None) -> None:
        """End what is not in use; what has started is never freed, which its machine says too."""
        if unit is None or unit.state is UnitState.PREPARING:
            await self._say(session, "CANCEL", resource=key, request_id=ticket.request_id)
        elif unit.launches or unit.state is not UnitState.HELD:
            what = ", ".join(each.command for each in unit.launches.values()) or "what ran there"
            raise No(Code.RESOURCE_BUSY, f"{what} has been started under it: {key} is free once all of it has ended")
        else:
            await self._say(session, "RELEASE", resource=key, fence=unit.fence)

    # --- straight helpers -------------------------------------------------------------------
    def _ticket_of(self, session: Session, key: str) -> str:
        """The id of what the asker has or waits for there, "" for nothing."""
        resource = self._supervisor.world.resource(key)
        unit = unit_of(resource, session.agent) or unit_of(resource, session.agent, run=True)
        queued = queued_of(resource, session.agent)
        ticket = unit.ticket if unit is not None else queued
        return ticket.request_id if ticket is not None else ""

    async def _say(self, session: Session, word: str, **body: Any) -> dict[str, Any]:
        """Say it as the session would, and hear the answer. Raises No where that is a refusal."""
        ear, id_ = _Ear(), new_id()
        inner = Session(session.caller, ear, owner=session.owner, claimed=session.claimed)
        inner.agent, inner.how, inner.incarnation = session.agent, session.how, session.incarnation
        inner.worktree, inner.nobody, inner.proof = session.worktree, session.nobody, session.shown
        said = msgspec.Raw(msgspec.json.encode({"type": word, **body}))
        work = self._hear(inner, Envelope(to=COORDINATOR, id=id_, body=said))
        if work is not None:
            await work
        answer = await ear.heard(id_)
        session.incarnation = inner.incarnation
        if answer.get("type") == "REFUSED":
            raise No(Code(answer["code"]), answer["why"])
        return answer

    def _result(self, session: Session, key: str, request_id: str) -> dict[str, Any]:
        """What is true of a resource now."""
        supervisor, resource = self._supervisor, self._supervisor.world.resource(key)
        now_ms, gate = supervisor.clock.wall_ms(), supervisor.world.gate
        status = status_of(resource, True, now_ms)
        policy = gate.policies.get(key)
        holders = status["holders"]
        result: dict[str, Any] = {
            "resource": key,
            "requestId": request_id or None,
            "ticket": _standing(resource, request_id) if request_id else None,
            "epoch": gate.epochs.get(key, resource.epoch),
            "controller": policy.controller if policy is not None else None,
            "holder": holders[0]["agent"] if holders else None,
            "queue": [
                {
                    "agent": each["agent"],
                    "requestId": each["request_id"],
                    "waitingMs": each["waiting_s"] * 1000,
                    "reason": each["purpose"],
                }
                for each in status["queue"]
            ],
            "state": status["state"],
            "reservations": [
                {"agent": each["agent"], "requestId": each["request_id"]} for each in reservations_of(resource)
            ],
            "blockers": blockers_view(supervisor, key),
        }
        if policy is not None:
            shown = policy_view(supervisor, policy)
            result |= {"controllerPresence": shown["controller_presence"], "profile": shown["profile"]}
            result["participants"] = list(policy.participants)
        return result | ({"why": status["why"]} if "why" in status else {})


class _Ear(NoDoor):
    """The other end of a session that only waits for one answer."""

    def __init__(self) -> None:
        self._answers: dict[str, dict[str, Any]] = {}
        self._came = anyio.Event()

    def write(self, data: bytes) -> None:
        for line in data.splitlines():
            frame = msgspec.json.decode(line)
            self._answers[frame.get("reply_to", "")] = frame["body"]
        self._came.set()
        self._came = anyio.Event()

    async def heard(self, message_id: str) -> dict[str, Any]:
        """The body of the answer to that message."""
        while message_id not in self._answers:
            await self._came.wait()
        return self._answers[message_id]


def _standing(resource: Resource, request_id: str) -> str:
    """How a ticket stands."""
    ticket, unit = find_ticket(resource, request_id)
    if ticket is None:
        return "ended"
    if unit is None:
        return "queued"
    return "running" if unit.launches and unit.state is UnitState.HELD else str(unit.state)


def _check(request: dict[str, Any]) -> None:
    """Refuse what is not known, with what is nearest to it. Raises No."""
    operation = request.get("operation")
    if not isinstance(operation, str) or operation not in FIELDS:
        close = nearest(operation, FIELDS) if isinstance(operation, str) else []
        hint = f"did you mean {close[0]!r}?" if close else f"one of {', '.join(FIELDS)}"
        said = (
            f"the operation {quoted(operation)} is unknown" if isinstance(operation, str) else "no operation is named"
        )
        raise No(Code.BAD_MESSAGE, f"{said}: {hint}")
    must, may = FIELDS[operation]
    known = must | may
    for name, value in request.items():
        if name == "operation":
            continue
        if name not in known:
            close = nearest(name, known)
            hint = f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(sorted(known))}"
            raise No(Code.BAD_MESSAGE, f"{operation} takes no {quoted(name)}: {hint}")
        _check_value(operation, name, value)
    for name in sorted(must - request.keys()):
        raise No(Code.BAD_MESSAGE, f"{operation} needs {name!r}: it is missing")


def _check_value(operation: str, name: str, value: Any) -> None:
    if name in WHOLE_NUMBERS:
        fits, wanted = isinstance(value, int) and not isinstance(value, bool) and value >= 0, "a whole number"
    elif name in LISTS:
        fits = isinstance(value, list) and all(isinstance(each, str) for each in value)
        wanted = "a list of agents' names"
    elif name == "controller":
        fits, wanted = value is None or isinstance(value, str), "an agent's name, or null to take the policy away"
    else:
        fits, wanted = isinstance(value, str), "a text"
    if not fits:
        raise No(Code.BAD_MESSAGE, f"{name!r} of {operation} must be {wanted}")
