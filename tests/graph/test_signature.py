"""What enters and leaves a compiled model is an array of a type that NumPy has."""

import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from axtool.errors import UnsupportedError
from axtool.graph.signature import check_ends


def model(before=TensorProto.FLOAT, after=TensorProto.FLOAT, output=None):
    x = helper.make_tensor_value_info("x", before, [1, 3])
    y = output or helper.make_tensor_value_info("y", after, [1, 3])
    graph = helper.make_graph([helper.make_node("Cast", ["x"], ["y"], to=after)], "g", [x], [y])
    return ir.serde.deserialize_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))


@pytest.mark.parametrize("name", ["BFLOAT16", "FLOAT8E4M3FN", "INT4", "UINT4", "COMPLEX64"])
@pytest.mark.parametrize("end", ["input", "output"])
def test_an_end_of_a_type_that_numpy_lacks_is_unsupported(name, end):
    dtype = getattr(TensorProto, name)
    with pytest.raises(UnsupportedError, match=f"{end} '[xy]' is {name.lower()}") as caught:
        check_ends(model(dtype) if end == "input" else model(after=dtype), "m.onnx")
    assert caught.value.code == "element-type"


def test_strings_may_go_in_but_not_out():
    check_ends(model(TensorProto.STRING), "m.onnx")
    with pytest.raises(UnsupportedError, match="output 'y' is string"):
        check_ends(model(after=TensorProto.STRING), "m.onnx")


def test_an_output_that_is_a_sequence_is_unsupported():
    sequence = onnx.helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)
    with pytest.raises(UnsupportedError, match="output 'y' is a sequence"):
        check_ends(model(output=sequence), "m.onnx")


@pytest.mark.parametrize("name", ["FLOAT", "FLOAT16", "DOUBLE", "BOOL", "INT64", "UINT8"])
def test_types_that_numpy_has_pass(name):
    check_ends(model(getattr(TensorProto, name), getattr(TensorProto, name)), "m.onnx")
