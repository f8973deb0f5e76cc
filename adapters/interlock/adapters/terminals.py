"""Windows: a server's keeper in a tmux of its own, so that a person can attach to it (`terminal = "tmux"`).

```text
open_window ──▶ tmux -S <home>/tmux/<id>, -f /dev/null, a clean environment ──▶ its one pane: the keeper ──▶ the command
     ▲──────────────── <home>/tmux/<id>.control ◀── connects: spec, up, GO, as every keeper ──┘
```

One tmux server a launch: its end takes no other window along, and it leaves with its last window. Nothing that a caller
chose (worktree, command, agent) is an argument of tmux or in its environment: all that goes over the control socket.

What this module never does: use the user's own tmux, its socket or its configuration, or a directory of others.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from hashlib import sha256
from pathlib import Path

import anyio
import anyio.to_thread

from interlock.adapters.homes import private_socket
from interlock.adapters.keeper_start import UP_TIMEOUT_S, keeper_command, keeper_environment
from interlock.adapters.launches import Keeper, LaunchFailed, LaunchSpec, open_keeper
from interlock.adapters.paths import BadHome, Home, check_directory
from interlock.adapters.process import identify, probe, send_signal
from interlock.adapters.unix_socket import peer
from interlock.protocol.identity import Presence

ALSO = ("/usr/local/bin", "/opt/homebrew/bin", "/opt/local/bin")
OLDEST = (3, 0)  # what the options below are known to work with
COMMAND_S = 10.0
COLUMNS, ROWS = "200", "50"  # until somebody attaches
HISTORY_LINES = "20000"
ID_LENGTH = 12
LEFT_S = 3600.0  # one that is only just being opened is younger
ELSE = 'or terminal = "none" for this resource'


def window_socket(home: Path, launch: str) -> Path:
    """Where the tmux of a launch listens. Args: home: its root. launch: its id."""
    return Path(private_socket(str(home), "tmux", sha256(launch.encode()).hexdigest()[:ID_LENGTH]))


def attach_command(home: Path, launch: str, *, read_only: bool = False) -> list[str]:
    """The command by which a person looks at a launch's window."""
    return ["tmux", "-S", str(window_socket(home, launch)), "attach-session", *(["-r"] if read_only else [])]


def tmux_problem() -> str:
    """Why servers cannot have windows here, as a sentence with what to do; "" where they can."""
    tmux = _tmux()
    if tmux is None:
        return f"tmux is not installed: install tmux, {ELSE}"
    try:
        done = subprocess.run(
            [tmux, "-V"], capture_output=True, text=True, timeout=COMMAND_S, check=False,
            stdin=subprocess.DEVNULL, env=_environment(), cwd="/",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{tmux} does not work ({error}): mend tmux, {ELSE}"
    if done.returncode != 0:
        return f"{tmux} does not work ({done.stderr.strip() or done.returncode}): mend tmux, {ELSE}"
    found = re.search(r"(\d+)\.(\d+)", done.stdout)  # a build without a number is newer than any
    if found is not None and (int(found[1]), int(found[2])) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        return f"{done.stdout.strip()} is too old for windows: install tmux {wanted} or newer, {ELSE}"
    return ""


async def open_window(home: Home, spec: LaunchSpec, *, title: str, umask: int = -1) -> Keeper:
    """Start a keeper in a window of its own, and wait until it stands ready; as `start_keeper`.

    Args:
        home: in whose private directory the sockets lie.
        spec: what it is to do; `log` names the file for what the command prints.
        title: shown in the window's status line; letters, digits, `_`, `.` and `-` only.
        umask: for the command; -1: the same as ours.

    Returns:
        The keeper, whose identity is known.

    Raises:
        LaunchFailed: there is no tmux that can be used, or the keeper did not come up; nothing was executed.
    """
    if problem := await anyio.to_thread.run_sync(tmux_problem):
        raise LaunchFailed(problem)
    path = window_socket(home.root, spec.launch)
    control = path.with_name(path.name + ".control")
    try:
        _private_directory(path.parent)
        listener = _listen(control)
    except (OSError, BadHome) as error:
        raise LaunchFailed(f"no window can be opened: {error}") from error
    try:
        await anyio.to_thread.run_sync(_start_tmux, path, control, title, umask)
        connection = await _accept(listener, spec.launch)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(end_window, path)
        raise
    finally:
        listener.close()
        control.unlink(missing_ok=True)
    return await open_keeper(spec, _Pane(peer(connection)[0]), connection)


def end_window(path: Path) -> None:
    """End the private tmux of one launch, and take its files away. Args: path: of its socket."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            [_tmux() or "tmux", "-S", str(path), "-f", "/dev/null", "kill-server"],
            capture_output=True, timeout=COMMAND_S, check=False, stdin=subprocess.DEVNULL, env=_environment(), cwd="/",
        )  # fmt: skip
    remove_files(path)


def sweep_windows(home: Path, launches: set[str]) -> int:
    """Remove what windows have left behind that nobody knows of any more. Returns how many files.

    Args: home: its root. launches: those that are known.
    """
    known, sample = {window_socket(home, launch).name for launch in launches}, window_socket(home, "")
    prefix = sample.name[:-ID_LENGTH]  # in the short directory: this home's
    removed, before_s = 0, time.time() - LEFT_S
    with contextlib.suppress(OSError):
        for entry in sorted(sample.parent.iterdir()):
            name = entry.name.partition(".")[0]
            ours = name.startswith(prefix) and len(name) == len(sample.name) and name not in known
            if ours and entry.lstat().st_mtime < before_s and not _answers(entry.with_name(name)):
                entry.unlink()
                removed += 1
    return removed


def remove_files(path: Path) -> None:
    """Remove what a tmux that has ended leaves behind. Args: path: of its socket."""
    for name in (path.name, f"{path.name}.lock"):
        with contextlib.suppress(OSError):
            path.with_name(name).unlink()


def _answers(path: Path) -> bool:
    """Whether somebody listens there."""
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:
            return True  # no socket, or not to be known: not ours to remove
    return True


def _tmux() -> str | None:
    """Where tmux is: a service manager's PATH lacks the folders that people install into."""
    return shutil.which("tmux", path=os.pathsep.join((os.environ.get("PATH", os.defpath), *ALSO)))


class _Pane:
    """The keeper's process where tmux started it: not ours to reap. Args: pid: as its connection says."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._identity = identify(pid)

    def poll(self) -> int | None:
        gone = self._identity is None or probe(self._identity) is Presence.GONE
        return 0 if gone else None

    def kill(self) -> None:
        if self._identity is not None:
            send_signal(self._identity, signal.SIGKILL)


def _environment() -> dict[str, str]:
    return {**keeper_environment(), "SHELL": "/bin/sh", "TERM": "screen"}


def _private_directory(directory: Path) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_directory(directory)


def _listen(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    try:
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
        listener.listen(1)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def _start_tmux(path: Path, control: Path, title: str, umask: int) -> None:
    """Have tmux open the window, in the background. Raises LaunchFailed."""
    line = f" {title}   C-b d: leave it running   closing this window ends the server"
    options = {
        "default-shell": "/bin/sh", "default-terminal": "screen-256color",
        "update-environment": "", "history-limit": HISTORY_LINES, "status-left": line,
        "status-left-length": "120", "status-right": "", "window-status-format": "", "window-status-current-format": "",
        "automatic-rename": "off", "allow-rename": "off", "set-titles": "off", "remain-on-exit": "off",
    }  # fmt: skip
    words = [_tmux() or "tmux", "-u", "-S", str(path), "-f", "/dev/null", "start-server"]
    for name, value in options.items():
        words += [";", "set-option", "-g", name, value]
    words += [";", "new-session", "-d", "-s", "server", "-n", "server", "-x", COLUMNS, "-y", ROWS, *keeper_command()]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=COMMAND_S, check=False, stdin=subprocess.DEVNULL, cwd="/",
            env=_environment() | {"INTERLOCK_CONTROL": str(control)}, umask=umask, start_new_session=True,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LaunchFailed(f"tmux cannot open a window ({error}): mend tmux, {ELSE}") from error
    if done.returncode != 0:
        raise LaunchFailed(f"tmux cannot open a window ({done.stderr.strip()}): mend tmux, {ELSE}")


async def _accept(listener: socket.socket, launch: str) -> socket.socket:
    """The keeper's connection. Raises LaunchFailed."""
    try:
        with anyio.fail_after(UP_TIMEOUT_S):
            await anyio.wait_readable(listener)
    except TimeoutError:
        raise LaunchFailed(
            f"the keeper of launch {launch} was not up in its window within {UP_TIMEOUT_S:g} s"
        ) from None
    connection = listener.accept()[0]
    connection.setblocking(False)
    if peer(connection)[1] != os.getuid():
        connection.close()
        raise LaunchFailed(f"another user answered for the keeper of launch {launch}: see who that is")
    return connection
