"""Inbox folders: files in, files out. Nothing is lost, nothing is done twice, nothing outside is touched."""

import ctypes
import itertools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.folder_user import FolderUser, joined
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.playground import Bus, Follower
from tests.polling import until

_numbers = itertools.count(1)
AT_FDCWD, RENAME_EXCHANGE = -100, 2
SESSION = """
set -eu
cd "$BUS_HOME/inboxes/shelly"
wait_for() { until ls new | grep -q "$1"; do :; done; }
printf 'REQUEST machine/sh - a look, 5m\\n' > tmp/ask; mv tmp/ask out/ask
wait_for '^answer.ask'; cat new/answer.ask.*
mv new/answer.ask.* cur/
printf 'RELEASE machine/sh\\n' > tmp/done; mv tmp/done out/done
wait_for '^answer.done'; cat new/answer.done.*
"""


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with shared_bus() as bus:
        yield bus


def test_a_shell_with_cat_printf_and_mv_requests_is_granted_and_releases(bus: Bus) -> None:
    # given
    folder = bus.ok("join", "shelly", "--files").splitlines()[-1]
    # when
    done = subprocess.run(
        ["sh", "-c", SESSION], env=bus.environment, capture_output=True, text=True, check=True, timeout=60
    )
    # then
    assert folder == f"folder: {bus.home}/inboxes/shelly"
    said = [json.loads(line)["text"] for line in done.stdout.splitlines()]
    assert said[0].startswith("GRANTED machine/sh (fence ")
    assert said[1] == "RELEASED machine/sh"


def test_a_queued_one_finds_granted_in_new_and_acks_it_by_moving_it(bus: Bus) -> None:
    # given
    bus.ok("request", "machine/turn", agent="turn-a")
    waiter = joined(bus, "turn-b")
    follow = Follower(bus)
    waiter.post("REQUEST machine/turn - my turn\n", "ask")
    assert waiter.answer("ask")["text"].startswith("QUEUED machine/turn position 1")
    # when
    bus.ok("release", "machine/turn", agent="turn-a")
    letter = waiter.letter("GRANTED")
    said = json.loads(letter.read_text())
    # then
    assert letter.name == f"{said['body']['fence']:010d}.GRANTED.json"
    assert follow.until("delivered", agent="turn-b")["ids"] == [said["id"]]
    # when
    letter.rename(waiter.folder / "cur" / letter.name)
    # then
    assert follow.until("acked", agent="turn-b")["ids"] == [said["id"]]
    assert json.loads(bus.ok("receipt", said["id"], "--json"))["state"] == "acked"


def test_what_a_command_has_read_lies_in_cur_and_what_no_longer_holds_goes(bus: Bus) -> None:
    # given
    reader = joined(bus, "reader")
    bus.ok("send", "reader", "hi", agent="writer")
    letter = reader.letter("TEXT")
    # when
    bus.ok("inbox", agent="reader")
    # then
    assert reader.find("cur", letter.name).exists()
    reader.gone(letter)
    # given
    bus.ok("request", "machine/away", agent="away-a")
    reader.post("REQUEST machine/away -\n", "ask")
    reader.answer("ask")
    bus.ok("release", "machine/away", agent="away-a")
    granted = reader.letter("GRANTED")
    # when
    reader.post("RELEASE machine/away\n", "done")
    # then
    reader.gone(granted)


def test_a_letter_that_is_removed_is_written_again_for_only_moving_is_reading(bus: Bus) -> None:
    keeper = joined(bus, "keeper")
    bus.ok("send", "keeper", "do not lose me", agent="writer")
    letter = keeper.letter("TEXT")
    before = letter.stat().st_mtime_ns
    # when
    letter.unlink()
    # then
    again = keeper.letter("TEXT")
    assert (again.name, again.stat().st_mtime_ns > before) == (letter.name, True)


def test_posts_in_the_coordinators_folder_name_their_sender(bus: Bus) -> None:
    # given
    poster = joined(bus, "poster")
    desk = bus.home / "inboxes" / "coordinator" / "new"
    # when
    poster.post("From: poster\n\nREQUEST machine/desk -\n", "one", into=desk)
    poster.post(json.dumps({"from": "poster", "to": "poster", "message": "note"}), "three", into=desk)
    poster.post("From: nobody-yet\nTo: poster\n\nhello\n", "four", into=desk)
    # then
    assert poster.answer("one")["body"]["type"] == "GRANTED"
    poster.post("STATUS machine/desk\n", "poster--two", into=desk)
    assert poster.answer("poster--two")["text"].startswith("machine/desk held, poster")
    assert poster.answer("three")["body"]["type"] == "SENT"
    assert FolderUser(bus, "nobody-yet").answer("four")["body"]["type"] == "SENT"  # it has a folder now


def test_a_file_only_says_whose_it_is_and_carries_no_grant_and_nobody_elses_word(bus: Bus) -> None:
    # given
    claimer = joined(bus, "claimer")
    # when
    claimer.post("From: claimer\n\nGRANT 0197-x\n", "g", into=bus.home / "inboxes" / "coordinator" / "new")
    claimer.post("From: somebody\n\nSTATUS\n", "f")
    # then
    assert claimer.answer("g")["body"]["code"] == "CAPABILITY_DENIED"
    assert claimer.answer("f")["body"]["code"] == "CAPABILITY_DENIED"
    assert (claimer.folder / "rejected" / "f.why").read_text().startswith("what is posted in claimer's folder")


def test_written_in_place_it_counts_when_it_rests_with_a_newline_and_not_before(bus: Bus) -> None:
    # given
    slow = joined(bus, "slow")
    # when
    with open(slow.folder / "out" / "half", "w") as file:
        file.write("REQUEST machine/half")
        file.flush()
        slow.post("STATUS\n", "whole")
        slow.answer("whole")  # it has looked, and left the other alone
        assert not list((slow.folder / "new").glob("answer.half.*"))
        file.write(" - now, 5m\n")
    # then
    assert slow.answer("half")["body"]["type"] == "GRANTED"


def plant_fifo(path: Path) -> None:
    os.mkfifo(path)


def plant_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as planted:
        here = os.open(path.parent, os.O_RDONLY)
        try:
            planted.bind(f"/proc/self/fd/{here}/{path.name}")
        finally:
            os.close(here)


def plant_device(path: Path) -> None:
    try:
        os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero: who reads it never comes to an end
    except PermissionError:
        pytest.skip("only root makes a device")


def plant_hard_link(path: Path) -> None:
    outside = path.parents[4] / f"linked-{path.parent.name}"
    outside.write_text("REQUEST machine/stolen -\n")
    os.link(outside, path)


def plant_huge(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(1 << 40)


def plant_binary(path: Path) -> None:
    beside = path.parent.parent / "tmp" / path.name
    beside.write_bytes(bytes(range(256)) * 8)
    beside.rename(path)


@pytest.mark.parametrize("where", ["out", "coordinator"])
@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (plant_fifo, "a FIFO"),
        (plant_socket, "a socket"),
        (plant_device, "a device"),
        (lambda path: path.mkdir(), "a directory"),
        (lambda path: path.symlink_to("/etc/passwd"), "a symbolic link"),
        (lambda path: path.symlink_to("nowhere"), "a symbolic link"),
        (plant_hard_link, "2 names"),
        (plant_huge, "at most 1048576"),
        (plant_binary, "not UTF-8"),
    ],
    ids=["fifo", "socket", "device", "directory", "link", "dangling", "hard link", "huge", "binary"],
)  # fmt: skip
def test_what_is_no_readable_file_is_put_aside_with_why_and_its_sender_is_told(
    bus: Bus,
    where: str,
    plant: Callable[[Path], object],
    says: str,
) -> None:
    # given
    name = f"odd{next(_numbers)}"
    odd = joined(bus, name)
    desk = bus.home / "inboxes" / "coordinator"
    path = odd.folder / "out" / "it" if where == "out" else desk / "new" / f"{name}--it"
    # when
    plant(path)
    # then
    told = odd.answer(path.name)["body"]
    assert told["type"] == "REFUSED"
    assert says in told["why"]
    rejected = (odd.folder if where == "out" else desk) / "rejected"
    assert (rejected / f"{path.name}.why").read_text() == told["why"] + "\n"
    assert os.path.lexists(rejected / path.name)
    assert not os.path.lexists(path)
    # and: nobody else suffers
    odd.post("STATUS\n", "well")
    assert odd.answer("well")["body"]["type"] == "TEXT"


def test_an_unknown_verb_is_no_message_either(bus: Bus) -> None:
    typo = joined(bus, "typo")
    typo.post("REQEST machine/x\n", "t")
    told = typo.answer("t")["body"]
    assert told["code"] == "BAD_MESSAGE"
    assert typo.find("rejected", "t.why").read_text() == told["why"] + "\n"
    assert (typo.folder / "rejected" / "t").read_text() == "REQEST machine/x\n"


def test_a_folder_that_is_removed_is_made_again_with_what_is_unread(bus: Bus) -> None:
    # given
    homeless = joined(bus, "homeless")
    bus.ok("send", "homeless", "still here?", agent="writer")
    letter = homeless.letter("TEXT")
    # when
    moved = homeless.folder.rename(bus.folder / "moved-away")
    # then
    assert homeless.letter("TEXT").name == letter.name
    until((homeless.folder / "out").is_dir)
    homeless.post("STATUS\n", "s")
    assert homeless.answer("s")["body"]["type"] == "TEXT"
    assert (moved / "new" / letter.name).exists()


def exchange(one: Path, other: Path) -> None:
    """Let two paths change places in one step: a folder that is missing in between is made anew by the bus."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE):
        raise OSError(ctypes.get_errno(), "renameat2", str(one))


@pytest.mark.skipif(sys.platform != "linux", reason="two paths change places in one step on Linux only")
@pytest.mark.parametrize("part", ["", "new", "out", "relay"])
def test_a_folder_swapped_for_a_link_leads_nowhere_and_works_again_once_it_is_put_back(bus: Bus, part: str) -> None:
    # given
    name = f"swapped-{part or 'all'}"
    swapped = joined(bus, name)
    swapped.post("STATUS\n", "before")
    swapped.answer("before")
    outside = bus.folder / f"outside-{part or 'all'}"
    for each in ("new", "cur", "tmp", "out", "rejected", "relay"):
        (outside / each).mkdir(parents=True)
    (outside / "x").write_text("STATUS\n")
    (outside / "out" / "x").write_text("STATUS\n")
    place = swapped.folder / part if part else swapped.folder
    aside = bus.folder / f"aside-{part or 'all'}"
    aside.symlink_to(outside)
    before = sorted(str(each) for each in outside.rglob("*"))
    # when
    exchange(place, aside)
    bus.ok("send", name, "for you", agent="writer")
    log = bus.home / "log" / "supervisor.log"
    until(lambda: f"inboxes/{name}" in log.read_text() or part == "out")
    bus.ok("status")
    # then
    assert sorted(str(each) for each in outside.rglob("*")) == before
    assert log.read_text().count(f'inboxes/{name}"') <= 1
    # when
    exchange(place, aside)
    # then
    assert json.loads(swapped.letter("TEXT").read_text())["text"] == "for you"
    swapped.post("STATUS\n", "after")
    assert swapped.answer("after")["body"]["type"] == "TEXT"


def test_many_files_at_once_are_all_taken_in_and_nobody_else_waits_for_them(bus: Bus) -> None:
    # given
    flood, other = joined(bus, "flood"), joined(bus, "other")
    desk = bus.home / "inboxes" / "coordinator" / "new"
    joined(bus, "bucket")
    follow = Follower(bus)
    # when
    for number in range(300):  # more than a burst to one agent, and half of them to another
        to = "bucket" if number % 2 else "other"
        flood.post(f"From: flood\nTo: {to}\n\nnumber {number}\n", f"f{number:04d}", into=desk)
    other.post("STATUS\n", "quick")
    # then
    assert other.answer("quick")["body"]["type"] == "TEXT"
    assert follow.until("sent", where=lambda e: e["letter"]["body"]["text"] == "number 299")
    assert follow.until("sent", where=lambda e: e["letter"]["body"]["text"] == "number 298")
    numbers = [
        int(e["letter"]["body"]["text"].split()[1]) for e in follow.all("sent") if e["letter"]["from"] == "flood"
    ]
    assert [each for each in numbers if each % 2] == list(range(1, 300, 2))
    assert [each for each in numbers if not each % 2] == list(range(0, 300, 2))


def test_a_file_is_taken_in_once_however_often_the_bus_is_killed(bus: Bus) -> None:
    # given
    tough = joined(bus, "tough")
    joined(bus, "target")
    # when
    for number in range(60):
        tough.post(f"To: target\n\nn{number}\n", f"t{number:02d}")
        if number % 20 == 10:
            bus.kill_supervisor()
            bus.ok("up")
    for number in range(60):
        tough.answer(f"t{number:02d}")
    # then
    with_texts = [event["letter"]["body"]["text"] for event in events(bus, "sent") if event["to"] == "target"]
    assert sorted(with_texts) == sorted(f"n{number}" for number in range(60))
    target = FolderUser(bus, "target")
    until(lambda: len(list((target.folder / "new").glob("*.TEXT.json"))) == 60)


def events(bus: Bus, kind: str) -> list[Any]:
    lines = bus.ok("tail", "--since", "0", "--type", kind, "--json").splitlines()
    return [json.loads(line) for line in lines]


def test_after_a_kill_what_is_missing_is_written_and_what_was_moved_is_read(bus: Bus) -> None:
    # given
    back = joined(bus, "back")
    for text in ("one", "two", "three"):
        bus.ok("send", "back", text, agent="writer")
    until(lambda: len(list((back.folder / "new").glob("*.TEXT.json"))) == 3)
    first, second, third = sorted((back.folder / "new").glob("*.TEXT.json"))
    follow = Follower(bus)
    # when
    bus.kill_supervisor()
    first.rename(back.folder / "cur" / first.name)
    second.unlink()
    third.write_text("")  # what a crash of the machine may leave
    bus.ok("up")
    # then
    follow.until("acked", agent="back")
    until(lambda: second.exists() and bool(third.read_text()))
    assert [json.loads(each.read_text())["text"] for each in (second, third)] == ["two", "three"]
    assert not first.exists()


def test_with_all_everybody_has_a_folder() -> None:
    with shared_bus('[bus]\ninbox_files = "all"\n') as bus:
        bus.ok("join", "plain")
        bus.ok("send", "plain", "hi", agent="someone")
        assert json.loads(FolderUser(bus, "plain").letter("TEXT").read_text())["text"] == "hi"
        assert os.stat(bus.home / "inboxes" / "plain").st_mode & 0o777 == 0o700
