"""A row reads like a sorted list, whatever comes and goes."""

import random

import pytest

from interlock.protocol.row import PIECE, Row


@pytest.mark.parametrize("grows_at_its_end", [False, True])
def test_a_row_reads_like_a_sorted_list(*, grows_at_its_end: bool) -> None:
    chance, row, naive = random.Random(3), Row[int](), list[int]()
    for number in range(4 * PIECE):
        item = number if grows_at_its_end else chance.randrange(10**6)
        if item not in naive:
            row.add(item)
            naive.append(item)
        if chance.random() < 0.3:
            row.remove(naive.pop(chance.randrange(len(naive))))
    naive.sort()
    assert [*row] == naive
    for item in (-1, naive[0], naive[PIECE] + 1, naive[-1], 10**6):
        assert [*row.since(item)] == [each for each in naive if each >= item]
    chance.shuffle(naive)
    while naive:
        assert row.first() == min(naive)
        row.remove(naive.pop())
    assert not row
    assert [*row.since(0)] == []


def test_one_that_is_made_of_many_is_the_same() -> None:
    items = random.Random(4).sample(range(10**6), 3 * PIECE)
    assert [*Row(items)] == sorted(items)
