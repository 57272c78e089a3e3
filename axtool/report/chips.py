"""Targets  ->  a JSON document, text and YAML: what chips there are, and where each number comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from axtool.errors import UsageError, nearest
from axtool.report.constants import constants, counted
from axtool.report.described import file_text, path_or_name, with_constants
from axtool.report.tables import folded, table
from axtool.report.units import header, size
from axtool.target import Target
from axtool.target_file import list_targets, load_target, target_to_dict

ACTIONS = ("list", "show", "check")


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
    target = load_target(path_or_name(name, list_targets()))
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
    load_target(path_or_name(name, list_targets()))
    return file_text("targets", name, list_targets())


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
    return with_constants(text, document)


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
