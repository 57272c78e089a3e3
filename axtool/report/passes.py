"""What each optimisation is worth  ->  a table for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from axtool.report.tables import table

TITLES = {1: "Data movement, each on its own", 2: "Arithmetic, each on top of those before"}


def passes_text(document: Mapping[str, Any]) -> str:
    """The two tables, the totals that they close against, and the agreement before and after."""
    base, composed, final = (document[f"{name}_cycles_modelled"] for name in ("base", "composed", "final"))
    lines = []
    for phase, (begin, end) in ((1, (base, composed)), (2, (composed, final))):
        rows = [row for row in document["rows"] if row["phase"] == phase]
        cells = [(row["name"], row["contract"], _delta(row["cycles_modelled"]), row["what"]) for row in rows]
        lines.append(
            table(("optimisation", "contract", "cycles", "what"), cells, title=TITLES[phase], right=(2,), prose=(3,))
        )
        total = sum(row["cycles_modelled"] or 0 for row in rows)
        lines.append(f"  {begin:,} -> {end:,} cycles modelled   {end - begin:+,} ({_share(end - begin, begin)})")
        if total != end - begin:
            lines.append(f"  the rows sum to {total:+,}: measured on their own they overlap")
    lines.append(f"All: {base:,} -> {final:,} cycles modelled ({_share(final - base, base)})")
    if document["own"]:
        lines.append(f"The program without optimisations has {', '.join(document['own'])}: its pixels arrive as int8")
    agreement = document["agreement"]
    if agreement is not None:
        before, after = (_figure(agreement[name]) for name in ("before", "after"))
        samples = f"{agreement['samples']} calibration samples, measured"
        lines.append(f"Agreement with the float model: {before} -> {after} {agreement['unit']} ({samples})")
    return "\n".join(lines)


def _delta(cycles: int | None) -> str:
    return "–" if cycles is None else f"{cycles:+,}"


def _share(change: int, whole: int) -> str:
    return f"{100 * change / whole:+.2f} %" if whole else "–"


def _figure(value: float | None) -> str:
    return "exact" if value is None else f"{value:.3f}"
