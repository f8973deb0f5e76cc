"""`bus status`: owner, age, queue."""

from collections.abc import Iterator
from typing import Any

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import say_out


def command(resource: str = typer.Argument("")) -> int:
    """Who has what, since when, who waits; --json for programs."""
    from interlock.adapters.cli.asking import ask_bus
    from interlock.adapters.cli.output import one_line, say_json, say_table

    status = ask_bus("STATUS", resource=resource)
    if Given.options.json:
        say_json({"resources": status["resources"]})
        return 0
    if not status["resources"]:
        say_out("no resource is declared or in use: declare one in bus.toml, or ask for machine/NAME")
        return 0
    rows = []
    for each in status["resources"]:
        held = [_holder(holder) for holder in each["holders"]]
        queue = ", ".join(_waiter(waiter) for waiter in each["queue"][:5])
        more = f" and {len(each['queue']) - 5} more" if len(each["queue"]) > 5 else ""
        name = _name(each)
        state = "held, down" if each.get("down") else each["state"]
        rows.append([name, state, "; ".join(held) or "-", queue + more or "-", each["reach"].get("url", "")])
    say_table(["RESOURCE", "STATE", "OWNER", "WAITING", "URL"], rows)
    for each in status["resources"]:
        name = _name(each)
        for unit in each["units"]:
            line = _where(name, unit)
            if line:
                say_out(line)
        if each.get("why"):
            say_out(f"{name}: {one_line(each['why'])} - {_mend(each)}")
        for line in _gate(name, each, with_ids=bool(resource)):
            say_out(line)
        if name == each["resource"] and each.get("repository"):
            say_out(f"{name} belongs to {each['repository']}")
        if each.get("suspended"):
            say_out(f"{name}: nobody new gets it: it is declared only in {each['suspended']}")
    return 0


def _gate(name: str, row: dict[str, Any], *, with_ids: bool) -> "Iterator[str]":
    """Who chooses who is next, and what is in the way. Args: with_ids: whoever waits with what a GRANT needs."""
    policy = row.get("policy")
    if policy is not None:
        gone = ", which is gone: bus policy set, with another" if policy["controller_presence"] == "gone" else ""
        many, epoch = policy["participants"], policy["epoch"]
        yield f"{name}: {policy['controller']} grants it to {many} participants (epoch {epoch}){gone}"
        for waiter in row["queue"] if with_ids else ():
            yield f"  {waiter['position']}. {waiter['agent']}: bus grant {waiter['request_id']} --epoch {epoch}"
    if row.get("blockers"):
        yield f"{name} is held up by {', '.join(each['launch'] for each in row['blockers'])}: bus ps"


def _waiter(waiter: dict[str, Any]) -> str:
    """Place, name, for how long. Who did not notice its grant is passed over until it is heard of: that shows."""
    absent = ", absent" if waiter["absent"] else ""
    several = f", {len(waiter['together'])} together" if waiter.get("together") else ""
    return f"{waiter['position']}. {waiter['agent']} ({_age(waiter['waiting_s'])}{several}{absent})"


def _where(name: str, unit: dict[str, Any]) -> str:
    """What stands on a unit, in a line; "" where that is nothing. A pool's units are told apart, and their URLs too."""
    from interlock.adapters.cli.output import one_line

    called = f"{name} unit {unit['unit']}" if unit["unit"] else name
    place, url = one_line(unit.get("worktree", "")), unit.get("url", "") if unit["unit"] else ""
    if not place or unit.get("down"):
        return f"{called} {unit['state']}, {url}" if url else ""
    if "keeper_pid" not in unit:
        return f"{called} is prepared from {place}" if unit["ready"] else f"{called} was begun from {place}, not ready"
    at = f" at commit {unit['commit']}" if unit.get("commit") else ""
    return f"{called} runs from {place}{at} (keeper pid {unit['keeper_pid']})" + (f", {url}" if url else "")


def _name(resource: dict[str, Any]) -> str:
    """What the bus takes for that resource here: a declared one by its name alone, where that means it."""
    return str(resource.get("name") or resource["resource"])


def _holder(holder: dict[str, Any]) -> str:
    step = f", {holder['step']}ing" if holder["step"] == "start" else f", {holder['step']}" if holder["step"] else ""
    what = f' "{holder["purpose"]}"' if holder["purpose"] else ""
    since = f" since {_age(holder['held_s'])}" if holder["since"] else ""
    running = f" running {holder['commands'][0]['command']}" if holder["commands"] else ""
    unit = f" on {holder['unit']}" if holder["unit"] else ""
    return f"{holder['agent']}{unit}{since}{step}{what}{running}"


def _mend(resource: dict[str, Any]) -> str:
    """What to do about it: a person's look, then its owner's word, then patience, then a stranger's end."""
    from interlock.protocol.resource_events import may_end

    name, states = _name(resource), {unit["state"] for unit in resource["units"]}
    if "recovery_required" in states:
        return f"look at it, then: bus recover {name}"
    if resource.get("down"):
        return f"its owner says: bus restart {name}, or bus release {name}"
    if "draining" in states:
        return "the next is served once what runs under it has ended"
    if not may_end(resource.get("why", "")):
        return "once that is given back and stopped the hand-over goes on by itself"
    return "end that process yourself if it is yours; the hand-over then goes on by itself"


def _age(seconds: int) -> str:
    from interlock.protocol.durations import format_age

    return format_age(seconds * 1000)
