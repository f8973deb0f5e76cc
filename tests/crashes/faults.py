"""Faults at a counted call: a supervisor that is killed there, or whose call fails, once or for a while.

    watched supervisor ──▶ call, stopped ──▶ what is it about? ──▶ the N-th of its kind? ──▶ kill · errno · let go

Only calls that change something a restart can see are counted: files below the home, and what is said to clients.
"""

import errno
import os
import select
import signal
import socket
import subprocess
import threading
from collections import Counter
from typing import NamedTuple

from tests.crashes import notify
from tests.end_to_end.playground import FIXTURES, PYTHON, ROOT, WAIT_S, Bus, Running

# What is counted together, by the names of --calls.
KINDS = {
    **dict.fromkeys(("write", "writev"), "write"), **dict.fromkeys(("pwrite64", "pwritev"), "pwrite"),
    "fsync": "fsync", "fdatasync": "fdatasync", "ftruncate": "ftruncate",
    **dict.fromkeys(("rename", "renameat", "renameat2"), "rename"), **dict.fromkeys(("unlink", "unlinkat"), "unlink"),
    **dict.fromkeys(("link", "linkat"), "link"), **dict.fromkeys(("mkdir", "mkdirat"), "mkdir"),
    **dict.fromkeys(("open", "openat", "creat"), "create"),
}  # fmt: skip
SPEAK, LOG = "speak", "log"  # what is written to a client; and into the supervisor's own log
CALLS = (*dict.fromkeys(KINDS.values()), SPEAK, LOG)
_ON_DESCRIPTOR = {"write", "pwrite", "fsync", "fdatasync", "ftruncate"}
_PATH_AT = {
    "open": 0, "creat": 0, "rename": 0, "unlink": 0, "link": 0, "mkdir": 0,
    "openat": 1, "renameat": 1, "renameat2": 1, "unlinkat": 1, "linkat": 1, "mkdirat": 1,
}  # fmt: skip

KILL = "kill"
ERRNOS = {"enospc": errno.ENOSPC, "eio": errno.EIO, "erofs": errno.EROFS}
LASTS_CALLS = 60  # a fault that lasts is over after so many failed calls,
TOLD_MAX = 2  # or once so many clients were told no,
WAITS_MAX = 20  # or looked so often for what does not come


class Point(NamedTuple):
    """Where something goes wrong.

    Args:
        talk: the conversation.
        fault: kill, enospc, eio, erofs; with a `+` behind it, it lasts until clients have met it.
        call: of CALLS.
        number: from 1 on; 0: nowhere.
    """

    talk: str
    fault: str
    call: str
    number: int

    def __str__(self) -> str:
        return f"{self.talk}:{self.fault}:{self.call}:{self.number}"

    @classmethod
    def read(cls, text: str) -> "Point":
        talk, fault, call, number = text.split(":")
        return cls(talk, fault, call, int(number))


class Watched:
    """The supervisors of one conversation that are watched; the counts go on from one to the next."""

    def __init__(self, bus: Bus, point: Point, words: tuple[str, ...] = ()) -> None:
        self.counts: Counter[str] = Counter()
        self.met = ""  # the call that it happened at
        self.failing = self._is_over = False
        self._bus, self._point, self._words = bus, point, words
        self._fault, self._lasts = point.fault.rstrip("+"), point.fault.endswith("+")
        self._failed = self._told = self._waits = 0
        self._threads: list[threading.Thread] = []
        self.running: Running | None = None

    def up(self) -> str:
        """Start one, and wait for its word: READY; FAILED, code and why; or "" where it died on the way."""
        ours, theirs = socket.socketpair()
        argv = [str(PYTHON), str(FIXTURES / "watched_supervisor.py"), str(self._bus.home), str(theirs.fileno())]
        process = subprocess.Popen(
            [*argv, *self._words], cwd="/", env={**self._bus.environment, "PYTHONPATH": str(ROOT)}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            pass_fds=(theirs.fileno(),),
        )  # fmt: skip
        self._bus.started.append(process)
        self.running = Running(process)
        with ours:
            theirs.close()
            ours.settimeout(WAIT_S)
            _, listeners, _, _ = socket.recv_fds(ours, 1, 1)
        assert listeners, f"nothing can be watched: {self.running.end()}"
        thread = threading.Thread(target=self._serve, args=(listeners[0], process.pid), daemon=True)
        thread.start()
        self._threads.append(thread)
        word = self.running.out.first(WAIT_S)
        if word.startswith("READY"):
            return word
        self.running.end()
        return word

    def lift(self) -> None:
        """There is room again."""
        self.failing = False
        self._lasts = False

    def over(self) -> None:
        """The conversation is over: what comes is not counted, and nothing happens any more."""
        self.lift()
        self._is_over = True

    def met_by_a_client(self) -> None:
        """Somebody was told no. The second one finds room again."""
        self._told += 1
        if self._told >= TOLD_MAX:
            self.lift()

    def tick(self) -> None:
        """Somebody waits, and is told nothing: a fault that lasts does not last for ever."""
        if self.failing:
            self._waits += 1
            if self._waits >= WAITS_MAX:
                self.lift()

    def _serve(self, listener: int, supervisor: int) -> None:
        """Until nobody is left that is watched."""
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        try:
            while not (poll.poll()[0][1] & select.POLLHUP):  # it hangs up with the last process that is watched
                call = notify.receive(listener)
                if call is not None:
                    self._decide(listener, supervisor, call)
        finally:
            os.close(listener)

    def _decide(self, listener: int, supervisor: int, call: notify.Call) -> None:
        kind, about = self._about(call) if os.path.exists(f"/proc/{supervisor}/task/{call.thread}") else ("", "")
        if not kind or self._is_over:
            notify.let_go(listener, call)
            return
        self.counts[kind] += 1
        here = kind == self._point.call and self.counts[kind] == self._point.number
        if here:
            self.met = f"{call.name} {about}"
        if here and self._fault == KILL:
            os.kill(supervisor, signal.SIGKILL)
            return
        number = ERRNOS.get(self._fault, 0)
        if here and self._lasts:
            self.failing = True
        if number and kind != SPEAK and (here or (self.failing and _can_meet(kind, self._fault))):
            self._failed += 1
            if self._failed >= LASTS_CALLS:
                self.failing = False
            notify.let_go(listener, call, number)
        else:
            notify.let_go(listener, call)

    def _about(self, call: notify.Call) -> tuple[str, str]:
        """What kind of call it is, and the file; nothing where it is not counted."""
        kind, home = KINDS[call.name], str(self._bus.home)
        if kind in _ON_DESCRIPTOR:
            path = notify.file_of(call.thread, call.arguments[0])
            if path.startswith("socket:") and (call.name == "writev" or call.arguments[2] > 1):
                return SPEAK, ""
        else:
            at = _PATH_AT[call.name]
            path = notify.text_at(call.thread, call.arguments[at])
            if at and not path.startswith("/"):
                path = os.path.join(notify.file_of(call.thread, call.arguments[0]), path)
        if not path.startswith(home):
            return "", ""
        below = os.path.relpath(path, home)
        return (LOG if below.startswith("log/supervisor") else kind), below


def _can_meet(kind: str, fault: str) -> bool:
    """Which further calls a disk in that state refuses: a full one still lets go of what is there."""
    if fault == "enospc":
        return kind in {"write", "pwrite", "create", "mkdir", "link", LOG}
    return True
