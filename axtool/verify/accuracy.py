"""An entry of the zoo and its compiled file  ->  how right it is, with the onnxruntime tail or with its kernel.

An entry with annotated pictures is held against what is in them, by the measures of `axtool.verify.labelled`: all
objects with a score above `SCORE`, at most `MOST` a picture. One without is held against its float model on the
validation pictures, by the figures of `axtool.verify.expected`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from axtool.errors import UsageError
from axtool.graph.float_run import FloatModel
from axtool.graph.load import load_model
from axtool.graph.signature import inputs_of, outputs_of
from axtool.inputs.images import read_image
from axtool.inputs.prepare import Preparation
from axtool.inputs.samples import open_samples
from axtool.inputs.spec import InputSpec
from axtool.quant.twins import fingerprint
from axtool.runtime.label_map import first_map
from axtool.runtime.objects import objects_of
from axtool.runtime.task import completed, interpret, map_settings
from axtool.types import TensorSpec
from axtool.verify.agreement import Agreement
from axtool.verify.annotated import Picture, read_annotated
from axtool.verify.check import Verdict, warn_of_known
from axtool.verify.expected import measured
from axtool.verify.label_metric import LabelAgreement
from axtool.verify.labelled import Found, Tally
from axtool.verify.metrics import Comparison
from axtool.verify.task_metrics import TaskMetrics
from axtool.zoo.catalogue import Entry
from axtool.zoo.loaded import load_entry, told
from axtool.zoo.recipe import validation_of
from axtool.zoo.sources import model_file

SCORE = 0.02  # low: average precision goes over all recalls
MOST = 100

Arrays = Mapping[str, NDArray[Any]]
Run = Callable[[Arrays], Arrays]
Count = Callable[[int, int], None]
T = TypeVar("T")


@dataclass(frozen=True)
class Accuracy:
    """Figures by the name of their metric, over so many pictures. `labelled` says what they were held against.

    Shares are of 1: `map50`, `map75`, `keypoint_pck`, `mask_iou` against labels, `found_share`, `top1_agreement`,
    `pixel_agreement` or `mean_iou` against the float model; and against it `sqnr_db`, of the worst output.
    """

    pictures: int
    labelled: bool
    figures: Mapping[str, float]


@dataclass(frozen=True)
class _Model:
    """What runs, and what its tensors look like."""

    run: Run
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    calibrated: frozenset[str] = frozenset()  # fingerprints of the samples that calibration saw

    def knows(self, feeds: Arrays) -> bool:
        """Whether calibration saw these."""
        return bool(self.calibrated) and fingerprint(feeds) in self.calibrated


def measure(
    entry: Entry,
    axm: Path | None,
    *,
    kernel: bool = False,
    limit: int | None = None,
    given: Path | None = None,
    threads: int = 1,
    count: Count = lambda done, total: None,
) -> Accuracy:
    """The accuracy of a compiled file of an entry, or with `axm` None of its float model in onnxruntime.

    With `kernel` the config's Postamble makes the outputs. `limit` takes that many pictures, evenly spread. `given` is
    the source of an entry that takes the user's file.
    Raises UsageError for a kernel that the config does not have, or for the float model where there are no labels.
    """
    config = entry.config
    if kernel and config.kernel.is_empty:
        raise UsageError("the config names no postamble", where=str(entry.path), code="no-kernel")
    model = _float(entry, given, threads) if axm is None else _compiled(entry, axm, kernel=kernel, threads=threads)
    if config.annotations:
        pictures = _spread(read_annotated(entry.file(config.annotations), config.task.get("labels", ())), limit)
        return Accuracy(len(pictures), True, _against_labels(entry, model, pictures, count))
    if axm is None:
        raise UsageError(
            "without annotated pictures the float model is what others are held against",
            where=str(entry.path),
            code="no-annotations",
        )
    reference = _float(entry, given, threads)
    return _against_float(entry, model, reference, limit, count)


def _against_labels(entry: Entry, model: _Model, pictures: Sequence[Picture], count: Count) -> dict[str, float]:
    task = completed(entry.config.task, model.inputs, model.outputs)
    spec = _spec(model.inputs[0])
    preparation = entry.config.preparation.resolve(spec)
    tally, again = Tally(), 0
    for done, picture in enumerate(pictures, 1):
        feeds = {spec.name: preparation.prepare(picture.path)}
        again += model.knows(feeds)
        tally.add(picture.labels, _found(task, model.run(feeds), preparation, picture))
        count(done, len(pictures))
    warn_of_known(again, len(pictures))
    counts = ("pictures", "labels", "keypoint_objects", "mask_objects")
    return {name: float(v) for name, v in tally.to_dict().items() if v is not None and name not in counts}


def _found(task: Mapping[str, Any], outputs: Arrays, preparation: Preparation, picture: Picture) -> Found:
    place = preparation.place(*read_image(picture.path).shape[:2])
    size = None if picture.labels.masks is None else (picture.labels.masks.shape[1], picture.labels.masks.shape[2])
    objects = objects_of(task, outputs, place, threshold=SCORE, most=MOST, mask_size=size)
    points = None if objects.keypoints is None else objects.keypoints[:, :, :2]
    masks = np.array(list(objects.masks)).reshape(-1, *size) if objects.masks is not None and size else None
    return Found(objects.boxes, objects.scores, objects.classes, points, masks)


def _against_float(entry: Entry, model: _Model, reference: _Model, limit: int | None, count: Count) -> Accuracy:
    task = completed(entry.config.task, model.inputs, model.outputs) if entry.config.task else None
    samples = open_samples(
        validation_of(entry), [_spec(spec) for spec in model.inputs], entry.config.preparation, limit=limit
    )
    comparisons = {spec.name: Comparison(spec.name) for spec in model.outputs}
    semantic = task is not None and task["kind"] == "semantic"
    metrics = TaskMetrics(labels=_labels(task, model) if task is not None and semantic else None)
    agreement, again = None if task is None or semantic else Agreement(), 0
    for done, feeds in enumerate(samples, 1):
        again += model.knows(feeds)
        wanted, got = reference.run(feeds), model.run(feeds)
        for name, comparison in comparisons.items():
            comparison.add(np.asarray(wanted[name]), np.asarray(got[name]))
        if agreement is not None and task is not None:
            agreement.add(interpret(task, wanted), interpret(task, got))
        metrics.add(wanted, got)
        count(done, len(samples))
    warn_of_known(again, len(samples))
    verdict = Verdict("all", len(samples), tuple(comparisons.values()), agreement, metrics)
    return Accuracy(len(samples), False, measured(verdict))


def _labels(task: Mapping[str, Any], model: _Model) -> LabelAgreement:
    return LabelAgreement(first_map(task, {spec.name: np.empty(0) for spec in model.outputs}), map_settings(task))


def _compiled(entry: Entry, axm: Path, *, kernel: bool, threads: int) -> _Model:
    model = load_entry(entry, axm, kernel=kernel, threads=threads).model
    inputs, outputs = model.artefact.inputs, model.artefact.outputs

    def run(feeds: Arrays) -> Arrays:
        with told(entry):
            made = model(*(feeds[spec.name] for spec in inputs))
        arrays = made if isinstance(made, tuple) else (made,)
        return {spec.name: array for spec, array in zip(outputs, arrays, strict=True)}

    return _Model(run, inputs, outputs, frozenset(model.artefact.provenance.get("samples", ())))


def _float(entry: Entry, given: Path | None, threads: int) -> _Model:
    """The source model in onnxruntime, with no pass of ours and none but its basic optimizations."""
    config, path = entry.config, model_file(entry, given)
    loaded = load_model(path, input_shapes=config.input_shapes, dims=config.dims)
    outputs = outputs_of(loaded.model)
    hidden = [name for name in config.outputs if name not in {spec.name for spec in outputs}]
    run = FloatModel(loaded.model, threads=threads, expose=hidden, where=str(path)).run
    return _Model(run, inputs_of(loaded.model), outputs)


def _spec(spec: TensorSpec) -> InputSpec:
    return InputSpec(spec.name, spec.shape, spec.dtype)


def _spread(items: Sequence[T], limit: int | None) -> list[T]:
    """`limit` of them, evenly spread."""
    count = len(items) if limit is None else min(limit, len(items))
    return [items[index * len(items) // count] for index in range(count)]
