"""The relay door: one folder's streams leave room for those of others."""

import os
from pathlib import Path

import anyio
import pytest
from tests.coordinator.bus import Bus

from interlock.adapters import relay_door
from interlock.adapters.cli.relay import Relay
from interlock.adapters.folder_watch import Watchfiles
from interlock.adapters.folders import Folders
from interlock.adapters.relay_door import RelayDoor
from interlock.adapters.relay_transport import Ends
from interlock.adapters.stream_session import Doorkeeper
from interlock.protocol.limits import RELAYS_OF_ONE_MAX


class Door:
    """A relay door over folders, where each stream counts as a living client's: a test is only one process."""

    def __init__(self, bus: Bus, home: Path, plant: pytest.MonkeyPatch) -> None:
        self.folders = Folders(home)
        keeper = Doorkeeper(bus.supervisor, bus.router, bus.desk, lambda session: None)
        self.door = RelayDoor(keeper, self.folders, Watchfiles(lambda *_: None, home))
        plant.setattr(relay_door, "_open", self._ends)
        plant.setattr("interlock.adapters.relay_transport.holder", lambda fd: 0)

    def client(self, agent: str, number: int) -> Path:
        self.folders.create(agent)
        place = self.folders.path(agent) / "relay" / f"{number:016x}"
        place.mkdir()
        Relay(str(place)).close()
        return place

    def _ends(self, relay: int, name: str) -> Ends:
        at = os.open(name, os.O_RDONLY, dir_fd=relay)
        flags = {"up": os.O_RDONLY, "down": os.O_WRONLY | os.O_APPEND, "read": os.O_RDONLY}
        ends = [os.open(each, flag, dir_fd=at) for each, flag in flags.items()]
        os.close(at)
        return Ends(ends[0], ends[1], ends[2], 0)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_one_folders_streams_leave_room_for_others_and_the_next_is_taken_up_when_one_ends(
    tmp_path: Path, anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = Bus()
    async with bus.running():
        # given
        streams = Door(bus, tmp_path, monkeypatch)
        places = [streams.client("greedy", number) for number in range(RELAYS_OF_ONE_MAX + 1)]
        other = streams.client("other", 1)
        # when
        streams.door.look("greedy")
        streams.door.look("other")
        # then
        taken = [place for place in places if (place / "down").stat().st_size]
        assert len(taken) == RELAYS_OF_ONE_MAX
        assert (other / "down").stat().st_size
        # when
        (left,) = set(places) - set(taken)
        streams.door._streams[taken[0]].abort()
        await anyio.wait_all_tasks_blocked()
        # then
        assert (left / "down").stat().st_size
        streams.door.close()
        await anyio.wait_all_tasks_blocked()


def test_what_a_killed_client_was_making_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # given
    bus = Bus()
    streams = Door(bus, tmp_path, monkeypatch)
    streams.folders.create("a")
    left = tmp_path / "inboxes/a/relay/.new-0123456789abcdef"
    left.mkdir()
    # then
    streams.door.look("a")
    assert left.exists()
    # when
    monkeypatch.setattr(relay_door, "LEFT_NS", -1)
    streams.door.look("a")
    # then
    assert not left.exists()
