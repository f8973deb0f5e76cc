"""The map as text: documents made by hand, and what a person reads."""

from typing import Any

import pytest

from interlock.adapters.cli.map_lines import columns_of, lines_of, text_of
from interlock.adapters.cli.map_rows import headline, rows_of

AT = "2026-01-01T12:00:00.000Z"


def held(id_: str, agent: str, *claims: str, **more: Any) -> dict[str, Any]:
    return {
        "lease": id_, "agent": agent, "claims": list(claims), "fence": 1, "shared": False, "purpose": "",
        "state": "held", "since": "2026-01-01T11:59:00.000Z", "left_s": 60, "bound_to": "", "parent": "", "waiting": 0,
        **more,
    }  # fmt: skip


def waits(id_: str, agent: str, *claims: str, behind: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    named = [{"lease": each, "agent": f"of-{each}", "claims": []} for each in behind]
    return {
        "lease": id_, "agent": agent, "claims": list(claims), "purpose": "", "position": 1, "waiting_s": 5,
        "behind": named, **more,
    }  # fmt: skip


def document(*leases: dict[str, Any], waiting: tuple[dict[str, Any], ...] = (), **more: Any) -> dict[str, Any]:
    return {
        "repository": "/r", "at": AT, "leases": list(leases), "waiting": list(waiting), "hot": [],
        "depth": len(waiting), "more": 0, **more,
    }  # fmt: skip


def shown(map_: dict[str, Any], **more: Any) -> list[str]:
    """Guide, path and agent of each row."""
    return [f"{row.guide}{row.path} {row.agent}".rstrip() for row in rows_of(map_, **more)]


TREES = {
    "paths in order, numbers by their size": (
        document(held("L1", "a", "v10"), held("L2", "b", "v9"), held("L3", "c", "f:10-20"), held("L4", "d", "f:2")),
        ["├── f:2 d", "├── f:10-20 c", "├── v9 b", "└── v10 a"],
    ),
    "one thing in a directory is one line": (document(held("L1", "a", "x/y/z.py")), ["└── x/y/z.py a"]),
    "two are a branch": (
        document(held("L1", "a", "x/y/z.py"), held("L2", "b", "x/w/**")),
        ["└── x/", "    ├── w/** b", "    └── y/z.py a"],
    ),
    "a directory that is held, and what is in it": (
        document(held("L1", "a", "x", shared=True), held("L2", "b", "x/y", shared=True)),
        ["└── x a", "    └── y b"],
    ),
    "what follows a wildcard is no directory": (document(held("L1", "a", "x/*/y/z")), ["└── x/*/y/z a"]),
    "braces may hold slashes": (document(held("L1", "a", "x/{y/z,w}")), ["└── x/{y/z,w} a"]),
    "a lease of two paths is at both": (
        document(held("L1", "a", "x/**", "README.md:1-9")),
        ["├── README.md:1-9 a", "└── x/** a"],
    ),
    "who shares stands beside": (
        document(held("L1", "a", "x", shared=True), held("L2", "b", "x", shared=True)),
        ["├── x a", "└── x b"],
    ),
    "a part is below what it is a part of, a part of that below it": (
        document(
            held("L1", "a", "doc", "x/**"), held("L2", "b", "x/y/**", parent="L1"),
            held("L3", "c", "x/y/z", parent="L2"),
        ),
        ["├── doc a", "└── x/** a", "    └── x/y/** b", "        └── x/y/z c"],
    ),
    "a part whose whole is over is at its place": (document(held("L2", "b", "x/y", parent="L1")), ["└── x/y b"]),
    "who waits is below what it waits for, at the path that they both want": (
        document(held("L1", "a", "doc", "x/**"), waiting=(waits("L2", "b", "x/y", behind=("L1",)),)),
        ["├── doc a", "└── x/** a", "    └── x/y b"],
    ),
    "who waits behind one that waits is at its own place": (
        document(waiting=(waits("L2", "b", "x/y", behind=("L9",)),)),
        ["└── x/y b"],
    ),
    "of a part of the map only what is in it": (
        document(held("L1", "a", "doc", "x/**"), within=["x/y"]),
        ["└── x/** a"],
    ),
    "what cannot be seen is written as it is escaped": (
        document(held("L1", "a", "x\n\x1b[2J\u202ey")),
        ["└── x\\n\\x1b[2J\\u202ey a"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("map_", "expected"), TREES.values(), ids=TREES.keys())
def test_the_tree(map_: dict[str, Any], expected: list[str]) -> None:
    assert shown(map_) == expected


STATES = {
    "since 1m, 1m left": held("L1", "a", "x"),
    "shared, since 1m, 1m left, 1 waits": held("L1", "a", "x", shared=True, waiting=1),
    "part of L0, since 1m, 1m left, 3 wait": held("L1", "a", "x", parent="L0", waiting=3),
    "since 1m, while process 7 lives": held("L1", "a", "x", left_s=None, bound_to="process 7"),
    "since 1m, until its commands end": held("L1", "a", "x", left_s=None, state="draining"),
}
WAITS = {
    "waits 5s, place 1, behind of-L1 (L1)": waits("L2", "b", "x", behind=("L1",)),
    "waits 5s, place 1, behind of-L1 (L1), of-L3 (L3), of-L4 (L4) and others": waits(
        "L2", "b", "x", behind=("L1", "L3", "L4", "L5")
    ),
    "waits 5s, place 1, behind of-L1 (L1) and others": waits("L2", "b", "x", behind=("L1",), behind_more=True),
    "waits 5s, place 1, behind others": waits("L2", "b", "x", behind_more=True),
}


@pytest.mark.parametrize(("said", "lease"), STATES.items())
def test_how_a_lease_stands(said: str, lease: dict[str, Any]) -> None:
    assert [row.state for row in rows_of(document(lease))] == [said]


@pytest.mark.parametrize(("said", "waiter"), WAITS.items())
def test_how_one_waits(said: str, waiter: dict[str, Any]) -> None:
    assert [row.state for row in rows_of(document(waiting=(waiter,)))] == [said]


def test_time_passes_without_a_new_document() -> None:
    map_ = document(held("L1", "a", "x"), waiting=(waits("L2", "b", "y"),))
    assert [row.state for row in rows_of(map_, 61_000)] == ["since 2m1s, 0s left", "waits 1m6s, place 1, behind others"]


def test_what_the_map_is_of() -> None:
    assert headline(document()) == "nobody has a lease in /r: bus lease acquire PATH"
    assert headline(document(within=["x"])) == "nobody has a lease on x in /r: bus lease acquire PATH"
    assert headline(document(held("L1", "a", "x"), more=2)) == "/r: 3 leases, 0 waiting"
    assert [text_of(line) for line in lines_of(document())] == ["nobody has a lease in /r: bus lease acquire PATH"]


def test_what_is_hot_and_what_is_not_shown_stands_at_the_end() -> None:
    hot = [{"pattern": "x", "waits": 1, "waiting_now": 0}, {"pattern": "y\x1b", "waits": 3, "waiting_now": 2}]
    lines = lines_of(document(held("L1", "a", "x"), hot=hot, more=4, depth=5))
    assert [text_of(line) for line in lines[-3:]] == [
        "waited for most in the last hour: x (once), y\\x1b (3 times, 2 now)",
        "and 4 more leases: name a path to see its part, or see bus leases",
        "and 5 more waiting",
    ]


def test_columns_stay_straight_whatever_the_script() -> None:
    map_ = document(held("L1", "a", "日本語"), held("L2", "b", "e\u0301"), held("L3", "c", "plain"))
    whole = [text_of(line) for line in lines_of(map_)[1:]]
    assert (
        len({columns_of(line[: line.index("since") if "since" in line else line.index("STATE")]) for line in whole})
        == 1
    )


@pytest.mark.parametrize("height", [3, 5, 24, 60])
def test_it_fits_into_the_window(height: int) -> None:
    map_ = document(*(held(f"L{number}", "a", f"x/{'deep/' * 30}{number}") for number in range(50)))
    lines = lines_of(map_, width=80, height=height)
    assert len(lines) == min(height, 53)
    assert all(columns_of(text_of(line).partition(" a ")[0].rstrip()) <= 40 for line in lines[2:-1])
    if height < 53:
        assert f"{54 - height} lines more than fit" in text_of(lines[-1])
