"""`bus status`: owner, age, queue."""

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
        queue = ", ".join(f"{w['position']}. {w['agent']} ({_age(w['waiting_s'])})" for w in each["queue"][:5])
        more = f" and {len(each['queue']) - 5} more" if len(each["queue"]) > 5 else ""
        name = _name(each)
        state = "held, down" if each.get("down") else each["state"]
        rows.append([name, state, "; ".join(held) or "-", queue + more or "-", each["reach"].get("url", "")])
    say_table(["RESOURCE", "STATE", "OWNER", "WAITING", "URL"], rows)
    for each in status["resources"]:
        reach, name = each["reach"], _name(each)
        if reach.get("worktree") and not each.get("down"):
            at = f" at commit {reach['commit']}" if reach.get("commit") else ""
            place = one_line(reach["worktree"])
            say_out(f"{name} runs from {place}{at} (keeper pid {reach['keeper_pid']})")
        if each.get("why"):
            say_out(f"{name}: {one_line(each['why'])} - {_mend(each)}")
        if name == each["resource"] and each.get("repository"):
            say_out(f"{name} belongs to {each['repository']}")
        if each.get("suspended"):
            say_out(f"{name}: nobody new gets it: it is declared only in {each['suspended']}")
        if each.get("down"):
            say_out(f"{name}: its server is down - its owner says: bus restart {name}, or bus release {name}")
    return 0


def _name(resource: dict[str, Any]) -> str:
    """What the bus takes for that resource here: a declared one by its name alone, where that means it."""
    return str(resource.get("name") or resource["resource"])


def _holder(holder: dict[str, Any]) -> str:
    step = f", {holder['step']}ing" if holder["step"] == "start" else f", {holder['step']}" if holder["step"] else ""
    what = f' "{holder["purpose"]}"' if holder["purpose"] else ""
    since = f" since {_age(holder['held_s'])}" if holder["since"] else ""
    running = f" running {holder['commands'][0]['command']}" if holder["commands"] else ""
    return f"{holder['agent']}{since}{step}{what}{running}"


def _mend(resource: dict[str, Any]) -> str:
    if resource["state"] == "recovery_required":
        return f"look at it, then: bus recover {_name(resource)}"
    return "end that process yourself if it is yours; the hand-over then goes on by itself"


def _age(seconds: int) -> str:
    from interlock.protocol.durations import format_age

    return format_age(seconds * 1000)
