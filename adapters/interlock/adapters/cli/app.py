"""The verbs that typer owns. The table of contents of the command; each verb is one file beside this one."""

import importlib
from collections.abc import Collection, Sequence

import typer
from typer.exceptions import Exit, TyperException

from interlock.adapters.cli import exits, options
from interlock.adapters.cli.options import Failure, Options

EVERYDAY = {
    "run": "Run a command under a resource, whatever happens.",
    "request": "Ask for a resource: yours, or a place in the queue.",
    "wait": "Wait for your turn.",
    "check": "Is it mine now?",
    "release": "Give it back.",
    "extend": "Say that you still need it.",
    "me": "Who you are, what you hold, what to do next.",
    "status": "Who has what, since when, who waits.",
    "join": "Register under a name.",
    "logs": "Show the log of a resource's server.",
    "tail": "Show what has happened.",
    "send": "Send a message to an agent or the coordinator.",
    "inbox": "Read your messages.",
}
OTHERS = {
    "up": "Start the supervisor.",
    "down": "Stop the supervisor, losing nothing.",
    "cancel": "Leave a queue.",
    "handover": "Give it to the agent that is next.",
    "restart": "Restart the server you hold.",
    "task": "Work that leaves a record: assign, report, accept.",
    "lease": "Claim paths of this repository: acquire, renew, release, transfer, split.",
    "leases": "Who has which paths of this repository.",
    "map": "The map of this repository: who has which paths, who waits.",
    "watch": "The map, live.",
    "stats": "How well it goes here: conflicts, waits, verifications.",
    "ps": "Commands under way, and their processes.",
    "guard": "Run a command, unless it would end what is not yours.",
    "stop-process": "End one process that is shown to be yours.",
    "policy": "Who decides who is next, and whose commands need it.",
    "grant": "Grant a ticket, as its resource's controller.",
    "coordinate": "One operation of coordination, as JSON.",
    "attach": "Look at a server's window, in this terminal.",
    "leave": "Unregister: what you hold passes on.",
    "agents": "Who is here, alive or not.",
    "ack": "Say that messages have been read.",
    "receipt": "How far a message has come.",
    "outcome": "What became of a message, a task or a resource: the record, and what is there.",
    "backup": "Copy the database, while the bus runs.",
    "doctor": "What is wrong here, and the command that mends it.",
    "verify": "The gate: was each change under a lease?",
    "export": "Leases as a file, for a verify without a bus.",
    "recover": "Look at a resource in doubt, and set it free.",
    "revoke": "Take a resource back from its owner.",
    "init": "Write a first bus.toml for this repository.",
    "hooks": "Check commits and pushes against leases.",
    "drift": "What was changed without a lease.",
    "brief": "At most 12 lines for every agent's prompt.",
    "config": "Which bus.toml counts; check one, trust one.",
    "token": "Tokens that say for certain who an agent is.",
    "forget": "Repositories that are gone.",
    "errors": "Every code, and what to do.",
    "completion": "Complete bus in your shell.",
    "uninstall": "Remove all that bus has made for you here.",
    "help": "This list: help all. One verb: help VERB.",
}
_MODULES = {"help": "help_all", "stop-process": "stop_process"}


class Given:
    """The common options of this run; set once, before any verb."""

    options = Options()


def run(words: list[str], given: Options) -> int:
    """Run one verb and return its exit code. Raises Failure."""
    Given.options = given
    verb = next((word for word in words if not word.startswith("-")), "")
    every = {**EVERYDAY, **OTHERS}
    names: Sequence[str] = (verb,) if verb in every else tuple(every)
    if verb and verb not in every:
        raise no_command(verb)
    if not words:
        if given.json:
            raise Failure(64, "say which command: see bus --help")
        words = ["--help"]
    if words[:1] == ["--install-completion"]:
        words, names = ["completion", "--install", *words[1:]], ("completion",)
    if "--version" in words and not verb:
        from importlib.metadata import version

        options.say_out(f"interlock {version('interlock')}")
        return 0
    app = build(names, hidden=OTHERS if len(names) > 1 else ())
    try:
        code = app(args=words, prog_name="bus", standalone_mode=False)
    except typer.Abort:
        return 130
    except Exit as error:
        return int(error.exit_code)
    except TyperException as error:
        why = getattr(error, "format_message", error.__str__)().rstrip(".")
        raise Failure(64, f"{why}: see bus {verb} --help".replace("  ", " ")) from None
    except SystemExit:  # typer's own answer to a closed pipe
        options.closed_pipe()
    return int(code or 0)


def no_command(verb: str) -> Failure:
    """The sentence for a verb that there is not."""
    from interlock.protocol.names import nearest

    close = nearest(verb, [*EVERYDAY, *OTHERS])
    return Failure(64, f"no command {verb!r}: {f'did you mean bus {close[0]}?' if close else 'see bus help all'}")


def build(names: Collection[str], hidden: Collection[str] = ()) -> typer.Typer:
    """The typer application with these verbs."""
    app = typer.Typer(
        help="Interlock: many agents, one dev server, no collisions.",
        add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
        epilog="Every verb: bus help all. One verb: bus help VERB. Codes: bus errors.",
        context_settings={"help_option_names": ["--help", "-h"]},
    )  # fmt: skip
    app.callback()(_common)
    for name in names:
        module = importlib.import_module(f"interlock.adapters.cli.{_MODULES.get(name, name)}")
        settings = getattr(module, "SETTINGS", {})
        text = {**EVERYDAY, **OTHERS}[name]
        app.command(name, short_help=text, hidden=name in hidden, context_settings=settings, epilog=exits.line(name))(
            module.command
        )
    return app


def _common(
    version: bool = typer.Option(False, "--version", help="Print the version and leave.", is_eager=True),
    as_name: str = typer.Option("", "--as", metavar="NAME", help="Who you are, where the bus cannot tell."),
    home: str = typer.Option("", "--home", metavar="DIR", help="The bus's home (or BUS_HOME)."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON and nothing else."),
) -> None:
    """Interlock: many agents, one dev server, no collisions. The common options may stand anywhere before `--`."""
    del version, as_name, home, as_json  # taken before typer saw them; declared for --help
