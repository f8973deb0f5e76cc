"""A repository's own `bus.toml`, in real repositories: untrusted it runs nothing, changed it runs nothing new."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.playground import Bus, Follower, Repository, executions, fetch, free_port, server_config
from tests.end_to_end.terminal import at_terminal


def trust(bus: Bus, place: Path) -> str:
    """As a person does: look, and type y."""
    seen = at_terminal(bus, "config", "trust", str(place), keys=b"y\n", when="[y/N]")
    assert seen.code == 0, seen
    return seen.screen


class Shop:
    """A repository with a server of its own, and one worktree beside the main one."""

    def __init__(self, bus: Bus, name: str) -> None:
        self.port = free_port()
        self.repository = Repository(bus, name)
        self.main = self.repository.main
        self.toml = self.main / "bus.toml"
        self.write()
        self.worktree = self.repository.worktree(f"{name}-w")

    def write(self, more: str = "") -> None:
        text = server_config(self.port, name="web") + "[resources.db]\n" + more
        self.toml.write_text(text.replace("[bus]\n\n", ""))


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with shared_bus() as bus:
        yield bus


@pytest.fixture(scope="module")
def shops(bus: Bus) -> tuple[Shop, Shop]:
    """Two repositories that declare the same names; neither is trusted."""
    return Shop(bus, "one"), Shop(bus, "two")


def test_two_repositories_from_untrusted_to_changed(bus: Bus, shops: tuple[Shop, Shop]) -> None:
    one, two = shops
    # an untrusted file: refused with the sentence that says how, and nothing has run
    done = bus("request", "web", "--wait", "20s", cwd=one.worktree, agent="A")
    assert done.code == 77
    [line] = [line for line in done.err.splitlines() + done.out.splitlines() if "REFUSED" in line]
    assert f"'web' is declared only in {one.toml}, which nobody has trusted" in line
    assert line.endswith(f"bus config trust {one.toml}")
    assert executions(one.worktree) == 0

    # trusted: it counts at once, under its own key, called as the agent called it
    assert "exec python3 server.py" in trust(bus, one.worktree)
    bus.ok("request", "web", "--wait", "20s", cwd=one.worktree, agent="A")
    assert f"worktree {one.worktree}" in fetch(one.port)
    assert bus.ok("check", "web", cwd=one.worktree, agent="A").startswith("GRANTED web ")

    # the same name of another repository is another resource: both run, side by side
    assert bus("request", "web", cwd=two.worktree, agent="B").code == 77
    trust(bus, two.main)
    bus.ok("request", "web", "--wait", "20s", cwd=two.worktree, agent="B")
    assert f"worktree {two.worktree}" in fetch(two.port)
    assert bus("check", "web", cwd=two.worktree, agent="A").code == 77
    bus.ok("check", "web", cwd=one.main, agent="A")

    # from nowhere it is mine; for somebody who has neither, it is not clear which one is meant
    bus.ok("check", "web", agent="A")
    done = bus("request", "web", agent="C")
    assert done.code == 64
    assert "AMBIGUOUS_TARGET" in done.out + done.err
    names = [each["name"] for each in json.loads(bus.ok("--json", "status", cwd=one.main))["resources"]]
    assert names.count("web") == 1
    assert len([name for name in names if name.endswith("/web")]) == 1

    # another repository's worktree is refused, by whatever name the resource goes
    key = bus.status_of("web", one.main)["resource"]
    done = bus("request", key, cwd=two.worktree, agent="C")
    assert done.code == 77
    assert "SCOPE_DENIED" in done.out + done.err
    done = bus("request", key, "--worktree", str(one.main / "nowhere"), cwd=one.main, agent="C")
    assert done.code != 0
    bus.ok("release", "web", cwd=two.worktree, agent="B")

    # a worktree's differing copy changes nothing
    ran = executions(one.worktree)
    (one.worktree / "bus.toml").write_text('[resources.web]\nstart = "touch hacked"\n[resources.extra]\n')
    done = bus("request", "extra", cwd=one.worktree, agent="B")
    assert "UNKNOWN_RESOURCE" in done.out + done.err
    bus.ok("restart", "web", cwd=one.worktree, agent="A")
    bus.ok("wait", "web", "--timeout", "20s", cwd=one.worktree, agent="A")
    assert executions(one.worktree) == ran + 1
    assert not (one.worktree / "hacked").exists()

    # a trusted file that has changed: nobody new gets anything; the hold ends as it was begun
    good = one.toml.read_text()
    one.toml.write_text(good.replace("exec python3", "touch hacked; exec python3"))
    done = bus("request", "web", cwd=one.main, agent="B")
    assert done.code == 77
    assert "has changed since it was trusted" in done.out + done.err
    assert f"bus config trust {one.toml}" in done.out + done.err
    bus.ok("check", "web", cwd=one.worktree, agent="A")
    assert "has changed since it was trusted" in bus.ok("config", cwd=one.main)
    bus.ok("release", "web", cwd=one.worktree, agent="A")
    assert not (one.main / "hacked").exists()

    # the same content again needs no new word, also over a restart of the supervisor
    bus.ok("down")
    bus.ok("up")
    assert bus("request", "web", cwd=one.main, agent="B").code == 77
    one.toml.write_text(good)
    bus.ok("request", "web", "--wait", "20s", cwd=one.main, agent="B")
    assert f"worktree {one.main}" in fetch(one.port)
    bus.ok("release", "web", cwd=one.main, agent="B")


def test_trusting_is_for_a_person_who_has_seen_everything(bus: Bus) -> None:
    shop = Repository(bus, "four")
    toml = shop.main / "bus.toml"
    toml.write_text(
        '[resources.hidden]\nstart = "true\\u001b[2K\\r; touch hacked"\nurl = "http://localhost/\\u202e"\n'
        'state_file = "/elsewhere/autostart.md"\n'
    )
    done = bus("config", "trust", cwd=shop.main)
    assert done.code == 77
    assert "a person at a terminal" in done.err
    for keys in (b"yess\n", b"\x04"):
        seen = at_terminal(bus, "config", "trust", str(shop.main), keys=keys, when="[y/N]")
        assert seen.code == 77
        assert r"start = true\x1b[2K\r; touch hacked" in seen.screen
        assert r"\u202e" in seen.screen
        assert "state_file = /elsewhere/autostart.md" in seen.screen
        assert "\x1b[2K" not in seen.screen
    assert bus("request", "hidden", cwd=shop.main, agent="D").code == 77
    assert not (shop.main / "hacked").exists()

    # what would never count is not trusted: a copy, a link, a file that is wrong, one that says more than it may
    copy = shop.worktree("four-w")
    shutil.copy(toml, copy / "bus.toml")
    assert bus("config", "trust", str(copy / "bus.toml")).code == 64
    assert "never counts" in bus("config", "trust", str(copy / "bus.toml")).err
    assert bus("config", "trust", str(bus.folder)).code == 64
    for text in ("[bus]\n", "[resources.a]\nstrat = 1\n"):
        toml.write_text(text)
        done = bus("config", "trust", cwd=shop.main)
        assert (done.code, len(done.err.splitlines())) == (78, 1), done
        assert bus("config", "check", cwd=shop.main).err == done.err
    toml.unlink()
    toml.symlink_to(copy / "bus.toml")
    assert "symbolic link" in bus("config", "trust", cwd=shop.main).err
    assert bus("init", cwd=shop.main).code == 73


def test_what_is_untrusted_again_runs_no_more_and_what_is_gone_is_forgotten(bus: Bus) -> None:
    shop, log = Shop(bus, "three"), Follower(bus)
    trust(bus, shop.main)
    bus.ok("request", "web", "--wait", "20s", cwd=shop.worktree, agent="E")
    key = bus.status_of("web", shop.main)["resource"]
    assert bus("request", "web", cwd=shop.main, agent="F").code == 75
    assert "RESOURCE_BUSY" in bus("forget", str(shop.main)).err

    # when: nobody new gets it, who waits is told, the hold ends as it was begun, then its server is stopped
    bus.ok("config", "untrust", str(shop.main))
    done = bus("wait", key, "--timeout", "20s", agent="F")
    assert done.code == 77
    assert "its declaration was taken back" in done.out + done.err
    bus.ok("check", "web", cwd=shop.worktree, agent="E")
    bus.ok("release", "web", cwd=shop.worktree, agent="E")
    stopped = log.until("step_done", kind="stop", actor=key)
    log.until("defined", actor=key, after=stopped["seq"])
    assert executions(shop.main) == 0

    # then
    trust(bus, shop.main)
    shutil.rmtree(shop.main)
    assert str(shop.toml) in bus.ok("forget")
    assert "gone" in bus.ok("config", cwd=shop.worktree)
    assert bus.ok("forget", "--gone") == f"FORGOTTEN {shop.toml}\n"
    assert str(shop.toml) not in bus.ok("forget")
    log.until("forgotten", actor=key)
