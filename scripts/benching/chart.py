"""The chart: growth as small pictures side by side, all axes logarithmic; light and dark. It fetches nothing."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from scripts.benching.result import Row
from scripts.benching.table import figure

PANEL_WIDTH, PANEL_HEIGHT, GAP = 300, 250, 24
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 44, 44
STYLE = """
    .paper { fill: #ffffff; stroke: #d0d7de; } text { font: 12px system-ui, sans-serif; fill: #57606a; }
    .title { font-weight: 600; fill: #1f2328; } .grid { stroke: #eaeef2; } .line { fill: none; stroke: #0969da; }
    .line { stroke-width: 2; } .dot { fill: #0969da; } .limit { stroke: #bc4c00; stroke-dasharray: 5 4; }
    .value { fill: #1f2328; } .promise { fill: #bc4c00; }
    @media (prefers-color-scheme: dark) {
      .paper { fill: #0d1117; stroke: #30363d; } text { fill: #8b949e; } .title, .value { fill: #e6edf3; }
      .grid { stroke: #21262d; } .line { stroke: #58a6ff; } .dot { fill: #58a6ff; } .limit { stroke: #f0883e; }
      .promise { fill: #f0883e; }
    }
"""


@dataclass(frozen=True)
class Panel:
    """Args: points: (x, y), all greater than nought. limit: of y, drawn as a line. slope: it grows with x."""

    title: str
    x_label: str
    unit: str
    points: Sequence[tuple[float, float]]
    limit: float = 0.0
    limit_words: str = ""
    slope: bool = False


def panels(rows: Sequence[Row]) -> list[Panel]:
    """What a run says of growth; a picture without points is left out."""

    def points(prefix: str) -> list[tuple[float, Row]]:
        found = [(row.name.removeprefix(prefix), row) for row in rows if row.name.startswith(prefix)]
        return [(float(size), row) for size, row in found if not row.failed]

    growth, restart = points("growth-"), points("restart-")
    ten = growth[0][1].measured if growth else 0.0
    memory = "resident memory an agent, KB"
    drawn = [
        Panel(
            "RELEASE → the next GRANTED", "agents that wait", "ms", [(size, row.measured) for size, row in growth],
            2 * ten, "2 × ten",
        ),
        Panel(
            "resident memory, above an empty bus", "connected agents", "MB",
            [(size, float(row.also[memory]) * size / 1024) for size, row in growth if float(row.also[memory]) > 0],
            25 / 1024, "25 KB an agent", slope=True,
        ),
        Panel(
            "restart after kill -9, until ready", "journal rows", "ms", [(size, row.measured) for size, row in restart],
            1_000, "1 s",
        ),
    ]  # fmt: skip
    return [panel for panel in drawn if panel.points]


def draw(drawn: Sequence[Panel], caption: str) -> str:
    """Args: caption: when and where it was measured."""
    width = len(drawn) * PANEL_WIDTH + (len(drawn) + 1) * GAP
    height = PANEL_HEIGHT + 2 * GAP + 8
    parts = [_panel(panel, GAP + n * (PANEL_WIDTH + GAP), GAP / 2) for n, panel in enumerate(drawn)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape("; ".join(panel.title for panel in drawn))}">\n'
        f"  <!-- Made by scripts/bench from what was really measured. -->\n  <style>{STYLE}  </style>\n"
        f'  <rect class="paper" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>\n'
        + "".join(parts)
        + f'  <text x="{GAP}" y="{height - 12}">{escape(caption)}</text>\n</svg>\n'
    )


def _panel(panel: Panel, left: float, top: float) -> str:
    xs = [x for x, _ in panel.points]
    x_low, x_high = _decades(xs)
    limits = [panel.limit * x if panel.slope else panel.limit for x in xs] if panel.limit else []
    y_low, y_high = _decades([y for _, y in panel.points] + limits)

    def x_at(value: float) -> float:
        return left + LEFT + _share(value, x_low, x_high) * (PANEL_WIDTH - LEFT - RIGHT)

    def y_at(value: float) -> float:
        return top + PANEL_HEIGHT - BOTTOM - _share(value, y_low, y_high) * (PANEL_HEIGHT - TOP - BOTTOM)

    out = [f'<text class="title" x="{left + 6:.1f}" y="{top + 22:.1f}">{escape(panel.title)}</text>']
    for power in range(y_low, y_high + 1):
        y = y_at(10.0**power)
        out.append(f'<path class="grid" d="M{left + LEFT:.1f} {y:.1f}H{left + PANEL_WIDTH - RIGHT:.1f}"/>')
        label = figure(10.0**power, panel.unit)
        out.append(f'<text x="{left + LEFT - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    for power in range(x_low, x_high + 1):
        out.append(
            f'<text x="{x_at(10.0**power):.1f}" y="{top + PANEL_HEIGHT - BOTTOM + 18:.1f}" text-anchor="middle">'
            f"{10**power:,}</text>"
        )
    middle = left + LEFT + (PANEL_WIDTH - LEFT - RIGHT) / 2
    out.append(
        f'<text x="{middle:.1f}" y="{top + PANEL_HEIGHT - 8:.1f}" text-anchor="middle">{escape(panel.x_label)}</text>'
    )
    if limits:
        out.append(_line("limit", [(x_at(x), y_at(y)) for x, y in zip(xs, limits, strict=True)]))
        out.append(
            f'<text class="promise" x="{x_at(xs[-1]):.1f}" y="{y_at(limits[-1]) - 5:.1f}" text-anchor="end">'
            f"{escape(panel.limit_words)}</text>"
        )
    out.append(_line("line", [(x_at(x), y_at(y)) for x, y in panel.points]))
    for x, y in panel.points:
        anchor = "start" if x == xs[0] else "end" if x == xs[-1] else "middle"
        out.append(f'<circle class="dot" cx="{x_at(x):.1f}" cy="{y_at(y):.1f}" r="3.5"/>')
        out.append(
            f'<text class="value" x="{x_at(x):.1f}" y="{y_at(y) + 17:.1f}" text-anchor="{anchor}">{figure(y)}</text>'
        )
    return "".join(f"  {each}\n" for each in out)


def _line(style: str, points: Sequence[tuple[float, float]]) -> str:
    return f'<path class="{style}" d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + '"/>'


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around them."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _share(value: float, low: int, high: int) -> float:
    return (math.log10(value) - low) / (high - low)
