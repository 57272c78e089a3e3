"""Targets  ->  a JSON document and text: what chips there are, and where each number comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from axtool.errors import UsageError, nearest
from axtool.report.tables import table
from axtool.report.units import header, size
from axtool.target import Target
from axtool.target_file import list_targets, load_target, target_to_dict

ACTIONS = ("list", "show", "check")


def chips_document(action: str, name: str | None) -> dict[str, Any]:
    """`list` all, `show` or `check` one. Raises UsageError as `load_target`, listing every fault of a file."""
    if action not in ACTIONS:
        raise UsageError(f"there is no action '{action}'", hint=nearest(action, ACTIONS), code="bad-option")
    if action == "list":
        return {**header("targets"), "targets": [_summary(load_target(known)) for known in list_targets()]}
    if name is None:
        raise UsageError(f"`targets {action}` wants a target", hint=", ".join(list_targets()), code="usage")
    target = load_target(name)
    return {**header("targets"), "targets": [_summary(target)], "values": target_to_dict(target)}


def chips_text(document: Mapping[str, Any]) -> str:
    """The same for people."""
    columns = ("target", "clock", "cores", "MACs a cycle", "on-chip memory", "external read, write", "description")
    rows = [
        (
            row["name"], f"{row['clock_hz'] / 1e9:g} GHz", row["cores"], f"{row['macs_per_cycle']:,}",
            size(row["ocm_bytes"]), f"{row['read_bytes_per_s'] / 1e9:g}, {row['write_bytes_per_s'] / 1e9:g} GB/s",
            row["description"],
        )
        for row in document["targets"]
    ]  # fmt: skip
    text = table(columns, rows, right=(1, 2, 3, 4, 5), prose=(6,), droppable=(2, 5))
    if "values" not in document:
        return text
    values = _leaves(document["values"])
    sources = document["values"].get("provenance", {})
    lines = [(key, _plain(value), unit(key), sources.get(key, "")) for key, value in values if not key.startswith(SAID)]
    return text + "\n" + table(("constant", "value", "unit", "provenance"), lines, right=(1,), prose=(3,))


def _summary(target: Target) -> dict[str, Any]:
    array = target.array
    steps = array.rows * array.columns * array.input_channels * array.output_channels
    return {
        "name": target.name,
        "description": target.description,
        "clock_hz": target.clock_hz,
        "cores": target.cores,
        "macs_per_cycle": steps // array.cycles,
        "ocm_bytes": target.memory.ocm_bytes,
        "read_bytes_per_s": target.external.read_bytes_per_s,
        "write_bytes_per_s": target.external.write_bytes_per_s,
    }


SAID = ("provenance", "schema", "name", "description")  # no constants, or in the table of chips

# A word in the name of a constant, and the unit of its value; the first that fits.
UNITS = {
    "clock_hz": "Hz",
    "bytes_per_s": "B/s",
    "bytes_per_cycle": "B/cycle",
    "bytes": "B",
    "cycles": "cycles",
    "costs.": "cycles",
}


def unit(key: str) -> str:
    """The unit of a constant by its dotted name; empty for a count or a name."""
    return next((unit for word, unit in UNITS.items() if word in key), "")


def _plain(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return f"{value:,.12g}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)


def _leaves(values: Mapping[str, Any], path: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in values.items():
        name = f"{path}{key}"
        found += _leaves(value, f"{name}.") if isinstance(value, Mapping) else [(name, value)]
    return found
