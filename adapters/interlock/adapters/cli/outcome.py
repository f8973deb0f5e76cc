"""`bus outcome`: what became of a message, a task or a resource: the record against what is there. It does nothing."""

import re
from typing import Any

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, say_out

MESSAGE_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SAYS = {
    "queued": "on record, and not handed over yet",
    "delivered": "handed over; nobody has said that it is read",
    "acked": "read, which is not begun, done or approved",
    "taken": "taken in by the coordinator, and not done again: ask what is so now (bus me, bus status, bus task show)",
    "expired": "it was never read in the time that messages are kept",
}


def command(
    what: str = typer.Argument(..., metavar="ID|TASK|RESOURCE", help="A message's id, a task's, or a resource."),
) -> int:
    """Establish what became of it, before anything is done again: exit 0 where record and reality agree.

    Where a task and a resource have one name, task/NAME and machine/NAME say which.
    """
    if MESSAGE_ID.fullmatch(what):
        return _message(what)
    document = _task_of(what)
    return _task(document) if document is not None else _resource(what)


# --- a message ------------------------------------------------------------------------------
def _message(id_: str) -> int:
    from interlock.adapters.cli.asking import ask_bus
    from interlock.adapters.cli.output import say_json

    try:
        receipt = ask_bus("RECEIPT", id=id_)
    except Failure as failure:
        if failure.code != "TARGET_ENDED":
            raise
        why = (
            f"no message {id_} is on record: it was not taken in, or is older than what is kept; "
            f"with that id it is delivered once, however often it is sent: bus send … --request-id {id_}"
        )
        raise Failure(77, why, "TARGET_ENDED") from None
    state = str(receipt["state"])
    if Given.options.json:
        say_json({"asked": id_, "kind": "message", "to": receipt["to"], "state": state})
    else:
        say_out(f"{id_} to {receipt['to']}: {state}, {SAYS.get(state, 'see bus tail')}")
    return 0


# --- a task ---------------------------------------------------------------------------------
def _task_of(name: str) -> dict[str, Any] | None:
    """The record of a task of that name, with its files as they are now; None where there is none. Raises Failure."""
    from interlock.adapters.cli.asking import ask_supervisor
    from interlock.adapters.cli.connection import Connection

    told = name.startswith("task/")
    if not told and "/" in name:
        return None
    with Connection(Given.options) as connection:
        try:
            question = {"type": "TASK_RECORD", "task": name.removeprefix("task/"), "look": True}
            document: dict[str, Any] = ask_supervisor(connection, question)["task"]
        except Failure as failure:
            if told or failure.code != "TARGET_ENDED":
                raise
            return None
        if not told:
            try:
                ask_supervisor(connection, {"type": "STATUS", "resource": name})
            except Failure:
                return document
            raise Failure(
                64, f"a task and a resource are called {name}: say task/{name}, or its key", "AMBIGUOUS_TARGET"
            )
    return document


def _task(document: dict[str, Any]) -> int:
    """Each reported file as it is now, each command, and who accepted."""
    from interlock.adapters.cli.output import say_json
    from interlock.adapters.task_record import for_terminal
    from interlock.protocol.visible import unhidden

    differs = document.get("differs", [])
    if Given.options.json:
        say_json({"asked": document["task"], "kind": "task", **document})
    else:
        say_out("\n".join([for_terminal(document), *(f"DIFFERS {unhidden(each)}" for each in differs)]))
    return 1 if differs else 0


# --- a resource -----------------------------------------------------------------------------
def _resource(name: str) -> int:
    from interlock.adapters.cli.asking import ask_supervisor
    from interlock.adapters.cli.connection import Connection
    from interlock.adapters.cli.output import say_json

    with Connection(Given.options) as connection:
        [row] = ask_supervisor(connection, {"type": "STATUS", "resource": name})["resources"]
        agents = ask_supervisor(connection, {"type": "AGENTS"})["agents"]
        owners = ask_supervisor(connection, {"type": "OWNERS"})["owners"]
    present = {each["agent"]: each["presence"] for each in agents}
    keepers = {each["process"]["pid"]: each["process"] for each in owners}
    said, found, differs = [f"{name}: {row['state']}"], list[str](), list[str]()
    for holder in row["holders"]:
        said.append(f"{holder['agent']} has it since {holder['since']}, fence {holder['fence']}")
        presence = present.get(holder["agent"], "unknown")
        (differs if presence == "gone" else found).append(f"{holder['agent']} is {presence}")
    for unit in row["units"]:
        if "keeper_pid" in unit:
            at = f" at {unit['commit']}" if unit["commit"] else ""
            said.append(f"its server runs from {unit['worktree']}{at} since {unit['running_since']}")
            _look(unit, keepers.get(unit["keeper_pid"]), found, differs)
    if Given.options.json:
        asked = {"asked": name, "kind": "resource", "resource": row["resource"], "state": row["state"]}
        say_json({**asked, "record": said[1:], "found": found, "differs": differs})
    else:
        say_out("\n".join([*said, *(f"found: {each}" for each in found), *(f"DIFFERS {each}" for each in differs)]))
    return 1 if differs else 0


def _look(unit: dict[str, Any], keeper: dict[str, Any] | None, found: list[str], differs: list[str]) -> None:
    """At a server that the record speaks of: its processes, its ports, its health, its worktree."""
    import msgspec

    from interlock.adapters.git_head import short_head
    from interlock.adapters.listeners import belongs, listeners
    from interlock.adapters.process import probe
    from interlock.adapters.readiness import health_missing
    from interlock.protocol.identity import Identity, Presence

    identity = msgspec.convert(keeper, Identity) if keeper is not None else None
    presence = probe(identity) if identity is not None else Presence.UNKNOWN
    here = f"its processes (keeper pid {unit['keeper_pid']}) are {presence}"
    (found if presence is Presence.ALIVE and unit["alive"] else differs).append(here)
    listening = {each.port: each for each in listeners(unit["ports"])}
    for port in unit["ports"]:
        who = listening.get(port)
        if who is None:
            differs.append(f"nobody listens on port {port}")
        elif identity is None or not belongs(who, identity):
            differs.append(f"port {port} is another process's (pid {who.pid})")
        else:
            found.append(f"it listens on port {port}")
    if unit["health"]:
        missing = health_missing(unit["health"])
        (differs if missing else found).append(missing or f"{unit['health']} answers 200")
    head = short_head(unit["worktree"]) if unit["commit"] else ""
    if head and head != unit["commit"]:
        differs.append(f"its worktree is at {head} now: what it serves may be older, bus restart makes it new")
    elif head:
        found.append(f"its worktree is at {head}")
