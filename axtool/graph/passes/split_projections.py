"""One product with weights side by side, cut into parts (MatMul, Split or Slices)  ->  a product for each part.

Some exporters, and some simplifiers, pack queries, keys and values into one product. In integers each of them wants a
scale of its own, and the bias that follows each part wants to be the product's; cutting the weights costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.graph.passes.reshaping import typed
from axtool.graph.passes.work import Work, constant, only_reader, shape_of

Part = tuple[ir.Value, int, int]  # what is read, and which columns of the product it holds


def split_projections(work: Work) -> int:
    return sum(_split(work, node) for node in work.nodes("MatMul"))


def _split(work: Work, node: ir.Node) -> bool:
    weight, product = constant(node.inputs[1]), node.outputs[0]
    if weight is None or weight.ndim != 2 or product in work.given:
        return False
    add = only_reader(product)
    bias = _bias(add, product) if add is not None else None
    whole = product if bias is None or add is None else add.outputs[0]
    parts = _parts(work, whole)
    if parts is None or whole in work.given or whole.is_graph_output():
        return False
    for value, start, stop in parts:
        _write(work, node, value, start, stop, None if bias is None else bias[..., start:stop])
    return True


def _bias(add: ir.Node, product: ir.Value) -> NDArray[np.float32] | None:
    """The constant with a value for each column that an Add adds to the product."""
    if add.op_type != "Add" or add.domain != "":
        return None
    array = constant(add.inputs[1] if add.inputs[0] is product else add.inputs[0])
    shape = shape_of(product)
    fits = array is not None and shape is not None and array.size == shape[-1] == array.shape[-1]
    return array if fits and shape_of(add.outputs[0]) == shape else None


def _parts(work: Work, whole: ir.Value) -> list[Part] | None:
    """The parts that a product is cut into along its columns, if nothing reads it as a whole: each an operand alone."""
    shape = shape_of(whole)
    nodes: Sequence[ir.Node] = [use.node for use in whole.uses()]
    if shape is None or not nodes or any(n.op_type not in ("Split", "Slice") for n in nodes):
        return None
    parts: list[Part] = []
    for node in nodes:
        attrs, last = work.attrs(node), len(shape) - 1
        if node.inputs[0] is not whole or any(out.is_graph_output() or out in work.given for out in node.outputs):
            return None
        if node.op_type == "Split" and attrs.get("axis") == last:
            bounds = np.cumsum((0, *attrs["sizes"]))
            parts += [(out, int(bounds[at]), int(bounds[at + 1])) for at, out in enumerate(node.outputs)]
        elif node.op_type == "Slice" and "starts" in attrs:
            cut, starts = shape_of(node.outputs[0]), attrs["starts"]
            if cut is None or cut[:-1] != shape[:-1] or attrs["steps"][last] != 1:
                return None
            parts.append((node.outputs[0], starts[last], starts[last] + cut[last]))
        else:
            return None
    parts.sort(key=lambda part: part[1])
    ends = [0, *[stop for _, _, stop in parts]]
    tiled = all(start == end for (_, start, _), end in zip(parts, ends, strict=False)) and ends[-1] == shape[-1]
    attended = all(_attended(work, value) for value, _, _ in parts)
    return parts if tiled and attended and len(parts) > 1 else None


def _attended(work: Work, value: ir.Value) -> bool:
    """Whether an attention block alone reads the value, directly or with a constant added."""
    reader = only_reader(value)
    if reader is not None and reader.op_type == "Add" and any(constant(one) is not None for one in reader.inputs):
        reader = only_reader(reader.outputs[0])
    return reader is not None and reader.op_type == "Attention"


def _write(
    work: Work,
    node: ir.Node,
    value: ir.Value,
    start: int,
    stop: int,
    bias: NDArray[np.float32] | None,
) -> None:
    weight, maker, shape = constant(node.inputs[1]), value.producer(), shape_of(value)
    assert weight is not None
    assert maker is not None
    assert shape is not None
    stem = node.inputs[1].name if node.inputs[1] is not None else "weight"
    columns = work.add_constant(weight[:, start:stop], f"{stem}_part")
    made = typed(work.insert(maker, "MatMul", [node.inputs[0], columns], f"{value.name}_product").outputs[0], shape)
    if bias is not None:
        added = work.add_constant(bias, f"{value.name}/bias")
        made = typed(work.insert(maker, "Add", [made, added], f"{value.name}_part").outputs[0], shape)
    value.replace_all_uses_with(made)
