"""The short way: `bus send`, `bus inbox`, `bus ack`. One round trip, nothing imported but the standard library.

The supervisor parses the message, so that its grammar stands in one place, and says the exit code.
"""

from __future__ import annotations

import sys

from interlock.adapters.cli.connection import Connection
from interlock.adapters.cli.options import Failure, Options, error_object, say_err, say_out

TYPE_CHECKING = False  # as typing has it, without its import
if TYPE_CHECKING:
    from typing import Any

    from interlock.adapters.cli.frames import Frame

MESSAGE_BYTES_MAX = 64 * 1024  # the same as the supervisor's; read no more than it would take
COUNTED_BYTES_MAX = 64 * 1024 * 1024  # a longer one is not read to its end to say how long it is
USAGE = {
    "send": "bus send TO MESSAGE… [--wait D] [--request-id ID] [--reply-to ID], or --stdin or --file F for MESSAGE",
    "inbox": "bus inbox [--wait D] [--peek] [--last N] [--since SEQ]",
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
    flags, words = _flags("send", words, {"--wait", "--file", "--request-id", "--reply-to"}, {"--stdin"}, text_after=1)
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
    if "--wait" in flags:
        from interlock.adapters.cli.waiting import deadline

        deadline(flags["--wait"])
    with Connection(options) as connection:
        connection.agent()
        frame = connection.ask(to, message_id=flags.get("--request-id", ""), **content)
        body = frame.get("body", {})
        waits = "--wait" in flags and body.get("type") == "QUEUED"
        if not waits or not options.json:
            show(frame, options)
        if waits:
            from interlock.adapters.cli.waiting import cancel_on_interrupt, wait_for

            resource, limit = body["resource"], flags["--wait"]
            return cancel_on_interrupt(connection, resource, lambda: wait_for(connection, resource, limit, options))
        return int(frame.get("exit", 0))


def _inbox(words: list[str], options: Options) -> int:
    """Unread messages, at most 20 or 8 KB a call, acked once printed."""
    flags, rest = _flags("inbox", words, {"--wait", "--last", "--since"}, {"--peek"})
    if rest:
        raise Failure(64, f"{rest[0]!r} is too much: {USAGE['inbox']}")
    last = flags.get("--last", "0")
    if not (last.isascii() and last.isdigit()) or len(last) > 9:
        raise Failure(64, f"--last {last} is no number: {USAGE['inbox']}")
    if "--wait" in flags:
        from interlock.adapters.cli.waiting import deadline

        deadline(flags["--wait"])
    if "--since" in flags:
        return _inbox_since(flags, options)
    with Connection(options, notices=False) as connection:
        connection.agent()
        reply = _read_inbox(connection, int(last))
        if not reply["messages"] and "--wait" in flags:
            from interlock.adapters.cli.waiting import wait_for_news

            wait_for_news(connection, flags["--wait"], lambda: bool(_read_inbox(connection, int(last))["messages"]))
            reply = _read_inbox(connection, int(last))
        for message in reply["messages"]:
            say_out(_json(message) if options.json else _line(message))
        if reply.get("more") and not options.json:
            say_out(f"{reply['more']} more: bus inbox")
        if "--peek" not in flags:
            connection.seen([message["id"] for message in reply["messages"] if message["state"] != "acked"])
    return 0


def _inbox_since(flags: dict[str, str], options: Options) -> int:
    """What came after a number, read or not; nothing is acked, and the number of the last one is where to go on."""
    import time

    from interlock.adapters.cli.reading_on import letters_since, nothing, number_of
    from interlock.adapters.cli.waiting import deadline

    if "--last" in flags:
        raise Failure(64, f"--since and --last are two ways to say which: {USAGE['inbox']}")
    since = number_of(flags["--since"], "--since", USAGE["inbox"])
    again = f" --wait {flags['--wait']}" if "--wait" in flags else ""
    until = deadline(flags["--wait"]) if "--wait" in flags else time.monotonic()
    with Connection(options, notices=False) as connection:
        connection.agent()
        reply = letters_since(connection, since, until)
        for message in reply["messages"]:
            say_out(_json(message) if options.json else f"{message['seq']} {_line(message)}")
            since = message["seq"]
        if not reply["messages"]:
            return nothing("message", since, f"bus inbox --since {since}{again}")
        if not options.json:
            more = f"{reply['more']} more: " if reply.get("more") else "next: "
            say_out(f"{more}bus inbox --since {since}{again}")
    return 0


def _ack(words: list[str], options: Options) -> int:
    """Say that messages have been read."""
    if not words or words[0].startswith("-"):
        raise Failure(64, f"say which: {USAGE['ack']}")
    with Connection(options) as connection:
        connection.agent()
        frame = connection.ask("supervisor", body={"type": "ACK", "ids": words})
        body = frame["body"]
        unknown = body.get("unknown", [])
        if body.get("ids") and not options.json:
            say_out(frame["text"])
        if unknown:
            raise Failure(77, f"no message {unknown[0]} is in your inbox: bus inbox --peek", "TARGET_ENDED")
        if options.json:
            say_out(_json(body))
    return 0


def show(frame: Frame, options: Options) -> None:
    """Print an answer: its text, a refusal on stderr, or one JSON object."""
    body, text = frame.get("body", {}), frame.get("text", "")
    if options.json:
        if body.get("type") == "REFUSED":
            say_out(_json(error_object(body["code"], body["why"])))
        else:
            wanted = {key: frame[key] for key in ("id", "from", "to", "at", "reply_to", "body", "text") if key in frame}
            say_out(_json(wanted))
    elif body.get("type") == "REFUSED":
        say_err(text)
    else:
        say_out(text)


def _json(value: object) -> str:
    """For programs: in the characters as they are, which `lean` cannot."""
    import json

    return json.dumps(value, ensure_ascii=False)


def _line(message: Frame) -> str:
    """A message for people. No line of its text can pass for another message; `--json` has it byte for byte."""
    text = "\n    ".join(_harmless(line) for line in message["text"].replace("\r\n", "\n").split("\n"))
    return f"{message['from']}, {_age(message['age_s'])} ago: {text}  [{message['id']}]"


def _harmless(line: str) -> str:
    """Nothing in it moves the cursor or colours the screen."""
    return "".join(c if c.isprintable() or c == "\t" else repr(c)[1:-1] for c in line)


def _age(seconds: int) -> str:
    for name, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{name}"
    return f"{seconds}s"


def _read_inbox(connection: Connection, last: int) -> Frame:
    frame = connection.ask("supervisor", body={"type": "INBOX", "last": last})
    body: Frame = frame["body"]
    if body.get("type") == "REFUSED":
        raise Failure(int(frame.get("exit", 64)), body["why"], body["code"])
    return body


def _flags(
    verb: str, words: list[str], valued: set[str], plain: set[str], *, text_after: int = 0
) -> tuple[dict[str, str], list[str]]:
    """Options of a short verb, wherever they stand before a `--`.

    Args:
        text_after: after so many other words comes a message: there an option of somebody else is a word of it.
    """
    flags: dict[str, str] = {}
    rest: list[str] = []
    at = 0
    while at < len(words):
        word, equals, value = words[at].partition("=")
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
        elif words[at].startswith("--") and not (text_after and len(rest) > text_after):
            raise Failure(64, f"unknown option {words[at]}: {USAGE[verb]}")
        else:
            rest.append(words[at])
        at += 1
    return flags, rest


def _read(path: str) -> str:
    """A message from a file or from stdin, byte for byte; a last newline belongs to it."""
    if not path and sys.stdin is None:
        raise Failure(65, "stdin is closed: give the message with --file F, or as an argument")
    try:
        with open(path or 0, "rb", closefd=bool(path)) as file:
            data = file.read(MESSAGE_BYTES_MAX + 1)
            size = len(data)
            while size <= COUNTED_BYTES_MAX and (more := file.read(1 << 20) if size > MESSAGE_BYTES_MAX else b""):
                size += len(more)
    except OSError as error:
        raise Failure(
            65, f"{path or 'stdin'} cannot be read ({error.strerror}): give a file with the message"
        ) from None
    if size > MESSAGE_BYTES_MAX:
        has = f"{size} bytes" if size <= COUNTED_BYTES_MAX else f"more than {COUNTED_BYTES_MAX} bytes"
        why = f"the message has {has}, at most {MESSAGE_BYTES_MAX} are taken: put it into a file, send its path"
        raise Failure(64, why, "MESSAGE_TOO_LARGE")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Failure(65, f"{path or 'stdin'} is not UTF-8: a message is text, send a file's path instead") from None


def _utf8(word: str) -> str:
    """A word of the command line as text. Raises Failure where its bytes are none."""
    try:
        word.encode()
    except UnicodeEncodeError:
        raise Failure(65, "the message is not UTF-8: a message is text, send a file's path instead") from None
    return word
