"""Models that arrive quantized: their numbers stay, and their formats are taken over exactly."""

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from axtool.graph.passes import Cleaned, clean
from axtool.graph.passes.restore_qdq import restore_qdq
from axtool.types import QFormat
from tests.graph.pass_models import build, cleaned, noise, ops, run

F, I8, U8 = np.float32, np.int8, np.uint8
IMAGE = "float[1, 3, 8, 8] x"


def weights(*shape: int, seed: int = 0) -> Any:
    """Small enough that no pair of products saturates in onnxruntime on a CPU without VNNI."""
    return np.random.default_rng(seed).integers(-60, 61, shape).astype(I8)


def same(model: ir.Model, result: Cleaned, step: float, **feeds: Any) -> None:
    """The model's own numbers, within one step of its output format."""
    restored = restore_qdq(result.model, result.given)
    np.testing.assert_allclose(run(restored, **feeds)[0], run(model, **feeds)[0], atol=1.01 * step)


def steps(zero: int, scale: float = 0.05, kind: type = U8) -> dict[str, Any]:
    return {"xs": F(scale), "xz": kind(zero)}


QDQ = "q = QuantizeLinear(x, xs, xz) d = DequantizeLinear(q, xs, xz)"
WEIGHT = "wd = DequantizeLinear<axis = 0>(w, ws, wz)"
PER_CHANNEL = {"w": weights(4, 3, 3, 3), "ws": np.array([0.01, 0.02, 0.005, 0.03], F), "wz": np.zeros(4, I8)}


def test_a_pair_on_an_input_becomes_its_format() -> None:
    result = cleaned(build(f"{QDQ} y = Neg(d)", **steps(128)))
    assert ops(result.model) == ["Neg"]
    assert result.given["x"] == QFormat("int8", (float(F(0.05)),), (0,))


@pytest.mark.parametrize(("zero", "kind", "expected"), [(0, U8, -128), (128, U8, 0), (255, U8, 127), (-7, I8, -7)])
def test_unsigned_formats_are_shifted(zero: int, kind: type, expected: int) -> None:
    result = clean(build(f"{QDQ} y = Neg(d)", **steps(zero, kind=kind)))
    assert result.given["x"].zero_point == (expected,)


def test_a_weight_becomes_float_with_one_scale_a_channel() -> None:
    result = cleaned(build(f"{WEIGHT} y = Conv(x, wd)", **PER_CHANNEL))
    assert ops(result.model) == ["Conv"]
    assert result.given["wd"].scale == tuple(float(s) for s in PER_CHANNEL["ws"])
    folded = result.model.graph.initializers["wd"].const_value
    assert folded is not None
    expected = PER_CHANNEL["w"].astype(F) * PER_CHANNEL["ws"].reshape(-1, 1, 1, 1)
    np.testing.assert_array_equal(folded.numpy(), expected)


def test_a_weight_with_one_scale_gets_it_for_every_channel() -> None:
    result = cleaned(build("wd = DequantizeLinear(w, ws) y = Conv(x, wd)", w=weights(4, 3, 1, 1), ws=F(0.01)))
    assert result.given["wd"].scale == (float(F(0.01)),) * 4


def test_a_weight_behind_a_transpose_keeps_its_scales() -> None:
    body = "wd = DequantizeLinear<axis = 0>(w, ws) t = Transpose<perm = [1, 0]>(wd) y = MatMul(x, t)"
    result = cleaned(build(body, "float[1, 5] x", w=weights(4, 5), ws=np.array([0.1, 0.2, 0.3, 0.4], F)))
    assert result.given["t"].scale == pytest.approx((0.1, 0.2, 0.3, 0.4))


def test_a_weight_that_is_quantized_in_the_graph_folds() -> None:
    body = "wq = QuantizeLinear(w, ws, wz) wd = DequantizeLinear(wq, ws, wz) y = Conv(x, wd)"
    result = cleaned(build(body, w=noise(4, 3, 1, 1), ws=F(0.02), wz=I8(0)))
    assert ops(result.model) == ["Conv"]
    assert result.given["wd"].scale == (float(F(0.02)),) * 4


def test_a_weight_with_a_zero_point_is_folded_and_noted() -> None:
    body = "wd = DequantizeLinear(w, ws, wz) y = Conv(x, wd)"
    result = cleaned(build(body, w=weights(4, 3, 1, 1), ws=F(0.02), wz=I8(3)))
    assert "wd" not in result.given
    assert any("zero point" in note for note in result.notes)


def test_a_bias_of_any_scale_becomes_float() -> None:
    body = f"{WEIGHT} bd = DequantizeLinear(b, bs) y = Conv(x, wd, bd)"
    result = cleaned(build(body, b=np.array([5, -9, 2, 0], np.int32), bs=F(0.1), **PER_CHANNEL))
    bias = result.model.graph.initializers["bd"].const_value
    assert bias is not None
    np.testing.assert_allclose(bias.numpy(), [0.5, -0.9, 0.2, 0], rtol=1e-6)


def test_quantized_inputs_and_outputs_keep_their_type() -> None:
    body = "d = DequantizeLinear(x, xs, xz) r = Relu(d) y = QuantizeLinear(r, xs, xz)"
    result = cleaned(build(body, "uint8[1, 3, 8, 8] x", "uint8 y", **steps(10)))
    assert ops(result.model) == ["DequantizeLinear", "Relu", "QuantizeLinear"]
    assert result.given["d"] == result.given["r"] == QFormat("int8", (float(F(0.05)),), (-118,))


@pytest.mark.parametrize(("scale", "op"), [(0.05, "Relu"), (6 / 255, "Clip")])
def test_a_relu_that_the_format_stands_for_is_put_back(scale: float, op: str) -> None:
    body = f"{WEIGHT} c = Conv(x, wd) q = QuantizeLinear(c, xs, xz) d = DequantizeLinear(q, xs, xz) y = Neg(d)"
    result = cleaned(build(body, **steps(0, scale), **PER_CHANNEL))
    assert ops(result.model) == ["Conv", op, "Neg"]
    assert "d" in result.given


def test_two_formats_of_a_tensor_get_a_node_each() -> None:
    body = f"{QDQ} e = QuantizeLinear(x, es, xz) f = DequantizeLinear(e, es, xz) y = Neg(d) z = Abs(f)"
    result = cleaned(build(body, outputs="float y, float z", es=F(0.1), **steps(128)))
    assert sorted(ops(result.model)) == ["Abs", "Identity", "Identity", "Neg"]
    assert result.given["d"].scale != result.given["f"].scale


def test_a_value_that_is_rounded_twice_in_a_row_is_rounded_twice() -> None:
    body = f"{QDQ} e = QuantizeLinear(d, es, xz) f = DequantizeLinear(e, es, xz) y = Neg(f)"
    model = build(body, es=F(0.11), **steps(128))
    x = noise(1, 3, 8, 8)
    before = run(model, x=x)[0]
    result = cleaned(model)
    np.testing.assert_array_equal(run(restore_qdq(result.model, result.given), x=x)[0], before)


@pytest.mark.parametrize("raw", ["z = Abs(r)", "z = Identity(r)"])
def test_who_reads_a_value_unrounded_still_does(raw: str) -> None:
    body = f"r = Softplus(x) q = QuantizeLinear(r, xs, xz) d = DequantizeLinear(q, xs, xz) y = Neg(d) {raw}"
    model = build(body, outputs="float y, float z", **steps(0))
    x = noise(1, 3, 8, 8)
    before = run(model, x=x)
    result = cleaned(model)
    for found, expected in zip(run(restore_qdq(result.model, result.given), x=x), before, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_pair_with_different_parameters_is_no_pair() -> None:
    body = "q = QuantizeLinear(x, xs, xz) d = DequantizeLinear(q, es, xz) y = Neg(d)"
    assert "QuantizeLinear" in ops(cleaned(build(body, es=F(0.1), **steps(128))).model)


def test_a_scale_that_is_computed_at_run_time_stays() -> None:
    result = cleaned(build("q, s, z = DynamicQuantizeLinear(x) y = DequantizeLinear(q, s, z)"))
    assert ops(result.model) == ["DynamicQuantizeLinear", "DequantizeLinear"]


@pytest.mark.parametrize(
    "move",
    [
        "m = Reshape(q, s)",
        "m = Transpose<perm = [0, 2, 3, 1]>(q)",
        "m = MaxPool<kernel_shape = [2, 2]>(q)",
        "m = Concat<axis = 1>(q, q)",
        "m = Flatten(q)",
    ],
)
def test_moves_of_integers_become_moves_of_floats(move: str) -> None:
    body = f"q = QuantizeLinear(x, xs, xz) {move} d = DequantizeLinear(m, xs, xz) y = Neg(d)"
    constants = {"s": np.array([1, -1])} if "s)" in move else {}
    result = cleaned(build(body, **steps(100), **constants))
    assert len(result.model.graph) == 2
    assert ops(result.model)[-1] == "Neg"


def test_a_quantized_input_is_converted_before_it_is_moved() -> None:
    body = "t = Transpose<perm = [0, 3, 1, 2]>(x) d = DequantizeLinear(t, xs, xz) y = Neg(d)"
    result = cleaned(build(body, "uint8[1, 8, 8, 3] x", **steps(10)))
    assert ops(result.model) == ["DequantizeLinear", "Transpose", "Neg"]
    assert result.model.graph[1].outputs[0].name == "d"
    assert list(result.given) == ["x_dequantized"]


def qlinear(bias: bool = True) -> ir.Model:
    body = (
        "q = QuantizeLinear(x, xs, xz) c = QLinearConv(q, xs, xz, w, ws, wz, ys, yz{}) y = DequantizeLinear(c, ys, yz)"
    )
    more = {"b": np.array([100, -90, 7, 0], np.int32)} if bias else {}
    return build(body.format(", b" if bias else ""), ys=F(0.3), yz=U8(120), **more, **steps(128), **PER_CHANNEL)


@pytest.mark.parametrize("bias", [True, False])
def test_a_qlinear_conv_becomes_a_conv_with_its_formats(bias: bool) -> None:
    result = cleaned(qlinear(bias))
    assert ops(result.model) == ["Conv"]
    same(qlinear(bias), result, 0.3, x=noise(1, 3, 8, 8))
    assert result.given["x"].zero_point == (0,)
    assert result.given["y"] == QFormat("int8", (float(F(0.3)),), (-8,))
    assert result.given[result.model.graph[0].inputs[1].name].scale == pytest.approx((0.01, 0.02, 0.005, 0.03))


def test_a_qlinear_matmul_becomes_a_matmul() -> None:
    body = (
        "q = QuantizeLinear(x, xs, xz) c = QLinearMatMul(q, xs, xz, w, ws, wz, ys, yz) y = DequantizeLinear(c, ys, yz)"
    )
    constants = {"w": weights(5, 4), "ws": F(0.02), "wz": I8(0), "ys": F(0.1), "yz": U8(128)}
    result = cleaned(build(body, "float[2, 5] x", **constants, **steps(128)))
    assert ops(result.model) == ["MatMul"]
    same(build(body, "float[2, 5] x", **constants, **steps(128)), result, 0.1, x=noise(2, 5))


def test_ops_of_onnxruntime_become_float_ops() -> None:
    body = """q = QuantizeLinear(x, xs, xz)
        a = com.microsoft.QLinearAdd(q, xs, xz, q, xs, xz, ys, yz)
        p = com.microsoft.QLinearGlobalAveragePool<channels_last = 0>(a, ys, yz, ys, yz)
        s = com.microsoft.QLinearSigmoid(p, ys, yz, ys, yz)
        k = com.microsoft.QLinearConcat<axis = 1>(ys, yz, s, ys, yz, p, ys, yz)
        y = DequantizeLinear(k, ys, yz)"""
    model = build(body, IMAGE, "float[1, 6, 1, 1] y", extra=', "com.microsoft": 1', ys=F(0.1), yz=U8(128), **steps(128))
    result = cleaned(model.clone())
    assert ops(result.model) == ["Add", "GlobalAveragePool", "Sigmoid", "Concat"]
    same(model, result, 0.1, x=noise(1, 3, 8, 8))


@pytest.mark.parametrize(
    ("op", "inputs", "w"),
    [("ConvInteger", IMAGE, weights(4, 3, 3, 3)), ("MatMulInteger", "float[2, 5] x", weights(5, 4))],
)
def test_dynamically_quantized_ops_become_float_ops(op: str, inputs: str, w: Any) -> None:
    body = f"q, s, z = DynamicQuantizeLinear(x) i = {op}(q, w, z, wz) f = Cast<to = 1>(i) t = Mul(s, ws) y = Mul(f, t)"
    model = build(body, inputs, w=w, wz=I8(0), ws=F(0.01))
    x = noise(*((1, 3, 8, 8) if op == "ConvInteger" else (2, 5)))
    before = run(model, x=x)[0]
    result = cleaned(model)
    np.testing.assert_allclose(run(result.model, x=x)[0], before, atol=0.02 * np.abs(before).max())
    assert ops(result.model) == ["Conv" if op == "ConvInteger" else "MatMul"]
    assert result.given[result.model.graph[0].inputs[1].name].scale == (float(F(0.01)),) * 4


def test_restored_pairs_give_the_numbers_of_the_file_to_the_bit() -> None:
    model = qlinear()
    body = f"{QDQ} {WEIGHT} c = Conv(d, wd) r = Relu(c) e = QuantizeLinear(r, ys, yz) y = DequantizeLinear(e, ys, yz)"
    model = build(body, ys=F(0.3), yz=U8(0), **steps(128), **PER_CHANNEL)
    x = noise(1, 3, 8, 8, scale=5)
    before = run(model, x=x)[0]
    result = cleaned(model)
    np.testing.assert_array_equal(run(restore_qdq(result.model, result.given), x=x)[0], before)
    assert not np.array_equal(run(result.model, x=x)[0], before)


def test_a_model_without_formats_is_not_copied() -> None:
    model = build("y = Relu(x)")
    assert restore_qdq(model, {}) is model


def test_generated_names_avoid_those_of_the_file() -> None:
    body = f"{QDQ} x_scale = Neg(d) x_stored = Abs(x_scale) y = Neg(x_stored)"
    result = cleaned(build(body, **steps(128)))
    restored = restore_qdq(result.model, result.given)
    names = [value.name for node in restored.graph for value in node.outputs] + list(restored.graph.initializers)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "body",
    [
        "s = Sigmoid(x) {s} y = Mul(x, s_d)",
        "c = Conv(x, v) {c} y = Mul(c_d, two)",
        "c = Clip(x, low, two) {c} y = Relu(c_d)",
        "c = Mul(x, low) {c} y = Conv(c_d, v)",
    ],
)
def test_nothing_is_fused_over_a_value_that_the_file_rounds(body: str) -> None:
    name = "s" if "{s}" in body else "c"
    pair = f"{name}_q = QuantizeLinear({name}, xs, xz) {name}_d = DequantizeLinear({name}_q, xs, xz)"
    text = body.replace("{" + name + "}", pair)
    constants = {"v": noise(4, 3, 3, 3), "two": F(2), "low": F(-0.5)}
    used = {key: value for key, value in constants.items() if f", {key}" in text}
    model = build(text, **used, **steps(128, 0.01))
    x = noise(1, 3, 8, 8)
    before = run(model, x=x)[0]
    result = cleaned(model)
    assert len(result.model.graph) == 2
    np.testing.assert_array_equal(run(restore_qdq(result.model, result.given), x=x)[0], before)
