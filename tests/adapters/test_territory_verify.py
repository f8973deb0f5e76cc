"""`bus verify` on real repositories: one violation of each root cause, and every kind of repository and path."""

import json
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.territory_repository import T0, Repository, document, lease, lines, ranged
from tests.end_to_end.playground import ends

from interlock.adapters.cli import app, asking, history_asked
from interlock.adapters.cli.options import Failure, Options
from interlock.adapters.territory import git_call
from interlock.adapters.territory.git_call import Git
from interlock.adapters.territory.given_file import read_given, write_given
from interlock.adapters.territory.history import check_history
from interlock.adapters.territory.problem import Problem
from interlock.adapters.territory.verification import Report, verify
from interlock.protocol.envelope import wire_time


def check(repository: Repository, *leases: dict[str, Any], base: str = "main", caller: str = "", **more: Any) -> Report:
    history = check_history(document(*leases, **more), "a test")
    return verify(Git(str(repository.place)), base, "HEAD", history, caller)


def found(report: Report) -> set[tuple[str, str, str]]:
    return {(each.path, each.cause, each.holder) for each in report.violations}


@pytest.fixture(scope="module")
def each_cause(tmp_path_factory: pytest.TempPathFactory) -> tuple[Repository, dict[str, Any], dict[str, str]]:
    """A branch of three agents with a violation of each cause, the leases beside it, and its commits."""
    repository = Repository(tmp_path_factory.mktemp("causes") / "r")
    text = {f"{name}.txt": lines() for name in ("mine", "none", "late", "theirs", "ranged", "early", "nobody", "now")}
    repository.commit(text)
    repository.git("checkout", "-q", "-b", "branch")
    blob = repository.blob("ranged.txt")
    commits = {
        "mine": repository.commit({"mine.txt": lines(1)}, "alice", minute=10),
        "none": repository.commit({"none.txt": lines(2)}, "alice", minute=11),
        "late": repository.commit({"late.txt": lines(3)}, "alice", minute=12),
        "theirs": repository.commit({"theirs.txt": lines(4)}, "alice", minute=13),
        "ranged": repository.commit({"ranged.txt": lines(12, 30, 31)}, "alice", minute=14),
        "early": repository.commit({"early.txt": lines(6)}, "alice", minute=15),
        "nobody": repository.commit({"nobody.txt": lines(7)}, minute=16),
        "now": repository.commit({"now.txt": lines(8)}, "alice", minute=17),
        "recorded": repository.commit({"mine.txt": lines(1, 9)}, "mallory", minute=18),
    }
    exported = document(
        lease("alice", "mine.txt", "now.txt", begun=1, ended=17.5),
        lease("alice", "late.txt", begun=1, ended=12),
        lease("bob", "theirs.*", begun=12, ended=30),
        lease("alice", ranged("ranged.txt", 10, 20, blob), begun=1, ended=20),
        lease("alice", "early.txt", begun=1, ended=14, how="released"),
        lease("carol", "now.txt", begun=18),
        lease("bob", "mine.txt", begun=17.8, ended=19),
        commits={commits["recorded"]: ("bob", T0 + 18 * 60_000)},
    )
    return repository, exported, commits


EXPECTED = {
    "none": ("none.txt", [[2, 2]], "no_lease", ""),
    "late": ("late.txt", [[3, 3]], "expired_before_commit", ""),
    "theirs": ("theirs.txt", [[4, 4]], "held_by_other", "bob"),
    "ranged": ("ranged.txt", [[30, 31]], "outside_range", ""),
    "early": ("early.txt", [[6, 6]], "released_early", ""),
    "nobody": ("nobody.txt", [[7, 7]], "unknown_agent", ""),
}


@pytest.fixture
def run(
    each_cause: tuple[Repository, dict[str, Any], dict[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> Callable[..., tuple[int, str]]:
    """`bus verify --base main --leases FILE` in that repository, and what it prints."""
    repository, exported, _ = each_cause
    file = tmp_path / "leases.json"
    file.write_text(json.dumps(exported))
    monkeypatch.chdir(repository.place)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setenv("BUS_HOME", str(tmp_path / "no-home"))

    def run(*words: str, options: Options | None = None) -> tuple[int, str]:
        code = app.run(["verify", "--base", "main", "--leases", str(file), *words], options or Options())
        assert not (tmp_path / "no-home").exists(), "no bus is looked for"
        return code, capfdbinary.readouterr().out.decode()

    return run


def test_a_branch_with_one_violation_of_each_cause(
    run: Callable[..., tuple[int, str]], each_cause: tuple[Repository, dict[str, Any], dict[str, str]]
) -> None:
    _, _, commits = each_cause
    code, out = run(options=Options(json=True))
    said = json.loads(out)
    assert code == 1
    assert said["pairs_checked"] == 9
    expected = [
        {"path": path, "lines": at, "cause": cause, "holder": holder, "commit": commits[name],
         "agent": "" if name == "nobody" else "alice"}
        for name, (path, at, cause, holder) in EXPECTED.items()
    ]  # fmt: skip
    now = {
        "path": "now.txt",
        "lines": [[8, 8]],
        "cause": "held_by_other",
        "holder": "carol",
        "commit": "",
        "agent": "alice",
    }
    assert said["violations"] == [*expected, now]
    assert said["causes"]["held_by_other"] == 2
    assert (said["unknown"], said["excluded"], said["ranges_not_followed"]) == (0, 0, 0)


def test_a_person_reads_a_table_and_what_to_do(run: Callable[..., tuple[int, str]]) -> None:
    code, out = run()
    assert code == 1
    table, _, rest = out.partition("checked ")
    assert [line.split()[:2] for line in table.splitlines()[1:]] == [
        *([cause, path] for path, _, cause, _ in EXPECTED.values()), ["held_by_other", "now.txt"],
    ]  # fmt: skip
    assert rest.startswith("9 pairs of a commit and a path, 9 commits: 7 violations (2 held_by_other, ")
    assert "released_early: the lease was given back before the commit: commit first, then release" in rest


def test_the_callers_name_is_the_last_resort(run: Callable[..., tuple[int, str]]) -> None:
    _, out = run(options=Options(name="alice", how="--as", json=True))
    of_nobody = [each for each in json.loads(out)["violations"] if each["path"] == "nobody.txt"]
    assert [(each["cause"], each["agent"]) for each in of_nobody] == [("no_lease", "alice")]


def test_github_is_told_in_its_own_words(run: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    _, out = run()
    told = [line for line in out.splitlines() if line.startswith("::")]
    assert len(told) == 7
    assert told[3].startswith(
        "::error file=ranged.txt,line=30,endLine=31,title=bus verify%3A outside_range::outside_range"
    )
    code, out = run(options=Options(json=True))
    assert (code, len(json.loads(out)["violations"])) == (1, 7), "and --json is JSON all the same"


def test_sarif_has_what_its_schema_asks_for(run: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    file = tmp_path / "out.sarif"
    run("--sarif", str(file))
    log = json.loads(file.read_text())
    [ran] = log["runs"]
    driver = ran["tool"]["driver"]
    assert log["version"] == "2.1.0"
    assert (driver["name"], len(driver["rules"])) == ("bus verify", 6)
    assert all({"id", "shortDescription"} <= set(rule) for rule in driver["rules"])
    assert len(ran["results"]) == 7
    for result in ran["results"]:
        [place] = result["locations"]
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] == "error"
        assert result["message"]["text"].startswith(result["ruleId"])
        assert place["physicalLocation"]["artifactLocation"]["uri"] in {f"{path[0]}" for path in EXPECTED.values()} | {
            "now.txt"
        }
        assert place["physicalLocation"]["region"]["startLine"] >= 1
    prints = {result["partialFingerprints"]["interlock/v1"] for result in ran["results"]}
    assert len(prints) == 7, "each is an alert of its own"


def test_over_a_bus_it_asks_for_the_history_and_has_the_outcome_counted(
    each_cause: tuple[Repository, dict[str, Any], dict[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    repository, exported, _ = each_cause
    asked = fake_bus(monkeypatch, tmp_path, exported)
    monkeypatch.chdir(repository.place)
    assert app.run(["verify", "--base", "main"], Options(json=True)) == 1
    said = json.loads(capfdbinary.readouterr().out)
    where = str(repository.place)
    assert asked == [
        {"type": "LEASES", "directory": where, "after": ""},
        {"type": "RECORD_VERIFIED", "directory": where, "pairs": 9, "violations": said["causes"], "unknown": 0},
    ]
    [nobody] = [each for each in said["violations"] if each["path"] == "nobody.txt"]
    assert nobody["agent"] == "zoe", "the name that the bus knows who asks by"


def fake_bus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: dict[str, Any]) -> list[dict[str, Any]]:
    """A supervisor whose log comes to this, and that refuses everything else; what it is asked."""
    asked: list[dict[str, Any]] = []

    class Answering:
        def __init__(self, *_: object, **__: object) -> None:
            self.welcome = {"agent": "zoe"}

        def __enter__(self) -> "Answering":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def ask(self, to: str, *, body: dict[str, Any]) -> dict[str, Any]:
            assert to == "supervisor"
            asked.append(body)
            refused = {"type": "REFUSED", "code": "INTERNAL", "why": "no"}
            page = {"type": "LEASES_REPLY", "leases": [], "territory": "territory/t"}
            return {"body": page if body["type"] == "LEASES" else refused, "exit": 74}

    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "bus.db").touch()
    monkeypatch.setenv("BUS_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(asking, "Connection", Answering)
    monkeypatch.setattr(history_asked, "Connection", Answering)
    monkeypatch.setattr(history_asked, "_events", lambda connection, territory: [])
    monkeypatch.setattr(history_asked, "history_of", lambda *_: dict(answer))
    return asked


def test_an_export_is_cut_where_it_is_told_to_and_written_whole(
    each_cause: tuple[Repository, dict[str, Any], dict[str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    repository, exported, _ = each_cause
    fake_bus(monkeypatch, tmp_path, exported)
    monkeypatch.chdir(repository.place / ".git" / "refs")
    file = tmp_path / "leases.json"
    file.write_text("older")
    assert app.run(["export", "--output", str(file)], Options()) == 0
    assert json.loads(file.read_text()) == exported
    since = "2026-09-21T14:30:00Z"  # T0 + 16 min 40 s
    assert app.run(["export", "--since", since, "--output", str(file)], Options()) == 0
    cut = json.loads(file.read_text())
    assert cut["complete_from_ms"] == T0 + 1_000_000
    assert [each["claims"][0]["pattern"] for each in cut["leases"]] == [
        "mine.txt",
        "theirs.*",
        "ranged.txt",
        "now.txt",
        "mine.txt",
    ]
    report = verify(Git(str(repository.place)), "main", "HEAD", check_history(cut, "a test"), "")
    assert {each.path for each in report.unknown} == {"none.txt", "late.txt", "early.txt", "nobody.txt", "ranged.txt"}
    with pytest.raises(Failure, match="is no time: write 30d") as wrong:
        app.run(["export", "--since", "soon"], Options())
    assert wrong.value.exit_code == 64
    with pytest.raises(Failure, match=r"cannot be written .*: give another name") as wrong:
        app.run(["export", "--output", str(tmp_path)], Options())
    assert wrong.value.exit_code == 73


def test_a_file_that_was_named_is_for_others_to_read_and_nothing_but_a_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "there")
    before = os.umask(0o022)
    try:
        write_given(str(tmp_path / "link"), b"x")
    finally:
        os.umask(before)
    assert ((tmp_path / "link").is_symlink(), (tmp_path / "there").read_bytes()) == (True, b"x")
    assert stat.S_IMODE((tmp_path / "there").stat().st_mode) == 0o644
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to-null").symlink_to(os.devnull)
    for name in ("pipe", "to-null", "no\0name", "nowhere/file"):
        with pytest.raises(Problem, match="cannot be written") as wrong:
            write_given(str(tmp_path / name), b"x")
        assert wrong.value.exit_code == 73
    with pytest.raises(Problem, match=r"cannot be read .*: give a file of bus export") as wrong:
        read_given(str(tmp_path / "pipe"), 9)  # and it is not waited for
    assert wrong.value.exit_code == 65
    with pytest.raises(Problem, match="has more than 0 bytes"):
        read_given(str(tmp_path / "there"), 0)


def test_where_there_has_been_no_bus_none_is_started(
    each_cause: tuple[Repository, dict[str, Any], dict[str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(each_cause[0].place)
    monkeypatch.setenv("BUS_HOME", str(tmp_path / "none"))
    with pytest.raises(Failure, match="there has been no bus here") as wrong:
        app.run(["verify", "--base", "main"], Options())
    assert wrong.value.exit_code == 69
    assert not (tmp_path / "none").exists()


def test_what_somebody_held_then_and_holds_still_is_said_once(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.commit({"f": "1", "g": "1"})
    repository.git("checkout", "-q", "-b", "branch")
    repository.commit({"f": "2"}, "alice", minute=1)
    repository.commit({"g": "2"}, "alice", minute=1)
    report = check(repository, lease("bob", "f"), lease("alice", "g", ended=2), lease("bob", "g", begun=2))
    assert [(each.path, bool(each.commit)) for each in report.violations] == [("f", True), ("g", False)]


def test_a_commit_that_is_younger_than_what_is_known_is_told_apart(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.commit({"f": "1"})
    repository.git("checkout", "-q", "-b", "branch")
    repository.commit({"f": "2"}, "alice", minute=1)
    young = repository.commit({"f": "3"}, "alice", minute=3)
    exported = document() | {"at": wire_time(T0 + 120_000)}
    report = verify(Git(str(repository.place)), "main", "HEAD", check_history(exported, "a test"), "")
    assert (len(report.violations), report.later) == (2, 1)
    recorded = exported | {"commits": {young: {"agent": "alice", "at_ms": T0 + 180_000}}}
    assert verify(Git(str(repository.place)), "main", "HEAD", check_history(recorded, "a test"), "").later == 0


# --- ranges, followed -------------------------------------------------------------------------
def test_a_range_is_followed_through_what_others_did_above_it(tmp_path: Path) -> None:
    """Taken on 10-20; somebody adds 15 lines above: the same lines are 25-35 then, and 10-20 are somebody else's."""
    repository = Repository(tmp_path)
    repository.commit({"f": lines()})
    blob = repository.blob("f")
    repository.git("checkout", "-q", "-b", "branch")
    repository.commit({"f": lines(inserted={2: 15})}, "bob", minute=1)
    repository.commit({"f": lines(10, 20, inserted={2: 15})}, "alice", minute=2)
    repository.commit({"f": lines(10, 20, inserted={2: 15, 9: 1, 20: 2})}, "alice", minute=3)  # next to it, both sides
    good = [lease("bob", ranged("f", 1, 9, blob), ended=9), lease("alice", ranged("f", 10, 20, blob), ended=9)]
    assert found(check(repository, *good)) == set()
    repository.commit({"f": lines(9, 10, 20, inserted={2: 15, 9: 1, 20: 2})}, "alice", minute=4)
    bad = check(repository, *good)
    assert found(bad) == {("f", "held_by_other", "bob")}
    assert bad.violations[0].lines == [(24, 24)]
    assert bad.adrift == 0


def test_a_range_whose_version_git_does_not_have_counts_as_it_is_and_that_is_said(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.commit({"f": lines()})
    repository.git("checkout", "-q", "-b", "branch")
    repository.commit({"f": lines(12)}, "alice", minute=1)
    report = check(repository, lease("alice", ranged("f", 10, 20, "0" * 39 + "1")))
    assert (found(report), report.adrift) == (set(), 1)


@pytest.mark.parametrize(
    ("change", "mode"), [({"f": None}, ""), ({"f": None, "g": lines()}, ""), ({}, "+x"), ({"f": b"\0\1"}, "")]
)
def test_a_range_does_not_cover_what_is_done_to_the_file_itself(
    tmp_path: Path, change: dict[str, str | bytes | None], mode: str
) -> None:
    repository = Repository(tmp_path)
    repository.commit({"f": lines(), "other": "x"})
    repository.git("checkout", "-q", "-b", "branch")
    if mode:
        (repository.place / "f").chmod(0o755)
    blob = repository.blob("f")
    repository.commit(change, "alice", minute=1)
    report = check(repository, lease("alice", ranged("f", 1, 60, blob)), lease("alice", "g"))
    assert found(report) == {("f", "outside_range", "")}


# --- merges, renames, what needs no lease -----------------------------------------------------
def test_a_merge_is_asked_only_for_what_no_parent_has(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.commit({"f": lines(), "g": lines()})
    repository.git("checkout", "-q", "-b", "branch")
    repository.commit({"f": lines(1)}, "alice", minute=1)
    repository.git("checkout", "-q", "main")
    repository.commit({"f": lines(60)}, "bob", minute=2)
    repository.git("checkout", "-q", "branch")
    repository.git("merge", "-q", "main", "-m", "merge", at_ms=T0 + 180_000)
    good = check(repository, lease("alice", "f"))
    assert (found(good), good.pairs, good.commits) == (set(), 1, 2), (
        "both sides of f are in the merge, and no line is new"
    )
    repository.write({"f": lines(1, 30, 60), "g": lines(5)})
    repository.git("commit", "-q", "-a", "--amend", "-m", "merge\n\nInterlock-Agent: carol", at_ms=T0 + 180_000)
    evil = check(repository, lease("alice", "f"))
    assert found(evil) == {("f", "held_by_other", "alice"), ("g", "no_lease", "")}
    assert [(each.path, each.lines) for each in evil.violations] == [("f", [(30, 30)]), ("g", [(5, 5)])]


def test_a_rename_needs_a_lease_on_both_names(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.commit({"old/a": lines(), "old/b": lines()})
    repository.git("checkout", "-q", "-b", "branch")
    repository.commit({"old/a": None, "new/a": lines(), "old/b": None}, "alice", minute=1)
    assert found(check(repository, lease("alice", "old/**"))) == {("new/a", "no_lease", "")}
    assert found(check(repository, lease("alice", "{old,new}/**"))) == set()


def test_what_is_generated_needs_none_as_the_base_says_and_the_branch_cannot_say_so(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    base = {
        "bus.toml": '[territory]\nexclude = ["dist/**", "*.lock"]\n',
        ".gitattributes": "*.pb.go linguist-generated\nkept.pb.go -linguist-generated\n",
        "sub/.gitattributes": "made/** linguist-generated=true\n",
    }
    repository.commit(base)
    repository.git("checkout", "-q", "-b", "branch")
    free = ["dist/a/b.js", "x.lock", "a b.pb.go", "deep/é.pb.go", "sub/made/here"]
    asked = ["src/x", "kept.pb.go", "deep/x.lock", "made/here", "bus.toml", ".gitattributes"]
    repository.commit(dict.fromkeys(free + asked[:4], "x"), "alice", minute=1)
    excuse = {"bus.toml": '[territory]\nexclude = ["**"]\n', ".gitattributes": "* linguist-generated\n"}
    repository.commit(excuse, "alice", minute=2)
    report = check(repository)
    assert {path for path, _, _ in found(report)} == set(asked)
    assert (report.pairs, report.excluded) == (6, 5)
    repository.git("checkout", "-q", "main")
    repository.commit({"bus.toml": "[territory]\nexclude = 'dist'\n"})
    repository.git("checkout", "-q", "branch")
    with pytest.raises(
        Problem, match=r"bus.toml of the base commit \w+:2: \[territory\] exclude must be a list"
    ) as wrong:
        check(repository)
    assert wrong.value.exit_code == 78


# --- hostile paths and repositories -----------------------------------------------------------
HOSTILE = [
    "with space", "two\nlines", 'quo"te', "tab\there", "back\\slash", "💥/ü", ":(glob)**", "-rf", "a,b:c%d",
    "::error file=x::y", "@@ -1,1 +1,1 @@", "e\u0301", "/".join(["d" * 200] * 20) + "/end",
]  # fmt: skip


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Every path that a file system takes and some that it does not: made by index, not by files."""
    repository = Repository(tmp_path_factory.mktemp("hostile") / "r\nx: y")
    repository.commit({"README": "x"})
    repository.git("checkout", "-q", "-b", "branch")
    for number, text in enumerate((lines(), lines(2, 3))):
        blob = repository.git("hash-object", "-w", "--stdin", given=text.encode())
        paths = [*(os.fsencode(path) for path in HOSTILE), b"no-utf8-\xff"]
        repository.git("update-index", "-z", "--index-info", given=b"".join(
            f"100644 {blob}\t".encode() + path + b"\0" for path in paths
        ))  # fmt: skip
        repository.git("commit", "-q", "-m", "x\n\nInterlock-Agent: alice", at_ms=T0 + number * 60_000)
    return repository


def test_every_path_is_seen_as_it_is(hostile: Repository) -> None:
    report = check(hostile)
    assert {each.path for each in report.violations} == {*HOSTILE, "no-utf8-\udcff"}
    assert report.pairs == 2 * (len(HOSTILE) + 1)
    assert {tuple(each.lines) for each in report.violations if each.commit == hostile.git("rev-parse", "HEAD")} == {
        ((2, 3),)
    }
    mine = [
        lease("alice", ranged("two\nlines", 2, 3, hostile.blob("two\nlines", "HEAD^"))),
        lease("alice", "é", begun=0.5),
    ]
    left = found(check(hostile, *mine, base="HEAD^"))
    assert len(left) == len(HOSTILE) - 1, "a range on two lines' name, and a name in its composed form, are both met"


def test_hostile_paths_stay_one_line_and_are_escaped_in_every_output(
    hostile: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    file = tmp_path / "leases.json"
    file.write_text(json.dumps(document()))
    monkeypatch.chdir(hostile.place)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    words = ["verify", "--base", "HEAD^", "--leases", str(file)]
    assert app.run([*words, "--sarif", str(tmp_path / "s")], Options()) == 1
    out = capfdbinary.readouterr().out.decode().splitlines()
    told = [line for line in out if line.startswith("::")]
    assert any("two\\nlines" in line for line in out if line not in told)
    assert all(line.startswith("::error file=") for line in told)
    assert any("file=a%2Cb%3Ac%25d,line=2,endLine=3," in line for line in told)
    assert len(out) == 2 * (len(HOSTILE) + 1) + 3, "an annotation and a row for each, a heading, two lines of summary"
    uris = {
        each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for each in json.loads((tmp_path / "s").read_text())["runs"][0]["results"]
    }
    assert {"two%0Alines", "a%2Cb%3Ac%25d", "no-utf8-%FF", "%3A%3Aerror%20file%3Dx%3A%3Ay"} <= uris
    assert app.run(words, Options(json=True)) == 1
    paths = {each["path"] for each in json.loads(capfdbinary.readouterr().out)["violations"]}
    assert paths == {*HOSTILE, "no-utf8-\udcff"}


def test_bare_worktree_sparse_sha256_and_a_superproject_all_work(hostile: Repository, tmp_path: Path) -> None:
    expected = {(each.path, each.cause) for each in check(hostile, base="HEAD^").violations}
    hostile.git("clone", "-q", "--bare", ".", str(tmp_path / "bare"))
    hostile.git("worktree", "add", "-q", "--no-checkout", "--detach", str(tmp_path / "linked"), "branch")
    hostile.git("clone", "-q", "--sparse", "--no-checkout", ".", str(tmp_path / "sparse"))
    history = check_history(document(), "a test")
    for name in ("bare", "linked", "sparse"):
        report = verify(Git(str(tmp_path / name)), "HEAD^", "HEAD", history, "")
        assert {(each.path, each.cause) for each in report.violations} == expected, name
    other = Repository(tmp_path / "sha256", "--object-format=sha256")
    other.commit({"f": lines()})
    blob = other.blob("f")
    other.commit({"f": lines(3)}, "alice", minute=1)
    assert found(check(other, lease("alice", ranged("f", 3, 3, blob)), base="HEAD^")) == set()
    above = Repository(tmp_path / "above")
    above.commit({"f": "x"})
    above.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    above.git("commit", "-q", "-m", "x\n\nInterlock-Agent: alice")
    above.write({".gitmodules": '[submodule "sub"]\n\tpath = sub\n\turl = x\n\tignore = all\n'})
    assert found(check(above, lease("alice", "f"), base="HEAD^")) == {("sub", "no_lease", "")}
    assert found(check(above, lease("alice", "sub"), base="HEAD^")) == set()


def test_a_clone_that_is_too_shallow_says_so(tmp_path: Path) -> None:
    whole = Repository(tmp_path / "whole")
    for number in range(4):
        whole.commit({"f": f"{number}"}, "alice")
    whole.git("branch", "old", "HEAD~3")
    whole.git("checkout", "-q", "-b", "side", "HEAD~3")
    whole.commit({"g": "1"}, "alice")
    whole.commit({"g": "2"}, "alice")
    whole.git("checkout", "-q", "main")
    whole.git("merge", "-q", "-m", "merge", "side")
    whole.git("clone", "-q", "--depth=2", "--no-single-branch", f"file://{whole.place}", str(tmp_path / "cut"))
    shallow = Repository(tmp_path / "cut")
    mine = check_history(document(lease("alice", "g")), "a test")
    enough = verify(Git(str(shallow.place)), "origin/side^", "origin/side", mine, "")
    assert (enough.pairs, found(enough)) == (1, set()), "what is there is enough"
    for base in ("origin/old", "HEAD^"):  # where they part is not there; what was merged is not there as a whole
        with pytest.raises(Problem, match=r"this clone is shallow.*fetch --unshallow") as wrong:
            check(shallow, base=base)
        assert wrong.value.exit_code == 65


@pytest.mark.parametrize(
    ("base", "code", "why"),
    [
        ("nowhere", 64, "--base 'nowhere' names no commit here"),
        ("--output=x", 64, "--base '--output=x' names no commit here"),
        ("main:README", 64, "names no commit here"),
        ("alone", 65, "have no commit in common"),
    ],
)
def test_a_base_that_cannot_be_compared_with_is_one_sentence(
    hostile: Repository, base: str, code: int, why: str
) -> None:
    if base == "alone":
        tree = hostile.git("mktree", given=b"")
        hostile.git("branch", "-f", "alone", hostile.git("commit-tree", "-m", "x", tree))
    with pytest.raises(Problem, match=why) as wrong:
        check(hostile, base=base)
    assert wrong.value.exit_code == code


def test_no_repository_and_no_git_are_each_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Problem, match="no git repository here: go into one") as wrong:
        verify(Git(str(tmp_path)), "a", "b", check_history(document(), "a test"), "")
    assert wrong.value.exit_code == 64
    with pytest.raises(Problem, match="gone is not there any more: go into a folder that is") as wrong:
        Git(str(tmp_path / "gone")).run("version")
    assert wrong.value.exit_code == 69
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Problem, match="git is not found") as wrong:
        Git(str(tmp_path)).run("version")
    assert wrong.value.exit_code == 69


def test_git_that_hangs_or_never_stops_talking_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git = tmp_path / "git"
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(git_call, "GIT_S_MAX", 0.3)
    git.write_text(f"#!/bin/sh\nsleep 1000 &\necho $! > {tmp_path}/pid\n")  # it has ended, what it started has not
    git.chmod(0o755)
    with pytest.raises(Problem, match="git rev-list took longer than 0 s") as late:
        Git(str(tmp_path)).run("rev-list")
    assert late.value.exit_code == 74
    assert ends(int((tmp_path / "pid").read_text())), "with what it had started"
    monkeypatch.setattr(git_call, "GIT_S_MAX", 60.0)
    monkeypatch.setattr(git_call, "OUTPUT_BYTES_MAX", 100_000)
    git.write_text("#!/bin/sh\nexec yes\n")
    with pytest.raises(Problem, match="git rev-list has too much to say") as many:
        Git(str(tmp_path)).run("rev-list")
    assert many.value.exit_code == 65


def test_nothing_that_a_repository_configures_is_run_or_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Monitors, hooks, drivers and pagers are not run; a replaced commit and git's own variables change nothing."""
    repository = Repository(tmp_path / "r")
    repository.commit({"f": lines(), ".gitattributes": "* diff=evil\n"})
    repository.git("checkout", "-q", "-b", "branch")
    bad = repository.commit({"f": lines(5)}, "alice", minute=1)
    good = repository.git("commit-tree", "-m", "x", "-p", "main", "main^{tree}")
    repository.git("replace", bad, good)
    ran = tmp_path / "ran"
    program = tmp_path / "evil"
    program.write_text(f"#!/bin/sh\ntouch '{ran}'\n")
    program.chmod(0o755)
    with (repository.place / ".git" / "config").open("a") as config:
        config.write(
            f'[core]\n\tfsmonitor = "{program}"\n\thooksPath = {tmp_path}\n\tpager = "{program}"\n'
            f'[diff]\n\texternal = "{program}"\n\trenames = copies\n\tnoprefix = true\n\tcontext = 9\n'
            f'[diff "evil"]\n\ttextconv = "{program}"\n\tcommand = "{program}"\n[log]\n\tshowSignature = true\n'
            f'[gpg]\n\tprogram = "{program}"\n'
        )
    for name, value in {
        "GIT_EXTERNAL_DIFF": str(program),
        "GIT_DIFF_OPTS": "-u9",
        "GIT_LITERAL_PATHSPECS": "1",
    }.items():
        monkeypatch.setenv(name, value)
    before = sorted(str(path) for path in (repository.place / ".git").rglob("*"))
    report = check(repository, lease("alice", ranged("f", 1, 3, repository.blob("f", "main"))))
    assert [(each.path, each.lines, each.cause) for each in report.violations] == [("f", [(5, 5)], "outside_range")]
    assert not ran.exists()
    assert sorted(str(path) for path in (repository.place / ".git").rglob("*")) == before, "and nothing is written"


@pytest.mark.slow
def test_a_thousand_commits_and_a_hundred_thousand_files_take_seconds(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    stream = [b"blob\nmark :1\ndata 2\nx\n\nblob\nmark :2\ndata 2\ny\n\n"]
    stream.append(b"commit refs/heads/main\ncommitter t <t@localhost> 1790000000 +0000\ndata 0\n")
    stream += [f"M 100644 :1 d{number // 100}/f{number}\n".encode() for number in range(100_000)]
    for commit in range(1_000):
        said = b"x\n\nInterlock-Agent: alice"
        stream.append(f"commit refs/heads/branch\ncommitter t <t@localhost> {1790000001 + commit} +0000\n".encode())
        stream.append(f"data {len(said)}\n".encode() + said + b"\n")
        stream.append(b"from refs/heads/main\n" if not commit else b"")
        stream += [f"M 100644 :2 d{commit}/f{commit * 100 + number}\n".encode() for number in range(50)]
    repository.git("fast-import", "--quiet", given=b"".join(stream))
    leases = [lease("alice", f"d{number}/**") for number in range(999)]
    history = check_history(document(*leases), "a test")
    report = verify(Git(str(tmp_path)), "main", "branch", history, "")
    assert (report.pairs, report.commits, len(report.violations)) == (50_000, 1_000, 50)


def test_the_command_itself_ends_with_one_where_there_is_a_violation(
    each_cause: tuple[Repository, dict[str, Any], dict[str, str]], tmp_path: Path
) -> None:
    """The real one, as a CI step runs it: leases on its standard input."""
    repository, exported, _ = each_cause
    bus = Path(__file__).parents[2] / ".venv" / "bin" / "bus"
    done = subprocess.run(
        [bus, "verify", "--base", "main", "--leases", "-"],
        input=json.dumps(exported), capture_output=True, text=True, cwd=repository.place, check=False,
        env={"PATH": os.environ["PATH"], "BUS_HOME": str(tmp_path / "home"), "GITHUB_ACTIONS": "true"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.count("::error file=") == 7
