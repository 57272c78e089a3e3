"""The outcomes of a sweep  ->  a JSON document, a table and CSV. All figures are modelled."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from axtool.report.gates import Gates
from axtool.report.profile_text import percent
from axtool.report.sweep import KEPT, TARGET, Axis, Outcome, fitting
from axtool.report.tables import folded, table
from axtool.report.units import header, size
from axtool.timing.ledger import CATEGORIES

FIGURES = tuple(key for key in KEPT if key != "ledger_cycles")
Point = Mapping[str, Any]


def swept_document(model: str, axes: Sequence[Axis], outcomes: Sequence[Outcome], gates: Gates) -> dict[str, Any]:
    """One entry a point, in order. Failed: nothing fits, or limits are set and no point that fits holds them."""
    points = [_point(axes, outcome, gates) for outcome in outcomes]
    return {
        **header("profile.sweep", "ok" if any(_held(point) for point in points) else "failed"),
        "command": "profile",
        "model": model,
        "modelled": True,
        "axes": [{"key": axis.key, "values": list(axis.values)} for axis in axes],
        "summary": fitting(outcomes),
        "points": points,
    }


def _point(axes: Sequence[Axis], outcome: Outcome, gates: Gates) -> dict[str, Any]:
    totals = outcome.totals or dict.fromkeys((*KEPT, "bound"))
    return {
        "values": dict(zip((axis.key for axis in axes), outcome.point, strict=True)),
        "status": outcome.status,
        "reason": outcome.reason,
        **totals,
        "exceeded": gates.exceeded(totals) if outcome.totals is not None else [],
    }


def _held(point: Point) -> bool:
    return point["status"] == "ok" and not point["exceeded"]


def any_fits(document: Mapping[str, Any]) -> bool:
    """Whether a point has figures at all."""
    return any(point["status"] == "ok" for point in document["points"])


def swept_text(document: Mapping[str, Any]) -> str:
    """A row a point, what is best, and why the others have no figures."""
    keys = [axis["key"] for axis in document["axes"]]
    spills = any(point["spilled_bytes"] for point in document["points"])
    columns = [*keys, "cycles", "ms", "frames/s", "MAC use", "read", "written", "on chip", "spilled", "bound by"]
    rows = [[*(point["values"][key] for key in keys), *_figures(point)] for point in document["points"]]
    first = len(keys)
    kept = [at for at in range(len(columns)) if spills or at != first + 7]
    place = {at: position for position, at in enumerate(kept)}
    return "\n".join(
        (
            table(
                [columns[at] for at in kept],
                [[row[at] for at in kept] for row in rows],
                right=[place[at] for at in range(first + 8) if at in place and columns[at] != TARGET],
                droppable=[place[first + at] for at in (3, 7, 5, 4, 6, 0, 2) if first + at in place],
            ),
            "",
            *map(folded, _words(document)),
        )
    )


def _figures(point: Point) -> list[str]:
    if point["status"] != "ok":
        return [*["-"] * 8, point["status"]]
    return [
        f"{point['cycles']:,}", f"{point['latency_ms']:.4g}", f"{point['frames_per_s'] or 0:,.1f}",
        percent(point["mac_utilisation"]), size(point["external_read_bytes"]), size(point["external_write_bytes"]),
        size(point["peak_ocm_bytes"]), size(point["spilled_bytes"]),
        f"{point['bound']}, over a limit" if point["exceeded"] else point["bound"],
    ]  # fmt: skip


def _words(document: Mapping[str, Any]) -> list[str]:
    cores = any((point["cores"] or 1) > 1 for point in document["points"])
    lines = [f"modelled; {document['summary']}" + ("; frames/s are those of all cores" if cores else "")]
    fit = [point for point in document["points"] if point["status"] == "ok"]
    held = [point for point in fit if not point["exceeded"]]
    if held:
        best = min(held, key=lambda point: point["latency_ms"])
        lines.append(f"lowest latency: {best['latency_ms']:.4g} ms with {_named(best)}")
        least = min(held, key=lambda point: (point["external_bytes"], point["latency_ms"]))
        lines.append(f"least external traffic: {size(least['external_bytes'])} a frame with {_named(least)}")
    elif fit:
        lines.append("failed: no configuration holds the limits")
    lines += [f"over a limit: {_named(point)}: {line}" for point in fit for line in point["exceeded"]]
    reasons: dict[str, list[str]] = {}
    for point in document["points"]:
        if point["reason"]:
            reasons.setdefault(f"{point['status']}: {point['reason']}", []).append(_named(point))
    for reason, names in reasons.items():
        shown = "; ".join(names[:3]) + (f"; and {len(names) - 3} more" if len(names) > 3 else "")
        lines.append(f"{reason} ({shown})")
    return lines


def _named(point: Point) -> str:
    return ", ".join(f"{key}={value}" for key, value in point["values"].items())


def swept_csv(document: Mapping[str, Any]) -> str:
    """One line a point: the values, what came of it, the figures, then the cycles of each category."""
    keys = [axis["key"] for axis in document["axes"]]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    shown = [key for key in FIGURES if key not in keys]
    writer.writerow((*keys, "status", *shown, "bound", *(f"{name}_cycles" for name in CATEGORIES), "reason"))
    for point in document["points"]:
        ledger = point["ledger_cycles"] or {}
        writer.writerow(
            (
                *(point["values"][key] for key in keys), point["status"],
                *("" if point[key] is None else point[key] for key in (*shown, "bound")),
                *(ledger.get(name, "") for name in CATEGORIES), point["reason"],
            )
        )  # fmt: skip
    return out.getvalue()
