"""`bus inbox`, for --help: the work is done the short way (short.py)."""

import typer


def command(
    wait: str = typer.Option("", "--wait", help="Where nothing is unread, wait so long for something."),
    peek: bool = typer.Option(False, "--peek", help="Do not ack what is printed."),
    last: int = typer.Option(0, "--last", min=0, help="The newest so many, read ones too."),
    since: int = typer.Option(
        -1, "--since", metavar="SEQ", help="What came after that one, read or not; acks nothing."
    ),
) -> None:
    """Unread messages, at most 20 or 8 KB a call, acked once printed."""
