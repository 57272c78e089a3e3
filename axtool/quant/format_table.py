"""Numbers of a device stage  ->  a row for each tensor in fx32 or fp16: its maker, its range, its fraction bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from axtool.types import Quantization, Site

MERGED = "only "  # the reason of a tensor that the layer of its only reader makes no more


@dataclass(frozen=True, slots=True)
class FormatRow:
    """`name` and `op` are of the node; the range is in real units. `fraction_bits` is None for fp16."""

    name: str
    op: str
    tensor: str
    low: float
    high: float
    fraction_bits: int | None


def format_rows(sites: Sequence[Site], numbers: Quantization) -> tuple[FormatRow, ...]:
    """In the order of the graph: what nodes make in fx32 or fp16, and what the device never makes left out."""
    rows = []
    for site in sites:
        for name in site.outputs:
            fmt = numbers.formats.get(name)
            if fmt is None or fmt.kind not in ("fx32", "fp16") or numbers.reasons.get(name, "").startswith(MERGED):
                continue
            low, high = numbers.ranges[name]
            low = max(low, 0.0) if site.op == "Relu" else low  # its format is that of what it reads, its values are not
            source = site.name if name == site.outputs[0] else name  # as the scores of an attention
            rows.append(FormatRow(source, site.op, name, low, high, fmt.fraction_bits))
    return tuple(rows)


def format_lines(rows: Sequence[FormatRow]) -> list[str]:
    """The table as lines of a log."""
    if not rows:
        return []
    cells = [
        (row.name or row.tensor, row.op, f"[{row.low:.6g}, {row.high:.6g}]",
         "fp16" if row.fraction_bits is None else str(row.fraction_bits))
        for row in rows
    ]  # fmt: skip
    cells.insert(0, ("source name", "op", "output range", "fraction bits"))
    widths = [max(len(cell[at]) for cell in cells) for at in range(3)]
    return ["  ".join([*(cell[at].ljust(widths[at]) for at in range(3)), cell[3]]) for cell in cells]
