"""The layers of a profile  ->  the rows that are asked for: by layer, segment or op, sorted; and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from axtool.errors import UsageError, nearest, plural
from axtool.report.profiled import SUMS, used
from axtool.timing.ledger import CATEGORIES, words

Row = dict[str, Any]

KEYS = ("cycles", "macs", "mac_utilisation", "read_bytes", "write_bytes", "spilled_bytes", "energy", "index", "name")
GROUPS = ("layer", "segment", "op")
PLAIN = (
    "stage", "index", "op", "name", "segment", "layers", "macs", "cycles", "share", "mac_utilisation",
    "mac_cycles_utilisation", "read_bytes", "write_bytes", "near_bytes", "spilled_bytes", "energy_relative", "group",
    "custom", "bound",
)  # fmt: skip


def arrange(document: Mapping[str, Any], *, by: str = "layer", sort: str = "index") -> list[Row]:
    """The rows to show: layers, or their sums by segment or op; sorted, the largest first except by index and name."""
    require_known(by=by, sort=sort)
    peak = document["peak_macs_per_cycle"]
    rows = [{**layer, "layers": 1} for layer in document["layers"]]
    if by == "segment":
        runs = groupby(rows, key=lambda row: (row["stage"], row["segment"]))
        rows = [_sum(list(run), index, peak, op="", name=key[1]) for index, (key, run) in enumerate(runs)]
    elif by == "op":
        ops: dict[str, list[Row]] = {}
        for row in rows:
            ops.setdefault(row["op"], []).append(row)
        rows = [_sum(group, index, peak, op=op, name="") for index, (op, group) in enumerate(ops.items())]
    rows.sort(key=_order(sort))
    return rows


def with_sums(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with its sums by segment and by op, in the order of the layers."""
    return {**document, "segments": arrange(document, by="segment"), "ops": arrange(document, by="op")}


def require_known(*, by: str, sort: str) -> None:
    """Raise UsageError, with the nearest names, for rows or an order that there are not."""
    if by not in GROUPS:
        raise UsageError(f"--by {by}", hint=nearest(by, GROUPS), code="bad-option")
    if sort not in KEYS:
        raise UsageError(f"--sort {sort}", hint=nearest(sort, KEYS), code="bad-option")


def _order(sort: str) -> Callable[[Row], tuple[Any, ...]]:
    place = ("stage", "index")
    if sort in ("index", "name"):
        return lambda row: (row["name"] if sort == "name" else 0, *(row[key] for key in place))
    figure = {"energy": "energy_relative"}.get(sort, sort)
    return lambda row: (-(row[figure] or 0), *(row[key] for key in place))


def _sum(group: Sequence[Row], index: int, peak: float, *, op: str, name: str) -> Row:
    """One row for several layers. Utilisations are those of all their MACs over all their cycles."""
    total: Row = {key: sum(row[key] for row in group) for key in (*SUMS, "share", "layers", "commands")}
    ledger = {category: sum(row["ledger_cycles"][category] for row in group) for category in CATEGORIES}
    energies = [row["energy_relative"] for row in group]
    return {
        **total,
        "energy_relative": None if None in energies else sum(energies),
        "group": None,
        "custom": any(row["custom"] for row in group),
        "stage": group[0]["stage"],
        "index": index,
        "op": op,
        "name": name or plural(len(group), "layer"),
        "segment": name,
        "ledger_cycles": ledger,
        "mac_utilisation": used(total["macs"], total["cycles"], peak),
        "mac_cycles_utilisation": used(total["macs"], ledger["mac"], peak),
        "bound": words(ledger, amounts={category: f"{cycles:,} cycles" for category, cycles in ledger.items()}),
    }


def profile_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line a row: the plain columns, then the cycles of each category."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow((*PLAIN, *(f"{name}_cycles" for name in CATEGORIES)))
    for row in rows:
        writer.writerow((*(_cell(row[key]) for key in PLAIN), *(row["ledger_cycles"][name] for name in CATEGORIES)))
    return out.getvalue()


def _cell(value: object) -> object:
    return "" if value is None else int(value) if isinstance(value, bool) else value
