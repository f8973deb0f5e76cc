"""`bus coordinate`: one operation of resource coordination, as JSON: what a model's tool passes on as it is."""

import json
import sys
from typing import Any

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure

BYTES_MAX = 64 * 1024  # of one operation


def command(
    operation: str = typer.Argument(
        ..., metavar="JSON", help='Such as {"operation": "status"}; -: read it from stdin.'
    ),
) -> int:
    """Set a controller, request, grant, cancel, release, ask for the status: JSON in, one line of JSON out."""
    from interlock.adapters.cli.asking import ask_supervisor
    from interlock.adapters.cli.connection import Connection
    from interlock.adapters.cli.output import say_json

    try:
        request = _request(operation)
        with Connection(Given.options) as connection:
            connection.agent()
            result = ask_supervisor(connection, {"type": "COORDINATE", "request": request})["result"]
    except Failure as failure:  # whoever reads this reads JSON, whatever it says
        say_json({"error": {"code": failure.code or "BAD_MESSAGE", "message": str(failure)}})
        return int(failure.exit_code)
    say_json(result)
    return _exit(result)


def _request(text: str) -> dict[str, Any]:
    if text == "-":
        if sys.stdin is None:
            raise Failure(65, "stdin is closed: give the operation as an argument")
        text = sys.stdin.buffer.read(BYTES_MAX + 1).decode("utf-8", "replace")
    if len(text.encode("utf-8", "replace")) > BYTES_MAX:
        raise Failure(64, f"the operation has more than {BYTES_MAX} bytes", "MESSAGE_TOO_LARGE")
    try:
        request = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise Failure(65, f'the operation is no JSON ({error}): such as {{"operation": "status"}}') from None
    if not isinstance(request, dict):
        raise Failure(65, 'the operation is no JSON object: such as {"operation": "status"}')
    return request


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no number of JSON")


def _exit(result: dict[str, Any]) -> int:
    """That of the refusal's code; 0 where it was done."""
    from interlock.protocol.codes import Code, exit_code

    error = result.get("error")
    if not isinstance(error, dict):
        return 0
    try:
        return int(exit_code(Code(error.get("code", ""))))
    except (ValueError, KeyError):
        return 74
