"""A profile and its rows  ->  text: the rows as a table, the totals, the ledger as a chart, the reasons."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from axtool.errors import plural
from axtool.report.bars import bars
from axtool.report.profiled import largest
from axtool.report.tables import PROSE_WIDTH, folded, room, table
from axtool.report.units import large, seconds, size

LEGEND = (
    "mac: MAC array; compute: ALU; data_array: transfers inside the array; data_ocm: on-chip memory; data_external: "
    "external memory; other: entry, fence, drain. Every cycle is in one of them. MAC use: of the array's peak, in all "
    "cycles; in mac: in the mac cycles alone."
)
REASONS = 5  # rows whose reason is said below the table, where it has no room in it


def profile_text(document: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """All of it. `rows` are those to show: the first of what `arrange` made."""
    shown = _rows(rows)
    return "\n".join(
        (
            shown,
            "",
            folded(summary(document)),
            "",
            bars(document["ledger_cycles"], document["other_cycles"]),
            textwrap.fill(LEGEND, room() or PROSE_WIDTH),
            *(() if "because" in shown.splitlines()[0] else _reasons(rows)),
            *(f"failed: {line}" for line in document["exceeded"]),
        )
    )


def _rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table; a column that says nothing here is left out, others where there is too little room."""
    spills = any(row["spilled_bytes"] for row in rows)
    ops = any(row["op"] for row in rows)
    name = "layers" if any(row["layers"] > 1 for row in rows) else "layer"
    columns = (
        "#", "op", name, "MACs", "cycles", "share", "MAC use", "in mac", "read", "written", "spilled",
        "bound by", "because",
    )  # fmt: skip
    cells = [
        (
            row["index"], row["op"], row["name"], large(row["macs"]), f"{row['cycles']:,}", percent(row["share"]),
            percent(row["mac_utilisation"]), percent(row["mac_cycles_utilisation"]), size(row["read_bytes"]),
            size(row["write_bytes"]), size(row["spilled_bytes"]), largest(row["ledger_cycles"]), because(row),
        )
        for row in rows
    ]  # fmt: skip
    kept = [at for at in range(len(columns)) if (ops or at != 1) and (spills or at != 10)]
    place = {at: position for position, at in enumerate(kept)}
    return table(
        [columns[at] for at in kept],
        [[cell[at] for at in kept] for cell in cells],
        right=[place[at] for at in (0, 3, 4, 5, 6, 7, 8, 9, 10) if at in place],
        droppable=[place[at] for at in (12, 7, 10, 9, 8, 6, 3) if at in place],
        shorten=[place[2]],
    )


def because(row: Mapping[str, Any]) -> str:
    """What bound a row and the amount, without the words that the column says."""
    return str(row["bound"]).removeprefix("bound by ")


def _reasons(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    costly = [row for row in sorted(rows, key=lambda row: -row["cycles"])[:REASONS] if row["cycles"]]
    if not costly:
        return []
    width = len(str(max(row["index"] for row in costly)))
    cells = [(f"  #{row['index']:<{width}}", f"{row['cycles']:,} cycles", row["bound"]) for row in costly]
    wide = max(len(cycles) for _, cycles, _ in cells)
    return ["", "The costliest rows:", *(f"{index}  {cycles:>{wide}}  {bound}" for index, cycles, bound in cells)]


def summary(document: Mapping[str, Any]) -> str:
    """Three lines: how long the device takes, how busy the MAC array is, and what moves meanwhile."""
    beside = document["host_nodes"]
    alone = f"device only; {plural(beside, 'host node')} not in it" if beside else "device only"
    one, cores = document["frames_per_s_per_core"], document["cores"]
    frames = f"{one or 0:,.1f} frames/s"
    if cores > 1:
        frames += f" on one core, {document['frames_per_s'] or 0:,.1f} on {cores}"
    took = f"{document['cycles']:,} cycles, {seconds(document['latency_ms'] / 1e3)} a frame, {frames} ({alone})"
    spilled = document["spilled_bytes"]
    return (
        f"{document['target']} at {document['clock_hz'] / 1e9:g} GHz, modelled: {took if one else 'no cycles'}\n"
        f"{large(document['macs'])} MACs, {percent(document['mac_utilisation'])} of the array's peak, "
        f"{percent(document['mac_cycles_utilisation'])} of it in the cycles of the array itself\n"
        f"on-chip peak {size(document['peak_ocm_bytes'])} of {size(document['ocm_bytes'])}; "
        f"external {size(document['external_read_bytes'])} read, {size(document['external_write_bytes'])} written"
        + (f"; {size(spilled)} of activations have no room on chip" if spilled else "")
    )


def percent(share: float) -> str:
    """58 %, and below ten one decimal: 3.4 %."""
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.1f} %"
