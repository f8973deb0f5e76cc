"""Reading: what an envelope says, whether it came as a body, as a text, or as the words of a command line."""

import shlex
from collections.abc import Iterator

import msgspec

from interlock.coordinator.naming import No
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Envelope
from interlock.protocol.grammar import checked, parse
from interlock.protocol.lease_grammar import LEASE_VERBS, checked_about_lease
from interlock.protocol.lease_messages import ToTerritory
from interlock.protocol.messages import Extend, Request, ToCoordinator
from interlock.protocol.task_grammar import TASK_VERBS, checked_about_task
from interlock.protocol.task_messages import ToTask
from interlock.protocol.visible import one_sentence

_bodies = msgspec.json.Decoder(ToCoordinator)


def read(envelope: Envelope) -> ToCoordinator:
    """The message in an envelope: its body, its text, or the words of a command line."""
    if bytes(envelope.body):
        try:
            message = _bodies.decode(envelope.body)
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            raise No(Code.BAD_MESSAGE, f"no message to the coordinator: {one_sentence(str(error))}") from None
        if any("\0" in each for each in _texts(message)):
            raise No(Code.BAD_MESSAGE, "a message cannot hold a NUL character")
        message = checked(message) if isinstance(message, Request | Extend) else message
    elif envelope.args is not None:
        message = parse(_line_of(envelope.args))
    elif envelope.text is None:
        raise No(Code.BAD_MESSAGE, "an envelope holds text or body")
    else:
        message = parse(envelope.text)
    if isinstance(message, ToTask):
        return checked_about_task(message)
    return checked_about_lease(message) if isinstance(message, ToTerritory) else message


def _texts(said: object) -> Iterator[str]:
    """Every text in a message."""
    if isinstance(said, str):
        yield said
    elif isinstance(said, tuple):
        for each in said:
            yield from _texts(each)
    elif isinstance(said, msgspec.Struct):
        yield from _texts(msgspec.structs.astuple(said))


def _line_of(words: list[str]) -> str:
    """The words of a command line as one text: a single one is the text, several are its fields."""
    if len(words) == 1:
        return words[0]
    if words and words[0].upper() in {*LEASE_VERBS, *TASK_VERBS}:
        return _line_with_options(words)
    head = 3 if words and words[0].upper() == "REQUEST" else 2
    fields = [words[0], *(shlex.quote(word) for word in words[1:head])] if words else []
    return " ".join(fields) + (" " + " ".join(words[head:]) if len(words) > head else "")


def _line_with_options(words: list[str]) -> str:
    """Every word is one, up to the dash that what it is for follows."""
    at = words.index("-", 2) if "-" in words[2:] else len(words)
    return " ".join([words[0], *map(shlex.quote, words[1:at]), *words[at:]])


def text_of(body: msgspec.Raw) -> str | None:
    """The text of a message to an agent that came as a body."""
    try:
        return msgspec.json.decode(body, type=dict[str, str]).get("text")
    except msgspec.MsgspecError:
        return None
