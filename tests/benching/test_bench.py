"""The bench measures what it says: its load believes no wrong answer, its rows are judged, its page and picture hold.

What it measures is no test's business: no time is asserted here.
"""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console
from scripts.benching import page
from scripts.benching.catalogue import ROWS, measured
from scripts.benching.chart import draw, panels
from scripts.benching.command import main
from scripts.benching.process_cost import cost_of
from scripts.benching.result import Row, Target
from scripts.benching.rows import against
from scripts.benching.table import figure, show

ROOT = Path(__file__).parents[2]
MACHINE = {"processor": "a processor", "cores": "2", "file system": "ext4", "date": "2025-01-01", "commit": "abc"}
AT_MOST, AT_LEAST = Target(2.0, "ratio", True, "≤ 2 ×"), Target(10_000, "measured", False, "≥ 10,000")
MEMORY = "resident memory an agent, KB"
RUN = [
    Row("one-client", "one client", 0.4, "ms", 0.3, "both", 1.33, AT_MOST, {"echo alone, ms": 0.05}),
    Row("pairs", "64 clients", 8_000, "/s", 20_000, "floor", 0.4, AT_LEAST),
    Row("growth-10", "10 agents", 0.5, "ms", 0.5, "ten", 1.0, AT_MOST, {MEMORY: -3.0}),
    Row("growth-10000", "10,000 agents", 0.7, "ms", 0.5, "ten", 1.4, AT_MOST, {MEMORY: 19.5}),
    Row("restart-1000000", "a million rows", 420.0, "ms", 10.0, "bare", 42.0, Target(1000, "measured", True, "≤ 1 s")),
    Row("against-redis", "beside Redis's", 8_000, "/s", 10_000, "SET", 0.8, Target(2, "ratio", False, "≥ 2 ×"),
        {"its CPU a pair, µs": 20.0, "the bus's, µs": 60.0}),
    Row("against-etcd", "beside etcd's", failed="not installed (apt-get install etcd-server)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "reached", "verdict"),
    [
        (Row("a", "a", 4.0, ratio=2.0, target=AT_MOST), True, "reached"),
        (Row("a", "a", 4.0, ratio=2.5, target=AT_MOST), False, "1.25 × the limit"),
        (Row("a", "a", 10_000, target=AT_LEAST), True, "reached"),
        (Row("a", "a", 7_500, target=AT_LEAST), False, "25 % short"),
        (Row("a", "a", 0.0, target=Target(0, "measured", True, "none")), True, "reached"),
        (Row("a", "a", 3.0, target=Target(0, "measured", True, "none")), False, "3 too many"),
        (Row("a", "a", 3.0), None, ""),
        (Row("a", "a", target=AT_MOST), None, ""),
        (Row("a", "a", target=AT_LEAST, failed="no room"), None, "not measured"),
    ],
)  # fmt: skip
def test_a_row_says_whether_its_target_is_reached_or_by_how_much_not(
    row: Row, reached: bool | None, verdict: str
) -> None:  # fmt: skip
    assert (row.reached, row.verdict) == (reached, verdict)


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [(0.0, "", "0"), (0.04567, "ms", "0.0457 ms"), (12.345, "", "12.3"), (12345.6, "/s", "12,346/s"), (None, "ms", "")],
)
def test_figures_have_the_digits_that_count(value: float | None, unit: str, shown: str) -> None:
    assert figure(value, unit) == shown


@pytest.mark.parametrize("row", RUN, ids=lambda row: row.name)
def test_a_row_is_the_same_after_json(row: Row) -> None:
    kept = json.loads(json.dumps(row.as_json()))
    assert {"name", "what", "measured", "unit", "floor", "ratio", "target", "reached", "verdict"} <= set(kept)
    assert page.row_of(kept) == row


def test_the_table_has_every_row_with_its_verdict_and_why_one_was_not_measured() -> None:
    out = io.StringIO()
    show(RUN, Console(file=out, width=200))
    assert all(row.what in out.getvalue() for row in RUN)
    assert "20 % short" in out.getvalue()
    assert "not installed (apt-get install etcd-server)" in out.getvalue()
    assert "echo alone, ms" in out.getvalue()


def test_a_row_that_fails_says_why_and_leaves_the_others_alone() -> None:
    def fails() -> list[Row]:
        raise RuntimeError("the disk is gone")

    [row] = measured("kill", fails)
    assert row.failed == "RuntimeError: the disk is gone"


def test_the_picture_is_well_formed_and_leaves_out_what_cannot_be_drawn() -> None:
    drawn = panels(RUN)
    assert [panel.title for panel in drawn] == [
        "RELEASE → the next GRANTED", "resident memory, above an empty bus", "restart after kill -9, until ready",
    ]  # fmt: skip
    assert len(drawn[1].points) == 1, "less than nought has no place on a logarithmic axis"
    svg = ElementTree.fromstring(draw(drawn, "<a machine>"))
    numbers = [float(circle.attrib[name]) for circle in svg.iter() for name in ("cx", "cy") if name in circle.attrib]
    assert len(numbers) == 2 * sum(len(panel.points) for panel in drawn)
    assert all(0 < number < float(svg.attrib["width"]) for number in numbers)
    assert panels([]) == []


def test_the_page_has_every_row_every_operation_and_no_blank_that_nobody_filled(tmp_path: Path) -> None:
    written = page.write(MACHINE, RUN, tmp_path)
    text = written[0].read_text()
    assert [path.name for path in written] == ["performance.md", "performance.svg"]
    assert "{{" not in text
    assert all(other.OPERATION in text and other.INSTALL in text for other in against.OTHERS.values())
    assert "| one client | 0.4 ms | 0.3 ms | 1.33 × | ≤ 2 × | reached |" in text
    assert "**20 % short**" in text
    assert "| Redis | 10,000 | 8,000 | 0.8 × | 20 and 60 µs | ≥ 2 × | **60 % short** |" in text
    assert "not installed (apt-get install etcd-server)" in text
    assert all(f"`{name}" in text for name in ROWS), "each row is explained"


def test_a_page_without_growth_or_others_says_so(tmp_path: Path) -> None:
    [written] = page.write(MACHINE, RUN[:1], tmp_path)
    assert "performance.svg" not in written.read_text()
    assert "Nobody was asked in this run" in written.read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--rows", "speed"], "there are no rows called speed: choose of one-client, pairs,"),
        (["--against", "mysql"], "there are no servers called mysql: choose of redis,"),
        (["--page", "--quick"], "--page is of a whole run"),
        (["--from", "nowhere.json"], "nowhere.json holds no results of --json"),
    ],
)
def test_wrong_usage_is_one_sentence(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 64
    assert capsys.readouterr().err.startswith(f"bench: {sentence}")


def test_results_that_were_kept_make_the_page_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "run.json"
    kept.write_text(json.dumps({"machine": MACHINE, "rows": [row.as_json() for row in RUN]}))
    monkeypatch.setattr(page.write, "__defaults__", (tmp_path,))
    assert main(["--from", str(kept), "--page", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [row.as_json() for row in RUN]
    assert (tmp_path / "performance.md").exists()


def test_what_a_process_costs_is_read_of_all_its_threads() -> None:
    cost = cost_of(os.getpid())
    assert cost.cpu_us > 0
    assert cost.resident_kb > 1000
    assert cost.wakes > 0


@pytest.mark.slow
def test_two_rows_through_the_command_with_a_server_that_is_not_there(tmp_path: Path) -> None:
    nothing = tmp_path / "empty"
    nothing.mkdir()
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "bench.py"), "--quick", "--rows", "one-client,send",
         "--against", "etcd", "--json", "-", "--folder", str(tmp_path)],
        env={**os.environ, "PATH": str(nothing)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) == {"machine", "quick", "rows"}
    assert found["machine"]["commit"] == "no checkout"  # there is no git either
    one, send, etcd = found["rows"]
    assert min(one["measured"], one["floor"], one["ratio"], send["measured"], send["floor"]) > 0
    assert all(value >= 0 for value in one["also"].values())
    assert etcd["failed"] == "not installed (apt-get install etcd-server)"
    assert [path.name for path in tmp_path.iterdir()] == ["empty"], "nothing is left"
