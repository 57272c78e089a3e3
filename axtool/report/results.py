"""Outputs of one run  ->  a JSON document and lines: classes or detections where the task is known, else figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.report.tables import table
from axtool.report.units import header, seconds, shape

TOP = 5


def output_row(name: str, array: NDArray[Any], *, top: bool = False) -> dict[str, Any]:
    """Name, shape, type, and min, mean and max of the finite values (None where there are none).

    With `top` also the largest values of a (1, n) array of numbers, and where they are.
    """
    numeric = array.astype(np.float64) if array.dtype.kind in "fiub" else np.zeros(0)
    values = numeric[np.isfinite(numeric)]
    some = values.size > 0
    return {
        "name": name,
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "min": float(values.min()) if some else None,
        "mean": float(values.mean()) if some else None,
        "max": float(values.max()) if some else None,
        "non_finite": int(numeric.size - values.size),
        **({"top": _top(numeric.reshape(-1))} if top and array.shape == (1, numeric.size) and some else {}),
    }


def _top(values: NDArray[np.float64]) -> list[dict[str, Any]] | None:
    if values.size < 2 or not np.isfinite(values).all():
        return None
    order = np.argsort(-values, kind="stable")[:TOP]
    return [{"index": int(i), "score": float(values[i])} for i in order]


def run_document(
    model: str,
    engine: str,
    outputs: Mapping[str, NDArray[Any]],
    times: Mapping[str, float],
    modelled_ms: float | None,
    result: Mapping[str, Any] | None,
    repeats: int = 1,
    tail: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The document of `axtool run`. Times are measured on this machine; `device_ms_modelled` is the chip's."""
    return {
        **header("run"),
        "model": model,
        "engine": engine,
        "outputs": [output_row(name, array, top=result is None) for name, array in outputs.items()],
        "result": None if result is None else dict(result),
        "tail": None if tail is None else dict(tail),
        "time": {
            "repeats": repeats,
            **{f"{name}_ms_measured": 1e3 * value for name, value in times.items()},
            "device_ms_modelled": modelled_ms,
        },
    }


_BESIDE = {"pose": "keypoints", "segmentation": "masks"}


def run_text(document: Mapping[str, Any]) -> str:
    """The same for people."""
    lines = []
    result = document["result"]
    if result is not None and result["kind"] == "classification":
        rows = [(row["label"], f"{row['score']:.4f}", row["index"]) for row in result["classes"]]
        lines.append(table(("class", "score", "index"), rows, right=(1, 2)))
    elif result is not None and result["kind"] == "semantic":
        rows = [(row["label"], f"{100 * row['share']:.1f} %", row["index"]) for row in result["classes"]]
        lines.append(table(("class", "of the pixels", "index"), rows, right=(1, 2)))
    elif result is not None:
        rows = [
            (row["label"], f"{row['score']:.3f}", ", ".join(f"{v:.1f}" for v in row["box"]))
            for row in result["detections"]
        ]
        lines.append(table(("object", "score", "box x1, y1, x2, y2 (pixels of the image)"), rows, right=(1,)))
        if not rows:
            lines.append(f"nothing found above {result['threshold']:g}")
        elif result["kind"] in _BESIDE:
            lines.append(f"{_BESIDE[result['kind']]} are in --json, and drawn on the picture that is saved")
    if result is None:
        rows = [
            (r["name"], shape(r["shape"]), r["dtype"], *(_short(r[k]) for k in ("min", "mean", "max")))
            for r in document["outputs"]
        ]
        lines.append(table(("output", "shape", "type", "min", "mean", "max"), rows, right=(3, 4, 5)))
        lines += [
            f"largest of {r['name']}: " + ", ".join(f"[{t['index']}] {_short(t['score'])}" for t in r["top"])
            for r in document["outputs"]
            if r.get("top")
        ]
    time = document["time"]
    by = {} if document["tail"] is None else {"tail": f" by {document['tail']['made_by']}"}
    parts = [
        f"{name} {seconds(value / 1e3)}{by.get(name, '')}"
        for name, value in ((key.removesuffix("_ms_measured"), value) for key, value in time.items())
        if f"{name}_ms_measured" in time
    ]
    several = f", median of {time['repeats']} frames" if time["repeats"] > 1 else ""
    lines.append(f"measured here ({document['engine']} engine{several}): {', '.join(parts)}")
    if time["device_ms_modelled"] is not None:
        lines.append(f"modelled on the chip: device {seconds(time['device_ms_modelled'] / 1e3)}")
    return "\n".join(lines)


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"
