"""`bus export`: who held which leases when, as one file that `bus verify --leases` reads where there is no bus."""

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, say_err, write_out


def command(
    since: str = typer.Option("", "--since", metavar="WHEN", help="30d, or 2026-11-30; what ended before is left out."),
    output: str = typer.Option("", "--output", metavar="FILE", help="Write it there, whole or not at all."),
) -> int:
    """Write this repository's leases, in force and past, and who committed what, as one JSON document."""
    import json

    from interlock.adapters.cli.asking import here
    from interlock.adapters.cli.history_asked import ask_history
    from interlock.adapters.territory.given_file import write_given
    from interlock.adapters.territory.history import check_history, cut
    from interlock.adapters.territory.problem import Problem
    from interlock.protocol.visible import visible

    since_ms = _moment(since)
    document, _ = ask_history(here())
    try:
        check_history(document, "the bus's answer")
        data = json.dumps(cut(document, since_ms)).encode() + b"\n"
        if output:
            write_given(output, data)
        else:
            write_out(data)
    except Problem as problem:
        raise Failure(problem.exit_code, str(problem)) from None
    if output and not Given.options.json:
        say_err(f"exported: {visible(output)}")
    return 0


def _moment(since: str) -> int:
    """Milliseconds since the epoch; 0 for the beginning. Raises Failure 64."""
    import datetime
    import time

    from interlock.protocol.durations import parse_duration

    if not since:
        return 0
    ago = parse_duration(since)
    if ago is not None:
        return max(0, time.time_ns() // 1_000_000 - ago)
    try:
        at = datetime.datetime.fromisoformat(since)
        return max(0, int(at.timestamp() * 1000))  # without a zone: this machine's
    except (ValueError, OverflowError, OSError):
        raise Failure(64, f"--since {since!r} is no time: write 30d, 2026-11-30 or 2026-11-30T12:00:00Z") from None
