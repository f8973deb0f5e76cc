"""A row: items in order, of which any may come or go. It changes; what never does is a `Line`.

It stands in pieces of PIECE at most, so that a change moves a few hundred, however many there are.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Generic, TypeVar

Item = TypeVar("Item", bound=Any)  # items can be compared with each other

PIECE = 512


class Row(Generic[Item]):
    """Args: items: in any order."""

    __slots__ = ("_pieces",)

    def __init__(self, items: Iterable[Item] = ()) -> None:
        all_ = sorted(items)
        self._pieces = [all_[at : at + PIECE] for at in range(0, len(all_), PIECE)]

    def add(self, item: Item) -> None:
        """Take in this one, which is not in it yet."""
        if not self._pieces:
            self._pieces.append([item])
            return
        which = self._which(item)
        piece = self._pieces[which]
        insort(piece, item)
        if len(piece) > PIECE:
            half = PIECE if piece[-1] is item else PIECE // 2  # where it grows at its end, full pieces stay full
            self._pieces[which : which + 1] = [piece[:half], piece[half:]]

    def remove(self, item: Item) -> None:
        """Take out this one, which is in it."""
        which = self._which(item)
        piece = self._pieces[which]
        at = bisect_left(piece, item)
        assert piece[at] == item
        del piece[at]
        if not piece:
            del self._pieces[which]

    def first(self) -> Item:
        """The one in front. Raises IndexError where there is none."""
        return self._pieces[0][0]

    def since(self, item: Item) -> Iterator[Item]:
        """Those from there on; it need not be in it itself."""
        if self._pieces:
            which = self._which(item)
            piece = self._pieces[which]
            yield from piece[bisect_left(piece, item) :]
            yield from chain.from_iterable(self._pieces[which + 1 :])

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def __iter__(self) -> Iterator[Item]:
        """From the front."""
        return chain.from_iterable(self._pieces)

    def _which(self, item: Item) -> int:
        """The piece that it is in, or is to be in."""
        if len(self._pieces) == 1:
            return 0
        return max(0, bisect_right(self._pieces, item, key=_front) - 1)


def _front(piece: list[Any]) -> Any:
    return piece[0]
