"""`bus me`: everything an agent needs that has lost its memory."""

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import say_out


def command() -> int:
    """Who you are, what you hold, where you stand, what is unread, each with its next command."""
    import time

    from interlock.adapters.cli.asking import ask_supervisor
    from interlock.adapters.cli.connection import Connection
    from interlock.adapters.cli.output import one_line, say_json
    from interlock.protocol.durations import format_age

    with Connection(Given.options) as connection:
        connection.agent()
        me = ask_supervisor(connection, {"type": "ME"})
    if Given.options.json:
        say_json({key: value for key, value in me.items() if key != "type"})
        return 0
    bound = f"bound to {me['bound_to']}" if me["bound_to"] else "not bound" if me["incarnation"] else "not joined yet"
    say_out(f"{me['agent']} ({me['how']}), {bound}")
    for ticket in me["tickets"]:
        age = format_age(int(time.time() * 1000) - ticket.get("since_ms", 0))
        words = [ticket["resource"], ticket["state"]]
        words += [f"position {ticket['position']}"] if ticket.get("position") else []
        words += [f"unit {ticket['unit']}"] if ticket.get("unit") else []
        words += [ticket["url"]] if ticket.get("url") else []
        words += [f"fence {ticket['fence']}"] if ticket.get("fence") else []
        words += [f"since {age}"]
        others = [each.rpartition("/")[2] for each in ticket.get("together", ()) if each != ticket["key"]]
        words += [f"together with {' and '.join(others)}"] if others and not ticket.get("fence") else []
        words += [f'for "{one_line(ticket["purpose"])}"'] if ticket.get("purpose") else []
        say_out(f"  {' '.join(words)} - next: {ticket['next']}")
    for lease in me.get("leases", ()):
        paths = one_line(" ".join(lease["claims"]))
        if lease["state"] == "waiting":
            say_out(f"  lease {lease['lease']} {paths} waits - next: bus map")
        elif lease["left_s"] is None:
            bound = f"while {lease['bound_to']} lives"
            say_out(f"  lease {lease['lease']} {paths} {bound} - next: bus lease release {lease['lease']}")
        else:
            left = format_age(lease["left_s"] * 1000)
            say_out(f"  lease {lease['lease']} {paths} for {left} more - next: bus lease renew {lease['lease']}")
    for task in me.get("tasks", ()):
        by = f"from {task['assigner']}" if task["assignee"] == me["agent"] else f"of {task['assignee']}"
        say_out(f"  task {task['task']} {by}, {task['state']}: {one_line(task['objective'])} - next: {task['next']}")
    if not me["tickets"] and not me.get("leases"):
        say_out("  you hold nothing and wait for nothing - next: bus request RESOURCE")
    for lost in me["lost"]:
        say_out(f"  {one_line(lost)}")
    unread = me["unread"] - len(connection.welcome.get("notices", ()))  # those have been shown just now
    say_out(f"  {unread} unread" + (" - next: bus inbox" if unread > 0 else ""))
    return 0
