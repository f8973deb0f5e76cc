"""The database lost in every way that happens: one sentence, a way on that works as it is said, never a second holder.

The sentence is followed to the letter: what stands in it is what the test types.
"""

import os
import re
import shutil
import signal
from pathlib import Path

import pytest
from tests.end_to_end.conftest import Home
from tests.end_to_end.playground import Bus, Client, Done, Repository, ends, fetch, server_config
from tests.polling import until


def recover(bus: Bus, key: str) -> str:
    """A person has looked and confirms; the type of the answer."""
    with Client(bus) as person:
        evidence = person.ask("supervisor", body={"type": "RECOVER", "resource": key})
        answer = person.ask("supervisor", body={"type": "RECOVER", "resource": key, "code": evidence["code"]})
        return str(answer["type"])


def deleted(home: Path) -> None:
    for name in ("bus.db", "bus.db-wal"):
        (home / name).unlink(missing_ok=True)


def log_left(home: Path) -> None:
    (home / "bus.db").unlink()


def emptied(home: Path) -> None:
    os.truncate(home / "bus.db", 0)


def garbage(home: Path) -> None:
    (home / "bus.db").write_bytes(b"no database at all, whatever it is called " * 300)


def cut_short(home: Path) -> None:
    os.truncate(home / "bus.db", 300)


def cut_in_half(home: Path) -> None:
    (home / "bus.db-wal").unlink(missing_ok=True)
    os.truncate(home / "bus.db", 6_000)


def a_folder(home: Path) -> None:
    deleted(home)
    (home / "bus.db").mkdir()


def a_link(home: Path) -> None:
    os.rename(home / "bus.db", home.parent / "elsewhere.db")
    (home / "bus.db").symlink_to(home.parent / "elsewhere.db")


def without_its_log(home: Path) -> None:
    (home / "bus.db-wal").unlink()


def last_weeks(home: Path) -> None:
    deleted(home)
    shutil.copy(home.parent / "last-week.db", home / "bus.db")


def another_bus(home: Path) -> None:
    """A database that is whole, and not the one that the state files belong to: that of before the last loss."""
    last_weeks(home)


REFUSED = [
    last_weeks, log_left, emptied, garbage, cut_short, cut_in_half, a_folder, a_link, another_bus,
]  # fmt: skip


@pytest.mark.slow
def test_never_a_second_holder_and_never_a_fence_again_however_the_database_is_lost(bus: Bus, home: Home) -> None:
    home.write('[resources.gpu]\nunits = ["0", "1"]\n')
    bus.ok("request", "machine/first", agent="A")
    bus.ok("down")
    shutil.copy(bus.home / "bus.db", bus.folder / "last-week.db")
    bus.ok("up")
    fence = 0
    for number, harm in enumerate([*REFUSED, without_its_log, deleted]):
        # given
        key, said = f"machine/{harm.__name__}", harm.__name__
        granted = [bus.tell("A", f"REQUEST {name} - it") for name in (key, "gpu") if number == 0 or name == key]
        assert all(each["fence"] > fence for each in granted), said
        fence = max(each["fence"] for each in granted)
        bus.kill_supervisor()
        # when
        harm(bus.home)
        came = bus("up")
        if harm in REFUSED:
            assert came.code in {73, 74}, f"{said}: {came}"
            assert (len(came.err.splitlines()), "Traceback" in came.err) == (1, False), came
            came = follow_to_the_letter(bus, came.err)
        # then: it is up, says what happened, and gives nothing away
        assert came.code == 0, f"{said}: {came}"
        assert "before a person has looked: bus recover" in came.err, said
        for name in ("machine/first", key, "gpu"):
            assert bus.tell("B", f"REQUEST {name} - x")["state"] == "recovery_required", f"{said}: {name}"
        assert {each["state"] for each in bus.status("gpu")["units"]} == {"recovery_required"}, said
        # when
        assert recover(bus, key) == "RELEASED", said
        # then
        with Client(bus, "B") as waiter:
            after = waiter.ask("supervisor", body={"type": "WAIT", "resource": key})
        assert (after["type"], after["fence"] > fence) == ("GRANTED", True), f"{said}: {after}"
        fence = after["fence"]


def follow_to_the_letter(bus: Bus, sentence: str) -> Done:
    """Type what the sentence says; a link is taken away first, as it says too."""
    if "put the file itself there" in sentence:
        os.replace(os.path.realpath(bus.home / "bus.db"), bus.home / "bus.db")
        return bus("up", "--recover")
    [way_on] = re.findall(r"bus (up --recover)", sentence)
    return bus(*way_on.split())


def test_a_server_that_outlived_the_database_is_handed_over_with_proof(
    bus: Bus, home: Home, port: int, repository: Repository
) -> None:
    # given
    home.write(server_config(port))
    one, two = repository.worktrees(2)
    bus.ok("request", "server-loop", "--wait", "20s", cwd=one, agent="A")
    keeper = bus.status("server-loop")["reach"]["keeper_pid"]
    state = bus.home / "shared-resources" / "server-loop.md"
    until(lambda: "server runs from" in state.read_text(), state.read_text)
    bus.kill_supervisor()
    deleted(bus.home)
    # when
    bus.ok("up")
    bus("request", "server-loop", cwd=two, agent="B")
    status = bus.status("server-loop")
    # then
    assert status["state"] == "recovery_required"
    assert f"its server still runs from {os.path.realpath(one)} (keeper pid {keeper})" in status["why"]
    assert fetch(port) == repository.page(one)
    assert recover(bus, "server-loop") == "RELEASED"
    bus.ok("wait", "server-loop", "--timeout", "20s", agent="B")
    assert fetch(port) == repository.page(two)
    assert ends(keeper)


def test_a_command_that_outlived_the_database_must_end_first(bus: Bus) -> None:
    # given
    run = bus.start("run", "--resource", "machine/board", "--", "sh", "-c", "echo begun; sleep 600", agent="A")
    run.out.until("begun")
    bus.kill_supervisor()
    deleted(bus.home)
    # when
    bus.ok("up")
    # then
    assert "still runs (keeper pid" in bus.status("machine/board")["why"]
    assert recover(bus, "machine/board") == "REFUSED"
    assert bus.status("machine/board")["state"] == "recovery_required"
    # when
    run.kill(signal.SIGTERM)
    run.end()
    # then
    assert recover(bus, "machine/board") == "RELEASED"


def test_a_database_deleted_under_a_running_bus_is_noticed_by_the_next_command(bus: Bus) -> None:
    bus.ok("request", "machine/x", agent="A")
    pid = bus.supervisor()
    deleted(bus.home)
    seen = bus("request", "machine/x", agent="B")
    assert seen.code == 75
    assert "the database was lost (bus.db was gone or empty)" in seen.err
    assert bus.supervisor() != pid


def test_a_backup_brings_messages_back_and_grants_nothing(bus: Bus) -> None:
    # given
    bus.ok("join", "B")
    bus.ok("request", "machine/x", agent="A")
    bus.ok("send", "B", "remember the milk", agent="A")
    copy = bus.folder / "copy.db"
    made = bus("--json", "backup", str(copy)).json
    assert (made["path"], copy.stat().st_mode & 0o777, made["bytes"]) == (str(copy), 0o600, copy.stat().st_size)
    assert bus("backup", str(copy)).code == 73
    fence = int(re.findall(r"fence (\d+)", bus.ok("request", "machine/later", agent="A"))[0])
    bus.kill_supervisor()
    # when
    deleted(bus.home)
    shutil.copy(copy, bus.home / "bus.db")
    came = bus("up")
    # then
    assert "bus.db is a backup made at" in came.err
    assert "remember the milk" in bus.ok("inbox", agent="B")
    for name in ("machine/x", "machine/later"):
        assert bus.tell("C", f"REQUEST {name} - x")["state"] == "recovery_required"
    assert recover(bus, "machine/later") == "RELEASED"
    assert int(re.findall(r"fence (\d+)", bus.ok("wait", "machine/later", agent="C"))[0]) > fence
    bus.ok("down")
    assert bus("up").err == "", "it is told once"


def test_a_database_in_use_is_not_set_aside(bus: Bus) -> None:
    bus.ok("up")
    refused = bus("up", "--recover")
    assert (refused.code, "bus down, then bus up --recover" in refused.err) == (75, True)
    bus.ok("request", "machine/x", agent="A")
    bus.ok("down")
    done = bus("--json", "up", "--recover").json
    assert Path(done["set_aside"]).exists()
    assert "machine/x" in done["recovery"]
