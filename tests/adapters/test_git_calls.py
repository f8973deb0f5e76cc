"""Git as it is called: it asks nobody, ends in time, and nothing of a caller's environment or a hook comes through."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.end_to_end.playground import ends

from interlock.adapters.territory import git_calls
from interlock.adapters.territory.git_calls import GitFailed, environment, run


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    run(["init", "-q", "--initial-branch=main", str(tmp_path / "r")], str(tmp_path), timeout_s=20)
    return tmp_path / "r"


def test_it_says_what_git_says_and_is_fed(repository: Path) -> None:
    large = b"x" * 3_000_000  # more than a pipe holds, both ways
    blob = run(["hash-object", "-w", "--stdin"], str(repository), input=large, timeout_s=20).decode().strip()
    assert run(["cat-file", "blob", blob], str(repository), timeout_s=20) == large


def test_a_failure_is_one_sentence_with_gits_own_words(repository: Path) -> None:
    with pytest.raises(GitFailed, match=r"^git cat-file failed \(exit 128: Not a valid object name nothing\)$") as told:
        run(["cat-file", "-p", "nothing"], str(repository), timeout_s=20)
    assert told.value.exit_code == 128
    assert run(["config", "--get", "no.such"], str(repository), timeout_s=20, accept=(0, 1)) == b""


def test_a_missing_git_and_a_missing_folder_are_told_apart(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(GitFailed, match="is not there any more"):
        run(["status"], str(tmp_path / "gone"), timeout_s=20)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitFailed, match="git is not found"):
        run(["status"], str(repository), timeout_s=20)


def test_what_hangs_is_killed_with_all_that_it_started(repository: Path) -> None:
    subprocess.run(["git", "config", "alias.hang", "!echo $$ > pid; sleep 1000"], cwd=repository, check=True)
    with pytest.raises(GitFailed, match=r"^git hang did not end within 0\.5 s$"):
        run(["hang"], str(repository), timeout_s=0.5)
    assert ends(int((repository / "pid").read_text()))


def test_what_a_git_that_has_ended_left_behind_is_killed(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = tmp_path / "bin" / "git"
    git.parent.mkdir()
    git.write_text(f"#!/bin/sh\nsleep 100 &\necho $! > {tmp_path}/pid\n")
    git.chmod(0o755)
    monkeypatch.setenv("PATH", f"{git.parent}:{os.environ['PATH']}")
    with pytest.raises(GitFailed, match="did not end within"):
        run(["status"], str(repository), timeout_s=1)
    assert ends(int((tmp_path / "pid").read_text()))


def test_too_much_is_refused_and_not_kept(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_calls, "OUTPUT_BYTES_MAX", 1024)
    subprocess.run(["git", "config", "alias.yes", "!yes"], cwd=repository, check=True)
    with pytest.raises(GitFailed, match="says more than"):
        run(["yes"], str(repository), timeout_s=20)


def test_a_callers_git_variables_and_hooks_count_only_where_they_are_asked_for(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'core.hooksPath'='elsewhere'")
    assert run(["rev-parse", "--git-dir"], str(repository), timeout_s=20) == b".git\n"
    with pytest.raises(GitFailed, match="not a git repository"):
        run(["rev-parse", "--git-dir"], str(repository), timeout_s=20, keep=git_calls.OF_A_HOOK)
    monkeypatch.setenv("GIT_DIR", str(repository / ".git"))
    asked = run(["rev-parse", "--git-path", "hooks"], str(repository), timeout_s=20, hooks_path=True)
    assert asked == b".git/hooks\n"
    assert run(["rev-parse", "--git-path", "hooks"], str(repository), timeout_s=20) == b"/dev/null\n"
    assert environment({"GIT_ASKPASS": "/bin/ask"})["GIT_ASKPASS"] == ""


def test_a_file_monitor_of_the_repository_is_not_run(repository: Path) -> None:
    subprocess.run(["git", "config", "core.fsmonitor", "touch ran; true"], cwd=repository, check=True)
    run(["status", "--porcelain=v2", "-z"], str(repository), timeout_s=20)
    assert not (repository / "ran").exists()
