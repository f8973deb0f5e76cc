"""Reading: what an envelope says, whether it came as a body, as a text, or as the words of a command line."""

import shlex

import msgspec

from interlock.coordinator.naming import No
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Envelope
from interlock.protocol.grammar import checked, parse
from interlock.protocol.messages import Extend, Request, ToCoordinator

_bodies = msgspec.json.Decoder(ToCoordinator)


def read(envelope: Envelope) -> ToCoordinator:
    """The message in an envelope: its body, its text, or the words of a command line."""
    if bytes(envelope.body):
        try:
            message = _bodies.decode(envelope.body)
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            raise No(Code.BAD_MESSAGE, f"no message to the coordinator: {error}") from None
        if any("\0" in each for each in msgspec.structs.astuple(message) if isinstance(each, str)):
            raise No(Code.BAD_MESSAGE, "a message cannot hold a NUL character")
        return checked(message) if isinstance(message, Request | Extend) else message
    if envelope.args is not None:
        return parse(_line_of(envelope.args))
    if envelope.text is None:
        raise No(Code.BAD_MESSAGE, "an envelope holds text or body")
    return parse(envelope.text)


def _line_of(words: list[str]) -> str:
    """The words of a command line as one text: a single one is the text, several are its fields."""
    if len(words) == 1:
        return words[0]
    head = 3 if words and words[0].upper() == "REQUEST" else 2
    fields = [words[0], *(shlex.quote(word) for word in words[1:head])] if words else []
    return " ".join(fields) + (" " + " ".join(words[head:]) if len(words) > head else "")


def text_of(body: msgspec.Raw) -> str | None:
    """The text of a message to an agent that came as a body."""
    try:
        return msgspec.json.decode(body, type=dict[str, str]).get("text")
    except msgspec.MsgspecError:
        return None
