"""What is said of a strange word: short and visible, whatever the word, wherever it stands."""

from typing import Any, get_args

import msgspec
import pytest
from msgspec import inspect
from tests.coordinator.bus import Bus, settled
from tests.fuzz.values import Garbage

from interlock.coordinator.config import parse_config
from interlock.protocol.codes import Code
from interlock.protocol.control import Control
from interlock.protocol.envelope import Envelope
from interlock.protocol.grammar import VERBS
from interlock.protocol.messages import Refused, ToCoordinator
from interlock.protocol.visible import WHY_CHARACTERS, why_of

pytestmark = pytest.mark.anyio
WORD = "\u202e\x1b[2J" + "x" * 2_000
PATH = "/" + WORD
SHORT = 700  # of what quotes a word or two, and says what to do
BEFORE = ["", "gpu ", "gpu - ", "gpu,", "gpu,,", "/", "gpu /", "/w ", "L1 ", "T-1 ", "T-1 bob ", "gpu bob "]


def check(asked: object, answer: dict[str, Any]) -> None:
    why = answer.get("why", "")
    assert len(why) <= SHORT, (asked, why)
    assert why.isprintable(), (asked, why)


@pytest.mark.parametrize("verb", ["NONSENSE", *VERBS])
async def test_a_text_with_a_strange_word(verb: str) -> None:
    async with Bus(config=parse_config("[resources.gpu]\n", "bus.toml")).running() as bus:
        for before in BEFORE:
            for after in ("", f" {WORD}", f" - {WORD}"):
                text = f"{verb} {before}{WORD}{after}"
                check(text, await bus.client("ann").ask(text))


@pytest.mark.parametrize("type_", [*get_args(ToCoordinator), *get_args(Control)], ids=lambda type_: type_.__name__)
async def test_a_body_with_a_strange_word(type_: type) -> None:
    garbage = Garbage(type_.__name__)
    struct = inspect.type_info(type_)
    assert isinstance(struct, inspect.StructType)
    names = [field.encode_name for field in struct.fields]
    async with Bus(config=parse_config("[resources.gpu]\n", "bus.toml")).running() as bus:
        for name in [name for name in names for _ in range(5)]:
            made = garbage.of_struct(struct)
            for strange in (WORD, PATH, [WORD], {WORD: WORD}):
                client = bus.client("ann")
                to = "coordinator" if type_ in get_args(ToCoordinator) else "supervisor"
                asked = await client.post({**made, name: strange}, to=to)
                await settled()
                for frame in client.frames:
                    if frame.get("reply_to") == asked:
                        check((name, type_), frame["body"])


@pytest.mark.parametrize("to", ["coordinator", "supervisor", "bob", WORD])
async def test_from_or_to_a_strange_name_or_of_a_strange_type(to: str) -> None:
    async with Bus().running() as bus:
        ann = bus.client("ann")
        check("type", await ann.ask({"type": WORD}, to=to))
        envelope = Envelope(to=to, id="m1", sender=WORD, body=msgspec.Raw(b'{"type":"STATUS"}'))
        work = bus.router.hear(ann.session, envelope)
        if work is not None:
            await work
        check("from", (await ann.answer("m1"))["body"])


@pytest.mark.parametrize("why", [WORD, "a\nb", "\U000e0001" * 5_000, "x" * 5_000 + ": do this"])
def test_no_refusal_is_endless_or_hides_anything_whatever_it_quotes(why: str) -> None:
    refused = Refused(Code.BAD_MESSAGE, why)
    assert len(refused.why) <= WHY_CHARACTERS
    assert refused.why.isprintable()
    assert refused.why[-4:] == why_of(why)[-4:]
    assert why_of(refused.why) == refused.why


def test_a_refusal_that_is_well_is_as_it_was_said_and_what_is_long_keeps_its_end() -> None:
    assert Refused(Code.BAD_MESSAGE, "no: é").why == "no: é"
    assert Refused(Code.BAD_MESSAGE, "x" * 5_000 + ": do this").why.endswith("x: do this")
    assert msgspec.json.decode(b'{"type":"REFUSED","code":"IO","why":"a\\u001bb"}', type=Refused).why == "a\\x1bb"
