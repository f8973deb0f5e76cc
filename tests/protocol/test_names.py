"""Names: what is not a name here never becomes a path or a lock."""

import difflib
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.protocol.limits import NAMES_COMPARED_MAX
from interlock.protocol.names import (
    RESERVED,
    is_key,
    key_of_state_file,
    nearest,
    short_name,
    state_file_name,
    why_not_agent,
    why_not_resource,
)

GOOD_AGENTS = ["a", "7", "ann", "Ann.Lee_2-x", "a" * 64, "a-b-c"]
BAD_AGENTS = [
    "", "-a", ".a", "_a", "a b", "a/b", "a\n", "a\0", "ä", "a" * 65, "a--b", "..", "coordinator", "Supervisor", "ALL",
    "timer", "journal",
]  # fmt: skip

GOOD_RESOURCES = [
    "server-loop", "a", "7", "A.b_c-d", "a" * 64, "machine/server-loop", "repository/ab12_-/x", "machine/" + "a" * 64,
    "repository/" + "a" * 128 + "/" + "b" * 64,
]  # fmt: skip
BAD_RESOURCES = [
    "", "-a", ".a", "_a", "a b", "a..b", "..", "a\n", "a\0", "ä", "a" * 65,
    "/", "machine/", "/a", "machine//a", "machine/../a", "machine/a/b", "machine/..", "Machine/a",
    "repository/a", "repository//a", "repository/a/", "repository/a.b/x", "repository/" + "a" * 129 + "/x",
    "repository/a/b/c", "other/a", "machine/" + "a" * 65, "machine/" + "a" * 257,
]  # fmt: skip


@pytest.mark.parametrize("name", GOOD_AGENTS)
def test_a_good_agent_name_is_taken(name: str) -> None:
    assert why_not_agent(name) is None


@pytest.mark.parametrize("name", BAD_AGENTS, ids=repr)
def test_a_bad_agent_name_is_refused_with_a_sentence_that_shows_it(name: str) -> None:
    assert repr(name) in (why_not_agent(name) or "")


@pytest.mark.parametrize("name", GOOD_RESOURCES)
def test_a_good_resource_is_taken(name: str) -> None:
    assert why_not_resource(name) is None


@pytest.mark.parametrize("name", BAD_RESOURCES, ids=repr)
def test_a_bad_resource_is_refused(name: str) -> None:
    assert why_not_resource(name)


def test_a_key_of_257_characters_is_refused_with_both_numbers() -> None:
    why = why_not_resource("machine/" + "a" * 249)
    assert why is not None
    assert "256" in why
    assert "257" in why


@given(st.text(max_size=80))
def test_what_is_taken_is_safe_as_a_part_of_a_path(name: str) -> None:
    if why_not_agent(name) is None:
        assert name not in RESERVED
        assert name.isascii()
        assert not set(name) & set("/\\ \0\n")
    if why_not_resource(name) is None:
        assert ".." not in name
        assert name.isascii()
        assert not set(short_name(name)) & set("/\\ \0\n")


def test_a_key_has_a_slash_and_its_last_part_is_the_short_name() -> None:
    assert is_key("machine/x")
    assert not is_key("x")
    assert short_name("repository/abc/x") == "x"
    assert short_name("x") == "x"


KEYS = [
    *(
        "machine/x",
        "machine/X",
        "machine/gpu",
        "machine/GPU",
        "machine/Gpu",
        "machine/a.md",
        "machine/a-b",
        "machine/a_b",
    ),
    *("repository/abc/x", "repository/ABC/x", "repository/abc/X", "repository/a-b/x", "repository/x/abc"),
    f"repository/{'A' * 128}/{'B' * 64}",
]


def test_every_key_has_a_state_file_of_its_own_and_is_found_by_it() -> None:
    for folds_case in (False, True):
        names = [state_file_name(key, folds_case=folds_case) for key in KEYS]
        assert len({name.lower() if folds_case else name for name in names}) == len(KEYS), "no two share a file"
        assert [key_of_state_file(name) for name in names] == KEYS
        assert all(len(name) <= 255 and "/" not in name and not name.startswith(".") for name in names)
    assert state_file_name("machine/server-loop") == "server-loop.md"


@pytest.mark.parametrize("name", ["", ".md", "x", "x.txt", "-x.md", "a..b.md", "x y.md", "@x.md", "x@.md", ".numbers"])
def test_what_is_no_state_file_names_no_key(name: str) -> None:
    assert key_of_state_file(name) is None


def test_the_nearest_names_come_best_first_and_are_few() -> None:
    known = ["server-loop", "server-loops", "server-lop", "servers-loop", "flash-board"]
    assert nearest("server-loop", known)[0] == "server-loop"
    assert len(nearest("server-loop", known)) == 3
    assert nearest("FLASH-BORD", known) == ["flash-board"]
    assert nearest("zzz", known) == []


def test_the_nearest_of_very_many_is_found_without_comparing_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A typing error in a name held up everybody else for a second, where 65,536 agents had been."""
    # given
    compared: list[int] = []
    closest = difflib.get_close_matches

    def counted(word: str, possible: Collection[str], n: int, cutoff: float) -> list[str]:
        compared.append(len(possible))
        return closest(word, possible, n=n, cutoff=cutoff)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    crowd = [f"worker-{n}" for n in range(20_000)] + ["recipient"]
    # then
    assert nearest("recipent", crowd) == ["recipient"]
    assert max(compared) <= 2 * NAMES_COMPARED_MAX
