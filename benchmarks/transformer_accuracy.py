"""Transformers on the simulated device beside the float models that they came from: embeddings, labels, boxes.

MiniLM-L6 has its trained weights and sentences; SegFormer-B0 and DETR-R101 have seeded weights and made-up pictures,
others for calibration than for the figures. PP-OCR's text detector, which is no transformer, is what a trained label
map is measured on. Everything is deterministic, up to the float sums of onnxruntime.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from axtool.artefact.stages import Artefact
from axtool.cli.console import Progress
from axtool.compiler import compile_model
from axtool.inputs.samples import open_samples
from axtool.inputs.spec import InputSpec
from axtool.options import Options, options_of
from axtool.runtime.model import CompiledModel
from axtool.verify.box_metric import BoxAgreement, boxes_task
from axtool.verify.label_metric import LabelAgreement, score_step
from axtool.verify.metrics import Comparison
from axtool.zoo.catalogue import find
from axtool.zoo.recipe import recipe_of, validation_of
from benchmarks.minilm import feeds_of, minilm, onnx_model, sentences
from benchmarks.peer import open_session
from benchmarks.transformers import SUBJECTS, compiled, pictures

MINILM_TARGET, MINILM_RECIPE = "qc-u-1d5-8mb", Path(__file__).parent / "minilm.yaml"
TEXT_MODEL, TEXT_TARGET = "ppocr-det", "qc-u-1d5-8mb"
TEXT_THRESHOLD = 0.3  # DBNet's, of the chance that a pixel is text
CALIBRATED = 12  # pictures
SEEN = 4  # other pictures, that the figures are of
Feeds = Mapping[str, NDArray[Any]]


def minilm_cosines() -> list[float]:
    """The cosine of the device's embedding with the float one, for each of the 100 sentences.

    Raises EnvironmentFault where the package of the weights cannot be had.
    """
    weights = minilm()
    model = onnx_model(weights)
    with tempfile.TemporaryDirectory() as folder:
        path, data = Path(folder) / "minilm.onnx", Path(folder) / "data.npz"
        onnx.save(model, path)
        feeds = feeds_of(weights, sentences("calibration"))
        np.savez(data, **{name: np.concatenate([one[name] for one in feeds]) for name in feeds[0]})
        options = Options(
            target=MINILM_TARGET, calib=(str(data),), recipe=str(MINILM_RECIPE), layer_check=False
        )  # fmt: skip
        device = CompiledModel(compile_model(path, options, Progress(quiet=True)).artefact)
    session = open_session(model.SerializeToString(), 1)
    return [_cosine(session.run(None, feed)[0], device.run(feed).outputs["embedding"])
            for feed in feeds_of(weights, sentences("test"))]  # fmt: skip


def _cosine(a: NDArray[Any], b: NDArray[Any]) -> float:
    comparison = Comparison("embedding")
    comparison.add(a, b)
    return comparison.cosine


def segformer_labels() -> LabelAgreement:
    """The labels of SegFormer-B0, all in int8, beside those of the float model."""
    model, artefact = _compiled("segformer-b0")
    (output,) = (value.name for value in model.graph.output)
    scores = next(node.input[0] for node in model.graph.node if node.op_type == "ArgMax")
    model.graph.output.append(onnx.helper.make_tensor_value_info(scores, onnx.TensorProto.FLOAT, None))
    agreement = LabelAgreement(output, {"threshold": 0.5, "classes": None}, scores, *score_step(artefact))
    for wanted, got in _runs(model, artefact, [output, scores]):
        agreement.add(wanted, got)
    return agreement


def text_labels() -> LabelAgreement:
    """Text or none for each pixel of the zoo's 24 validation pages: PP-OCR's trained detector, the default recipe.

    The pages are drawn over other photographs, and from another seed, than those that calibrate. Raises
    EnvironmentFault where the package of the weights cannot be had.
    """
    entry = find(TEXT_MODEL)
    recipe = recipe_of(entry, TEXT_TARGET)
    options = replace(options_of(recipe), layer_check=False)
    artefact = compile_model(recipe.model, options, Progress(quiet=True)).artefact
    ((value, shape),), (output,) = recipe.input_shapes.items(), artefact.outputs
    session, device = open_session(recipe.model.read_bytes(), 1), CompiledModel(artefact)
    agreement = LabelAgreement(output.name, {"threshold": TEXT_THRESHOLD}, "", *score_step(artefact))
    for feeds in open_samples(validation_of(entry), [InputSpec(value, shape, "float32")], recipe.preparation):
        (chances,) = session.run([output.name], dict(feeds))
        agreement.add({output.name: chances}, device.run(feeds).outputs)
    return agreement


@dataclass(frozen=True)
class Boxes:
    """The boxes of DETR-R101 that agree, and the signal to noise of its logits in dB."""

    agreement: BoxAgreement
    logits_db: float


def detr_boxes() -> Boxes:
    """DETR-R101 in mixed precision beside the float model."""
    model, artefact = _compiled("detr-r101")
    names = [value.name for value in model.graph.output]
    task = boxes_task({}, artefact.inputs, artefact.outputs)
    if task is None:
        raise ValueError(f"outputs {names} are not those of a DETR")
    agreement, logits = BoxAgreement(task), Comparison(names[0])
    for wanted, got in _runs(model, artefact, names):
        agreement.add(wanted, got)
        logits.add(wanted[names[0]], got[names[0]])
    return Boxes(agreement, logits.sqnr_db)


def _compiled(name: str) -> tuple[onnx.ModelProto, Artefact]:
    with tempfile.TemporaryDirectory() as folder:
        return compiled(SUBJECTS[name], Path(folder), CALIBRATED)


def _runs(model: onnx.ModelProto, artefact: Artefact, names: Sequence[str]) -> list[tuple[Feeds, Feeds]]:
    """(the float model's outputs, the device's) for each picture."""
    session = open_session(model.SerializeToString(), 1)
    device = CompiledModel(artefact)
    (value,) = model.graph.input
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    made = []
    for picture in pictures(shape, SEEN, seed=1):
        feeds = {value.name: picture[None]}
        wanted = dict(zip(names, session.run(list(names), feeds), strict=True))
        made.append((wanted, device.run(feeds).outputs))
    return made
