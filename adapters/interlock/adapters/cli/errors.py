"""`bus errors`: the codes."""

import typer

from interlock.adapters.cli.app import Given

OWN_MEANING = "The command itself could not do it: it is no answer of the bus."


def command(code: str = typer.Argument("", help="Only this one.")) -> int:
    """Every code: what it means, whether a retry can help, what to do, its exit code."""
    from interlock.adapters.cli.options import OWN_CODES, Failure, say_out
    from interlock.adapters.cli.output import say_json
    from interlock.protocol.codes import TABLE
    from interlock.protocol.names import nearest

    rows = [(str(r.code), int(r.exit), r.retry, r.meaning, r.next) for r in TABLE.values()]
    rows += [(word, exits, False, OWN_MEANING, "do what the sentence says") for exits, word in OWN_CODES.items()]
    rows = [row for row in rows if code.upper() in {"", row[0]}]
    if not rows:
        close = nearest(code, [str(each) for each in TABLE] + list(OWN_CODES.values()))
        raise Failure(64, f"no code {code!r}" + (f": did you mean {close[0]}?" if close else ": bus errors lists all"))
    if Given.options.json:
        names = ("code", "exit", "retry", "meaning", "next")
        say_json({"errors": [dict(zip(names, row, strict=True)) for row in rows]})
        return 0
    for word, exits, again, meaning, following in rows:
        retry = "a retry can help" if again else "a retry does not help"
        say_out(f"{word} (exit {exits}, {retry})\n    {meaning} Then: {following}.")
    return 0
