"""Pooling and resizing against onnxruntime."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axtool.ops.arithmetic import qfp
from axtool.ops.boxes import Job, whole
from axtool.ops.reference import compute
from tests.ops.cases import CHANNELS, whole_box
from tests.ops.ort import hwc, nchw, run_node

EXAMPLES = 60
ROUNDING = 0.5 + 1e-3
FULL = {"lo": -128, "hi": 127}


@st.composite
def pools(draw):
    """(x, ONNX attributes) of a pool that onnxruntime accepts."""
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    dilation = draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (1, 2)]))
    stride = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    pads = [draw(st.integers(0, kernel[axis % 2] - 1)) for axis in range(4)]
    size = [draw(st.integers((kernel[axis] - 1) * dilation[axis] + 1, 12)) for axis in range(2)]
    shape = (*size, draw(st.sampled_from(CHANNELS)))
    x = np.random.default_rng(draw(st.integers(0, 999))).integers(-128, 128, shape, dtype=np.int8)
    attrs = {"kernel_shape": kernel, "strides": stride, "dilations": dilation, "pads": tuple(pads)}
    return x, {**attrs, "ceil_mode": draw(st.integers(0, 1))}


def device_attrs(a: dict) -> dict:
    return {"kernel": a["kernel_shape"], "stride": a["strides"], "dilation": a["dilations"], "pad": a["pads"][:2]}


@settings(max_examples=EXAMPLES, deadline=None)
@given(pools())
def test_max_pool_is_the_one_of_onnx(pool):
    x, a = pool
    want = hwc(run_node("MaxPool", nchw(x), **a))
    job = Job("max_pool", x.shape, want.shape, device_attrs(a), whole(want.shape))
    np.testing.assert_array_equal(compute(job, [whole_box(x)]), want)


@settings(max_examples=2 * EXAMPLES, deadline=None)
@given(pools(), st.integers(0, 1), st.integers(-128, 127), st.integers(-20, 20))
def test_avg_pool_is_the_one_of_onnx(pool, include_pad, zp, out_zp):
    x, a = pool
    scale, out_scale = 0.03, 0.037
    real = nchw(((x.astype(np.float64) - zp) * scale).astype(np.float32))
    want = hwc(run_node("AveragePool", real, count_include_pad=include_pad, **a)) / out_scale + out_zp
    counts = range(1, math.prod(a["kernel_shape"]) + 1)
    rows = np.array([(n, *qfp(scale / (out_scale * n))) for n in counts], np.int32)
    attrs = {**device_attrs(a), "pad_end": a["pads"][2:], "include_pad": include_pad, "zp": zp, "out_zp": out_zp}
    job = Job("avg_pool", x.shape, want.shape, {**attrs, **FULL}, whole(want.shape))
    got = compute(job, [whole_box(x), whole_box(rows.reshape(-1))])
    assert np.abs(got - np.clip(want, -128, 127)).max() <= ROUNDING


def test_avg_pool_without_a_constant_for_a_count_is_an_error():
    attrs = {"kernel": (2, 2), "stride": (1, 1), "dilation": (1, 1), "pad": (0, 0), "pad_end": (0, 0)}
    attrs |= {"include_pad": 0, "zp": 0, "out_zp": 0, **FULL}
    x = np.zeros((2, 2, 1), np.int8)
    job = Job("avg_pool", x.shape, (1, 1, 1), attrs, whole((1, 1, 1)))
    with pytest.raises(ValueError, match="no constant for windows of 4 cells"):
        compute(job, [whole_box(x), whole_box(np.array([1, 1, 0], np.int32))])


def test_max_pool_of_padding_alone_is_the_smallest_number():
    attrs = {"kernel": (1, 1), "stride": (4, 4), "dilation": (1, 1), "pad": (0, 0)}
    x = np.full((1, 1, 1), 5, np.int8)
    job = Job("max_pool", x.shape, (2, 1, 1), attrs, whole((2, 1, 1)))
    assert compute(job, [whole_box(x)]).reshape(-1).tolist() == [5, -128]


RESIZES = given(
    st.tuples(st.integers(1, 7), st.integers(1, 7), st.sampled_from(CHANNELS)),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.integers(0, 999),
)


def onnx_resize(x: np.ndarray, factor: tuple[int, int], **attrs: object) -> np.ndarray:
    scales = np.array([1, 1, *factor], np.float32)
    return hwc(run_node("Resize", nchw(x.astype(np.float32)), None, scales, **attrs))


@settings(max_examples=EXAMPLES, deadline=None)
@RESIZES
def test_resize_nearest_is_the_one_of_onnx(shape, factor, seed):
    x = np.random.default_rng(seed).integers(-128, 128, shape, dtype=np.int8)
    want = onnx_resize(x, factor, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    job = Job("resize_nearest", x.shape, want.shape, {"factor": factor}, whole(want.shape))
    np.testing.assert_array_equal(compute(job, [whole_box(x)]), want)


@pytest.mark.parametrize(("mode", "name"), [(0, "half_pixel"), (1, "asymmetric")])
@settings(max_examples=EXAMPLES, deadline=None)
@RESIZES
def test_resize_linear_is_the_one_of_onnx(mode, name, shape, factor, seed):
    x = np.random.default_rng(seed).integers(-128, 128, shape, dtype=np.int8)
    zp, out_zp, ratio = 11, -7, 0.9
    want = onnx_resize(x.astype(np.float64) - zp, factor, mode="linear", coordinate_transformation_mode=name)
    m, f = qfp(ratio / (4 * factor[0] * factor[1]))
    attrs = {"factor": factor, "mode": mode, "zp": zp, "m": m, "f": f, "out_zp": out_zp}
    got = compute(Job("resize_linear", x.shape, want.shape, attrs, whole(want.shape)), [whole_box(x)])
    assert np.abs(got - np.clip(want * ratio + out_zp, -128, 127)).max() <= ROUNDING
