"""`--metric iou` or `miou,pixel`, and what is compared  ->  the figures of the task, and whether they are enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.artefact.axm import Artefact
from axtool.errors import UsageError, nearest
from axtool.runtime.label_map import first_map, is_label_map, scores_of
from axtool.runtime.task import map_settings
from axtool.types import TensorSpec
from axtool.verify.box_metric import BoxAgreement, boxes_task
from axtool.verify.label_metric import LabelAgreement, score_step

METRICS = ("iou", "miou", "pixel")
FORWARD = ("Cast", "Squeeze", "Unsqueeze", "Reshape", "Identity")  # between an ArgMax and the output: the same labels


@dataclass(frozen=True)
class Least:
    """The limits of the metrics, None for the default: shares of 1."""

    matched: float | None = None
    miou: float | None = None
    pixel: float | None = None
    clear: float | None = None

    def asked(self) -> dict[str, str]:
        """By option that was given: the metric that it is of."""
        every = {
            "--min-matched": ("iou", self.matched), "--min-miou": ("miou", self.miou),
            "--min-pixel": ("pixel", self.pixel), "--min-clear": ("pixel", self.clear),
        }  # fmt: skip
        return {option: metric for option, (metric, value) in every.items() if value is not None}


@dataclass(frozen=True)
class TaskMetrics:
    """The metrics of one comparison; None for one that was not asked for."""

    boxes: BoxAgreement | None = None
    labels: LabelAgreement | None = None

    def __bool__(self) -> bool:
        return self.boxes is not None or self.labels is not None

    @property
    def scores(self) -> tuple[str, ...]:
        """Tensors of the source that are wanted beside the outputs."""
        return (self.labels.scores,) if self.labels is not None and self.labels.scores else ()

    def add(self, reference: Mapping[str, NDArray[Any]], result: Mapping[str, NDArray[Any]]) -> None:
        """One sample. Raises UsageError where the outputs are not those of the metric."""
        try:
            if self.boxes is not None:
                self.boxes.add(reference, result)
            if self.labels is not None:
                self.labels.add(reference, result)
        except (KeyError, IndexError, ValueError) as error:
            raise UsageError(f"--metric: {error}", hint="`axtool info` shows the outputs", code="bad-metric") from error

    def judged(self, least: Least) -> tuple[list[str], list[str]]:
        """(what is checked, why it fails)."""
        checks, failures = [], []
        if self.boxes is not None:
            checked, failed = self.boxes.failures(least.matched)
            checks.append(checked)
            failures += failed
        if self.labels is not None:
            checked_labels, failed = self.labels.failures(least.pixel, least.clear, least.miou)
            checks += checked_labels
            failures += failed
        return checks, failures

    def to_dict(self) -> dict[str, Any] | None:
        """Plain values; None where nothing was asked for."""
        if not self:
            return None
        return {
            "boxes": None if self.boxes is None else self.boxes.to_dict(),
            "labels": None if self.labels is None else self.labels.to_dict(),
        }


NO_LIMITS = Least()
NO_METRICS = TaskMetrics()


def parsed(texts: Sequence[str], least: Least) -> tuple[str, ...]:
    """`["miou,pixel"]` -> ("miou", "pixel"). Raises UsageError for an unknown one, and for a limit of another."""
    names = tuple(dict.fromkeys(name.strip() for text in texts for name in text.split(",")))
    for name in names:
        if name not in METRICS:
            raise UsageError(f"there is no metric '{name}'", hint=nearest(name, METRICS), code="bad-option")
    for option, metric in least.asked().items():
        if metric not in names:
            raise UsageError(f"{option} is a limit of --metric {metric}", hint=f"--metric {metric}", code="bad-option")
    return names


def task_metrics(names: Sequence[str], artefact: Artefact, source: ir.Model, *, exposes: bool) -> TaskMetrics:
    """The metrics by name; a file whose task is the label of every pixel has those of labels unasked.

    `exposes` says whether the reference can give tensors of the source beside its outputs. Raises UsageError where a
    metric means nothing of the model.
    """
    task = artefact.task
    boxes = labels = None
    if "iou" in names:
        found = boxes_task(task, artefact.inputs, artefact.outputs)
        if found is None:
            raise UsageError(
                "--metric iou: nothing says how the outputs become boxes",
                hint="compile with --task detection:DECODER; outputs of a DETR are known by their shapes",
                code="bad-metric",
            )
        boxes = BoxAgreement(found)
    if {"miou", "pixel"} & set(names) or (task.get("kind") == "semantic" and not names):
        output = first_map(task, {spec.name: np.empty(0) for spec in artefact.outputs})
        spec = next((one for one in artefact.outputs if one.name == output), artefact.outputs[0])
        _require_map(spec)
        scores = _argmax_input(source, spec.name) if exposes and np.dtype(spec.dtype).kind in "iu" else ""
        labels = LabelAgreement(spec.name, map_settings(task), scores, *score_step(artefact))
    return TaskMetrics(boxes, labels)


def _require_map(spec: TensorSpec) -> None:
    """Raises UsageError for an output that is neither labels nor scores of the pixels of one picture."""
    like = np.empty(spec.shape, spec.dtype)
    try:
        if not is_label_map(like):
            scores_of(like)
        elif like.ndim < 2:
            raise ValueError("no map")
    except ValueError as error:
        what = f"--metric: output '{spec.name}' {list(spec.shape)} has neither labels nor scores of pixels"
        hint = "want labels (1, h, w), or scores (1, classes, h, w)"
        raise UsageError(what, hint=hint, code="bad-metric") from error


def _argmax_input(source: ir.Model, output: str) -> str:
    """The tensor whose largest channel the labels are; empty where the output comes from something else."""
    value = next((one for one in source.graph.outputs if one.name == output), None)
    node = None if value is None else value.producer()
    while node is not None and node.op_type in FORWARD and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    if node is None or node.op_type != "ArgMax" or node.inputs[0] is None:
        return ""
    return node.inputs[0].name or ""
