"""A pattern of ONNX nodes as text, and where it occurs in a graph.

A pattern is an ONNX function with one output. A node of it stands for a node of the same op with the same attributes,
defaults filled in; a constant of it for a constant with the same numbers; an input for any value, the same one
wherever it is read. Sums and products are read in both orders. What the match makes inside must be read by it alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from axtool.graph.passes.pattern_faults import fault_of
from axtool.graph.passes.work import constant
from axtool.graph.pattern_text import parsed
from axtool.ops.custom import CustomOp

COMMUTATIVE = frozenset({"Add", "Mul", "Max", "Min", "Sum", "And", "Or", "Xor", "Equal"})
RTOL = 1e-5  # exporters write constants in six digits and more


@dataclass(frozen=True)
class Pattern:
    """A parsed pattern: the function, the node behind each inner value, and its constants."""

    function: onnx.FunctionProto
    makers: Mapping[str, onnx.NodeProto]
    constants: Mapping[str, Any]

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(self.function.input)

    @property
    def output(self) -> onnx.NodeProto:
        """The node that makes the pattern's output."""
        return self.makers[self.function.output[0]]


@dataclass(frozen=True)
class Found:
    """An occurrence: the graph value that each input stands for, and the nodes it covers, the last one first."""

    inputs: Mapping[str, ir.Value]
    nodes: tuple[ir.Node, ...]


@cache
def read_pattern(op: CustomOp, opset: int = 17) -> Pattern:
    """The pattern of an op. ValueError, with what the parser says, for text that is none."""
    function = parsed(op.pattern, opset)
    if fault := fault_of(function):
        raise ValueError(fault)
    if op.body:
        body = parsed(op.body, opset)
        if (list(body.input), len(body.output)) != (list(function.input), 1):
            raise ValueError(f"body has the inputs {list(body.input)}, the pattern {list(function.input)}")
    makers = {name: node for node in function.node for name in node.output}
    values = {name: _value(node) for name, node in makers.items() if node.op_type == "Constant"}
    return Pattern(function, {n: node for n, node in makers.items() if n not in values}, values)


def find(pattern: Pattern, node: ir.Node) -> Found | None:
    """The occurrence of a pattern whose last node is `node`."""
    bound: dict[str, ir.Value] = {}
    nodes: dict[ir.Node, onnx.NodeProto] = {}
    if not _same_node(pattern, pattern.output, node, bound, nodes):
        return None
    inside = set(nodes)
    for one in nodes:
        if one is node:
            continue
        for value in one.outputs:
            if value.is_graph_output() or any(use.node not in inside for use in value.uses()):
                return None
    return Found(bound, tuple(nodes))


def _same_node(
    pattern: Pattern,
    want: onnx.NodeProto,
    node: ir.Node,
    bound: dict[str, ir.Value],
    nodes: dict[ir.Node, onnx.NodeProto],
) -> bool:
    """Whether a node is what the pattern says; `bound` and `nodes` grow where it is, and are as before where not."""
    if node in nodes:
        return nodes[node] is want
    domain = "" if want.domain == "ai.onnx" else want.domain
    if (node.op_type, node.domain) != (want.op_type, domain) or len(node.outputs) != len(want.output):
        return False
    if _attributes(want) != {name: _plain(attr.value) for name, attr in _explicit(node).items()}:
        return False
    given = list(node.inputs)
    while given and given[-1] is None:
        given.pop()
    if len(given) != len(want.input):
        return False
    orders = [given]
    if want.op_type in COMMUTATIVE and len(given) == 2 and domain == "":
        orders.append(given[::-1])
    for order in orders:
        was, had = dict(bound), dict(nodes)
        nodes[node] = want
        if all(_same_value(pattern, name, value, bound, nodes) for name, value in zip(want.input, order, strict=True)):
            return True
        for now, before in ((bound, was), (nodes, had)):
            now.clear()
            now.update(before)  # type: ignore[arg-type]
    return False


def _same_value(
    pattern: Pattern, name: str, value: ir.Value | None, bound: dict[str, ir.Value], nodes: dict[ir.Node, Any]
) -> bool:
    if not name or value is None:
        return not name and value is None
    if name in pattern.constants:
        array, want = constant(value), pattern.constants[name]
        if array is None or array.dtype.kind != want.dtype.kind or array.size != want.size:
            return False
        close = np.allclose(array.reshape(-1), want.reshape(-1), rtol=RTOL, atol=0)
        return bool(close) and (array.shape == want.shape or want.size == 1)
    if name in pattern.makers:
        maker = value.producer()
        place = list(pattern.makers[name].output).index(name)
        same = maker is not None and value is maker.outputs[place] if maker and place < len(maker.outputs) else False
        return same and maker is not None and _same_node(pattern, pattern.makers[name], maker, bound, nodes)
    return bound.setdefault(name, value) is value


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes that are not what they are by default."""
    values = {attr.name: _plain(onnx.helper.get_attribute_value(attr)) for attr in node.attribute}
    return _without_defaults(node.op_type, node.domain, values)


def _explicit(node: ir.Node) -> dict[str, ir.Attr]:
    kept = _without_defaults(node.op_type, node.domain, {n: _plain(a.value) for n, a in node.attributes.items()})
    return {name: attr for name, attr in node.attributes.items() if name in kept}


def _without_defaults(op: str, domain: str, values: Mapping[str, Any]) -> dict[str, Any]:
    defaults = _defaults(op, "" if domain == "ai.onnx" else domain)
    return {name: value for name, value in values.items() if name not in defaults or defaults[name] != value}


@cache
def _defaults(op: str, domain: str) -> dict[str, Any]:
    try:
        schema = onnx.defs.get_schema(op, domain=domain)
    except onnx.defs.SchemaError:
        return {}
    return {
        name: _plain(onnx.helper.get_attribute_value(attr.default_value))
        for name, attr in schema.attributes.items()
        if attr.default_value.name
    }


def _plain(value: Any) -> Any:
    """An attribute's value as something that compares: floats in float32, texts as str, lists as tuples."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, float):
        return float(np.float32(value))
    if isinstance(value, list | tuple):
        return tuple(_plain(one) for one in value)
    if hasattr(value, "numpy"):
        return (value.numpy().tobytes(), tuple(value.shape))
    if isinstance(value, onnx.TensorProto):
        array = onnx.numpy_helper.to_array(value)
        return (array.tobytes(), array.shape)
    return value


def _value(node: onnx.NodeProto) -> Any:
    attr = node.attribute[0]
    value = onnx.helper.get_attribute_value(attr)
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    kind = {"value_float": np.float32, "value_floats": np.float32}.get(attr.name, np.int64)
    return np.asarray(value, kind)
