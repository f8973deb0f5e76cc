"""`bus lease`: paths of this repository, claimed before they are changed."""

import time
from signal import SIGINT
from typing import Any

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, milliseconds, say_err

ACTIONS = {
    "acquire": "bus lease acquire PATH… [--ttl 10m] [--for WHAT] [--wait 5m]",
    "renew": "bus lease renew LEASE [--ttl 10m]",
    "release": "bus lease release LEASE… (or --mine)",
    "transfer": "bus lease transfer LEASE AGENT (a person, of another's: --because WHY)",
    "split": "bus lease split LEASE AGENT PATH… [--ttl 2m]",
    "revoke": "bus lease revoke LEASE --because WHY",
}


def command(
    action: str = typer.Argument(..., metavar="ACTION", help="acquire, renew, release, transfer, split or revoke."),
    words: list[str] = typer.Argument(None, help="Paths, or the lease and what it takes."),
    ttl: str = typer.Option("", "--ttl", help="How long it lasts after each renewal: 10s to 24h; 2m."),
    purpose: str = typer.Option("", "--for", help="What for."),
    wait: str = typer.Option("", "--wait", help="Wait so long where somebody has a part of it."),
    key: str = typer.Option("", "--key", help="Your own name for it: asked for again, it is the same lease."),
    shared: bool = typer.Option(False, "--shared", help="Others may share it, if all of them do."),
    task: str = typer.Option("", "--task", metavar="ID", help="acquire: for that task of yours, within its bounds."),
    mine: bool = typer.Option(False, "--mine", help="release: all that you have here."),
    because: str = typer.Option("", "--because", metavar="WHY", help="A person takes another's: its owner reads it."),
) -> int:
    """Claim files, directories, globs or lines (`README.md:10-40`) of this repository; keep, give back or pass on.

    Nobody else is given a lease that overlaps yours. It lasts its time after each renewal, and as long as the program
    that you are bound to lives.
    """
    words = words or []
    ttl_ms, wait_ms = milliseconds(ttl, "--ttl") or 0, milliseconds(wait, "--wait") or 0
    match action:
        case "acquire" if words:
            return _acquire(words, ttl_ms, purpose, wait_ms, key, shared, task)
        case "renew" if len(words) == 1:
            return _say({"type": "RENEW", "lease": words[0], "ttl_ms": ttl_ms})
        case "release" if words or mine:
            return _release(words, mine)
        case "transfer" if len(words) == 2:
            return _transfer(words[0], words[1], because)
        case "split" if len(words) > 2:
            body = {"lease": words[0], "agent": words[1], "claims": words[2:], "ttl_ms": ttl_ms, "purpose": purpose}
            return _say({"type": "SPLIT", **body})
        case "revoke" if len(words) == 1:
            return _revoke(words[0], because)
        case _ if action in ACTIONS:
            raise Failure(64, f"that is not enough, or too much: {ACTIONS[action]}")
    raise Failure(64, f"no action {action!r}: bus lease {', '.join(ACTIONS)}")


def _acquire(paths: list[str], ttl_ms: int, purpose: str, wait_ms: int, key: str, shared: bool, task: str) -> int:
    from interlock.adapters.cli.asking import current_directory
    from interlock.adapters.cli.connection import Connection
    from interlock.adapters.cli.lease_wait import LeaseWait
    from interlock.adapters.cli.run_signals import Signals, Told

    body = {
        "type": "LEASE", "claims": paths, "worktree": current_directory(), "purpose": purpose, "ttl_ms": ttl_ms,
        "shared": shared, "wait_ms": wait_ms, "name": key, "task": task,
    }  # fmt: skip
    with Connection(Given.options) as connection:
        connection.agent()
        wait = LeaseWait(connection, body, time.monotonic() + wait_ms / 1000)
        signals = Signals()
        try:
            frame = wait.take()
            if frame["body"].get("how") == "given_up":
                why = f"{' '.join(paths)} was not granted in time: run the same again, or take another path"
                raise Failure(75, why, "RESOURCE_WAIT_TIMEOUT")
            return _show(frame)
        except Told as told:
            signals.keep()
            if key and told.signum != SIGINT:  # asked for again it is the same lease: a tool's time-out costs no place
                say_err(f"the place stays until --wait is over: run the same again, with --key {key}")
                return 128 + told.signum
            known = wait.truth()["body"]
            if "lease" in known:
                _show(wait.give_up(known["lease"]))
            return 128 + told.signum


def _release(words: list[str], mine: bool) -> int:
    from interlock.adapters.cli.leases import leases_here

    if mine:
        words = [*words, *(row["lease"] for row in leases_here(mine=True) if row["lease"] not in words)]
        if not words:
            raise Failure(77, "you have no lease here: bus leases shows all", "NOT_HOLDER")
    codes = [_say({"type": "RETURN", "lease": lease}) for lease in words]
    return next((code for code in codes if code), 0)


def _transfer(lease: str, agent: str, because: str) -> int:
    """The holder gives it on; or a person does, with what another has."""
    if not because.strip():
        return _say({"type": "TRANSFER", "lease": lease, "agent": agent})
    return _say_as_person({"type": "TRANSFER_LEASE", "lease": lease, "agent": agent, "because": because})


def _revoke(lease: str, because: str) -> int:
    if not because.strip():
        raise Failure(64, f"say why, its owner reads it: {ACTIONS['revoke']}")
    return _say_as_person({"type": "REVOKE_LEASE", "lease": lease, "because": because})


def _say_as_person(body: dict[str, Any]) -> int:
    from interlock.adapters.cli.connection import Connection
    from interlock.adapters.cli.person import must_be_a_person, user

    must_be_a_person("taking another's lease is for a person at a terminal: run it in one, or ask its owner")
    with Connection(Given.options) as connection:
        return _show(connection.ask("supervisor", body={**body, "by": Given.options.name or user()}))


def _say(body: dict[str, Any]) -> int:
    from interlock.adapters.cli.connection import Connection

    with Connection(Given.options) as connection:
        connection.agent()
        return _show(connection.ask("coordinator", body=body))


def _show(frame: dict[str, Any]) -> int:
    """Print an answer; as JSON a lease as `bus leases` has it."""
    from interlock.adapters.cli.short import show

    body = frame.get("body", {})
    if not Given.options.json or body.get("type") == "REFUSED":
        show(frame, Given.options)
    else:
        from interlock.adapters.cli.output import say_json

        say_json(as_object(body))
    if body.get("type") == "LEASE ENDED":
        done = body["how"] in {"released", "transferred"} or frame.get("reply_to")
        return 0 if done else 75 if body["how"] == "given_up" else 77
    if body.get("type") == "LEASE QUEUED":
        return 75
    return int(frame.get("exit", 0))


def as_object(body: dict[str, Any]) -> dict[str, Any]:
    """LEASED, LEASE QUEUED and LEASE ENDED as one object for programs."""
    from interlock.protocol.envelope import wire_time

    until_ms = body.get("until_ms", 0)
    states = {"LEASED": "held", "LEASE QUEUED": "waiting", "LEASE ENDED": "ended"}
    found = {
        "lease": body["lease"],
        "claims": body["claims"],
        "fence": body.get("fence", 0),
        "state": states.get(body["type"], body["type"]),
        "shared": body.get("shared", False),
        "expires_at": wire_time(until_ms) if until_ms else None,
        "bound_to": body.get("bound_to", ""),
        "parent": body.get("parent", ""),
        "territory": body["key"],
    }
    return found | {name: body[name] for name in ("how", "why", "behind") if name in body}
