"""Nodes whose inputs are all known  ->  initializers: shape arithmetic, weights behind Cast, Mul, Transpose, Split.

onnxruntime evaluates them, so that the result is right for every op and opset. What does not fold: random ops; Loop,
Scan and an If whose condition is not known; quantization, which has a meaning of its own; and results that are large
and bigger than what they are made of (a ConstantOfShape of a whole feature map).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.graph.passes.infer import infer_shapes
from axtool.graph.passes.work import Work, constant, hold, rank_of, shape_of

RANDOM = {
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout",
}  # fmt: skip
KEPT = {"If", "Loop", "Scan", "Constant", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}
BOUNDED = {"NonZero", "Compress", "Unique"}  # no larger than their input, whatever shape inference says
LARGE_BYTES = 1 << 20
ROUNDS = 8  # each round knows more shapes than the one before; real graphs need two or three


def fold_constants(work: Work) -> int:
    """Fold until nothing more is known. Returns how many nodes went."""
    from axtool.graph.passes.inline_if import inline_if

    total, stubborn = 0, set[ir.Node]()
    for _ in range(ROUNDS):
        count = inline_if(work) + _fold_shapes(work)
        nodes = _known(work, stubborn)
        count += _replace(work, nodes, stubborn)
        if not count:
            break
        total += count
        infer_shapes(work.model)
    return total


def _fold_shapes(work: Work) -> int:
    """Shape and Size of a tensor of known shape: its values need not be known."""
    count = 0
    for node in work.nodes("Shape", "Size"):
        source, shape = node.inputs[0], shape_of(node.inputs[0])
        rank = rank_of(source)
        if shape is None or rank is None:
            continue
        start, end = node.attributes.get("start"), node.attributes.get("end")
        part = shape[slice(start.as_int() if start else None, end.as_int() if end else None)]
        array = np.array(part if node.op_type == "Shape" else np.prod(shape, dtype=np.int64), np.int64)
        replace_by_constant(work, node.outputs[0], array)
        work.graph.remove(node, safe=True)
        count += 1
    return count


def _known(work: Work, stubborn: set[ir.Node]) -> list[ir.Node]:
    known: set[ir.Value] = set()
    nodes = []
    for node in work.graph:
        if node.op_type in RANDOM | KEPT or node.domain != "" or node in stubborn or not node.inputs:
            continue
        inputs = [value for value in node.inputs if value is not None]
        if all(value in known or constant(value) is not None for value in inputs) and _affordable(node, inputs):
            known.update(node.outputs)
            nodes.append(node)
    return nodes


def _affordable(node: ir.Node, inputs: Sequence[ir.Value]) -> bool:
    """False for a result that is large and larger than its inputs, or whose size is not known yet."""
    if node.op_type in BOUNDED:
        return True
    sizes = [_bytes(value) for value in node.outputs if value.name]
    if any(size is None for size in sizes):
        return False
    size = sum(size for size in sizes if size is not None)
    return size <= max(LARGE_BYTES, 2 * sum(_bytes(value) or 0 for value in inputs))


def _bytes(value: ir.Value) -> int | None:
    shape = shape_of(value)
    if shape is None or value.dtype in (None, ir.DataType.STRING):
        return None
    return int(math.prod(shape) * value.dtype.itemsize)


def _replace(work: Work, nodes: list[ir.Node], stubborn: set[ir.Node]) -> int:
    """Evaluate the nodes, all in one session, or one by one if that fails; those that fail alone stay."""
    if not nodes:
        return 0
    folded = set(nodes)
    frontier = [
        value
        for node in nodes
        for value in node.outputs
        if value.is_graph_output() or any(user not in folded for user, _ in value.uses())
    ]
    arrays = evaluate(work, frontier)
    if arrays is None:
        return sum(_replace_one(work, node, stubborn) for node in nodes)
    for value, array in zip(frontier, arrays, strict=True):
        replace_by_constant(work, value, array)
    for node in reversed(nodes):
        work.graph.remove(node, safe=True)
    return len(nodes)


def _replace_one(work: Work, node: ir.Node, stubborn: set[ir.Node]) -> int:
    ready = all(value is None or constant(value) is not None for value in node.inputs)
    wanted = [value for value in node.outputs if value.name and (value.uses() or value.is_graph_output())]
    arrays = evaluate(work, wanted) if ready and wanted else None
    if arrays is None:
        stubborn.add(node)
        return 0
    for value, array in zip(wanted, arrays, strict=True):
        replace_by_constant(work, value, array)
    work.graph.remove(node, safe=True)
    return 1


def evaluate(work: Work, outputs: Sequence[ir.Value]) -> list[NDArray[Any]] | None:
    """The arrays of values that depend on constants alone, or None where onnxruntime refuses."""
    import onnxruntime as ort

    if not outputs:
        return []
    graph = ir.convenience.extract(work.graph, [], list(outputs))
    graph.opset_imports.update(work.model.opset_imports)
    for value in graph.initializers.values():
        if isinstance(value.const_value, ir.ExternalTensor):
            value.const_value = ir.tensor(value.const_value.numpy(), name=value.name)
    model = ir.Model(graph, ir_version=work.model.ir_version)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        content = ir.to_proto(model).SerializeToString()
        session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        return [np.asarray(array) for array in session.run([value.name for value in outputs], {})]
    except Exception as error:  # onnxruntime raises a dozen classes; the nodes then simply stay where they are
        work.note(f"not folded: {str(error).splitlines()[0][:160]}")
        return None


def replace_by_constant(work: Work, value: ir.Value, array: NDArray[Any]) -> ir.Value:
    """An initializer takes the readers and the name of `value`, whose node can then go."""
    name, node = value.name, value.producer()
    assert name is not None
    assert node is not None
    made = work.add_constant(array, f"{name}_folded")
    if value.dtype is not None and made.dtype != value.dtype:
        tensor = ir.Tensor(array, dtype=value.dtype, name=made.name)  # a type that NumPy lacks, such as bfloat16
        made.const_value, made.dtype = tensor, value.dtype
    if value.is_graph_output():
        hold(work, value, made, node)
    else:
        value.replace_all_uses_with(made)
        value.name = work.fresh(f"{name}_unused")
        made.name = name
    return made
