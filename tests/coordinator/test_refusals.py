"""What is said of a strange word: short and visible, whatever the word, wherever it stands."""

from typing import Any, get_args

import pytest
from msgspec import inspect
from tests.coordinator.bus import Bus, settled
from tests.fuzz.values import Garbage

from interlock.coordinator.config import parse_config
from interlock.protocol.control import Control
from interlock.protocol.grammar import VERBS
from interlock.protocol.messages import ToCoordinator

pytestmark = pytest.mark.anyio
WORD = "\u202e\x1b[2J" + "x" * 2_000
WHY_CHARACTERS_MAX = 700  # a sentence that quotes a path, and what to do
BEFORE = ["", "gpu ", "gpu - ", "gpu,", "gpu,,", "/w ", "L1 ", "T-1 ", "T-1 bob ", "gpu bob "]


def check(asked: object, answer: dict[str, Any]) -> None:
    why = answer.get("why", "")
    assert len(why) <= WHY_CHARACTERS_MAX, (asked, why)
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
            for strange in (WORD, [WORD], {WORD: WORD}):
                client = bus.client("ann")
                to = "coordinator" if type_ in get_args(ToCoordinator) else "supervisor"
                asked = await client.post({**made, name: strange}, to=to)
                await settled()
                for frame in client.frames:
                    if frame.get("reply_to") == asked:
                        check((name, type_), frame["body"])


async def test_to_a_strange_name() -> None:
    async with Bus().running() as bus:
        check("to", await bus.client("ann").ask({"type": "any"}, to=WORD))
