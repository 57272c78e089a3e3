"""Which part of an output each input of a Concat makes."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from axtool.graph.parts import channel_axes, parts_of

CASES = {
    "a Concat": (
        "(float[1,2,4] a, float[1,3,4] b) => (float[1,5,4] y) { y = Concat <axis=1> (a, b) }", 1, ((0, 2), (2, 5)),
    ),
    "a negative axis": (
        "(float[1,2,4] a, float[1,2,5] b) => (float[1,2,9] y) { y = Concat <axis=-1> (a, b) }", 2, ((0, 4), (4, 9)),
    ),
    "a transposed Concat": (
        "(float[1,2,4] a, float[1,3,4] b) => (float[1,4,5] y) { c = Concat <axis=1> (a, b) "
        "y = Transpose <perm=[0,2,1]> (c) }", 2, ((0, 2), (2, 5)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_parts_of(name: str) -> None:
    graph, axis, spans = CASES[name]
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {graph}')
    model = ir.from_proto(onnx.shape_inference.infer_shapes(proto))
    parts = parts_of(model)["y"]
    assert [(part.name, part.axis) for part in parts] == [("a", axis), ("b", axis)]
    assert tuple((part.start, part.stop) for part in parts) == spans


@pytest.mark.parametrize(
    "graph",
    [
        "(float[1,2] a) => (float[1,2] y) { y = Relu(a) }",
        "(float[1,2] a) => (float[1,2] y) { y = Concat <axis=1> (a) }",
        "(float[1,2] a, float[1,2] b) => (float[1,4] y) { c = Concat <axis=1> (a, b) y = Relu(c) }",
    ],
)
def test_other_outputs_have_no_parts(graph: str) -> None:
    model = ir.from_onnx_text(f'<ir_version: 8, opset_import: ["": 17]> g {graph}')
    assert parts_of(model) == {}


@pytest.mark.parametrize(
    ("body", "axes"),
    [
        ("y = MaxPool <kernel_shape=[1,1]> (x)", {"y": 1}),
        ("a = MaxPool <kernel_shape=[1,1]> (x) y = Sigmoid(a)", {"y": 1}),
        ("y = Transpose <perm=[0,2,3,1]> (x)", {"y": 3}),
        ("a = MaxPool <kernel_shape=[1,1]> (x) b = Transpose <perm=[0,2,3,1]> (a) y = Sigmoid(b)", {"y": 3}),
        ("y = Relu(x)", {}),
    ],
)
def test_the_channels_are_where_the_graph_puts_them(body: str, axes: dict[str, int]) -> None:
    graph = f"(float[1,6,6,6] x) => (float[1,6,6,6] y) {{ {body} }}"
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {graph}')
    assert channel_axes(ir.from_proto(onnx.shape_inference.infer_shapes(proto))) == axes
