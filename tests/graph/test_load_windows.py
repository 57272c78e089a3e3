"""Sizes of windows are those that onnxruntime makes, where onnx's own inference counts one more or loses an axis."""

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper

from axtool.graph.load_infer import infer_shapes, skeleton
from axtool.graph.load_windows import correct_windows

CASES = [
    ("MaxPool", 12, [7, 12], {"kernel_shape": [3, 1], "strides": [1, 2], "pads": [0, 0, 2, 0], "ceil_mode": 1}),
    ("MaxPool", 12, [6, 8], {"kernel_shape": [1, 4], "strides": [2, 3], "pads": [0, 1, 0, 3], "ceil_mode": 1}),
    ("AveragePool", 19, [6, 7], {"kernel_shape": [1, 2], "strides": [3, 3], "pads": [0, 1, 0, 1], "ceil_mode": 1}),
    ("AveragePool", 11, [5, 6], {"kernel_shape": [2, 2], "strides": [3, 3], "ceil_mode": 1, "count_include_pad": 1}),
    ("MaxPool", 13, [8, 9], {"kernel_shape": [3, 3], "strides": [2, 2], "dilations": [2, 1], "auto_pad": "SAME_UPPER"}),
    ("LpPool", 18, [8, 9], {"kernel_shape": [3, 2], "strides": [2, 2], "dilations": [2, 2], "auto_pad": "SAME_LOWER"}),
    ("ConvTranspose", 13, [6, 3], {"strides": [4, 4], "output_padding": [1, 1], "auto_pad": "SAME_UPPER"}),
    ("ConvTranspose", 13, [9, 10], {"strides": [1, 1], "dilations": [2, 1], "output_shape": [7, 7]}),
]


def model(op, opset, size, attrs):
    inputs, weights = ["x"], []
    if op == "ConvTranspose":
        inputs.append("w")
        weights = [onnx.numpy_helper.from_array(np.ones((2, 2, 3, 3), np.float32), "w")]
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, *size]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
    ]
    nodes = [helper.make_node(op, inputs, ["p"], **attrs), helper.make_node("Relu", ["p"], ["y"])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize(("op", "opset", "size", "attrs"), CASES)
def test_a_window_has_the_size_that_onnxruntime_makes(op, opset, size, attrs):
    proto = model(op, opset, size, attrs)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    made = session.run(None, {"x": np.zeros((1, 2, *size), np.float32)})[0].shape
    inferred = infer_shapes(ir.serde.deserialize_model(proto))
    assert tuple(inferred.graph.outputs[0].shape.numpy()) == made


def test_the_model_keeps_its_node():
    loaded = infer_shapes(ir.serde.deserialize_model(model(*CASES[1])))
    assert loaded.graph[0].attributes["ceil_mode"].as_int() == 1


def test_sizes_that_agree_change_nothing():
    loaded = infer_shapes(ir.serde.deserialize_model(model("MaxPool", 13, [6, 6], {"kernel_shape": [2, 2]})))
    proto = skeleton(loaded)
    before = proto.SerializeToString()
    assert not correct_windows(loaded, proto)
    assert proto.SerializeToString() == before
