"""A Target or a Board  ->  every value of it by dotted path, with its unit and where it comes from."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from axtool.runtime.devices.boards import Board
from axtool.target import Target
from axtool.target_file import target_to_dict
from axtool.target_limits import LIMIT_LISTS

# What is no constant: in the table of all, or a name of ours.
SAID = ("provenance", "left_out", "schema", "name", "description", "prefix", "runs")
DEFAULT = "default"  # the origin of what a file leaves out
UNSAID = "unsaid"  # of what it states without saying from where
ORIGINS = ("fact", "natural", "fitted", "set", DEFAULT, UNSAID)

# What a dotted path begins or ends with, and the unit of the value; the first that fits.
BEGINS = {"energy.": "relative", "costs.int16_passes": "passes", "costs.fp16_passes": "passes", "costs.": "cycles"}
ENDS = {
    "clock_hz": "Hz", "bytes_per_s": "B/s", "bytes_per_cycle": "B/cycle", "bytes_per_pe": "B", "bytes": "B",
    "cycles": "cycles", "in_flight": "requests", "_mhz": "MHz", "latency_s": "s", "switch_s": "s", "queue": "frames",
}  # fmt: skip


@dataclass(frozen=True)
class Constant:
    """One value; `source` says of what for a fact or a fit, and is empty where nothing is said."""

    path: str
    value: Any
    unit: str
    origin: str
    source: str


def constants(target: Target) -> list[Constant]:
    """All that a file can state of a chip, also what this one leaves out and means by it."""
    full = asdict(target)
    for name in LIMIT_LISTS:
        full["limits"] = {**full["limits"], name: full.pop(name)}
    stated = {path for path, _ in _leaves(target_to_dict(target))}
    return _found(full, target.provenance, stated)


def board_constants(board: Board) -> list[Constant]:
    """All that a file can state of a board."""
    return _found(asdict(board), board.provenance, {path for path, _ in _leaves(asdict(board))} - board.left_out)


def _found(full: Mapping[str, Any], provenance: Mapping[str, str], stated: Container[str]) -> list[Constant]:
    found = []
    for path, value in _leaves(full):
        if path.split(".")[0] not in SAID and value not in (None, (), ""):
            origin, _, source = _said(path, provenance).partition(": ")
            value = list(value) if isinstance(value, tuple) else value
            found.append(Constant(path, value, unit(path), origin or (UNSAID if path in stated else DEFAULT), source))
    return found


def counted(found: list[Constant]) -> dict[str, int]:
    """How many constants are of each origin, those that there are."""
    counts = {origin: sum(constant.origin == origin for constant in found) for origin in ORIGINS}
    return {origin: count for origin, count in counts.items() if count}


def unit(path: str) -> str:
    """The unit of a constant; empty for a count or a name."""
    begin = next((unit for start, unit in BEGINS.items() if path.startswith(start)), "")
    return begin or next((unit for end, unit in ENDS.items() if path.endswith(end)), "")


def _said(path: str, provenance: Mapping[str, str]) -> str:
    """What is said of a path, or else of the section that it is in."""
    while path and path not in provenance:
        path = path.rpartition(".")[0]
    return provenance.get(path, "")


def _leaves(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value
