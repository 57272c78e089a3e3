"""softmax(q k^T * scale + mask) v, head by head  ->  ax::Attention of tokens: scores and heads' layouts vanish.

The op reads q [1, L, C], k [1, S, C], v [1, S, Cv] with the heads side by side along the channels, and gives the
context [1, L, Cv] in the same order. Whatever Reshapes, Transposes and Splits make heads of the channels and channels
of the heads is read as one move of elements (`views`); the block is fused where that move is a split into heads. Scale
factors on q, on k or on the scores become one; a mask that is the same for all heads becomes an input.

Heads that are interleaved with each other in one convolution's output (q k v q k v) are put side by side by the order
of its weights (`reorder`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from axtool.graph.functions import DOMAIN
from axtool.graph.passes.attention_mask import bounded
from axtool.graph.passes.attention_operands import Operand, operand_of, tokens_of
from axtool.graph.passes.reorder import side_by_side
from axtool.graph.passes.views import MOVES, Index, moved
from axtool.graph.passes.work import Work, feeds_only, made_by, only_reader, remove_unused, scalar, shape_of


@dataclass(frozen=True)
class Core:
    """One attention block as it was found. The operands are (heads, tokens, channels)."""

    q: Operand
    k: Operand
    v: Operand
    scale: float
    mask: ir.Value | None
    last: ir.Node  # makes the context as tokens, in whatever shape
    channels_first: bool  # its output is [channels, tokens] rather than [tokens, channels]


def fuse_attention(work: Work) -> int:
    count = 0
    for node in work.nodes("Softmax"):
        core = _find(work, node) if node.graph is work.graph else None
        if core is not None:
            _write(work, core)
            count += 1
    if count:
        remove_unused(work)
    return count


def _find(work: Work, softmax: ir.Node) -> Core | None:
    shape, attrs = shape_of(softmax.inputs[0]), work.attrs(softmax)
    probabilities = softmax.outputs[0]
    if (
        shape is None
        or len(shape) < 2
        or attrs.get("axis") != len(shape) - 1
        or probabilities.dtype != ir.DataType.FLOAT
    ):
        return None
    scores = _scores(work, softmax)
    product = _product(work, probabilities)
    if scores is None or product is None:
        return None
    matmul, scale, mask = scores
    context, values, swapped = product
    q = operand_of(work, matmul.inputs[0], (0, 1, 2))
    k = operand_of(work, matmul.inputs[1], (0, 2, 1))
    v = operand_of(work, values, (0, 2, 1) if swapped else (0, 1, 2))
    if q is None or k is None or v is None or not q.heads == k.heads == v.heads:
        return None
    if k.tokens != v.tokens or q.channels != k.channels or v.scale != 1.0:
        return None
    last = _joined(work, context, (q.heads, q.tokens, v.channels), swapped)
    operands = side_by_side(work, (q, k, v), (matmul, context)) if last is not None else None
    if last is None or operands is None:
        return None
    q, k, v = operands
    return Core(q, k, v, scale * q.scale * k.scale, mask, *last)


def _scores(work: Work, softmax: ir.Node) -> tuple[ir.Node, float, ir.Value | None] | None:
    """The product of queries and keys behind a Softmax, the number it is multiplied by, and what is then added."""
    reader, value = softmax, softmax.inputs[0]
    scale, mask = 1.0, None
    while value is not None and feeds_only(value, reader) and value not in work.given:
        node = value.producer()
        if node is None or node.domain != "":
            return None
        if node.op_type == "MatMul":
            return node, scale, mask
        if node.op_type == "Mul":
            at = 0 if scalar(node.inputs[1]) is not None else 1
            number = scalar(node.inputs[1 - at])
            if number is None:
                return None
            scale *= number
        elif node.op_type == "Add" and mask is None and scale == 1.0:
            at = 0 if _leads_to_product(node.inputs[0]) and not _leads_to_product(node.inputs[1]) else 1
            mask = node.inputs[1 - at]
            if not _leads_to_product(node.inputs[at]) or not _same_for_all_heads(mask, shape_of(value)):
                return None
        elif node.op_type in ("Reshape", "Squeeze", "Unsqueeze") and mask is None:
            at = 0
            if _without_ones(shape_of(node.inputs[0])) != _without_ones(shape_of(value)):
                return None
        else:
            return None
        if node.op_type in ("Mul", "Add") and shape_of(node.inputs[at]) != shape_of(value):
            return None
        reader, value = node, node.inputs[at]
    return None


def _leads_to_product(value: ir.Value | None) -> bool:
    while (node := made_by(value, "Mul", "Reshape", "Squeeze", "Unsqueeze", "MatMul")) is not None:
        if node.op_type == "MatMul":
            return True
        value = node.inputs[1] if node.op_type == "Mul" and scalar(node.inputs[0]) is not None else node.inputs[0]
    return False


def _same_for_all_heads(mask: ir.Value | None, scores: tuple[int, ...] | None) -> bool:
    shape = shape_of(mask)
    if shape is None or scores is None or len(shape) > len(scores) or not shape:
        return False
    full = (1,) * (len(scores) - len(shape)) + shape
    return all(d == 1 for d in full[:-2]) and full[-1] == scores[-1] and full[-2] in (1, scores[-2])


def _without_ones(shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The axes before the last two without those of extent 1, and the last two."""
    return None if shape is None else (*(d for d in shape[:-2] if d != 1), *shape[-2:])


def _product(work: Work, probabilities: ir.Value) -> tuple[ir.Node, ir.Value, bool] | None:
    """The product with the values; whether it is values x probabilities^T, which gives the context channels first."""
    shape = shape_of(probabilities)
    assert shape is not None
    index: Index = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    value = probabilities
    while (node := only_reader(value)) is not None and value not in work.given:
        flat = index.reshape(-1, *index.shape[-2:])
        if node.op_type == "MatMul" and node.domain == "":
            other = node.inputs[1] if node.inputs[0] is value else node.inputs[0]
            swapped = node.inputs[1] is value
            wanted = np.arange(index.size).reshape(-1, *shape[-2:])
            wanted = wanted.swapaxes(1, 2) if swapped else wanted
            return (node, other, swapped) if other is not None and np.array_equal(flat, wanted) else None
        if node.op_type not in MOVES or node.domain != "" or len(node.outputs) != 1:
            return None
        after = moved(work, node, node.outputs[0], index)
        if after is None:
            return None
        index, value = after, node.outputs[0]
    return None


def _joined(work: Work, product: ir.Node, sizes: tuple[int, int, int], swapped: bool) -> tuple[ir.Node, bool] | None:
    """The node that gives the context with the heads side by side again, and whether channels come first there.

    `sizes` are (heads, tokens, channels of a head). Element (h, l, d) of the context is number l * C + h * D + d.
    """
    heads, tokens, channels = sizes
    order = np.arange(heads * tokens * channels, dtype=np.int64).reshape(tokens, heads, channels).transpose(1, 0, 2)
    value = product.outputs[0]
    shape = shape_of(value)
    if shape is None or int(np.prod(shape)) != order.size:
        return None
    index = (order.transpose(0, 2, 1) if swapped else order).reshape(shape)
    found: tuple[ir.Node, bool] | None = None
    flat = np.arange(order.size)
    crossed = flat.reshape(tokens, heads * channels).T.reshape(-1)
    node: ir.Node | None = product
    while node is not None:
        if np.array_equal(index.reshape(-1), flat):
            found = node, False
            if shape_of(value) == (1, tokens, heads * channels):
                break
        elif found is None and np.array_equal(index.reshape(-1), crossed):
            found = node, True
        reader = only_reader(value)
        if value in work.given or reader is None or reader.op_type not in MOVES or len(reader.outputs) != 1:
            break
        after = moved(work, reader, reader.outputs[0], index)
        if after is None:
            break
        node, value, index = reader, reader.outputs[0], after
    return found


def _write(work: Work, core: Core) -> None:
    last, value = core.last, core.last.outputs[0]
    name = value.name or "attention"
    heads, tokens, channels = core.q.heads, core.q.tokens, core.v.heads * core.v.channels
    inputs = [tokens_of(work, operand, last, f"{name}/{letter}") for operand, letter in zip(
        (core.q, core.k, core.v), "qkv", strict=True
    )]  # fmt: skip
    if core.mask is not None:
        inputs.append(bounded(work, core.mask, f"{name}/mask"))
    scale = float(np.float32(core.scale))
    shape = shape_of(value)
    assert shape is not None
    if shape == (1, tokens, channels) and not core.channels_first:
        node = ir.node("Attention", inputs, domain=DOMAIN, num_outputs=2, name=last.name)
        work.graph.insert_before(last, node)
        work.take_over(node, last)
    else:
        node = ir.node("Attention", inputs, domain=DOMAIN, num_outputs=2, name=work.fresh(f"{name}/Attention"))
        work.graph.insert_before(last, node)
        _describe(node.outputs[0], work.fresh(f"{name}/context"), (1, tokens, channels))
        context = node.outputs[0]
        if core.channels_first:
            context = work.insert(last, "Transpose", [context], f"{name}/channels_first", perm=(0, 2, 1)).outputs[0]
            _describe(context, context.name or name, (1, channels, tokens))
        target = work.add_constant(np.asarray(shape, np.int64), f"{name}/shape")
        work.become(last, "Reshape", [context, target])
    _describe(node.outputs[1], work.fresh(f"{name}/scores"), (1, heads, tokens, core.k.tokens))
    node.attributes["heads"] = ir.AttrInt64("heads", heads)
    node.attributes["scale"] = ir.AttrFloat32("scale", scale)
    node.overload = f"{heads} {scale:.9g}{' masked' if core.mask is not None else ''}"


def _describe(value: ir.Value, name: str, shape: tuple[int, ...]) -> None:
    value.name, value.type, value.shape = name, ir.TensorType(ir.DataType.FLOAT), ir.Shape(shape)
