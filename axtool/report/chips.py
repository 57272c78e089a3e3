"""Targets  ->  a JSON document, text and YAML: what chips there are, and where each number comes from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from axtool.config import package_dir
from axtool.errors import UsageError, nearest, plural
from axtool.report.constants import constants, counted
from axtool.report.tables import folded, table
from axtool.report.units import header, size
from axtool.target import Target
from axtool.target_file import list_targets, load_target, target_to_dict

ACTIONS = ("list", "show", "check")
SHORT = 1  # names that are shown in the table; longer lists stand below it


def chips_document(action: str, name: str | None) -> dict[str, Any]:
    """`list` all, `show` or `check` one. Raises UsageError as `load_target`, listing every fault of a file."""
    if action not in ACTIONS:
        raise UsageError(f"there is no action '{action}'", hint=nearest(action, ACTIONS), code="bad-option")
    if action == "list":
        if name is not None:
            raise UsageError(
                f"`targets list` lists all and takes no '{name}'", hint=f"axtool targets show {name}", code="usage"
            )
        return {**header("targets"), "action": action, "targets": [_summary(load_target(c)) for c in list_targets()]}
    if name is None:
        raise UsageError(f"`targets {action}` wants a target", hint=", ".join(list_targets()), code="usage")
    target = load_target(_path_or_name(name))
    found = constants(target)
    return {
        **header("targets"),
        "action": action,
        "targets": [_summary(target)],
        "values": target_to_dict(target),
        "constants": [asdict(constant) for constant in found],
        "origins": counted(found),
    }


def chip_yaml(name: str) -> str:
    """The file of a chip as it is, comments too: one to start an own file from. Raises UsageError as `load_target`."""
    name = _path_or_name(name)
    load_target(name)
    path = package_dir("configs") / "targets" / f"{name}.yaml" if name in list_targets() else Path(name)
    return path.read_text(encoding="utf-8")


def chips_text(document: Mapping[str, Any]) -> str:
    """The same for people."""
    columns = ("target", "clock", "cores", "MACs a cycle", "on-chip memory", "read, write")
    rows = [
        (
            row["name"], f"{row['clock_hz'] / 1e9:g} GHz", row["cores"], f"{row['macs_per_cycle']:,}",
            size(row["ocm_bytes"]), f"{row['read_bytes_per_s'] / 1e9:g}, {row['write_bytes_per_s'] / 1e9:g} GB/s",
        )
        for row in document["targets"]
    ]  # fmt: skip
    text = "\n".join(
        (
            table(columns, rows, right=range(1, 6), droppable=(5, 4, 2)),
            "",
            folded("MACs a cycle and on-chip memory of one core; read and write: external memory, for all cores."),
            *(folded(f"{row['name']}: {row['description']}") for row in document["targets"]),
        )
    )
    if document["action"] == "list":
        return text
    counts = ", ".join(f"{count} {origin}" for origin, count in document["origins"].items())
    total = f"{plural(len(document['constants']), 'constant')}: {counts}"
    if document["action"] == "check":
        return f"{text}\n\nno fault; {total}"
    return f"{text}\n\n{constants_text(document['constants'])}\n\n{total}"


def constants_text(found: Sequence[Mapping[str, Any]]) -> str:
    """Every constant with its value, unit and source; long lists stand below the table."""
    lists = [constant for constant in found if isinstance(constant["value"], list) and len(constant["value"]) > SHORT]
    lines = [
        (
            constant["path"], _count(constant["value"]) if constant in lists else plain(constant["value"]),
            constant["unit"], ": ".join(filter(None, (constant["origin"], constant["source"]))),
        )
        for constant in found
    ]  # fmt: skip
    said = [folded(f"{constant['path']}: {', '.join(map(str, constant['value']))}") for constant in lists]
    return "\n".join([table(("constant", "value", "unit", "provenance"), lines, right=(1,), prose=(3,)), "", *said])


def _count(values: Sequence[object]) -> str:
    return f"{len(values)} {'names' if isinstance(values[0], str) else 'values'}"


def plain(value: object) -> str:
    """A number with its thousands apart; yes and no as a file writes them; a name, or several."""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:,.12g}" if isinstance(value, (int, float)) else str(value)


def _path_or_name(name: str) -> str:
    """A file of any ending is a path, unless a chip has its name."""
    return os.path.join(".", name) if name not in list_targets() and Path(name).is_file() else name


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
