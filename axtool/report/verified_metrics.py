"""The figures of `--metric`  ->  text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from axtool.report.tables import table


def metric_lines(metrics: Mapping[str, Any]) -> list[str]:
    """A table for each metric that was asked for."""
    made = []
    if metrics["boxes"] is not None:
        made.append(_boxes(metrics["boxes"]))
    if metrics["labels"] is not None:
        made.append(_labels(metrics["labels"]))
    return made


def _boxes(row: Mapping[str, Any]) -> str:
    mean = "-" if row["mean_iou"] is None else f"{row['mean_iou']:.4f}"
    cells = [
        ("boxes of the source", str(row["reference_boxes"])),
        ("boxes of the device", str(row["device_boxes"])),
        ("matched", f"{row['matched']} of {row['reference_boxes']} ({100 * row['matched_share']:.2f} %)"),
        ("mean IoU of the matched", mean),
    ]
    title = f"Boxes: the best {row['best']} of each picture by score, of one class, IoU > {row['iou']:g}"
    return table(("figure", "value"), cells, title=title, right=(1,))


def _labels(row: Mapping[str, Any]) -> str:
    miou = "-" if row["mean_iou"] is None else f"{row['mean_iou']:.4f} over {row['classes']} classes"
    cells = [
        ("pixels", f"{row['pixels']:,}"),
        ("pixel agreement", f"{100 * row['pixel_agreement']:.3f} %"),
        ("mean IoU", miou),
    ]
    if row["clear_pixel_agreement"] is not None:
        share = row["clear_pixels"] / row["pixels"]
        cells.append(("clear pixels", f"{row['clear_pixels']:,} ({100 * share:.1f} %): margin above {row['step']:.4g}"))
        cells.append(("agreement of the clear pixels", f"{100 * row['clear_pixel_agreement']:.3f} %"))
    title = f"Labels of '{row['output']}' against the source, pixel by pixel"
    return table(("figure", "value"), cells, title=title, right=(1,))
