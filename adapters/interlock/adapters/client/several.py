"""Several resources for the length of a block, all or none: a hold whose ticket is for all of them."""

from __future__ import annotations

from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

import anyio

from interlock.adapters.client.grants import Grant
from interlock.adapters.client.holds import Hold
from interlock.protocol import messages

if TYPE_CHECKING:
    from interlock.adapters.client.holdings import Holdings


class SeveralHold(Hold):
    """The hold behind a HoldAll: `all` has a grant of each resource."""

    def __init__(self, *args: object, **how: object) -> None:
        super().__init__(*args, **how)  # type: ignore[arg-type] # as Hold takes them
        self.all: list[Grant] = []

    def made(self, granted: messages.Granted, *, shared: bool, answer_polls: bool) -> Grant:
        """A grant of each; the first stands for all."""
        holdings: Holdings = self._holdings
        each = granted.together or (granted,)
        self.all = [holdings.granted(one, shared=shared, answer_polls=answer_polls) for one in each]
        return self.all[0]

    def _grants(self) -> list[Grant]:
        return self.all

    def abandon(self) -> list[anyio.Event]:
        """As of Hold: each that is still ours is given back by a debt."""
        if not self.all or self._owes:
            return []
        for grant in self.all:
            grant.lost.then(None)
        live = [grant for grant in self.all if not (grant.shared or grant.lost.is_set())]
        for grant in self.all:
            if grant not in live:
                self._holdings.let_go(grant)
        if not live:
            self._leave_turn()
            return []
        return [self._owe(partial(self._give_back, live), "giving back")]

    async def _give_back(self, live: list[Grant]) -> None:
        for grant in live:
            await self._holdings.release(grant)


class HoldAll:
    """One use of several resources; see `Bus.hold_all`, which makes it."""

    def __init__(self, hold: SeveralHold) -> None:
        self.several = hold

    async def __aenter__(self) -> tuple[Grant, ...]:
        await self.several.__aenter__()
        return tuple(self.several.all)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return await self.several.__aexit__(kind, error, trace)
