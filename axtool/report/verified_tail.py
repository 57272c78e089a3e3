"""The figures of a postamble kernel against the onnxruntime tail  ->  text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from axtool.errors import plural
from axtool.report.postambles import written
from axtool.report.tables import table
from axtool.report.units import seconds

LEGEND = (
    "errors: the largest, against the onnxruntime tail; used: of what is allowed, atol + rtol x |value|, where the\n"
    "kernel says more of some values with that; samples: the device's own buffers, random: every int8 value"
)


def tail_text(tail: Mapping[str, Any]) -> str:
    """Table, verdict and times."""
    rows = [
        (
            row["output"], row["buffers"], _error(row["max_abs_error"]), _error(row["max_rel_error"]), _wanted(row),
            _used(row), "pass" if row["passed"] else "FAIL",
        )
        for row in tail["outputs"]
    ]  # fmt: skip
    columns = ("output", "buffers", "abs error", "rel error", "rtol, atol", "used", "")
    lines = [table(columns, rows, title=f"{tail['kernel']} against onnxruntime", right=(2, 3), droppable=(3, 4))]
    lines.append(LEGEND)
    lines += [f"note: {text}" for text in tail["notes"]]
    lines += [f"  - {reason}" for reason in tail["failures"]]
    frames = f"{plural(tail['samples'], 'sample')}, {plural(tail['random_frames'], 'frame')} of random buffers"
    lines.append(f"{tail['verdict']}: kernel {written(tail['postamble'])}; {frames}")
    kernel, other = tail["kernel_ms_measured"] / 1e3, tail["onnxruntime_ms_measured"] / 1e3
    ratio = f", {other / kernel:.1f} times as fast" if kernel else ""
    lines.append(f"tail measured here: kernel {seconds(kernel)}, onnxruntime {seconds(other)}{ratio}")
    return "\n".join(lines)


def _error(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _wanted(row: Mapping[str, Any]) -> str:
    if row["whole_numbers"]:
        share = row["allowed_differing_share"]
        return f"{share:.2%} differ" if share else "equal"
    return f"{row['rtol']:g}, {row['atol']:g}"


def _used(row: Mapping[str, Any]) -> str:
    if row["tolerance_used"] is None:
        return "-"
    if row["non_finite_mismatches"]:
        return "not finite"
    if row["whole_numbers"]:
        return f"{row['differing']:,} differ" + (f", {plural(row['ties'], 'tie')}" if row["ties"] else "")
    return f"{row['tolerance_used']:.0%}" if row["tolerance_used"] < 100 else f"{row['tolerance_used']:.3g} x"
