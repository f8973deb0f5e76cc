"""The folder watch hears what happens, on Linux and elsewhere, and says so where it cannot hear."""

import asyncio
import sys
from pathlib import Path

import pytest
from tests.polling import WAIT_S

from interlock.adapters.folder_watch import ARRIVALS, FolderWatch, Inotify, Watchfiles

Heard = tuple[Path | None, str, bool]


@pytest.mark.parametrize("kind", ["inotify", "watchfiles"])
def test_a_file_that_comes_is_heard(tmp_path: Path, kind: str) -> None:
    if kind == "inotify" and sys.platform != "linux":
        pytest.skip("inotify is Linux's")
    folder = tmp_path / "new"
    folder.mkdir()

    async def watch() -> Heard:
        heard: asyncio.Future[Heard] = asyncio.get_running_loop().create_future()

        def hear(path: Path | None, name: str, renamed: bool) -> None:
            if not heard.done() and name.startswith("x"):
                heard.set_result((path, name, renamed))

        watch: FolderWatch = Inotify(hear) if kind == "inotify" else Watchfiles(hear, tmp_path)
        watch.start()
        watch.add(folder, ARRIVALS)
        try:
            for number in range(20):  # watchfiles begins to hear a moment after it was started
                (tmp_path / "beside").write_text("x")
                (tmp_path / "beside").rename(folder / f"x{number}")
                await asyncio.wait([heard], timeout=1)
                if heard.done():
                    break
            return heard.result()
        finally:
            watch.stop()
            await asyncio.sleep(0)

    path, _, renamed = asyncio.run(watch())
    assert path == folder
    assert renamed is (kind == "inotify")


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
def test_a_directory_that_goes_and_one_that_is_a_link_are_not_watched(tmp_path: Path) -> None:
    folder, link = tmp_path / "new", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)

    async def watch() -> list[Heard]:
        heard: list[Heard] = []
        gone = asyncio.Event()

        def hear(path: Path | None, name: str, renamed: bool) -> None:
            heard.append((path, name, renamed))
            gone.set()

        watch = Inotify(hear)
        watch.start()
        watch.add(link, ARRIVALS)
        (folder / "x").mkdir()
        (folder / "x").rmdir()
        watch.add(folder, ARRIVALS)
        folder.rmdir()
        await asyncio.wait_for(gone.wait(), WAIT_S)
        watch.stop()
        return heard

    assert asyncio.run(watch()) == [(None, "", False)]
