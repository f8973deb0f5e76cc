"""What comes through a folder only says whose it is: it does nothing that is a person's to do."""

from typing import Any

import pytest
from tests.coordinator.bus import Bus

from interlock.protocol.envelope import Envelope
from interlock.protocol.limits import MESSAGES_BURST

pytestmark = pytest.mark.anyio

PERSONS: list[dict[str, Any]] = [
    {"type": "REVOKE", "resource": "machine/x", "because": "mine now", "by": "a person"},
    {"type": "RECOVER", "resource": "machine/x", "code": "abcdef"},
    {"type": "DOWN"},
    {"type": "DOWN", "stop_servers": True},
    {"type": "FORGET", "repository": "0" * 32},
    {"type": "BACKUP"},
]


@pytest.mark.parametrize("question", PERSONS, ids=lambda each: each["type"])
async def test_no_folder_carries_what_is_a_persons_to_do(bus: Bus, question: dict[str, Any]) -> None:
    async with bus.running():
        # given
        ann = bus.client("ann")
        granted = await ann.ask("REQUEST machine/x - work")
        boxed = bus.client("boxed")
        boxed.session.claimed, boxed.session.owner = True, "boxed"
        # when
        answer = await boxed.ask(question, to="supervisor")
        # then
        assert (answer["type"], answer["code"]) == ("REFUSED", "CAPABILITY_DENIED")
        still = await ann.ask({"type": "CHECK", "resource": "machine/x"}, to="supervisor")
        assert still["fence"] == granted["fence"]


async def test_the_evidence_is_shown_to_everybody(bus: Bus) -> None:
    async with bus.running():
        # given
        boxed = bus.client("boxed")
        boxed.session.claimed = True
        # when
        answer = await boxed.ask({"type": "RECOVER", "resource": "machine/x"}, to="supervisor")
        # then
        assert answer["code"] == "TARGET_ENDED"


async def test_nobody_uses_up_the_share_of_another_by_naming_it(bus: Bus) -> None:
    async with bus.running():
        # given
        ann, boxed = bus.client("ann"), bus.client("boxed")
        boxed.session.owner = "boxed"
        # when
        for _ in range(MESSAGES_BURST + 1):
            bus.router.hear(boxed.session, Envelope(to="coordinator", sender="ann", text="STATUS"))
        # then
        assert boxed.frames[0]["body"]["code"] == "CAPABILITY_DENIED"
        assert boxed.frames[-1]["body"]["code"] == "RATE_LIMITED"
        assert (await ann.ask("REQUEST machine/x - work"))["type"] == "GRANTED"


async def test_what_is_no_name_is_not_remembered(bus: Bus) -> None:
    async with bus.running():
        # given
        nobody = bus.client("")
        # when
        for number in range(100):
            envelope = Envelope(to="coordinator", sender="x" * 10_000 + str(number), text="STATUS")
            work = bus.router.hear(nobody.session, envelope)
            if work is not None:
                await work
        # then
        assert sum(map(len, bus.router._rate._buckets)) < 1_000
