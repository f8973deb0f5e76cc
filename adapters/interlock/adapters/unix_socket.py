"""The Unix socket: the door of commands and local programs. 0600, its directory ours, the peer's user checked.

Only the holder of the home's lock binds it, so a socket that refuses connections may be removed here and only here.
"""

import asyncio
import contextlib
import os
import socket
import struct
import sys
from functools import partial
from pathlib import Path

import anyio
import structlog

from interlock.adapters.callers import PeerCaller
from interlock.adapters.stream_session import Doorkeeper, StreamSession

log = structlog.get_logger("unix_socket")
BACKLOG = 1024


class CannotListen(Exception):
    """Something is in the way of the socket; the text is one sentence with what to do."""


class UnixDoor:
    """Args: path: of the socket, short enough. doorkeeper: serves each connection. inherited: it listens already."""

    def __init__(self, path: Path, doorkeeper: Doorkeeper, inherited: socket.socket | None = None) -> None:
        self._path = path
        self._doorkeeper = doorkeeper
        self._inherited = inherited
        self._inode = (0, 0)

    async def serve(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Accept until cancelled; `started` once connections are taken. Raises CannotListen before that."""
        try:
            server = await self._listen()
        except OSError as error:
            why = f"{self._path} cannot be listened on ({error.strerror}): move what is there away, then bus up"
            raise CannotListen(why) from None
        found = os.stat(self._path)
        self._inode = (found.st_dev, found.st_ino)
        task_status.started()
        async with server:
            await server.serve_forever()

    def remove(self) -> None:
        """Take the socket file away, if it is still the one we made: a service manager's stays, and it listens on."""
        if self._inherited is not None:
            return
        try:
            found = os.stat(self._path, follow_symlinks=False)
            if (found.st_dev, found.st_ino) == self._inode:
                self._path.unlink()
        except OSError:
            pass  # gone already; or the disk refuses, and the next one takes it away

    async def _listen(self) -> asyncio.AbstractServer:
        if self._inherited is not None:
            return await self._listen_on(self._inherited)
        self._path.unlink(missing_ok=True)
        before = os.umask(0o177)  # the socket is born 0600: there is no moment at which others could connect
        try:
            return await asyncio.get_running_loop().create_unix_server(
                lambda: StreamSession(self._doorkeeper, _admit), str(self._path), backlog=BACKLOG
            )
        finally:
            os.umask(before)

    async def _listen_on(self, listening: socket.socket) -> asyncio.AbstractServer:
        """Serve where a service manager listens. asyncio removes a socket's file at its end from Python 3.13 on."""
        make = asyncio.get_running_loop().create_unix_server
        session = partial(StreamSession, self._doorkeeper, _admit)
        if sys.version_info >= (3, 13):
            with contextlib.suppress(TypeError):  # uvloop has no such argument, and removes nothing
                return await make(session, sock=listening, backlog=BACKLOG, cleanup_socket=False)
        return await make(session, sock=listening, backlog=BACKLOG)


def _admit(transport: asyncio.Transport) -> PeerCaller | None:
    """This user's own processes, and root's; nobody else's."""
    pid, uid = peer(transport.get_extra_info("socket"))
    if uid in {os.getuid(), 0}:
        return PeerCaller(pid)
    log.warning("foreign_user_refused", uid=uid, pid=pid)
    return None


def peer(connection: socket.socket) -> tuple[int, int]:
    """(pid, uid) of the other end, as the kernel knows it."""
    if sys.platform == "linux":
        pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return pid, uid
    cred = connection.getsockopt(0, 0x001, 76)  # SOL_LOCAL, LOCAL_PEERCRED: struct xucred
    pid = struct.unpack("i", connection.getsockopt(0, 0x002, 4))[0]  # LOCAL_PEERPID
    return pid, struct.unpack_from("2I", cred)[1]
