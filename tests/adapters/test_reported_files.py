"""Files of a report: read by the bus, to their end, whatever else has their name."""

import hashlib
import os
from pathlib import Path

import pytest

from interlock.adapters import reported_files
from interlock.adapters.reported_files import files_of, look_at
from interlock.coordinator.ground import NoFile


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = (tmp_path / "w").resolve()
    (top / "docs").mkdir(parents=True)
    (top / "docs/a.md").write_text("one")
    (tmp_path / "beside.txt").write_text("two")
    (top / "link.md").symlink_to("docs/a.md")
    (top / "out.md").symlink_to(tmp_path / "beside.txt")
    os.mkfifo(top / "pipe")
    return top


def test_a_file_is_known_from_the_top_whatever_it_was_called(top: Path) -> None:
    called = ("a.md", "../docs/./a.md", str(top / "docs/a.md"), "../link.md")
    [file] = files_of(str(top), str(top / "docs"), called)
    assert (file.path, file.sha256, file.size) == ("docs/a.md", digest("one"), 3)


def test_what_lies_outside_is_known_by_its_real_path(top: Path) -> None:
    [file] = files_of(str(top), str(top), ("out.md",))
    assert file.path == str(top.parent / "beside.txt")
    [file] = files_of("", str(top), ("docs/a.md",))
    assert file.path == str(top / "docs/a.md")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("none.md", "none.md does not exist"),
        ("docs", "docs cannot be read (it is no regular file)"),
        ("pipe", "pipe cannot be read (it is no regular file)"),
        ("", "the name of a file is empty"),
        ("a\0b", "holds a NUL"),
        ("docs/a.md/x", "cannot be read"),
        ("x" * 300, "cannot be read"),
    ],
)
def test_what_is_no_file_is_told_in_one_sentence(top: Path, name: str, says: str) -> None:
    with pytest.raises(NoFile) as refused:
        files_of(str(top), str(top), (name,))
    assert says in str(refused.value)


def test_one_that_is_too_large_is_not_taken(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reported_files, "REPORTED_BYTES_MAX", 5)
    assert files_of(str(top), str(top), ("docs/a.md",))
    with pytest.raises(NoFile, match="a report have 0 mib at most"):
        files_of(str(top), str(top), ("docs/a.md", "out.md"))


def test_looked_at_again_each_is_as_it_is_now(top: Path) -> None:
    files = files_of(str(top), str(top), ("docs/a.md", "out.md"))
    (top / "docs/a.md").write_text("changed")
    (top.parent / "beside.txt").unlink()
    now = look_at(str(top), tuple(each.path for each in files))
    assert [each.sha256 for each in now] == [digest("changed"), ""]
    assert [each.path for each in now] == [each.path for each in files]


def test_a_link_that_is_put_in_its_place_is_not_the_file_that_was_handed_in(top: Path) -> None:
    """Else whoever may report would learn the hash of whatever it can link to."""
    (top.parent / "secret").write_text("secret")
    files = files_of(str(top), str(top), ("docs/a.md",))
    (top / "docs/a.md").unlink()
    (top / "docs/a.md").symlink_to(top.parent / "secret")
    assert [each.sha256 for each in look_at(str(top), tuple(each.path for each in files))] == [""]
    (top / "docs/a.md").unlink()
    (top / "docs").rename(top / "d")
    (top / "docs").symlink_to(top.parent)
    (top.parent / "a.md").write_text("secret")
    assert [each.sha256 for each in look_at(str(top), tuple(each.path for each in files))] == [""]


@pytest.mark.parametrize("name", ["out.md", "../beside.txt", "/etc/shadow", "/nowhere/at/all", ".."])
def test_a_folders_agent_learns_nothing_of_what_lies_outside_of_its_worktree(top: Path, name: str) -> None:
    with pytest.raises(NoFile, match="is outside of the worktree"):
        files_of(str(top), str(top), (name,), within=True)
    assert files_of(str(top), str(top), ("link.md",), within=True)


def test_what_the_system_makes_up_is_no_file() -> None:
    with pytest.raises(NoFile, match="no file of a disk"):
        files_of("/", "/", ("/proc/self/environ",))
