"""The short way: `bus send`, `bus inbox`, `bus ack`. One round trip, nothing imported but the standard library.

The supervisor parses the message, so that its grammar stands in one place, and says the exit code.
"""

from __future__ import annotations

import json
import sys

from interlock.adapters.cli.connection import Connection
from interlock.adapters.cli.options import Failure, Options, say_err, say_out

TYPE_CHECKING = False  # as typing has it, without its import
if TYPE_CHECKING:
    from typing import Any

    from interlock.adapters.cli.frames import Frame

MESSAGE_BYTES_MAX = 64 * 1024  # the same as the supervisor's; read no more than it would take
USAGE = {
    "send": "bus send TO MESSAGE… [--wait D] [--stdin | --file F] [--request-id ID] [--reply-to ID]",
    "inbox": "bus inbox [--wait D] [--peek] [--last N]",
    "ack": "bus ack ID…",
}


def run(verb: str, words: list[str], options: Options) -> int:
    """Run one of the three verbs. Raises Failure."""
    if verb == "send":
        return _send(words, options)
    if verb == "inbox":
        return _inbox(words, options)
    return _ack(words, options)


def _send(words: list[str], options: Options) -> int:
    """A message to an agent or to the coordinator; prints the answer's text."""
    flags, words = _flags("send", words, {"--wait", "--file", "--request-id", "--reply-to"}, {"--stdin"}, stop_after=1)
    if not words:
        raise Failure(64, f"say to whom: {USAGE['send']}")
    to, message = words[0], words[1:]
    content: dict[str, Any] = {}
    if "--stdin" in flags or "--file" in flags:
        if message:
            raise Failure(64, f"the message is given twice: {USAGE['send']}")
        content["text"] = _read(flags.get("--file", ""))
    elif not message:
        raise Failure(64, f"the message is missing: {USAGE['send']}")
    elif len(message) == 1:
        content["text"] = _utf8(message[0])
    else:
        content["args"] = [_utf8(word) for word in message]
    if "--reply-to" in flags:
        content["reply_to"] = flags["--reply-to"]
    with Connection(options) as connection:
        frame = connection.ask(to, message_id=flags.get("--request-id", ""), **content)
        show(frame, options)
        body = frame.get("body", {})
        if "--wait" in flags and body.get("type") == "QUEUED":
            from interlock.adapters.cli.waiting import wait_for

            return wait_for(connection, body["resource"], flags["--wait"], options)
        return int(frame.get("exit", 0))


def _inbox(words: list[str], options: Options) -> int:
    """Unread messages, at most 20 or 8 KB a call, acked once printed."""
    flags, rest = _flags("inbox", words, {"--wait", "--last"}, {"--peek"})
    if rest:
        raise Failure(64, f"{rest[0]!r} is too much: {USAGE['inbox']}")
    last = flags.get("--last", "0")
    if not last.isdigit():
        raise Failure(64, f"--last {last} is no number: {USAGE['inbox']}")
    with Connection(options, notices=False) as connection:
        connection.agent()
        reply = _read_inbox(connection, int(last))
        if not reply["messages"] and "--wait" in flags:
            from interlock.adapters.cli.waiting import wait_for_news

            wait_for_news(connection, flags["--wait"])
            reply = _read_inbox(connection, int(last))
        for message in reply["messages"]:
            say_out(json.dumps(message, ensure_ascii=False) if options.json else _line(message))
        if reply.get("more") and not options.json:
            say_out(f"{reply['more']} more: bus inbox")
        if "--peek" not in flags:
            connection.seen([message["id"] for message in reply["messages"] if message["state"] != "acked"])
    return 0


def _ack(words: list[str], options: Options) -> int:
    """Say that messages have been read."""
    if not words or words[0].startswith("-"):
        raise Failure(64, f"say which: {USAGE['ack']}")
    with Connection(options) as connection:
        connection.agent()
        frame = connection.ask("supervisor", body={"type": "ACK", "ids": words})
        body = frame["body"]
        if options.json:
            say_out(json.dumps(body))
        unknown = body.get("unknown", [])
        if unknown:
            raise Failure(77, f"no message {unknown[0]} is in your inbox: bus inbox --peek", "TARGET_ENDED")
        if not options.json:
            say_out(frame["text"])
    return 0


def show(frame: Frame, options: Options) -> None:
    """Print an answer: its text, a refusal on stderr, or one JSON object."""
    body, text = frame.get("body", {}), frame.get("text", "")
    if options.json:
        if body.get("type") == "REFUSED":
            error = {"code": body["code"], "message": body["why"], "next": ""}
            say_out(json.dumps({"error": error}, ensure_ascii=False))
        else:
            wanted = {key: frame[key] for key in ("id", "from", "to", "at", "reply_to", "body", "text") if key in frame}
            say_out(json.dumps(wanted, ensure_ascii=False))
    elif body.get("type") == "REFUSED":
        say_err(text)
    else:
        say_out(text)


def _line(message: Frame) -> str:
    return f"{message['at'][11:19]} {message['from']}: {message['text']}  [{message['id']}]"


def _read_inbox(connection: Connection, last: int) -> Frame:
    frame = connection.ask("supervisor", body={"type": "INBOX", "last": last})
    body: Frame = frame["body"]
    if body.get("type") == "REFUSED":
        raise Failure(int(frame.get("exit", 64)), body["why"], body["code"])
    return body


def _flags(
    verb: str, words: list[str], valued: set[str], plain: set[str], *, stop_after: int = 0
) -> tuple[dict[str, str], list[str]]:
    """Options of a short verb; for `send` they stand before the message, whose words are left as they are."""
    flags: dict[str, str] = {}
    rest: list[str] = []
    at = 0
    while at < len(words):
        word, equals, value = words[at].partition("=")
        if stop_after and len(rest) > stop_after:
            rest += words[at:]
            break
        if words[at] == "--":
            rest += words[at + 1 :]
            break
        if word in valued:
            if not equals:
                at += 1
                if at == len(words):
                    raise Failure(64, f"{word} needs a value: {USAGE[verb]}")
                value = words[at]
            flags[word] = value
        elif words[at] in plain:
            flags[words[at]] = ""
        elif words[at].startswith("--"):
            raise Failure(64, f"unknown option {words[at]}: {USAGE[verb]}")
        else:
            rest.append(words[at])
        at += 1
    return flags, rest


def _read(path: str) -> str:
    """A message from a file or from stdin, byte for byte; a last newline belongs to it."""
    try:
        if path:
            with open(path, "rb") as file:
                data = file.read(MESSAGE_BYTES_MAX + 1)
        else:
            data = sys.stdin.buffer.read(MESSAGE_BYTES_MAX + 1)
    except OSError as error:
        raise Failure(65, f"{path or 'stdin'} cannot be read: {error.strerror}") from None
    if len(data) > MESSAGE_BYTES_MAX:
        raise Failure(
            64, f"the message has more than {MESSAGE_BYTES_MAX} bytes: put it into a file, send its path",
            "MESSAGE_TOO_LARGE",
        )  # fmt: skip
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Failure(65, f"{path or 'stdin'} is not UTF-8: a message is text") from None


def _utf8(word: str) -> str:
    """A word of the command line as text. Raises Failure where its bytes are none."""
    try:
        word.encode()
    except UnicodeEncodeError:
        raise Failure(65, "the message is not UTF-8: a message is text") from None
    return word
