"""Layouts of weights: there and back, and where each byte is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from axtool.ops import packing as pk
from tests.ops.unpacking import unpack_conv_transpose, unpack_conv_weights, unpack_depthwise, unpack_params

CHANNELS = st.sampled_from([1, 2, 3, 4, 5, 7, 15, 16, 17, 33, 65])
KERNELS = st.tuples(st.integers(1, 4), st.integers(1, 4))


def random_int8(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, shape, dtype=np.int8)


@given(CHANNELS, CHANNELS, KERNELS, st.integers(1, 4), st.integers(0, 99))
def test_conv_weights_survive_packing(coutg, cing, kernel, group, seed):
    w = random_int8(seed, coutg * group, cing, *kernel)
    flat = pk.pack_conv_weights(w, group)
    assert flat.size == group * pk.blocks(coutg) * pk.conv_block_bytes(kernel, cing)
    np.testing.assert_array_equal(unpack_conv_weights(flat, coutg * group, cing, kernel, group), w)


@given(CHANNELS, CHANNELS, KERNELS, st.integers(1, 4), st.integers(0, 99))
def test_conv_transpose_weights_survive_packing(coutg, cing, kernel, group, seed):
    w = random_int8(seed, cing * group, coutg, *kernel)
    flat = pk.pack_conv_weights(pk.outputs_first(w, group), group)
    np.testing.assert_array_equal(unpack_conv_transpose(flat, cing * group, coutg, kernel, group), w)


@given(CHANNELS, KERNELS, st.integers(0, 99))
def test_depthwise_weights_survive_packing(cout, kernel, seed):
    w = random_int8(seed, cout, 1, *kernel)
    flat = pk.pack_depthwise(w)
    assert flat.size == pk.blocks(cout) * pk.depthwise_block_bytes(kernel)
    np.testing.assert_array_equal(unpack_depthwise(flat, cout, kernel), w)


@given(CHANNELS, st.integers(1, 4), st.integers(0, 99))
def test_params_survive_packing(coutg, group, seed):
    rows = np.random.default_rng(seed).integers(-(2**31), 2**31, (4, coutg * group), dtype=np.int64)
    flat = pk.pack_params(*rows, group)
    assert flat.dtype == np.int32
    np.testing.assert_array_equal(unpack_params(flat, coutg * group, group), rows)


def test_a_conv_weight_is_where_the_layout_says():
    w = random_int8(0, 2 * 17, 6, 2, 3)
    flat = pk.pack_conv_weights(w, 2).reshape(2, 2, 6, 2, 16, 4)  # group, block, tap, cin / 4, lane, dot
    assert flat[1, 1, 4, 1, 0, 1] == w[17 + 16, 5, 1, 1]


def test_a_conv_transpose_weight_is_not_flipped():
    w = random_int8(0, 6, 5, 2, 3)
    flat = pk.pack_conv_weights(pk.outputs_first(w, 1), 1).reshape(1, 1, 6, 2, 16, 4)
    assert flat[0, 0, 5, 1, 3, 1] == w[5, 3, 1, 2]


def test_padding_is_zero():
    flat = pk.pack_conv_weights(np.full((3, 5, 1, 1), 7, np.int8), 1)
    assert np.count_nonzero(flat) == 3 * 5


def test_a_bias_wraps_to_32_bits():
    assert pk.fold_bias([2**31 - 1], -1, [1]).tolist() == [-(2**31)]
    assert pk.pack_params([2**31], 1, 31, 0)[0] == -(2**31)


def test_groups_that_do_not_divide_the_channels_are_refused():
    with pytest.raises(ValueError, match="5 channels do not divide into 2 groups"):
        pk.pack_conv_weights(np.zeros((5, 1, 1, 1), np.int8), 2)


def test_a_depthwise_filter_with_two_inputs_is_refused():
    with pytest.raises(ValueError, match="one input channel"):
        pk.pack_depthwise(np.zeros((5, 2, 1, 1), np.int8))
