"""Every combination: a breadth-first search over all that can happen to one resource, with every promise checked.

Worlds are told apart by their normal form (`search_normal.py`), so that the search goes deep: it says how many it saw.
A few seconds of it are here; `scripts/search` goes on for as long as it is let. The search is itself tested: machines
with one planted fault each (`search_mutants.py`) are caught by it.
"""

import pytest
from tests.protocol.search import Found, search
from tests.protocol.search_mutants import MUTANTS, Plant
from tests.protocol.search_plans import QUICK
from tests.protocol.search_world import Config


@pytest.mark.parametrize(("config", "depth"), QUICK, ids=[config.name for config, _ in QUICK])
def test_every_promise_holds_in_every_combination(config: Config, depth: int) -> None:
    print(search(config, depth))


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "config", "depth", "promise"), MUTANTS, ids=[row[0].__name__ for row in MUTANTS])
def test_a_fault_is_found(
    monkeypatch: pytest.MonkeyPatch, plant: Plant, config: Config, depth: int, promise: str
) -> None:
    plant(monkeypatch)
    with pytest.raises(Found, match=promise):
        search(config, depth)
