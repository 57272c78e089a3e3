"""conv, depthwise and conv_transpose against onnxruntime's integers and against a scatter written another way."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axtool.ops.arithmetic import interpolate, qfp
from axtool.ops.packing import fold_bias, pack_conv_weights, pack_params
from axtool.ops.reference import compute
from axtool.ops.tables import interp_table
from axtool.ops.unary import evaluate
from axtool.types import QFormat
from tests.ops.cases import Case, random_case, whole_box
from tests.ops.ort import hwc, nchw, run_node
from tests.ops.unpacking import unpack_params

SEEDS = st.integers(0, 2**32 - 1)
EXAMPLES = 50
PLAIN_STEPS = 0.002  # the float32 sums of onnxruntime, and the truncated scale
FUSED_STEPS = 0.03  # and the rounding to 16 bits and the line between two entries, in output steps


def finish(case: Case, acc: np.ndarray) -> np.ndarray:
    """A real accumulator, sum of (x - zp) * w + bias, with Python's integers."""
    a, cout = case.attrs, case.out_dims[2]
    _, m, f, _ = unpack_params(case.operands[2], cout, 1 if case.op == "depthwise" else a["group"]).astype(object)
    half = np.array([1 << int(n) >> 1 for n in f], object)
    steps = ((acc.astype(object) + case.bias.astype(object)) * m + half) >> f
    if a["act"] == 0:
        return np.clip(steps + a["out_zp"], a["lo"], a["hi"]).astype(np.int8)
    v = np.clip(steps, -(2**15), 2**15 - 1).astype(np.int64)
    return interpolate(case.operands[3], v, a["lo"], a["hi"]).astype(np.int8)


def onnxruntime_sum(case: Case) -> np.ndarray:
    """ConvInteger in uint8 x uint8, the pair that onnxruntime sums without saturating on every CPU."""
    a = case.attrs
    x = nchw(case.operands[0]).astype(np.int16) + 128
    ends = [
        (out - 1) * s + (k - 1) * d + 1 - size - p  # may be negative: then crop
        for out, s, k, d, size, p in zip(
            case.out_dims[:2], a["stride"], a["kernel"], a["dilation"], case.in_dims[:2], a["pad"], strict=True
        )
    ]
    x = x[:, :, : x.shape[2] + min(ends[0], 0), : x.shape[3] + min(ends[1], 0)]
    acc = run_node(
        "ConvInteger",
        x.astype(np.uint8),
        (case.w.astype(np.int16) + 128).astype(np.uint8),
        np.array(a["x_zp"] + 128, np.uint8),
        np.array(128, np.uint8),
        opset=13,
        kernel_shape=a["kernel"],
        strides=a["stride"],
        dilations=a["dilation"],
        group=a["group"],
        pads=(*a["pad"], max(ends[0], 0), max(ends[1], 0)),
    )
    return hwc(acc).astype(np.int64)


def scattered_sum(case: Case) -> np.ndarray:
    """Every input pixel adds its weighted kernel to the output; what falls outside is dropped."""
    a, (height, width, cout) = case.attrs, case.out_dims
    x = case.operands[0].astype(np.int64) - a["x_zp"]
    group, coutg = a["group"], cout // a["group"]
    w = case.w.reshape(group, -1, coutg, *a["kernel"]).astype(np.int64)
    out = np.zeros((height, width, cout), np.int64)
    for iy, ix, ky, kx in itertools.product(*map(range, (*x.shape[:2], *a["kernel"]))):
        oy = iy * a["stride"][0] - a["pad"][0] + ky * a["dilation"][0]
        ox = ix * a["stride"][1] - a["pad"][1] + kx * a["dilation"][1]
        if 0 <= oy < height and 0 <= ox < width:
            out[oy, ox] += np.einsum("gi,gio->go", x[iy, ix].reshape(group, -1), w[..., ky, kx]).reshape(-1)
    return out


@pytest.mark.parametrize("op", ["conv", "depthwise"])
@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=SEEDS)
def test_a_convolution_has_the_integers_of_onnxruntime(op, seed):
    case = random_case(op, seed)
    if any(
        (out - 1) * s + (k - 1) * d + 1 - p < 1  # every window in front of the input: onnxruntime has no such case
        for out, s, k, d, p in zip(
            case.out_dims[:2],
            case.attrs["stride"],
            case.attrs["kernel"],
            case.attrs["dilation"],
            case.attrs["pad"],
            strict=True,
        )
    ):
        return
    np.testing.assert_array_equal(compute(case.job(), case.boxes()), finish(case, onnxruntime_sum(case)))


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=SEEDS)
def test_a_transposed_convolution_is_a_scatter(seed):
    case = random_case("conv_transpose", seed)
    np.testing.assert_array_equal(compute(case.job(), case.boxes()), finish(case, scattered_sum(case)))


@pytest.mark.parametrize(("stride", "pad", "kernel", "dilation"), [(2, 0, 2, 1), (2, 1, 4, 1), (3, 1, 3, 2)])
def test_a_transposed_convolution_means_what_onnx_means(stride, pad, kernel, dilation):
    rng = np.random.default_rng(0)
    x, w = rng.integers(-9, 10, (5, 4, 6), dtype=np.int8), rng.integers(-9, 10, (6, 4, kernel, kernel), dtype=np.int8)
    want = run_node(
        "ConvTranspose",
        nchw(x).astype(np.float32),
        w.astype(np.float32),
        group=2,
        strides=(stride, stride),
        pads=(pad,) * 4,
        dilations=(dilation, dilation),
    )
    attrs = {"kernel": (kernel,) * 2, "stride": (stride,) * 2, "dilation": (dilation,) * 2, "pad": (pad, pad)}
    case = Case("conv_transpose", x.shape, hwc(want).shape, {**attrs, "group": 2, "x_zp": 0}, (x,), w)
    np.testing.assert_array_equal(scattered_sum(case), hwc(want))


def one_by_one(w: np.ndarray, bias: int, scale: float, x: np.ndarray) -> np.ndarray:
    """A 1 x 1 convolution to 16-bit-wide results would not fit: the int8 output of one pixel."""
    m, f = qfp(scale)
    wsum = w.reshape(w.shape[0], -1).sum(axis=1, dtype=np.int64)
    attrs = {"kernel": (1, 1), "stride": (1, 1), "dilation": (1, 1), "pad": (0, 0), "group": 1, "act": 0}
    attrs |= {"x_zp": 0, "out_zp": 0, "lo": -128, "hi": 127}
    operands = (x, pack_conv_weights(w, 1), pack_params(fold_bias([bias] * len(w), 0, wsum), m, f, wsum))
    case = Case("conv", x.shape, (1, 1, w.shape[0]), attrs, operands)
    return compute(case.job(), [whole_box(a) for a in case.operands])


def test_the_accumulator_wraps_at_32_bits():
    w, x = np.full((1, 1, 1, 1), 127, np.int8), np.full((1, 1, 1), 127, np.int8)
    got = one_by_one(w, 2**31 - 1, 2.0**-30, x)
    assert got[0, 0, 0] == -2  # 2^31 - 1 + 127^2 is close to -2^31


def test_a_sum_of_many_products_is_exact():
    w, x = np.full((1, 4096, 1, 1), -128, np.int8), np.full((1, 1, 4096), -128, np.int8)
    assert one_by_one(w, -(4096 << 14) + 77, 1.0, x)[0, 0, 0] == 77


@pytest.mark.parametrize("fused", [False, True])
def test_a_quantized_convolution_follows_the_real_one(fused):
    """Real numbers in and out: onnxruntime's float convolution, with Silu behind it where it is fused."""
    rng = np.random.default_rng(1)
    s_x, zp, s_w, out = 0.02, -20, 0.003, QFormat("int8", (0.02,), (-70,))
    x = rng.integers(-128, 128, (9, 8, 17), dtype=np.int8)
    w = rng.integers(-127, 128, (33, 17, 3, 3), dtype=np.int8)
    bias = rng.integers(-3000, 3000, 33)
    wsum = w.reshape(33, -1).sum(axis=1, dtype=np.int64)
    scale16 = 8.0 / 2**15
    m, f = qfp(s_x * s_w / (scale16 if fused else out.scale[0]))
    operands = [x, pack_conv_weights(w, 1), pack_params(fold_bias(bias, zp, wsum), m, f, wsum)]
    if fused:
        operands.append(interp_table(lambda v: evaluate("Silu", v, {}), scale16, out))
    window = {"kernel": (3, 3), "stride": (1, 1), "dilation": (1, 1), "pad": (1, 1), "group": 1}
    attrs = {**window, "x_zp": zp, "out_zp": out.zero_point[0], "lo": -128, "hi": 127, "act": int(fused)}
    job = Case("conv", x.shape, (9, 8, 33), attrs, tuple(operands)).job()
    got = compute(job, [whole_box(a) for a in operands])
    real = run_node(
        "Conv",
        nchw(((x.astype(np.float64) - zp) * s_x).astype(np.float32)),
        (w * np.float32(s_w)).astype(np.float32),
        (bias * s_x * s_w).astype(np.float32),
        pads=(1, 1, 1, 1),
    )
    real = hwc(evaluate("Silu", real, {}) if fused else real) / out.scale[0] + out.zero_point[0]
    assert np.abs(got - np.clip(real, -128, 127)).max() <= 0.5 + (FUSED_STEPS if fused else PLAIN_STEPS)


@pytest.mark.parametrize("cin", [1024, 1025])
def test_the_largest_sums_that_a_float_holds_are_exact(cin):
    """An odd sum, which float32 does not hold above 2^24."""
    x, w = np.full((1, 1, cin), -128, np.int8), np.full((1, cin, 1, 1), -128, np.int8)
    x[..., -1] = w[:, -1] = -127
    assert one_by_one(w, 5 - 127 * 127 - ((cin - 1) << 14), 1.0, x).item() == 5
