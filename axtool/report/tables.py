"""Rows -> a table that fits the terminal, or plain columns where stdout is a file."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = "", right: Sequence[int] = ()
) -> str:
    """Text of a table; `right` are the columns whose cells are numbers. Cells wrap, they are never cut off."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    drawn = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for index, name in enumerate(columns):
        drawn.add_column(name, justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(str(cell) for cell in row))
    console = Console(file=sys.stdout, highlight=False, markup=False, width=None if sys.stdout.isatty() else 120)
    with console.capture() as capture:
        console.print(drawn)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()).strip("\n")
