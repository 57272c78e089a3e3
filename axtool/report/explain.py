"""The numbers of device stages  ->  why each tensor has its format and range, as rows and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from axtool.quant.tie_costs import TieCost
from axtool.report.tables import table
from axtool.types import Quantization


def explain_rows(numbers: Sequence[Quantization], ties: Sequence[TieCost] = ()) -> list[dict[str, Any]]:
    """One row a tensor, in the order of the graph. `low` and `high` are in real units, `ties` what sharing costs."""
    costs = {cost.tensor: str(cost) for cost in sorted(ties, key=lambda cost: cost.factor)}  # the largest stays
    return [
        {
            "tensor": name,
            "low": stage.ranges.get(name, (0.0, 0.0))[0],
            "high": stage.ranges.get(name, (0.0, 0.0))[1],
            "format": fmt.kind,
            "scale": fmt.scale[0] if fmt.scale else None,
            "fraction_bits": fmt.fraction_bits,
            "zero_point": fmt.zero_point[0],
            "tie": costs.get(name, ""),
            "why": stage.reasons.get(name, ""),
        }
        for stage in numbers
        for name, fmt in stage.formats.items()
    ]


def _step(row: Mapping[str, Any]) -> str:
    if row["fraction_bits"] is not None:
        return f"2^-{row['fraction_bits']}"
    return "-" if row["scale"] is None else f"{row['scale']:.4g}"


def explain_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table."""
    cells = [
        (
            row["tensor"],
            f"{row['low']:.4g}",
            f"{row['high']:.4g}",
            row["format"],
            _step(row),
            row["zero_point"],
            row["tie"],
            row["why"],
        )
        for row in rows
    ]
    columns = ("tensor", "low", "high", "format", "scale", "zero point", "tie", "why")
    return table(columns, cells, title="Formats", right=(1, 2, 4, 5), prose=(6, 7), droppable=(5, 4))
