"""`bus policy`: which resources have a controller, and whose commands need them."""

from typing import Any

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, say_out

ACTIONS = ("set", "clear")


def command(
    action: str = typer.Argument("", help="set or clear; nothing: show every policy."),
    resource: str = typer.Argument("", help="Its short name, or its key."),
    controller: str = typer.Option("", "--controller", metavar="AGENT", help="Who says who is next."),
    participants: str = typer.Option("", "--participants", metavar="A,B", help="Whose commands need the resource."),
    profile: str = typer.Option("strict", "--profile", help="build: commands of build tools need it; strict: all do."),
    epoch: int = typer.Option(0, "--epoch", min=0, help="Only if this is the policy's epoch now."),
) -> int:
    """Show policies; `set` one: the controller grants, `bus run` of the participants needs the grant; `clear` one."""
    if action not in {"", *ACTIONS}:
        raise Failure(64, f"no action {action!r}: bus policy, bus policy set or bus policy clear")
    if not action:
        return _show()
    if not resource:
        raise Failure(64, f"say which resource: bus policy {action} RESOURCE")
    if action == "clear":
        return _say({"resource": resource, "epoch": epoch})
    names = [name for each in participants.split(",") if (name := each.strip())]
    if not controller or not names:
        raise Failure(64, "say who controls it, and whose commands need it: --controller C --participants A,B")
    asked = {"resource": resource, "controller": controller, "participants": names, "profile": profile}
    return _say({**asked, "epoch": epoch})


def _show() -> int:
    from interlock.adapters.cli.asking import ask_bus
    from interlock.adapters.cli.output import say_json, say_table

    policies = ask_bus("POLICIES")["policies"]
    if Given.options.json:
        say_json({"policies": policies})
        return 0
    if not policies:
        say_out("no resource has a policy: the coordinator grants by itself, first come, first served")
        return 0
    rows = [
        [
            each.get("name") or each["resource"], str(each["epoch"]),
            each["controller"] + (", gone" if each.get("controller_gone") else ""),
            each["profile"], ", ".join(each["participants"]), ", ".join(each["blockers"]) or "-",
        ]
        for each in policies
    ]  # fmt: skip
    say_table(["RESOURCE", "EPOCH", "CONTROLLER", "PROFILE", "PARTICIPANTS", "HELD UP BY"], rows)
    return 0


def _say(question: dict[str, Any]) -> int:
    from interlock.adapters.cli.asking import body_of
    from interlock.adapters.cli.connection import Connection
    from interlock.adapters.cli.short import show

    with Connection(Given.options) as connection:
        connection.agent()
        frame = connection.ask("supervisor", body={"type": "SET_POLICY", **question})
        body_of(frame)
        show(frame, Given.options)
    return 0
