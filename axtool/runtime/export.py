"""What an exporter wrote about a model  ->  the task that its outputs are for, and the kernels that may restore them.

The keys are those of Ultralytics, kept in the .axm as `export`. A task is given only where the output's shape is that
of the task; the kernels are proposals, which `op.load` holds against the onnxruntime tail before it takes one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from axtool.runtime.postamble import Postamble
from axtool.types import TensorSpec

YOLO = "UltralyticsYoloPostamble"
DISTANCE_BINS = (16, 1)  # `reg_max` of the heads: YOLOv8 to YOLO12, and YOLO26, which regresses distances


def task_of(export: Mapping[str, Any], outputs: Sequence[TensorSpec]) -> dict[str, Any]:
    """The task of a model whose user named none; empty where the outputs are not those of the exporter's task."""
    labels = list(export.get("names", ()))
    if not labels or not outputs:
        return {}
    shape, masks = outputs[0].shape, [spec.shape for spec in outputs[1:]]
    if export.get("task") == "segment" and len(masks) == 1 and len(masks[0]) == 4 and len(shape) == 3:
        if shape[1] == 4 + len(labels) + masks[0][1]:
            made = {"kind": "segmentation", "decode": "yolo", "labels": labels, "classes": len(labels)}
            return {**made, "coefficients": masks[0][1]}
        return {}
    if masks:
        return {}
    points, dims = export.get("kpt_shape", (0, 0))
    if export.get("task") == "pose" and dims == 3 and shape[1:2] == (4 + len(labels) + 3 * points,) and len(shape) == 3:
        return {"kind": "pose", "decode": "yolo", "labels": labels, "classes": len(labels), "keypoints": points}
    if export.get("task") == "detect" and len(shape) == 3 and shape[:2] == (1, 4 + len(labels)):
        return {"kind": "detection", "decode": "yolo", "labels": labels}
    if export.get("task") == "classify" and shape == (1, len(labels)):
        return {"kind": "classification", "labels": labels}
    return {}


def postambles_of(export: Mapping[str, Any]) -> tuple[Postamble, ...]:
    """The kernels to try, in order; none for a model without a task or class names."""
    classes = len(export.get("names", ()))
    if not classes or "task" not in export:
        return ()
    if export["task"] == "classify":
        return (Postamble(fused_kernel="ClassificationPostamble", num_classes=classes),)
    more = {"keypoint_dims": export["kpt_shape"][1]} if export["task"] == "pose" and "kpt_shape" in export else {}
    return tuple(Postamble(fused_kernel=YOLO, num_classes=classes, dfl_bins=bins, **more) for bins in DISTANCE_BINS)
