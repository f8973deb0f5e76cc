"""The command's connection: blocking, small, standard library only. It knows frames, not what they mean.

A supervisor that goes away under a question is asked again, with the same id: nothing is ever done twice.
"""

from __future__ import annotations

import _socket  # what `socket` is made of: that imports selectors and enum, which take longer than the question
import errno
import os
import sys
import time

from interlock.adapters.cli.line import line_of
from interlock.adapters.cli.options import Failure, Options, say_err
from interlock.adapters.homes import home_root, socket_path
from interlock.adapters.lean import loads, suppress

ANSWER_S = 10.0  # the bus answers within 2 s or says why not; what takes longer is no answer
CONNECT_S = 2.0
DEAF_S = 1.0  # how long a signal may go unnoticed that comes in the very moment before a call that waits
ACK_S = 2.0  # what was shown may be shown again; a command that does not end is worse
AGAIN_S = 10.0  # how long a lost supervisor is looked for
MARKS_OF_CI = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "JENKINS_URL")  # one of them is set wherever ci_identity has names
TYPE_CHECKING = False  # as typing has it, without its import
if TYPE_CHECKING:
    import socket
    from typing import Any

    from interlock.adapters.cli.frames import Frame
    from interlock.adapters.cli.relay import Relay
    from interlock.adapters.paths import Home


class SocketRefused(Failure):
    """This program may not use Unix sockets, or not that one: it is in a sandbox."""


class NoSupervisor(Failure):
    """None runs, and none was to be started."""


class Lost(Exception):
    """The other end closed the connection, or broke off."""


class Connection:
    """One session with the supervisor. Args: notices: show the agent's unread news first, on stderr."""

    def __init__(self, options: Options, *, notices: bool = True, quiet_about: str = "") -> None:
        self.options = options
        self.root = home_root(options.home)
        self.welcome: Frame = {}
        self._notices = notices
        self._quiet_about = quiet_about
        self._shown: list[str] = []
        self.news: list[Frame] | None = None  # where somebody looks at it: what came while an answer was waited for
        self._socket: _socket.socket | Relay | None = None
        self._buffer = b""

    @property
    def home(self) -> Home:
        """The home's paths."""
        from interlock.adapters.paths import find_home

        return find_home(self.options.home)

    def __enter__(self) -> Connection:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self, *, start: bool = True) -> None:
        """Connect, starting a supervisor where none runs and one may be started; then say hello.

        Raises:
            Failure: exit 69, with the reason; 64 where the home cannot be used.
        """
        until = time.monotonic() + AGAIN_S
        while True:
            try:
                self._greet(start)
                break
            except Lost:  # it went away at this very moment; whoever is started next is asked
                if time.monotonic() > until:
                    why = "the supervisor closes each connection at once: see bus up --foreground"
                    raise Failure(69, why) from None
                time.sleep(0.1)
        self._show_notices()

    def _greet(self, start: bool) -> None:
        """Connect and say hello. Raises Lost, and Failure."""
        self.close()
        self._socket = self._connect(start)
        try:
            cwd = os.getcwd()
        except OSError:
            cwd = ""
        hello: Frame = {
            "agent": self.options.name,
            "how": self.options.how,
            "cwd": cwd,
            "user": os.environ.get("USER", "") if os.isatty(0) else "",
            "notices": self._notices,
        }
        token = own_token()
        hello |= {"token": token} if token else {}
        if not self.options.name and any(mark in os.environ for mark in MARKS_OF_CI):
            from interlock.adapters.ci_identity import names_of_a_run

            hello |= names_of_a_run(os.environ)
        self._send({"hello": hello})
        frame = self.receive(ANSWER_S)
        if not frame:  # it is stopped: without a welcome nobody knows who asks, and what comes next would wait for ever
            self.close()
            raise Failure(69, "the supervisor does not answer (stopped, or overloaded): ask again, or see bus doctor")
        self.welcome = frame.get("welcome", {})

    def ask(self, to: str, *, again: bool = True, message_id: str = "", **content: Any) -> Frame:
        """Send one envelope and wait for its answer. Frames that come before it are older news, and dropped.

        Args:
            again: ask a new supervisor with the same id where this one is lost.
            content: text, body or args, and what else an envelope has.
        """
        envelope = {"id": message_id or new_id(), "to": to, **content}
        until = time.monotonic() + AGAIN_S
        while True:
            try:
                self._send(envelope)
                return self.answer_to(envelope["id"])
            except Lost:
                if not again or time.monotonic() > until:
                    raise Failure(69, f"the supervisor went away; ask again: the id was {envelope['id']}") from None
                time.sleep(0.1)
                self.open()

    def ask_until(self, until: float, to: str, **content: Any) -> Frame:
        """As `ask`; where there is no supervisor that is said once, and it is asked again.

        Args: until: then that is a failure (monotonic, s).
        """
        shown = ""
        while True:
            try:
                return self.ask(to, **content)
            except Failure as failure:
                if failure.exit_code != 69 or time.monotonic() >= until:
                    raise
                if str(failure) != shown:
                    say_err(f"waiting: {failure}")
                shown = str(failure)
                time.sleep(0.5)

    def tell(self, to: str, **content: Any) -> None:
        """Send an envelope whose answer nobody waits for."""
        with suppress(Lost):
            self._send({"id": new_id(), "to": to, **content})

    def answer_to(self, message_id: str) -> Frame:
        """The frame that answers that message. Raises Lost, and Failure after 10 s."""
        until = time.monotonic() + ANSWER_S
        while True:
            frame = self.receive(until - time.monotonic())
            if not frame:
                raise Failure(
                    69, f"the supervisor does not answer; nothing is known, ask again: the id was {message_id}"
                )
            unread = "reply_to" not in frame and frame.get("body", {}).get("type") == "REFUSED"
            if unread or frame.get("reply_to", "") == message_id:
                for note in frame.get("notes", ()):
                    say_err(note)
                return frame
            if self.news is not None and "reply_to" not in frame:
                self.news.append(frame)

    def receive(self, timeout_s: float | None) -> Frame:
        """The next frame; an empty one where none came in time. Raises Lost."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            if self._socket is None:
                raise Lost
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return {}
            self._socket.settimeout(DEAF_S if left is None else min(left, DEAF_S))
            try:
                chunk = self._socket.recv(262144)
            except TimeoutError:
                continue
            except OSError:
                raise Lost from None
            if not chunk:
                raise Lost
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        frame: Frame = loads(line)
        return frame

    def agent(self) -> str:
        """Who I am. Raises Failure 64 where nobody can tell."""
        name = self.welcome.get("agent", "")
        if not name:
            exits, why = int(self.welcome.get("exit", 64)), self.welcome.get("why", "") or "say who you are: --as NAME"
            raise Failure(exits, why, self.welcome.get("code", ""))
        return str(name)

    def close(self) -> None:
        """Ack what was shown, and leave once that is known: the next command shall not show it again."""
        if self._socket is not None:
            if self._shown:
                shown, self._shown = self._shown, []
                with suppress(Lost, Failure):
                    self._acked(shown)
            self._socket.close()
            self._socket = None
            self._buffer = b""

    def _acked(self, ids: list[str]) -> None:
        """Ack, and wait for the answer; a supervisor that gives none has the messages shown again. Raises Lost."""
        message_id, until = new_id(), time.monotonic() + ACK_S
        self._send({"id": message_id, "to": "supervisor", "body": {"type": "ACK", "ids": ids}})
        while (frame := self.receive(max(0.0, until - time.monotonic()))) and frame.get("reply_to") != message_id:
            pass

    def seen(self, ids: list[str]) -> None:
        """These messages have been shown: they are acked at the end of the session."""
        self._shown += ids

    def _show_notices(self) -> None:
        for message_id, resource, line in self.welcome.get("notices", ()):
            self._shown.append(message_id)
            if not (resource and resource in self._quiet_about.split(",") and line.startswith("GRANTED")):
                say_err(line)

    def _send(self, value: Frame) -> None:
        if self._socket is None:
            raise Lost
        try:
            self._socket.settimeout(ANSWER_S)
            self._socket.sendall(line_of(value))
        except TimeoutError:
            raise Failure(69, "the supervisor does not take messages: see bus status, or its log") from None
        except OSError:
            raise Lost from None

    def _connect(self, start: bool) -> _socket.socket | Relay:
        try:
            return reach(self.root)
        except SocketRefused:
            return self._relay()
        except FileNotFoundError:
            from interlock.adapters.cli.relay import shows_no_socket

            if shows_no_socket(self.root):
                return self._relay()
            if not start:
                raise NoSupervisor(69, f"no supervisor runs for {self.root}: bus up") from None
        from interlock.adapters.cli.starting import autostart

        autostart(self.home)
        try:
            return reach(self.root)
        except FileNotFoundError:
            raise Lost from None  # gone again already

    def _relay(self) -> Relay:
        """The same lines through files, where a sandbox refuses the socket. Raises Failure 69."""
        from interlock.adapters.cli.relay import connect as connect_by_files

        return connect_by_files(self.root, self.options.name)


def connect(root: str) -> socket.socket:
    """`reach`, for whoever wants all that a socket can do. Raises as that does."""
    import socket

    connection = socket.socket(fileno=reach(root).detach())
    connection.settimeout(CONNECT_S)
    return connection


def own_token() -> str:
    """The token that this command was given, "" for none. Raises Failure 65."""
    if not (os.environ.get("BUS_TOKEN") or os.environ.get("BUS_TOKEN_FILE")):
        return ""
    from interlock.adapters.given_token import NoToken, given_token

    try:
        return given_token()
    except NoToken as error:
        raise Failure(65, str(error)) from None


def reach(root: str) -> _socket.socket:
    """A connected socket. Raises FileNotFoundError where no supervisor listens, SocketRefused, else Failure."""
    path = socket_path(root)
    if not path.startswith(root):
        _check_owner(os.path.dirname(path))
    try:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    except OSError as error:
        raise _refused(path, error) from None
    connection.settimeout(CONNECT_S)
    try:
        connection.connect(path)
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError) as error:
        connection.close()
        raise FileNotFoundError(error.errno, error.strerror) from None
    except TimeoutError:
        connection.close()
        raise Failure(69, "the supervisor does not accept connections (stopped, or overloaded): try again") from None
    except OSError as error:
        connection.close()
        if error.errno in {errno.EPERM, errno.EACCES}:
            raise _refused(path, error) from None
        raise Failure(69, f"{path} cannot be reached: {error.strerror}") from None
    if hasattr(_socket, "SO_PEERCRED"):
        uid = int.from_bytes(connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)[4:8], sys.byteorder)
        if uid not in {os.getuid(), 0}:
            connection.close()
            raise Failure(77, f"user {uid} listens on {path}, not you: look who that is, or set a shorter BUS_HOME")
    return connection


def _refused(path: str, error: OSError) -> SocketRefused:
    why = f"this program may not use {path} ({error.strerror}; a sandbox?): allow it Unix sockets, or start it outside"
    return SocketRefused(69, why)


def _check_owner(directory: str) -> None:
    """A directory outside of the home can be planted by others: it must be ours alone. Raises Failure."""
    try:
        found = os.lstat(directory)
    except (FileNotFoundError, PermissionError):
        return
    if found.st_uid != os.getuid() or found.st_mode & 0o170077 != 0o040000:
        raise Failure(77, f"{directory} is not a directory of yours alone: remove it, or set a shorter BUS_HOME")


def new_id() -> str:
    """A UUIDv7, as coordinator.ids makes them: the command that a hook runs imports nothing of the coordinator."""
    value = (int(time.time() * 1000) & 0xFFFF_FFFF_FFFF) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
