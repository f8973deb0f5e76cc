"""State files, kept up while a supervisor runs. Implements coordinator.states.States; see state_folder.py for the disk.

    cover ──▶ created, folder fsynced     one thread call at a time, so that a removal never overtakes a creation
    changed ──▶ dirty ── a moment, so that many changes make one write ──▶ a round in a thread ──▶ …

Nothing waits for a round. What cannot be written is logged once, and again when it can; the bus goes on.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread
import structlog

from interlock.adapters.state_folder import StateFolder
from interlock.coordinator import state_text
from interlock.coordinator.states import Found, Mark
from interlock.coordinator.store import NotWritten
from interlock.coordinator.supervisor import Supervisor
from interlock.protocol.limits import NUMBERS_RESERVED, STATE_FILES_A_ROUND

log = structlog.get_logger("state_files")
SETTLE_S = 0.2  # after the first change, so that what belongs together is written together
ROUND_S = 0.8  # after a round: a busy resource's file is written once a second at most
IDLE_KEPT_S = 60.0  # then the file of an undeclared resource that nobody has or wants goes away
RETRY_S = 10.0  # then what could not be written is tried again, though nothing has changed
LAST_S = 5.0  # for the last round, of a supervisor that leaves
Result = TypeVar("Result")


class StateFiles:
    """One per bus. Args: folder: where they lie. log_folder: where servers' logs lie."""

    def __init__(self, folder: StateFolder, log_folder: str) -> None:
        self.numbers_through = 0
        self.problem = ""  # what cannot be written at present
        self._folder = folder
        self._log_folder = log_folder
        self._supervisor: Supervisor | None = None
        self._known_bus = ""
        self._inode = (0, 0)
        self._found: list[str] = []
        self._present: set[str] = set()
        self._wanted: set[str] = set()
        self._dirty: dict[str, None] = {}
        self._failed: dict[str, None] = {}  # in the last round
        self._idle: dict[str, float] = {}  # key → since when, on the loop's clock
        self._told: set[str] = set()
        self._order = anyio.Lock()
        self._one_thread = anyio.CapacityLimiter(1)
        self._wake = anyio.Event()

    async def look(self) -> Found:
        """What is there before anything is decided."""
        found = await self._disk(self._folder.look)
        if found.mark is not None:
            self.numbers_through, self._known_bus = found.mark.through, found.mark.bus
        self._found = [*found.files]
        self._present = {key for key, facts in found.files.items() if facts is not None}
        self._inode = await self._disk(self._folder.inode)
        return found

    def attach(self, supervisor: Supervisor) -> None:
        """Whose world the files tell of."""
        self._supervisor = supervisor

    async def begin(self) -> None:
        """Once the journal is claimed: what is declared or used has its file, every other its chance to go away."""
        supervisor = self._supervisor
        assert supervisor is not None
        used = [key for key, resource in supervisor.world.resources.items() if not resource.is_idle()]
        wanted = list(dict.fromkeys([*supervisor.config.resources, *used]))
        for key in wanted:
            self.changed(key)
        for key in self._found:
            if key not in self._dirty:
                self._idle[key] = anyio.current_time()
        try:
            # Each start is told of by the mark: a copy made while no supervisor ran is then always seen to be old.
            await self.reserve_numbers(supervisor.world.seq)
            await self._create(wanted)
        except NotWritten as error:
            self._say("begin", str(error))

    # --- coordinator.states.States --------------------------------------------------------------
    def covers(self, key: str) -> bool:
        return key in self._present

    async def cover(self, key: str) -> None:
        """Raises NotWritten."""
        self._wanted.add(key)
        await self._create([key])

    async def reserve_numbers(self, seq: int) -> None:
        """Raises NotWritten."""
        world = self._supervisor.world if self._supervisor is not None else None
        bus = (world.bus if world is not None else "") or self._known_bus
        now = world.seq if world is not None else 0
        mark = Mark(bus, max(seq, now) + NUMBERS_RESERVED, now)
        async with self._order:
            await self._written(partial(self._folder.write_mark, mark))
            self.numbers_through, self._known_bus = mark.through, bus

    def changed(self, key: str) -> None:
        self._dirty[key] = None
        if not self._wake.is_set():
            self._wake.set()

    # --- rounds -----------------------------------------------------------------------------------
    async def run(self) -> None:
        """Write what has changed, again and again, until cancelled."""
        while True:
            with anyio.move_on_after(RETRY_S if self._told else IDLE_KEPT_S if self._idle else float("inf")):
                await self._wake.wait()
                await anyio.sleep(SETTLE_S)
            await self._round()
            await anyio.sleep(ROUND_S)

    async def finish(self) -> None:
        """The last round: all that is dirty, and the mark with the last number of all."""
        with anyio.move_on_after(LAST_S, shield=True):
            self._dirty.update(self._failed)
            while self._dirty and await self._round():
                pass
            try:
                await self.reserve_numbers(0)
            except NotWritten as error:
                self._say("finish", str(error))

    async def _round(self) -> bool:
        """One batch of writes, then what has been idle for long; False where it failed. It never raises."""
        self._wake, ended_well = anyio.Event(), False
        try:
            await self._same_folder()
            await self._write()
            await self._remove_idle()
            if self._supervisor is not None:
                seq = self._supervisor.world.seq
                others = self._told - self._failed.keys()  # the mark shows whether these could be written by now
                if others or seq > self.numbers_through - NUMBERS_RESERVED // 2:
                    await self.reserve_numbers(seq)
            if not self._failed:
                self._told.clear()
                self.problem = ""
            ended_well = True
        except (OSError, NotWritten) as error:
            self._say("round", getattr(error, "strerror", "") or str(error))
        except Exception as error:
            log.error("round_failed", exc_info=error)
        if self._dirty:
            self._wake.set()
        return ended_well

    async def _write(self) -> None:
        keys = list({**self._dirty, **self._failed})[:STATE_FILES_A_ROUND]
        for key in keys:
            self._dirty.pop(key, None)
        if keys:
            self._failed.update(
                dict.fromkeys(keys)
            )  # until it is known which; all of them where the folder is not there
            failed = await self._disk(partial(self._folder.write, [self._content(key) for key in keys]))
            self._failed = {key: None for key in self._failed if key in failed or key not in keys}
            for key in keys:
                self._say(key, failed.get(key, ""))

    def _content(self, key: str) -> tuple[str, bytes, str]:
        """A file as it is to be; and where else it is shown."""
        supervisor = self._supervisor
        assert supervisor is not None
        world, config = supervisor.world, supervisor.config
        resource = world.resource(key, config.definition(key))
        if resource.is_idle() and key not in config.resources:
            self._idle.setdefault(key, anyio.current_time())
        else:
            self._idle.pop(key, None)
        facts = state_text.facts_of(
            resource, bus=world.bus, seq=world.seq, through=self.numbers_through, at_ms=supervisor.clock.wall_ms()
        )
        data = state_text.write(facts, resource.definition, self._log_folder)
        return key, data, config.state_files.get(key, "")

    async def _remove_idle(self) -> None:
        """From here until the file is gone the key is not covered: whoever asks for it waits for its file anew."""
        supervisor, before = self._supervisor, anyio.current_time() - IDLE_KEPT_S
        assert supervisor is not None
        gone = []
        for key in [each for each, since in self._idle.items() if since <= before][:STATE_FILES_A_ROUND]:
            del self._idle[key]
            is_idle = supervisor.world.resource(key).is_idle() and not supervisor.dispatcher.knows(key)
            if is_idle and key not in supervisor.config.resources and key not in self._dirty:
                self._present.discard(key)
                gone.append(key)
        if gone:
            async with self._order:
                await self._disk(partial(self._folder.remove, gone))

    async def _same_folder(self) -> None:
        """Where the folder was taken away or replaced, all of it is written again."""
        inode = await self._disk(self._folder.inode)
        supervisor = self._supervisor
        if inode == self._inode or supervisor is None:
            return
        world = supervisor.world
        live = [key for key, resource in world.resources.items() if not resource.is_idle()]
        log.warning("folder_replaced", path=self._folder.path)
        self._present.clear()
        for key in dict.fromkeys([*supervisor.config.resources, *live]):
            self._dirty[key] = None
        await self._create(list(self._dirty))
        await self.reserve_numbers(world.seq)
        self._inode = await self._disk(self._folder.inode)

    # --- straight helpers -------------------------------------------------------------------------
    async def _create(self, keys: list[str]) -> None:
        """Have these keys, and all that others wait for, covered. Raises NotWritten where one of `keys` is not."""
        async with self._order:
            self._wanted |= {key for key in keys if key not in self._present}
            wanted, self._wanted = sorted(self._wanted - self._present), set()
            if not wanted:
                return
            failed = await self._written(partial(self._folder.create, wanted))
            self._present |= {key for key in wanted if key not in failed}
            for key in wanted:
                self._say(key, failed.get(key, ""))
            mine = [failed[key] for key in keys if key in failed]
            if mine:
                raise NotWritten(mine[0], full=True)

    async def _written(self, work: Callable[[], Result]) -> Result:
        try:
            return await self._disk(work)
        except OSError as error:
            raise NotWritten(f"{self._folder.path} cannot be written ({error.strerror})", full=True) from error

    async def _disk(self, work: Callable[[], Result]) -> Result:
        return await anyio.to_thread.run_sync(work, limiter=self._one_thread, abandon_on_cancel=True)

    def _say(self, about: str, why: str) -> None:
        """Log what cannot be written once, until it can be."""
        if why and about not in self._told:
            self._told.add(about)
            log.error("not_written", about=about, why=why)
        elif not why:
            self._told.discard(about)
        self.problem = why or (self.problem if self._told else "")
