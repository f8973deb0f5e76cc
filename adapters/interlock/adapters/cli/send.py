"""`bus send`, for --help: the work is done the short way (short.py)."""

import typer


def command(
    to: str = typer.Argument(..., help="An agent, or: coordinator."),
    message: list[str] = typer.Argument(None, help="One argument is the text, several are its fields."),
    wait: str = typer.Option("", "--wait", help="A REQUEST that is queued: wait so long for it."),
    stdin: bool = typer.Option(False, "--stdin", help="The message is on stdin, byte for byte."),
    file: str = typer.Option("", "--file", help="The message is in this file."),
    request_id: str = typer.Option("", "--request-id", help="The message's id; the same id is never done twice."),
    reply_to: str = typer.Option("", "--reply-to", help="The id of the message that this answers."),
) -> None:
    """Send a message; to the coordinator, print its answer. What stands behind a `--` is message and no option."""
