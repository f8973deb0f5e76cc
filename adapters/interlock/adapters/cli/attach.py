"""`bus attach`: a person looks at a server's window. C-b d leaves the server running; closing the window ends it."""

import os
import shlex
import sys
from pathlib import Path

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, say_err, say_out


def command(
    resource: str = typer.Argument("", help="May be left out where you hold one."),
    unit: str = typer.Option("", "--unit", help="Of a pool; yours may be left out."),
    read_only: bool = typer.Option(False, "-r", "--read-only", help="Look only: no key reaches the server."),
    print_only: bool = typer.Option(False, "--print", help="Print the command that does it, and leave."),
) -> int:
    """Look at the window of a server that has terminal = "tmux". C-b d leaves it; closing it ends the server."""
    from interlock.adapters.cli.logs import log_of
    from interlock.adapters.cli.output import say_json
    from interlock.adapters.cli.person import must_be_a_person
    from interlock.adapters.paths import find_home
    from interlock.adapters.terminals import attach_command, window_socket

    root, launch = find_home(Given.options.home).root, Path(log_of(resource, unit)).stem
    if not window_socket(root, launch).is_socket():
        what = resource or "the server"
        why = f'{what} runs in no window: bus logs shows what it prints; terminal = "tmux" in bus.toml gives it one'
        raise Failure(69, f"{why}, from its next start on")
    words = attach_command(root, launch, read_only=read_only)
    line = shlex.join(words)
    if Given.options.json:
        say_json({"command": words})
        return 0
    if print_only:
        say_out(line)
        return 0
    must_be_a_person(f"that needs a terminal: in one, run bus attach, or {line}", shown_on=1, exit_code=64)
    say_err(line)
    sys.stdout.flush()
    environment = {name: value for name, value in os.environ.items() if name not in {"TMUX", "TMUX_PANE"}}
    try:
        os.execvpe(words[0], words, environment)
    except OSError as error:
        raise Failure(69, f"tmux cannot be started ({error.strerror}): install it, or use bus logs -f") from None
