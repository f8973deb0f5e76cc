"""Drift: every worktree's changed files, by content, against the leases of whoever is there."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import scratch
from tests.adapters.hooked import QUIET, Repo, SaysLeases, says_leases
from tests.end_to_end.playground import BUS, Done, Lines

from interlock.adapters.territory.asking import Told
from interlock.adapters.territory.cover import held_of
from interlock.adapters.territory.drift import Dirty, changes, scan, worktrees
from interlock.adapters.territory.git_calls import run
from interlock.adapters.territory.spans import Span

LINES = "".join(f"line {number}\n" for number in range(1, 61))


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with scratch.folder() as made:
        yield made


@pytest.fixture
def roomy() -> Iterator[Path]:
    """For a hundred thousand files, removed again at once."""
    with scratch.folder() as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def _quiet_git() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in QUIET.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def repo(folder: Path) -> Repo:
    """A main worktree, and others: one odd in name, one clean, one locked and not there, one lost."""
    made = Repo(folder / "r", folder / "bus")
    for path in ("f", "gone", "sp ace*", "touched", "moved", "src/x", "held"):
        made.write(path, LINES)
    made.write(".gitignore", "ignored\n")
    made.write("bus.toml", '[territory]\nexclude = ["dist/**"]\n')
    made.git("commit", "-qm", "base")
    for name in ("w\n2 é", "clean", "locked", "lost"):
        branch = name.encode("ascii", "ignore").decode().replace("\n", "").replace(" ", "")
        made.git("worktree", "add", "-q", "-b", branch, str(folder / name))
    made.git("worktree", "lock", str(folder / "locked"))
    for name in ("locked", "lost"):
        subprocess.run(["rm", "-r", str(folder / name)], check=True)
    return made


@pytest.fixture(scope="module")
def bus(repo: Repo) -> Iterator[SaysLeases]:
    with says_leases(repo.home) as bus:
        yield bus


def told(*leases: dict[str, Any], **at: set[str]) -> Told:
    return Told("", "", held_of(leases), at)


def lease(agent: str, *claims: str, worktree: object = "") -> dict[str, Any]:
    return {"lease": agent + claims[0], "agent": agent, "claims": list(claims), "worktree": str(worktree)}


def drift(repo: Repo, *words: str) -> Done:
    done = subprocess.run(
        [BUS, *words], cwd=repo.folder / "src", env=repo.environment, capture_output=True, text=True, check=False
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def changed(repo: Repo, folder: Path) -> Path:
    """The worktree that is odd in name, with changes of every kind in it."""
    there = folder / "w\n2 é"
    (there / "f").write_text(LINES.replace("line 7\n", "seven\n"))
    (there / "gone").unlink()
    (there / "sp ace*").chmod(0o755)
    (there / "ignored").write_text("x")
    (there / "new\n é").write_text("x")
    (there / "nested").mkdir()
    run(["init", "-q"], str(there / "nested"), timeout_s=20)
    (there / "nested/inner").write_text("x")
    repo.git("mv", "moved", "moved2", cwd=there)
    (there / "moved2").write_text("changed after that")
    return there


def test_a_file_that_was_only_touched_is_not_changed(repo: Repo, folder: Path) -> None:
    for path in ("touched", "f", "src/x"):
        os.utime(folder / "clean" / path, (1, 1))
    assert Dirty(str(folder / "clean")).paths() == []


def test_what_is_changed_is_told_by_content(changed: Path) -> None:
    there = changed
    index = there / os.fsdecode(run(["rev-parse", "--git-path", "index"], str(there), timeout_s=20)[:-1])
    before = index.read_bytes()
    dirty = Dirty(str(there))
    assert sorted(dirty.paths()) == ["f", "gone", "moved", "moved2", "new\n é", "sp ace*"]
    assert dirty.lines("f") == [Span(6, 7)]
    assert [dirty.lines(path) for path in ("gone", "moved2", "sp ace*")] == [None] * 3
    assert index.read_bytes() == before, "and nothing was written"


def test_worktrees_that_are_not_there_are_left_out_and_said(repo: Repo, folder: Path) -> None:
    there, left_out = worktrees(str(repo.folder))
    assert sorted(there) == sorted(str(folder / name) for name in ("r", "w\n2 é", "clean"))
    assert sorted(left_out) == [
        f"{folder / 'locked'} is not there: it is locked, and may be on a disk that is not here",
        f"{folder / 'lost'} is not there: git worktree prune forgets it",
    ]


def test_each_worktree_is_held_to_the_leases_of_who_is_there(repo: Repo, folder: Path, changed: Path) -> None:
    (repo.folder / "dist").mkdir(exist_ok=True)
    for path in ("f", "held", "dist/x", "src/x"):
        (repo.folder / path).write_text(LINES.replace("line 7\n", "seven\n"))
    known = told(
        lease("a", "src", "f:5-9", worktree=repo.folder), lease("b", "held"), lease("c", "src/x2", worktree="/gone"),
        **{str(folder / "w\n2 é"): {"b"}, str(folder / "clean"): {"d"}},
    )  # fmt: skip
    found = scan(str(folder / "clean"), known)
    assert (found.looked_at, len(found.left_out), found.failed) == (3, 2, [])
    rows = [(Path(each.worktree).name, each.agents, each.trouble.path, each.trouble.cause) for each in found.drifted]
    assert [row for row in rows if row[0] == "r"] == [("r", ("a",), "held", "held_by_other")]
    odd = {path: cause for name, agents, path, cause in rows if name != "r"}
    assert odd == {"f": "held_by_other"} | dict.fromkeys(["gone", "moved", "moved2", "new\n é", "sp ace*"], "no_lease")


def test_only_what_changes_is_a_change(repo: Repo) -> None:
    (repo.folder / "held").write_text("changed")
    one = scan(str(repo.folder), told(lease("b", "held") | {"left_s": 9})).drifted
    again = scan(str(repo.folder), told(lease("b", "held") | {"left_s": 7})).drifted
    assert changes(one, again) == ([], [])
    other = scan(str(repo.folder), told(lease("c", "held"))).drifted
    came, went = changes(one, other)
    assert [each.trouble.holder for each in came] == ["c"]
    assert [each.trouble.holder for each in went] == ["b"]
    assert changes(one, []) == ([], one)


def test_a_worktree_that_git_cannot_look_at_is_said(repo: Repo, folder: Path) -> None:
    broken = folder / "clean" / ".git"
    text = broken.read_text()
    broken.write_text("gitdir: /nowhere\n")
    try:
        [failed] = scan(str(repo.folder), told()).failed
    finally:
        broken.write_text(text)
    assert failed.startswith(f"{folder / 'clean'} could not be looked at: git status failed (exit 128: not a git")


def test_a_sparse_checkout_and_a_submodule_are_looked_at_as_they_are(folder: Path, repo: Repo) -> None:
    outer = Repo(folder / "outer", folder / "bus")
    outer.commit("in/x", "x")
    outer.commit("out/x", "x")
    outer.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(repo.folder), "sub")
    outer.git("commit", "-qm", "sub")
    outer.git("sparse-checkout", "set", "--skip-checks", "in", "sub")
    assert not (outer.folder / "out/x").exists()
    (outer.folder / "sub/f").write_text("changed")
    assert scan(str(outer.folder), told()).drifted == [], "what is changed in a submodule is its own"
    [inner] = scan(str(outer.folder / "sub"), told()).drifted
    assert (inner.worktree, inner.trouble.path) == (str(outer.folder / "sub"), "f")
    outer.commit("f", "x", outer.folder / "sub")
    assert [each.trouble.path for each in scan(str(outer.folder), told()).drifted] == ["sub"]


def test_the_command_shows_all_and_exits_1(repo: Repo, bus: SaysLeases, folder: Path) -> None:
    (repo.folder / "held").write_text("changed")
    bus.agents = [{"agent": "a", "worktree": str(repo.folder), "presence": "alive"}]
    bus.leases = []
    bus.lease("b", "held", purpose="mine")
    bus.lease("a", "src/**")
    done, told_json = drift(repo, "drift"), drift(repo, "--json", "drift")
    assert (done.code, told_json.code) == (1, 1)
    assert f"{repo.folder} (a)\n" in done.out
    assert '  held is held by b (held, 1m30s left) for "mine"\n' in done.out
    assert "next: bus lease acquire PATH in that worktree" in done.out
    assert "note: " in done.err
    rows = {(Path(each["worktree"]).name, each["path"]): each for each in told_json.json["drift"]}
    assert rows["r", "held"] == {
        "worktree": str(repo.folder), "agents": ["a"], "path": "held", "cause": "held_by_other", "holder": "b",
        "lease": "L1", "claim": "held", "left_s": 90,
    }  # fmt: skip
    assert told_json.json["worktrees"] == 3


def test_all_covered_is_exit_0_and_outside_of_a_repository_it_is_said(repo: Repo, bus: SaysLeases) -> None:
    bus.agents = []
    bus.leases = []
    for worktree in worktrees(str(repo.folder))[0]:
        bus.lease("a", "**", worktree=worktree)
    done = drift(repo, "drift")
    assert (done.code, done.out) == (0, "nothing is out of place: 3 worktrees, every changed path under a lease\n")
    nowhere = subprocess.run([BUS, "drift"], cwd="/", env=repo.environment, capture_output=True, text=True, check=False)
    assert (nowhere.returncode, "no git repository here" in nowhere.stderr) == (64, True)


def test_watch_says_what_changes(repo: Repo, bus: SaysLeases) -> None:
    bus.agents = []
    bus.leases = []
    for worktree in worktrees(str(repo.folder))[0]:
        bus.lease("a", "[!n]*", "new*", "*/**", worktree=worktree)
    with subprocess.Popen(
        [BUS, "--json", "drift", "--watch"], cwd=repo.folder, env=repo.environment, stdout=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdout is not None
        lines = Lines(watching.stdout)
        (repo.folder / "nobody's").write_text("x")
        came = json.loads(lines.until("nobody's"))
        (repo.folder / "nobody's").unlink()
        went = json.loads(lines.until("nobody's"))
        watching.terminate()
    assert (came["change"], went["change"]) == ("drift", "gone")
    assert len(lines.seen) == 2


@pytest.mark.slow
def test_a_hundred_thousand_files_and_two_hundred_worktrees_are_looked_at_in_seconds(roomy: Path) -> None:
    folder, large = roomy, Repo(roomy / "large", roomy / "bus")
    large.commit("small", "x")
    for number in range(200):
        large.git("worktree", "add", "-q", "--detach", str(folder / f"l{number}"))
    blob = large.git("rev-parse", "HEAD:small").out.strip()
    entries = "".join(f"100644 {blob} 0\td{n % 500}/f{n}\n" for n in range(100_000))
    subprocess.run(["git", "update-index", "--index-info"], cwd=large.folder, input=entries.encode(), check=True)
    large.git("commit", "-qm", "large")
    large.git("checkout-index", "-qa")
    (folder / "l7" / "small").write_text("y")
    (large.folder / "d1/f1").write_text("y")
    began = time.monotonic()
    found = scan(str(large.folder), told())
    took_s = time.monotonic() - began
    assert found.looked_at == 201
    assert {each.trouble.path for each in found.drifted} == {"small", "d1/f1"}
    assert took_s < 60, "it took a few on a quiet machine"
