"""What git's hooks ask and say: real commits and pushes, with a bus that holds what the test says."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import scratch
from tests.adapters.hooked import Repo, SaysLeases, says_leases
from tests.end_to_end.playground import BUS

from interlock.adapters.territory.git_calls import GitFailed
from interlock.adapters.territory.spans import Span
from interlock.adapters.territory.staged import Changes, Pushed, Staged, excluded

LINES = "".join(f"line {number}\n" for number in range(1, 61))


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch.folder() as made:
        yield made


@pytest.fixture
def repo(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    made = Repo(folder / "r", folder / "bus")
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


@pytest.fixture
def bus(repo: Repo) -> Iterator[SaysLeases]:
    with says_leases(repo.home) as bus:
        yield bus


def hooks(repo: Repo, mode: str = "advisory") -> None:
    done = subprocess.run(
        [BUS, "hooks", "install", "--mode", mode], cwd=repo.folder, env=repo.environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done


def soon() -> float:
    return time.monotonic() + 60


# --- what is seen --------------------------------------------------------------------------------
def test_staged_is_what_the_index_of_the_commit_has_line_by_line(repo: Repo) -> None:
    for path in ("f", "gone", "sp ace*", "b", "mode"):
        repo.write(path, LINES)
    repo.git("commit", "-qm", "base")
    repo.write("f", LINES.replace("line 7\n", "seven\n").replace("line 30\n", "").replace("line 9\n", "line 9\nnew\n"))
    repo.write("sp ace*", LINES + "more\n")
    repo.write("b", "\0binary")
    repo.git("update-index", "--chmod=+x", "mode")
    repo.git("rm", "-q", "gone")
    repo.write("new/é\n", "x")
    (repo.folder / "f").write_text("changed again, and not staged\n")
    staged = Staged(str(repo.folder), until=soon())
    assert sorted(staged.paths()) == ["b", "f", "gone", "mode", "new/é\n", "sp ace*"]
    assert staged.lines("f") == [Span(6, 7), Span(9, 9), Span(29, 30)]
    assert staged.lines("sp ace*") == [Span(60, 60)]
    assert [staged.lines(path) for path in ("b", "gone", "mode", "new/é\n")] == [None] * 4


def test_the_first_commit_and_a_merge_are_seen(repo: Repo) -> None:
    repo.write("f", LINES)
    assert Staged(str(repo.folder), until=soon()).paths() == ["f"]
    repo.git("commit", "-qm", "base")
    repo.git("switch", "-qc", "other")
    repo.commit("theirs", "x")
    repo.commit("f", "theirs\n" + LINES)
    repo.git("switch", "-q", "main")
    repo.commit("f", "ours\n" + LINES)
    assert repo.git("merge", "-q", "other", ok=False).code == 1
    repo.write("f", "both\n" + LINES)
    assert Staged(str(repo.folder), until=soon()).paths() == ["f"], "what comes from the other side is theirs"


def test_a_range_is_followed_from_the_content_that_it_was_taken_on(repo: Repo) -> None:
    from interlock.protocol.claim import Claim

    repo.commit("f", LINES)
    taken = repo.git("rev-parse", "HEAD:f").out.strip()
    repo.commit("f", "one\ntwo\n" + LINES)
    repo.write("f", "one\ntwo\n" + LINES.replace("line 10\n", "ten\n"))
    staged = Staged(str(repo.folder), until=soon())
    staged.paths()
    assert staged.lines("f") == [Span(11, 12)]
    assert staged.moved("f")(Claim("f", 10, 10, taken), True) == Span(11, 12)
    assert staged.moved("f")(Claim("f", 10, 10, "1" * 40), True) == Span(9, 10), "never in the repository: as it is"
    assert staged.moved("f")(Claim("f", 10, 10), True) == Span(9, 10)


def test_what_is_excluded_or_generated_needs_no_lease(repo: Repo) -> None:
    repo.write("bus.toml", '[territory]\nexclude = ["dist/**", "*.lock", "\N{LATIN SMALL LETTER E WITH ACUTE}"]\n')
    repo.write(".gitattributes", "gen/* linguist-generated\nno -linguist-generated\nyes linguist-generated=true\n")
    paths = ["dist/a", "x.lock", "gen/é\n", "yes", "no", "src"]
    mine = repo.home.parent / "attributes"
    mine.write_text("src linguist-generated\n")
    repo.git("config", "core.attributesFile", str(mine))  # what one user thinks, bus verify does not know
    seen = Changes(str(repo.folder), (), until=soon())
    assert seen.free(paths, cached=True) == seen.free(paths, cached=False) == {*paths[:4]}
    decomposed = "e\N{COMBINING ACUTE ACCENT}"
    assert seen.free([decomposed], cached=True) == {decomposed}, "as bus verify has it"
    (repo.folder / "bus.toml").unlink()
    assert seen.free(paths, cached=True) == {*paths[:4]}
    assert seen.free(paths, cached=False) == {*paths[2:4]}


@pytest.mark.parametrize(
    "text",
    [b"[territory", b"\xff territory", b"territory = 3", b"[territory]\nexclude = 3", b'[territory]\nexclude = ["["]'],
)
def test_a_bus_toml_that_is_wrong_excludes_nothing(text: bytes) -> None:
    assert excluded(text) == []


def test_a_push_brings_what_the_remote_has_not(repo: Repo) -> None:
    repo.commit("old", LINES)
    base = repo.git("rev-parse", "HEAD").out.strip()
    repo.commit("old", LINES.replace("line 3\n", "three\n"))
    repo.commit("new", "x")
    tip = repo.git("rev-parse", "HEAD").out.strip()
    pushed = Pushed(str(repo.folder), tip, [base], until=soon())
    assert (pushed.paths(), pushed.lines("old"), pushed.lines("new")) == (["new", "old"], [Span(2, 3)], None)
    assert Pushed(str(repo.folder), tip, [], until=soon()).paths() == ["new", "old"]


def test_git_that_takes_too_long_is_given_up(repo: Repo) -> None:
    with pytest.raises(GitFailed, match="did not end within"):
        Changes(str(repo.folder), (), until=0).git("cat-file", "--batch", given=b"HEAD\n" * 10_000_000)


# --- what is said --------------------------------------------------------------------------------
def test_a_commit_is_warned_of_and_recorded(repo: Repo, bus: SaysLeases) -> None:
    repo.commit("README.md", LINES)
    hooks(repo)
    bus.lease("a", "src/**", "README.md:10-40")
    bus.lease("b", "docs/**", purpose="the guide")
    repo.write("docs/in dex.md", "x")
    repo.write("README.md", LINES.replace("line 50\n", "fifty\n"))
    repo.write("loose*.py", "x")
    done = repo.commit("src/fine.py", "x", BUS_AGENT="a")
    assert done.err.splitlines() == [
        "bus: README.md is changed outside of your lines (README.md:10-40): bus lease acquire README.md",
        'bus: docs/in dex.md is held by b (docs/**, 1m30s left) for "the guide": take another path, or wait: '
        "bus lease acquire 'docs/in dex.md' --wait 10m",
        r"bus: loose*.py is under no lease of yours: bus lease acquire 'loose\*.py'",
        "bus: the commit goes on (mode advisory)",
    ]
    commit = repo.git("rev-parse", "HEAD").out.strip()
    here = str(repo.folder)
    assert bus.asked == [
        ("a", {"type": "TERRITORY", "directory": here}),
        ("a", {"type": "RECORD_COMMIT", "directory": here, "commit": commit}),
    ]


def test_hard_fail_refuses_what_is_not_ones_own_and_takes_what_is(repo: Repo, bus: SaysLeases) -> None:
    hooks(repo, "hard_fail")
    bus.lease("a", "src/**")
    refused = repo.commit("other", "x", ok=False, BUS_AGENT="a")
    assert refused.code == 1
    assert refused.err.endswith("bus: refused: do what stands above, then commit again (mode hard_fail)\n")
    repo.git("rm", "-q", "--cached", "other")
    assert repo.commit("src/x", "x", BUS_AGENT="a").err == ""
    nobody = repo.commit("src/y", "x", ok=False)
    assert nobody.code == 1
    assert "the bus does not know who you are: bus join NAME" in nobody.err


def test_of_nobody_only_what_others_hold_is_looked_at(repo: Repo, bus: SaysLeases) -> None:
    hooks(repo)
    bus.lease("b", "held")
    assert repo.commit("free", "x").err.splitlines()[1:] == ["bus: so only what others hold was looked at"]
    assert "bus: held is held by b" in repo.commit("held", "x").err
    assert [kind["type"] for _, kind in bus.asked] == ["TERRITORY", "TERRITORY"], "and nothing is recorded of nobody"


def test_commit_all_and_a_part_of_the_index_are_looked_at_as_git_commits_them(repo: Repo, bus: SaysLeases) -> None:
    repo.commit("one", "x")
    repo.commit("two", "x")
    hooks(repo, "hard_fail")
    bus.lease("a", "one")
    for path in ("one", "two"):
        (repo.folder / path).write_text("y")
    assert repo.git("commit", "-qam", "all", ok=False, BUS_AGENT="a").code == 1
    assert repo.git("commit", "-qm", "one", "one", BUS_AGENT="a").err == ""


def test_a_push_is_checked_against_what_others_hold_now(repo: Repo, bus: SaysLeases, folder: Path) -> None:
    far = Repo(folder / "far", folder / "bus", "--bare")
    repo.commit("README.md", LINES)
    repo.git("push", "-q", str(far.folder), "main")
    hooks(repo, "hard_fail")
    repo.git("commit", "-q", "--allow-empty", "--no-verify", "-m", "nothing")
    repo.write("README.md", LINES.replace("line 50\n", "fifty\n"))
    repo.git("commit", "-q", "--no-verify", "-m", "fifty")
    bus.lease("b", "README.md:1-40")
    assert repo.git("push", "-q", str(far.folder), "main", BUS_AGENT="a").err == ""
    repo.write("held", "x")
    repo.git("commit", "-q", "--no-verify", "-m", "held")
    bus.lease("b", "held")
    done = repo.git("push", "-q", str(far.folder), "main:new", ok=False, BUS_AGENT="a")
    assert "bus: held is held by b" in done.err
    assert "then push again (mode hard_fail)" in done.err
    assert done.code == 1
    assert repo.git("push", "-q", str(far.folder), ":main", BUS_AGENT="a", ok=False).err.count("bus:") == 0


@pytest.mark.parametrize(("mode", "code"), [("advisory", 0), ("hard_fail", 1)])
def test_a_bus_that_is_absent_or_hangs_is_said_and_only_hard_fail_refuses(
    repo: Repo, folder: Path, mode: str, code: int
) -> None:
    hooks(repo, mode)
    absent = repo.commit("a", "x", ok=False, BUS_AGENT="a")
    assert absent.code == code
    assert f"no supervisor runs for {repo.home}: bus up" in absent.err
    repo.write("b", "x")
    with says_leases(repo.home) as bus:
        bus.hangs = True
        began = time.monotonic()
        hangs = repo.git("hook", "run", "pre-commit", ok=False, BUS_AGENT="a")
        took_s = time.monotonic() - began
    assert hangs.code == code
    assert "the bus does not answer in time (stopped, or overloaded)" in hangs.err
    assert took_s < 5, "each wait of the command itself is longer"
    says = "this commit goes on unchecked: " if mode == "advisory" else "git commit --no-verify"
    assert says in absent.err
    assert says in hangs.err
    assert not (repo.home / "bus.db").exists(), "a hook starts nothing"


def test_what_git_calls_says_how_it_is_called(repo: Repo) -> None:
    for words in ([], ["post-merge"], ["pre-commit", "--mode", "soft"]):
        done = subprocess.run([BUS, "hooks", "run", *words], env=repo.environment, capture_output=True, check=False)
        assert (done.returncode, b"this is what git's hooks call: bus hooks run" in done.stderr) == (64, True)
