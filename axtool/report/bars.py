"""A ledger  ->  the chart of a terminal: five categories as bars, `other` beside them as a figure."""

from __future__ import annotations

from collections.abc import Mapping

from axtool.report.tables import room

# In the order in which cycle charts of this kind print them.
CHARTED = ("compute", "data_array", "mac", "data_external", "data_ocm")
WIDEST = 50  # cells of the longest bar
LABEL = max(map(len, CHARTED))
FIGURES = 30  # cells that the figures behind a bar take: " 123.456M cycles (100.0 %)"


def bars(ledger: Mapping[str, int], causes: Mapping[str, int] | None = None) -> str:
    """One line a category; the longest bar is as wide as the terminal allows, the others in proportion, rounded down.

    `causes` is what `other` is made of, in cycles. All lines sum to the total.
    """
    total = max(sum(ledger.values()), 1)
    most = max((ledger[name] for name in CHARTED if name in ledger), default=0)
    widest = max(8, min(WIDEST, (room() or 120) - LABEL - 2 - FIGURES))
    lines = []
    for name in CHARTED:
        if name in ledger:
            bar = "▇" * (widest * ledger[name] // most if most else 0)
            lines.append(f"{name:<{LABEL}}: {bar}{' ' if bar else ''}{_figure(ledger[name], total)}")
    if "other" in ledger:
        parts = ", ".join(f"{cause} {cycles:,}" for cause, cycles in (causes or {}).items() if cycles)
        lines.append(f"{'other':<{LABEL}}: {_figure(ledger['other'], total)}{parts and f': {parts}'}")
    return "\n".join(lines)


def _figure(cycles: int, total: int) -> str:
    return f"{counted(cycles)} cycles ({100 * cycles / total:.1f} %)"


def counted(cycles: int) -> str:
    """Three decimals of a million or of a thousand: 7.723M, 12.448k; smaller counts as they are."""
    if cycles >= 1e6:
        return f"{cycles / 1e6:.3f}M"
    return f"{cycles / 1e3:.3f}k" if cycles >= 1e3 else str(cycles)
