"""Limits that a user sets  ->  what of a profile exceeds them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from axtool.errors import UsageError
from axtool.target_schema import parse_quantity

MS = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "μs": 1e-3, "ms": 1.0, "s": 1e3, "": 1.0}  # both letters that look like mu
_DURATION = re.compile(r"^\s*([0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+)\s*([a-zµμ]*)\s*$")


@dataclass(frozen=True)
class Gates:
    """Largest values that pass; None where there is no limit. A value that equals its limit passes."""

    latency_ms: float | None = None
    cycles: float | None = None
    external_bytes: float | None = None

    def exceeded(self, document: Mapping[str, Any]) -> list[str]:
        """One line for each limit that the totals of a document are above."""
        return [line for gate in (_latency, _cycles, _bytes) if (line := gate(self, document))]


def parse_gates(latency: str | None, cycles: str | None, external: str | None) -> Gates:
    """Limits from the texts of the options. Raises UsageError that names the option."""
    return Gates(
        None if latency is None else milliseconds(latency, "--max-latency"),
        None if cycles is None else _count(cycles, "", "--max-cycles", "for example 2000000, 2e6 or 2M"),
        None if external is None else _count(external, "B", "--max-external-bytes", "for example 20MiB, 20MB or 2e7"),
    )


def milliseconds(text: str, option: str) -> float:
    """`5ms`, `0.005s`, `5000us`; a bare number is milliseconds. Raises UsageError."""
    match = _DURATION.match(text)
    if not match or match[2] not in MS or not math.isfinite(value := float(match[1]) * MS[match[2]]):
        raise UsageError(
            f"{option} {text}: want a time of 0 or more",
            hint="for example 5ms, 800us or 0.02s; without a unit it is ms",
            code="bad-option",
        )
    return value


def judged(document: Mapping[str, Any], gates: Gates) -> dict[str, Any]:
    """The status of a profile, and what of it is exceeded."""
    exceeded = gates.exceeded(document)
    return {"status": "failed" if exceeded else "ok", "exceeded": exceeded}


def _count(text: str, unit: str, option: str, hint: str) -> float:
    try:
        value = parse_quantity(text, unit)
    except (ValueError, OverflowError):
        value = None
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        what = "a number of bytes" if unit else "a number"
        raise UsageError(f"{option} {text}: want {what}", hint=hint, code="bad-option")
    return float(value)


def _latency(gates: Gates, document: Mapping[str, Any]) -> str:
    value, limit = document["latency_ms"], gates.latency_ms
    return f"latency {value:,.6g} ms, limit {limit:,.6g} ms" if limit is not None and value > limit else ""


def _cycles(gates: Gates, document: Mapping[str, Any]) -> str:
    value, limit = document["cycles"], gates.cycles
    return f"{value:,.0f} cycles, limit {limit:,.12g} cycles" if limit is not None and value > limit else ""


def _bytes(gates: Gates, document: Mapping[str, Any]) -> str:
    value, limit = document["external_bytes"], gates.external_bytes
    over = limit is not None and value > limit
    return f"external traffic {value:,.0f} B, limit {limit:,.12g} B" if over else ""
