"""What never changes and is shared: it reads like the naive thing, and so does every older one of it."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from interlock.protocol.agents import Agent, Agents
from interlock.protocol.identity import Identity
from interlock.protocol.letters import Letter, Letters
from interlock.protocol.line import PIECE, Line
from interlock.protocol.messages import Text
from interlock.protocol.plain import from_plain, to_plain
from interlock.protocol.resource_queue import Queue
from interlock.protocol.resource_ticket import Ticket
from interlock.protocol.table import LOOSE, Table

Step = Callable[[random.Random, Any, Any], Any]


def of_table(chance: random.Random, table: Table[str, int], naive: dict[str, int]) -> Table[str, int]:
    key, value = str(chance.randrange(6 * LOOSE)), chance.randrange(1_000)
    match chance.randrange(8):
        case 0 | 1 | 2 | 3:
            naive[key] = value
            return table.put(key, value)
        case 4:
            naive.pop(key, None)
            naive[key] = value
            return table.put_last(key, value)
        case 5 | 6:
            naive.pop(key, None)
            return table.without(key)
        case _:
            for old in list(naive)[: max(0, len(naive) - 5 * LOOSE)]:
                del naive[old]
            return table.newest(5 * LOOSE)


def of_line(chance: random.Random, line: Line, naive: dict[tuple[int, str], None]) -> Line:
    number = chance.randrange(4 * PIECE) if chance.random() < 0.5 else 4 * PIECE + len(naive)
    place = (number, f"p{number}")
    grows = chance.random() < 0.7
    if place in naive and not grows:
        del naive[place]
        return line.remove(place)
    if place in naive or not grows:
        return line
    naive[place] = None
    return line.add(place)


def ticket(chance: random.Random) -> Ticket:
    arrival = chance.randrange(200)
    return Ticket(f"t{arrival}", f"a{arrival % 7}", 1, arrival, "-", "", "r", 0, absent=chance.random() < 0.4)


def of_queue(chance: random.Random, queue: Queue, naive: dict[str, Ticket]) -> Queue:
    one = ticket(chance)
    if one.request_id not in naive:
        naive[one.request_id] = one
        return queue.add(one)
    if chance.random() < 0.5:
        naive[one.request_id] = one
        return queue.replace(one)
    del naive[one.request_id]
    return queue.remove(one.request_id)


def of_agents(chance: random.Random, agents: Agents, naive: dict[str, Agent]) -> Agents:
    name = f"A{chance.randrange(60)}"
    if name in naive and chance.random() < 0.3:
        del naive[name]
        return agents.without(name)
    process = Identity("m", "b", 1, chance.randrange(9), 1) if chance.random() < 0.7 else None
    worktree = chance.choice(("", "/one", "/two"))
    one = Agent(name, 1, chance.randrange(9), process, worktree=worktree, gone=chance.random() < 0.4)
    naive[name] = one
    return agents.put(one)


def of_letters(chance: random.Random, letters: Letters, naive: dict[str, Letter]) -> Letters:
    id_ = str(chance.randrange(60))
    if id_ in naive and chance.random() < 0.8:  # else it is written anew, perhaps into another slot
        del naive[id_]
        return letters.without(id_)
    one = Letter(id_, "bob", 1, Text("x"), chance.choice(("", "", "s1", "s2", "s3")))
    for old in [each.id for each in naive.values() if one.slot and each.slot == one.slot and each.id != id_]:
        del naive[old]
    naive[id_] = one
    return letters.put(one)


def looks_like_table(table: Table[str, int], naive: dict[str, int]) -> None:
    assert [*table.items()] == [*naive.items()]
    assert [*table] == [*table.keys()] == [*naive]
    assert [*table.values()] == [*naive.values()]
    assert (len(table), bool(table), table, table.as_dict()) == (len(naive), bool(naive), Table(naive), naive)
    for key in map(str, range(6 * LOOSE)):
        assert (key in table, table.get(key), table.get(key, "no")) == (
            key in naive,
            naive.get(key),
            naive.get(key, "no"),
        )


def looks_like_line(line: Line, naive: dict[tuple[int, str], None]) -> None:
    places = sorted(naive)
    assert [*line] == [name for _, name in places]
    assert line.first() == (places[0][1] if places else "")
    assert [line.index(place) for place in places] == [*range(len(places))]
    assert all(0 < len(piece) <= PIECE for piece in line._pieces)


def looks_like_queue(queue: Queue, naive: dict[str, Ticket]) -> None:
    tickets = sorted(naive.values(), key=lambda each: each.arrival)
    assert [*queue.values()] == tickets
    assert [*queue] == [each.request_id for each in tickets]
    assert queue == Queue(naive.values())
    assert queue.first_present() == next((each for each in tickets if not each.absent), None)
    assert (queue.first(), len(queue)) == (tickets[0].request_id if tickets else "", len(tickets))
    assert [queue.ahead_of(each.request_id) for each in tickets] == [*range(len(tickets))]
    for agent in [f"a{n}" for n in range(7)]:
        assert sorted(queue.of(agent)) == sorted(each.request_id for each in tickets if each.agent == agent)


def looks_like_agents(agents: Agents, naive: dict[str, Agent]) -> None:
    here = [each for each in naive.values() if not each.gone]
    gone = sorted((each.joined_ms, each.name) for each in naive.values() if each.gone)
    assert [*agents.values()] == [*naive.values()]
    assert agents == Agents(naive.values())
    assert (len(agents), agents.gone_count) == (len(naive), len(gone))
    assert agents.longest_gone() == (gone[0][1] if gone else "")
    for pid in range(9):
        process = Identity("m", "b", 1, pid, 1)
        assert named(agents.of_process(process)) == named([each for each in here if each.process == process])
    for worktree in ("/one", "/two"):
        assert named(agents.in_worktree(worktree)) == named([each for each in here if each.worktree == worktree])
    for number in range(60):
        assert agents.spelled(f"a{number}") == (f"A{number}" if f"A{number}" in naive else f"a{number}")


def named(agents: list[Agent]) -> list[Agent]:
    return sorted(agents, key=lambda each: each.name)


def looks_like_letters(letters: Letters, naive: dict[str, Letter]) -> None:
    assert [*letters.values()] == [*naive.values()]
    assert letters == Letters(naive.values())
    for slot in ("s1", "s2", "s3"):
        assert letters.in_slot(slot) == next((each for each in naive.values() if each.slot == slot), None)


KINDS = [
    (Table(), of_table, looks_like_table),
    (Line(), of_line, looks_like_line),
    (Queue(), of_queue, looks_like_queue),
    (Agents(), of_agents, looks_like_agents),
    (Letters(), of_letters, looks_like_letters),
]


@pytest.mark.parametrize(("empty", "step", "looks_like"), KINDS, ids=["table", "line", "queue", "agents", "letters"])
def test_it_reads_like_the_naive_thing_and_so_does_every_older_one(empty: Any, step: Step, looks_like: Any) -> None:
    chance = random.Random(7)
    now, naive, versions = empty, dict[Any, Any](), []
    for number in range(1_200):
        now = step(chance, now, naive)
        if number % 60 == 0:
            versions.append((now, dict(naive)))
        if number % 400 == 399:  # go on from an older one: what was made of it since does not shine through
            now, naive = versions[len(versions) // 2][0], dict(versions[len(versions) // 2][1])
    for version, was in versions:
        looks_like(version, was)


@pytest.mark.parametrize(("empty", "step", "looks_like"), KINDS[2:], ids=["queue", "agents", "letters"])
def test_a_snapshot_of_it_is_a_plain_dictionary_and_reads_back(empty: Any, step: Step, looks_like: Any) -> None:
    chance, now, naive = random.Random(3), empty, dict[Any, Any]()
    for _ in range(100):
        now = step(chance, now, naive)
    back = from_plain(type(now), to_plain(now))
    assert back == now
    looks_like(back, {key: naive[key] for key in to_plain(now)})


def test_what_nobody_here_made_is_no_part_of_a_snapshot() -> None:
    with pytest.raises(NotImplementedError, match="object"):
        to_plain(object())
    with pytest.raises(NotImplementedError, match="object"):
        from_plain(object, {})
