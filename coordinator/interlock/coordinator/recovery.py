"""Recovery: what to believe at the start where the journal and what lies beside it do not tell one story.

    journal   beside it                 ──▶
    empty     nothing                       a first start
    empty     mark, files or launches       lost: every resource known of is in doubt, numbers go on past all seen
    a backup  whatever                      the same, with its log, agents and messages
    behind    a mark or file ahead of it    refused: it is an old copy, and what it does not know of may be held
    whole     behind it, or nothing         start

`judge` is pure. A recovery is begun and ended by records of the journal, so that one cut short is taken up again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from interlock.coordinator.records import Rebuilt
from interlock.coordinator.states import Found, StateFacts, Survivor
from interlock.coordinator.store import SET_ASIDE, Unusable
from interlock.coordinator.world import World
from interlock.protocol.answers import one_line
from interlock.protocol.definition import Definition
from interlock.protocol.envelope import wire_time
from interlock.protocol.limits import NUMBERS_RESERVED
from interlock.protocol.names import short_name
from interlock.protocol.resource_commands import Doubt
from interlock.protocol.resource_state import Launch, Remains, Server, Unit, UnitState

if TYPE_CHECKING:
    from interlock.coordinator.supervisor import Supervisor

log = structlog.get_logger("recovery")
EARLIER_CHARACTERS_MAX = 600  # of what was known before: a recovery that nobody confirms must not grow with each next
WAITING_NAMED_MAX = 8  # of those who waited, in a sentence for a person


def judge(world: World, found: Found) -> str:
    """Say why a recovery is needed, or "" where none is.

    Args:
        world: as replayed.
        found: what lies beside the journal.

    Raises:
        Unusable: the journal is an old copy, or another bus's.
    """
    if world.lost:
        return world.lost
    if not world.index:
        # A mark without a name is of a first start that was killed before its first record: nobody was given anything.
        had_one = (found.mark is not None and found.mark.bus) or found.files or found.survivors
        return "the database was lost (bus.db was gone or empty)" if had_one else ""
    mark = found.mark
    if mark is not None and mark.bus and world.bus and mark.bus != world.bus:
        raise Unusable(f"bus.db is not the database that shared-resources/ belongs to: {SET_ASIDE}")
    strangers = {each.bus for each in found.files.values() if each is not None} - {world.bus, ""}
    if (
        mark is None and strangers and world.bus
    ):  # with the mark, such a file is one that a recovery has not written yet
        raise Unusable(f"bus.db is not the database that shared-resources/ belongs to: {SET_ASIDE}")
    seen = [each.seq for each in found.files.values() if each is not None and each.bus == world.bus]
    ahead = max([*seen, mark.seq if mark is not None else 0])
    if ahead > world.seq:
        raise Unusable(
            f"bus.db is an old copy: it ends at event {world.seq}, and shared-resources/ tells of event {ahead}; "
            f"{SET_ASIDE}"
        )
    return ""


def number_floor(world: World, found: Found) -> int:
    """A number that no event of the lost past can have been above."""
    through = max((each.through for each in found.files.values() if each is not None), default=world.seq)
    if found.mark is not None and found.mark.through >= through:
        return max(world.seq, found.mark.through)
    # Without the mark, or with an old copy of it, each file tells what it was when that file was written; it can have
    # been raised once since.
    return max(world.seq, through) + 2 * NUMBERS_RESERVED


async def rebuild(supervisor: Supervisor, found: Found) -> str:
    """Put every resource that is declared, has a file, a survivor or a past in doubt, durably.

    Returns:
        One sentence for whoever comes next.
    """
    world, why = supervisor.world, supervisor.world.lost
    past = [key for key, resource in world.resources.items() if not resource.is_idle()]
    told = {each.resource for each in found.survivors if each.resource}
    keys = dict.fromkeys([*supervisor.config.resources, *sorted(found.files), *past, *sorted(told)])
    for key in keys:
        supervisor.define(key)
        remains = remains_of(key, found, supervisor.config.definition(key), why)
        supervisor.tell(key, Doubt(why, remains))
    await supervisor.dispatcher.quiet()
    await supervisor.record(Rebuilt(len(keys)))
    for stray in _strays(found):
        log.warning("launch_of_nobody", launch=stray.launch, keeper_pid=stray.keeper.pid)
    log.warning("recovered", why=why, resources=list(keys), after_seq=world.seq)
    since, all_ = "messages, queues and policies since then", "agents' names, queues, policies and unread messages"
    gone = since if world.registry.agents else all_
    return _sentence(f"{why}: {gone} are gone", [_called(key, supervisor) for key in keys])


def remains_of(key: str, found: Found, definition: Definition, why: str = "") -> dict[str, Remains]:
    """By unit: what is known of its old use, and what of it still lives. `why` is said beside it already."""
    facts = found.files.get(key)
    then = {unit.name: unit for unit in facts.units} if facts is not None else {}
    servers, launches = _survivors(key, facts, found, definition)
    first = definition.units[0]
    remains = {}
    for name in definition.units:
        unit = then.get(name)
        server = servers.get(name)
        mine = {
            launch: each for launch, (where, each) in launches.items() if where in {name, None} or (
                name == first and where not in definition.units)
        }  # fmt: skip
        lost = {launch for launch in mine if launches[launch][0] is None}
        known = _known(facts, unit, server, mine, lost, unreadable=key in found.files and facts is None, why=why)
        remains[name] = Remains(known, server, mine)
    return remains


def _survivors(
    key: str, facts: StateFacts | None, found: Found, definition: Definition
) -> tuple[dict[str, Server], dict[str, tuple[str | None, Launch]]]:
    """Living servers by unit, which their unit keeps; and what else lives, with its unit: it must end first.

    A file can be older than what lives, so the unit is what the launch's own report says. Where nothing that can be
    believed names one it may be any of them (None), and it stands in the way of all.
    """
    servers: dict[str, Server] = {}
    others: dict[str, tuple[str | None, Launch]] = {}
    units = facts.units if facts is not None else ()
    ran = {unit.server.launch: (unit, unit.server) for unit in units if unit.server is not None}
    under = {launch: (unit, each) for unit in units for launch, each in unit.launches.items()}
    for each in found.survivors:
        if each.launch not in ran and each.launch not in under and each.resource != key:
            continue
        then, server = ran.get(each.launch, (under.get(each.launch, (None, None))[0], None))
        name = each.unit if each.unit is not None else _unit_of_old(then, units, definition)
        fits = definition.server is not None and name in definition.units and name not in servers
        if name is not None and fits and not each.launch.startswith("run-"):
            # Its worktree may be unknown: "" is nobody's, so it is stopped with proof before the next one's starts.
            known = server if server is not None and server.keeper == each.keeper else None
            assert definition.server is not None
            servers[name] = known or Server(each.launch, each.keeper, "", definition.server)
        else:
            what = under[each.launch][1].command if each.launch in under else each.launch
            others[each.launch] = (name, Launch(each.launch, each.keeper, what, 0))
    return servers, others


def _unit_of_old(then: Unit | None, units: tuple[Unit, ...], definition: Definition) -> str | None:
    """The unit of a launch whose report does not say. `then`: where its file has it; what was in doubt then had been
    put there by a recovery, which did not know either."""
    if then is not None and then.state is not UnitState.RECOVERY_REQUIRED:
        return then.name
    always = {unit.name for unit in units} | {*definition.units}
    return always.pop() if len(always) == 1 else None


def _known(
    facts: StateFacts | None, unit: Unit | None, server: Server | None, launches: dict[str, Launch], lost: set[str], *,
    unreadable: bool, why: str,
) -> str:  # fmt: skip
    """What a person should know before confirming, in one line. `lost`: launches of which nobody knows the unit."""
    parts, earlier = [], ""
    if unreadable:
        parts.append("its state file cannot be read")
    if facts is not None and unit is not None:
        at = f"when its state file was written ({wire_time(facts.at_ms)})"
        if unit.state is UnitState.RECOVERY_REQUIRED:  # nobody had confirmed: what was known then is known now
            earlier = unit.why.removeprefix(why).removeprefix("; ")[:EARLIER_CHARACTERS_MAX]
            parts.append(earlier or f"{unit.state} {at}")
        elif unit.ticket is not None:
            what = f' for "{one_line(unit.ticket.purpose)}"' if unit.ticket.purpose else ""
            where = f" from {one_line(unit.ticket.worktree)}" if unit.ticket.worktree != "-" else ""
            how = f"held, fence {unit.fence}, by" if unit.fence else f"{unit.state} for"
            parts.append(f"{how} {unit.ticket.agent}{where}{what}, {at}")
        else:
            parts.append(f"{unit.state} {at}")
        if facts.waiting:
            named = ", ".join(ticket.agent for ticket in facts.queue[:WAITING_NAMED_MAX])
            parts.append(f"{facts.waiting} waited: {named}{' …' if facts.waiting > WAITING_NAMED_MAX else ''}")
    still = []
    if server is not None:
        where = f" from {one_line(server.worktree)}" if server.worktree else ""
        still.append(
            f"its server still runs{where} (keeper pid {server.keeper.pid}): it is kept, and handed over in turn"
        )
    for each in launches.values():
        where = ", on a unit that is not known" if each.launch in lost else ""
        still.append(f"{one_line(each.command)} still runs (keeper pid {each.keeper.pid}){where}")
    return "; ".join([*parts, *(each for each in still if each not in earlier)])


def _called(key: str, supervisor: Supervisor) -> str:
    return short_name(key) if key in supervisor.config.resources else key


def _sentence(why: str, names: list[str]) -> str:
    if not names:
        return f"{why}; nothing was declared or in use"
    shown = ", ".join(names[:WAITING_NAMED_MAX])
    more = f" and {len(names) - WAITING_NAMED_MAX} more" if len(names) > WAITING_NAMED_MAX else ""
    return f"{why}, and nobody gets {shown}{more} before a person has looked: bus recover {names[0]}"


def _strays(found: Found) -> list[Survivor]:
    """Launches that live and belong to no resource that anything tells of."""
    told = set()
    for facts in found.files.values():
        for unit in facts.units if facts is not None else ():
            told |= {*unit.launches, unit.server.launch if unit.server is not None else ""}
    return [each for each in found.survivors if not each.resource and each.launch not in told]
