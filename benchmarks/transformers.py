"""DETR-R101 at 750 x 800 and SegFormer-B0 at 256 x 512: the time of a frame, and what calibrating DETR holds.

`frame and cycles`: one frame on the simulated device on two threads, float to float, and the clock of its plan; beside
onnxruntime's float session of the same model with every graph optimisation and two threads. The ratio is what is
allowed over what it takes, so that 1 is wanted.
`memory of calibrating`: the largest resident set of `axtool compile` with 12 pictures; the ratio likewise.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from axtool import __version__
from axtool.artefact.axm import Artefact
from axtool.cli.console import Progress
from axtool.compiler import compile_model
from axtool.options import Options
from axtool.runtime.model import CompiledModel
from axtool.target_file import target_from_dict
from axtool.timing.clock import time_plan
from benchmarks import table
from benchmarks.attention import detr_r101, segformer_b0
from benchmarks.measure import Case, interleave
from benchmarks.metered import metered
from benchmarks.peer import open_session, version
from benchmarks.table import Row

THREADS = 2
PICTURES = 12
MOST_MB = 1600.0  # of resident memory, while DETR is calibrated with so many pictures


@dataclass(frozen=True)
class Subject:
    """A network, the chip and the recipe that it is compiled for, and the seconds that a frame may take."""

    model: Callable[[], onnx.ModelProto]
    target: str
    recipe: str
    most_s: float


def labelled(model: onnx.ModelProto, factor: int = 4) -> onnx.ModelProto:
    """The model with its scores (1, c, h, w) enlarged bilinearly, and the label of every pixel as its output."""
    graph, scores = model.graph, model.graph.output[0].name
    graph.initializer.append(numpy_helper.from_array(np.array([1, 1, factor, factor], np.float32), "factors"))
    enlarged = helper.make_node(
        "Resize", [scores, "", "factors"], ["enlarged"], mode="linear", coordinate_transformation_mode="half_pixel"
    )
    graph.node.extend([enlarged, helper.make_node("ArgMax", ["enlarged"], ["labels"], axis=1, keepdims=0)])
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("labels", TensorProto.INT64, None))
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


SUBJECTS = {
    "detr-r101": Subject(detr_r101, "qc-u-1d5-8mb", "detr-mixed", 1.2),
    "segformer-b0": Subject(lambda: labelled(segformer_b0()), "qc-u-1d7-16mb", "segformer-int8", 0.15),
}


def pictures(shape: Sequence[int], count: int, seed: int = 0) -> NDArray[np.float32]:
    """`count` pictures (n, 3, h, w) as a normalised photograph is: patches of colour of all sizes, in -2 to 2.5."""
    import cv2

    _, channels, height, width = shape
    rng = np.random.default_rng(seed)
    made = np.zeros((count, channels, height, width), np.float32)
    for picture in made:
        for cells in (3, 9, 30, 90):
            for plane in picture:
                patches = rng.normal(0, 1, (cells, cells)).astype(np.float32)
                plane += cv2.resize(patches, (width, height), interpolation=cv2.INTER_CUBIC) * 0.6
    return np.clip(made, -2.1, 2.6)


def compiled(subject: Subject, folder: Path, samples: int = 2) -> tuple[onnx.ModelProto, Artefact]:
    """The network, and the file that it is compiled to. Raises ValueError unless that is one device stage alone, but
    for a Sigmoid at its end.
    """
    model = subject.model()
    path = folder / "model.onnx"
    onnx.save(model, path)
    data = pictures(_shape(model), samples)
    np.savez(folder / "data.npz", **{model.graph.input[0].name: data})
    options = Options(
        target=subject.target, calib=(str(folder / "data.npz"),), recipe=subject.recipe, layer_check=False
    )
    artefact = compile_model(path, options, Progress(quiet=True)).artefact
    if len(artefact.device_stages) != 1 or len(artefact.stages) > 2:
        raise ValueError(f"{len(artefact.stages)} stages, {len(artefact.device_stages)} of them on the device; want 1")
    return model, artefact


def frame_cases(model: onnx.ModelProto, artefact: Artefact) -> dict[str, Case]:
    """A frame of ours with its cycles, and one of onnxruntime in float: other pictures in each round."""
    ours = CompiledModel(artefact, engine="native", threads=THREADS)
    plan, target = artefact.device_stages[0].plan, target_from_dict(artefact.target)
    session = open_session(model.SerializeToString(), THREADS)

    def frame(number: int) -> Callable[[], object]:
        feeds = _feeds(model, number)
        return lambda: (ours.run(feeds), time_plan(plan, target))

    def peer(number: int) -> Callable[[], object]:
        feeds = _feeds(model, number)
        return lambda: session.run(None, feeds)

    return {"ours": frame, "peer": peer}


def frame_row(name: str, *, rounds: int) -> Row:
    """The seconds of a frame beside what is allowed, and beside onnxruntime."""
    subject = SUBJECTS[name]
    with tempfile.TemporaryDirectory() as folder:
        model, artefact = compiled(subject, Path(folder))
    table.say(f"{name}: {rounds} frames on {THREADS} threads")
    times = interleave(frame_cases(model, artefact), rounds=rounds, warm_up=1, again=False)
    return table.row(
        name,
        f"frame and cycles, {subject.most_s:g} s",
        1e3 * subject.most_s / times["ours"].median_ms,
        1.0,
        ours=table.side("axtool native", __version__, times["ours"]),
        peer=table.side("onnxruntime float", version(), times["peer"]),
        threads=THREADS,
    )


def memory_row(name: str = "detr-r101") -> Row:
    """The most that `axtool compile` holds while it calibrates."""
    subject = SUBJECTS[name]
    with tempfile.TemporaryDirectory() as folder:
        path, data = Path(folder) / "model.onnx", Path(folder) / "data.npz"
        model = subject.model()
        onnx.save(model, path)
        np.savez(data, **{model.graph.input[0].name: pictures(_shape(model), PICTURES)})
        del model
        words = ["compile", str(path), "--calib", str(data), "--target", subject.target, "--recipe", subject.recipe]
        start = "import sys; from axtool.cli.main import main; main(sys.argv[1:])"
        table.say(f"{name}: compiling with {PICTURES} pictures")
        done = metered([sys.executable, "-c", start, *words, "--out", str(Path(folder) / "model.axm"), "--quiet"])
    if done.code:
        raise RuntimeError(f"axtool compile ended with {done.code}: {done.stderr[-400:]}")
    ours = {"peak_mb": round(done.peak_mb, 1), "cpu_s": round(done.cpu_s, 2)}
    measured = f"memory of calibrating, {done.peak_mb:,.0f} of {MOST_MB:,.0f} MB"
    return table.row(name, measured, MOST_MB / done.peak_mb, 1.0, ours=ours, peer={})


def run(names: Sequence[str], *, rounds: int) -> list[Row]:
    """A row for the frame of each network, and for DETR one for its memory."""
    logging.getLogger("axtool").setLevel(logging.ERROR)
    rows = [frame_row(name, rounds=rounds) for name in names]
    return [*rows, memory_row()] if "detr-r101" in names else rows


def _shape(model: onnx.ModelProto) -> tuple[int, ...]:
    return tuple(dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim)


def _feeds(model: onnx.ModelProto, number: int) -> dict[str, NDArray[Any]]:
    return {model.graph.input[0].name: pictures(_shape(model), 1, number + 100)}


def main() -> None:
    """`python -m benchmarks.transformers`."""
    parser = table.parser("transformers", __doc__, rounds=10)
    table.add_names(parser, SUBJECTS)
    given = parser.parse_args()
    table.show("transformers", run(given.names or list(SUBJECTS), rounds=given.rounds), as_json=given.json)


if __name__ == "__main__":
    main()
