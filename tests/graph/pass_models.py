"""Small models for the tests of passes: ONNX text, with arrays for the constants it names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from numpy.typing import NDArray

from axtool.graph.functions import attach
from axtool.graph.passes import PASSES, Cleaned, clean
from axtool.graph.passes.checking import Checker
from axtool.graph.passes.infer import infer_shapes
from axtool.graph.passes.work import Work


def build(
    body: str,
    inputs: str = "float[1, 3, 8, 8] x",
    outputs: str = "float y",
    opset: int = 17,
    extra: str = "",
    **constants: Any,
) -> ir.Model:
    """`g (inputs) => (outputs) { body }`, whose free names are `constants`. The shape of `float y` is inferred."""
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    declared = "".join(f", {_type(array)} {name}" for name, array in arrays.items())
    header = f'<ir_version: 10, opset_import: ["": {opset}{extra}]>'
    model = ir.from_onnx_text(f"{header} g ({inputs}{declared}) => ({outputs}) {{ {body} }}")
    graph = model.graph
    for value in list(graph.inputs):
        if value.name in arrays:
            graph.inputs.remove(value)
            value.const_value = ir.tensor(arrays[value.name], name=value.name)
            graph.register_initializer(value)
    for value in graph.outputs:
        value.shape = value.shape or None
    infer_shapes(model)
    return model


def _type(array: NDArray[Any]) -> str:
    kind = {"float32": "float", "float16": "float16", "float64": "double"}.get(array.dtype.name, array.dtype.name)
    return f"{kind}[{', '.join(str(d) for d in array.shape)}]" if array.ndim else kind


def noise(*shape: int, seed: int = 0, scale: float = 1.0) -> NDArray[np.float32]:
    """Normal float32 numbers."""
    return np.random.default_rng(seed).normal(0, scale, shape).astype(np.float32)


def ops(model: ir.Model) -> list[str]:
    """The op types in order."""
    return [node.op_type for node in model.graph]


def cleaned(model: ir.Model, **options: Any) -> Cleaned:
    """All passes, with onnxruntime before and after each (a pass that changes the numbers raises)."""
    onnx.checker.check_model(ir.to_proto(model))
    result = clean(model, check=Checker(), **options)
    onnx.checker.check_model(ir.to_proto(result.model))
    return result


def apply(step: Callable[[Work], int], model: ir.Model) -> int:
    """One pass alone, with onnxruntime before and after. Returns its hits."""
    before = attach(model).clone()
    work = Work(model)
    count = step(work)
    infer_shapes(model)
    Checker()(before, model, step.__name__)
    return count


def run(model: ir.Model, **feeds: NDArray[Any]) -> list[NDArray[Any]]:
    """onnxruntime's outputs, without its own optimisations."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    content = ir.to_proto(attach(model)).SerializeToString()
    session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return [np.asarray(array) for array in session.run(None, feeds)]


def hits(result: Cleaned) -> dict[str, int]:
    """The passes that hit, by name."""
    assert [entry.name for entry in result.log] == [step.name for step in PASSES]
    return {entry.name: entry.count for entry in result.log if entry.count}
