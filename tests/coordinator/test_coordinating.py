"""`bus coordinate`: JSON in, JSON out, and nothing by it that the messages it means could not do."""

from typing import Any

import msgspec
import pytest
from tests.coordinator.bus import Bus, Client, FakeEffects, process, settled
from tests.coordinator.memory_store import MemoryStore
from tests.coordinator.test_authority import Shelf
from tests.coordinator.test_gate import CONFIG, KEY, admit, joined, run_ticket, supervise
from tests.coordinator.virtual_time import VirtualClock

from interlock.coordinator.authority import Authority, digest_of
from interlock.coordinator.config import parse_config

pytestmark = pytest.mark.anyio


@pytest.fixture
def bus(store: MemoryStore, clock: VirtualClock, effects: FakeEffects) -> Bus:
    return Bus(store, CONFIG, effects, clock)


async def coordinate(client: Client, operation: str, **fields: Any) -> dict[str, Any]:
    answer = await supervise(client, "COORDINATE", request={"operation": operation, **fields})
    return dict(answer["result"])


def code(result: dict[str, Any]) -> str:
    return str(result["error"]["code"])


async def governed(bus: Bus, participants: str = "ann bob") -> tuple[Client, Client, Client]:
    boss, ann, bob = [await joined(bus, name) for name in ("boss", "ann", "bob")]
    body = {"resource": KEY, "controller": "boss", "participants": participants.split()}
    result = await coordinate(boss, "set_controller", **body, profile="build")
    assert (result["epoch"], result["controller"], result["profile"]) == (1, "boss", "build")
    return boss, ann, bob


async def test_a_worker_asks_its_controller_grants_and_the_worker_gives_it_back(bus: Bus) -> None:
    async with bus.running():
        boss, ann, bob = await governed(bus)
        asked = await coordinate(ann, "request", resource=KEY, reason="Build the reviewed app revision")
        assert {"requestId", "epoch", "controller", "holder", "queue", "state", "blockers"} <= asked.keys()
        assert (asked["holder"], asked["controller"], asked["ticket"]) == (None, "boss", "queued")
        second = await coordinate(bob, "request", resource=KEY)
        assert [each["agent"] for each in second["queue"]] == ["ann", "bob"]
        granted = await coordinate(boss, "grant", requestId=second["requestId"], epoch=1)
        assert (granted["holder"], granted["ticket"], granted["state"]) == ("bob", "held", "held")
        assert granted["reservations"] == [{"agent": "bob", "requestId": second["requestId"]}]
        seen = await coordinate(ann, "status", resource=KEY)
        assert (seen["requestId"], seen["queue"][0]["reason"]) == (
            asked["requestId"], "Build the reviewed app revision",
        )  # fmt: skip
        given = await coordinate(bob, "release", requestId=second["requestId"])
        assert (given["holder"], given["ticket"]) == (None, "ended")
        left = await coordinate(ann, "cancel_request", requestId=asked["requestId"])
        assert (left["queue"], left["ticket"]) == ([], "ended")
        everything = await coordinate(ann, "status")
        assert [each["resource"] for each in everything["resources"]] == [KEY]


@pytest.mark.parametrize("operation", ["release", "cancel_request"])
async def test_neither_frees_what_is_anothers_or_over_or_has_started(bus: Bus, operation: str) -> None:
    keeper = process()
    async with bus.running():
        boss, ann, bob = await governed(bus)
        asked = (await coordinate(ann, "request", resource=KEY))["requestId"]
        assert code(await coordinate(bob, operation, requestId=asked)) == "NOT_HOLDER"
        assert code(await coordinate(bob, operation, requestId="never-heard-of")) == "TARGET_ENDED"
        await coordinate(boss, "grant", requestId=asked)
        fence = bus.supervisor.world.resource(KEY).units[0].fence
        answer = await admit(ann, "l1", keeper, holds={KEY: fence}, epochs={KEY: 1}, recognised=True)
        assert answer["type"] == "ADMITTED"
        refused = await coordinate(ann, operation, requestId=asked)
        assert (code(refused), "make has been started" in refused["error"]["message"]) == ("RESOURCE_BUSY", True)
        bus.effects.end(keeper)
        await settled()
        assert code(await coordinate(ann, operation, requestId=asked)) == "TARGET_ENDED"


async def test_a_reservation_is_given_back_by_either(bus: Bus) -> None:
    async with bus.running():
        boss, ann, _ = await governed(bus)
        for operation in ("release", "cancel_request"):
            asked = (await coordinate(ann, "request", resource=KEY))["requestId"]
            await coordinate(boss, "grant", requestId=asked)
            assert (await coordinate(ann, operation, requestId=asked))["holder"] is None


async def test_who_may_not_is_refused_as_by_the_messages(bus: Bus) -> None:
    async with bus.running():
        boss, ann, _ = await governed(bus, "ann")
        eve = await joined(bus, "eve")
        assert code(await coordinate(eve, "request", resource=KEY)) == "SCOPE_DENIED"
        asked = (await coordinate(ann, "request", resource=KEY))["requestId"]
        assert code(await coordinate(ann, "grant", requestId=asked, epoch=1)) == "CAPABILITY_DENIED"
        assert code(await coordinate(boss, "grant", requestId=asked, epoch=7)) == "STALE_POLICY"
        assert code(await coordinate(boss, "grant", requestId="no-such")) == "TARGET_ENDED"
        body = {"resource": KEY, "controller": "eve", "participants": ["ann"]}
        assert code(await coordinate(ann, "set_controller", **body)) == "CAPABILITY_DENIED"
        assert code(await coordinate(boss, "set_controller", **{**body, "controller": "nobody"})) == (
            "CONTROLLER_UNAVAILABLE"
        )
        assert code(await coordinate(boss, "set_controller", **{**body, "controller": "ann"})) == "CAPABILITY_DENIED"
        assert code(await coordinate(boss, "set_controller", **{**body, "controller": ""})) == "BAD_MESSAGE"
        assert code(await coordinate(boss, "set_controller", **{**body, "controller": None})) == "BAD_MESSAGE"
        again = {**body, "controller": "boss", "epoch": 7}
        assert code(await coordinate(boss, "set_controller", **again)) == "STALE_POLICY"
        cleared = await coordinate(boss, "set_controller", resource=KEY, controller=None)
        assert (cleared["epoch"], cleared["controller"]) == (2, None)


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ({"operation": "relase"}, "did you mean 'release'?"),
        ({"operation": 7}, "one of status"),
        ({}, "one of status"),
        ({"operation": "grant", "request_id": "x"}, "did you mean 'requestId'?"),
        ({"operation": "grant", "epoch": 1}, "needs 'requestId'"),
        ({"operation": "grant", "requestId": "x", "epoch": "1"}, "must be a whole number"),
        ({"operation": "grant", "requestId": "x", "epoch": True}, "must be a whole number"),
        ({"operation": "request", "resource": ["r"]}, "must be a text"),
        ({"operation": "release"}, "a requestId, or a resource"),
        ({"operation": "set_controller", "resource": KEY, "controller": "b", "participants": "a"}, "must be a list"),
        ({"operation": "status", "resource": "a b"}, "no resource name"),
    ],
)
async def test_what_is_not_known_is_refused_with_what_is_nearest(bus: Bus, request_: dict[str, Any], why: str) -> None:
    async with bus.running():
        ann = await joined(bus, "ann")
        error = (await supervise(ann, "COORDINATE", request=request_))["result"]["error"]
        assert (error["code"], why in error["message"]) == ("BAD_MESSAGE", True), error


async def test_agents_and_status_say_who_waits_for_what_and_whether_its_controller_is_here(bus: Bus) -> None:
    async with bus.running():
        boss, ann, bob = await governed(bus)
        await coordinate(ann, "request", resource=KEY)
        await bob.post({"type": "REQUEST", "resource": KEY, "worktree": "-", "run": True})
        await settled()
        states = {each["agent"]: each["state"] for each in (await supervise(ann, "AGENTS"))["agents"]}
        assert states == {"boss": "idle", "ann": "waiting_resource", "bob": "waiting_resource"}
        (row,) = (await supervise(ann, "STATUS"))["resources"]
        assert (row["policy"]["controller"], row["policy"]["controller_presence"]) == ("boss", "unknown")
        assert (row["policy"]["participants"], row["policy"]["profile"], row["policy"]["epoch"]) == (2, "build", 1)
        assert (row["blockers"], row["reservations"]) == ([], [])
        await supervise(boss, "LEAVE")
        (row,) = (await supervise(ann, "STATUS"))["resources"]
        assert (row["policy"]["controller_gone"], row["policy"]["controller_presence"]) == (True, "gone")
        assert (await coordinate(ann, "status", resource=KEY))["controllerPresence"] == "gone"
        waiting = await supervise(ann, "WAIT", resource=KEY)
        assert (waiting["type"], "boss, its controller, is gone" in waiting["note"]) == ("QUEUED", True)


async def test_a_command_that_began_before_the_policy_is_shown_as_its_blocker(bus: Bus) -> None:
    async with bus.running():
        ann = await joined(bus, "ann")
        fence = await run_ticket(ann, "machine/other")
        await admit(ann, "l1", process(), holds={"machine/other": fence}, recognised=True)
        await governed(bus)
        result = await coordinate(ann, "status", resource=KEY)
        assert [(each["launch"], each["agent"], each["command"]) for each in result["blockers"]] == [
            ("l1", "ann", "make")
        ]
        assert msgspec.json.encode(result)


async def test_an_operation_counts_with_the_token_that_it_comes_with(store: MemoryStore, clock: VirtualClock) -> None:
    """Whoever only knows a controller's name grants nothing through it either."""
    config = parse_config('[bus]\nidentity = "token"\n', "bus.toml")
    bus = Bus(store, config, clock=clock)
    bus.supervisor.authority = Authority(lambda: config, Shelf(boss="b", ann="a"))

    async def arrived(name: str, token: str) -> Client:
        client = bus.client(name)
        client.session.proof = digest_of(token)
        assert (await supervise(client, "JOIN", agent=name))["type"] == "JOINED"
        return client

    async with bus.running():
        boss, ann = await arrived("boss", "b"), await arrived("ann", "a")
        body = {"resource": KEY, "controller": "boss", "participants": ["ann"]}
        assert code(await coordinate(ann, "set_controller", **body)) == "CAPABILITY_DENIED"
        assert (await coordinate(boss, "set_controller", **body))["epoch"] == 1
        asked = (await coordinate(ann, "request", resource=KEY))["requestId"]
        assert code(await coordinate(ann, "grant", requestId=asked)) == "CAPABILITY_DENIED"
        assert (await coordinate(boss, "grant", requestId=asked))["holder"] == "ann"
