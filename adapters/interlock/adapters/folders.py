"""Inbox folders: where they are, made and opened so that nothing leads out of them. Source: contract §4.

inboxes/<agent>/new       the agent's messages      cur       read ones        tmp   written here, then renamed
                out       what it posts             rejected  and what of it was no message, with .why
                relay     streams of its commands where they may not use the socket
inboxes/coordinator/…     the same; what is posted goes into new, and sorted is the bus's own
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import structlog

from interlock.adapters.safe_files import Unsafe, make_directory, open_directory
from interlock.protocol.names import COORDINATOR

Done = TypeVar("Done")
log = structlog.get_logger("folders")
OF_AGENT = ("new", "cur", "tmp", "out", "rejected", "relay")
OF_COORDINATOR = ("new", "cur", "tmp", "rejected", "relay", "sorted")


class Folder:
    """One agent's folder, open; `with` closes it. Args: fd: of the folder itself."""

    def __init__(self, agent: str, fd: int) -> None:
        self.agent = agent
        self.fd = fd
        self._open: dict[str, int] = {}

    def __getitem__(self, name: str) -> int:
        """The descriptor of one of its directories, made where it is missing. Raises Unsafe."""
        if name not in self._open:
            self._open[name] = make_directory(name, self.fd)
        return self._open[name]

    def __enter__(self) -> "Folder":
        return self

    def __exit__(self, *_: object) -> None:
        for fd in (*self._open.values(), self.fd):
            os.close(fd)
        self._open.clear()


class Folders:
    """All of a home's. Args: home: its root. What is unsafe is logged once, until it is well again."""

    def __init__(self, home: Path) -> None:
        self.root = home / "inboxes"
        self._home = home
        self._told: dict[str, set[str]] = {}

    def path(self, agent: str) -> Path:
        return self.root / agent

    def create(self, agent: str) -> str:
        """Make an agent's folder with all that is in it. Its path. Raises Unsafe."""
        with self.open(agent) as folder:
            make_all(folder)
        return str(self.path(agent))

    def open(self, agent: str) -> Folder:
        """An agent's folder, from the home's descriptor on; made where it is missing. Raises Unsafe."""
        home = inboxes = -1
        try:
            home = open_directory(str(self._home))
            inboxes = make_directory("inboxes", home)
            return Folder(agent, make_directory(agent, inboxes))
        except FileNotFoundError:
            raise Unsafe(f"{self._home} is gone") from None
        finally:
            for fd in (inboxes, home):
                if fd >= 0:
                    os.close(fd)

    def using(self, agent: str, work: Callable[[Folder], Done]) -> Done | None:
        """Do something in a folder; None, and one line in the log, where it is not safe or fails: it is tried again."""
        try:
            with self.open(agent) as folder:
                done = work(folder)
        except (Unsafe, OSError) as error:
            told = self._told.setdefault(agent, set())
            if str(error) not in told:
                told.add(str(error))
                log.warning("folder_refused", folder=str(self.path(agent)), why=str(error))
            return None
        return done

    def is_well(self, agent: str) -> None:
        """All of it is as it should be: what is wrong next is logged again."""
        self._told.pop(agent, None)


def make_all(folder: Folder) -> bool:
    """Make whatever is missing in a folder. Raises Unsafe."""
    for name in OF_COORDINATOR if folder.agent == COORDINATOR else OF_AGENT:
        _ = folder[name]
    return True
