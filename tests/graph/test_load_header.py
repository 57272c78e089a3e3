"""IR versions, opsets and op names: what is too old, too new, missing or unknown."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from axtool.graph.load import load_model
from axtool.graph.passes import clean
from tests.graph.load_models import model, node, refusal, save, says, value

NEWEST = onnx.defs.onnx_opset_version()


@pytest.mark.parametrize("opset", [7, 13, NEWEST])
def test_every_opset_from_7_to_the_newest_loads(tmp_path: Path, opset: int) -> None:
    assert load_model(save(tmp_path, model([node("Relu", ["x"], ["y"])], opset=opset))).opset == opset


@pytest.mark.parametrize("opset", [6, NEWEST + 1, 99])
def test_an_opset_outside_the_range_is_unsupported(tmp_path: Path, opset: int) -> None:
    error = refusal(save(tmp_path, model([node("Relu", ["x"], ["y"])], opset=opset)))
    says(error, 3, "opset", f"opset {opset}; axtool supports 7..{NEWEST}")


@pytest.mark.parametrize("version", [1, 2, onnx.IR_VERSION + 1, 99])
def test_an_ir_version_outside_the_range_is_unsupported(tmp_path: Path, version: int) -> None:
    error = refusal(save(tmp_path, model([node("Relu", ["x"], ["y"])], ir=version)))
    says(error, 3, "ir-version", str(version), "re-export", "ir_version")


def test_a_missing_ir_version_is_an_error_of_the_file(tmp_path: Path) -> None:
    proto = model([node("Relu", ["x"], ["y"])])
    proto.ClearField("ir_version")
    says(refusal(save(tmp_path, proto)), 2, "no-ir-version")


def test_a_missing_opset_is_named(tmp_path: Path) -> None:
    proto = model([node("Relu", ["x"], ["y"])])
    del proto.opset_import[:]
    says(refusal(save(tmp_path, proto)), 2, "no-opset", "model declares no opset for domain ai.onnx")


def test_the_missing_opset_of_another_domain_is_named(tmp_path: Path) -> None:
    proto = model([node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", scale=[1.0], offset=[0.0])])
    says(refusal(save(tmp_path, proto)), 2, "no-opset", "ai.onnx.ml")


def test_the_long_name_of_the_default_domain_is_the_default_domain(tmp_path: Path) -> None:
    proto = model([node("Relu", ["x"], ["y"], domain="ai.onnx")])
    proto.opset_import[0].domain = "ai.onnx"
    loaded = load_model(save(tmp_path, proto))
    assert [n.domain for n in loaded.model.graph] == [""]


def test_unknown_ops_are_all_listed_with_counts_and_nodes(tmp_path: Path) -> None:
    nodes = [
        node("FooBar", ["x"], ["a"], name="first"),
        node("Relu", ["a"], ["b"]),
        node("FooBar", ["b"], ["c"], name="second"),
        node("BiasGelu", ["c", "c"], ["y"], name="third", domain="com.microsoft"),
    ]
    error = refusal(save(tmp_path, model(nodes, domains={"com.microsoft": 1})))
    says(error, 3, "unsupported-op", "FooBar ×2", "first", "second", "com.microsoft::BiasGelu ×1", "third")
    assert len(error.details) == 2


def test_a_quantized_op_of_onnxruntime_loads_and_becomes_a_float_op(tmp_path: Path) -> None:
    step = ["s", "z"]
    nodes = [
        node("QuantizeLinear", ["x", *step], ["q"]),
        node("QLinearAdd", ["q", *step, "q", *step, *step], ["a"], domain="com.microsoft"),
        node("DequantizeLinear", ["a", *step], ["y"]),
    ]
    weights = {"s": np.float32(0.5), "z": np.uint8(100)}
    loaded = load_model(save(tmp_path, model(nodes, weights=weights, domains={"com.microsoft": 1})))
    assert [n.op_type for n in clean(loaded.model).model.graph] == ["Add"]


def test_a_misspelt_op_gets_its_nearest_name(tmp_path: Path) -> None:
    says(refusal(save(tmp_path, model([node("Sigmoidd", ["x"], ["y"])]))), 3, "unsupported-op", "did you mean Sigmoid?")


def test_an_unknown_op_in_a_branch_is_found(tmp_path: Path) -> None:
    branch = onnx.helper.make_graph([node("FooBar", ["x"], ["b"], name="deep")], "b", [], [value("b", None)])
    choose = node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    proto = model([choose], [value("x"), value("c", [], onnx.TensorProto.BOOL)])
    says(refusal(save(tmp_path, proto)), 3, "unsupported-op", "deep")


def test_an_op_newer_than_the_declared_opset_names_both(tmp_path: Path) -> None:
    error = refusal(save(tmp_path, model([node("Gelu", ["x"], ["y"], name="act")], opset=13)))
    says(error, 2, "op-needs-newer-opset", "Gelu needs opset 20", "act", "declares opset 13", "--permissive")


def test_permissive_reads_a_newer_op_as_in_its_own_opset(tmp_path: Path) -> None:
    loaded = load_model(save(tmp_path, model([node("Gelu", ["x"], ["y"])], opset=13)), permissive=True)
    assert loaded.model.opset_imports[""] == 20
    assert "Gelu needs opset 20" in loaded.warnings[0]


def test_permissive_converts_the_ops_that_changed_on_the_way(tmp_path: Path) -> None:
    nodes = [node("Squeeze", ["x"], ["a"], axes=[0]), node("Gelu", ["a"], ["y"])]
    loaded = load_model(save(tmp_path, model(nodes, opset=11)), permissive=True)
    squeeze = next(n for n in loaded.model.graph if n.op_type == "Squeeze")
    assert len(squeeze.inputs) == 2  # axes became an input in opset 13


def test_a_removed_op_names_the_opset_that_removed_it(tmp_path: Path) -> None:
    proto = model([node("Upsample", ["x", "s"], ["y"], name="up")], weights={"s": np.float32([1, 2])}, opset=13)
    says(refusal(save(tmp_path, proto)), 2, "op-removed", "Upsample was removed in opset 10", "up", "13")


def test_random_ops_are_flagged(tmp_path: Path) -> None:
    nodes = [node("RandomNormalLike", ["x"], ["n"], name="noise"), node("Add", ["x", "n"], ["y"])]
    loaded = load_model(save(tmp_path, model(nodes)))
    assert loaded.random_ops == ("RandomNormalLike 'noise' (node 0)",)


def test_dropout_in_training_mode_is_random_and_otherwise_not(tmp_path: Path) -> None:
    nodes = [node("Dropout", ["x", "r", "t"], ["a"], name="hot"), node("Dropout", ["a", "r"], ["y"], name="cold")]
    loaded = load_model(save(tmp_path, model(nodes, weights={"r": np.float32(0.5), "t": True})))
    assert [text.split("'")[1] for text in loaded.random_ops] == ["hot"]
