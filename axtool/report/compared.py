"""Two profiles  ->  what the second takes more or less than the first: by layer, op or segment, by category, in all.

Layers are matched by the ONNX nodes that they came from: those that share a node, on either side, are one row, so that
a layer that is two in the other file stands beside both. A layer that came from no node is matched by its name. What
has no partner is a row of its own; the rows of each side sum to its total.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from axtool.report.gates import Gates, judged
from axtool.report.units import header
from axtool.timing.ledger import CATEGORIES

Row = Mapping[str, Any]
FIGURES = ("cycles", "macs", "read_bytes", "write_bytes", "spilled_bytes")
TOTALS = (
    "cycles", "latency_ms", "frames_per_s", "macs", "mac_utilisation", "peak_ocm_bytes", "external_read_bytes",
    "external_write_bytes", "external_bytes", "spilled_bytes", "energy_relative",
)  # fmt: skip
SIDE = ("model", "target", "clock_hz", "cores")
SIDES = ("this", "other")


def compared_document(this: Row, other: Row, gates: Gates) -> dict[str, Any]:
    """Of two profile documents; the limits are about the first."""
    return {
        **header("profile.compare"),
        "command": "profile",
        "modelled": True,
        "this": {key: this[key] for key in SIDE},
        "other": {key: other[key] for key in SIDE},
        "totals": [_figure(key, this[key], other[key]) for key in TOTALS],
        "categories": [_figure(key, this["ledger_cycles"][key], other["ledger_cycles"][key]) for key in CATEGORIES],
        "layers": [_pair(*group) for group in by_origin(this["layers"], other["layers"])],
        "ops": _by_key("op", this["layers"], other["layers"]),
        "segments": _by_key("segment", this["layers"], other["layers"]),
        **judged(this, gates),
    }


def by_origin(this: Sequence[Row], other: Sequence[Row]) -> list[tuple[list[Row], list[Row]]]:
    """Layers of both sides that belong together, in the order of the first side, then of the second."""
    parent: dict[str, str] = {}

    def root(node: str) -> str:
        parent.setdefault(node, node)
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for row in chain(this, other):
        first, *rest = _nodes(row)
        for node in rest:
            parent[root(node)] = root(first)
    groups: dict[str, tuple[list[Row], list[Row]]] = {}
    for side, rows in enumerate((this, other)):
        for row in rows:
            groups.setdefault(root(_nodes(row)[0]), ([], []))[side].append(row)
    return list(groups.values())


def _nodes(row: Row) -> list[str]:
    return [f"node {name}" for name in row["origin"]] or [f"layer {row['name']}"]


def _by_key(key: str, this: Sequence[Row], other: Sequence[Row]) -> list[dict[str, Any]]:
    names = list(dict.fromkeys(row[key] for row in chain(this, other)))
    sides = [{name: [row for row in rows if row[key] == name] for name in names} for rows in (this, other)]
    return [_pair(sides[0][name], sides[1][name], name) for name in names]


def _pair(this: Sequence[Row], other: Sequence[Row], name: str = "") -> dict[str, Any]:
    shown = this or other
    sums = [{key: sum(row[key] for row in rows) for key in FIGURES} for rows in (this, other)]
    ledgers = [{key: sum(row["ledger_cycles"][key] for row in rows) for key in CATEGORIES} for rows in (this, other)]
    return {
        "name": name or shown[0]["name"],
        "op": "+".join(dict.fromkeys(row["op"] for row in shown)),
        "matched": "both" if this and other else "this" if this else "other",
        "this_layers": [row["name"] for row in this],
        "other_layers": [row["name"] for row in other],
        **{f"{side}_{key}": total[key] for side, total in zip(SIDES, sums, strict=True) for key in FIGURES},
        "difference_cycles": sums[1]["cycles"] - sums[0]["cycles"],
        "difference_ledger_cycles": {key: ledgers[1][key] - ledgers[0][key] for key in CATEGORIES},
    }


def _figure(name: str, this: float | None, other: float | None) -> dict[str, Any]:
    both = this is not None and other is not None
    return {
        "figure": name,
        "this": this,
        "other": other,
        "difference": (other or 0) - (this or 0) if both else None,
        "ratio": (other or 0) / this if both and this else None,
    }


def compared_rows(document: Row, *, by: str = "layer", sort: str = "index") -> list[dict[str, Any]]:
    """The rows of one kind; sorted by anything but index, the largest difference of cycles comes first."""
    rows = list(document[f"{by}s"])
    return rows if sort == "index" else sorted(rows, key=lambda row: -abs(row["difference_cycles"]))


def compared_csv(rows: Sequence[Row]) -> str:
    """One line a row: both sides, then the difference by category."""
    out = io.StringIO()
    plain = ("name", "op", "matched", *(f"{side}_{key}" for key in FIGURES for side in SIDES), "difference_cycles")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow((*plain, *(f"difference_{name}_cycles" for name in CATEGORIES)))
    for row in rows:
        ledger = row["difference_ledger_cycles"]
        writer.writerow((*(row[key] for key in plain), *(ledger[name] for name in CATEGORIES)))
    return out.getvalue()
