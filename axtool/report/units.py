"""Numbers as people read them: binary units for bytes, thousands for counts, a unit on everything."""

from __future__ import annotations

from typing import Any

from axtool import __version__


def header(command: str, status: str = "ok") -> dict[str, Any]:
    """The keys that every JSON document begins with."""
    return {
        "schema": f"axtool.{command.replace(' ', '.')}/1",
        "tool": {"name": "axtool", "version": __version__},
        "command": command,
        "status": status,
    }


def size(count: float) -> str:
    """Bytes in binary units: 512 B, 1.50 KiB, 2.00 MiB."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.2f} {unit}"
        value /= 1024
    raise AssertionError("the last unit takes every value")


def large(count: float) -> str:
    """Counts with a decimal prefix: 950, 12.3 k, 4.09 G."""
    value = float(count)
    for prefix in ("", " k", " M", " G"):
        if abs(value) < 1000 or prefix == " G":
            return f"{value:.0f}" if not prefix else f"{value:.3g}{prefix}"
        value /= 1000
    raise AssertionError("the last prefix takes every value")


def seconds(value: float) -> str:
    """1.25 s, 12.5 ms, 830 µs."""
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1e3:.3g} ms" if value >= 1e-3 else f"{value * 1e6:.3g} µs"


def shape(dims: object) -> str:
    """1x3x640x640."""
    return "x".join(str(d) for d in dims) if isinstance(dims, (tuple, list)) and dims else "scalar"
