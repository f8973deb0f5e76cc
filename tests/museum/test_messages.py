"""Messages that were lost, shown twice, sent to nobody or marked read too soon. The cases: index.md."""

import json

import pytest
from tests.adapters.peer import Peer, body
from tests.coordinator.bus import Bus, passes, settled
from tests.end_to_end.playground import Bus as RealBus
from tests.museum.looking import KEY, MINUTE_S, supervise, unread

from interlock.protocol.envelope import BadEnvelope, decode_line

pytestmark = pytest.mark.anyio


async def test_a_full_inbox_took_messages_and_never_showed_them(bus: Bus) -> None:
    async with bus.running():
        a, b = bus.client("a"), bus.client("b")
        await b.ask("STATUS")
        sent = []
        for number in range(500):
            answer = await a.ask(f"message {number}", to="b")
            if answer["type"] == "SENT":
                sent.append(f"message {number}")
            else:
                assert answer["code"] == "RATE_LIMITED"
                await passes(0.1)
        assert 200 < len(sent) < 500
        seen: list[str] = []
        while page := (await supervise(b, type="INBOX"))["messages"]:
            seen += [each["text"] for each in page]
            await supervise(b, type="ACK", ids=[each["id"] for each in page])
        assert seen == sent


async def test_a_message_was_marked_read_that_nobody_had_seen(bus: Bus) -> None:
    async def state() -> str:
        return str((await supervise(bus.client("a"), type="RECEIPT", id=message))["state"])

    async with bus.running():
        await bus.client("b").ask("STATUS")
        message = (await bus.client("a").ask("hi", to="b"))["id"]
        assert await state() == "queued"
        [letter] = (await supervise(bus.client("b"), type="INBOX"))["messages"]
        await settled()
        assert (letter["id"], await state()) == (message, "delivered")
    bus = Bus(bus.store.crash(), clock=bus.clock)  # it was shown to nobody for certain: it comes again, the same one
    async with bus.running():
        b = bus.client("b")
        [letter] = (await supervise(b, type="INBOX"))["messages"]
        assert letter["id"] == message
        await supervise(b, type="ACK", ids=[message])
        assert await state() == "acked"


async def test_read_mail_went_on_nagging(bus: Bus) -> None:
    async with bus.running():
        a, b = bus.client("a"), bus.client("b")
        await b.ask("STATUS")
        first, second = [(await a.ask(each, to="b"))["id"] for each in ("one", "two")]
        for _ in range(2):  # to look is not to read
            assert [each["id"] for each in (await supervise(b, type="INBOX"))["messages"]] == [first, second]
        await supervise(b, type="ACK", ids=[first])
        assert (await supervise(b, type="ME"))["unread"] == 1
        assert [each["id"] for each in (await supervise(b, type="INBOX"))["messages"]] == [second]
        await supervise(b, type="ACK", ids=[second])
        assert (await supervise(b, type="ME"))["unread"] == 0


async def test_a_message_to_nobody_succeeded_and_made_a_ghost_inbox(bus: Bus) -> None:
    async with bus.running():
        await bus.client("Reviewer").ask("STATUS")
        a = bus.client("a")
        for name in ("Reviewr", "reviewer", "REVIEWER", "team-lead", "Reviewer.md"):
            refused = await a.ask("hi", to=name)
            assert refused["code"] in {"UNKNOWN_TARGET", "NAME_CONFLICT"}, name
            assert name == "team-lead" or "Reviewer" in refused["why"]
        assert set(bus.supervisor.world.registry.agents) == {"Reviewer", "a"}
        assert set(bus.supervisor.world.inboxes) <= {"Reviewer", "a"}


async def test_a_new_session_acted_on_mail_about_what_was_over(bus: Bus) -> None:
    async with bus.running():
        holder, a, b = (bus.client(name) for name in ("holder", "a", "b"))
        await holder.ask(f"REQUEST {KEY} -")
        await a.ask(f"REQUEST {KEY} -")
        await b.ask(f"REQUEST {KEY} -")
        await holder.ask(f"RELEASE {KEY}")
        await settled()
        assert await unread(bus.client("observer")) == []
        granted = bus.supervisor.world.inbox("a").unread
        assert [each.slot.partition(":")[0] for each in granted.values()] == ["Granted"]
    bus = Bus(bus.store.crash(), clock=bus.clock)
    async with bus.running():
        await passes(3 * MINUTE_S)  # nobody noticed the grant, and it passed on
        left = [each.slot.partition(":")[0] for each in bus.supervisor.world.inbox("a").unread.values()]
        assert "Granted" not in left


@pytest.mark.parametrize("garbage", [b"}", b" {}", b"\x00", b"]garbage", b'{"to":"x"}', b"\xff"])
def test_bytes_behind_a_valid_document_were_taken_or_bricked_it(garbage: bytes, peer: Peer) -> None:
    line = b'{"to":"coordinator","from":"d62","text":"STATUS"}'
    with pytest.raises(BadEnvelope):
        decode_line(line + garbage)
    peer.send(line + garbage + b"\n")
    assert body(peer.receive())["type"] == "REFUSED"
    assert body(peer.ask(to="coordinator", text="STATUS", from_="d62"))["type"] != "REFUSED"


def test_json_was_cut_in_the_middle_of_an_object(real: RealBus, peer: Peer) -> None:
    for number in range(150):
        said = f"REQUEST machine/d64 - {'é' * 1000}"
        peer.send({"to": "coordinator", "text": said, "from": f"d64-{number}"})
    for _ in range(150):
        peer.receive()
    [found] = real("status", "machine/d64", "--json").json["resources"]
    assert len(found["queue"]) == 149
    shown = real.ok("tail", "--json", "--since", "0")
    assert len(shown) > 100_000
    for each in shown.splitlines():
        json.loads(each)
