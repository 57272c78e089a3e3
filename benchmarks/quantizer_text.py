"""Results of quantizers  ->  two Markdown tables: every figure; what is asked, what was measured, whether it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.quantizer_peers import AXTOOL
from benchmarks.quantizer_rows import Result, rows

HEAD = ("model", "quantizer", "SQNR dB", "task", "CPU s", "peak MB", "stays float")
HOLDS = {True: "yes", False: "**no**", None: ""}


def text(results: Sequence[Result]) -> str:
    """Both tables; a model is named in its first line."""
    held = [(r["name"], r["measured"], r["asked"], r["found"], HOLDS[r["met"]]) for r in rows(results)]
    tables = (HEAD, [_cells(r) for r in results]), (("model", "", "asked", "measured", "holds"), held)
    return "\n\n".join(_markdown(head, _named_once(lines)) for head, lines in tables)


def _named_once(lines: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    before = ["", *(line[0] for line in lines)]
    return [("" if line[0] == name else line[0], *line[1:]) for line, name in zip(lines, before, strict=False)]


def _cells(result: Result) -> tuple[str, ...]:
    name = f"**{result.quantizer}**" if result.quantizer == AXTOOL.name else result.quantizer
    spent = (f"{result.cost['cpu_s']:.1f}", f"{result.cost['peak_mb']:.0f}") if result.cost else ("", "")
    if result.absent or result.failed:
        told = f"absent: {result.absent}" if result.absent else f"failed: {result.failed}"
        return (result.model, name, told.replace("|", "/")[:120], "", *spent, "")
    if not result.figures:
        return (result.model, name, "", "", *spent, "")
    sqnr, floats = result.figures["sqnr_db"], result.figures["stays_float"]
    shown = ", ".join(f"{db:.1f}" if len(sqnr) == 1 else f"{part} {db:.1f}" for part, db in sqnr.items())
    return (result.model, name, shown, _task(result.figures), *spent, _ops(floats))


def _task(figures: Mapping[str, Any]) -> str:
    if "lines_same" in figures:
        return f"{figures['lines_same']} of {figures['samples']} lines"
    if "top1_agreement" in figures:
        return f"top-1 {figures['top1_agreement']:.3f}"
    if "pixels_same" in figures:
        return f"{figures['pixels_same']:.1%} of pixels"
    if "map50" in figures:
        return f"mAP50 {figures['map50']:.3f}, float {figures['map50_float']:.3f}"
    return f"{figures['found']} of {figures['objects']} kept, {figures['invented']} invented"


def _ops(floats: Mapping[str, int], shown: int = 4) -> str:
    named = ", ".join(f"{count} {op}" for op, count in list(floats.items())[:shown])
    more = sum(list(floats.values())[shown:])
    return f"{named} and {more} more" if more else named or "nothing"


def _markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Not padded: a table of many columns is read where it is drawn."""
    drawn = [f"| {' | '.join(line)} |" for line in (head, *lines)]
    drawn.insert(1, "|" + "---|" * len(head))
    return "\n".join(drawn)
