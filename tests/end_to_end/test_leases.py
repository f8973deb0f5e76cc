"""Leases of paths, through the real command: in one repository and its worktrees, around commands, over kills."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.playground import PYTHON, Bus
from tests.end_to_end.terminal import at_terminal
from tests.polling import until


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with shared_bus() as bus:
        for agent in ("ann", "bob"):  # the first word of a new name says more
            bus.ok("join", agent)
        yield bus


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=x", "-c", "user.email=x@x", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    (folder / "src" / "auth").mkdir(parents=True)
    (folder / "README.md").write_text("".join(f"{n}\n" for n in range(1, 51)))
    (folder / "src" / "auth" / "login.py").touch()
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    return folder


def acquired(bus: Bus, cwd: Path, agent: str, *words: str) -> dict[str, Any]:
    done = bus("--json", "lease", "acquire", *words, cwd=cwd, agent=agent)
    assert done.code == 0, done
    return dict(done.json)


def leases(bus: Bus, cwd: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in bus.ok("--json", "leases", cwd=cwd).splitlines()]


def test_what_one_has_another_is_refused_or_waits_for(bus: Bus, repository: Path) -> None:
    lease = acquired(bus, repository, "ann", "src/auth/**", "README.md:10-40", "--ttl", "10m", "--for", "login")
    assert lease["claims"] == ["src/auth/**", "README.md:10-40"]
    assert lease["fence"] > 0
    assert lease["expires_at"]
    refused = bus("lease", "acquire", "src/auth/login.py", cwd=repository, agent="bob")
    assert (refused.code, "ann has src/auth/** for 10m more" in refused.err) == (75, True)
    assert bus("lease", "acquire", "README.md:41-50", cwd=repository, agent="bob").code == 0
    waiting = bus.start("--json", "lease", "acquire", "src/auth/login.py", "--wait", "1m", cwd=repository, agent="bob")
    waiting.err.until("waiting: LEASE QUEUED")
    assert [row["state"] for row in leases(bus, repository)] == ["held", "held", "waiting"]
    bus.ok("lease", "release", lease["lease"], cwd=repository, agent="ann")
    done = waiting.end()
    assert (done.code, json.loads(done.out)["state"]) == (0, "held")
    assert bus("inbox", agent="bob").out == "", "what the command showed is not news any more"


def test_who_waited_in_vain_is_told_so_by_the_exit_code(bus: Bus, repository: Path) -> None:
    acquired(bus, repository, "ann", "src")
    done = bus("lease", "acquire", "src/auth", "--wait", "1s", cwd=repository, agent="bob")
    assert (done.code, done.out, "src/auth was not granted in time" in done.err) == (75, "", True)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_wait_that_is_ended_leaves_no_place_behind(bus: Bus, repository: Path, signum: int) -> None:
    lease = acquired(bus, repository, "ann", "src")
    waiting = bus.start("lease", "acquire", "src/auth", "--wait", "1m", cwd=repository, agent="bob")
    waiting.err.until("waiting: LEASE QUEUED")
    waiting.kill(signum)
    assert waiting.end().code == 128 + signum
    assert [row["lease"] for row in leases(bus, repository)] == [lease["lease"]]


def test_a_named_wait_that_a_tools_time_out_ends_keeps_its_place(bus: Bus, repository: Path) -> None:
    lease = acquired(bus, repository, "ann", "src")
    words = ["lease", "acquire", "src/auth", "--wait", "1m", "--key", "mine"]
    waiting = bus.start(*words, cwd=repository, agent="bob")
    waiting.err.until("waiting: LEASE QUEUED")
    waiting.kill(signal.SIGTERM)
    done = waiting.end()
    assert (done.code, "the place stays" in done.err) == (128 + signal.SIGTERM, True)
    place = leases(bus, repository)[1]
    bus.ok("lease", "release", lease["lease"], cwd=repository, agent="ann")
    assert place["lease"] in bus.ok(*words, cwd=repository, agent="bob")


def test_the_same_name_is_the_same_lease_and_with_other_claims_a_conflict(bus: Bus, repository: Path) -> None:
    first = acquired(bus, repository, "ann", "a", "--key", "job-1")
    assert acquired(bus, repository, "ann", "a", "--key", "job-1")["lease"] == first["lease"]
    other = bus("--json", "lease", "acquire", "b", "--key", "job-1", cwd=repository, agent="ann")
    assert (other.code, other.json["error"]["code"]) == (64, "ID_CONFLICT")
    bus.ok("lease", "release", first["lease"], agent="ann", cwd=repository)
    again = bus("lease", "renew", first["lease"], agent="ann", cwd=repository)
    assert (again.code, "is over since" in again.err, "released" in again.err) == (77, True, True)


def test_a_path_is_one_path_however_it_is_called(bus: Bus, repository: Path) -> None:
    (repository / "linked").symlink_to("src/auth")
    (repository / "src" / "a[1].py").touch()
    named = {
        "src/../src/./auth": ["src/auth"],
        str(repository / "src" / "auth" / "login.py"): ["src/auth/login.py"],
        ":/README.md": ["README.md"],
        "linked/login.py": ["src/auth/login.py"],
        "linked": ["linked", "src/auth"],
        "src/a[1].py": ["src/a\\[1\\].py"],
        "src/[ab].py": ["src/[ab].py"],
        "new/file with space\nand line.py": ["new/file with space\nand line.py"],
        "🙂.py": ["🙂.py"],
        ".": ["**"],
    }
    for path, claims in named.items():
        lease = acquired(bus, repository, "ann", path)
        assert lease["claims"] == claims
        bus.ok("lease", "release", lease["lease"], agent="ann", cwd=repository)
    below = acquired(bus, repository / "src", "ann", "auth/*.py", "../README.md")
    assert below["claims"] == ["src/auth/*.py", "README.md"]
    bus.ok("lease", "release", "--mine", agent="ann", cwd=repository)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("", "the pattern is empty"),
        ("../x", "is outside of"),
        ("/etc/passwd", "is outside of"),
        (".git/config", "git's own folder"),
        ("src/.GIT" if sys.platform == "darwin" else ".git", "git's own folder"),
        ("C:\\x", "has a drive or backslashes"),
        ("src\\auth", "has a drive or backslashes"),
        ("*/../x", "behind a wildcard"),
        ("src/{a", "without its"),
        ("sub/x", "repository of its own"),
    ],
)
def test_what_is_no_path_of_the_repository_is_refused_in_a_sentence(
    bus: Bus, repository: Path, path: str, says: str
) -> None:
    (repository / "sub").mkdir()
    git(repository / "sub", "init", "-q")
    refused = bus("lease", "acquire", path, cwd=repository, agent="ann")
    assert (refused.code, says in refused.err, refused.out) == (64, True, ""), refused
    assert len(refused.err.splitlines()) == 1


def test_a_directory_in_no_repository_has_no_leases(bus: Bus, tmp_path: Path) -> None:
    for words in (["lease", "acquire", "x"], ["leases"]):
        refused = bus(*words, cwd=tmp_path, agent="ann")
        assert (refused.code, "is in no git repository" in refused.err) == (64, True)


def test_worktrees_share_a_territory_and_a_second_clone_has_its_own(bus: Bus, repository: Path) -> None:
    git(repository, "worktree", "add", "-q", "../tree")
    git(repository, "clone", "-q", ".", "../clone")
    acquired(bus, repository, "ann", "src")
    assert bus("lease", "acquire", "src/auth", cwd=repository.parent / "tree", agent="bob").code == 75
    assert bus("lease", "acquire", "src/auth", cwd=repository.parent / "clone", agent="bob").code == 0


def test_a_trusted_name_makes_two_clones_one_territory(bus: Bus, repository: Path) -> None:
    git(repository, "clone", "-q", ".", "../clone")
    said = '[territory]\nrepository_id = "acme-web"\nexclude = ["dist/**"]\nmode = "hard_fail"\nttl = "5m"\n'
    for folder in (repository, repository.parent / "clone"):
        (folder / "bus.toml").write_text(said)
        seen = at_terminal(bus, "config", "trust", str(folder), keys=b"y\n", when="[y/N]")
        assert seen.code == 0
        for line in ("repository_id = acme-web (every", "exclude dist/** (", "mode = hard_fail (", "ttl = 5m"):
            assert line in seen.screen, "who trusts it has read all of it"
        assert "TRUSTED" in seen.screen
        assert "its territory" in seen.screen
    assert "exclude dist/**" in bus.ok("config", "check", cwd=repository)
    assert bus("--json", "config", "check", cwd=repository).json["files"][1]["territory"]["ttl"] == 300_000
    first = acquired(bus, repository, "ann", "src")
    assert first["territory"] == "territory/acme-web"
    assert bus("lease", "acquire", "src/auth", cwd=repository.parent / "clone", agent="bob").code == 75


def test_a_command_runs_under_its_lease_which_ends_with_it(bus: Bus, repository: Path) -> None:
    script = "echo $BUS_LEASE; bus --json leases; exit 3"
    path = f"{PYTHON.parent}:{os.environ['PATH']}"
    done = bus("run", "--lease", "src/**", "--", "sh", "-c", script, cwd=repository, agent="ann", env={"PATH": path})
    own, row = done.out.splitlines()
    assert (done.code, json.loads(row)["lease"]) == (3, own)
    assert json.loads(row)["expires_at"] is None
    assert leases(bus, repository) == []


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_killed_frees_its_paths_at_once(bus: Bus, repository: Path, signum: int) -> None:
    running = bus.start("run", "--lease", "src", "--", "sh", "-c", "echo up; sleep 100", cwd=repository, agent="ann")
    running.out.until("up")
    after = bus.start("run", "--lease", "src/auth", "--", "echo", "mine", cwd=repository, agent="bob")
    after.err.until("ann has src")
    running.kill(signum)
    done = after.end()
    assert (done.code, done.out) == (0, "mine\n")
    assert running.end().code == (-signum if signum == signal.SIGKILL else 128 + signum)


def test_what_a_command_leaves_behind_keeps_its_lease_until_it_is_gone(bus: Bus, repository: Path) -> None:
    done = bus(
        "run", "--lease", "src", "--", "sh", "-c", "sleep 100 >/dev/null 2>&1 & echo $!", cwd=repository, agent="ann"
    )
    assert (done.code, "src stays taken" in done.err) == (0, True)
    (row,) = leases(bus, repository)
    assert row["state"] == "draining"
    assert bus("lease", "acquire", "src/auth", cwd=repository, agent="bob").code == 75
    os.kill(int(done.out), signal.SIGKILL)
    until(lambda: not leases(bus, repository))


def test_a_bound_agents_leases_end_with_its_process(bus: Bus, repository: Path) -> None:
    host = subprocess.Popen(["sleep", "100"])
    try:
        bus.ok("join", "cyd", "--pid", str(host.pid), cwd=repository)
        assert acquired(bus, repository, "cyd", "src")["bound_to"] == "its agent"
        waiting = bus.start("lease", "acquire", "src/auth", "--wait", "1m", cwd=repository, agent="bob")
        waiting.err.until("cyd has src")
    finally:
        host.kill()
        host.wait()
    assert waiting.end().code == 0


def test_leases_and_who_waits_survive_the_supervisor(bus: Bus, repository: Path) -> None:
    lease = acquired(bus, repository, "ann", "src")
    waiting = bus.start("lease", "acquire", "src/auth", "--wait", "1m", cwd=repository, agent="bob")
    waiting.err.until("waiting")
    before = leases(bus, repository)
    bus.kill_supervisor()
    after = leases(bus, repository)
    assert [(row["lease"], row["fence"], row["state"]) for row in after] == [
        (row["lease"], row["fence"], row["state"]) for row in before
    ]
    bus.ok("lease", "release", lease["lease"], cwd=repository, agent="ann")
    assert waiting.end().code == 0
    assert "replay" in bus.ok("doctor", "--verify")


def test_split_and_transfer(bus: Bus, repository: Path) -> None:
    lease = acquired(bus, repository, "ann", "src")["lease"]
    bus.ok("join", "bob", cwd=repository)
    part = bus("--json", "lease", "split", lease, "bob", "src/auth/login.py", cwd=repository, agent="ann").json
    assert (part["parent"], part["claims"]) == (lease, ["src/auth/login.py"])
    assert bus("lease", "release", part["lease"], cwd=repository, agent="ann").code == 77
    bus.ok("lease", "release", part["lease"], cwd=repository, agent="bob")
    bus.ok("lease", "transfer", lease, "bob", cwd=repository, agent="ann")
    events = [json.loads(line) for line in bus.ok("--json", "tail", "--type", "lease_transferred").splitlines()]
    moved = events[-1]
    assert (moved["agent"], moved["old_agent"], moved["fence"] > part["fence"]) == ("bob", "ann", True)
    assert bus("lease", "renew", lease, cwd=repository, agent="ann").code == 77
    assert bus("lease", "revoke", lease, "--because", "x", cwd=repository).code == 77, "only at a terminal"


def test_wrong_words_are_one_sentence_and_64(bus: Bus, repository: Path) -> None:
    wrong = [
        ["take", "x"], ["acquire"], ["renew"], ["split", "L1", "bob"], ["acquire", "x", "--ttl", "1s"],
        ["acquire", "x", "--ttl", "soon"], ["transfer", "L1"], ["acquire", *map(str, range(65))],
    ]  # fmt: skip
    for words in wrong:
        done = bus("lease", *words, cwd=repository, agent="ann")
        assert (done.code, len(done.err.splitlines())) == (64, 1), (words, done)
