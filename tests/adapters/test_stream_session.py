"""The end of a connection: nothing of it stays. The garbage is collected seldom, so it has to go by itself."""

import asyncio
import gc
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from interlock.adapters.stream_session import StreamSession
from interlock.coordinator.session import Session


class Transport(asyncio.Transport):
    """Takes all, and knows that it is closed."""

    def write(self, data: Any) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        pass


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
def test_a_connection_that_has_ended_keeps_nothing_in_memory_until_the_garbage_is_collected() -> None:
    """A supervisor grew by 3 KiB with every line of garbage: sessions and doors kept each other, with all unread."""
    sessions = set[Session]()
    supervisor = SimpleNamespace(sessions=sessions, forget=sessions.discard)
    keeper: Any = SimpleNamespace(supervisor=supervisor, has_room=lambda: True, on_connect=lambda session: None)
    caller: Any = SimpleNamespace()
    door = StreamSession(keeper, lambda transport: caller)
    door.connection_made(Transport())
    door.data_received(b"x" * 900_000)
    forgotten: list[Any] = [weakref.ref(door), *map(weakref.ref, sessions)]

    door.connection_lost(None)
    del door

    assert len(forgotten) == 2
    assert [each() for each in forgotten] == [None, None]
