"""The map's rows as lines: columns, cut to a terminal's width and height where there is one. Pure, and without colours.

A line is pieces, each with what it is (`path`, `agent`, `waiting`, …): what that looks like the screen knows.
"""

import unicodedata

from interlock.adapters.cli.map_rows import Document, Row, footlines, headline, rows_of

Piece = tuple[str, str]
Line = list[Piece]
COLUMNS = ("PATHS", "AGENT", "STATE", "LEASE", "FOR")
GAP = "  "


def lines_of(document: Document, *, elapsed_ms: int = 0, width: int = 0, height: int = 0) -> list[Line]:
    """The whole map.

    Args:
        elapsed_ms: since the document was made.
        width, height: of the terminal, in characters; 0: as wide and as long as it takes.
    """
    head: list[Line] = [[(headline(document), "head")]]
    rows = rows_of(document, elapsed_ms)
    if not rows:
        return head
    foot: list[Line] = [[(line, "foot")] for line in footlines(document)]
    table = _table(rows, width // 2)
    room = height - len(head) - len(foot)
    if height and len(table) > room:
        keep = max(1, room - 1)
        table = [*table[:keep], [(f"… {len(table) - keep} lines more than fit: bus watch PATH", "foot")]]
    return [*head, *table, *foot]


def text_of(line: Line) -> str:
    """Without what the pieces are."""
    return "".join(text for text, _ in line).rstrip()


def columns_of(text: str) -> int:
    """How many columns of a terminal it takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in {"W", "F"} else 1 for c in text
    )


# --- straight helpers ---------------------------------------------------------------------
def _table(rows: list[Row], path_most: int) -> list[Line]:
    """Columns as wide as their widest. Args: path_most: the most that the first one may take; 0: any."""
    first = [_cut(row, path_most) for row in rows]
    cells = [(row.guide + path, row.agent, row.state, row.lease) for row, path in zip(rows, first, strict=True)]
    widths = [max(map(columns_of, column)) for column in zip(COLUMNS, *cells, strict=False)]
    found: list[Line] = [[(_padded(text, most), "heading") for text, most in zip(COLUMNS, [*widths, 0], strict=True)]]
    for row, path in zip(rows, first, strict=True):
        found.append([
            (row.guide, "guide"),
            (_padded(path, widths[0] - columns_of(row.guide)), f"path {row.kind}"),
            (_padded(row.agent, widths[1]), "agent"),
            (_padded(row.state, widths[2]), row.kind),
            (_padded(row.lease, widths[3]), "lease"),
            (row.purpose, "for"),
        ])  # fmt: skip
    return found


def _padded(text: str, columns: int) -> str:
    return text + " " * (columns - columns_of(text)) + GAP


def _cut(row: Row, most: int) -> str:
    """The path, without its beginning where it is too long: its end says more."""
    if not most or columns_of(row.guide + row.path) <= most:
        return row.path
    return f"…{row.path[-max(8, most - len(row.guide) - 1) :]}"
