"""Initializers and external data: the bytes are there, all of them, and nowhere else than beside the model."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from axtool.graph.load import freeze_overridable, load_model
from tests.graph.load_models import FLOAT, FLOAT16, INT64, model, node, refusal, save, says, value

ADD = [node("Add", ["x", "w"], ["y"], name="add")]


def with_weight(**fields: object) -> onnx.ModelProto:
    proto = model(ADD)
    proto.graph.initializer.append(TensorProto(name="w", **fields))
    return proto


def external(location: str, dims: tuple[int, ...] = (3,), **entries: str) -> onnx.ModelProto:
    proto = with_weight(data_type=FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, text in {"location": location, **entries}.items():
        proto.graph.initializer[0].external_data.add(key=key, value=text)
    return proto


@pytest.mark.parametrize(
    "fields",
    [
        {"data_type": FLOAT, "dims": [4, 3], "raw_data": bytes(40)},
        {"data_type": FLOAT, "dims": [4, 3], "float_data": [0.0] * 11},
        {"data_type": FLOAT16, "dims": [4, 3], "int32_data": [0] * 13},
        {"data_type": INT64, "dims": [4, 3]},
        {"data_type": TensorProto.INT4, "dims": [4, 3], "raw_data": bytes(5)},
    ],
)
def test_an_initializer_of_the_wrong_size_gives_both_sizes(tmp_path: Path, fields: dict[str, object]) -> None:
    error = refusal(save(tmp_path, with_weight(**fields)))
    says(error, 2, "initializer-size", "'w'", "[4, 3]", "needs", "found")


def test_the_bytes_needed_and_found_are_counted(tmp_path: Path) -> None:
    error = refusal(save(tmp_path, with_weight(data_type=FLOAT, dims=[4, 3], raw_data=bytes(40))))
    says(error, 2, "initializer-size", "needs 48 bytes, found 40")


def test_a_claim_of_2_to_the_60_elements_is_only_a_message(tmp_path: Path) -> None:
    error = refusal(save(tmp_path, with_weight(data_type=FLOAT, dims=[2**30, 2**30], raw_data=bytes(4))))
    says(error, 2, "initializer-size", str(2**62))


@pytest.mark.parametrize(
    "fields", [{"data_type": 99, "dims": [1]}, {"data_type": FLOAT, "dims": [-1]}, {"data_type": 0}]
)
def test_a_tensor_that_cannot_be_is_refused(tmp_path: Path, fields: dict[str, object]) -> None:
    says(refusal(save(tmp_path, with_weight(**fields))), 2, "initializer-size", "'w'")


def test_a_constant_in_an_attribute_is_checked_too(tmp_path: Path) -> None:
    tensor = TensorProto(name="t", data_type=FLOAT, dims=[9], raw_data=bytes(4))
    nodes = [node("Constant", [], ["w"], name="k", value=tensor), *ADD]
    says(refusal(save(tmp_path, model(nodes))), 2, "initializer-size", "'k'", "needs 36 bytes, found 4")


def test_a_sparse_initializer_is_unsupported(tmp_path: Path) -> None:
    proto = model(ADD)
    values = onnx.numpy_helper.from_array(np.float32([1]), "w")
    indices = onnx.numpy_helper.from_array(np.int64([0]), "i")
    proto.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, indices, [3]))
    says(refusal(save(tmp_path, proto)), 3, "sparse-initializer", "w", "dense")


def test_missing_external_data_names_the_file_and_the_tensors(tmp_path: Path) -> None:
    says(refusal(save(tmp_path, external("net.data"))), 2, "external-data-missing", "net.data", "w")


def test_short_external_data_counts_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "net.data").write_bytes(bytes(10))
    error = refusal(save(tmp_path, external("net.data", offset="4")))
    says(error, 2, "external-data-short", "net.data: need 12 bytes at 4, file has 10", "tensor w")


def test_external_data_of_another_length_than_the_shape_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.data").write_bytes(bytes(100))
    error = refusal(save(tmp_path, external("net.data", length="8")))
    says(error, 2, "external-data-wrong", "gives 8 bytes", "needs 12")


@pytest.mark.parametrize("offset", ["-4", "many"])
def test_an_offset_that_is_none_is_refused(tmp_path: Path, offset: str) -> None:
    (tmp_path / "net.data").write_bytes(bytes(100))
    says(refusal(save(tmp_path, external("net.data", offset=offset))), 2, "external-data-wrong", "w")


@pytest.mark.parametrize(
    "location", ["../secret.data", "sub/../../secret.data", "/etc/hostname", "C:\\data.bin", "..\\secret.data", ""]
)
def test_external_data_may_not_leave_the_folder(tmp_path: Path, location: str) -> None:
    (tmp_path / "secret.data").write_bytes(bytes(12))
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    says(refusal(save(folder, external(location))), 2, "external-data-outside", "w")


def test_a_link_out_of_the_folder_is_refused_and_never_read(tmp_path: Path) -> None:
    (tmp_path / "secret.data").write_bytes(bytes(12))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "net.data").symlink_to(tmp_path / "secret.data")
    says(refusal(save(folder, external("net.data"))), 2, "external-data-outside", "link")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_no_data_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "net.data")
    says(refusal(save(tmp_path, external("net.data"))), 2, "external-data-missing", "net.data")


def test_external_data_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(bytes(4) + np.float32([1, 2, 3]).tobytes())
    path = save(tmp_path, external("sub/w.bin", offset="4", length="12"))
    monkeypatch.chdir("/")
    loaded = load_model(path)
    np.testing.assert_array_equal(loaded.model.graph.initializers["w"].const_value.numpy(), [1, 2, 3])
    assert [(f.name, f.size_bytes, f.tensors) for f in loaded.external_files] == [("sub/w.bin", 16, ("w",))]


def test_hard_linked_external_data_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(np.float32([1, 2, 3]).tobytes())
    os.link(tmp_path / "a.bin", tmp_path / "b.bin")  # package caches link files so
    loaded = load_model(save(tmp_path, external("b.bin")))
    np.testing.assert_array_equal(loaded.model.graph.initializers["w"].const_value.numpy(), [1, 2, 3])


def test_external_data_in_an_attribute_is_read(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(np.float32([1, 2, 3]).tobytes())
    tensor = TensorProto(name="t", data_type=FLOAT, dims=[3], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="w.bin")
    loaded = load_model(save(tmp_path, model([node("Constant", [], ["w"], value=tensor), *ADD])))
    constant = next(n for n in loaded.model.graph if n.op_type == "Constant")
    np.testing.assert_array_equal(constant.attributes["value"].as_tensor().numpy(), [1, 2, 3])


def test_nan_and_inf_weights_are_counted_with_their_reader(tmp_path: Path) -> None:
    weights = {"w": np.float32([np.nan, np.inf, 1])}
    (fault,) = load_model(save(tmp_path, model(ADD, weights=weights))).weight_faults
    assert (fault.initializer, fault.nan, fault.inf, fault.size, fault.index) == ("w", 1, 1, 3, 0)
    assert "1 NaN, 1 Inf of 3" in str(fault)
    assert "add" in str(fault)


def test_nan_in_a_constant_node_is_counted_too(tmp_path: Path) -> None:
    nodes = [
        node("Constant", [], ["w"], value_floats=[1.0, float("nan")]),
        node("Mul", ["w", "w"], ["y"], name="square"),
    ]
    (fault,) = load_model(save(tmp_path, model(nodes))).weight_faults
    assert (fault.initializer, fault.nan, fault.index) == ("w", 1, 1)


def test_an_initializer_that_is_an_input_stays_overridable(tmp_path: Path) -> None:
    proto = model(ADD, [value("x"), value("w", [3])], weights={"w": np.ones(3, np.float32)})
    loaded = load_model(save(tmp_path, proto))
    assert loaded.overridable == ("w",)
    assert any("w" in note for note in loaded.notes)


def test_before_ir_4_an_initializer_is_never_overridable(tmp_path: Path) -> None:
    proto = model(ADD, [value("x"), value("w", [3])], weights={"w": np.ones(3, np.float32)}, opset=8, ir=3)
    loaded = load_model(save(tmp_path, proto))
    assert loaded.overridable == ()
    assert [v.name for v in loaded.model.graph.inputs] == ["x"]


def test_freezing_takes_the_overridable_out_of_the_inputs(tmp_path: Path) -> None:
    proto = model(ADD, [value("x"), value("w", [3])], weights={"w": np.ones(3, np.float32)})
    loaded = load_model(save(tmp_path, proto))
    assert freeze_overridable(loaded.model) == ("w",)
    assert [v.name for v in loaded.model.graph.inputs] == ["x"]
    assert "w" in loaded.model.graph.initializers
