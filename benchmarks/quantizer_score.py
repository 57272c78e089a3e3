"""A float model, a quantized one and samples  ->  how far the second is from the first, and what of it stays float.

An .axm runs bit for bit as on the device. A QDQ model runs in onnxruntime with its optimisations off: the default ones
quantize what the quantizer left in float, and turn 27.7 dB into 7.7.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from axtool.artefact import axm
from axtool.artefact.axm import HostStage
from axtool.graph.parts import parts_of
from axtool.runtime.model import load
from axtool.verify.metrics import decibels
from benchmarks.quantizer_tasks import Arrays, reading_of

Run = Callable[[Arrays], Arrays]
MOST_DB = 99.0  # of a part that is the same: JSON has no infinity
COLUMNS: Mapping[str, tuple[int, tuple[tuple[str, int, int | None], ...]]] = {  # axis, then name and span of each part
    "yolo": (1, (("boxes", 0, 4), ("scores", 4, None))),
    "yolox": (2, (("boxes", 0, 4), ("scores", 4, None))),
    "yolo-anchored": (2, (("boxes", 0, 4), ("scores", 4, None))),
}
MOVES = frozenset(
    (
        "Reshape", "Transpose", "Concat", "Slice", "Split", "Identity", "Squeeze", "Unsqueeze", "Flatten", "MaxPool",
        "Resize", "Upsample", "Pad", "Gather", "Expand", "Tile", "DepthToSpace", "SpaceToDepth", "Cast", "Shape",
        "Constant", "Dropout",
    )
)  # fmt: skip
LINEAR = frozenset(("Conv", "ConvTranspose", "Gemm", "MatMul"))
FUSED = frozenset(("Relu", "Clip"))  # with the op before them, whose own result is never stored


class Judge:
    """Sums over samples: signal and noise of each part of each output, and what the task makes of them."""

    def __init__(self, model: onnx.ModelProto, task: Mapping[str, Any]) -> None:
        self._parts, self._reading = parts(model, task), reading_of(task)
        self._sums: dict[str, NDArray[np.float64]] = {}

    def add(self, wanted: Arrays, found: Arrays) -> None:
        """One sample."""
        for name, right in wanted.items():
            for label, axis, span in self._parts[name]:
                at = (slice(None),) * axis + (span,)
                signal = right[at].astype(np.float64)
                noise = signal - found[name][at]
                sums = self._sums.setdefault(label, np.zeros(2))
                sums += (np.square(signal).sum(), np.square(noise).sum())
        self._reading.add(wanted, found)

    def to_dict(self) -> dict[str, Any]:
        """SQNR in dB of each part, and counts of the task."""
        sqnr = {
            name: round(float(np.clip(decibels(*sums.tolist()), -MOST_DB, MOST_DB)), 2)
            for name, sums in self._sums.items()
        }
        return {"sqnr_db": sqnr, **self._reading.to_dict()}


def parts(model: onnx.ModelProto, task: Mapping[str, Any]) -> dict[str, list[tuple[str, int, slice]]]:
    """Label, axis and span of each part of each output: columns of a detector, inputs of a Concat, else the whole."""
    import onnx_ir as ir

    made: dict[str, list[tuple[str, int, slice]]] = {}
    joined = parts_of(ir.from_proto(onnx.shape_inference.infer_shapes(model)))
    for output in model.graph.output:
        name = output.name
        if task.get("decode") in COLUMNS and output is model.graph.output[0]:
            axis, columns = COLUMNS[task["decode"]]
            made[name] = [(label, axis, slice(start, stop)) for label, start, stop in _with_rest(columns, output, task)]
        elif name in joined:
            made[name] = [(f"{name}/{part.name}", part.axis, slice(part.start, part.stop)) for part in joined[name]]
        else:
            made[name] = [(name, 0, slice(None))]
    return made


def _with_rest(
    columns: Sequence[tuple[str, int, int | None]], output: onnx.ValueInfoProto, task: Mapping[str, Any]
) -> list[tuple[str, int, int | None]]:
    """The columns of a head that has more than classes, of keypoints or masks, apart from its scores."""
    scores = 4 + int(task.get("classes", 0))
    if task["decode"] != "yolo" or scores in (4, output.type.tensor_type.shape.dim[1].dim_value):
        return list(columns)
    return [("boxes", 0, 4), ("scores", 4, scores), ("rest", scores, None)]


def stays_float(model: onnx.ModelProto) -> Counter[str]:
    """Ops of a QDQ model that compute on float: an input is no dequantized tensor, moved or not."""
    maker = {name: node for node in model.graph.node for name in node.output}
    constants = {tensor.name for tensor in model.graph.initializer}
    float_nodes: set[str] = set()

    def quantized(name: str) -> bool:
        node = maker.get(name)
        if node is None:
            return False
        if node.op_type in ("DequantizeLinear", "Constant"):
            return True
        return node.op_type in MOVES and quantized(node.input[0])

    found: Counter[str] = Counter()
    for node in model.graph.node:
        if node.op_type in MOVES or node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            continue
        needed = [name for name in node.input if name and name not in constants]
        if node.op_type in LINEAR:
            needed = list(node.input[:2])
        before = maker.get(node.input[0])
        fused = (
            node.op_type in FUSED
            and before is not None
            and before.op_type in (*LINEAR, "Add")
            and before.output[0] not in float_nodes
        )
        if fused or all(map(quantized, needed)):
            continue
        found[node.op_type] += 1
        float_nodes.add(node.output[0])
    return found


def host_ops(path: Path) -> Counter[str]:
    """Ops of the host stages of an .axm, which compute on float."""
    hosts = [stage for stage in axm.read(path).stages if isinstance(stage, HostStage)]
    nodes = [node.op_type for stage in hosts for node in onnx.load_from_string(stage.onnx).graph.node]
    return Counter(op for op in nodes if op not in MOVES)


def open_float(model: onnx.ModelProto | Path, *, optimized: bool = True) -> Run:
    """A model in onnxruntime; results come by the names of its outputs."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    if not optimized:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    given = str(model) if isinstance(model, Path) else model.SerializeToString()
    session = ort.InferenceSession(given, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(names, dict(feeds)), strict=True))


def open_quantized(path: Path, outputs: Sequence[str]) -> Run:
    """What a quantizer wrote; its outputs are put under the names of the float model, in order."""
    if path.suffix == ".axm":
        compiled = load(path)
        return lambda feeds: compiled.run(feeds).outputs
    run = open_float(path, optimized=False)

    def renamed(feeds: Arrays) -> Arrays:
        found = run(feeds)
        return found if set(outputs) <= found.keys() else dict(zip(outputs, found.values(), strict=True))

    return renamed


def judge(model: Path, quantized: Path, samples: Iterable[Arrays], task: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of one quantized model."""
    proto = onnx.load(model)
    right, found = open_float(model), open_quantized(quantized, [output.name for output in proto.graph.output])
    made = Judge(proto, task)
    for feeds in samples:
        made.add(right(feeds), found(feeds))
    ops = host_ops(quantized) if quantized.suffix == ".axm" else stays_float(onnx.load(quantized))
    return {**made.to_dict(), "stays_float": dict(ops.most_common())}


def main() -> None:
    """`python -m benchmarks.quantizer_score MODEL.onnx QUANTIZED JUDGED.npz TASK.json`, in a process of its own."""
    from benchmarks.peers.stream import Samples

    model, quantized, samples, task = sys.argv[1:]
    values = json.loads(Path(task).read_text(encoding="utf-8"))
    print(json.dumps(judge(Path(model), Path(quantized), Samples(samples), values)))


if __name__ == "__main__":
    main()
