"""A relay stream: the way to the supervisor through files, where a sandbox refuses the socket. See cli/relay.py.

It is woken by the kernel where that says what happens to a file; elsewhere it looks, more and more seldom.
"""

import sys
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread

from interlock.adapters.cli.relay import ACCEPT_S, SLEEP_MAX_S, SLEEPS_S, Relay, begin
from interlock.adapters.client.wire import CHUNK_BYTES, Gone
from interlock.adapters.folder_watch import CLOSE_WRITE, MODIFY, Inotify

LOOK_S = 2.0  # whatever is notified


class RelayStream:
    """Implements wire.Stream. Args: relay: which this closes."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._is_closed = False
        self._watch: Inotify | None = None
        with suppress(AttributeError, OSError):
            if sys.platform == "linux":
                self._watch = Inotify(lambda path, name, renamed: None)
                # The end of whoever writes there is a CLOSE_WRITE, even if it was killed.
                self._watch.add(Path(relay.heard_by), MODIFY | CLOSE_WRITE, file=True)

    async def begun(self) -> None:
        """Wait until the bus has taken it up."""
        tries = 0
        while not self._relay.has_begun():
            await self._stirred(tries)
            tries += 1

    async def write(self, data: bytes) -> None:
        try:
            self._relay.sendall(data)
        except OSError:  # closed, or no room: what was begun is no whole line, and counts as nothing
            raise Gone from None

    async def read(self) -> bytes:
        tries = 0
        while True:
            if self._is_closed:
                raise Gone
            data = self._relay.read(CHUNK_BYTES)
            if data:
                return data
            if data is not None:
                raise Gone
            await self._stirred(tries)
            tries += 1

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._watch is not None and self._watch.fileno() >= 0:
            anyio.notify_closing(self._watch)
            self._watch.close()
        self._relay.close()

    async def _stirred(self, tries: int) -> None:
        """Wait until something may have come."""
        if self._watch is None or not self._watch.works:
            await anyio.sleep(SLEEPS_S[tries] if tries < len(SLEEPS_S) else SLEEP_MAX_S)
            return
        with anyio.move_on_after(LOOK_S):
            try:
                await anyio.wait_readable(self._watch)
            except (OSError, anyio.ClosedResourceError):
                raise Gone from None
            self._watch.read()


async def open_relay(root: str, agent: str) -> RelayStream:
    """A stream that the bus has taken up.

    Args:
        root: the home. agent: the name that was given, "" where none was.

    Raises:
        Failure: 69, with what to allow, or that no supervisor runs.
    """
    relay = await anyio.to_thread.run_sync(begin, root, agent)
    stream = RelayStream(relay)
    try:
        with anyio.move_on_after(ACCEPT_S):
            await stream.begun()
            return stream
    except BaseException:
        stream.close()
        raise
    stream.close()
    raise relay.unheard()
