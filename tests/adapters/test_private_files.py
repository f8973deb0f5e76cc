"""Files are written whole or not at all, and nothing that somebody planted is followed, waited for or written over."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.adapters.private_files import make_sure, open_folder, read_whole, walk_to, write_whole


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    fd = open_folder(str(tmp_path))
    yield fd
    os.close(fd)


def test_a_file_is_written_for_its_owner_only_and_leaves_nothing_else(tmp_path: Path, folder: int) -> None:
    for data in (b"first", b"second" * 100_000):
        write_whole(folder, "x.md", data, durable=True)
        assert (tmp_path / "x.md").read_bytes() == data
    assert [each.name for each in tmp_path.iterdir()] == ["x.md"]
    assert stat.S_IMODE((tmp_path / "x.md").stat().st_mode) == 0o600


def test_a_link_is_replaced_and_what_it_led_to_is_left_alone(tmp_path: Path, folder: int) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"precious")
    (tmp_path / "x.md").symlink_to(elsewhere)
    (tmp_path / "y.md").symlink_to(tmp_path / "nowhere")

    assert read_whole(folder, "x.md", 100) is None
    write_whole(folder, "x.md", b"state")
    make_sure(folder, "y.md")

    assert (elsewhere.read_bytes(), (tmp_path / "x.md").is_symlink()) == (b"precious", False)
    assert ((tmp_path / "y.md").is_symlink(), (tmp_path / "nowhere").exists()) == (False, False)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, folder: int) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with pytest.raises(OSError, match=r"directory|not empty|exists"):
        write_whole(folder, "taken", b"state")
    with pytest.raises(OSError, match="a folder has its name"):
        make_sure(folder, "taken")
    assert [each.name for each in tmp_path.iterdir()] == ["taken"]


def fifo(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("plant", [fifo, Path.mkdir, lambda path: path.symlink_to("/etc/passwd"), lambda path: None])
def test_what_is_no_regular_file_is_not_read_and_not_waited_for(
    tmp_path: Path, folder: int, plant: Callable[[Path], object]
) -> None:
    plant(tmp_path / "x.md")
    assert read_whole(folder, "x.md", 100) is None


def test_what_is_too_long_is_not_read(tmp_path: Path, folder: int) -> None:
    (tmp_path / "x.md").write_bytes(b"x" * 101)
    assert read_whole(folder, "x.md", 100) is None
    assert read_whole(folder, "x.md", 101) == b"x" * 101


def test_what_is_there_already_is_made_sure_of_without_a_change(tmp_path: Path, folder: int) -> None:
    (tmp_path / "x.md").write_bytes(b"state")
    make_sure(folder, "x.md")
    make_sure(folder, "new.md")
    assert ((tmp_path / "x.md").read_bytes(), (tmp_path / "new.md").read_bytes()) == (b"state", b"")


def test_a_way_is_made_where_it_is_missing_but_no_link_on_it_is_followed(tmp_path: Path) -> None:
    tmp_path = tmp_path.resolve()
    os.close(walk_to(f"{tmp_path}/a//b/./c"))
    assert stat.S_IMODE((tmp_path / "a" / "b" / "c").stat().st_mode) == 0o700
    (tmp_path / "a" / "link").symlink_to(tmp_path)
    (tmp_path / "a" / "file").touch()
    for way in ("a/link", "a/link/b", "a/file", "a/file/b", "a/../a"):
        with pytest.raises(OSError, match=r"."):
            walk_to(f"{tmp_path}/{way}")


def test_a_folder_that_is_a_link_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(OSError, match=r"."):
        open_folder(str(tmp_path / "link"))


def test_a_folder_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    with pytest.raises(OSError, match="another user"):
        open_folder(str(tmp_path))
