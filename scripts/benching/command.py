"""The command: which rows, how long, where the results go.

scripts/bench                        every row, as a table: under ten minutes on a quiet machine
scripts/bench --quick --rows pairs   does it work?
scripts/bench pairs                  64 clients alone, with what a pair costs: for work on the hot path
"""

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from scripts.benching import page, pairs
from scripts.benching.bench import Bench
from scripts.benching.catalogue import ROWS, measured
from scripts.benching.crowd import serve_crowd
from scripts.benching.floors import Floors, serve_floor
from scripts.benching.launching import Failed
from scripts.benching.load_process import serve_load
from scripts.benching.machine import describe
from scripts.benching.result import Row
from scripts.benching.rows import against
from scripts.benching.rows.growth import raise_file_limit
from scripts.benching.table import show

WIDTH = 160  # of the table, where no terminal says how wide it is


class Usage(Exception):
    """A wrong argument, in one sentence."""


def main(words: Sequence[str]) -> int:
    """Returns the exit code: 0, 1 where a row could not be measured, 64 for wrong usage."""
    match list(words):
        case ["load", *rest]:
            return serve_load(rest)
        case ["crowd", path]:
            return serve_crowd(path)
        case ["floor", folder]:
            return serve_floor(folder)
        case ["pairs", *rest]:
            return pairs.command(rest)
    try:
        return _bench(_parser().parse_args(words))
    except (Usage, Failed) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 64 if isinstance(error, Usage) else 1
    except KeyboardInterrupt:
        print("bench: stopped; what it had started has ended", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/bench", formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f"Measures what is promised of the speed, beside floors of the same run.\n\n{__doc__}",
        epilog=f"rows: {', '.join(ROWS)}. Medians of interleaved rounds; the machine should have nothing else to do.",
    )  # fmt: skip
    parser.add_argument("--rows", default="", metavar="A,B", help="only these")
    parser.add_argument("--against", default="", metavar="A,B", help=f"of {','.join(against.OTHERS)}; +2 minutes")
    parser.add_argument("--quick", action="store_true", help="few short rounds, small sizes: whether it works")
    parser.add_argument("--json", default="", metavar="FILE", help="write the results there; -: to standard output")
    parser.add_argument("--page", action="store_true", help="write docs/performance.md and docs/performance.svg")
    parser.add_argument("--from", dest="results", default="", metavar="FILE", help="results of --json, nothing is run")
    parser.add_argument("--folder", default=None, metavar="DIR", help="where to work (1 GB): its disk is measured")
    return parser


def _bench(given: argparse.Namespace) -> int:
    names = _chosen(given.rows, ROWS, "rows") or list(ROWS)
    others = _chosen(given.against, against.OTHERS, "servers")
    if given.page and (given.quick or given.rows):
        raise Usage("--page is of a whole run: leave out --quick and --rows")
    found = _read(Path(given.results)) if given.results else _run(given, names, others)
    rows = [page.row_of(each) for each in found["rows"]]
    out = sys.stderr if given.json == "-" else sys.stdout
    show(rows, Console(file=out, width=None if out.isatty() else WIDTH))
    if given.json == "-":
        print(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        _keep(found, given.json)
    if given.page:
        for written in page.write(found["machine"], rows):
            print(f"written: {written}", file=sys.stderr)
    return int(any(row.failed and not row.failed.startswith("not installed") for row in rows))


def _chosen(given: str, known: dict[str, Any], what: str) -> list[str]:
    names = [name.strip() for name in given.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Usage(f"there are no {what} called {', '.join(unknown)}: choose of {', '.join(known)}")
    return names


def _read(file: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(file.read_text())
        if not {"machine", "rows"} <= set(found):
            raise ValueError("no machine and rows in it")
    except (OSError, ValueError) as error:
        raise Usage(f"{file} holds no results of --json ({error})") from None
    return found


def _run(given: argparse.Namespace, names: Sequence[str], others: Sequence[str]) -> dict[str, Any]:
    """Everything that is started ends with its block, also where we are told to end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    raise_file_limit()
    rows: list[Row] = []
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="ilb-", dir=given.folder) as place:
        folder = Path(place)
        machine = describe(folder)
        machine["run"] = "quick: few short rounds, small sizes" if given.quick else "whole"
        if machine["file system"] in {"tmpfs", "ramfs"}:
            _say(f"{folder} is in memory, where nothing is durable: choose a disk with --folder")
        with Floors(folder) as floors:
            bench = Bench(folder, floors, given.quick, _say)
            asked: list[tuple[str, Callable[[], list[Row]]]] = [(name, partial(ROWS[name], bench)) for name in names]
            if others:
                asked.append(("against", partial(against.measure, bench, others)))
            for name, measure in asked:
                _say(f"{name} …")
                rows += measured(name, measure)
                found = {"machine": machine, "quick": given.quick, "rows": [row.as_json() for row in rows]}
                _keep(found, given.json)  # after each: whoever stops it has what it came to
    return found


def _keep(found: dict[str, Any], file: str) -> None:
    if file and file != "-":
        Path(file).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def _say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)
