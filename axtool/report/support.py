"""Rows of the split  ->  why nodes run on the host and what would avoid it, nodes of one reason together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from axtool.errors import plural
from axtool.report.tables import table
from axtool.report.units import large

SHOWN = 3  # nodes of a group that are named


def support_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Every reason with its nodes and what would avoid it; one line when all nodes are on the device."""
    host = [row for row in rows if row["kind"] == "host"]
    if not host:
        return f"all {plural(len(rows), 'node')} after passes on the device"
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in host:
        groups.setdefault((" ".join(row["reasons"]), " ".join(row["advice"])), []).append(row)
    cells = [
        (len(group), _ops(group), _named(group), large(sum(row["macs"] for row in group)), why, advice)
        for (why, advice), group in groups.items()
    ]
    columns = ("nodes", "ops", "which", "MACs", "why on the host", "what would avoid it")
    title = f"{len(host)} of {plural(len(rows), 'node')} after passes on the host, by reason"
    return table(columns, cells, title=title, right=(0, 3), prose=(1, 2, 4, 5), droppable=(3,))


def _ops(group: Sequence[Mapping[str, Any]]) -> str:
    """`6 Sigmoid, 1 Concat`, the most frequent first."""
    return ", ".join(f"{count} {op}" for op, count in Counter(row["op"] for row in group).most_common())


def _named(group: Sequence[Mapping[str, Any]]) -> str:
    names = ", ".join(f"#{row['index']} {row['node']}".rstrip() for row in group[:SHOWN])
    return names + (f" and {len(group) - SHOWN} more" if len(group) > SHOWN else "")
