"""Rows -> a table that fits the terminal, or whole lines where stdout is a file.

A number is never broken. Where there is too little room, columns that may go are left out, then long names lose their
middle where a caller allows it, then prose wraps between words; what is still too wide stays whole. The width is that
of the terminal, or of COLUMNS, also in a pipe; without either, only prose is kept to a width.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Sequence
from typing import Any

PROSE_WIDTH = 120  # of a table that goes to a file
MIN_PROSE = 20  # a column of prose is not made narrower
MIN_NAME = 24  # a name that may lose its middle is not made shorter
GAP = "  "


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    title: str = "",
    right: Sequence[int] = (),
    prose: Sequence[int] = (),
    droppable: Sequence[int] = (),
    shorten: Sequence[int] = (),
) -> str:
    """Text of a table. `right` are the columns of numbers, `prose` those whose cells may wrap between words,
    `droppable` those that are left out where there is too little room, the first one first, `shorten` those of names
    that may lose their middle, down to MIN_NAME characters, rather than that the line is too wide.
    """
    cells = [[" ".join(str(cell).splitlines()) for cell in row] for row in rows]
    lines = [list(columns), *cells]
    natural = [max(map(_width, (line[i] for line in lines))) for i in range(len(columns))]
    wide = room()
    kept = list(range(len(columns)))
    for column in droppable if wide is not None else ():
        if _total([min(n, MIN_NAME) if i in shorten else n for i, n in enumerate(natural)], kept, prose) > (wide or 0):
            kept.remove(column)
    if wide is not None and shorten:
        over = _total(natural, kept, prose) - wide
        for column in shorten:
            cut = max(min(over, natural[column] - MIN_NAME), 0)
            natural[column], over = natural[column] - cut, over - cut
        lines = [[shortened(t, natural[i]) if i in shorten else t for i, t in enumerate(line)] for line in lines]
    widths = _fitted(natural, kept, prose, PROSE_WIDTH if wide is None else wide)
    drawn = [_line(line, kept, widths, right, prose) for line in lines]
    rule = "─" * max((_width(part) for line in drawn for part in line), default=0)
    body = [part for line in drawn[1:] for part in line]
    return "\n".join([*([title] if title else []), *drawn[0], rule, *body])


def room() -> int | None:
    """Columns of the terminal, or what COLUMNS says; None where nothing says a width."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and len(said) < 10 and int(said) > 0:
        return int(said)
    return shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else None


def folded(text: str, hang: int = 0) -> str:
    """Prose as wide as the terminal, or as COLUMNS says; as it is where nothing says a width. Lines that continue
    another begin with `hang` spaces.
    """
    wide = room()
    if wide is None:
        return text
    how: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False, "subsequent_indent": " " * hang}
    lines = [textwrap.fill(line, wide, **how) for line in text.splitlines()]
    return "\n".join(lines)


def shortened(text: str, width: int) -> str:
    """The first third and the end, which tells names of one block apart, with … for what is between."""
    if _width(text) <= width:
        return text
    first = (width - 1) // 3
    return f"{text[:first]}…{text[len(text) - (width - 1 - first) :]}"


def _total(natural: Sequence[int], kept: Sequence[int], prose: Sequence[int]) -> int:
    """The width that the kept columns need at least."""
    least = [min(natural[i], MIN_PROSE) if i in prose else natural[i] for i in kept]
    return sum(least) + len(GAP) * (len(kept) - 1)


def _fitted(natural: Sequence[int], kept: Sequence[int], prose: Sequence[int], wide: int) -> dict[int, int]:
    """Widths by column: what is left beside the other columns is shared out among those of prose, the short first."""
    widths = {i: natural[i] for i in kept if i not in prose}
    left = wide - sum(widths.values()) - len(GAP) * (len(kept) - 1)
    open_columns = sorted((i for i in kept if i in prose), key=lambda i: natural[i])
    for done, column in enumerate(open_columns):
        widths[column] = min(natural[column], max(left // (len(open_columns) - done), MIN_PROSE))
        left -= widths[column]
    return widths


def _line(
    cells: Sequence[str], kept: Sequence[int], widths: dict[int, int], right: Sequence[int], prose: Sequence[int]
) -> list[str]:
    """The lines of one row."""
    parts = {i: _wrapped(cells[i], widths[i]) if i in prose else [cells[i]] for i in kept}
    height = max((len(part) for part in parts.values()), default=1)
    made = []
    for at in range(height):
        texts = [parts[i][at] if at < len(parts[i]) else "" for i in kept]
        padded = [
            " " * (widths[i] - _width(text)) + text if i in right else text + " " * (widths[i] - _width(text))
            for i, text in zip(kept, texts, strict=True)
        ]
        made.append(GAP.join(padded).rstrip())
    return made


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False) or [""]


def _width(text: str) -> int:
    """Cells of a terminal: wide characters take two."""
    return len(text) if text.isascii() else sum(_cells(character) for character in text)


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
