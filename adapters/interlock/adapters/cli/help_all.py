"""`bus help all`: every verb."""

import typer


def command(what: str = typer.Argument("all", help="all, or a verb.")) -> int:
    """Help: `bus help all` shows every verb, `bus help VERB` one."""
    from interlock.adapters.cli.app import EVERYDAY, OTHERS, build, no_command

    if what != "all" and what not in {**EVERYDAY, **OTHERS}:
        raise no_command(what)
    arguments = ["--help"] if what == "all" else [what, "--help"]
    return int(build([*EVERYDAY, *OTHERS])(args=arguments, prog_name="bus", standalone_mode=False) or 0)
