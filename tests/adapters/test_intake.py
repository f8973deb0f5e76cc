"""Intake: a sender that cannot be answered costs the others nothing."""

import os
from pathlib import Path

import anyio
import pytest
from tests.coordinator.bus import Bus
from tests.polling import WAIT_S

from interlock.adapters.folders import Folders
from interlock.adapters.inbox_files import Delivery
from interlock.adapters.intake import Intake
from interlock.adapters.posting import OUT, Posting
from interlock.adapters.stream_session import Doorkeeper


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_where_no_answer_can_be_put_the_post_stays_and_is_not_tried_at_once(
    tmp_path: Path, anyio_backend: str
) -> None:
    bus, folders = Bus(), Folders(tmp_path)
    async with bus.running():
        # given
        posting = Posting(folders)
        keeper = Doorkeeper(bus.supervisor, bus.router, bus.desk, lambda session: None)
        intake = Intake(keeper, folders, Delivery(bus.supervisor, folders), posting)
        folders.create("a")
        beside = tmp_path / "inboxes/a/tmp/x"
        beside.write_text("REQUEST machine/a - work\n")
        os.utime(beside, (1_000, 1_000))  # older than its rename
        beside.rename(tmp_path / "inboxes/a/out/x")
        (tmp_path / "inboxes/a/new").rmdir()
        (tmp_path / "inboxes/a/new").symlink_to(tmp_path)
        # when
        with anyio.fail_after(WAIT_S):
            more, again = await intake.take_in("a", OUT)
        # then
        assert (more, again) == (False, True)
        assert (tmp_path / "inboxes/a/out/x").exists()
        # and when its folder is well again
        (tmp_path / "inboxes/a/new").unlink()
        with anyio.fail_after(WAIT_S):
            await intake.take_in("a", OUT)
        # then
        assert not (tmp_path / "inboxes/a/out/x").exists()
        assert len(list((tmp_path / "inboxes/a/new").glob("answer.x.*"))) == 1
