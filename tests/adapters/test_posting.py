"""Posting: what is looked at, read and removed is one and the same file, whatever its sender does meanwhile."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from interlock.adapters import half_written, posting
from interlock.adapters.folders import Folders
from interlock.adapters.posting import OUT, SORTED, Posting
from interlock.adapters.safe_files import Found, read_file


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    folders = Folders(tmp_path)
    for name in ("a", "b", "coordinator"):
        folders.create(name)
    return folders


def post(folders: Folders, name: str, text: str, where: str = "a/out") -> Path:
    """As a sender does it: written beside, renamed into place."""
    place = folders.root / where
    beside = place.parent / "tmp" / "being-written"
    beside.write_text(text)
    os.utime(beside, (1_000, 1_000))
    beside.rename(place / name)
    return place / name


def test_a_message_written_into_the_same_file_before_it_is_removed_is_a_message_too(folders: Folders) -> None:
    # given
    office, path = Posting(folders), post(folders, "x", "RELEASE machine/a\n")
    posts, _, _ = office.read("a", OUT)
    # when
    with path.open("w") as file:
        file.write("RELEASE machine/b\n")
    office.remove("a", OUT, posts)
    # then
    assert path.read_text() == "RELEASE machine/b\n"


def test_a_copy_with_the_time_name_content_and_inode_of_one_that_is_gone_is_another_message(folders: Folders) -> None:
    # given
    office, path = Posting(folders), post(folders, "x", "RELEASE machine/a\n")
    first, _, _ = office.read("a", OUT)
    # when
    shutil.copy(path, folders.root / "a/tmp/template")
    office.remove("a", OUT, first)
    again = post(folders, "x", "RELEASE machine/a\n")
    second, _, _ = office.read("a", OUT)
    # then
    looked = second[0].found._replace(inode=first[0].found.inode)
    assert again.exists()
    assert posting._id(looked, b"") != posting._id(first[0].found, b"")


def test_what_is_exchanged_while_it_is_looked_at_is_looked_at_again(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    office = Posting(folders)
    post(folders, "x", "RELEASE machine/a\n")
    calls: list[Path] = []

    def exchanged(found: Found, at: int, size: int) -> bytes:
        if not calls:
            calls.append(post(folders, "x", "RELEASE machine/b\n"))
        return read_file(found, at, size)

    monkeypatch.setattr(posting, "read_file", exchanged)
    # when
    first = office.read("a", OUT)
    second = office.read("a", OUT)
    # then
    assert (first[0], first[1]) == ([], [])
    assert [each.envelope.text for each in second[0]] == ["RELEASE machine/b"]
    assert os.listdir(folders.root / "a/rejected") == []
    assert "a" in office.half.waiting()


def test_what_stands_in_the_way_of_one_senders_queue_keeps_nobody_else_waiting(folders: Folders) -> None:
    # given
    office = Posting(folders)
    sorted_ = folders.root / "coordinator" / SORTED
    sorted_.mkdir(exist_ok=True)
    (sorted_ / "b").symlink_to(folders.root)
    post(folders, "1", "From: b\n\nRELEASE machine/b\n", "coordinator/new")
    post(folders, "2", "From: a\n\nRELEASE machine/a\n", "coordinator/new")
    # when
    senders, _, _ = office.sort()
    # then
    assert "a" in senders
    assert [each.envelope.text for each in office.read("a", SORTED)[0]] == ["RELEASE machine/a"]
    assert [each.envelope.text for each in office.read("b", SORTED)[0]] == ["RELEASE machine/b"]


def test_the_reason_of_a_rejection_is_never_written_into_a_file_that_was_there(folders: Folders) -> None:
    # given
    outside = folders.root / "precious"
    outside.write_text("precious")
    os.link(outside, folders.root / "a/rejected/x.why")
    post(folders, "x", "")
    # when
    _, rejects, _ = Posting(folders).read("a", OUT)
    # then
    assert outside.read_text() == "precious"
    assert len(rejects) == 1
    assert "empty" in (folders.root / "a/rejected/x.1.why").read_text()


def test_a_rejection_that_a_crash_cut_short_leaves_no_second_reason(folders: Folders) -> None:
    # given a reason, and its file not yet beside it
    (folders.root / "a/rejected/x.why").write_text("empt")
    post(folders, "x", "")
    # when
    _, rejects, _ = Posting(folders).read("a", OUT)
    # then
    assert len(rejects) == 1
    assert sorted(os.listdir(folders.root / "a/rejected")) == ["x", "x.why"]
    assert "empty" in (folders.root / "a/rejected/x.why").read_text()


def test_a_rejected_file_that_is_called_like_a_reason_stays(folders: Folders) -> None:
    # given
    office = Posting(folders)
    post(folders, "x.why", "")
    office.read("a", OUT)
    # when
    post(folders, "x", "")
    office.read("a", OUT)
    # then
    assert sorted(os.listdir(folders.root / "a/rejected")) == ["x.1", "x.1.why", "x.why", "x.why.why"]


def test_a_rejection_waits_for_room_and_leaves_nothing_meanwhile(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a disk that takes names and no content
    office, path = Posting(folders), post(folders, "x", "")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "write", full)
        for _ in range(3):
            assert office.read("a", OUT)[1] == []
        assert os.listdir(folders.root / "a/rejected") == []
        assert office.half.waiting() == {"a"}, "it is looked at again at the next scan"
    # when there is room
    _, rejects, _ = office.read("a", OUT)
    # then
    assert len(rejects) == 1
    assert not path.exists()


def test_a_name_that_is_no_text_is_told_in_text(folders: Folders) -> None:
    # given
    post(folders, os.fsdecode(b"\xff--x"), "From: a\n\nRELEASE machine/a\n", "coordinator/new")
    # when
    _, rejects, _ = Posting(folders).sort()
    # then
    assert rejects[0].sender == "a"
    rejects[0].why.encode()


def in_place(folders: Folders, name: str, text: str) -> Path:
    path = folders.root / name
    path.write_text(text)
    return path


def test_ones_unfinished_files_do_not_keep_anothers_from_being_finished(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    monkeypatch.setattr(half_written, "HALF_MAX", 3)
    office = Posting(folders)
    for number in range(5):
        in_place(folders, f"a/out/{number}", "REQ")
    in_place(folders, "b/out/x", "RELEASE machine/b\n")
    # when
    for _ in range(2):  # the first look waits for what is not heard yet
        office.read("a", OUT)
        office.read("b", OUT)
    monkeypatch.setattr(half_written, "SCAN_MS", 0)
    # then
    assert [each.envelope.text for each in office.read("b", OUT)[0]] == ["RELEASE machine/b"]


def test_what_could_not_be_put_aside_is_read_once_it_is_another_message(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    office, path = Posting(folders), post(folders, "x", "")

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(posting, "put_aside", fails)
        assert office.read("a", OUT)[:2] == ([], [])
    # when
    path.write_text("RELEASE machine/a\n")
    os.utime(path, (1_000, 1_000))
    # then
    assert [each.envelope.text for each in office.read("a", OUT)[0]] == ["RELEASE machine/a"]


def within_a_tick(folders: Folders, name: str, where: str) -> None:
    """Its times are those of a file that was written and renamed within one tick of the clock."""
    path = folders.root / where / name
    path.write_text(f"From: a\n\nRELEASE machine/{name}\n")
    assert path.stat().st_mtime_ns == path.stat().st_ctime_ns


@pytest.mark.parametrize("heard", [True, False])
def test_nothing_overtakes_what_was_renamed_into_place_unheard_but_for_what_is_not_renamed(
    folders: Folders, heard: bool
) -> None:
    # given: of two files that came after each other, only the second's notification has been heard
    office = Posting(folders)
    within_a_tick(folders, "x", "a/out")
    within_a_tick(folders, "y", "a/out")
    office.half.renamed.add(("a", "y"))
    # when
    first, _, more = office.read("a", OUT)
    if heard:
        office.half.renamed.add(("a", "x"))
    second, _, _ = office.read("a", OUT)
    # then
    assert (first, more) == ([], True)
    assert [each.called for each in second] == (["x", "y"] if heard else ["y"])


def test_nor_in_the_folder_of_all_senders_where_each_look_waits_once_for_all_that_it_has_seen(folders: Folders) -> None:
    # given
    office = Posting(folders)
    for name in ("w", "x", "y"):
        within_a_tick(folders, name, "coordinator/new")
    office.half.renamed.add(("coordinator", "y"))
    # when
    first, second = office.sort(), office.sort()
    # then
    assert first == ([], [], True)
    assert second[0] == ["a"]
    assert [each.called for each in office.read("a", SORTED)[0]] == ["y"]
    assert sorted(path.name for path in (folders.root / "coordinator/new").iterdir()) == ["w", "x"]
    # and when
    office.half.renamed.add(("coordinator", "x"))
    office.look_again("coordinator", "new")
    office.sort()
    office.look_again("a", SORTED)
    assert [each.called for each in office.read("a", SORTED)[0]] == ["x", "y"]


def test_what_cannot_be_sorted_for_want_of_room_is_sorted_once_there_is_some(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    office = Posting(folders)
    post(folders, "x", "From: a\n\nRELEASE machine/x\n", "coordinator/new")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    # when
    with monkeypatch.context() as disk:
        disk.setattr(os, "mkdir", full)
        assert office.sort()[0] == []
    monkeypatch.setattr(half_written, "SCAN_MS", 0)
    # then
    assert office.half.waiting() == {"coordinator"}, "it is looked at again at the next scan"
    assert office.sort()[0] == ["a"]
