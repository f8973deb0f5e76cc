"""`bus outcome`: what is on record of a message or a resource, and whether that is what is there."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.playground import Bus, free_port
from tests.polling import until

SERVE = f"exec {sys.executable} -m http.server --bind 127.0.0.1 $BUS_PORT"


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with shared_bus() as bus:
        for agent in ("ann", "bob"):
            bus.ok("join", agent)
        yield bus


def test_a_message_is_followed_by_its_id_and_one_that_is_not_there_may_be_sent_again(bus: Bus) -> None:
    id_ = "01900000-0000-7000-8000-0000000000aa"
    done = bus("outcome", id_, agent="ann")
    assert (done.code, "no message" in done.err, f"--request-id {id_}" in done.err) == (77, True, True)
    for _ in range(2):
        bus.ok("send", "bob", "hello", "--request-id", id_, agent="ann")
    assert bus.ok("outcome", id_, agent="ann") == f"{id_} to bob: queued, on record, and not handed over yet\n"
    assert bus.ok("inbox", agent="bob").count("hello") == 1, "sent twice, and delivered once"
    assert bus("--json", "outcome", id_, agent="ann").json == {
        "asked": id_, "kind": "message", "to": "bob", "state": "acked",
    }  # fmt: skip


def test_a_lock_and_a_holder_that_is_there(bus: Bus) -> None:
    bus.ok("request", "machine/door", agent="ann")
    done = bus("outcome", "machine/door", agent="bob")
    assert (done.code, "ann has it since" in done.out, "DIFFERS" in done.out) == (0, True, False)
    assert bus("outcome", "nothing-of-that-name", agent="bob").code == 64


def test_a_server_as_it_is_recorded_and_as_it_is(bus: Bus, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "one"]):
        who = ["-c", "user.name=x", "-c", "user.email=x@x"]
        subprocess.run(["git", *who, *words], cwd=work, check=True, env=bus.environment)
    port = free_port()
    (bus.home / "bus.toml").write_text(
        f"[resources.web]\nkind = \"server\"\nstart = '''{SERVE.replace('$BUS_PORT', str(port))}'''\n"
        f'url = "http://127.0.0.1:{port}/"\nhealth = "http://127.0.0.1:{port}/"\nports = [{port}]\n'
    )
    until(lambda: bus("request", "web", "--worktree", str(work), "--wait", "1m", agent="ann").code == 0)
    done = bus("--json", "outcome", "web", agent="ann")
    outcome = json.loads(done.out)
    assert (done.code, outcome["differs"], outcome["state"]) == (0, [], "held")
    assert f"it listens on port {port}" in outcome["found"]
    assert f"http://127.0.0.1:{port}/ answers 200" in outcome["found"]

    subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "--allow-empty", "-m", "two"],
        cwd=work, check=True, env=bus.environment,
    )  # fmt: skip
    done = bus("outcome", "web", agent="ann")
    assert (done.code, "DIFFERS its worktree is at" in done.out) == (1, True)
    keeper = bus.status("web")["reach"]["keeper_pid"]
    stopped = psutil.Process(keeper).children(recursive=True)
    for each in stopped:
        each.suspend()
    done = bus("outcome", "web", agent="ann")
    assert (done.code, f"DIFFERS http://127.0.0.1:{port}/ does not answer" in done.out) == (1, True)
    for each in stopped:
        each.resume()
    bus.ok("release", "web", agent="ann")
