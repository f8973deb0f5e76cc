"""Tasks through the supervisor: what the door finds out, what others' ends mean for them, what a restart keeps."""

import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.coordinator.bus import Bus, Client, FakeCaller, FakeEffects, process, replayed, settled
from tests.coordinator.memory_store import MemoryStore
from tests.coordinator.territories import plain_repositories

from interlock.coordinator.ground import NoFile, NoGround
from interlock.coordinator.world import World
from interlock.protocol.task_state import FileFact, Task, TaskState

pytestmark = pytest.mark.anyio
GPU = "machine/gpu"


class FakeGround(NoGround):
    """A disk that is what it says here: path → content."""

    def __init__(self) -> None:
        self.content = {"report.md": "one"}

    async def files(self, top: str, base: str, names: Sequence[str], *, within: bool = False) -> tuple[FileFact, ...]:
        for name in names:
            if within and name.startswith("/"):
                raise NoFile(f"{name} is outside of the worktree")
            if name not in self.content:
                raise NoFile(f"{name} does not exist: report what is there")
        return tuple(self._fact(name) for name in names)

    async def look(self, top: str, paths: Sequence[str]) -> tuple[FileFact, ...]:
        return tuple(self._fact(path) for path in paths)

    def _fact(self, path: str) -> FileFact:
        content = self.content.get(path)
        return FileFact(path, hashlib.sha256(content.encode()).hexdigest() if content is not None else "")


class Case:
    """A bus with a lead who has assigned T-1 to ann, and with bob and cyd beside."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.lead, self.ann, self.bob, self.cyd = (bus.client(name) for name in ("lead", "ann", "bob", "cyd"))

    @property
    def task(self) -> Task:
        return self.bus.supervisor.world.tasks["task/T-1"]

    async def assign(self, **more: Any) -> dict[str, Any]:
        for each in (self.ann, self.bob, self.cyd):
            await each.ask("STATUS")  # so that they are known
        body = {"type": "ASSIGN", "task": "T-1", "agent": "ann", "objective": "headings", "worktree": "/r1/w"}
        return await self.lead.ask({**body, "changes": ["report.md"], "resources": [GPU], **more})


@asynccontextmanager
async def running(store: MemoryStore | None = None, effects: FakeEffects | None = None) -> AsyncIterator[Case]:
    bus = Bus(store=store, effects=effects, repositories=plain_repositories(), ground=FakeGround())
    async with bus.running():
        yield Case(bus)


def report(**more: Any) -> dict[str, Any]:
    return {"type": "REPORT", "task": "T-1", "files": ["report.md"], "worktree": "/r1/w", **more}


async def admit(client: Client, launch: str, **more: Any) -> dict[str, Any]:
    keeper = process()
    body = {"type": "ADMIT", "launch": launch, "keeper": keeper, "command": "pytest", "digest": "d", **more}
    return {**await client.ask(body, to="supervisor"), "keeper": keeper}


async def test_an_acked_assignment_is_read_and_nothing_more() -> None:
    async with running() as case:
        assert (await case.assign())["state"] == "assigned"
        [letter] = case.bus.supervisor.world.inbox("ann").unread.values()
        await case.bob.ask({"type": "ACK", "ids": [letter.id]}, to="supervisor")  # it is none of his
        await settled()
        assert case.task.state is TaskState.ASSIGNED
        await case.ann.ask({"type": "ACK", "ids": [letter.id]}, to="supervisor")
        await settled()
        assert (case.task.state, case.task.began_ms) == (TaskState.READ, 0)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"agent": "nobody"}, "UNKNOWN_TARGET"),
        ({"acceptor": "nobody"}, "UNKNOWN_TARGET"),
        ({"worktree": "/elsewhere"}, "BAD_MESSAGE"),
        ({"resources": ["undeclared"]}, "UNKNOWN_RESOURCE"),
        ({"base": "HEAD"}, "BAD_MESSAGE"),
        ({"task": "../x"}, "BAD_MESSAGE"),
        ({"objective": ""}, "BAD_MESSAGE"),
        ({"changes": ["a\0b"]}, "BAD_MESSAGE"),
    ],
)
async def test_an_assignment_of_what_there_is_not_is_refused(said: dict[str, Any], code: str) -> None:
    async with running() as case:
        assert (await case.assign(**said))["code"] == code
        assert not case.bus.supervisor.world.tasks


async def test_a_name_nobody_has_is_said_short_and_visible() -> None:
    async with running() as case:
        name = "\u202e" + "x" * 5_000
        refusals = [
            await case.assign(agent=name),
            await case.lead.ask({"type": "any"}, to=name),  # by the router
        ]
        for each in refusals:
            assert "ever joined" in each["why"]
            assert each["why"].isprintable()
            assert len(each["why"]) < 200


async def test_reservations_for_it_are_on_its_record_from_their_grant_to_their_end() -> None:
    async with running() as case:
        await case.assign()
        granted = await case.ann.ask({"type": "REQUEST", "resource": GPU, "task": "T-1"})
        lease = await case.ann.ask({"type": "LEASE", "claims": ["report.md"], "worktree": "/r1/w", "task": "T-1"})
        await settled()
        assert case.task.state is TaskState.WORKING
        assert [each.fence for each in case.task.held()] == [granted["fence"], lease["fence"]]
        assert (await case.ann.ask(report(released=True)))["code"] == "RESOURCE_BUSY"
        await case.ann.ask(f"HANDOVER {GPU} bob")
        await case.ann.ask(f"TRANSFER {lease['lease']} cyd")
        await settled()
        assert [each.handed_to for each in case.task.reserved.values()] == ["bob", "cyd"]
        assert (await case.ann.ask(report(handed_to="cyd")))["state"] == "reported"
        bobs = case.bus.supervisor.world.resource(GPU).units[0].ticket
        assert bobs is not None
        assert (bobs.agent, bobs.task) == ("bob", "")


async def test_what_is_outside_of_its_scope_is_refused_with_the_scope() -> None:
    async with running() as case:
        await case.assign()
        other = await case.ann.ask({"type": "REQUEST", "resource": "machine/db", "task": "T-1"})
        assert (other["code"], "lets you reserve machine/gpu" in other["why"]) == ("SCOPE_DENIED", True)
        lease = {"type": "LEASE", "claims": ["src"], "worktree": "/r1/w", "task": "T-1"}
        wide = await case.ann.ask(lease)
        assert (wide["code"], "lets you change report.md" in wide["why"]) == ("SCOPE_DENIED", True)
        assert (await case.bob.ask({"type": "REQUEST", "resource": GPU, "task": "T-1"}))["code"] == "SCOPE_DENIED"
        assert (await case.ann.ask({"type": "REQUEST", "resource": GPU, "task": "T-2"}))["code"] == "TARGET_ENDED"
        assert (await case.ann.ask({"type": "REQUEST", "resource": GPU, "task": "../x"}))["code"] == "BAD_MESSAGE"
        assert (await admit(case.bob, "run-b", task="T-1"))["code"] == "SCOPE_DENIED"
        world = case.bus.supervisor.world
        assert not case.task.reserved
        assert all(unit.ticket is None for each in world.resources.values() for unit in each.units)
        await case.ann.ask({"type": "REQUEST", "resource": GPU})
        assert (await case.ann.ask({"type": "REQUEST", "resource": GPU, "task": "T-1"}))["code"] == "RESOURCE_BUSY"


async def test_a_report_names_what_the_bus_has_seen() -> None:
    async with running() as case:
        await case.assign()
        assert (await case.ann.ask(report(files=["report.md", "none.md"])))["code"] == "BAD_MESSAGE"
        for client, launch in ((case.ann, "run-a"), (case.bob, "run-b")):
            admitted = await admit(client, launch)
            assert admitted["type"] == "ADMITTED"
            if launch == "run-a":
                assert (await client.ask(report(launches=["run-a"])))["code"] == "RESOURCE_BUSY"
            case.bus.effects.end(admitted["keeper"])
            await settled()
        assert (await case.ann.ask(report(launches=["run-b"])))["code"] == "NOT_HOLDER"
        assert (await case.ann.ask(report(launches=["run-none"])))["code"] == "TARGET_ENDED"
        assert (await case.ann.ask(report(launches=["run-a"], gaps=["figures"])))["state"] == "reported"
        assert case.task.report is not None
        assert [(each.launch, each.command, each.code) for each in case.task.report.launches] == [
            ("run-a", "pytest", 0)
        ]
        assert case.task.report.files[0].sha256 == hashlib.sha256(b"one").hexdigest()
        assert (await case.bob.ask(report()))["code"] == "SCOPE_DENIED"


async def test_acceptance_reads_the_files_again() -> None:
    async with running() as case:
        await case.assign()
        await case.ann.ask(report())
        ground = case.bus.desk.tasks._ground
        assert isinstance(ground, FakeGround)
        ground.content["report.md"] = "two"
        refused = await case.cyd.ask("ACCEPT T-1 - fine")
        assert (refused["code"], "report.md was" in refused["why"]) == ("CHANGED_SINCE", True)
        [seen] = [await case.cyd.ask({"type": "TASK_RECORD", "task": "T-1", "look": True}, to="supervisor")]
        assert [each["now"] for each in seen["task"]["report"]["files"]] == ["changed"]
        assert (await case.cyd.ask("ACCEPT T-1 despite - fine"))["state"] == "accepted"
        assert case.task.judgements[0].despite


async def test_the_same_message_again_does_nothing_twice() -> None:
    async with running() as case:
        await case.assign()
        await case.ann.ask(report(), "m-1")
        await case.ann.ask(report(), "m-1")
        assert case.task.report is not None
        assert case.task.report.number == 1
        await case.cyd.ask("ACCEPT T-1", "m-2")
        assert (await case.cyd.ask("ACCEPT T-1", "m-2"))["state"] == "accepted"
        assert (await case.cyd.ask("ACCEPT T-1", "m-3"))["code"] == "TARGET_ENDED"


async def test_a_folder_reports_only_what_lies_in_its_worktree() -> None:
    async with running() as case:
        await case.assign()
        ground = case.bus.desk.tasks._ground
        assert isinstance(ground, FakeGround)
        ground.content["/etc/secret"] = "x"
        case.ann.session.claimed = True
        assert (await case.ann.ask(report(files=["/etc/secret"])))["code"] == "BAD_MESSAGE"
        assert (await case.ann.ask(report(worktree="/r2/w")))["code"] == "SCOPE_DENIED"
        assert (await case.ann.ask(report()))["state"] == "reported"
        case.ann.session.claimed = False
        answer = await case.ann.ask(report(files=["/etc/secret"]))
        assert answer["note"].endswith("marked so: /etc/secret")


async def test_what_came_to_an_end_while_the_bus_was_down_is_on_record_after_it() -> None:
    """Each of the words between actors is lost here, as a crash just before it would lose it."""
    store, effects = MemoryStore(), FakeEffects()
    async with running(store) as case:
        await case.assign()
        case.bus.supervisor.bookings._tell = lambda task, command: None  # type: ignore[method-assign] # all are lost
        [letter] = case.bus.supervisor.world.inbox("ann").unread.values()
        await case.ann.ask({"type": "ACK", "ids": [letter.id]}, to="supervisor")
        await case.ann.ask({"type": "REQUEST", "resource": GPU, "task": "T-1"})
        admitted = await admit(case.ann, "run-a", task="T-1")
        await settled()
        assert case.task.state is TaskState.ASSIGNED
    async with running(store, effects) as case:
        await settled()
        assert case.task.read_ms
        assert [each.what for each in case.task.held()] == [GPU]
        assert case.task.launches["run-a"].over_ms == 0
        case.bus.supervisor.bookings._tell = lambda task, command: None  # type: ignore[method-assign] # all are lost
        assert (await case.bob.ask(f"REQUEST {GPU} - next"))["type"] == "QUEUED"
        await case.ann.ask(f"HANDOVER {GPU} bob")
        lease = {"type": "LEASE", "claims": ["report.md"], "worktree": "/r1/w", "task": "T-1"}
        taken = await case.ann.ask(lease)
        await case.ann.ask(f"RETURN {taken['lease']}")
        moved = await case.ann.ask(lease)
        await case.ann.ask(f"TRANSFER {moved['lease']} cyd")
        effects.end(admitted["keeper"])
        await settled()
        assert case.task.held()
        assert len(case.task.reserved) == 1
    async with running(store) as case:
        await settled()
        assert not case.task.held()
        ends = [(each.what, each.handed_to, each.how) for each in case.task.reserved.values()]
        assert ends == [
            (GPU, "bob", "handed over to bob"),
            ("report.md", "", "released: returned"),
            ("report.md", "cyd", "handed over by ann"),
        ]
        assert not case.bus.supervisor.world.bookings
        assert (await case.ann.ask(report(handed_to="bob")))["state"] == "reported"
        assert (case.task.launches["run-a"].code, bool(case.task.launches["run-a"].over_ms)) == (0, True)
        world: World = case.bus.supervisor.world
        assert (await replayed(store)).tasks == world.tasks


async def test_its_end_asks_for_what_is_held_and_a_grant_that_crosses_it_is_asked_back() -> None:
    async with running() as case:
        await case.assign()
        rival = await case.bob.ask({"type": "REQUEST", "resource": GPU})
        assert (await case.ann.ask({"type": "REQUEST", "resource": GPU, "task": "T-1"}))["type"] == "QUEUED"
        await case.lead.ask("WITHDRAW T-1 - not needed")
        await case.bob.ask(f"RELEASE {GPU} fence={rival['fence']}")
        await settled()
        letters = [each.body for each in case.bus.supervisor.world.inbox("ann").unread.values()]
        assert [each.held for each in letters if getattr(each, "task", "") == "T-1"] == [(GPU,)]  # type: ignore[union-attr] # TASK
        await case.ann.ask(f"RELEASE {GPU}")
        await settled()
        assert not case.task.held()
        assert "task/T-1" in case.bus.supervisor.world.tasks_over


async def test_of_several_each_is_on_its_record_and_what_is_waited_for_is_no_released() -> None:
    async with running() as case:
        await case.assign(resources=())
        assert (await case.bob.ask("REQUEST machine/b - x"))["type"] == "GRANTED"
        asked = {"type": "REQUEST", "resources": ["machine/a", "machine/b"], "task": "T-1"}
        assert (await case.ann.ask(asked))["type"] == "QUEUED"
        waits = await case.ann.ask(report(released=True))
        assert (waits["code"], "still wait for machine/a, machine/b" in waits["why"]) == ("RESOURCE_BUSY", True)
        await case.bob.ask("RELEASE machine/b")
        await settled()
        assert [each.what for each in case.task.held()] == ["machine/a", "machine/b"]
        assert (await case.ann.ask(report(released=True)))["code"] == "RESOURCE_BUSY"
        await case.ann.ask("RELEASE machine/a,machine/b")
        assert (await case.ann.ask(report(released=True)))["state"] == "reported"


async def test_every_view_says_who_has_several_parts() -> None:
    async with running() as case:
        await case.assign()
        await case.ann.ask(report())
        assert "not independent: ann is assignee and acceptor" in (await case.ann.ask("ACCEPT T-1"))["note"]
        rows = await case.cyd.ask({"type": "TASKS", "all": True}, to="supervisor")
        seen = await case.cyd.ask({"type": "TASK_RECORD", "task": "T-1"}, to="supervisor")
        for document in (*rows["tasks"], seen["task"]):
            assert document["not_independent"] == ["ann is assignee and acceptor"]


async def test_tasks_are_listed_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.coordinator.task_desk.TASKS_A_PAGE", 2)
    async with running() as case:
        for number in range(5):
            assert (await case.assign(task=f"T-{number}"))["state"] == "assigned"
        await case.lead.ask("WITHDRAW T-1 - not needed")
        seen, after, more = list[str](), "", True
        while more:
            page = await case.lead.ask({"type": "TASKS", "all": True, "after": after}, to="supervisor")
            seen += [row["task"] for row in page["tasks"]]
            after, more = seen[-1], page.get("more", False)
        assert seen == ["T-0", "T-2", "T-3", "T-4", "T-1"]
        mine = await case.bob.ask({"type": "TASKS", "mine": True}, to="supervisor")
        assert mine["tasks"] == []


async def test_those_that_are_over_are_forgotten_one_day_and_never_those_that_hold_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("interlock.coordinator.world.TASKS_OVER_KEPT", 2)
    monkeypatch.setattr("interlock.coordinator.tasks.TASKS_MAX", 1)
    store = MemoryStore()
    async with running(store) as case:
        await case.assign(task="T-0")
        assert (await case.assign(task="T-9"))["code"] == "QUEUE_FULL"
        await case.ann.ask({"type": "REQUEST", "resource": GPU, "task": "T-0"})
        await settled()
        await case.lead.ask("WITHDRAW T-0 - x")
        monkeypatch.setattr("interlock.coordinator.tasks.TASKS_MAX", 9)
        for number in range(1, 5):
            await case.assign(task=f"T-{number}")
            await case.lead.ask(f"WITHDRAW T-{number} - x")
        world = case.bus.supervisor.world
        assert list(world.tasks) == ["task/T-0", "task/T-3", "task/T-4"]
        again = await replayed(store)
        assert (again.tasks, list(again.tasks_over)) == (world.tasks, list(world.tasks_over))


async def test_a_person_sees_a_tasks_events_in_the_log() -> None:
    async with running() as case:
        await case.assign()
        await case.ann.ask("BEGIN T-1")
        question = {"type": "TAIL", "resource": "task/T-1"}
        id_ = await case.cyd.post(question, to="supervisor")
        await settled()
        answers = [frame["body"] for frame in case.cyd.frames if frame.get("reply_to") == id_]
        seen = [event["type"] for body in answers for event in body["events"]]
        assert seen == ["task_assigned", "task_began"]


async def test_a_programs_process_is_not_asked_for_a_task() -> None:
    """A lease that ends with its process is given back on the record too."""
    async with running() as case:
        await case.assign()
        wrapper = process()
        ann = case.bus.client("ann", FakeCaller(chain=[wrapper]))
        body = {"type": "LEASE", "claims": ["report.md"], "worktree": "/r1/w", "task": "T-1", "run": True, "wait_ms": 1}
        assert (await ann.ask(body))["type"] == "LEASED"
        await settled()
        assert len(case.task.held()) == 1
        case.bus.effects.end(wrapper)
        await settled()
        assert not case.task.held()


async def test_who_has_lost_its_memory_is_told_what_is_asked_of_it() -> None:
    async def asked(client: Client) -> list[tuple[str, str]]:
        me = await client.ask({"type": "ME"}, to="supervisor")
        return [(row["state"], row["next"].split(" T-1")[0]) for row in me["tasks"]]

    async with running() as case:
        await case.assign(acceptor="cyd")
        assert await asked(case.ann) == [("assigned", "bus task begin")]
        await case.ann.ask("BEGIN T-1")
        assert await asked(case.ann) == [("working", "bus task report")]
        assert await asked(case.cyd) == await asked(case.lead) == []
        await case.ann.ask(report())
        assert await asked(case.cyd) == [("reported", "bus task show")]
        assert await asked(case.ann) == await asked(case.lead) == []
        await case.cyd.ask("ACCEPT T-1")
        assert await asked(case.cyd) == []
