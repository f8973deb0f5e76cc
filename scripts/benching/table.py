"""The table on the terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from scripts.benching.result import Row


def figure(value: float | None, unit: str = "") -> str:
    """Three digits that count, and no more: the next differs from run to run."""
    if value is None:
        return ""
    if value == 0:
        digits = "0"
    elif abs(value) >= 100:
        digits = f"{value:,.0f}"
    else:
        digits = f"{value:.3g}"
    return f"{digits} {unit}".strip() if not unit.startswith("/") else f"{digits}{unit}"


def show(rows: Sequence[Row], console: Console) -> None:
    """Every row with its target, and what else was counted below it."""
    table = Table(show_lines=False, pad_edge=False)
    table.add_column("what")
    for name in ("measured", "floor", "ratio"):
        table.add_column(name, justify="right")
    table.add_column("target")
    table.add_column()
    for row in rows:
        if row.failed:
            table.add_row(row.what, "", "", "", row.failed, row.verdict, style="dim")
            continue
        style = {True: "green", False: "red", None: ""}[row.reached]
        table.add_row(
            row.what, figure(row.measured, row.unit), figure(row.floor, row.unit),
            f"{figure(row.ratio)} ×" if row.ratio is not None else "", row.target.words if row.target else "",
            f"[{style}]{row.verdict}[/{style}]" if style else row.verdict,
        )  # fmt: skip
        for name, value in row.also.items():
            table.add_row(f"  {name}", figure(value) if isinstance(value, float | int) else value, style="dim")
    console.print(table)
