"""Managed launches: one watch each, however many resources and whether the gate have it on record.

    Started, CommandAdmitted ──▶ registered, watched ──▶ its keeper is gone ──▶ the result, read once ──▶ told to all
    Finished, … of all that had it ──▶ what its keeper left is forgotten

It decides nothing: what the end of a launch means, the gate and the resources know.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from interlock.coordinator.world import GATE
from interlock.protocol.gate_commands import CommandGone
from interlock.protocol.identity import Identity, Presence
from interlock.protocol.resource_commands import LaunchGone

if TYPE_CHECKING:
    from interlock.coordinator.supervisor import Supervisor


class LaunchWatch:
    """One per bus."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._on_record: dict[str, set[str]] = {}  # launch → addresses: the gate, resources
        self._watched: dict[str, Identity] = {}  # launch → its keeper, while that is watched
        self._by_keeper: dict[Identity, str] = {}  # the same the other way round
        self._results: dict[str, LaunchGone] = {}  # read, and not yet on record with all that have the launch
        self._admitting: dict[str, int] = {}  # launch → how often: whoever takes it next has still to learn its end

    def register(self, address: str, launch: str, keeper: Identity, command: str) -> None:
        """From now on that address hears of the launch's end; at once, where that is known already.

        Args: command: its program's name, for a sentence.
        """
        self._on_record.setdefault(launch, set()).add(address)
        if launch in self._results:
            self._tell(address, self._results[launch])
            return
        if self._supervisor.effects.probe(keeper) is Presence.UNKNOWN:  # of one that cannot be seen nothing is proved
            evidence = f"the keeper of {command} (pid {keeper.pid}) cannot be seen from here"
            self._tell(address, LaunchGone(launch, False, None, evidence))
            return
        if launch in self._watched:
            return
        self._watched[launch] = keeper
        self._by_keeper[keeper] = launch

        async def report() -> None:
            if self._unwatch(launch):
                await self.look(launch, keeper)

        try:
            self._supervisor.effects.watch(keeper, lambda: self._supervisor.spawn(report))
        except Exception:  # no descriptor left: whoever registers next tries again
            self._unwatch(launch)
            raise

    async def look(self, launch: str, keeper: Identity) -> None:
        """Read what the keeper left, if it is gone and nobody has read it yet, and tell whoever has the launch."""
        if launch in self._results:
            return
        if launch in self._on_record or launch in self._admitting:
            gone = await self._supervisor.effects.launch_result(launch, keeper)
            if gone is None or launch in self._results:
                return
            if launch in self._on_record or launch in self._admitting:
                self._results[launch] = gone
                for address in sorted(self._on_record.get(launch, ())):
                    self._tell(address, gone)
                return
        self._supervisor.effects.forget(launch)  # what was taken back before it began

    def over(self, address: str, launch: str) -> None:
        """That address has the launch's end on record, or a person's word for it."""
        where = self._on_record.get(launch, set())
        where.discard(address)
        if not where:
            self._on_record.pop(launch, None)
            self._forget_if_over(launch)

    def doubted(self, address: str, launch: str) -> None:
        """That address has it on record that nobody can say how it ended; what its keeper left is evidence yet."""
        self._on_record.get(launch, set()).discard(address)
        if not self._on_record.get(launch):
            self._on_record.pop(launch, None)
            if launch not in self._admitting:
                self._results.pop(launch, None)

    def of_keeper(self, process: Identity) -> str:
        """The launch that a living process is the keeper of, "" where it is none's."""
        return self._by_keeper.get(process, "")

    def where(self, launch: str) -> list[str]:
        """Keys of the resources that have it on record."""
        return sorted(self._on_record.get(launch, set()) - {GATE})

    @contextmanager
    def admitting(self, launch: str) -> Iterator[None]:
        """Meanwhile more of them may take it on record: its result is kept for those, whatever the others do."""
        self._admitting[launch] = self._admitting.get(launch, 0) + 1
        try:
            yield
        finally:
            self._admitting[launch] -= 1
            if not self._admitting[launch]:
                del self._admitting[launch]
                if launch not in self._on_record and launch in self._results:
                    if self._results[launch].proved:
                        self._forget_if_over(launch)
                    else:
                        del self._results[launch]

    def size(self) -> int:
        """How many launches are on record somewhere, watched, or have a result in memory."""
        return len({*self._on_record, *self._watched, *self._results})

    def _unwatch(self, launch: str) -> bool:
        """False where it was not watched."""
        keeper = self._watched.pop(launch, None)
        if keeper is not None and self._by_keeper.get(keeper) == launch:
            del self._by_keeper[keeper]
        return keeper is not None

    def _forget_if_over(self, launch: str) -> None:
        if launch in self._admitting:
            return
        if launch in self._watched and launch not in self._results:  # its keeper lives: forgotten once that is gone
            return
        self._unwatch(launch)
        self._results.pop(launch, None)
        self._supervisor.effects.forget(launch)

    def _tell(self, address: str, gone: LaunchGone) -> None:
        if address == GATE:
            self._supervisor.tell(GATE, CommandGone(gone.launch, gone.proved, gone.code, gone.evidence))
        else:
            self._supervisor.tell(address, gone)
