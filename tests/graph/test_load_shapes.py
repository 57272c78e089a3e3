"""Inferred shapes, against what the file says of them."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from axtool.graph.load import infer_shapes, load_model
from axtool.graph.load_infer import merged
from tests.graph.load_models import FLOAT, INT64, model, node, refusal, save, says, value

POOL = [node("MaxPool", ["x"], ["m"], kernel_shape=[2, 2], strides=[2, 2]), node("Relu", ["m"], ["y"])]
IMAGE = [value("x", [1, 2, 8, 8])]


def shapes(loaded_model: ir.Model) -> dict[str | None, tuple[int, ...]]:
    return {v.name: tuple(v.shape.numpy()) for n in loaded_model.graph for v in n.outputs if v.shape is not None}


def test_an_output_without_a_shape_gets_one(tmp_path: Path) -> None:
    assert shapes(load_model(save(tmp_path, model(POOL, IMAGE))).model)["y"] == (1, 2, 4, 4)


def test_a_stale_shape_is_dropped_with_one_warning_that_names_it(tmp_path: Path) -> None:
    proto = model(POOL, IMAGE, [value("y", [1, 2, 3, 3])])
    proto.graph.value_info.append(value("m", [1, 2, 7, 7]))
    loaded = load_model(save(tmp_path, proto))
    assert shapes(loaded.model) == {"m": (1, 2, 4, 4), "y": (1, 2, 4, 4)}
    (warning,) = loaded.warnings
    assert "m (says [1,2,7,7], is [1,2,4,4])" in warning
    assert "y (says [1,2,3,3]" in warning


def test_a_right_shape_is_no_reason_to_warn(tmp_path: Path) -> None:
    proto = model(POOL, IMAGE, [value("y", ["n", 2, 4, None])])
    proto.graph.value_info.append(value("m", [1, 2, 4, 4]))
    assert load_model(save(tmp_path, proto)).warnings == ()


def test_a_wrong_output_type_is_corrected_with_a_warning(tmp_path: Path) -> None:
    proto = model([node("Cast", ["x"], ["y"], to=INT64)], outputs=[value("y", [1, 3])])
    loaded = load_model(save(tmp_path, proto))
    assert loaded.model.graph.outputs[0].dtype == INT64
    assert "says FLOAT, is INT64" in loaded.warnings[0]


def loop() -> onnx.NodeProto:
    body = onnx.helper.make_graph(
        [node("Identity", ["c"], ["c2"]), node("Relu", ["v"], ["v2"])],
        "body",
        [value("i", [], INT64), value("c", [], onnx.TensorProto.BOOL), value("v", None)],
        [value("c2", [], onnx.TensorProto.BOOL), value("v2", None)],
    )
    return node("Loop", ["n", "", "x"], ["m"], body=body)


def test_where_inference_is_silent_a_static_shape_of_the_file_counts(tmp_path: Path) -> None:
    proto = model([loop(), node("Relu", ["m"], ["y"])], IMAGE, weights={"n": 3})
    proto.graph.value_info.append(value("m", [1, 2, 8, 8]))
    assert shapes(load_model(save(tmp_path, proto)).model)["m"] == (1, 2, 8, 8)


def test_such_a_shape_does_not_count_once_an_input_shape_was_changed(tmp_path: Path) -> None:
    proto = model([loop(), node("Relu", ["m"], ["y"])], [value("x", ["n", 2, 8, 8])], weights={"n": 3})
    proto.graph.value_info.append(value("m", [1, 2, 8, 8]))
    loaded = load_model(save(tmp_path, proto), input_shapes={"x": [2, 2, 8, 8]})
    assert shapes(loaded.model).get("m") != (1, 2, 8, 8)


def test_a_shape_computed_from_a_shape_is_inferred(tmp_path: Path) -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Concat", ["n", "rest"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["y"]),
    ]
    loaded = load_model(save(tmp_path, model(nodes, IMAGE, weights={"zero": [0], "rest": [2, 64]})))
    assert shapes(loaded.model)["y"] == (1, 2, 64)


def test_permissive_goes_on_where_inference_gives_up(tmp_path: Path) -> None:
    path = save(tmp_path, model([node("Add", ["x", "w"], ["y"], name="it")], weights={"w": np.ones(4, np.float32)}))
    says(refusal(path), 2, "shape-inference", "'it'")
    assert any("'it'" in warning for warning in load_model(path, permissive=True).warnings)


def test_inferring_again_replaces_shapes_that_a_pass_made_wrong(tmp_path: Path) -> None:
    loaded = load_model(save(tmp_path, model(POOL, IMAGE)))
    loaded.model.graph.inputs[0].shape = ir.Shape([1, 2, 16, 16])
    assert shapes(infer_shapes(loaded.model)) == {"m": (1, 2, 8, 8), "y": (1, 2, 8, 8)}


def test_inference_leaves_the_weights_where_they_are(tmp_path: Path) -> None:
    nodes = [node("MatMul", ["x", "w"], ["y"])]
    loaded = load_model(
        save(tmp_path, model(nodes, [value("x", [1, 99])], weights={"w": np.ones((99, 99), np.float32)}))
    )
    infer_shapes(loaded.model)
    assert [v.name for v in loaded.model.graph.inputs] == ["x"]
    assert loaded.model.graph.initializers["w"].const_value is not None


@pytest.mark.parametrize(
    ("old", "new", "result"),
    [
        ([1, 2], None, [1, 2]),
        (None, [1, 2], [1, 2]),
        ([1, 2], [1, 3], [1, 3]),
        ([1, 2], [1, "n"], [1, 2]),
        ([1, 2], ["m", "n"], [1, 2]),
        ([5, 2], [1, "n"], [1, "n"]),
        ([1], [1, "n"], [1, "n"]),
    ],
)
def test_an_old_shape_fills_what_the_new_one_leaves_open(
    old: list[int] | None, new: list[int | str] | None, result: list[int | str]
) -> None:
    shape = merged(None if old is None else ir.Shape(old), None if new is None else ir.Shape(new))
    assert shape == ir.Shape(result)


def test_the_file_is_described(tmp_path: Path) -> None:
    proto = model(POOL, IMAGE)
    proto.producer_name, proto.producer_version = "maker", "1.2"
    path = save(tmp_path, proto)
    loaded = load_model(path)
    assert (loaded.producer, loaded.opset, loaded.ir_version) == ("maker 1.2", 17, 8)
    assert loaded.size_bytes == path.stat().st_size
    assert len(loaded.sha256) == 64
    assert loaded.model.graph.inputs[0].dtype == FLOAT
