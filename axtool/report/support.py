"""Rows of the split  ->  the table that says why a node runs on the host and what would avoid it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from axtool.report.tables import table
from axtool.report.units import large


def support_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Every host node with its reasons and what would avoid them; one line when there is none."""
    host = [row for row in rows if row["kind"] == "host"]
    if not host:
        return f"all {len(rows)} nodes run on the device"
    cells = [
        (row["index"], row["op"], row["node"], large(row["macs"]), " ".join(row["reasons"]), " ".join(row["advice"]))
        for row in host
    ]
    columns = ("#", "op", "node", "MACs", "why on the host", "what would avoid it")
    return table(columns, cells, title=f"{len(host)} of {len(rows)} nodes run on the host", right=(0, 3))
