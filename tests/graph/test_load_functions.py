"""Local functions: inlined, each call with names of its own; those that cannot be are refused."""

from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from axtool.graph.float_run import FloatModel
from axtool.graph.load import load_model
from tests.graph.load_models import model, node, refusal, save, says

SILU = [node("Sigmoid", ["a"], ["s"]), node("Mul", ["a", "s"], ["b"])]


def function(body: list[onnx.NodeProto], opset: int = 17, name: str = "Act") -> onnx.FunctionProto:
    return helper.make_function("my", name, ["a"], ["b"], body, [helper.make_opsetid("", opset)])


def calling(*functions: onnx.FunctionProto, opset: int = 17) -> onnx.ModelProto:
    nodes = [node("Act", ["x"], ["m"], domain="my"), node("Act", ["m"], ["y"], domain="my")]
    return model(nodes, domains={"my": 1}, functions=functions, ir=9, opset=opset)


def test_calls_become_nodes_with_names_of_their_own(tmp_path: Path) -> None:
    loaded = load_model(save(tmp_path, calling(function(SILU))))
    assert [n.op_type for n in loaded.model.graph] == ["Sigmoid", "Mul", "Sigmoid", "Mul"]
    assert len({v.name for n in loaded.model.graph for v in n.outputs}) == 4
    assert not loaded.model.functions


def test_an_inlined_function_computes_the_same(tmp_path: Path) -> None:
    x = np.float32([[-1, 0, 2]])
    once = x / (1 + np.exp(-x))
    result = FloatModel(load_model(save(tmp_path, calling(function(SILU)))).model).run({"x": x})["y"]
    np.testing.assert_allclose(result, once / (1 + np.exp(-once)), rtol=1e-5)


def test_a_function_that_calls_itself_is_refused(tmp_path: Path) -> None:
    says(refusal(save(tmp_path, calling(function([node("Act", ["a"], ["b"], domain="my")])))), 2, "bad-function", "Act")


def test_an_unknown_op_inside_a_function_is_found(tmp_path: Path) -> None:
    body = [node("FooBar", ["a"], ["b"], name="deep")]
    says(refusal(save(tmp_path, calling(function(body)))), 3, "unsupported-op", "FooBar", "deep", "function Act")


def test_a_tensor_missing_inside_a_function_is_found(tmp_path: Path) -> None:
    body = [node("Mul", ["a", "ghost"], ["b"])]
    says(refusal(save(tmp_path, calling(function(body)))), 2, "undefined-input", "ghost", "function Act")


def test_a_function_in_a_newer_opset_raises_the_model_to_it(tmp_path: Path) -> None:
    loaded = load_model(save(tmp_path, calling(function([node("Gelu", ["a"], ["b"])], 20))))
    assert loaded.model.opset_imports[""] == 20


def test_a_function_in_an_older_opset_is_fine_where_its_ops_mean_the_same(tmp_path: Path) -> None:
    loaded = load_model(save(tmp_path, calling(function(SILU, 13))))
    assert [n.op_type for n in loaded.model.graph] == ["Sigmoid", "Mul", "Sigmoid", "Mul"]


def test_a_function_in_an_opset_where_its_ops_differ_is_unsupported_by_name(tmp_path: Path) -> None:
    body = [node("Unsqueeze", ["a"], ["u"], axes=[0]), node("Squeeze", ["u"], ["b"], axes=[0])]
    error = refusal(save(tmp_path, calling(function(body, 11))))
    says(error, 3, "function-opset", "my::Act", "opset 11", "Unsqueeze, Squeeze")


def test_an_attribute_of_the_call_reaches_the_body(tmp_path: Path) -> None:
    leaky = node("LeakyRelu", ["a"], ["b"])
    leaky.attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    body = function([leaky])
    body.attribute.append("slope")
    call = node("Act", ["x"], ["y"], domain="my", slope=0.25)
    loaded = load_model(save(tmp_path, model([call], domains={"my": 1}, functions=[body], ir=9)))
    assert [n.attributes["alpha"].as_float() for n in loaded.model.graph] == [0.25]
