"""Hooks put in and taken away: what was there is run as before, in every worktree, and is there again afterwards."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import scratch
from tests.adapters.hooked import Repo

from interlock.adapters.territory import hook_files
from interlock.adapters.territory.hook_files import CannotInstall, NothingInstalled, install, look, remove
from interlock.adapters.territory.hook_place import HookPlace, NoPlace, hook_place
from interlock.adapters.territory.hook_record import Busy, Record, one_at_a_time
from interlock.adapters.territory.hook_text import CHECKED, OTHERS

STRANGE = "we $(touch pwned) 'and' \"so\"\n;é"
SAYS = '#!/bin/sh\nprintf "%s" "$0|$*" | tr "\\n" " " >> "$LOG"; echo >> "$LOG"\n'


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch.folder() as made:
        yield made


@pytest.fixture
def repo(folder: Path) -> Repo:
    return Repo(folder / STRANGE / "r", folder / "bus")


@pytest.fixture
def bus(folder: Path) -> str:
    """A command that says how it was called, and ends as the test wants."""
    (folder / "b in").mkdir()
    path = folder / "b in" / "bus"
    path.write_text('#!/bin/sh\necho "bus $*|$(cat)" >> "$LOG"\nexit ${CODE:-0}\n')
    path.chmod(0o755)
    return str(path)


def place(repo: Repo, cwd: Path | None = None) -> HookPlace:
    """As the command finds it; without the user's own configuration, as that of these tests is empty."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in repo.environment.items():
            patch.setenv(name, value)
        return hook_place(str(cwd or repo.folder))


def hook(path: Path, text: str = SAYS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def snapshot(root: Path) -> dict[str, tuple[int, bytes]]:
    """All that is below, but for what every commit changes."""
    return {
        str(path.relative_to(root)): (
            stat.S_IMODE(path.lstat().st_mode),
            os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(root.rglob("*"))
        if not {"objects", "logs", "index", "refs", "COMMIT_EDITMSG"} & set(path.relative_to(root).parts)
    }


def said(folder: Path) -> list[str]:
    log = folder / "log"
    lines = log.read_text().split("\n") if log.exists() else []
    log.unlink(missing_ok=True)
    return [line for line in lines if line]


def commit(repo: Repo, name: str, cwd: Path | None = None, **more: str) -> tuple[int, str]:
    done = repo.commit(name, name, cwd, ok=False, LOG=str(repo.home.parent / "log"), **more)
    return done.code, done.err


def test_installed_twice_nothing_changes_and_removed_all_is_as_it_was(repo: Repo, bus: str) -> None:
    hook(repo.folder / ".git/hooks/pre-commit")
    hook(repo.folder / ".git/hooks/helper")
    (repo.folder / ".git/hooks/pre-push").symlink_to("../../tools/push")
    (repo.folder / ".git/hooks/post-commit").write_text("never made executable\n")
    before = snapshot(repo.folder)

    record, changed = install(place(repo), bus=bus)
    once = snapshot(repo.folder)
    times = {path: path.lstat().st_mtime_ns for path in (repo.folder / ".git/hooks").iterdir()}
    again, changed_again = install(place(repo), bus=bus)

    assert (changed, changed_again) == (True, False)
    assert again == record
    assert snapshot(repo.folder) == once
    assert times == {path: path.lstat().st_mtime_ns for path in (repo.folder / ".git/hooks").iterdir()}
    assert look(place(repo)).works
    assert remove(place(repo))[1] == []
    assert snapshot(repo.folder) == before
    with pytest.raises(NothingInstalled, match="no hooks of bus are installed here"):
        remove(place(repo))


def test_where_no_hooks_folder_was_none_is_left(folder: Path, bus: str) -> None:
    repo = Repo(folder / "r", folder / "bus", "--template=")
    before = snapshot(repo.folder)
    install(place(repo), bus=bus)
    assert commit(repo, "a")[0] == 0
    assert [line.partition("|")[0] for line in said(folder)] == [
        "bus hooks run pre-commit --mode advisory --",
        "bus hooks run post-commit --mode advisory --",
    ]
    remove(place(repo))
    assert {*snapshot(repo.folder)} - {"a"} == {*before}


def test_what_was_there_is_run_first_as_git_would_and_its_failure_is_the_hooks(repo: Repo, bus: str) -> None:
    folder = repo.home.parent
    hook(repo.folder / ".git/hooks/helper", 'echo helped >> "$LOG"\n')
    hook(repo.folder / ".git/hooks/pre-commit", SAYS + '. "$(dirname "$0")/helper"\nexit ${FAILS:-0}\n')
    install(place(repo), bus=bus)

    assert commit(repo, "a")[0] == 0
    first, helped, checked, *_ = said(folder)
    assert (os.path.basename(first.partition("|")[0]), helped) == ("pre-commit", "helped")
    assert checked.startswith("bus hooks run pre-commit --mode advisory --|")

    assert commit(repo, "b", FAILS="3")[0] == 1
    assert said(folder)[-1] == "helped", "bus is not asked any more"


def test_a_push_gives_what_it_says_to_both(repo: Repo, bus: str) -> None:
    folder = repo.home.parent
    hook(repo.folder / ".git/hooks/pre-push", '#!/bin/sh\necho "was $*|$(cat)" >> "$LOG"\n')
    Repo(folder / "far", folder / "bus", "--bare")
    install(place(repo), bus=bus)
    commit(repo, "a")
    said(folder)
    repo.git("push", "-q", str(folder / "far"), "main", LOG=str(folder / "log"))
    was, checked = said(folder)
    assert was.startswith(f"was {folder / 'far'} {folder / 'far'}|refs/heads/main ")
    assert checked.partition("|")[2] == was.partition("|")[2]
    assert checked.startswith(f"bus hooks run pre-push --mode advisory -- {folder / 'far'} ")


def test_husky_is_run_where_it_is_in_each_worktree_and_no_file_of_it_is_touched(repo: Repo, bus: str) -> None:
    """Its folder is relative, ignored and not in every worktree; its stub looks at its own name and place."""
    folder = repo.home.parent
    stub = '#!/usr/bin/env sh\n. "$(dirname "$0")/h"\n'
    runner = 'n=$(basename "$0"); s=$(dirname "$(dirname "$0")")/$n; [ ! -f "$s" ] && exit 0; sh -e "$s" "$@"\n'
    (repo.folder / ".gitignore").write_text("_\n")
    hook(repo.folder / ".husky/pre-commit", 'echo "husky" >> "$LOG"\n')
    repo.git("add", ".")
    repo.git("commit", "-qm", "husky")
    repo.git("config", "core.hooksPath", ".husky/_")
    for name in ("pre-commit", "commit-msg"):
        hook(repo.folder / ".husky/_" / name, stub)
    hook(repo.folder / ".husky/_/h", runner)
    hook(repo.folder / ".husky/commit-msg", 'echo "message $1" >> "$LOG"\n')
    other = folder / "w 2"
    repo.git("worktree", "add", "-q", "-b", "w2", str(other))
    before = snapshot(repo.folder)

    record, _ = install(place(repo, other), mode="hard_fail", bus=bus)

    assert (record.own, record.former) == (True, ".husky/_")
    assert {each: text for each, text in snapshot(repo.folder).items() if ".husky" in each} == {
        each: text for each, text in before.items() if ".husky" in each
    }
    commit(repo, "a")
    assert [line.partition("|")[0].partition(" /")[0] for line in said(folder)] == [
        "husky", "bus hooks run pre-commit --mode hard_fail --", "message .git/COMMIT_EDITMSG",
        "bus hooks run post-commit --mode hard_fail --",
    ]  # fmt: skip
    commit(repo, "b", other)
    assert said(folder)[0].startswith("bus hooks run pre-commit"), "there are no stubs of husky, and we are asked"
    commit(repo, "c", other, CODE="77")
    assert len(said(folder)) == 1, "and may refuse"

    repo.git("config", "core.hooksPath", ".husky/_")  # as `npm install` does
    assert look(place(repo)).led_elsewhere
    install(place(repo), bus=bus)
    assert look(place(repo)).works
    assert look(place(repo)).record == record, "in the mode that it had"
    remove(place(repo))
    assert {*snapshot(repo.folder)} - {"a"} == {*before} - {".git/worktrees/w 2/index"}
    assert repo.git("config", "core.hooksPath").out == ".husky/_\n"


@pytest.mark.parametrize("scope", ["--global", "--local"])
def test_a_hooks_folder_of_all_a_users_repositories_is_left_alone(repo: Repo, bus: str, scope: str) -> None:
    folder = repo.home.parent
    repo.environment["GIT_CONFIG_GLOBAL"] = str(folder / "gitconfig")
    theirs = hook(folder / "all hooks" / "pre-commit")
    hook(folder / "all hooks" / "update")
    repo.git("config", scope, "core.hooksPath", str(theirs.parent))
    before = snapshot(folder)
    record, _ = install(place(repo), bus=bus)
    assert record.own
    commit(repo, "a")
    assert [line.partition("|")[0] for line in said(folder)][:2] == [
        str(theirs), "bus hooks run pre-commit --mode advisory --",
    ]  # fmt: skip
    assert {*os.listdir(record.directory)} == {*CHECKED, *OTHERS, "update"}
    remove(place(repo))
    after = snapshot(folder)
    assert after == before | {each: value for each, value in after.items() if each.endswith(("/a", "/r/a"))}


def test_a_hooks_folder_that_git_would_look_into_anyway_is_taken_as_it_is(repo: Repo, bus: str) -> None:
    repo.git("config", "core.hooksPath", str(repo.folder / ".git/hooks"))
    assert not install(place(repo), bus=bus)[0].own


def test_a_hooks_folder_that_is_a_link_is_not_written_through(repo: Repo, bus: str) -> None:
    hook(repo.folder / "githooks/pre-commit")
    for each in (repo.folder / ".git/hooks").iterdir():
        each.unlink()
    (repo.folder / ".git/hooks").rmdir()
    (repo.folder / ".git/hooks").symlink_to("../githooks")
    before = snapshot(repo.folder)
    assert install(place(repo), bus=bus)[0].own
    commit(repo, "a")
    assert len(said(repo.home.parent)) == 3
    assert os.listdir(repo.folder / "githooks") == ["pre-commit"]
    remove(place(repo))
    assert {*snapshot(repo.folder)} - {"a"} == {*before}


def test_from_a_worktree_a_bare_repository_and_a_submodule_it_works(repo: Repo, bus: str) -> None:
    folder = repo.home.parent
    bare = Repo(folder / "bare", folder / "bus", "--bare")
    commit(repo, "a")
    repo.git("push", "-q", str(bare.folder), "main")
    bare.git("worktree", "add", "-q", str(folder / "of bare"), "main")
    assert install(place(bare), bus=bus)[1]
    commit(bare, "b", folder / "of bare")
    assert said(folder)[0].startswith("bus hooks run pre-commit")

    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(bare.folder), "sub")
    sub = repo.folder / "sub"
    assert install(place(repo, sub), bus=bus)[0].directory == str(repo.folder / ".git/modules/sub/hooks")
    commit(repo, "c", sub)
    assert said(folder)[0].startswith("bus hooks run pre-commit")
    assert look(place(repo)).record is None


@pytest.mark.parametrize(
    ("mode", "code", "ends", "says"),
    [
        ("advisory", "0", 0, ""),
        ("advisory", "77", 0, ""),
        ("advisory", "1", 0, "bus failed (exit 1), so this commit goes on unchecked"),
        ("hard_fail", "0", 0, ""),
        ("hard_fail", "77", 1, ""),
        ("hard_fail", "1", 1, "bus failed (exit 1), so this commit cannot be checked"),
        ("advisory", "gone", 0, "bus is not found, so this commit goes on unchecked"),
        ("hard_fail", "gone", 1, "refused: bus is not found, so this commit cannot be checked against leases: mend"),
    ],
)
def test_only_a_no_stops_a_commit_but_where_nobody_can_say(
    repo: Repo, bus: str, mode: str, code: str, ends: int, says: str
) -> None:
    install(place(repo), mode=mode, bus=bus)
    if code == "gone":
        os.unlink(bus)
        repo.environment["PATH"] = "/usr/bin:/bin"
    done, err = commit(repo, "a", None, **({} if code == "gone" else {"CODE": code}))
    assert done == ends
    assert says in err if says else err == ""
    assert err.count("\n") <= 2


def test_a_bus_that_moved_is_found_on_the_path(repo: Repo, bus: str) -> None:
    install(place(repo), bus="/gone/bus")
    repo.environment["PATH"] = f"{os.path.dirname(bus)}:{repo.environment['PATH']}"
    commit(repo, "a")
    assert said(repo.home.parent)[0].startswith("bus hooks run pre-commit")


def test_a_hook_that_leads_back_here_ends(repo: Repo, bus: str) -> None:
    """As the pre-commit framework has it: it keeps ours as `pre-commit.legacy`, and we keep its own."""
    folder = repo.home.parent
    install(place(repo), bus=bus)
    hooks = repo.folder / ".git/hooks"
    os.rename(hooks / "pre-commit", hooks / "pre-commit.legacy")
    hook(hooks / "pre-commit", SAYS + '"$(dirname "$0")/pre-commit.legacy" "$@"\n')
    assert look(place(repo)).hooks["pre-commit"] == "behind"
    assert not install(place(repo), bus=bus)[1]
    commit(repo, "a")
    assert len(said(folder)) == 3, "theirs, ours behind it, and the one after the commit"

    record, _ = install(place(repo), bus=bus)
    hook_files._keep(place(repo), record.directory, "pre-commit")  # somebody puts ours in front once more
    os.unlink(hooks / "pre-commit")
    hook(hooks / "pre-commit", (hooks / "pre-commit.legacy").read_text())
    assert commit(repo, "b")[0] == 0
    assert len(said(folder)) == 3


def test_what_replaced_ours_is_said_and_left(repo: Repo, bus: str) -> None:
    hooks = repo.folder / ".git/hooks"
    hook(hooks / "pre-commit", "#!/bin/sh\n# before\n")
    install(place(repo), bus=bus)
    hook(hooks / "pre-commit", "#!/bin/sh\n# of another tool\n")
    (hooks / "pre-push").chmod(0o644)
    (hooks / "post-commit").unlink()
    seen = look(place(repo))
    assert seen.hooks == {"pre-commit": "replaced", "post-commit": "missing", "pre-push": "not executable"}
    assert not seen.works
    with pytest.raises(CannotInstall, match=r"has replaced that of bus, and what was there before it is kept in "):
        install(place(repo), bus=bus)
    notes = remove(place(repo))[1]
    assert len(notes) == 1
    assert "was put there by another tool, and is left; what was there before is " in notes[0]
    assert "another tool" in (hooks / "pre-commit").read_text()
    assert "before" in (repo.folder / ".git/hooks-before-bus/pre-commit").read_text()


def test_a_mode_is_changed_by_installing_again(repo: Repo, bus: str) -> None:
    install(place(repo), bus=bus)
    record, changed = install(place(repo), mode="hard_fail", bus=bus)
    assert (record.mode, changed) == ("hard_fail", True)
    assert install(place(repo), bus=bus)[0].mode == "hard_fail"


def test_what_is_in_the_way_is_said(repo: Repo, bus: str, folder: Path) -> None:
    (repo.folder / ".git/hooks/pre-push").mkdir()
    with pytest.raises(CannotInstall, match="is a folder, and no hook can have its name"):
        install(place(repo), bus=bus)
    (repo.folder / ".git/hooks/pre-push").rmdir()
    with pytest.raises(NoPlace, match="no git repository here"):
        place(repo, folder)
    repo.git("config", "extensions.worktreeConfig", "true")
    repo.git("config", "--worktree", "core.hooksPath", "elsewhere")
    with pytest.raises(CannotInstall, match="set for this worktree alone"):
        install(place(repo), bus=bus)


def test_two_at_once_wait_for_each_other(repo: Repo, bus: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.adapters.territory.hook_record.WAIT_S", 0.05)
    with one_at_a_time(str(repo.folder / ".git")), pytest.raises(Busy):
        install(place(repo), bus=bus)
    assert isinstance(install(place(repo), bus=bus)[0], Record)


def test_a_file_system_without_second_names_has_a_copy_kept(
    repo: Repo, bus: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no(*_: object, **__: object) -> None:
        raise PermissionError(1, "no")

    hook(repo.folder / ".git/hooks/pre-commit")
    before = snapshot(repo.folder)
    monkeypatch.setattr("os.link", no)
    install(place(repo), bus=bus)
    commit(repo, "a")
    assert len(said(repo.home.parent)) == 3
    remove(place(repo))
    assert {*snapshot(repo.folder).items()} - {("a", (0o644, b"a"))} == {*before.items()}
