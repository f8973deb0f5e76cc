"""The experiment with a file and a bus, in small: what it counts is what happens."""

from pathlib import Path

import pytest
from scripts.experiment import Results, page
from scripts.experimenting import rounds
from scripts.experimenting.rounds import Kind, series

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("kind", "stuck"), [("file", 2), ("bus", 0)])
def test_one_wins_each_round_and_what_a_killed_process_had_is_free_again_only_on_the_bus(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, kind: Kind, stuck: int
) -> None:
    monkeypatch.setattr(rounds, "KILLS_EVERY", 4)
    row = series(kind, 3, 8, tmp_path_factory.mktemp("x"))
    assert (row.one_winner, row.no_winner, row.more_winners, row.matches) == (8, 0, 0, 8)
    assert (row.kills, row.stuck, row.freed_ms is None) == (2, stuck, kind == "file")
    shown = page(Results({"cores": "2"}, [row]))
    assert f"| {kind} | 3 | 8 | 8 | 0 | 0 | 8 | 2 | {stuck} |" in shown
    assert "$" not in shown


def test_several_winners_are_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A reservation that is looked for first, and then written, is none: each finds nothing there."""
    monkeypatch.setenv("EXPERIMENT_WITHOUT_EXCLUSION", "1")
    row = series("file", 3, 4, tmp_path, kills=False)
    assert row.more_winners == 4
    assert row.matches == 0
