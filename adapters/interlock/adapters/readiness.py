"""Readiness: what must be true of a server before anybody is told GRANTED. It looks; it starts and stops nothing."""

import http.client
import ssl
import time
from pathlib import Path
from urllib.parse import urlsplit

import anyio.to_thread

from interlock.adapters.listeners import Listener, belongs, free, held_by, listeners
from interlock.adapters.paths import Home
from interlock.adapters.survivors import survivors
from interlock.protocol.definition import ServerDefinition
from interlock.protocol.identity import Identity
from interlock.protocol.limits import LOG_TAIL_BYTES, LOG_TAIL_LINES
from interlock.protocol.resource_events import OURS

HEALTH_TIMEOUT_S = 2.0
READ_BYTES = 256 * 1024
LOOK_S_MIN, LOOK_S_MAX = 0.003, 0.5  # between two looks at something that has just been started
LOOK_SHARE = 0.05  # what it has taken so far is at most so much less than what will be noticed


class Readiness:
    """Looks at one starting server again and again. Args: log: its output, read on from where the last look ended."""

    def __init__(self, definition: ServerDefinition, keeper: Identity, log: Path) -> None:
        self._definition = definition
        self._keeper = keeper
        self._log = log
        self._at = 0
        self._rest = b""
        self._line_seen = not definition.ready_line

    async def missing(self) -> str:
        """What is not true yet, in a few words; "" once everything is."""
        if not self._line_seen and not self._look_for_line():
            return f"{self._definition.ready_line!r} has not been printed"
        foreign = await anyio.to_thread.run_sync(self.foreign_port)  # where it is not ours it looks at every process
        if foreign:
            return foreign
        if self._definition.health:
            return await anyio.to_thread.run_sync(health_missing, self._definition.health, abandon_on_cancel=True)
        return ""

    def foreign_port(self) -> str:
        """A declared port that the server's own tree does not listen on yet."""
        if held_by(self._keeper, self._definition.ports):
            return ""
        found = listeners(self._definition.ports)
        for port in self._definition.ports:
            mine = [each for each in found if each.port == port]
            if not mine:
                return f"nothing listens on port {port}"
            strangers = [each for each in mine if not belongs(each, self._keeper)]
            if strangers:
                return who_listens(strangers[0])
        return ""

    def _look_for_line(self) -> bool:
        wanted = self._definition.ready_line.encode()
        try:
            with self._log.open("rb") as file:
                file.seek(self._at)
                while chunk := file.read(READ_BYTES):
                    self._at += len(chunk)
                    if wanted in self._rest + chunk:
                        self._line_seen = True
                        return True
                    self._rest = (self._rest + chunk)[-len(wanted) :]
        except OSError:
            return False
        return False


def pause_s(elapsed_s: float) -> float:
    """How long to wait until the next look: what comes up soon is seen at once, what takes long is looked at seldom.

    A twentieth of the time so far: nothing is found much later than it took anyway, by some forty looks for each
    tenfold of time.

    Args: elapsed_s: since the start.
    """
    return min(LOOK_S_MAX, max(LOOK_S_MIN, elapsed_s * LOOK_SHARE))


def health_missing(address: str) -> str:
    """Ask a health address once, without any proxy; "" if it answers 200. Blocks for 2 s at most."""
    parts = urlsplit(address)
    port, host = parts.port, parts.hostname or "localhost"
    try:
        if parts.scheme == "https":  # a development server signs for itself
            context = ssl._create_unverified_context()
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=HEALTH_TIMEOUT_S, context=context
            )
        else:
            connection = http.client.HTTPConnection(host, port, timeout=HEALTH_TIMEOUT_S)
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("GET", path, headers={"User-Agent": "interlock", "Connection": "close"})
            status = connection.getresponse().status
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        return f"{address} does not answer ({type(error).__name__})"
    return "" if status == 200 else f"{address} answers {status}"


def in_the_way(ports: tuple[int, ...], home: Home) -> str:
    """Who listens on a port that a start needs free, as a sentence; "" where all are free.

    Args: home: whose own servers are told by their resource; all others are strangers.
    """
    found = listeners(ports)
    if found:
        own = next((each for each in survivors(home) if belongs(found[0], each.keeper)), None)
        if own is not None:
            key = own.resource or own.launch
            return f"port {found[0].port} is held by {OURS}{key}: bus status {key} says who has it"
        return who_listens(found[0])
    taken = [port for port in ports if not free(port)]
    return f"port {taken[0]} is taken by a process that cannot be seen" if taken else ""


def who_listens(listener: Listener) -> str:
    """One listener as a sentence: port, command, pid, since when."""
    if listener.pid is None:
        user = f" of user {listener.user}" if listener.user else ""
        return f"port {listener.port} is held by a process{user} that cannot be seen"
    since = (
        f", since {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(listener.since_ms / 1000))}"
        if (listener.since_ms)
        else ""
    )
    return f"port {listener.port} is held by {listener.command!r} (pid {listener.pid}{since})"


def last_lines(log: Path) -> tuple[str, ...]:
    """The end of a log, for whoever has to mend what went wrong."""
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - LOG_TAIL_BYTES))
            lines = file.read(LOG_TAIL_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return ()
    printable = ("".join(c if c.isprintable() or c == "\t" else "�" for c in line) for line in lines)
    return tuple(line for line in printable if line.strip())[-LOG_TAIL_LINES:]
