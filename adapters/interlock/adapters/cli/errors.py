"""`bus errors`: the codes."""

import typer

from interlock.adapters.cli.app import Given


def command(code: str = typer.Argument("", help="Only this one.")) -> int:
    """Every code: what it means, whether a retry can help, what to do, its exit code."""
    from interlock.adapters.cli.options import Failure, say_out
    from interlock.adapters.cli.output import say_json
    from interlock.protocol.codes import TABLE
    from interlock.protocol.names import nearest

    rows = [row for row in TABLE.values() if code.upper() in {"", row.code}]
    if not rows:
        close = nearest(code, [str(each) for each in TABLE])
        raise Failure(64, f"no code {code!r}" + (f": did you mean {close[0]}?" if close else ": bus errors lists all"))
    if Given.options.json:
        say_json(
            {
                "errors": [
                    {"code": r.code, "meaning": r.meaning, "retry": r.retry, "next": r.next, "exit": int(r.exit)}
                    for r in rows
                ]
            }
        )
        return 0
    for row in rows:
        retry = "a retry can help" if row.retry else "a retry does not help"
        say_out(f"{row.code} (exit {int(row.exit)}, {retry})\n    {row.meaning} Then: {row.next}.")
    return 0
