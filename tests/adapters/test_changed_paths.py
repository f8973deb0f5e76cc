"""Git's list for a report: everything since the assignment, as git itself shows it, and nothing of others."""

import os
import subprocess
from pathlib import Path

import pytest

from interlock.adapters import changed_paths
from interlock.adapters.changed_paths import changed_since
from interlock.adapters.git_head import head_of


def git(where: Path, *words: str) -> str:
    settings = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *settings, *words], cwd=where, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / ".gitignore").write_text("ignored\n")
    for name in ("kept", "changed", "deleted", "committed", "a b\nc"):
        (tmp_path / name).write_text(name)
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def test_what_is_committed_and_what_is_not_and_what_is_not_followed(work: Path) -> None:
    base = head_of(str(work))
    (work / "committed").write_text("2")
    git(work, "commit", "-qam", "second")
    (work / "changed").write_text("2")
    (work / "a b\nc").write_text("2")
    (work / "deleted").unlink()
    (work / "staged").write_text("new")
    git(work, "add", "staged")
    (work / "new").write_text("new")
    (work / "ignored").write_text("x")
    rows, more = changed_since(str(work), base)
    assert {row["path"]: row["how"] for row in rows} == {
        "committed": "M", "changed": "M", "a b\nc": "M", "deleted": "D", "staged": "A", "new": "?",
    }  # fmt: skip
    assert more == 0


def test_what_others_did_on_the_branch_it_left_is_not_its_own(work: Path) -> None:
    git(work, "switch", "-qc", "task")
    (work / "mine").write_text("x")
    git(work, "add", "mine")
    git(work, "commit", "-qm", "mine")
    git(work, "switch", "-q", "main")
    (work / "theirs").write_text("x")
    git(work, "add", "theirs")
    git(work, "commit", "-qm", "theirs")
    base = head_of(str(work))
    git(work, "switch", "-q", "task")
    assert changed_since(str(work), base) == ([{"path": "mine", "how": "A"}], 0)


@pytest.mark.parametrize("base", ["", "0" * 40, "not-a-commit"])
def test_from_an_unknown_commit_what_is_not_committed_is_shown(work: Path, base: str) -> None:
    (work / "changed").write_text("2")
    assert changed_since(str(work), base) == ([{"path": "changed", "how": "M"}], 0)


def test_before_the_first_commit_there_are_only_new_files(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "new").write_text("x")
    assert head_of(str(tmp_path)) == ""
    assert changed_since(str(tmp_path), "") == ([{"path": "new", "how": "?"}], 0)


def test_a_list_that_is_too_long_is_cut_and_the_rest_counted(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(9):
        (work / f"new-{number}").write_text("x")
    monkeypatch.setattr(changed_paths, "CHANGES_REPORTED_MAX", 4)
    rows, more = changed_since(str(work), "")
    assert ([row["path"] for row in rows], more) == ([f"new-{number}" for number in range(4)], 5)
    monkeypatch.setattr(changed_paths, "PATHS_BYTES_MAX", 80)
    assert changed_since(str(work), "")[1] == 7


def test_a_name_that_is_no_utf8_can_be_sent(work: Path) -> None:
    try:
        (work / os.fsdecode(b"caf\xe9")).write_text("x")
    except OSError:
        pytest.skip("this file system takes no such name")
    [row] = changed_since(str(work), "")[0]
    row["path"].encode()
