"""A comparison of two profiles  ->  text: the rows, the totals and the categories, each as this, other, difference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from axtool.report.profile_text import percent
from axtool.report.tables import folded, table
from axtool.report.units import large, seconds, size

SHOWN: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "cycles": ("cycles", lambda value: f"{value:,.0f}"),
    "latency_ms": ("latency", lambda value: seconds(value / 1e3)),
    "frames_per_s": ("frames/s", lambda value: f"{value:,.1f}"),
    "macs": ("MACs", large),
    "mac_utilisation": ("MAC use", percent),
    "peak_ocm_bytes": ("on-chip peak", size),
    "external_read_bytes": ("external read", size),
    "external_write_bytes": ("external written", size),
    "external_bytes": ("external", size),
    "spilled_bytes": ("spilled", size),
    "energy_relative": ("relative energy", large),
}


def compared_text(document: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], by: str = "layer") -> str:
    """All of it. `rows` are those to show, each a layer, segment or op: the first of what `compared_rows` made."""
    this, other = document["this"], document["other"]
    return "\n".join(
        (
            _rows(rows, by),
            "",
            _figures("total", [(*SHOWN[row["figure"]], row) for row in document["totals"] if _says(row)]),
            "",
            _figures("category", [(row["figure"], SHOWN["cycles"][1], row) for row in document["categories"]]),
            "",
            folded(f"this: {_side(this)}\nother: {_side(other)}\n{_meaning(this, other)}"),
            *(f"failed: {line}" for line in document["exceeded"]),
        )
    )


def _says(row: Mapping[str, Any]) -> bool:
    """Whether a total is there, and more than nothing, on either side."""
    return bool(row["this"] or row["other"])


def _side(side: Mapping[str, Any]) -> str:
    return f"{side['model']} on {side['target']} at {side['clock_hz'] / 1e9:g} GHz"


def _meaning(this: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """What the differences are, and what a reader of two unlike chips would misread."""
    clocks = "; a cycle is not equally long on both: latency compares them"
    frames = "; frames/s are those of all cores"
    return (
        "modelled; differences are other less this"
        + (clocks if this["clock_hz"] != other["clock_hz"] else "")
        + (frames if max(this["cores"], other["cores"]) > 1 else "")
    )


def _rows(rows: Sequence[Mapping[str, Any]], by: str) -> str:
    cells = [
        (
            row["op"], row["name"], *_sides(row), _signed(row["difference_cycles"]),
            _change(row["this_cycles"], row["other_cycles"]), _bytes(row), _mostly(row),
        )
        for row in rows
    ]  # fmt: skip
    columns = ("op", by, "this, cycles", "other, cycles", "difference", "", "external", "most of it")
    first = 0 if by == "layer" else 1  # the op of an op, and of a segment, says nothing
    shown = columns[first:]
    return table(
        shown,
        [cell[first:] for cell in cells],
        right=range(2 - first, 7 - first),
        droppable=[at - first for at in (0, 6, 7) if at >= first],
        shorten=(1 - first,),
    )


def _sides(row: Mapping[str, Any]) -> tuple[str, str]:
    """Cycles of both sides; a dash where a side has no such layer."""
    return (
        f"{row['this_cycles']:,}" if row["matched"] != "other" else "-",
        f"{row['other_cycles']:,}" if row["matched"] != "this" else "-",
    )


def _bytes(row: Mapping[str, Any]) -> str:
    moved = [row[f"{side}_read_bytes"] + row[f"{side}_write_bytes"] for side in ("this", "other")]
    change = moved[1] - moved[0]
    return f"{'+' if change > 0 else '-'}{size(abs(change))}" if change else "="


def _mostly(row: Mapping[str, Any]) -> str:
    """The category that changed most in the direction of the whole."""
    whole, parts = row["difference_cycles"], row["difference_ledger_cycles"]
    if not whole:
        return "="
    name = max(parts, key=lambda category: parts[category] if whole > 0 else -parts[category])
    return f"{name} {_signed(parts[name])}"


def _figures(title: str, rows: Sequence[tuple[str, Callable[[float], str], Mapping[str, Any]]]) -> str:
    cells = []
    for name, words, row in rows:
        this, other, change = (row[key] for key in ("this", "other", "difference"))
        sign = "+" if (change or 0) > 0 else "-"
        cells.append(
            (
                name, "-" if this is None else words(this), "-" if other is None else words(other),
                "-" if change is None else f"{sign}{words(abs(change))}" if change else "=",
                "" if change is None else _change(this or 0, other or 0),
            )
        )  # fmt: skip
    return table((title, "this", "other", "difference", ""), cells, right=(1, 2, 3, 4))


def _signed(change: int) -> str:
    return f"{change:+,}" if change else "="


def _change(this: float, other: float) -> str:
    if not this or this == other:
        return ""
    return f"{100 * (other / this - 1):+.1f} %"
