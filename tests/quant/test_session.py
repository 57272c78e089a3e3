"""What onnxruntime refuses in calibration is an error of ours, and nothing of its log is shown."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from axtool.errors import AxError, EnvironmentFault, UnsupportedError, UsageError
from axtool.host_errors import run_error, session_error, words
from axtool.quant.session import open_session


def model(node, shape=(1, 8, 6, 6), initializers=()):
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)) for name in ("a", "x")]
    relu = helper.make_node("Relu", ["a"], ["x"], name="relu")
    graph = helper.make_graph(
        [relu, node], "g", ends[:1], [onnx.ValueInfoProto(name="y")], list(initializers), value_info=ends[1:]
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return proto.SerializeToString()


def test_a_node_that_does_not_load_is_named(capfd):
    node = helper.make_node("AveragePool", ["x"], ["y"], name="pool", kernel_shape=[2, 2], auto_pad="BOGUS")
    with pytest.raises(UsageError, match=r"AveragePool 'pool'.*Unknown AutoPadType") as caught:
        open_session(model(node))
    assert caught.value.code == "float-model"
    assert capfd.readouterr().err == ""


def test_a_node_that_does_not_run_is_named(capfd):
    node = helper.make_node("DepthToSpace", ["x"], ["y"], name="shuffle", blocksize=3)
    session = open_session(model(node))
    with pytest.raises(UsageError, match=r"DepthToSpace 'shuffle'.*multiple") as caught:
        session.run(["y"], {"a": np.zeros((1, 8, 6, 6), np.float32)})
    assert caught.value.code == "float-run"
    assert capfd.readouterr().err == ""


def test_an_op_without_a_kernel_is_unsupported():
    node = helper.make_node("Nothing", ["x"], ["y"], name="odd")
    with pytest.raises(AxError, match="Nothing"):
        open_session(model(node))
    error = RuntimeError("[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : no kernel for Odd(1)")
    assert isinstance(session_error(error, "m"), UnsupportedError)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("std::bad_alloc"), RuntimeError("bad allocation")])
def test_onnxruntime_out_of_memory_is_the_environment(error):
    assert isinstance(run_error(error, "m"), EnvironmentFault)
    assert isinstance(session_error(error, "m"), EnvironmentFault)


def test_an_error_of_ours_stays_what_it_is():
    error = UnsupportedError("no")
    assert session_error(error, "m") is error
    assert run_error(error, "m") is error


def test_words_carry_no_source_positions():
    text = (
        "[ONNXRuntimeError] : 1 : FAIL : Exception during initialization: /a/b/upsamplebase.h:314 f(const T&) "
        "[ONNXRuntimeError] : 1 : FAIL : upsamplebase.h:540 ScalesValidation Scale value must be finite.\n"
    )
    assert words(RuntimeError(text)) == "Scale value must be finite."


def test_a_type_without_arrays_is_unsupported():
    error = run_error(RuntimeError("Numpy_type 256 can't be converted to MLDataType."), "m")
    assert isinstance(error, UnsupportedError)
    assert error.code == "element-type"
