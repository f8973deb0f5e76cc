"""The verbs that typer owns. The table of contents of the command; each verb is one file beside this one."""

import importlib
from collections.abc import Sequence

import typer
from typer.exceptions import Exit, TyperException

from interlock.adapters.cli import options
from interlock.adapters.cli.options import Failure, Options

EVERYDAY = (
    "run", "request", "wait", "check", "release", "extend", "me", "status", "join", "logs", "tail", "send", "inbox",
)  # fmt: skip
OTHERS = (
    "up", "down", "cancel", "restart", "leave", "agents", "ack", "receipt", "recover", "errors", "help",
)  # fmt: skip
_MODULES = {"help": "help_all"}


class Given:
    """The common options of this run; set once, before any verb."""

    options = Options()


def run(words: list[str], given: Options) -> int:
    """Run one verb and return its exit code. Raises Failure."""
    Given.options = given
    verb = next((word for word in words if not word.startswith("-")), "")
    names: Sequence[str] = (verb,) if verb in EVERYDAY + OTHERS else EVERYDAY + OTHERS
    if verb and verb not in names:
        from interlock.protocol.names import nearest

        close = nearest(verb, names)
        raise Failure(64, f"no command {verb!r}: {f'did you mean {close[0]}?' if close else 'see bus --help'}")
    if "--version" in words and not verb:
        from importlib.metadata import version

        options.say_out(f"interlock {version('interlock')}")
        return 0
    app = build(names, hidden=OTHERS)
    try:
        code = app(args=words, prog_name="bus", standalone_mode=False)
    except typer.Abort:
        return 130
    except Exit as error:
        return int(error.exit_code)
    except TyperException as error:
        why = getattr(error, "format_message", error.__str__)().rstrip(".")
        raise Failure(64, f"{why}: see bus {verb} --help".replace("  ", " ")) from None
    return int(code or 0)


def build(names: Sequence[str], hidden: Sequence[str] = ()) -> typer.Typer:
    """The typer application with these verbs."""
    app = typer.Typer(
        help="Interlock: many agents, one dev server, no collisions.",
        add_completion=False, no_args_is_help=True, rich_markup_mode=None,
        context_settings={"help_option_names": ["--help", "-h"]},
    )  # fmt: skip
    app.callback()(_common)
    for name in names:
        module = importlib.import_module(f"interlock.adapters.cli.{_MODULES.get(name, name)}")
        settings = getattr(module, "SETTINGS", {})
        app.command(name, hidden=name in hidden and len(names) > 1, context_settings=settings)(module.command)
    return app


def _common(
    version: bool = typer.Option(False, "--version", help="Print the version and leave.", is_eager=True),
    as_name: str = typer.Option("", "--as", metavar="NAME", help="Who you are, where the bus cannot tell."),
    home: str = typer.Option("", "--home", metavar="DIR", help="The bus's home (or BUS_HOME)."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON and nothing else."),
) -> None:
    """Interlock: many agents, one dev server, no collisions. The common options may stand anywhere before `--`."""
    del version, as_name, home, as_json  # taken before typer saw them; declared for --help
