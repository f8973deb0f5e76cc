"""A line: places in order, each (number, name). It never changes: a change makes a new line, which shares the rest.

The places stand in pieces of PIECE at most. A change copies one piece, and the list of the pieces (ADR 24).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

Place = tuple[int, str]
PIECE = 128


class Line:
    """Args: places: in any order."""

    __slots__ = ("_pieces",)

    def __init__(self, places: Iterable[Place] = ()) -> None:
        all_ = sorted(places)
        self._pieces = tuple(tuple(all_[at : at + PIECE]) for at in range(0, len(all_), PIECE))

    def add(self, place: Place) -> "Line":
        """With this place, which is not in it yet."""
        if not self._pieces:
            return _of(((place,),))
        which = self._which(place)
        piece = self._pieces[which]
        at = bisect_left(piece, place)
        if len(piece) < PIECE:
            return self._instead(which, ((*piece[:at], place, *piece[at:]),))
        if at == PIECE:  # the end of a line that grows: full pieces stay full
            return self._instead(which, (piece, (place,)))
        half = PIECE // 2
        both = (*piece[:at], place, *piece[at:])
        return self._instead(which, (both[:half], both[half:]))

    def remove(self, place: Place) -> "Line":
        """Without this place, which is in it."""
        which = self._which(place)
        piece = self._pieces[which]
        at = bisect_left(piece, place)
        assert piece[at] == place
        rest = (*piece[:at], *piece[at + 1 :])
        return self._instead(which, (rest,) if rest else ())

    def index(self, place: Place) -> int:
        """How many stand before that place."""
        if not self._pieces:
            return 0
        which = self._which(place)
        return sum(map(len, self._pieces[:which])) + bisect_left(self._pieces[which], place)

    def first(self) -> str:
        """The name at the front; "" where there is nobody."""
        return self._pieces[0][0][1] if self._pieces else ""

    def first_number(self) -> int:
        """The number of the place at the front, which there is."""
        return self._pieces[0][0][0]

    def places(self) -> Iterator[Place]:
        """From the front."""
        return (place for piece in self._pieces for place in piece)

    def since(self, place: Place) -> Iterator[str]:
        """The names from that place on, which need not be in it."""
        if self._pieces:
            which = self._which(place)
            piece = self._pieces[which]
            yield from (name for _, name in piece[bisect_left(piece, place) :])
            yield from (name for piece in self._pieces[which + 1 :] for _, name in piece)

    def __iter__(self) -> Iterator[str]:
        """The names, from the front."""
        return (name for piece in self._pieces for _, name in piece)

    def _which(self, place: Place) -> int:
        """The piece that a place is in, or is to be in."""
        return max(0, bisect_right(self._pieces, place, key=lambda piece: piece[0]) - 1)

    def _instead(self, which: int, pieces: tuple[tuple[Place, ...], ...]) -> "Line":
        return _of((*self._pieces[:which], *pieces, *self._pieces[which + 1 :]))


def _of(pieces: tuple[tuple[Place, ...], ...]) -> Line:
    line = Line.__new__(Line)
    line._pieces = pieces
    return line


EMPTY_LINE = Line()
