"""A tensor that no machine holds, a doubled output and an endless name are refused when the model is read."""

import onnx
import pytest
from onnx import TensorProto, helper

from axtool.errors import FitError, UsageError
from axtool.graph.load import load_model


def write(path, nodes, outputs=("y",), initializers=(), size=(1, 3, 16, 16)):
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(size))]
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "g", ends, made, list(initializers))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_a_huge_middle_is_refused_even_where_the_output_is_small(tmp_path):
    scales = helper.make_tensor("s", TensorProto.FLOAT, [4], [1, 1, 1e6, 1e6])
    nodes = [
        helper.make_node("Resize", ["x", "", "s"], ["big"], name="up", mode="nearest"),
        helper.make_node("GlobalAveragePool", ["big"], ["y"]),
    ]
    with pytest.raises(FitError, match=r"Resize 'up' \(node 0\) makes 'big' of shape") as caught:
        load_model(write(tmp_path / "m.onnx", nodes, initializers=[scales]))
    assert caught.value.code == "tensor-too-large"


@pytest.mark.parametrize(("pad", "fits"), [(8185, True), (8186, False), (2_000_000_000, False)])
def test_the_most_is_2_gib_of_one_tensor_in_its_own_type(tmp_path, pad, fits):
    weights = helper.make_tensor("w", TensorProto.FLOAT, [2, 3, 3, 3], [0.0] * 54)
    pads = [pad, pad, pad, pad]
    path = write(
        tmp_path / "m.onnx", [helper.make_node("Conv", ["x", "w"], ["y"], name="c", pads=pads)], initializers=[weights]
    )
    side = 14 + 2 * pad
    if fits:
        assert list(load_model(path).model.graph.outputs[0].shape.numpy()) == [1, 2, side, side]
        return
    with pytest.raises(FitError, match="Conv 'c'") as caught:
        load_model(path)
    assert f"{4 * 2 * side**2:,} bytes, the most is {2**31:,}" in str(caught.value)


def test_a_doubled_output_is_refused_with_both_places(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Sigmoid", ["x"], ["z"])]
    path = write(tmp_path / "m.onnx", nodes, outputs=("y", "z", "y"))
    with pytest.raises(UsageError, match="output 'y' is declared 2 times: outputs 0, 2") as caught:
        load_model(path)
    assert caught.value.code == "duplicate-value"


@pytest.mark.parametrize(("length", "fits"), [(4000, True), (4001, False)])
def test_a_name_has_a_most_length(tmp_path, length, fits):
    name = "n" * length
    path = write(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], [name])], outputs=(name,))
    if fits:
        assert load_model(path).model.graph.outputs[0].name == name
        return
    with pytest.raises(UsageError, match="4001 characters") as caught:
        load_model(path)
    assert caught.value.code == "bad-name"
