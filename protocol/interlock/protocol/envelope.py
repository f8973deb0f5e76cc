"""The envelope: one message on its way, one JSON object on one line of a stream door. Source: contract §2."""

import datetime
import re
from functools import lru_cache

import msgspec

from interlock.protocol.codes import Code
from interlock.protocol.limits import DEPTH_MAX, FRAME_BYTES_MAX, MESSAGE_BYTES_MAX
from interlock.protocol.messages import Refused


class Envelope(msgspec.Struct, omit_defaults=True, rename={"sender": "from"}):
    """What an agent posts. It may give only `to` and `text`; the door fills in the rest.

    Args:
        args: the words of a command line, as they were given: its verb, its fields, the rest.
        message: SendMessage style, the same as `text`. summary: taken and not looked at.
        token: of the sender, where the bus wants one and the session did not begin with it.
    """

    to: str = ""
    sender: str = ""
    id: str = ""
    at: str = ""
    reply_to: str = ""
    text: str | None = None
    body: msgspec.Raw = msgspec.Raw(b"")
    args: list[str] | None = None
    message: str | None = None
    summary: str | None = None
    incarnation: int = 0
    token: str = ""


class Hello(msgspec.Struct, omit_defaults=True):
    """Who opens a session, as far as it knows. Without a name the door finds one. Source: contract §1.

    Args:
        agent: a name that was given; how: where ("--as", "BUS_AGENT").
        cwd: the caller's directory. user: $USER, given only at a terminal.
        notices: show unread news in the welcome. token: of the agent, where the bus wants one.
        run: a name for the run of CI that it belongs to; unnumbered: the same, where that has no number of its own.
    """

    agent: str = ""
    how: str = ""
    incarnation: int = 0
    cwd: str = ""
    user: str = ""
    notices: bool = False
    token: str = ""
    run: str = ""
    unnumbered: str = ""


class Line(msgspec.Struct, omit_defaults=True):
    """One line of a stream door: a hello, or an envelope."""

    hello: Hello | None = None


class BadEnvelope(ValueError):
    """The bytes are no envelope; `refusal` says why and what is right."""

    def __init__(self, code: Code, why: str) -> None:
        super().__init__(why)
        self.refusal = Refused(code, why)


_envelopes = msgspec.json.Decoder(Envelope)
# A string that nothing ends is a token too: sought again from each quote inside it, 1 MiB would take hours.
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)
_OPENING, _CLOSING = frozenset({b"[", b"{"}), frozenset({b"]", b"}"})
_hellos = msgspec.json.Decoder(Line)


def decode_line(line: bytes) -> Hello | Envelope:
    """Read one line of a stream door.

    Raises:
        BadEnvelope: too long, not UTF-8, not JSON, nested deeper than anything on the bus, wrong types.
    """
    if len(line) > FRAME_BYTES_MAX:
        why = f"the line has {len(line)} bytes, at most {FRAME_BYTES_MAX} are read"
        raise BadEnvelope(Code.MESSAGE_TOO_LARGE, why)
    if _depth(line) > DEPTH_MAX:
        raise BadEnvelope(Code.BAD_MESSAGE, f"the JSON is nested deeper than {DEPTH_MAX}")
    try:
        if b'"hello"' in line[:64]:
            hello = _hellos.decode(line).hello
            if hello is not None:
                return hello
        envelope = _envelopes.decode(line)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise BadEnvelope(Code.BAD_MESSAGE, f"not an envelope: {error}") from None
    if envelope.text is None:
        envelope.text = envelope.message
    if len(line) <= MESSAGE_BYTES_MAX:  # what it says is never longer than how JSON writes it
        return envelope
    said = len(envelope.text.encode("utf-8", "surrogatepass")) if envelope.text is not None else 0
    said += len(bytes(envelope.body))
    said += sum(len(word.encode("utf-8", "surrogatepass")) + 1 for word in envelope.args or ())
    if said > MESSAGE_BYTES_MAX:
        why = f"the message has {said} bytes, at most {MESSAGE_BYTES_MAX} are taken: put it into a file, send its path"
        raise BadEnvelope(Code.MESSAGE_TOO_LARGE, why)
    return envelope


def encode_line(value: object) -> bytes:
    return msgspec.json.encode(value) + b"\n"


@lru_cache(maxsize=16)
def wire_time(at_ms: int) -> str:
    """RFC 3339 UTC with milliseconds. Every answer carries it, and those of one commit the same."""
    return f"{_wire_second(at_ms // 1000)}.{at_ms % 1000:03d}Z"


@lru_cache(maxsize=16)
def _wire_second(at_s: int) -> str:
    """The same second is asked for again and again: every answer carries it."""
    return datetime.datetime.fromtimestamp(at_s, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")


def read_wire_time(text: str) -> int:
    """Milliseconds since the epoch; 0 for what is no time."""
    try:
        at = datetime.datetime.fromisoformat(text)
    except ValueError:
        return 0
    return int(at.timestamp() * 1000) if at.tzinfo is not None else 0


def _depth(line: bytes) -> int:
    """How deep its brackets are nested, those inside strings left out: the decoder must not recurse freely."""
    depth = deepest = 0
    if line.count(b"[") + line.count(b"{") > DEPTH_MAX:
        for token in _TOKENS.findall(line):
            if token in _OPENING:
                depth += 1
                deepest = max(deepest, depth)
            elif token in _CLOSING:
                depth -= 1
    return deepest
