"""The post office: one per bus, it looks into inbox folders when something has happened there, and every 2 s in use.

    notifications, scans ──▶ posts ──▶ Intake          inbox changes ──▶ letters ──▶ Delivery
                         └─▶ relays ──▶ RelayDoor

Notifications are hints that save time; nothing is lost without them. Nobody wakes while no folder is in use.
"""

import contextlib
import os
import stat
import time
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import structlog

from interlock.adapters.folder_sweep import sweep_folders
from interlock.adapters.folder_watch import ARRIVALS, DEPARTURES, folder_watch
from interlock.adapters.folders import Folders, make_all
from interlock.adapters.inbox_files import Delivery
from interlock.adapters.intake import Intake
from interlock.adapters.posting import OUT, SORTED, Posting
from interlock.adapters.relay_door import RelayDoor
from interlock.adapters.safe_files import Unsafe
from interlock.adapters.stream_session import Doorkeeper
from interlock.coordinator.mail import NoFolder
from interlock.protocol.limits import SCAN_MS
from interlock.protocol.names import COORDINATOR, why_not_agent

log = structlog.get_logger("post_office")
AGAIN_S = 0.25  # what met a limit is tried again so soon
SENDERS_AT_ONCE = 8
RENAMED_MAX = 4_096  # names seen as they were renamed into place; the others are told by their times
FRESH_NS = 2_000_000_000  # a directory that changed so short a time ago may change again within one tick of its clock
SWEEP_S = 3_600.0
WATCHED = {"out": ARRIVALS, "new": DEPARTURES, "relay": ARRIVALS}
WATCHED_COORDINATOR = {"new": ARRIVALS, "relay": ARRIVALS}


class PostOffice:
    """Implements coordinator.mail.Mail. Args: home: its root. doorkeeper: serves relayed streams like any other."""

    def __init__(self, home: Path, doorkeeper: Doorkeeper) -> None:
        self.folders = Folders(home)
        self._supervisor = doorkeeper.supervisor
        self._delivery = Delivery(self._supervisor, self.folders)
        self._posting = Posting(self.folders)
        self._intake = Intake(doorkeeper, self.folders, self._delivery, self._posting)
        self._watch = folder_watch(self._hear, self.folders.root)
        self._relays = RelayDoor(doorkeeper, self.folders, self._watch)
        self._letters: dict[str, bool] = {}  # agent → also look at what lies there
        self._posts: dict[tuple[str, str], None] = {}  # (agent, out or sorted), in turn
        self._later: dict[tuple[str, str], None] = {}
        self._sort = True
        self._stamps: dict[str, dict[str, tuple[int, ...]]] = {}  # agent → directory → what changes when it does
        self._wake_letters, self._wake_posts, self._wake_scan = anyio.Event(), anyio.Event(), anyio.Event()

    # --- what the coordinator says ------------------------------------------------------------
    def changed(self, agent: str) -> None:
        if self._delivery.uses(agent):
            self._bring(agent, look=agent not in self._stamps)

    def use(self, agent: str) -> str:
        try:
            self.folders.create(COORDINATOR)  # where the agent may post: a full disk may have been in its way
            path = self.folders.create(agent)
        except (Unsafe, OSError) as error:
            raise NoFolder(f"the inbox folder cannot be made ({error}): mend that, then join again") from None
        self._add_watches(COORDINATOR)
        self._add_watches(agent)
        return path

    # --- life ---------------------------------------------------------------------------------
    async def run(self) -> None:
        """Serve until cancelled. A fault of ours in here is logged, and costs the rest of the bus nothing."""
        self._prepare(COORDINATOR)
        self._watch.start()
        try:
            while True:
                try:
                    await self._serve()
                except Exception as error:
                    log.error("post_office_failed", exc_info=error)
                await anyio.sleep(SCAN_MS / 1000)
        finally:
            self._watch.stop()
            self._relays.close()

    async def _serve(self) -> None:
        self._look_everywhere()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._bring_letters)
            tasks.start_soon(self._take_posts)
            tasks.start_soon(self._scan_for_ever)
            tasks.start_soon(self._relays.run)

    async def _bring_letters(self) -> None:
        while True:
            self._wake_letters = anyio.Event()
            while self._letters:
                agent = next(iter(self._letters))
                look = self._letters.pop(agent)
                if look:
                    self._prepare(agent)
                brought = self._delivery.bring(agent, look=look)
                if brought is None:
                    self._stamps.pop(agent, None)  # the next scan tries again
                elif not brought:
                    self._letters.setdefault(agent, False)
                await anyio.lowlevel.checkpoint()
            await self._wake_letters.wait()

    async def _take_posts(self) -> None:
        """Sort, then let every sender have its turn: nobody's flood keeps the others waiting for more than that."""
        while True:
            self._wake_posts = anyio.Event()
            while self._sort or self._posts:
                if self._sort:
                    self._sort = False
                    senders, more = await self._intake.sort()
                    self._sort |= more
                    self._posts |= {(each, SORTED): None for each in senders if why_not_agent(each) is None}
                async with anyio.create_task_group() as tasks:
                    for agent, source in list(self._posts)[:SENDERS_AT_ONCE]:
                        del self._posts[agent, source]
                        tasks.start_soon(self._take_in, agent, source)
                if self._posting.half.waiting():
                    self._wake_scan.set()
            with anyio.move_on_after(AGAIN_S if self._later else None):
                await self._wake_posts.wait()
            self._posts |= self._later
            self._later.clear()

    async def _take_in(self, agent: str, source: str) -> None:
        try:
            more, again = await self._intake.take_in(agent, source)
        except Exception as error:  # our own fault: it is in the log, and costs nobody else's turn
            log.error("intake_failed", agent=agent, source=source, exc_info=error)
            return
        if more:
            self._posts[agent, source] = None
        elif again:
            self._later[agent, source] = None

    async def _scan_for_ever(self) -> None:
        swept_s = float("-inf")
        while True:
            if time.monotonic() - swept_s >= SWEEP_S:
                swept_s = time.monotonic()
                agents, keep_ms = [COORDINATOR, *self._delivery.users()], self._supervisor.config.keep
                await anyio.to_thread.run_sync(sweep_folders, self.folders, agents, keep_ms)
                self._posting.forget()
            self._wake_scan = anyio.Event()
            in_use = [each for each in self._delivery.users() if self._supervisor.world.registry.living(each)]
            half = self._posting.half.waiting()
            if not (in_use or half or self._relays.is_busy() or not self._watch.works):
                await self._wake_scan.wait()
                continue
            await anyio.sleep(SCAN_MS / 1000)
            for agent, name in await anyio.to_thread.run_sync(self._changed, [COORDINATOR, *in_use]):
                self._look_into(agent, name)
            for agent in half:
                self._look_into(agent, "new" if agent == COORDINATOR else OUT)
            self._relays.poll()

    # --- where to look ------------------------------------------------------------------------
    def _hear(self, path: Path | None, name: str, renamed: bool) -> None:
        """A notification. Args: path: where; None where anything may have happened."""
        if path is None:
            self._look_everywhere()
            return
        try:
            agent, where, *stream = path.relative_to(self.folders.root).parts
        except ValueError:
            return
        if stream:
            self._relays.heard(path)
            return
        if renamed and len(self._posting.half.renamed) < RENAMED_MAX:
            self._posting.half.renamed.add((agent, name))
        self._look_into(agent, where)

    def _look_everywhere(self) -> None:
        self._look_into(COORDINATOR, "new")
        self._relays.look(COORDINATOR)
        for agent in self._delivery.users():
            for name in WATCHED:
                self._look_into(agent, name)
        self._wake_scan.set()

    def _look_into(self, agent: str, name: str) -> None:
        """Something may have happened in one directory of a folder."""
        if name == "relay":
            self._relays.look(agent)
        elif agent == COORDINATOR:
            self._sort = True
            self._wake_posts.set()
        elif name == OUT:
            self._posts[agent, OUT] = None
            self._wake_posts.set()
        else:
            self._bring(agent, look=True)

    def _bring(self, agent: str, *, look: bool) -> None:
        self._letters[agent] = look or self._letters.get(agent, False)
        self._wake_letters.set()
        self._wake_scan.set()

    def _prepare(self, agent: str) -> None:
        """Make what is missing of a folder, and watch it."""
        if self.folders.using(agent, make_all):
            self.folders.is_well(agent)
            self._add_watches(agent)

    def _add_watches(self, agent: str) -> None:
        for name, mask in (WATCHED_COORDINATOR if agent == COORDINATOR else WATCHED).items():
            self._watch.add(self.folders.path(agent) / name, mask)

    def _changed(self, agents: list[str]) -> list[tuple[str, str]]:
        """Directories that are not as they were when this was asked last. Runs in a thread, and opens nothing."""
        found: list[tuple[str, str]] = []
        fresh_ns = time.time_ns() - FRESH_NS
        for agent in agents:
            folder = str(self.folders.path(agent))
            outer = _stamp(folder)
            if not outer:
                self._stamps.pop(agent, None)
                found.append((agent, "new"))  # gone, or a link: it is made again, or refused
                continue
            known = self._stamps.setdefault(agent, {})
            for name in WATCHED_COORDINATOR if agent == COORDINATOR else WATCHED:
                stamp = _stamp(f"{folder}/{name}")
                if not stamp or known.get(name) != (outer[0], *stamp) or stamp[1] > fresh_ns:
                    found.append((agent, name if stamp else "new"))
                known[name] = (outer[0], *stamp)
        with contextlib.suppress(OSError):
            if os.listdir(self.folders.path(COORDINATOR) / SORTED):
                found.append((COORDINATOR, "new"))
        return found


def _stamp(path: str) -> tuple[int, ...]:
    """(inode, time of its last change) of a directory; empty where there is none of its own."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return ()
    return (found.st_ino, found.st_mtime_ns) if stat.S_ISDIR(found.st_mode) else ()
