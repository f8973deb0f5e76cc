"""The mailbox: bounded, in order, with room kept for what must not be refused. It never waits: a full one refuses."""

from collections import deque
from typing import Generic, TypeVar

from interlock.protocol.limits import MAILBOX_MESSAGES_MAX, MAILBOX_RESERVED

Item = TypeVar("Item")


class Mailbox(Generic[Item]):
    """Args: size: messages at most; reserved: of these, for `urgent` ones (timer, steps, watcher, RELEASE, …)."""

    def __init__(self, size: int = MAILBOX_MESSAGES_MAX, reserved: int = MAILBOX_RESERVED) -> None:
        self._items: deque[Item] = deque()
        self._size = size
        self._open_to_all = size - reserved

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: Item, *, urgent: bool = False, own: bool = False) -> bool:
        """Add at the end; False where there is no room, and nothing was added.

        Args:
            own: the bus's own word. It is never refused, for nobody would say it again; there are no more of them than
                deadlines, steps and watched processes.
        """
        if not own and len(self._items) >= (self._size if urgent else self._open_to_all):
            return False
        self._items.append(item)
        return True

    def put_back(self, items: list[Item]) -> None:
        """Put items back at the front, in their order: they had their room already."""
        self._items.extendleft(reversed(items))

    def first(self) -> Item:
        """What is next; there is something."""
        return self._items[0]

    def take_first(self) -> Item:
        return self._items.popleft()

    def take_all(self) -> list[Item]:
        items = list(self._items)
        self._items.clear()
        return items
