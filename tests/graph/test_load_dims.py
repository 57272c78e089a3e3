"""Free dimensions: what fixes them, what is refused, what is said."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from axtool.errors import AxError
from axtool.graph.load import Loaded, load_model
from tests.graph.load_models import FLOAT, model, node, refusal, save, says, value

RELU = [node("Relu", ["x"], ["y"])]
IMAGE = ["batch", 3, "height", "width"]


def load(folder: Path, shape: list[Any] | None, **options: Any) -> Loaded:
    return load_model(save(folder, model(RELU, [value("x", shape)])), **options)


def refused(folder: Path, shape: list[Any] | None, **options: Any) -> AxError:
    return refusal(save(folder, model(RELU, [value("x", shape)])), **options)


def out_shape(loaded: Loaded) -> tuple[int, ...]:
    return tuple(loaded.model.graph.outputs[0].shape.numpy())


def test_a_free_batch_becomes_one_and_is_noted(tmp_path: Path) -> None:
    loaded = load(tmp_path, ["batch", 3])
    assert out_shape(loaded) == (1, 3)
    assert loaded.dims_fixed == {"batch": 1}
    assert any("batch" in note for note in loaded.notes)


def test_other_free_dims_are_named_with_the_options_that_fix_them(tmp_path: Path) -> None:
    error = refused(tmp_path, IMAGE)
    says(error, 2, "free-dims", "height, width", "--input-shape x:1,3,", "--dim height=", "--dim width=")


def test_an_input_shape_fixes_everything(tmp_path: Path) -> None:
    loaded = load(tmp_path, IMAGE, input_shapes={"x": [2, 3, 10, 6]})
    assert out_shape(loaded) == (2, 3, 10, 6)
    assert loaded.dims_fixed == {"batch": 2, "height": 10, "width": 6}
    assert loaded.notes == ()


def test_named_dims_fix_what_they_name(tmp_path: Path) -> None:
    assert out_shape(load(tmp_path, IMAGE, dims={"height": 8, "width": 9})) == (1, 3, 8, 9)


def test_a_dimension_of_another_input_with_the_same_name_follows(tmp_path: Path) -> None:
    proto = model([node("Add", ["x", "z"], ["y"])], [value("x", ["n", "h"]), value("z", ["n", "h"])])
    loaded = load_model(save(tmp_path, proto), input_shapes={"x": [1, 7]})
    assert [tuple(v.shape.numpy()) for v in loaded.model.graph.inputs] == [(1, 7), (1, 7)]


def test_two_values_for_one_name_are_refused_with_their_givers(tmp_path: Path) -> None:
    error = refused(tmp_path, IMAGE, input_shapes={"x": [1, 3, 8, 8]}, dims={"height": 9})
    says(error, 2, "input-shape", "height", "9 by --dim height=9", "8 by --input-shape")


def test_missing_and_negative_dims_are_free(tmp_path: Path) -> None:
    info = value("x", [None, 3, 4, 5])
    info.type.tensor_type.shape.dim[3].dim_value = -1
    path = save(tmp_path, model(RELU, [info]))
    says(refusal(path), 2, "free-dims", "[?, 3, 4, ?]", "axis 3")
    loaded = load_model(path, input_shapes={"x": [1, 3, 4, 5]})
    assert loaded.dims_fixed == {"x[0]": 1, "x[3]": 5}


def test_a_question_mark_is_no_name_that_two_axes_share(tmp_path: Path) -> None:
    says(refused(tmp_path, ["?", 3, "?", "?"]), 2, "free-dims", "axis 2", "axis 3")


def test_an_input_without_any_shape_needs_one(tmp_path: Path) -> None:
    says(refused(tmp_path, None), 2, "free-dims", "no shape", "--input-shape x:")
    assert out_shape(load(tmp_path, None, input_shapes={"x": [1, 2]})) == (1, 2)


def test_an_unknown_input_gets_the_nearest(tmp_path: Path) -> None:
    path = save(tmp_path, model([node("Relu", ["image"], ["y"])], [value("image", ["n", 3])]))
    says(refusal(path, input_shapes={"imge": [1, 3]}), 2, "unknown-input", "imge", "did you mean image?")


def test_an_unknown_dim_gets_the_nearest(tmp_path: Path) -> None:
    says(refused(tmp_path, IMAGE, dims={"heigth": 8}), 2, "unknown-dim", "heigth", "did you mean height")


@pytest.mark.parametrize("shape", [[1, 3, 8], [1, 3, 0, 8], [1, 3, -1, 8]])
def test_a_shape_of_another_rank_or_without_size_is_refused(tmp_path: Path, shape: list[int]) -> None:
    error = refused(tmp_path, IMAGE, input_shapes={"x": shape})
    says(error, 2, "input-shape", "--input-shape x:" + ",".join(map(str, shape)))


def test_a_size_other_than_the_declared_one_is_taken_with_a_warning(tmp_path: Path) -> None:
    loaded = load(tmp_path, [10, 3, 32, 32], input_shapes={"x": [1, 3, 48, 64]})
    assert out_shape(loaded) == (1, 3, 48, 64)
    assert any("declared [10, 3, 32, 32]; read as [1, 3, 48, 64]" in line for line in loaded.warnings)


def test_a_size_that_the_graph_cannot_take_is_refused_by_the_node_that_cannot(tmp_path: Path) -> None:
    weights = {"w": np.zeros((2, 3, 1, 1), np.float32)}
    net = model([node("Conv", ["x", "w"], ["y"])], [value("x", [1, 3, 8, 8])], weights=weights)
    says(refusal(save(tmp_path, net), input_shapes={"x": [1, 4, 8, 8]}), 2, "channel-mismatch", "4 channels")


def test_an_input_of_more_than_2_gib_is_refused_with_its_bytes(tmp_path: Path) -> None:
    says(refused(tmp_path, [1, 2**40]), 2, "input-shape", f"{2**42:,} bytes", f"{2**31:,}")


def test_an_input_that_is_no_tensor_is_unsupported(tmp_path: Path) -> None:
    sequence = onnx.helper.make_tensor_sequence_value_info("x", FLOAT, [1])
    says(refusal(save(tmp_path, model(RELU, [sequence]))), 3, "input-type", "'x'", "sequence")


def test_an_input_without_an_element_type_is_refused(tmp_path: Path) -> None:
    says(refusal(save(tmp_path, model(RELU, [value("x", [1], 0)]))), 2, "input-type", "'x'")
