"""The case files through the commands: expected numbers, equal bits in both engines, the right exit code and words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from tests import shared_data as shared
from tests.shared_data import CASES
from tests.tiny import Ran, axtool

pytestmark = [pytest.mark.slow, shared.needs_cases]

# Cases of which the device can run nothing, and words of the reason that must be said.
NOTHING_FOR_THE_DEVICE = {
    "lookalike_initializers": "Mul 'Div_a' (node 0): The first dimension, the batch, is 1",
    "reshape_zero_and_minus_one": "Reshape 'Reshape_a' (node 0): The first dimension, the batch, is 1",
    "if_runtime_cond": "If 'If_y' (node 2): There is no device kernel for If",
    "loop_outer_scope": "Loop 'Loop_acc' (node 0): There is no device kernel for Loop",
    "softmax_opset11_flatten": "Softmax 'Softmax_y' (node 0)",
    "gemm_missing_or_broadcast_c": "Gemm 'Gemm_c' (node 2): The first dimension, the batch, is 1",
    "clip_opset6_attributes": "Clip 'Clip_a' (node 0): The first dimension, the batch, is 1",
    "integer_div_mod": "Mod 'Mod_m' (node 1)",
    "argmax_ties_topk": "ArgMax 'ArgMax_a' (node 0)",
}
QDQ = {"qdq_already_quantised": 0.0301, "qdq_bias_scale_mismatch": 0.0301, "qoperator_qlinearconv": 0.0301}

Arrays = dict[str, NDArray[Any]]


def valid() -> list[Any]:
    """Every (case, .npz) pair."""
    pairs = [(case, name) for case in shared.cases("valid") for name in case["npz"]]
    return [pytest.param(case, name, id=Path(name).stem) for case, name in pairs]


def case_named(name: str) -> dict[str, Any]:
    return next(case for case in shared.cases("valid") if case["name"] == name)


def shape_options(model: Path, feeds: Arrays) -> list[str]:
    """`--input-shape` for the inputs whose sizes the file leaves open."""
    options = []
    for value in onnx.load(str(model), load_external_data=False).graph.input:
        dims = value.type.tensor_type.shape.dim
        if value.name in feeds and any(not d.HasField("dim_value") or d.dim_value < 0 for d in dims):
            options += ["--input-shape", f"{value.name}:{','.join(map(str, feeds[value.name].shape))}"]
    return options


def outputs_of(path: Path) -> Arrays:
    """What `run -o` wrote, in either of its forms."""
    with np.load(path, allow_pickle=False) as data:
        if "output_names" not in data.files:
            return {name: data[name] for name in data.files}
    return shared.arrays(path, "output")


def compiled(case: dict[str, Any], npz: str) -> Ran:
    """`compile` with a case's own data into m.axm."""
    model, options = CASES / case["file"], shape_options(CASES / case["file"], shared.arrays(CASES / npz, "input"))
    return axtool("compile", model, "--calib", CASES / npz, "--method", "minmax", "--check", "-o", "m.axm", *options)


def run_both(npz: str) -> Arrays:
    """Outputs of m.axm, which have the same bytes from both engines."""
    for engine in ("native", "reference"):
        ran = axtool("run", "m.axm", "--engine", engine, "--input", CASES / npz, "-o", f"{engine}.npz")
        assert ran.code == 0, ran.err
    native, reference = outputs_of(Path("native.npz")), outputs_of(Path("reference.npz"))
    assert {name: a.tobytes() for name, a in native.items()} == {name: a.tobytes() for name, a in reference.items()}
    return native


def result_of(name: str) -> tuple[Arrays, Arrays]:
    """(the compiled model's outputs, the expected ones) of a valid case."""
    case = case_named(name)
    ran = compiled(case, case["npz"][0])
    assert ran.code == 0, ran.err
    return run_both(case["npz"][0]), shared.arrays(CASES / case["npz"][0], "output")


def sqnr_db(wanted: NDArray[Any], got: NDArray[Any]) -> float:
    noise = float(np.square(got.astype(np.float64) - wanted).sum())
    return float(10 * np.log10(float(np.square(wanted.astype(np.float64)).sum()) / noise)) if noise else np.inf


@pytest.mark.parametrize(("case", "npz"), valid())
def test_the_float_path_gives_the_expected_numbers(case: dict[str, Any], npz: str, work: Path) -> None:
    feeds, expected = shared.arrays(CASES / npz, "input"), shared.arrays(CASES / npz, "output")
    model = CASES / case["file"]
    ran = axtool("run", model, "--engine", "float", "--input", CASES / npz, "-o", "f.npz", *shape_options(model, feeds))
    assert ran.code == 0, ran.err
    found = outputs_of(work / "f.npz")
    assert set(found) == set(expected)
    for name, wanted in expected.items():
        assert found[name].dtype == wanted.dtype
        rtol, atol = case.get("rtol", shared.RTOL), case.get("atol", shared.ATOL)
        np.testing.assert_allclose(found[name], wanted, rtol, atol)


@pytest.mark.parametrize(("case", "npz"), valid())
def test_a_valid_case_compiles_and_both_engines_agree_or_the_reason_is_named(
    case: dict[str, Any], npz: str, work: Path
) -> None:
    ran = compiled(case, npz)
    reason = NOTHING_FOR_THE_DEVICE.get(case["name"])
    if npz == "28_symbolic_dims_b2.npz":
        reason = "Conv 'Conv_c' (node 0): The first dimension, the batch, is 1"
    if case["name"] == "nan_inf_weights":
        assert (ran.code, (work / "m.axm").exists()) == (5, False)
        assert "'w' of Conv 'Conv_c' (node 0): 1 NaN, 1 Inf of 54" in ran.err
        return
    if reason is not None:
        assert (ran.code, (work / "m.axm").exists()) == (3, False)
        assert reason in ran.err
        return
    assert ran.code == 0, ran.err
    if npz.endswith("_override.npz"):
        ran = axtool("run", "m.axm", "--input", CASES / npz)
        assert ran.code == 2
        assert "no input takes gain" in ran.err
        return
    found, expected = run_both(npz), shared.arrays(CASES / npz, "output")
    assert {name: (a.dtype, a.shape) for name, a in found.items()} == {
        name: (a.dtype, a.shape) for name, a in expected.items()
    }
    ran = axtool("verify", "m.axm", "--against", CASES / case["file"], "--data", CASES / npz, "--min-sqnr", "28")
    assert ran.code == 0, ran.out + ran.err


def test_a_frozen_default_is_said(work: Path) -> None:
    case = case_named("init_overridable_default")
    assert "cannot be fed any more: gain" in compiled(case, case["npz"][0]).err


def test_free_dims_are_named_with_the_option_that_fixes_them(work: Path) -> None:
    ran = axtool("compile", CASES / "28_symbolic_dims.onnx", "--calib", "random:2")
    assert ran.code == 2
    assert all(word in ran.err for word in ("height", "width", "--input-shape x:1,3,"))


def test_each_channel_of_a_transposed_convolution_has_its_own_scale(work: Path) -> None:
    found, expected = result_of("convtranspose_per_channel")
    assert sqnr_db(expected["y"][:, 4], found["y"][:, 4]) >= 34
    assert sqnr_db(expected["y"][:, 0], found["y"][:, 0]) >= 12


def test_channels_of_zero_weights_give_their_bias(work: Path) -> None:
    found, _ = result_of("zero_weight_channels")
    assert all(np.isfinite(array).all() for array in found.values())
    np.testing.assert_allclose(found["a"][:, 0], 0.7, atol=0.02)
    assert not found["a"][:, 2:4].any()


def test_a_bias_that_overflows_int32_is_kept(work: Path) -> None:
    found, expected = result_of("int32_bias_overflow")
    np.testing.assert_allclose(found["y"], expected["y"], atol=0.05)


@pytest.mark.parametrize("name", sorted(QDQ))
def test_a_quantized_model_stays_within_one_step(name: str, work: Path) -> None:
    found, expected = result_of(name)
    for output, wanted in expected.items():
        np.testing.assert_allclose(found[output].astype(np.float64), wanted.astype(np.float64), atol=QDQ[name])


def test_int8_constants_of_the_file_keep_their_values(work: Path) -> None:
    found, expected = result_of("qdq_int8_through_reshape")
    assert all(sqnr_db(wanted.astype(np.float64), found[name]) > 40 for name, wanted in expected.items())


def test_dead_activations_leave_the_bias(work: Path) -> None:
    found, expected = result_of("dead_activation_range")
    for name, wanted in expected.items():
        np.testing.assert_allclose(found[name], wanted, atol=0.02 * max(1.0, float(np.abs(wanted).max())))


def test_nan_of_the_float_model_is_named_and_counted(work: Path) -> None:
    case = case_named("nan_activation_in_calibration")
    assert "tensor 's': 16 NaN of 32 values" in compiled(case, case["npz"][0]).err


def test_info_flags_weights_that_are_not_numbers() -> None:
    assert "w: 1 NaN, 1 Inf of 54" in axtool("info", CASES / "78_nan_inf_weights.onnx").out


def test_info_tells_the_external_data_files() -> None:
    assert "w.bin" in axtool("info", CASES / "27_external_data_subdir.onnx").out


# name of a broken case -> (exit code, words of the message)
REFUSED: dict[str, tuple[int, tuple[str, ...]]] = {
    "empty_file": (2, ("file is empty",)),
    "git_lfs_pointer": (2, ("Git LFS pointer; run git lfs pull",)),
    "zip_or_pt_checkpoint": (2, ("this is a zip/PyTorch checkpoint; export to ONNX first",)),
    "missing_external_data": (2, ("b06_missing.data", "needed by w")),
    "short_external_data": (2, ("b07_short.data: need 432 bytes at 0, file has 100",)),
    "external_path_traversal": (2, ("external data must stay in the model's folder",)),
    "future_opset": (3, ("opset 99; axtool supports 7..",)),
    "future_ir_version": (3, ("IR version 99", "re-export")),
    "missing_opset_import": (2, ("model declares no opset for domain ai.onnx",)),
    "unknown_op": (3, ("FooBar ×1", "'Relu_y' (node 1)")),
    "op_newer_than_opset": (2, ("Gelu needs opset 20", "declares opset 13", "--permissive")),
    "undefined_input": (2, ("'ghost'", "Relu 'Relu_y' (node 1)", "known: c, w, x, y")),
    "duplicate_value_name": (2, ("Relu 'Relu_y' (node 1)", "Sigmoid 'Sigmoid_y' (node 2)")),
    "mixed_float_types": (2, ("Conv 'Conv_y' (node 0)", "float32", "float16", "--fix-fp16")),
    "channel_mismatch": (2, ("Conv_c: input has 8 channels, weight needs 3; input looks NHWC",)),
    "initializer_size_mismatch": (2, ("initializer 'w'", "432 bytes, found 392")),
    "gather_index_out_of_range": (2, ("Gather 'Gather_y' (node 0)", "index 5", "size 3")),
    "no_nodes": (2, ("graph has no nodes",)),
}


@pytest.mark.parametrize("case", shared.cases("broken"), ids=lambda case: case["file"])
def test_a_broken_file_is_refused_in_words(case: dict[str, Any], work: Path) -> None:
    if case["name"] == "random_ops":
        assert axtool("compile", CASES / case["file"], "--calib", "random:2", "-o", "m.axm").code == 0
        ran = axtool("verify", "m.axm", "--against", CASES / case["file"], "--data", "random:2")
        assert (ran.code, "not comparable" in ran.out) == (0, True)
        return
    code, words = REFUSED[case["name"]]
    for command in (("compile", "--calib", "random:2"), ("info",), ("profile",)):
        ran = axtool(command[0], CASES / case["file"], *command[1:])
        assert (ran.code, ran.out) == (code, "")
        assert all(word in ran.err for word in words)
    assert not list(work.iterdir())


@pytest.mark.parametrize(
    ("file", "option"), [("b14_op_newer_than_opset.onnx", "--permissive"), ("b21_mixed_float_types.onnx", "--fix-fp16")]
)
def test_an_option_accepts_with_a_warning_what_is_refused_without(file: str, option: str, work: Path) -> None:
    ran = axtool("compile", CASES / file, "--calib", "random:2", option)
    assert ran.code == 0
    assert "warning: " in ran.err


# id of a calibration case -> (exit code, words on stderr)
CALIBRATION: dict[str, tuple[int, tuple[str, ...]]] = {
    "c01": (0, ("4 calibration samples",)),
    "c03": (2, ("uint8 values for a float input", "--mean, --std or --scale, or --preprocess")),
    "c04": (0, ("float64 values are cast to float32",)),
    "c05": (0, ("array 'image' is taken for the only input 'x'",)),
    "c07": (2, ("no calibration samples",)),
    "c08": (2, ("pickled Python objects",)),
    "c09": (2, ("expected 8x8 got 9x8", "--resize")),
    "c12": (2, ("not a readable npz",)),
    "c13": (0, ("sample 3 range is 1e6x the median", "with minmax it would destroy accuracy")),
}


@pytest.mark.parametrize("case", shared.cases("calibration"), ids=shared.case_name)
def test_calibration_data_is_taken_or_refused_in_words(case: dict[str, Any], work: Path) -> None:
    code, words = CALIBRATION[case["id"]]
    ran = axtool("compile", CASES / "calib/c00_model.onnx", "--calib", CASES / case["file"], "--method", "minmax", "-v")
    assert (ran.code, bool(list(work.iterdir()))) == (code, code == 0)
    assert all(word in ran.err for word in words)


def test_pixels_are_taken_when_it_is_said_how_they_become_numbers(work: Path) -> None:
    ran = axtool(
        "compile", CASES / "calib/c00_model.onnx", "--calib", CASES / "calib/c03_uint8.npz", "--scale", "1/255"
    )
    assert ran.code == 0, ran.err
