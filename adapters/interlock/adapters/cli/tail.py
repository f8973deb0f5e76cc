"""`bus tail`: the event log."""

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, say_err, say_out

DULL = {
    "seq", "at", "actor", "type", "at_ms", "keeper", "definition", "letter", "until_ms", "process", "ticket",
    "poll_at", "claim_at", "until", "sweep_at", "server", "request", "asked_ms", "since_ms",
}  # fmt: skip


def command(
    follow: bool = typer.Option(False, "-f", "--follow", help="Go on for ever, over restarts of the supervisor."),
    since: int = typer.Option(-1, "--since", help="Only events after this number."),
    resource: str = typer.Option("", "--resource", help="Only of this resource."),
    event_type: str = typer.Option("", "--type", help="Only of this type, such as granted."),
    last: int = typer.Option(None, "-n", min=0, help="Only the newest so many (default: 50; all with --since)."),
    wait: str = typer.Option("", "--wait", help="Where nothing came after --since, wait so long for something."),
) -> int:
    """Show what has happened, oldest first."""
    if wait:
        return _wait_for_more(since, wait, resource, event_type, alone=not follow and last is None)
    question: dict[str, Any] = {"type": "TAIL", "resource": resource, "event_type": event_type}
    if since < 0 or last is not None:
        newest = 50 if last is None else last
        found = since < 0 and not resource and not event_type  # then the bus counts the newest itself
        start = {"last": max(newest, 1)} if found else {"since": max(since, 0)}
        kept: deque[dict[str, Any]] = deque(maxlen=newest)
        since = _read({**question, **start}, kept.append, follow)
        for event in kept:
            _show(event)
        if not follow:
            return 0
    _read({**question, "since": since, "follow": follow}, _show, follow)
    return 0


def _wait_for_more(since: int, wait: str, resource: str, event_type: str, *, alone: bool) -> int:
    """What came after a number, as soon as there is anything; 75 where the time is over first."""
    from interlock.adapters.cli.reading_on import nothing
    from interlock.adapters.cli.waiting import deadline

    if since < 0 or not alone:
        raise Failure(64, "--wait goes with --since, and without -f and -n: bus tail --since SEQ --wait 30s")
    shown = 0

    def show(event: dict[str, Any]) -> None:
        nonlocal shown
        shown = event["seq"]
        _show(event)

    until = deadline(wait)
    question: dict[str, Any] = {"type": "TAIL", "resource": resource, "event_type": event_type}
    through = _read({**question, "since": since}, show, follow=False)
    if not shown:  # `through` may be further: what came between was not asked for
        _read({**question, "since": max(since, through), "follow": True}, show, follow=True, until=until)
    return 0 if shown else nothing("event", since, f"bus tail --since {since} --wait {wait}")


def _read(
    question: dict[str, Any], take: Callable[[dict[str, Any]], None], follow: bool, until: float = float("inf")
) -> int:
    """Take events until the log's end, or for ever where the question says so; the cursor that was reached.

    Args: until: at most so long (monotonic, s), and only until there is anything.
    """
    from interlock.adapters.cli.connection import ANSWER_S, Connection, Lost

    through, said = 0, ""
    while True:
        begun_at = through
        try:
            with Connection(Given.options, notices=False) as connection:
                connection.tell("supervisor", body=question)
                while True:
                    left_s = None if until == float("inf") else max(0.0, until - time.monotonic())
                    frame = connection.receive(left_s if follow else ANSWER_S)
                    if not frame and left_s is not None:
                        return through
                    if not frame:
                        raise Failure(69, "the supervisor does not answer: bus tail again, or see bus doctor")
                    body = frame.get("body", {})
                    if body.get("type") == "REFUSED":
                        raise Failure(int(frame.get("exit", 74)), body["why"], body["code"])
                    for event in body.get("events", ()):
                        take(event)
                        said = ""
                    if "through" in body:
                        through = body["through"]
                        question = {**question, "since": through, "last": 0}
                    if body.get("end") or (left_s is not None and body.get("events")):
                        return through
        except Lost:
            if not follow and through == begun_at:
                raise Failure(69, "the supervisor went away: bus tail again") from None
        except Failure as failure:
            if not follow or failure.exit_code != 69:
                raise
            if str(failure) != said:  # once, however long it lasts
                said = str(failure)
                say_err(f"bus: {said}")
        if time.monotonic() >= until:
            return through
        time.sleep(0.3)


def _show(event: dict[str, object]) -> None:
    import json

    from interlock.adapters.cli.output import local_time, one_line

    if Given.options.json:
        say_out(json.dumps(event, ensure_ascii=False))
        return
    actor = str(event["actor"]).removeprefix("machine/")
    actor = actor[:16] if actor.startswith("territory/") else actor  # its agents know which; --json has all of it
    words = [f"{event['seq']:>5}", local_time(str(event["at"])), f"{actor:<14}"]
    words.append(f"{event['type']:<14}")
    words += _facts(event)
    say_out(one_line(" ".join(words)).rstrip())


def _facts(event: dict[str, object]) -> list[str]:
    """The fields worth a person's look, in their order."""
    import json

    agent, ticket = event.get("agent"), event.get("ticket")
    if isinstance(agent, dict):
        bound = agent.get("bound_to")
        return [f"agent={agent.get('name')}", f"incarnation={agent.get('incarnation')}"] + (
            [f"bound_to={json.dumps(bound)}"] if bound else []
        )
    claims = event.get("claims")
    if isinstance(claims, list):
        event = {**event, "claims": " ".join(map(_claim, claims))}
    facts = [f"{key}={_short(value)}" for key, value in event.items() if key not in DULL and value not in ("", None)]
    if isinstance(ticket, dict):
        facts += [f"worktree={ticket.get('worktree')}", f"purpose={json.dumps(ticket.get('purpose', ''))}"]
    letter = event.get("letter")
    if isinstance(letter, dict):
        facts += [f"from={letter.get('from')}", f"id={letter.get('id')}"]
    return facts


def _claim(claim: dict[str, object]) -> str:
    return f"{claim['pattern']}" + (f":{claim['first']}-{claim['last']}" if claim.get("first") else "")


def _short(value: object) -> str:
    import json

    from interlock.protocol.visible import beginning

    text = value if isinstance(value, str) and " " not in value else json.dumps(value, ensure_ascii=False)
    return beginning(text, 100)
