"""`bus map` of a real repository: once, piped, narrowed, live on a terminal, and over a restart of the supervisor."""

import contextlib
import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.playground import BUS, WAIT_S, Bus, Client, Repository, Running
from tests.end_to_end.terminal import Terminal, at_terminal

HOME_CURSOR, SHOW_CURSOR, OTHER_SCREEN, OWN_SCREEN = "\x1b[H", "\x1b[?25h", "\x1b[?1049h", "\x1b[?1049l"


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with shared_bus() as bus:
        yield bus


@pytest.fixture
def shop(bus: Bus, request: pytest.FixtureRequest) -> Path:
    """A repository of the test's own: its territory is nobody else's."""
    return Repository(bus, re.sub(r"\W", "", request.node.name[5:40] + request.node.name[-4:])).main


def lease(bus: Bus, shop: Path, agent: str, *words: str) -> Any:
    return bus("--json", "lease", "acquire", *words, agent=agent, cwd=shop).json


def waiting(bus: Bus, shop: Path, agent: str, *words: str) -> Running:
    """A waiter that stands in the queue."""
    waits = bus.start("lease", "acquire", *words, "--wait", "5m", agent=agent, cwd=shop)
    waits.err.until("waiting")
    return waits


@contextlib.contextmanager
def live(bus: Bus, shop: Path, **more: Any) -> Iterator[Terminal]:
    with Terminal(bus, "map", "-f", cwd=shop, **more) as terminal:
        terminal.until("Ctrl-C ends it")
        yield terminal


def steady(text: str) -> str:
    """Without what differs from run to run."""
    text = re.sub(r"\b(?:\d+m)?\d+s\b", "_", re.sub(r"\bL\d+\b", "L", text))
    return re.sub(r" {2,}", "  ", text)


def test_the_map_is_a_tree_of_who_has_what_and_who_waits(bus: Bus, shop: Path) -> None:
    # given
    (shop / "src" / "auth").mkdir(parents=True)
    whole = lease(bus, shop, "ann", "src/auth/**", "README.md:10-40", "--for", "[bold]login[/bold]\x1b[2J")
    bus.ok("join", "bob", agent="bob")
    bus.ok("lease", "split", whole["lease"], "bob", "src/auth/form.py", agent="ann", cwd=shop)
    lease(bus, shop, "cyd", "docs", "--shared")
    waiting(bus, shop, "dan", "src/auth/form.py")
    # when
    shown = bus.ok("map", cwd=shop)
    # then
    assert steady(shown).splitlines() == [
        f"{shop}: 3 leases, 1 waiting",
        "PATHS  AGENT  STATE  LEASE  FOR",
        "├── README.md:10-40  ann  since _, _ left, 1 waits  L  [bold]login[/bold] [2J",
        "├── docs  cyd  shared, since _, _ left  L",
        "└── src/auth/**  ann  since _, _ left, 1 waits  L  [bold]login[/bold] [2J",
        "  ├── src/auth/form.py  bob  part of L, since _, _ left, 1 waits  L  [bold]login[/bold] [2J",
        "  └── src/auth/form.py  dan  waits _, place 1, behind ann (L), bob (L)  L",
        "waited for most in the last hour: src/auth/form.py (once, 1 now)",
    ]
    assert "\x1b" not in bus.ok("map", cwd=shop, env={"NO_COLOR": ""})
    # and: a part of it, as seen from where one is
    narrowed = bus.ok("map", "form.py", cwd=shop / "src" / "auth")
    assert narrowed.startswith(f"src/auth/form.py in {shop}: 2 leases, 1 waiting\n")
    assert "README" not in narrowed
    assert bus.ok("map", "nothing", cwd=shop) == f"nobody has a lease on nothing in {shop}: bus lease acquire PATH\n"
    # and: as one document
    document = bus("map", "--json", cwd=shop).json
    assert [each["agent"] for each in document["leases"]] == ["ann", "bob", "cyd"]
    assert document["waiting"][0]["behind"][0]["agent"] == "ann"
    # and: at a terminal, where no markup of others counts
    screen = at_terminal(bus, "map", cwd=shop, env={"NO_COLOR": ""}).screen
    assert "\x1b[1m" in screen
    assert "[bold]login[/bold]" in screen
    assert "\x1b[2J" not in screen
    assert "\x1b" not in at_terminal(bus, "map", cwd=shop).screen
    assert "└── src/auth" in at_terminal(bus, "map", cwd=shop, env={"PYTHONIOENCODING": "latin-1"}).screen


def test_a_repository_without_leases_is_one_sentence(bus: Bus, shop: Path) -> None:
    assert bus.ok("map", cwd=shop) == f"nobody has a lease in {shop}: bus lease acquire PATH\n"
    refused = bus("map", cwd=bus.folder)
    assert (refused.code, len(refused.err.splitlines())) == (64, 1)
    assert "is in no git repository" in refused.err


def test_the_live_map_shows_what_happens_fits_the_window_and_leaves_the_terminal_as_it_was(
    bus: Bus, shop: Path
) -> None:
    with live(bus, shop, rows=12, columns=70) as terminal:
        # when
        lease(bus, shop, "ann", "src/first")
        at = terminal.until("src/first")
        for number in range(20):
            lease(bus, shop, "ann", f"src/more/{number}")
        at = terminal.until("lines more than fit", at)
        terminal.resize(40, 120)
        terminal.until("── 19", at)
        terminal.press(b"\x03")
        seen = terminal.end()
    # then
    assert seen.code == 130
    assert "Traceback" not in seen.screen
    assert seen.screen.index(OTHER_SCREEN) < seen.screen.index(OWN_SCREEN)
    assert SHOW_CURSOR in seen.screen[seen.screen.rindex("Ctrl-C") :]
    assert seen.screen.rstrip().endswith((OWN_SCREEN, SHOW_CURSOR))


def test_ctrl_z_gives_the_terminal_back_and_fg_goes_on(bus: Bus, shop: Path) -> None:
    with live(bus, shop) as terminal:
        # when: without a shell to wake it the kernel lets nobody stop, so it goes on at once
        terminal.process.send_signal(signal.SIGTSTP)
        # then
        at = terminal.until(OWN_SCREEN)
        at = terminal.until("Ctrl-C ends it", terminal.until(OTHER_SCREEN, at))
        lease(bus, shop, "ann", "src/after")
        terminal.until("src/after", at)
        terminal.press(b"\x03")
        assert terminal.end().code == 130


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_whoever_ends_the_live_map_the_terminal_is_given_back(bus: Bus, shop: Path, signum: signal.Signals) -> None:
    with live(bus, shop) as terminal:
        terminal.process.send_signal(signum)
        seen = terminal.end()
    assert seen.code == -signum
    assert SHOW_CURSOR in seen.screen[seen.screen.rindex("Ctrl-C") :]
    assert OWN_SCREEN in seen.screen


@pytest.mark.slow
def test_a_thousand_changes_are_a_few_strokes_and_the_last_of_them_is_seen(bus: Bus, shop: Path) -> None:
    held = lease(bus, shop, "ann", "src/a", "--ttl", "1h")["lease"]
    with live(bus, shop) as terminal:
        before = psutil.Process(terminal.process.pid).memory_info().rss
        begun_at, strokes = time.monotonic(), terminal.written.count(HOME_CURSOR.encode())
        # when
        with Client(bus, "ann") as client:
            for number in range(1_000):
                client.ask("coordinator", body={"type": "RENEW", "lease": held, "ttl_ms": 3_600_000 + number * 1_000})
                if number % 100 == 0:
                    terminal.until("src/a")  # reads on: a terminal that is full holds it up
        lease(bus, shop, "bob", "src/the-last")
        terminal.until("the-last")
        took_s = time.monotonic() - begun_at
        # then
        assert terminal.written.count(HOME_CURSOR.encode()) - strokes <= 11 * took_s + 3
        assert psutil.Process(terminal.process.pid).memory_info().rss < before + 16 * 1024 * 1024
        terminal.press(b"\x03")
        assert terminal.end().code == 130


def test_over_a_restart_the_live_map_goes_on_with_the_same_document(bus: Bus, shop: Path) -> None:
    # given
    lease(bus, shop, "ann", "kept", "--ttl", "1h")
    follower = bus.start("map", "-f", "--json", cwd=shop)
    first = json.loads(follower.out.until("kept"))
    with live(bus, shop) as terminal:
        # when
        bus.kill_supervisor()
        at = terminal.until("waiting for the next")
        bus.ok("up")
        at = terminal.until("Ctrl-C ends it", at)
        assert bus("map", "--json", cwd=shop).json["leases"][0] | {"left_s": 0} == first["leases"][0] | {"left_s": 0}
        lease(bus, shop, "bob", "later")
        # then
        terminal.until("later", at)
        terminal.press(b"\x03")
        assert terminal.end().code == 130
    # and: one document a change, none for the restart
    second = json.loads(follower.out.until("later"))
    assert len(follower.out.seen) == 2
    assert [each["agent"] for each in second["leases"]] == ["ann", "bob"]
    follower.kill(signal.SIGINT)
    done = follower.end()
    assert done.code == 130
    assert "waiting for the next" in done.err


def test_a_reader_that_leaves_ends_the_live_map(bus: Bus, shop: Path) -> None:
    # given
    process = subprocess.Popen(
        [str(BUS), "map", "-f"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=shop, env=bus.environment
    )
    assert process.stdout is not None
    assert process.stdout.readline() == f"nobody has a lease in {shop}: bus lease acquire PATH\n".encode()
    # when
    process.stdout.close()
    lease(bus, shop, "ann", "src/a")
    # then
    assert process.communicate(timeout=WAIT_S)[1] == b""
    assert process.returncode == 141


def test_stats_are_one_object_words_and_what_prometheus_reads(bus: Bus, shop: Path) -> None:
    lease(bus, shop, "ann", "src/a")
    waiting(bus, shop, "bob", "src/a")
    stats = bus("stats", "--json", cwd=shop).json
    assert (stats["in_force"], stats["depth"], stats["acquired"], stats["queued"]) == (1, 1, 1, 1)
    assert "1 in force, 1 waiting" in bus.ok("stats", cwd=shop)
    assert f'interlock_leases_waiting{{repository="{shop}"}} 1\n' in bus.ok("stats", "--prometheus", cwd=shop)
    assert bus("stats", "--prometheus", "--json", cwd=shop).code == 64
