"""Views: the world as people and programs are shown it. Reads committed state only; changes nothing."""

from typing import Any

import msgspec

from interlock.coordinator.records import Event
from interlock.coordinator.world import World
from interlock.protocol.answers import format_answer, one_line
from interlock.protocol.control import Holding
from interlock.protocol.definition import server_of
from interlock.protocol.envelope import wire_time
from interlock.protocol.inbox import Letter, state_of
from interlock.protocol.messages import tag_of
from interlock.protocol.resource_state import Resource, Server, Ticket, Unit, UnitState, is_down, position, why_down


def status_of(resource: Resource, declared: bool, now_ms: int) -> dict[str, Any]:
    """One resource for `bus status --json`. Source: contract §5."""
    units = resource.units
    blocked = [unit.blocked for unit in units if unit.blocked]
    why = [each for unit in units if (each := _why(resource, unit))] + blocked
    status: dict[str, Any] = {
        "resource": resource.key,
        "kind": str(resource.definition.kind),
        "state": _overall(units),
        "epoch": resource.epoch,
        "fence": max((unit.fence for unit in units), default=0),
        "units": [_unit(resource, unit) for unit in units],
        "holders": [_holder(unit, now_ms) for unit in units if unit.ticket is not None],
        "queue": [
            {
                "agent": ticket.agent,
                "position": position(resource, ticket.request_id) if number == 0 else 0,
                "request_id": ticket.request_id,
                "waiting_s": max(0, now_ms - ticket.asked_ms) // 1000,
                "purpose": ticket.purpose,
                "absent": ticket.absent,
                **_together(ticket),
            }
            for number, ticket in enumerate(resource.queue.values())
        ],
        "reach": _reach(resource),
        "declared": declared,
    }
    for number, waiting in enumerate(status["queue"][1:], start=1):
        waiting["position"] = status["queue"][0]["position"] + number
    if any(is_down(resource, unit) for unit in units):
        status["down"] = True
    if why:
        status["why"] = "; ".join(why)
    return status


def reservations_of(resource: Resource) -> list[dict[str, Any]]:
    """What is granted for a command that has not been started."""
    return [
        {"agent": unit.ticket.agent, "request_id": unit.ticket.request_id, "unit": unit.name, "fence": unit.fence}
        for unit in resource.units
        if unit.ticket is not None and unit.state is UnitState.HELD and unit.is_reservation() and not unit.launches
    ]


def holdings(world: World, agent: str, keys: list[str]) -> list[Holding]:
    """What an agent has and waits for, each with its next command."""
    found = []
    names = _told_apart(world, agent, keys)
    for key in keys:
        resource = world.resources[key]
        for unit in resource.units:
            if unit.ticket is not None and unit.ticket.agent == agent:
                found.append(_holding(resource, unit, names.get(key, unit.ticket.called)))
        for request_id in resource.queue.of(agent):
            ticket = resource.queue[request_id]
            at, name = position(resource, request_id), names.get(key, ticket.called)
            found.append(
                Holding(
                    name, key, "queued", request_id, f"bus wait {name}", position=at,
                    worktree=ticket.worktree, purpose=ticket.purpose, since_ms=ticket.asked_ms,
                    together=ticket.together,
                )
            )  # fmt: skip
    return found


def logs_of(resource: Resource, agent: str, unit: str) -> dict[str, str]:
    """Which launch's log shows what each unit does (or did last): of the unit that is named, else of the agent's own.

    Args:
        unit: a name; "" for whichever the agent has, or all of them where it has none.
    """
    units = [each for each in resource.units if unit in {"", each.name}]
    mine = [each for each in units if each.ticket is not None and each.ticket.agent == agent]
    found = {}
    for each in mine or units:
        launch = each.step.launch if each.step is not None else ""
        launch = launch or (each.server.launch if each.server is not None else "")
        launch = launch or (each.prepared.launch if each.prepared is not None else "")
        if launch:
            found[each.name] = launch
    return found


def _told_apart(world: World, agent: str, keys: list[str]) -> dict[str, str]:
    """Keys of an agent's resources that it calls by the same name: then only the key says which."""
    called: dict[str, set[str]] = {}
    for key in keys:
        resource = world.resources[key]
        tickets = [unit.ticket for unit in resource.units if unit.ticket is not None]
        tickets += [resource.queue[request_id] for request_id in resource.queue.of(agent)]
        for ticket in tickets:
            if ticket.agent == agent:
                called.setdefault(ticket.called, set()).add(key)
    return {key: key for same in called.values() if len(same) > 1 for key in same}


def standing(world: World, agent: str, keys: list[str]) -> tuple[list[str], list[str]]:
    """What an agent holds and what it waits for, as it calls them; places in queues are not counted."""
    holds: list[str] = []
    waits_for: list[str] = []
    names = _told_apart(world, agent, keys)
    for key in keys:
        resource = world.resources[key]
        for unit in resource.units:
            if unit.ticket is not None and unit.ticket.agent == agent:
                name = names.get(key, unit.ticket.called)
                (holds if unit.state is UnitState.HELD else waits_for).append(name)
        tickets = [resource.queue[request_id] for request_id in resource.queue.of(agent)]
        waits_for += [names.get(key, ticket.called) for ticket in tickets]
    return holds, waits_for


def letter_view(letter: Letter, now_ms: int) -> dict[str, Any]:
    """A message as `bus inbox --json` shows it."""
    view: dict[str, Any] = {
        "seq": letter.seq,
        "id": letter.id,
        "from": letter.sender,
        "at": wire_time(letter.at_ms),
        "age_s": max(0, now_ms - letter.at_ms) // 1000,
        "type": tag_of(letter.body),
        "state": state_of(letter),
        "text": format_answer(letter.body),
        "body": letter.body,
    }
    if letter.reply_to:
        view["reply_to"] = letter.reply_to
    return view


def event_view(seq: int, at_ms: int, actor: str, event: Event) -> dict[str, Any]:
    """An event as a line of `bus tail --json`: `seq at actor type` and its own fields."""
    fields = msgspec.to_builtins(event)
    if isinstance(fields.get("lease"), dict):  # the whole lease: its own fields beside the event's
        lease = fields.pop("lease")
        fields = {**fields, "lease": lease.pop("id"), **{k: v for k, v in lease.items() if k not in fields}}
    return {"seq": seq, "at": wire_time(at_ms), "actor": actor, "type": fields.pop("type"), **fields}


# --- straight helpers ---------------------------------------------------------------------
def _overall(units: tuple[Unit, ...]) -> str:
    for state in (UnitState.RECOVERY_REQUIRED, UnitState.FREE, UnitState.PREPARING, UnitState.DRAINING):
        if any(unit.state is state for unit in units):
            return str(state)
    return str(UnitState.HELD)


def _holder(unit: Unit, now_ms: int) -> dict[str, Any]:
    ticket = unit.ticket
    assert ticket is not None
    return {
        "agent": ticket.agent,
        "request_id": ticket.request_id,
        "worktree": ticket.worktree,
        "purpose": ticket.purpose,
        "since": wire_time(unit.since_ms) if unit.since_ms else None,
        "held_s": max(0, now_ms - unit.since_ms) // 1000 if unit.since_ms else 0,
        "confirmed_at": wire_time(unit.confirmed_ms) if unit.confirmed_ms else None,
        "until": wire_time(unit.until_ms) if unit.until_ms else None,
        "fence": unit.fence,
        "unit": unit.name,
        "run": ticket.run,
        "polled": unit.polled,
        "commands": [{"command": each.command, "pid": each.keeper.pid} for each in unit.launches.values()],
        "step": str(unit.step.kind) if unit.step is not None else None,
        **_together(ticket),
    }


def _together(ticket: Ticket) -> dict[str, Any]:
    """What it was asked for with, where that is anything; and how often it was passed."""
    shown: dict[str, Any] = {"together": list(ticket.together)} if ticket.together else {}
    return shown | ({"passed": ticket.passed} if ticket.passed else {})


def _why(resource: Resource, unit: Unit) -> str:
    """What keeps a unit from being what it should be; "" where nothing does."""
    why = f"it is down: {why_down(resource, unit)}" if is_down(resource, unit) else unit.why
    return f"unit {unit.name}: {why}" if unit.name and why else why


def _unit(resource: Resource, unit: Unit) -> dict[str, Any]:
    """One unit: how it stands; of a server or a prepared one where, and how it is reached."""
    shown: dict[str, Any] = {"unit": unit.name, "state": str(unit.state)}
    declared = server_of(resource.definition, unit.name)
    if declared is not None and declared.url:
        shown["url"] = declared.url
    if unit.server is not None:
        shown |= _running(unit.server)
    elif unit.prepared is not None:
        shown |= {"worktree": unit.prepared.worktree, "ready": unit.prepared.ready}
    if is_down(resource, unit):
        shown["down"] = True
    return shown


def _running(server: Server) -> dict[str, Any]:
    return {
        "url": server.definition.url,
        "worktree": server.worktree,
        "commit": server.commit,
        "running_since": wire_time(server.since_ms),
        "alive": server.alive,
        "keeper_pid": server.keeper.pid,
        "ports": list(server.definition.ports),
        "health": server.definition.health,
    }


def _reach(resource: Resource) -> dict[str, Any]:
    """How an ordinary resource is reached; of a pool each unit says so itself."""
    if len(resource.units) > 1:
        return {}
    shown = _unit(resource, resource.units[0])
    return {name: value for name, value in shown.items() if name not in {"unit", "state", "down"}}


def _holding(resource: Resource, unit: Unit, name: str) -> Holding:
    ticket = unit.ticket
    assert ticket is not None
    state = str(unit.state)
    if unit.state is not UnitState.HELD:
        following = f"bus wait {name}"
    elif ticket.run:
        following = "it ends with its command"
    elif is_down(resource, unit):
        state, following = "down", f"bus restart {name}"
    else:
        following = f"bus release {name}"
    return Holding(
        name, resource.key, state, ticket.request_id, following, unit.fence,
        url=unit.server.definition.url if unit.server is not None else "",
        worktree=ticket.worktree, purpose=ticket.purpose, since_ms=unit.since_ms or ticket.asked_ms, unit=unit.name,
        position=1 if unit.state is UnitState.PREPARING else 0, together=ticket.together,
    )  # fmt: skip


def summary_line(resource: Resource, name: str, now_ms: int) -> str:
    """One resource in one line, for STATUS by message. Args: name: what its reader calls it."""
    status = status_of(resource, True, now_ms)
    state = status["state"]
    parts = [f"{name} {state}"]
    for holder in status["holders"]:
        age = f" since {holder['held_s']}s" if holder["since"] else ""
        parts.append(f"{holder['agent']}{age}" + (f' for "{one_line(holder["purpose"])}"' if holder["purpose"] else ""))
    parts.append(f"{len(status['queue'])} waiting")
    return ", ".join(parts) + (f" ({status['why']})" if "why" in status else "")
