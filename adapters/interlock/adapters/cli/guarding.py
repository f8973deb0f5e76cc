"""`bus guard -- COMMAND`: becomes that command, unless it would end what is not the caller's own.

Most commands end nothing: they are executed at once, and nobody is asked.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # as run_signals.py has it
import os

from interlock.adapters.cli.options import Failure, Options

SHOWN, OWN_SHOWN = 5, 20  # processes that one sentence names, and those of one's own
TYPE_CHECKING = False  # as typing has it, without its import
if TYPE_CHECKING:
    from typing import NoReturn

    from interlock.adapters.aimed import Aimed
    from interlock.protocol.gate_questions import Owned


def run(words: list[str], options: Options) -> NoReturn:
    """Execute the command in our place.

    Raises:
        Failure: 77 it is refused; 69 a bus is there that does not answer; 126, 127 it cannot be executed; 64.
    """
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        raise Failure(64, "say which command: bus guard -- pkill -f 'vite --port 7080'")
    from interlock.protocol.kill_aims import aims_of

    aims = aims_of(words)
    if aims.unread:
        why = "nobody can tell which process that would end: write its number, its port or its file as it is"
        raise Failure(77, why, "SCOPE_DENIED")
    if aims.selections:
        from interlock.adapters.aimed import Look

        owners, agent = owners_known(options)
        _refuse_strangers(Look(owners, agent, everybody=aims.for_all or os.geteuid() == 0).aimed(aims))
    _become(words)


def owners_known(options: Options) -> tuple[list[Owned], str]:
    """Whose processes are, and who asks, as a bus that runs says it; without one nobody is known. Raises Failure."""
    import msgspec

    from interlock.adapters.cli.connection import Connection, NoSupervisor
    from interlock.protocol.gate_questions import Owned

    connection = Connection(options, notices=False)
    try:
        connection.open(start=False)
        body = connection.ask("supervisor", body={"type": "OWNERS"})["body"]
        return msgspec.convert(body.get("owners", []), list[Owned]), str(connection.welcome.get("agent", ""))
    except NoSupervisor:
        return [], ""
    finally:
        connection.close()


def _refuse_strangers(aimed: list[Aimed]) -> None:
    strangers = [each for each in aimed if each.whose]
    if not strangers:
        return
    words = strangers[0].words
    named = ", ".join(f"{each.pid} ({each.program}, {each.whose})" for each in strangers[:SHOWN])
    named += f" and {len(strangers) - SHOWN} more" if len(strangers) > SHOWN else ""
    mine = [str(each.pid) for each in aimed if not each.whose]
    own = " ".join(mine[:OWN_SHOWN]) + (" …" if len(mine) > OWN_SHOWN else "")
    if own:
        raise Failure(77, f"{words} would end {named}: end what is yours alone: kill {own}", "SCOPE_DENIED")
    why = f"{words} would end {named}: none of it is yours, so leave it running and see bus ps, bus status"
    raise Failure(77, why, "SCOPE_DENIED")


def _become(words: list[str]) -> NoReturn:
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # our interpreter ignores them, and the command would, too
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvp(words[0], words)
    except FileNotFoundError:
        raise Failure(127, f"{words[0]!r} is not found: is it installed, and on PATH?") from None
    except OSError as error:
        raise Failure(126, f"{words[0]!r} cannot be executed ({error.strerror}): see its permissions") from None
