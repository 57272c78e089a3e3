"""slice, pad, transpose, reshape, depth_to_space, space_to_depth against NumPy and onnxruntime."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axtool.ops.boxes import Job, whole
from axtool.ops.reference import compute
from tests.ops.cases import random_case, whole_box
from tests.ops.ort import hwc, nchw, run_node

SEEDS = st.integers(0, 2**32 - 1)
EXAMPLES = 60


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=SEEDS)
def test_slice_takes_what_numpy_takes(seed):
    case = random_case("slice", seed)
    x = case.operands[0]
    for axis, (start, step, count) in enumerate(
        zip(case.attrs["start"], case.attrs["step"], case.out_dims, strict=True)
    ):
        x = np.take(x, [start + step * at for at in range(count)], axis)
    np.testing.assert_array_equal(compute(case.job(), case.boxes()), x)


@pytest.mark.parametrize(("mode", "name"), [(0, "constant"), (1, "reflect"), (2, "edge")])
@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.tuples(st.integers(4, 6), st.integers(4, 6), st.sampled_from([4, 7, 17])),
    st.lists(st.integers(0, 3), min_size=6, max_size=6),
    st.integers(-128, 127),
)
def test_pad_is_the_one_of_onnx(mode, name, shape, amounts, value):
    x = np.random.default_rng(0).integers(-128, 128, shape, dtype=np.int8)
    pads = np.array([*amounts[:3], *amounts[3:]], np.int64)
    want = run_node("Pad", x, pads, np.array(value, np.int8), mode=name)
    job = Job("pad", shape, want.shape, {"before": tuple(amounts[:3]), "mode": mode, "value": value}, whole(want.shape))
    np.testing.assert_array_equal(compute(job, [whole_box(x)]), want)


def test_a_negative_pad_crops():
    x = np.arange(8, dtype=np.int8).reshape(8, 1, 1)
    job = Job("pad", x.shape, (4, 1, 1), {"before": (-3, 0, 0), "mode": 0, "value": 9}, whole((4, 1, 1)))
    assert compute(job, [whole_box(x)]).reshape(-1).tolist() == [3, 4, 5, 6]


def test_reflecting_one_row_repeats_it():
    x = np.full((1, 1, 1), 3, np.int8)
    job = Job("pad", x.shape, (5, 1, 1), {"before": (2, 0, 0), "mode": 1, "value": 9}, whole((5, 1, 1)))
    assert compute(job, [whole_box(x)]).reshape(-1).tolist() == [3] * 5


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=SEEDS)
def test_transpose_permutes_the_axes(seed):
    case = random_case("transpose", seed)
    np.testing.assert_array_equal(compute(case.job(), case.boxes()), np.transpose(case.operands[0], case.attrs["perm"]))


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=SEEDS)
def test_reshape_keeps_the_order_of_elements(seed):
    case = random_case("reshape", seed)
    np.testing.assert_array_equal(compute(case.job(), case.boxes()), case.operands[0].reshape(case.out_dims))


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=SEEDS)
def test_depth_to_space_is_the_one_of_onnx(seed):
    case = random_case("depth_to_space", seed)
    mode = ("DCR", "CRD")[case.attrs["mode"]]
    x = nchw(case.operands[0]).astype(np.float32)
    want = hwc(run_node("DepthToSpace", x, blocksize=case.attrs["block"], mode=mode))
    np.testing.assert_array_equal(compute(case.job(), case.boxes()), want)


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=SEEDS)
def test_space_to_depth_is_the_one_of_onnx(seed):
    case = random_case("space_to_depth", seed)
    x = nchw(case.operands[0]).astype(np.float32)
    want = hwc(run_node("SpaceToDepth", x, blocksize=case.attrs["block"]))
    np.testing.assert_array_equal(compute(case.job(), case.boxes()), want)
