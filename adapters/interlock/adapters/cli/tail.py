"""`bus tail`: the event log."""

import time

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, say_err, say_out

DULL = {
    "seq", "at", "actor", "type", "at_ms", "keeper", "definition", "letter", "until_ms", "process", "ticket",
    "poll_at", "claim_at", "until", "sweep_at", "server",
}  # fmt: skip


def command(
    follow: bool = typer.Option(False, "-f", "--follow", help="Go on for ever, over restarts of the supervisor."),
    since: int = typer.Option(-1, "--since", help="Only events after this number."),
    resource: str = typer.Option("", "--resource", help="Only of this resource."),
    event_type: str = typer.Option("", "--type", help="Only of this type, such as granted."),
    last: int = typer.Option(None, "-n", min=0, help="Only the newest so many (default: 50; all with --since)."),
) -> int:
    """Show what has happened, oldest first."""
    from interlock.adapters.cli.connection import Connection, Lost

    question = {"type": "TAIL", "follow": follow, "resource": resource, "event_type": event_type}
    question |= {"since": since} if since >= 0 and last is None else {"last": 50 if last is None else last}
    while True:
        try:
            with Connection(Given.options, notices=False) as connection:
                connection.tell("supervisor", body=question)
                while True:
                    frame = connection.receive(None)
                    body = frame.get("body", {})
                    if body.get("type") == "REFUSED":
                        raise Failure(int(frame.get("exit", 74)), body["why"], body["code"])
                    for event in body.get("events", ()):
                        _show(event)
                    if "through" in body:
                        question = {**question, "since": body["through"], "last": 0}
                    if body.get("end"):
                        return 0
        except Lost:
            if not follow:
                raise Failure(69, "the supervisor went away: bus tail again") from None
        except Failure as failure:
            if not follow or failure.exit_code != 69:
                raise
            say_err(f"bus: {failure}")
        time.sleep(0.3)


def _show(event: dict[str, object]) -> None:
    import json

    from interlock.adapters.cli.output import local_time, one_line
    from interlock.protocol.names import short_name

    if Given.options.json:
        say_out(json.dumps(event, ensure_ascii=False))
        return
    words = [f"{event['seq']:>5}", local_time(str(event["at"])), f"{short_name(str(event['actor'])):<14}"]
    words.append(f"{event['type']:<14}")
    words += _facts(event)
    say_out(one_line(" ".join(words)).rstrip())


def _facts(event: dict[str, object]) -> list[str]:
    """The fields worth a person's look, in their order."""
    import json

    ticket = event.get("ticket")
    facts = [f"{key}={_short(value)}" for key, value in event.items() if key not in DULL and value not in ("", None)]
    if isinstance(ticket, dict):
        facts += [f"worktree={ticket.get('worktree')}", f"purpose={json.dumps(ticket.get('purpose', ''))}"]
    letter = event.get("letter")
    if isinstance(letter, dict):
        facts += [f"from={letter.get('from')}", f"id={letter.get('id')}"]
    return facts


def _short(value: object) -> str:
    import json

    text = value if isinstance(value, str) and " " not in value else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else text[:99] + "…"
