"""`bus stats --prometheus`, read by a strict reader of the text format 0.0.4."""

import re
from typing import Any

import pytest

from interlock.adapters.cli.prometheus import COUNTERS, exposition

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)?\}})? ([-+0-9.eE]+|NaN|[+-]Inf)")
STATS: dict[str, Any] = {
    "repository": '/r "quoted" \\ and\nbroken', "in_force": 2, "depth": 1, "acquired": 7, "queued": 3, "renewed": 20,
    "expired": 1, "released": 4, "lost": 0, "given_up": 1, "wait_p50_ms": 1_500, "wait_p95_ms": 60_000, "commits": 5,
    "pairs_checked": 8, "pairs_conflicting": 2, "residual_conflict_rate": 0.25, "verified": {"ok": 3, "failed": 1},
    "violations": {"no_lease": 2}, "resources": [{"resource": "machine/gpu", "holders": 1, "depth": 4}],
}  # fmt: skip


def read(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample. Fails for whatever the format does not allow, or an older Prometheus would not take."""
    assert text.endswith("\n")
    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    helped, typed, current = set[str](), dict[str, str](), ""
    for line in text[:-1].split("\n"):
        about = re.fullmatch(rf"# (HELP|TYPE) ({NAME}) (.+)", line)
        if about is not None and about[1] == "HELP":
            assert about[2] not in helped
            assert not re.search(r"\\[^\\n]", about[3])
            helped.add(about[2])
        elif about is not None:
            assert about[2] not in typed
            assert about[3] in {"counter", "gauge"}
            typed[about[2]], current = about[3], about[2]
        else:
            found = SAMPLE.fullmatch(line)
            assert found is not None, line
            assert found[1] == current, "the samples of a metric stand together, after its type"
            labels = tuple((name, unescaped(value)) for name, value in re.findall(LABEL, found[2] or ""))
            assert len({name for name, _ in labels}) == len(labels)
            assert (found[1], labels) not in samples
            samples[found[1], labels] = float(line.rpartition(" ")[2])
    assert helped == set(typed) == {name for name, _ in samples}
    for name, kind in typed.items():
        assert name.startswith("interlock_")
        assert name.endswith("_total") == (kind == "counter"), name
    return samples


def unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], text)


def test_a_strict_reader_takes_all_of_it_and_reads_what_is_so() -> None:
    samples, here = read(exposition(STATS)), ("repository", STATS["repository"])
    assert samples["interlock_leases_waiting", (here,)] == 1
    assert samples["interlock_lease_wait_p50_seconds", (here,)] == 1.5
    assert samples["interlock_residual_conflict_ratio", (here,)] == 0.25
    assert samples["interlock_verifications_total", (here, ("outcome", "failed"))] == 1
    assert samples["interlock_violations_total", (here, ("cause", "no_lease"))] == 2
    assert samples["interlock_resource_waiting", (("resource", "machine/gpu"),)] == 4
    assert {name: samples[name, (here,)] for name, _ in COUNTERS.values()} == {
        name: STATS[field] for field, (name, _) in COUNTERS.items()
    }


def test_what_nobody_knows_is_left_out() -> None:
    text = exposition({**STATS, "residual_conflict_rate": None, "violations": {}, "resources": []})
    read(text)
    assert not re.search("ratio|violations|resource_", text)


@pytest.mark.parametrize(
    "text",
    [
        "a 1",
        "# TYPE a gauge\na 1\n",
        "# HELP a x\n# TYPE a counter\na 1\n",
        '# HELP a x\n# TYPE a gauge\na{b="\\x"} 1\n',
    ],
)
def test_the_reader_is_strict(text: str) -> None:
    with pytest.raises(AssertionError):
        read(text)
