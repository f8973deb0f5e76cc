"""Output for people: tables and colour on a terminal, plain columns elsewhere. NO_COLOR is honoured."""

import datetime
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from interlock.adapters.cli.options import say_out


def say_json(value: Any) -> None:
    """One JSON object, on one line."""
    say_out(json.dumps(value, ensure_ascii=False))


def say_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table: drawn on a terminal, aligned with blanks elsewhere."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    if sys.stdout is not None and sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        plain = bool(os.environ.get("NO_COLOR"))
        table = Table(*columns, box=None, header_style="bold", pad_edge=False)
        for row in cells:
            table.add_row(*(Text(cell, style=_style(cell)) for cell in row))
        Console(color_system=None if plain else "auto").print(table)
        return
    widths = [max(len(row[n]) for row in [list(columns), *cells]) for n in range(len(columns))]
    for row in [list(columns), *cells]:
        say_out("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def one_line(text: str) -> str:
    """What other people wrote, without anything that could move the cursor."""
    return "".join(c if c.isprintable() else " " for c in text)


def local_time(wire: str | None) -> str:
    """A wire time on the reader's own clock."""
    if not wire:
        return ""
    return datetime.datetime.fromisoformat(wire).astimezone().strftime("%H:%M:%S")


def _style(cell: str) -> str:
    styles = {"free": "green", "held": "yellow", "preparing": "cyan", "recovery_required": "bold red", "gone": "red"}
    return styles.get(cell, "")
