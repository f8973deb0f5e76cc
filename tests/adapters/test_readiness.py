"""How often a server that comes up is looked at: soon enough for whoever waits, and no busy loop."""

from interlock.adapters.readiness import LOOK_S_MAX, pause_s


def looks(took_s: float) -> tuple[int, float]:
    """How many looks until it is seen that a server is up, and how much later than it was."""
    at, number = 0.0, 1
    while at < took_s:
        at += pause_s(at)
        number += 1
    return number, at - took_s


def test_it_is_seen_within_a_twentieth_of_what_it_took() -> None:
    for tenths_ms in range(10, 200_000, 37):
        took_s = tenths_ms / 10_000
        assert looks(took_s)[1] <= max(0.0031, took_s * 0.05), took_s


def test_a_long_start_is_looked_at_seldom() -> None:
    assert looks(0.3)[0] <= 60
    assert looks(60)[0] <= 300
    assert pause_s(3600) == LOOK_S_MAX
