import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axtool.errors import NumericsError
from axtool.quant.weights import FINEST_MULTIPLIER, INT32_MAX, check_constants, quantize_weights
from axtool.types import QFormat, Site

UNIT = QFormat("int8", (1.0,), (0,))


def mac(op, weights, bias=None, **attrs):
    constants = {"w": np.asarray(weights, np.float32)} | ({} if bias is None else {"b": np.asarray(bias, np.float32)})
    return Site(op, "layer", 3, ("x", *constants), ("y",), attrs, {}, {}, constants)


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(0, 1, shape).astype(np.float32)


def restored(site, axis, source=UNIT, out=UNIT, given=None):
    """The weights as the device sees them, scales along `axis` of the ONNX layout."""
    weights, _ = quantize_weights(site, source, out, given)
    shape = [1] * weights.values.ndim
    shape[axis] = -1
    return weights.values * weights.scale.reshape(shape)


@pytest.mark.parametrize(
    ("site", "axis"),
    [
        (mac("Conv", random(5, 3, 3, 3), group=1), 0),
        (mac("Conv", random(6, 1, 3, 3), group=6), 0),
        (mac("ConvTranspose", random(3, 5, 3, 3), group=1), 1),
        (mac("Gemm", random(4, 7), transB=0, alpha=1.0, beta=1.0), 1),
        (mac("Gemm", random(7, 4), transB=1, alpha=1.0, beta=1.0), 0),
        (mac("MatMul", random(4, 7)), 1),
    ],
)
def test_weights_are_restored_within_half_a_step_of_their_channel(site, axis):
    weights = site.constants["w"]
    other = tuple(a for a in range(weights.ndim) if a != axis)
    steps = np.abs(weights).max(axis=other, keepdims=True) / 127
    assert np.all(np.abs(restored(site, axis) - weights) <= steps * 0.5001)


def test_a_grouped_transposed_convolution_has_a_scale_for_each_output_channel():
    magnitude = np.array([[0.25, 0.5], [1, 2]], np.float32)  # (group, cout / group)
    weights = random(4, 2, 3, 3) * np.repeat(magnitude, 2, axis=0)[:, :, None, None]
    found, _ = quantize_weights(mac("ConvTranspose", weights, group=2), UNIT, UNIT)
    grouped = np.abs(weights.reshape(2, 2, 2, 9)).max(axis=(1, 3)).reshape(-1) / 127
    np.testing.assert_allclose(found.scale, grouped, rtol=1e-6)
    steps = np.repeat(found.scale.reshape(2, 2), 2, axis=0)[:, :, None, None]
    assert np.all(np.abs(found.values * steps - weights) <= steps * 0.5001)


@pytest.mark.parametrize("steps_in", [2.0**-60, 1.0, 2.0**121])
@pytest.mark.parametrize("steps_out", [2.0**-60, 1.0, 2.0**121])
@pytest.mark.parametrize("magnitude", [1e-44, 1.0, 3e38])
def test_every_channel_has_a_normal_scale_whatever_the_formats(steps_in, steps_out, magnitude):
    weights = np.ones((2, 1, 1, 1), np.float32) * np.array([0, magnitude], np.float32)[:, None, None, None]
    formats = QFormat("int8", (steps_in,), (0,)), QFormat("int8", (steps_out,), (0,))
    found, _ = quantize_weights(mac("Conv", weights, [0.0, 1.0], group=1), *formats)
    tiny, largest = np.finfo(np.float32).tiny, np.finfo(np.float32).max
    assert np.all((found.scale >= tiny) & (found.scale <= largest)), found.scale
    assert found.values[0] == 0


def test_a_bias_that_no_scale_brings_into_int32_is_refused_by_name():
    fine = QFormat("int8", (2.0**-60,), (0,))
    with pytest.raises(
        NumericsError, match=r"a bias of 1e\+30 in .*'layer' \(node 3\) .* steps of 8.67362e-19"
    ) as caught:
        quantize_weights(mac("Conv", np.zeros((1, 1, 1, 1)), [1e30], group=1), fine, UNIT)
    assert caught.value.code == "bias-too-large"


def test_leading_ones_of_matmul_weights_are_gone():
    assert quantize_weights(mac("MatMul", random(1, 1, 4, 7)), UNIT, UNIT)[0].values.shape == (4, 7)


def test_alpha_and_beta_of_a_gemm_are_in_the_numbers():
    plain = mac("Gemm", random(4, 7), random(7), transB=0, alpha=1.0, beta=1.0)
    scaled = mac("Gemm", random(4, 7), random(7), transB=0, alpha=-2.0, beta=3.0)
    np.testing.assert_allclose(restored(scaled, 1), -2 * restored(plain, 1), rtol=1e-6)
    bias = quantize_weights(scaled, UNIT, UNIT)[0].bias
    np.testing.assert_allclose(bias, 3 * plain.constants["b"], rtol=1e-6)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (1, 1), (1, 7)])
def test_a_bias_of_any_shape_has_one_value_a_channel(shape):
    site = mac("Gemm", random(4, 7), np.full(shape, 2.0), transB=0, alpha=1.0, beta=1.0)
    assert quantize_weights(site, UNIT, UNIT)[0].bias.tolist() == [2.0] * 7


def test_a_missing_bias_is_zeros():
    assert quantize_weights(mac("Conv", random(5, 3, 3, 3), group=1), UNIT, UNIT)[0].bias.tolist() == [0.0] * 5


@pytest.mark.parametrize("magnitude", [0.0, 1e-40, 1e-6])
def test_a_channel_of_nothing_keeps_a_finite_scale_and_its_bias(magnitude):
    weights = random(2, 3, 3, 3)
    weights[0] *= np.float32(magnitude)
    source, out = QFormat("int8", (0.02,), (0,)), QFormat("int8", (0.05,), (-128,))
    found, _ = quantize_weights(mac("Conv", weights, [0.7, 0], group=1), source, out)
    assert np.all(np.isfinite(found.scale) & (found.scale > 0))
    assert np.all(np.abs(found.values[0]) <= (0 if magnitude < 1e-30 else 127))
    step = 0.02 * float(found.scale[0])
    assert round(0.7 / step) * step == pytest.approx(0.7, abs=0.001)


def test_tiny_weights_with_a_large_bias_stay_within_int32():
    weights = random(2, 2, 1, 1) * np.float32(1e-7)
    source, out = QFormat("int8", (0.5,), (0,)), QFormat("int8", (10 / 255,), (-1,))
    found, _ = quantize_weights(mac("Conv", weights, [5, -4.5], group=1), source, out)
    assert np.all(np.abs(found.bias / (0.5 * found.scale.astype(np.float64))) < INT32_MAX)
    assert np.all(0.5 * found.scale / (10 / 255) >= FINEST_MULTIPLIER * 0.999)


@settings(max_examples=40, deadline=None)
@given(st.floats(-30, 8), st.floats(-20, 20), st.integers(-128, 127))
def test_the_worst_sum_of_a_channel_fits_int32(weight_power, bias_power, zero_point):
    weights, bias = np.full((1, 4096), 10.0**weight_power, np.float32), np.float32([10.0**bias_power])
    source, out = QFormat("int8", (0.1,), (zero_point,)), QFormat("int8", (0.1,), (0,))
    site = mac("Gemm", weights, bias, transB=1, alpha=1.0, beta=1.0)
    found, _ = quantize_weights(site, source, out)
    reach = max(127 - zero_point, 128 + zero_point)
    total = np.abs(found.values.astype(np.float64)).sum() * reach + abs(float(bias[0])) / (0.1 * float(found.scale[0]))
    assert total <= INT32_MAX


def test_a_raised_scale_is_noted_with_its_channel():
    source, out = QFormat("int8", (1e-6,), (0,)), QFormat("int8", (1e-5,), (0,))
    _, notes = quantize_weights(mac("Conv", random(3, 2, 1, 1), [0, 1e6, 0], group=1), source, out)
    assert notes == ("Conv 'layer' (node 3): weight scale raised against int32 overflow in channels 1",)


def test_a_raised_scale_of_weights_that_never_move_the_output_is_not_noted():
    source, out = QFormat("int8", (1e-6,), (0,)), QFormat("int8", (1e-3,), (0,))
    _, notes = quantize_weights(mac("Conv", random(3, 2, 1, 1), [0, 1e6, 0], group=1), source, out)
    assert notes == ()


def test_given_weights_are_restored_to_their_own_integers():
    integers = np.random.default_rng(0).integers(-128, 128, (4, 3, 3, 3))
    scale = np.float32([0.01, 0.02, 0.5, 1e-5])
    site = mac("Conv", integers * scale[:, None, None, None], group=1)
    given_format = QFormat("int8", tuple(float(s) for s in scale), (0,) * 4)
    found, _ = quantize_weights(site, UNIT, UNIT, given_format)
    np.testing.assert_array_equal(found.values, integers)
    np.testing.assert_array_equal(found.scale, scale)


def test_every_weight_that_is_not_finite_is_named_with_its_count():
    weights = random(2, 3, 3, 3)
    weights[0, 0, 0, 0], weights[1, 2, 2, 2] = np.nan, np.inf
    with pytest.raises(NumericsError, match=r"'w' of Conv 'layer' \(node 3\): 1 NaN, 1 Inf of 54") as caught:
        check_constants([mac("Conv", weights, group=1)])
    assert caught.value.exit == 5


def test_a_mask_of_minus_infinity_in_an_addend_is_no_error():
    check_constants([Site("Add", "mask", 0, ("x", "m"), ("y",), {}, {}, {}, {"m": np.array([0, -np.inf])})])


def batch_norm(variance):
    names = ("scale", "bias", "mean", "variance")
    constants = dict.fromkeys(names[:3], np.ones(2, np.float32)) | {"variance": np.asarray(variance, np.float32)}
    return Site("BatchNormalization", "norm", 0, ("x", *names), ("y",), {"epsilon": 1e-5}, {}, {}, constants)


def test_a_variance_without_a_square_root_is_refused():
    with pytest.raises(
        NumericsError, match=r"'variance' of .* 'norm' \(node 0\): 1 variance that is not above -epsilon of 2"
    ):
        check_constants([batch_norm([1, -1])])


def test_a_variance_of_zero_is_kept_apart_from_zero_by_epsilon():
    check_constants([batch_norm([0, 1])])


@pytest.mark.parametrize(
    ("op", "attrs"), [("Clip", {"min": float("nan"), "max": 6.0}), ("Elu", {"alpha": float("nan")})]
)
def test_a_parameter_that_is_no_number_is_refused_by_its_node(op, attrs):
    with pytest.raises(NumericsError, match=f"of {op} 'layer'"):
        check_constants([Site(op, "layer", 3, ("x",), ("y",), attrs)])
    check_constants([Site(op, "layer", 3, ("x",), ("y",), {"min": float("-inf"), "max": float("inf")})])
