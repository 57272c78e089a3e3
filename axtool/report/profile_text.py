"""A profile and its rows  ->  text: the rows as a table, the totals, the ledger as a chart, the reasons."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from axtool.errors import plural
from axtool.report.bars import bars
from axtool.report.profiled import largest
from axtool.report.tables import MIN_NAME, PROSE_WIDTH, folded, room, shortened, table
from axtool.report.units import large, seconds, size

LEGEND = (
    "mac: MAC array; compute: ALU; data_array: transfers inside the array; data_ocm: on-chip memory; data_external: "
    "external memory; other: entry, fence, drain. Every cycle is in one of them. MAC use: of the array's peak, in all "
    "cycles."
)
TEXTS = ("op", "layer", "layers", "with", "bound by", "because")
# Columns that are left out where there is too little room, the first one first.
DROPPED = ("because", "in mac", "near", "energy", "spilled", "written", "read", "MAC use", "with", "MACs")
REASONS = 5  # rows whose reason is said below the table, where it has no room in it


def profile_text(document: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], *, why: bool = False) -> str:
    """All of it. `rows` are those to show: the first of what `arrange` made; with `why` the reasons of all of them."""
    shown = _rows(rows, document["layers"])
    return "\n".join(
        (
            shown,
            "",
            folded(summary(document)),
            "",
            bars(document["ledger_cycles"], document["other_cycles"]),
            textwrap.fill(_legend(shown), room() or PROSE_WIDTH),
            *(_every_cycle(rows) if why else () if "because" in shown.splitlines()[0] else _reasons(rows)),
            *(f"failed: {line}" for line in document["exceeded"]),
        )
    )


def _legend(table_of_rows: str) -> str:
    """What the words of the chart mean, and of the columns that not every profile has."""
    header = table_of_rows.splitlines()[0]
    marks = (
        (" in mac ", " in mac: the same in the mac cycles alone."),
        (" with ", " with: layers whose commands take turns."),
        (" energy ", " energy: relative, in the weights of the chip file."),
    )
    return LEGEND + "".join(words for mark, words in marks if mark in header)


def _rows(rows: Sequence[Mapping[str, Any]], layers: Sequence[Mapping[str, Any]]) -> str:
    """The table; a column that says nothing here is left out, others where there is too little room."""
    columns: dict[str, list[str]] = {
        "#": [str(row["index"]) for row in rows],
        "op": [row["op"] for row in rows],
        "layers" if any(row["layers"] > 1 for row in rows) else "layer": [row["name"] for row in rows],
        "with": [_together(row, layers) for row in rows],
        "MACs": [large(row["macs"]) for row in rows],
        "cycles": [f"{row['cycles']:,}" for row in rows],
        "share": [percent(row["share"]) for row in rows],
        "MAC use": [percent(row["mac_utilisation"]) for row in rows],
        "in mac": [percent(row["mac_cycles_utilisation"]) for row in rows],
        "read": [size(row["read_bytes"]) for row in rows],
        "written": [size(row["write_bytes"]) for row in rows],
        "near": [size(row["near_bytes"]) for row in rows],
        "spilled": [size(row["spilled_bytes"]) for row in rows],
        "energy": [large(row["energy_relative"] or 0) for row in rows],
        "bound by": [largest(row["ledger_cycles"]) if row["commands"] else "in place" for row in rows],
        "because": [because(row) for row in rows],
    }
    shown = {
        "op": any(row["op"] for row in rows),
        "with": any(columns["with"]),
        "near": any(row["near_bytes"] for row in rows),
        "spilled": any(row["spilled_bytes"] for row in rows),
        "energy": any(row["energy_relative"] is not None for row in rows),
    }
    names = [name for name in columns if shown.get(name, True)]
    at = {name: place for place, name in enumerate(names)}
    return table(
        names,
        list(zip(*(columns[name] for name in names), strict=True)),
        right=[at[name] for name in names if name not in TEXTS],
        droppable=[at[name] for name in DROPPED if name in at],
        shorten=[at[name] for name in ("layer", "layers") if name in at],
    )


def _together(row: Mapping[str, Any], layers: Sequence[Mapping[str, Any]]) -> str:
    """`3-5` for the layers whose commands take turns; empty for one that runs alone."""
    if row["group"] is None:
        return ""
    members = [one["index"] for one in layers if (one["stage"], one["group"]) == (row["stage"], row["group"])]
    return f"{min(members)}-{max(members)}"


def because(row: Mapping[str, Any]) -> str:
    """What bound a row and the amount, without the words that the column says."""
    if not row["commands"]:
        return "no command: done by where its operands lie"
    return str(row["bound"]).removeprefix("bound by ")


def _reasons(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    costly = [row for row in sorted(rows, key=lambda row: -row["cycles"])[:REASONS] if row["cycles"]]
    if not costly:
        return []
    width = len(str(max(row["index"] for row in costly)))
    cells = [(f"  #{row['index']:<{width}}", f"{row['cycles']:,} cycles", row["bound"]) for row in costly]
    wide = max(len(cycles) for _, cycles, _ in cells)
    return ["", "The costliest rows:", *(f"{index}  {cycles:>{wide}}  {bound}" for index, cycles, bound in cells)]


def _name(row: Mapping[str, Any]) -> str:
    """The name of a row, short enough for a line of a narrow terminal."""
    wide = room()
    return str(row["name"]) if wide is None else shortened(row["name"], max(wide // 2, MIN_NAME))


def _every_cycle(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A block a row: its cycles by category, the most first, each with its reason."""
    lines = []
    for row in rows:
        if row["cycles"]:
            lines += [
                "",
                folded(f"#{row['index']} {row['op']} {_name(row)}: {row['cycles']:,} cycles, {row['bound']}"),
            ]
            parts = sorted(row["ledger_cycles"].items(), key=lambda part: -part[1])
            most = len(f"{parts[0][1]:,}")
            reasons = row.get("reasons", {})
            for name, cycles in parts:
                if cycles:
                    part = f"{percent(cycles / row['cycles']):>6}"
                    lines.append(f"  {name:<13}  {cycles:>{most},}  {part}  {reasons.get(name, '')}".rstrip())
    return lines


def summary(document: Mapping[str, Any]) -> str:
    """How long the device takes, how busy the MAC array is, and what moves meanwhile: a line each."""
    return "\n".join((_took(document), _busy(document), _moved(document), *_energy(document)))


def _took(document: Mapping[str, Any]) -> str:
    beside = document["host_nodes"]
    alone = f"device only; {plural(beside, 'host node')} not in it" if beside else "device only"
    one, cores = document["frames_per_s_per_core"], document["cores"]
    frames = f"{one or 0:,.1f} frames/s"
    if cores > 1:
        frames += f" on one core, {document['frames_per_s'] or 0:,.1f} on all {cores}"
    took = f"{document['cycles']:,} cycles, {seconds(document['latency_ms'] / 1e3)} a frame, {frames} ({alone})"
    return f"{document['target']} at {document['clock_hz'] / 1e9:g} GHz, modelled: {took if one else 'no cycles'}"


def _busy(document: Mapping[str, Any]) -> str:
    whole, outside = document["mac_utilisation"], document["mac_utilisation_outside_custom"]
    others = f" ({percent(outside)} outside custom ops)" if outside != whole else ""
    blocks = document["feed_forward_blocks"]
    rest = large(document["macs"] - document["feed_forward_macs"])
    split = f" ({rest} outside {plural(blocks, 'feed-forward block')})" if blocks else ""
    return (
        f"{large(document['macs'])} MACs{split}, {percent(whole)} of the array's peak{others}, "
        f"{percent(document['mac_cycles_utilisation'])} in the mac cycles alone"
    )


def _moved(document: Mapping[str, Any]) -> str:
    near, spilled, most = document["near_bytes"], document["spilled_bytes"], size(document["peak_spilled_bytes"])
    return (
        f"on-chip peak {size(document['peak_ocm_bytes'])} of {size(document['ocm_bytes'])}, of each element "
        f"{size(document['peak_lrm_bytes'])} of {size(document['lrm_bytes_per_pe'])}; "
        f"external {size(document['external_read_bytes'])} read, {size(document['external_write_bytes'])} written"
        + (f"; {size(near)} from the memory beside the core" if near else "")
        + (f"; {size(spilled)} of activations find no room on chip, at most {most} at a time" if spilled else "")
    )


def _energy(document: Mapping[str, Any]) -> tuple[str, ...]:
    energy = document["energy_relative"]
    return () if energy is None else (f"relative energy {large(energy)}, in the weights of the chip file: no joules",)


def percent(share: float) -> str:
    """58 %, and below ten one decimal: 3.4 %."""
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.1f} %"
