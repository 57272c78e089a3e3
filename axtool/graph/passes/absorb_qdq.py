"""x, QuantizeLinear, DequantizeLinear, op  ->  x, op, with the scale and zero point kept as the given format of x.

A model that arrives quantized becomes a float model again, and its formats are taken over exactly: activations by
tensor name, weights with one scale for each output channel (a DequantizeLinear of a constant becomes that constant in
float32). Quantized inputs and outputs of the model keep their type: their own Q or DQ node stays, on the host.

Two things in such a file are more than rounding and stay in the float graph: a Relu that a quantizer dropped because
the format starts at zero; and a rounded value beside the one that others read as it is, which an Identity carries.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from axtool.graph.passes.fold_constants import evaluate, fold_constants, replace_by_constant
from axtool.graph.passes.quant_params import KINDS, format_of, make_format, params_of, quantizers, same_params
from axtool.graph.passes.scale_mac import MACS, out_channels
from axtool.graph.passes.work import Work, constant, made_by, only_reader
from axtool.ops.moves import MOVES
from axtool.types import QFormat

MOVED = (*MOVES, "Concat", "Gather")  # they commute with quantization
SIGNED = (*MACS, "Add", "Sub")  # their results are negative now and then, unless a Relu follows


def absorb_qdq(work: Work) -> int:
    count = lift_moves(work) + raise_dequantizers(work)
    count += _weights(work)
    for node in quantizers(work, "DequantizeLinear"):
        count += _pair(work, node)
    for node in quantizers(work, "QuantizeLinear"):
        source, fmt = node.inputs[0], format_of(node)
        if not node.outputs[0].uses() and not node.outputs[0].is_graph_output():
            work.graph.remove(node, safe=True)
        elif source is not None and fmt is not None and not _read_raw(source):
            work.given.setdefault(source, fmt)
    for node in quantizers(work, "DequantizeLinear"):
        fmt = format_of(node)
        if fmt is not None:
            work.given.setdefault(node.outputs[0], fmt)
    _weight_formats(work)
    return count


def lift_moves(work: Work) -> int:
    """Q, Reshape of the integers  ->  Q, DQ, Reshape, Q: so that each Q meets a DQ."""
    count = 0
    for node in work.nodes(*MOVED, "Resize"):
        if node.op_type == "Resize" and work.attrs(node).get("mode") != "nearest":
            continue
        data = [value for value in node.inputs if value is not None and constant(value) is None]
        if node.op_type != "Concat":
            data = data[:1]
        makers = [made_by(value, "QuantizeLinear") for value in data]
        first = makers[0] if makers else None
        if first is None or any(maker is None or not same_params(maker, first) for maker in makers):
            continue
        if node.op_type == "Concat" and len(data) != len(node.inputs):
            continue
        for value in dict.fromkeys(data):
            _dequantize(work, node, value, first)
        for value in [value for value in node.outputs if value.name and value.dtype == data[0].dtype]:
            _requantize(work, node, value, first)
        count += 1
    return count


def raise_dequantizers(work: Work) -> int:
    """A quantized input, Transpose, DQ  ->  the input, DQ, Transpose: the host converts, the device moves."""
    count = 0
    for node in work.nodes(*MOVED):
        source, reader = node.inputs[0], only_reader(node.outputs[0])
        if source is None or not source.is_graph_input() or len(node.outputs) != 1 or node.op_type == "Concat":
            continue
        if reader is None or reader.op_type != "DequantizeLinear" or format_of(reader) is None:
            continue
        _dequantize(work, node, source, reader)
        work.take_over(node, reader)
        count += 1
    return count


def _dequantize(work: Work, node: ir.Node, value: ir.Value, like: ir.Node) -> None:
    """The node reads `value` through a DequantizeLinear of its own."""
    made = work.insert(node, "DequantizeLinear", [value, *like.inputs[1:]], f"{value.name}_dequantized").outputs[0]
    made.shape, made.type = value.shape, ir.TensorType(ir.DataType.FLOAT)
    for at, read in enumerate(node.inputs):
        if read is value:
            node.replace_input_with(at, made)


def _read_raw(value: ir.Value) -> bool:
    """True if somebody reads the value as it is, before it is rounded."""
    return value.is_graph_output() or any(user.op_type != "QuantizeLinear" for user, _ in value.uses())


def _requantize(work: Work, node: ir.Node, value: ir.Value, like: ir.Node) -> None:
    """`value` becomes float; a QuantizeLinear after the node makes the integers under the old name."""
    after = ir.node("QuantizeLinear", [value, *like.inputs[1:]], name=work.fresh(f"{value.name}/quantize"))
    stored = after.outputs[0]
    stored.shape, stored.type = value.shape, value.type
    work.graph.insert_after(node, after)
    for user, index in list(value.uses()):
        if user is not after:
            user.replace_input_with(index, stored)
    for index, output in enumerate(list(work.graph.outputs)):
        if output is value:
            work.graph.outputs[index] = stored
    stored.name = value.name
    value.name, value.type = work.fresh(f"{value.name}_float"), ir.TensorType(ir.DataType.FLOAT)


def _weights(work: Work) -> int:
    """DequantizeLinear of a constant, and Q then DQ of one  ->  the float constant."""
    nodes = []
    for node in quantizers(work, "DequantizeLinear"):
        quantize = made_by(node.inputs[0], "QuantizeLinear")
        root = constant(node.inputs[0]) if quantize is None else constant(quantize.inputs[0])
        if root is not None and params_of(node)[0] is not None:
            nodes.append(node)
    arrays = evaluate(work, [node.outputs[0] for node in nodes]) if nodes else []
    if arrays is None:
        return 0
    for node, array in zip(nodes, arrays, strict=True):
        scale, zero = params_of(node)
        stored = node.inputs[0]
        axis = node.attributes.get("axis")
        assert scale is not None
        made = replace_by_constant(work, node.outputs[0], array)
        if stored is not None and stored.dtype is not None and "block_size" not in node.attributes:
            at = (axis.as_int() if axis is not None else 1) % max(1, array.ndim)
            work.quantized[made] = (scale, zero, stored.dtype.numpy().name, at)
        work.graph.remove(node, safe=True)
    return len(nodes)


def _pair(work: Work, node: ir.Node) -> bool:
    """One DequantizeLinear that reads a QuantizeLinear with the same parameters."""
    quantize = made_by(node.inputs[0], "QuantizeLinear")
    source = quantize.inputs[0] if quantize is not None else None
    if quantize is None or source is None or not same_params(quantize, node):
        return False
    fmt = format_of(node)
    implied = _implied_clip(work, source, fmt) if fmt is not None else None
    if implied is not None and fmt is not None:
        lo, hi = implied
        if math.isinf(hi):
            work.become(node, "Relu", [source])
        elif work.opset < 11:
            work.become(node, "Clip", [source], min=lo, max=hi)
        else:
            bounds = [work.add_constant(np.array(b, np.float32), f"{node.outputs[0].name}_bound") for b in (lo, hi)]
            work.become(node, "Clip", [source, *bounds])
        work.given[node.outputs[0]] = fmt
        return True
    others = [user for user, _ in source.uses() if user.op_type == "QuantizeLinear" and not same_params(user, quantize)]
    beside = _read_raw(source) or bool(others) or source in work.given
    if fmt is not None and beside and work.given.get(source) != fmt:
        work.become(node, "Identity", [source])
        work.given[node.outputs[0]] = fmt
        return True
    if not work.bypass(node.outputs[0], source):
        return False
    if fmt is not None:
        work.given[source] = fmt
    else:
        work.note(f"the file gives '{source.name}' a format that the device lacks: it is calibrated instead")
    work.graph.remove(node, safe=True)
    return True


def _implied_clip(work: Work, source: ir.Value, fmt: QFormat) -> tuple[float, float] | None:
    """(0, 6) or (0, inf) if the format alone does the work of a Relu6 or Relu that the file left out."""
    lowest, highest = (-128, 127) if fmt.kind == "int8" else (-32768, 32767)
    if made_by(source, *SIGNED) is None or fmt.zero_point != (lowest,):
        return None
    top = (highest - lowest) * fmt.scale[0]
    return 0.0, 6.0 if math.isclose(top, 6.0, rel_tol=1e-3) else math.inf


def _weight_formats(work: Work) -> None:
    """The given formats of constants. A weight may have passed through a Transpose or Reshape since it was stored."""
    through: list[tuple[ir.Node, ir.Value]] = []
    for node in work.nodes(*MACS):
        value = node.inputs[1]
        while value is not None and value not in work.quantized and (maker := made_by(value, *MOVED)) is not None:
            value = maker.inputs[0]
        if value is not None and value in work.quantized:
            through.append((node, value))
    if any(node.inputs[1] is not root for node, root in through):
        fold_constants(work)
    for node, root in through:
        scale, zero, dtype, _ = work.quantized[root]
        channels, weight = out_channels(node), node.inputs[1]
        if channels is None or weight is None or scale.size not in (1, channels) or dtype not in KINDS:
            continue
        fmt = make_format(np.broadcast_to(np.ravel(scale), (channels,)), np.zeros(1), "int8")
        shift = KINDS[dtype][1]
        if np.any(np.ravel(zero) != shift):
            work.note(f"the file gives weight '{weight.name}' a zero point: its scale is computed anew")
        elif fmt is not None and KINDS[dtype][0] == "int8":
            work.given[weight] = fmt
    weights = {root for _, root in through}
    for value, (scale, zero, dtype, _) in work.quantized.items():
        fmt = make_format(scale, zero, dtype) if scale.size == 1 else None
        if value not in weights and fmt is not None:
            work.given.setdefault(value, fmt)
