"""Durations: what people write is read, what the bus writes is read back, and nothing else is a duration."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.protocol.durations import format_age, format_duration, parse_duration

S, M, H, D = 1_000, 60_000, 3_600_000, 86_400_000

READ = [
    ("200ms", 200),
    ("1 millisecond", 1),
    ("30s", 30 * S),
    ("90 s", 90 * S),
    ("3m", 3 * M),
    ("20 min", 20 * M),
    ("20 minutes", 20 * M),
    ("20M", 20 * M),
    ("1h30m", H + 30 * M),
    ("1h 30m", H + 30 * M),
    ("1 hour and 30 minutes", H + 30 * M),
    ("1 hour, 30 minutes", H + 30 * M),
    ("2 days", 2 * D),
    ("1.5h", H + 30 * M),
    ("about 20 minutes", 20 * M),
    ("around 5m", 5 * M),
    ("approx. 5m", 5 * M),
    ("ca. 5m", 5 * M),
    ("~5m", 5 * M),
    ("for 5m", 5 * M),
    ("up to 2 hours", 2 * H),
    ("  20m\n", 20 * M),
    ("20\N{NO-BREAK SPACE}m", 20 * M),
]

NOT_READ = [
    "", " ", "0s", "0.4ms", "-5m", "20", "m", "20x", "20mm", "20m later", "20m and", "20m,", "about", "a 20m",
    "20m20", "1.2345h", "20 m in", "twenty minutes", "5m\0",
]  # fmt: skip


@pytest.mark.parametrize(("text", "ms"), READ, ids=[text.strip() for text, _ in READ])
def test_a_person_s_duration_is_read(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize("text", NOT_READ, ids=repr)
def test_anything_else_is_no_duration(text: str) -> None:
    assert parse_duration(text) is None


@pytest.mark.parametrize("text", ["5 mınutes", "5 mİnutes", "20 ſ", "1 K", "5ﬅ"])
def test_letters_that_only_look_like_a_unit_raise_nothing(text: str) -> None:
    """Some letters fold onto ASCII ones: read as a unit or not at all, but never a crash."""
    parse_duration(text)


ALMOST = st.from_regex(r"(about )?[0-9.]{1,5} ?(m|min|s|ms|h|d)( and|,)?( [0-9]m)?", fullmatch=True)


@given(st.text(max_size=40) | ALMOST)
def test_no_text_is_a_crash_and_what_is_read_is_at_least_1_ms(text: str) -> None:
    read = parse_duration(text)
    assert read is None or read >= 1


@given(st.integers(1, 10**9))
def test_what_is_written_is_read_back(ms: int) -> None:
    assert parse_duration(format_duration(ms)) == ms


@pytest.mark.parametrize(
    ("ms", "text"), [(1, "1ms"), (1_500, "1s500ms"), (90 * M, "1h30m"), (D, "1d"), (0, "0s"), (-5, "0s")]
)
def test_a_duration_is_written_without_empty_parts(ms: int, text: str) -> None:
    assert format_duration(ms) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0s"), (999, "0s"), (-9, "0s"), (59_999, "59s"), (61 * S, "1m1s"), (H + M + S, "1h1m"), (D + H + M, "1d1h")],
)
def test_an_age_has_two_parts_at_most_and_nothing_below_a_second(ms: int, text: str) -> None:
    assert format_age(ms) == text
