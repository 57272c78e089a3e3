"""Timings of a compiled model  ->  the profile as a JSON document, tables, a ledger chart and CSV. All modelled."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from axtool.errors import UsageError, nearest, plural
from axtool.report.profile import Profiled
from axtool.report.tables import folded, room, table
from axtool.report.units import header, large, seconds, size
from axtool.timing.ledger import CATEGORIES

KEYS = ("cycles", "macs", "read_bytes", "write_bytes", "index")
GROUPS = ("layer", "op")
GATES = {
    "latency_ms": "latency {:,.4g} ms, limit {:,.4g} ms",
    "cycles": "{:,.0f} cycles, limit {:,.12g} cycles",
    "external_bytes": "external traffic {:,.0f} B, limit {:,.12g} B",
}
LEGEND = (
    "mac: MAC array; compute: ALU; data_array: transfers inside the array; data_ocm: on-chip memory;\n"
    "data_external: external memory; other: entry, fence, drain. Bound by: the category with the most cycles."
)


def profile_document(model: str, profiled: Profiled) -> dict[str, Any]:
    """Totals and layers over all device stages, in order."""
    timings = profiled.timings
    stages = [timing.to_dict() for timing in timings]
    layers = [{"stage": number, **layer} for number, stage in enumerate(stages) for layer in stage["layers"]]
    cycles = sum(stage["cycles"] for stage in stages)
    first = stages[0]
    return {
        **header("profile"),
        "model": model,
        "modelled": True,
        "target": first["target"],
        "clock_hz": first["clock_hz"],
        "cycles": cycles,
        "latency_ms": sum(stage["latency_ms"] for stage in stages),
        "frames_per_s": first["clock_hz"] / cycles if cycles else None,
        "host_nodes": profiled.host_nodes,
        "macs": sum(stage["macs"] for stage in stages),
        "mac_utilisation": sum(t.macs for t in timings) / max(cycles * timings[0].peak_macs_per_cycle, 1),
        "ledger_cycles": {name: sum(stage["ledger_cycles"][name] for stage in stages) for name in CATEGORIES},
        "other_cycles": {name: sum(stage["other_cycles"][name] for stage in stages) for name in first["other_cycles"]},
        "peak_ocm_bytes": max(stage["peak_ocm_bytes"] for stage in stages),
        "ocm_bytes": first["ocm_bytes"],
        "external_read_bytes": sum(stage["read_bytes"] for stage in stages),
        "external_write_bytes": sum(stage["write_bytes"] for stage in stages),
        "external_bytes": sum(stage["read_bytes"] + stage["write_bytes"] for stage in stages),
        "exceeded": [],
        "layers": layers,
    }


def arrange(document: Mapping[str, Any], *, by: str = "layer", sort: str = "index") -> list[dict[str, Any]]:
    """The rows to show: layers, or sums by op; sorted, the largest first except by index."""
    if by not in GROUPS:
        raise UsageError(f"--by {by}", hint=nearest(by, GROUPS), code="bad-option")
    if sort not in KEYS:
        raise UsageError(f"--sort {sort}", hint=nearest(sort, KEYS), code="bad-option")
    rows = [dict(layer) for layer in document["layers"]]
    if by == "op":
        rows = _by_op(rows)
    if sort == "index":
        rows.sort(key=lambda row: (row.get("stage", 0), row["index"]))
    else:
        rows.sort(key=lambda row: (-row[sort], row["index"]))
    return rows


def profile_text(document: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """Totals, the ledger as bars, and the rows as a table."""
    total = max(document["cycles"], 1)
    cells = [
        (
            row["index"], row["op"], row["name"], large(row["macs"]), f"{row['cycles']:,}",
            f"{100 * row['cycles'] / total:.1f} %", per_cent(row["mac_utilisation"]),
            size(row["read_bytes"]), size(row["write_bytes"]), largest(row["ledger_cycles"]),
        )
        for row in rows
    ]  # fmt: skip
    columns = ("#", "op", "layer", "MACs", "cycles", "share", "MAC use", "read", "written", "bound by")
    return "\n".join(
        (
            table(columns, cells, right=(0, 3, 4, 5, 6, 7, 8), droppable=(9, 8, 7, 6, 3)),
            "",
            folded(_summary(document)),
            "",
            bars(document["ledger_cycles"]),
            folded(LEGEND),
            *(f"failed: {line}" for line in document["exceeded"]),
        )
    )


def _summary(document: Mapping[str, Any]) -> str:
    """Two lines: how long the device takes, and what it moves meanwhile."""
    frames = document["frames_per_s"]
    beside = document["host_nodes"]
    alone = f"device only; {plural(beside, 'host node')} not in it" if beside else "device only"
    took = (
        f"{document['cycles']:,} cycles, {seconds(document['latency_ms'] / 1e3)}, {frames or 0:,.1f} frames/s ({alone})"
    )
    return (
        f"{document['target']} at {document['clock_hz'] / 1e9:g} GHz, modelled: {took if frames else 'no cycles'}\n"
        f"{large(document['macs'])} MACs, {100 * document['mac_utilisation']:.1f} % of the array's peak; "
        f"on-chip peak {size(document['peak_ocm_bytes'])} of {size(document['ocm_bytes'])}; "
        f"external {size(document['external_read_bytes'])} read, {size(document['external_write_bytes'])} written"
    )


def bars(ledger: Mapping[str, int], width: int = 40) -> str:
    """The ledger as one bar a category; the bars sum to the total. Bars are shorter in a narrow terminal."""
    total = max(sum(ledger.values()), 1)
    width = max(8, min(width, (room() or 120) - 45))
    return "\n".join(
        f"{name:<14}{'█' * round(width * value / total):<{width + 1}}{value:>14,} cycles {100 * value / total:5.1f} %"
        for name, value in ledger.items()
    )


def largest(ledger: Mapping[str, int]) -> str:
    """The category with the most cycles; - where there are none."""
    name = max(CATEGORIES, key=lambda category: ledger[category])
    return name if ledger[name] else "-"


def per_cent(share: float) -> str:
    """58 %, and below ten one decimal: 3.4 %."""
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.1f} %"


def profile_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line a row: the plain columns and the ledger."""
    out = io.StringIO()
    plain = ("stage", "index", "op", "name", "macs", "cycles", "mac_utilisation", "read_bytes", "write_bytes", "bound")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow((*plain, *(f"{name}_cycles" for name in CATEGORIES)))
    for row in rows:
        writer.writerow((*(row.get(key, "") for key in plain), *(row["ledger_cycles"][name] for name in CATEGORIES)))
    return out.getvalue()


def judged(document: Mapping[str, Any], **limits: float | None) -> dict[str, Any]:
    """The status of a document, and what exceeds its limit, one line each. No limit is None."""
    exceeded = [
        GATES[key].format(document[key], limit)
        for key, limit in limits.items()
        if limit is not None and document[key] > limit
    ]
    return {"status": "failed" if exceeded else "ok", "exceeded": exceeded}


def _by_op(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    groups: dict[str, dict[str, Any]] = {}
    for row in rows:
        group = groups.setdefault(
            row["op"],
            {
                "index": len(groups), "op": row["op"], "name": "", "macs": 0, "cycles": 0, "read_bytes": 0,
                "write_bytes": 0, "ledger_cycles": dict.fromkeys(CATEGORIES, 0), "bound": "", "busy": 0.0, "count": 0,
            },
        )  # fmt: skip
        for key in ("macs", "cycles", "read_bytes", "write_bytes"):
            group[key] += row[key]
        group["busy"] += row["mac_utilisation"] * row["cycles"]
        group["count"] += 1
        for name in CATEGORIES:
            group["ledger_cycles"][name] += row["ledger_cycles"][name]
    for group in groups.values():
        group["name"] = plural(group.pop("count"), "layer")
        group["mac_utilisation"] = group.pop("busy") / max(group["cycles"], 1)
        group["bound"] = max(CATEGORIES, key=lambda name: group["ledger_cycles"][name])
    return list(groups.values())
