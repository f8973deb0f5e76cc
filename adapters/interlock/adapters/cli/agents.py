"""`bus agents`: who is here."""

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import say_out


def command() -> int:
    """Who is here, alive or not, holding or waiting for what."""
    from interlock.adapters.cli.asking import ask_bus
    from interlock.adapters.cli.output import say_json, say_table

    agents = ask_bus("AGENTS")["agents"]
    if Given.options.json:
        say_json({"agents": agents})
    elif agents:
        rows = [
            [
                each["agent"],
                each["presence"] + (f", {each['state']}" if each.get("state") else ""),
                each["bound_to"] or "-",
                ", ".join(each["holds"]) or "-",
                ", ".join(each["waits_for"]) or "-",
                str(each["unread"]),
                each["worktree"] or "-",
            ]
            for each in agents
        ]
        say_table(["AGENT", "PRESENCE", "BOUND TO", "HOLDS", "WAITS FOR", "UNREAD", "WORKTREE"], rows)
    else:
        say_out("nobody has joined yet: bus join NAME")
    return 0
