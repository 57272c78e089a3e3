"""The verdict of `verify`  ->  a JSON document and text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from axtool.errors import plural
from axtool.report.job import job_text
from axtool.report.tables import table
from axtool.report.units import header
from axtool.report.verified_metrics import metric_lines
from axtool.report.verified_tail import tail_text

NOT_COMPARED: Mapping[str, Any] = {
    "stage": None, "samples": 0, "calibrated_with": 0, "outputs": [], "agreement": None, "metrics": None,
    "checks": [], "failures": [],
    "notes": [], "next_steps": [], "incomparable": [],
}  # fmt: skip


def verified_document(
    model: str,
    against: str | None,
    compared: Mapping[str, Any] | None,
    layers: Sequence[Mapping[str, Any]] | None,
    tail: Mapping[str, Any] | None = None,
    job: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """`compared` are the figures against the source, `tail` those of a kernel, `job` the summary of the file on its
    chip; None for what was not asked for.

    `verdict` is passed, failed or not comparable; the exit code follows it.
    """
    parts = dict(compared or NOT_COMPARED)
    of_tail = [] if tail is None else [f"{tail['kernel']}: {line}" for line in tail["failures"]]
    parts["failures"] = [*parts["failures"], *of_tail]
    failed = bool(parts["failures"])
    return {
        **header("verify", "failed" if failed else "ok"),
        "model": model,
        "against": against,
        **parts,
        "verdict": "failed" if failed else "not comparable" if parts["incomparable"] else "passed",
        "layers": None if layers is None else [dict(row) for row in layers],
        "first_bad_layer": next((row["index"] for row in layers or () if row["bad"]), None),
        "postamble": None if tail is None else dict(tail),
        "job": None if job is None else dict(job),
    }


def verified_text(document: Mapping[str, Any]) -> str:
    """The same for people."""
    tail = [] if document["postamble"] is None else [tail_text(document["postamble"])]
    if document["incomparable"]:
        ops = ", ".join(document["incomparable"])
        return "\n".join([f"not comparable: results differ from run to run because of {ops}", *tail])
    if document["against"] is None:
        return "\n".join(tail)
    cells = [
        (
            row["output"], _db(row["sqnr_db"], row["exact"]), f"{row['cosine']:.6f}", f"{row['max_abs_error']:.4g}",
            "-" if row["worst_channel"] is None else f"{row['worst_channel']}: {_db(row['worst_channel_sqnr_db'])}",
            _slice(row["worst_slice"]),
            "-" if row["top1_agreement"] is None else f"{100 * row['top1_agreement']:.1f} %",
        )
        for row in document["outputs"]
    ]  # fmt: skip
    columns = ("output", "SQNR", "cosine", "max error", "worst channel", "worst slice", "top-1")
    lines = [table(columns, cells, right=(1, 2, 3, 4, 6), droppable=(5, 4, 2))]
    agreement = document["agreement"]
    if agreement is not None and "found" in agreement:
        lines.append(
            f"objects: {agreement['found']} of {agreement['objects']} found again "
            f"({100 * agreement['found_share']:.1f} %, IoU >= {agreement['iou']}), {agreement['invented']} invented"
        )
    elif agreement is not None:
        lines.append(f"top-1 agreement: {100 * agreement['top1_agreement']:.1f} %")
    if document["metrics"] is not None:
        lines += metric_lines(document["metrics"])
    if document["layers"] is not None:
        lines.append(_layers(document["layers"]))
    if document["job"] is not None:
        lines.append(job_text(document["job"]))
    lines += [f"note: {text}" for text in document["notes"]]
    lines.append(f"checked: {', '.join(document['checks'])}")
    of_tail = len(document["postamble"]["failures"]) if document["postamble"] else 0
    failures = document["failures"][: len(document["failures"]) - of_tail]
    lines += [f"  - {reason}" for reason in failures]
    verdict = "failed" if failures else "passed"
    lines.append(f"{verdict}: {plural(document['samples'], 'sample')}, stage {document['stage']}")
    if document["next_steps"]:
        lines.append(f"next: {'; '.join(document['next_steps'])}")
    return "\n".join([*lines, *tail])


# The floor is `axtool.quant.layer_figures.BAD_DB`; a test holds the two together.
BAD = "the first whose own error alone leaves less than 15 dB"
LAYER_LEGEND = (
    "accumulated: error up to here, against float; alone: of this layer, fed with the float model's tensors;\n"
    "saturated: float values outside the range; levels: integers that occur;\n"
    "tie: times that the steps are coarser than it needs, because it shares a format"
)


def _layers(rows: Sequence[Mapping[str, Any]]) -> str:
    cells = [
        (
            row["index"], row["op"], row["name"], _db(row["accumulated_sqnr_db"], row["accumulated_exact"]),
            _db(row["single_sqnr_db"], row["single_exact"]),
            f"{100 * row['saturated_share']:.2f} %", "-" if row["used_levels"] is None else row["used_levels"],
            f"{row['tie_factor']:.3g}x" if row["tied_to"] else "", "bad" if row["bad"] else "",
        )
        for row in rows
    ]  # fmt: skip
    columns = ("#", "op", "layer", "accumulated", "alone", "saturated", "levels", "tie", "")
    text = table(columns, cells, title="Layers against the float model", right=(0, 3, 4, 5, 6, 7), droppable=(7, 6, 5))
    bad = next((row for row in rows if row["bad"]), None)
    text += f"\n{LAYER_LEGEND}"
    if bad is None:
        return text + "\nno layer is bad on its own"
    return text + f"\nthe first bad layer is {bad['index']}, {bad['op']} '{bad['name']}': {BAD}"


def _slice(part: Mapping[str, Any] | None) -> str:
    """Name, entries and SQNR of the part of a Concat."""
    return "-" if part is None else f"{part['input']} [{part['start']}:{part['stop']}]: {_db(part['sqnr_db'])}"


def _db(value: float | None, exact: bool = True) -> str:
    if value is None:
        return "exact" if exact else "no signal"
    return f"{value:.2f} dB"
