"""A small model compiled with `--emit qdq`; how far the emitted file is from the reference engine, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from axtool.ops.arithmetic import quantize_host
from axtool.runtime.model import CompiledModel, load
from axtool.types import QFormat
from tests import tiny

Array = NDArray[Any]
SAMPLES = 6


@dataclass(frozen=True)
class Emitted:
    """What one compile wrote. `feeds` are the samples that it calibrated on."""

    source: Path
    axm: Path
    qdq: Path
    feeds: tuple[dict[str, Array], ...]

    @property
    def proto(self) -> onnx.ModelProto:
        return onnx.load(str(self.qdq))

    def engine(self, engine: str = "reference") -> CompiledModel:
        return load(self.axm, engine=engine)

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        return run(self.proto, feeds)

    def steps(self, engine: str = "reference") -> dict[str, int]:
        """By tensor that the device holds: the largest difference to the reference, both fed with its own tensors."""
        model, worst = self.engine(engine), dict[str, int]()
        for feeds in self.feeds:
            for name, steps in forced(self.proto, feeds, model.run_watched(feeds)[1]).items():
                worst[name] = max(worst.get(name, 0), steps)
        return worst

    def device_tensors(self) -> set[str]:
        """Tensors of the device that the graph has too, by the names that the file gives them."""
        made = {name for device in self.engine().devices for layer in device.program.layers for name in layer.outputs}
        return made & {name for node in self.proto.graph.node for name in (*node.input, *node.output)}


def emitted(
    folder: Path, graph: str, weights: Mapping[str, Any], *words: object, opset: int = 17, spread: float = 1.0
) -> Emitted:
    """The graph compiled in `folder` with ranges from a few random samples."""
    source = tiny.save(folder / "m.onnx", graph, weights, opset=opset)
    return compiled(source, *words, spread=spread)


def compiled(source: Path, *words: object, spread: float = 1.0, optimize: int | None = 0) -> Emitted:
    """A file compiled beside it, with ranges from a few random samples where it needs any."""
    rng = np.random.default_rng(11)
    proto = onnx.load(str(source))
    known = {tensor.name for tensor in proto.graph.initializer}
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in proto.graph.input
        if value.name not in known
    }
    feeds = tuple(
        {name: rng.normal(0, spread, shape).astype(np.float32) for name, shape in shapes.items()}
        for _ in range(SAMPLES)
    )
    data = source.with_suffix(".npz")
    np.savez(data, **{name: np.concatenate([one[name] for one in feeds]) for name in shapes})
    axm = source.with_suffix(".axm")
    level = () if optimize is None else ("-O", optimize)
    ran = tiny.axtool("compile", source, "--calib", data, *level, "-o", axm, "--emit", "qdq", "--check", *words)
    assert ran.code == 0, ran.err
    return Emitted(source, axm, source.with_suffix(".qdq.onnx"), feeds)


def run(proto: onnx.ModelProto, feeds: Mapping[str, Array], outputs: list[str] | None = None) -> dict[str, Array]:
    """onnxruntime as the file is written: without graph optimizations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = outputs or [value.name for value in session.get_outputs()]
    return dict(zip(names, (np.asarray(array) for array in session.run(names, dict(feeds))), strict=True))


def pairs(proto: onnx.ModelProto) -> dict[str, tuple[onnx.NodeProto, onnx.NodeProto]]:
    """Each QuantizeLinear and the DequantizeLinear behind it, by the name that the tensor has elsewhere."""
    restore = {node.input[0]: node for node in proto.graph.node if node.op_type == "DequantizeLinear"}
    outputs = {value.name for value in proto.graph.output}
    found = {}
    for node in proto.graph.node:
        if node.op_type == "QuantizeLinear" and node.output[0] in restore:
            after = restore[node.output[0]].output[0]
            found[after if after in outputs else node.input[0]] = (node, restore[node.output[0]])
    return found


def formats(proto: onnx.ModelProto) -> dict[str, tuple[float, int]]:
    """(scale, zero point) of each tensor that is rounded."""
    known = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    return {name: (float(known[node.input[1]]), int(known[node.input[2]])) for name, (node, _) in pairs(proto).items()}


def forced(proto: onnx.ModelProto, feeds: Mapping[str, Array], seen: Mapping[str, Array]) -> dict[str, int]:
    """Every layer on its own: each DequantizeLinear reads what the device made, each QuantizeLinear is compared.

    By tensor: the largest difference in steps.
    """
    scales, given, wanted = formats(proto), dict[str, Array](feeds), dict[str, tuple[str, Array]]()
    for name, (quantize, restore) in pairs(proto).items():
        if name in seen:
            scale, zero = scales[name]
            q = quantize_host(seen[name], QFormat("int8", (scale,), (zero,))).astype(np.int8)
            restore.input[0] = f"{name}/forced"
            given[restore.input[0]], wanted[quantize.output[0]] = q, (name, q)
            proto.graph.input.append(
                onnx.helper.make_tensor_value_info(restore.input[0], onnx.TensorProto.INT8, q.shape)
            )
    proto.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in wanted)
    made = run(proto, given, list(wanted))
    return {
        name: int(np.abs(made[key].astype(np.int64) - q.astype(np.int64)).max()) for key, (name, q) in wanted.items()
    }


def sqnr_db(right: Array, got: Array) -> float:
    noise = np.sum((got.astype(np.float64) - right) ** 2)
    return float(10 * np.log10(np.sum(right.astype(np.float64) ** 2) / max(noise, 1e-30)))
