"""The post: what a file in an inbox folder says, as an envelope. Source: contract §4.

{"to": …, "message": …}          one envelope in JSON, or
From: a                          plain text: headers where they are needed,
To: b
                                 an empty line,
the message, verbatim            and the message; without headers the whole file is the message
"""

import re

import msgspec

from interlock.protocol.codes import Code
from interlock.protocol.envelope import BadEnvelope, Envelope, Hello, decode_line
from interlock.protocol.limits import MESSAGE_BYTES_MAX, POST_BYTES_MAX
from interlock.protocol.names import COORDINATOR, SUPERVISOR, why_not_agent

_HEADER = re.compile(r"(from|to|reply-to|id|token):[ \t]*(.*)", re.IGNORECASE)
_OTHER_HEADER = re.compile(r"([A-Za-z][A-Za-z-]*):")


def read_post(data: bytes, name: str, owner: str = "") -> Envelope:
    """Read a posted file.

    Args:
        data: the whole of it.
        name: of the file; in the coordinator's folder what stands before `--` may name the sender.
        owner: of the folder it lay in, "" for the coordinator's, where the file names its sender.

    Returns:
        The envelope, its sender filled in and a name.

    Raises:
        BadEnvelope: it cannot be read as a message, or not as that sender's; the sentence says what is right.
    """
    envelope = _envelope(data)
    sender = _sender(envelope.sender, name, owner)
    to = envelope.to or COORDINATOR
    if to == SUPERVISOR:
        raise BadEnvelope(Code.BAD_MESSAGE, "a file goes to the coordinator or to an agent: write To: coordinator")
    if envelope.text is None and not bytes(envelope.body) and envelope.args is None:
        raise BadEnvelope(
            Code.BAD_MESSAGE, "the file holds no message: write one, such as REQUEST server-loop - why, 5m"
        )
    return msgspec.structs.replace(envelope, sender=sender, to=to)


def sender_of(head: bytes, name: str) -> str:
    """Whom a file that cannot be read as a message seems to come from; "" where that cannot be known.

    Args:
        head: its first bytes. name: of the file.
    """
    text = head.decode("utf-8", "replace")
    said = re.search(r"^[ \t]*from:[ \t]*(\S+)", text, re.IGNORECASE | re.MULTILINE) or re.search(
        r'"from"\s*:\s*"([^"\\]+)"', text
    )
    named = said[1] if said else _before_dashes(name)
    return named if named and why_not_agent(named) is None else ""


def _envelope(data: bytes) -> Envelope:
    if len(data) > POST_BYTES_MAX:
        raise BadEnvelope(Code.MESSAGE_TOO_LARGE, too_large(len(data)))
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.strip():
        raise BadEnvelope(Code.BAD_MESSAGE, "the file is empty: write a message, such as REQUEST server-loop - why, 5m")
    if data.lstrip()[:1] == b"{":
        said = decode_line(data)
        if isinstance(said, Hello):
            raise BadEnvelope(Code.BAD_MESSAGE, "a hello opens a session, a file holds a message: write to and text")
        return said
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise BadEnvelope(Code.BAD_MESSAGE, "the file is not UTF-8: a message is text, send a path instead") from None
    envelope = _plain(text)
    size = len((envelope.text or "").encode())
    if size > MESSAGE_BYTES_MAX:
        why = f"the message has {size} bytes, at most {MESSAGE_BYTES_MAX} are taken: put it into a file, send its path"
        raise BadEnvelope(Code.MESSAGE_TOO_LARGE, why)
    return envelope


def _plain(text: str) -> Envelope:
    """Plain text. One newline at its end is the file's, all others are the message's."""
    text = text.removesuffix("\n").removesuffix("\r")
    headers: dict[str, str] = {}
    rest = text
    while True:
        line, newline, after = rest.partition("\n")
        line = line.removesuffix("\r")
        found = _HEADER.fullmatch(line)
        if found is None:
            break
        if found[1].lower() in headers:
            raise BadEnvelope(Code.BAD_MESSAGE, f"the header {found[1]}: stands there twice: write it once")
        headers[found[1].lower()] = found[2].strip()
        rest = after
        if not newline:
            raise BadEnvelope(
                Code.BAD_MESSAGE, "after the headers there is no message: add an empty line and the message"
            )
    if not headers:
        return Envelope(text=text)
    if line:
        other = _OTHER_HEADER.match(line)
        what = (
            f"the header {other[1]}: is unknown (From, To, Reply-To, Id and Token are known)"
            if other
            else "it is missing"
        )
        raise BadEnvelope(Code.BAD_MESSAGE, f"after the headers comes an empty line, then the message: {what}")
    return Envelope(
        to=headers.get("to", ""), sender=headers.get("from", ""), id=headers.get("id", ""),
        reply_to=headers.get("reply-to", ""), text=after, token=headers.get("token", ""),
    )  # fmt: skip


def _sender(said: str, name: str, owner: str) -> str:
    if owner:
        if said and said != owner:
            why = (
                f"what is posted in {owner}'s folder is {owner}'s, not {said}'s: take From: out, or post it in your own"
            )
            raise BadEnvelope(Code.CAPABILITY_DENIED, why)
        return owner
    named = _before_dashes(name)
    if said and named and said != named:
        why = f"the file's name says {named}, From: says {said}: say one sender"
        raise BadEnvelope(Code.BAD_MESSAGE, why)
    sender = said or named
    if not sender:
        raise BadEnvelope(Code.BAD_MESSAGE, "nobody can tell who sends it: begin it with From: NAME and an empty line")
    why_not = why_not_agent(sender)
    if why_not is not None:
        raise BadEnvelope(Code.BAD_MESSAGE, why_not)
    return sender


def _before_dashes(name: str) -> str:
    before, dashes, _ = name.partition("--")
    return before if dashes else ""


def too_large(size: int) -> str:
    return f"the file has {size} bytes, at most {POST_BYTES_MAX} are read: put it elsewhere and send its path"
