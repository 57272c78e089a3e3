"""Nodes whose inputs do not fit together, each with both sides of the contradiction."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from axtool.graph.load import load_model
from tests.graph.load_models import FLOAT16, INT64, model, node, refusal, save, says, value

CONV = [node("Conv", ["x", "w"], ["y"], name="stem")]


def ones(*shape: int, dtype: Any = np.float32) -> Any:
    return np.ones(shape, dtype)


def test_a_channel_mismatch_gives_both_counts_and_suspects_nhwc(tmp_path: Path) -> None:
    proto = model(CONV, [value("x", [1, 8, 8, 3])], weights={"w": ones(4, 3, 3, 3)})
    error = refusal(save(tmp_path, proto))
    says(error, 2, "channel-mismatch", "stem: input has 8 channels, weight needs 3; input looks NHWC")


def test_a_mismatch_that_no_layout_explains_does_not_speak_of_one(tmp_path: Path) -> None:
    error = refusal(save(tmp_path, model(CONV, [value("x", [1, 5, 8, 8])], weights={"w": ones(4, 3, 3, 3)})))
    assert "NHWC" not in str(error)


@pytest.mark.parametrize(
    ("nodes", "shape", "weights", "word"),
    [
        ([node("Conv", ["x", "w"], ["y"], group=2)], [1, 4, 5, 5], {"w": ones(4, 3, 3, 3)}, "weight needs 6"),
        ([node("Conv", ["x", "w"], ["y"], group=2)], [1, 4, 5, 5], {"w": ones(3, 2, 3, 3)}, "2 groups"),
        ([node("Conv", ["x", "w", "b"], ["y"])], [1, 3, 5, 5], {"w": ones(4, 3, 1, 1), "b": ones(5)}, "bias"),
        ([node("Conv", ["x", "w"], ["y"])], [1, 3, 5], {"w": ones(4, 3, 3, 3)}, "3 axes, weight needs 4"),
        ([node("ConvTranspose", ["x", "w"], ["y"])], [1, 4, 5, 5], {"w": ones(3, 2, 2, 2)}, "weight needs 3"),
        (
            [node("BatchNormalization", ["x", "s", "s", "s", "s"], ["y"])], [1, 4, 5, 5], {"s": ones(3)},
            "input has 4 channels, scale has shape [3]",
        ),
    ],
)  # fmt: skip
def test_weights_that_do_not_fit_are_told_apart(
    tmp_path: Path, nodes: list[onnx.NodeProto], shape: list[int], weights: dict[str, Any], word: str
) -> None:
    error = refusal(save(tmp_path, model(nodes, [value("x", shape)], weights=weights)))
    says(error, 2, "channel-mismatch", word)


def test_all_mismatched_nodes_are_listed(tmp_path: Path) -> None:
    nodes = [node("Conv", ["x", "w"], ["a"], name="one"), node("Conv", ["x", "w"], ["y"], name="two")]
    error = refusal(save(tmp_path, model(nodes, [value("x", [1, 5, 8, 8])], weights={"w": ones(4, 3, 3, 3)})))
    assert [line.split(":")[0] for line in error.details] == ["one", "two"]


@pytest.mark.parametrize("index", [5, -4])
def test_a_constant_gather_index_outside_its_axis_is_named(tmp_path: Path, index: int) -> None:
    proto = model(
        [node("Gather", ["x", "i"], ["y"], name="pick", axis=0)], [value("x", [3, 4])], weights={"i": [index]}
    )
    says(refusal(save(tmp_path, proto)), 2, "index-out-of-range", "pick", f"index {index}", "axis 0", "size 3")


@pytest.mark.parametrize("index", [2, -3])
def test_the_last_gather_index_on_either_side_is_fine(tmp_path: Path, index: int) -> None:
    proto = model([node("Gather", ["x", "i"], ["y"])], [value("x", [3, 4])], weights={"i": [index]})
    assert len(load_model(save(tmp_path, proto)).model.graph) == 1


@pytest.mark.parametrize(
    "pick",
    [node("GatherElements", ["x", "i"], ["y"], axis=1), node("GatherND", ["x", "i"], ["y"])],
)
def test_the_other_gathers_are_checked_too(tmp_path: Path, pick: onnx.NodeProto) -> None:
    proto = model([pick], [value("x", [2, 4])], weights={"i": np.int64([[1, 9]])})
    says(refusal(save(tmp_path, proto)), 2, "index-out-of-range", "index 9", "axis 1")


@pytest.mark.parametrize("shape", [[2, 2], [0, 2], [-1, 2], [3, 0, 2, -1, 0]])
def test_a_reshape_to_another_number_of_elements_gives_both_shapes(tmp_path: Path, shape: list[int]) -> None:
    proto = model([node("Reshape", ["x", "s"], ["y"], name="flat")], weights={"s": shape})
    says(refusal(save(tmp_path, proto)), 2, "reshape-mismatch", "flat", str(shape), "[1, 3]")


@pytest.mark.parametrize("shape", [[3], [-1], [0, -1], [3, 1, 1], [0, 0]])
def test_a_reshape_that_fits_is_fine(tmp_path: Path, shape: list[int]) -> None:
    proto = model([node("Reshape", ["x", "s"], ["y"])], weights={"s": shape})
    assert len(load_model(save(tmp_path, proto)).model.graph) == 1


def test_mixed_float_types_give_the_node_and_both_types(tmp_path: Path) -> None:
    proto = model(CONV, [value("x", [1, 3, 4, 4])], weights={"w": ones(2, 3, 1, 1, dtype=np.float16)})
    says(refusal(save(tmp_path, proto)), 2, "mixed-types", "stem", "float32", "float16", "--fix-fp16")


def test_fix_fp16_casts_the_narrower_input_and_warns(tmp_path: Path) -> None:
    proto = model(CONV, [value("x", [1, 3, 4, 4])], weights={"w": ones(2, 3, 1, 1, dtype=np.float16)})
    loaded = load_model(save(tmp_path, proto), fix_fp16=True)
    assert [n.op_type for n in loaded.model.graph] == ["Cast", "Conv"]
    assert loaded.model.graph.outputs[0].dtype == onnx.TensorProto.FLOAT
    assert "stem" in loaded.warnings[0]


def test_fix_fp16_keeps_the_declared_type_of_an_output(tmp_path: Path) -> None:
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["y"])]
    proto = model(nodes, [value("x", [1, 3], FLOAT16)], [value("y", [1, 2], FLOAT16)], {"w": ones(3, 2)})
    loaded = load_model(save(tmp_path, proto), fix_fp16=True)
    assert [(v.name, v.dtype) for v in loaded.model.graph.outputs] == [("y", FLOAT16)]
    assert [n.op_type for n in loaded.model.graph] == ["Cast", "MatMul", "Relu", "Cast"]


def test_fix_fp16_does_not_mend_integers(tmp_path: Path) -> None:
    proto = model([node("Add", ["x", "w"], ["y"])], [value("x", [3], INT64)], weights={"w": np.int32([1, 2, 3])})
    says(refusal(save(tmp_path, proto), fix_fp16=True), 2, "mixed-types", "int64", "int32")


def test_a_type_that_the_op_has_not_is_refused(tmp_path: Path) -> None:
    proto = model(CONV, [value("x", [1, 3, 4, 4], INT64)], weights={"w": ones(2, 3, 1, 1, dtype=np.int64)})
    says(refusal(save(tmp_path, proto)), 2, "shape-inference", "stem", "int64")


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Add", ["x", "w"], ["y"], name="it")],
        [node("MatMul", ["x", "w"], ["y"], name="it")],
        [node("Gemm", ["x", "w"], ["y"], name="it")],
    ],
)
def test_shapes_that_do_not_fit_name_the_node_and_its_inputs(tmp_path: Path, nodes: list[onnx.NodeProto]) -> None:
    error = refusal(save(tmp_path, model(nodes, weights={"w": ones(4, 2)})))
    says(error, 2, "shape-inference", "'it'", "node 0", "x [1,3]", "w [4,2]")


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        (node("Concat", ["x", "x"], ["y"], name="it"), "axis"),
        (node("Relu", ["x"], ["y"], name="it", extra=3), "extra"),
        (node("LeakyRelu", ["x"], ["y"], name="it", alpha="a"), "alpha"),
        (node("Relu", ["x", "x"], ["y"], name="it"), "Relu"),
        (node("Conv", ["x"], ["y"], name="it"), "Conv"),
        (node("DepthToSpace", ["x"], ["y"], name="it"), "blocksize"),
        (node("Softmax", ["x"], ["y"], name="it", axis=2**31), "axis"),
        (node("MaxPool", ["x"], ["y"], name="it", kernel_shape=[0, 2]), "kernel_shape"),
        (node("MaxPool", ["x"], ["y"], name="it", kernel_shape=[2, 2], auto_pad=b"SAME\xff"), "auto_pad"),
        (node("Split", ["x"], ["y", "z"], name="it", num_outputs=3), "num_outputs"),
        (node("MaxPool", ["x"], ["y"], name="it", kernel_shape=[2, 2], auto_pad="SAME"), "SAME_UPPER"),
        (node("AveragePool", ["x"], ["y"], name="it", kernel_shape=[2, 2], dilations=[2, 2]), "dilations"),
        (node("DepthToSpace", ["x"], ["y"], name="it", blocksize=2, mode="ABC"), "DCR, CRD"),
        (node("Resize", ["x", "", "k"], ["y"], name="it", mode="lanczos"), "nearest, linear"),
    ],
)
def test_a_node_that_breaks_its_definition_is_named(tmp_path: Path, wrong: onnx.NodeProto, word: str) -> None:
    says(refusal(save(tmp_path, model([wrong], opset=18))), 2, "invalid-model", "it", word)


def test_an_empty_word_is_the_default(tmp_path: Path) -> None:
    pool = node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], auto_pad="")
    assert load_model(save(tmp_path, model([pool], [value("x", [1, 1, 4, 4])])))


@pytest.mark.parametrize(
    ("make", "kind"),
    [(onnx.helper.make_optional_type_proto, "an optional value"), (onnx.helper.make_sequence_type_proto, "a sequence")],
)
def test_an_input_that_is_no_tensor_is_told_in_words(
    tmp_path: Path, make: Callable[[onnx.TypeProto], onnx.TypeProto], kind: str
) -> None:
    held = make(onnx.helper.make_tensor_type_proto(1, [1]))
    odd = model([node("Identity", ["x"], ["y"])], [onnx.helper.make_value_info("x", held)])
    says(refusal(save(tmp_path, odd)), 3, "input-type", f"is {kind}, not a tensor")


def test_an_attribute_of_two_types_is_refused(tmp_path: Path) -> None:
    wrong = node("LeakyRelu", ["x"], ["y"], name="it", alpha=0.5)
    wrong.attribute[0].type = onnx.AttributeProto.INTS
    says(refusal(save(tmp_path, model([wrong], opset=18))), 2, "invalid-model", "it", "alpha")


def test_an_attribute_that_names_no_type_gets_that_of_its_value(tmp_path: Path) -> None:
    odd = node("LeakyRelu", ["x"], ["y"], alpha=0.5)
    odd.attribute[0].ClearField("type")
    (relu,) = load_model(save(tmp_path, model([odd]))).model.graph
    assert relu.attributes["alpha"].as_float() == 0.5


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Reshape", ["x", "k"], ["y"], name="it")],
        [node("ConstantOfShape", ["k"], ["y"], name="it")],
        [node("Expand", ["x", "k"], ["y"], name="it")],
    ],
)
def test_a_shape_that_no_memory_holds_is_refused_at_once(tmp_path: Path, nodes: list[onnx.NodeProto]) -> None:
    error = refusal(save(tmp_path, model(nodes, weights={"k": [2**20, 2**20]})))
    says(error, 2, "invalid-model", "it", str(2**20))


@pytest.mark.parametrize("shape", [[3], [3, 5, 5]])
def test_a_batch_norm_over_each_value_is_unsupported_by_name(tmp_path: Path, shape: list[int]) -> None:
    norm = node("BatchNormalization", ["x", "a", "a", "a", "a"], ["y"], name="bn", spatial=0)
    net = model([norm], [value("x", [1, 3, 5, 5])], weights={"a": ones(*shape)}, opset=8)
    says(refusal(save(tmp_path, net)), 3, "batchnorm-spatial", "'bn' (node 0)", "spatial=0", "one for each channel")


def test_a_batch_norm_over_each_value_of_a_row_is_one_over_each_channel(tmp_path: Path) -> None:
    norm = node("BatchNormalization", ["x", "a", "a", "a", "a"], ["y"], name="bn", spatial=0)
    net = model([norm], [value("x", [1, 3])], weights={"a": ones(3)}, opset=8)
    assert load_model(save(tmp_path, net)).opset == 8
