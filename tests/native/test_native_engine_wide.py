"""Ops on int16: the native engine gives the bytes of the reference on any shape, bytes, box, scale and CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from axtool.ops.arithmetic import qfp
from axtool.ops.boxes import Job
from axtool.ops.packing import pack_conv_weights, pack_depthwise, pack_params
from axtool.types import Tile
from tests.native.one_command import EXAMPLES, Memory, same_bytes
from tests.ops.cases import random_case, random_tile

WIDE = ("wide_conv", "wide_depthwise", "wide_add", "wide_mul", "wide_requantize", "wide_lut", "wide_avg_pool")
PLAIN: dict[str, Any] = {"stride": (1, 1), "dilation": (1, 1), "pad": (0, 0), "x_zp": 0, "out_zp": 0}
SHORTS = {"lo": -(2**15), "hi": 2**15 - 1}


def flats(op: str, operands: tuple[NDArray[Any], ...]) -> dict[int, NDArray[Any]]:
    """The operands that are not tensors, by their place."""
    first = 2 if op in ("wide_add", "wide_mul") else 1
    return dict(enumerate(operands[first:], first))


@pytest.mark.parametrize("op", WIDE)
@EXAMPLES
@given(seed=st.integers(0, 2**32 - 1), whole=st.booleans())
def test_wide_ops_have_the_bytes_of_the_reference(op: str, seed: int, whole: bool) -> None:
    case = random_case(op, seed)
    tile = Tile(0, 0, 0, *case.out_dims) if whole else random_tile(case, seed)
    same_bytes(case.job(tile), Memory(seed), flats(op, case.operands))


def extreme(x: int) -> Memory:
    """A memory in which every int16 is `x`, or random with 0."""
    memory = Memory(1)
    if x:
        memory.fill = np.array([x], np.int16).view(np.uint8)
    return memory


@pytest.mark.parametrize("x", [-(2**15), 2**15 - 1, 0])
@pytest.mark.parametrize("w", [-128, 127, 0])
@pytest.mark.parametrize(("kernel", "cin"), [((1, 1), 511), ((1, 1), 512), ((3, 3), 65), ((1, 1), 2600), ((5, 5), 130)])
def test_sums_beyond_32_bits_are_exact(kernel: tuple[int, int], cin: int, x: int, w: int) -> None:
    random, shape = np.random.default_rng(0), (17, cin, *kernel)
    weights = np.full(shape, w, np.int8) if w else random.integers(-128, 128, shape, np.int8)
    m, f = np.array([qfp(v) for v in 2.0 ** random.uniform(-22, -16, 17)]).T
    params = pack_params(random.integers(-(2**31), 2**31, 17), m, f, 0)
    attrs = PLAIN | SHORTS | {"kernel": kernel, "group": 1, "act": 0, "x_bytes": 2, "out_bytes": 2}
    out = (8 - kernel[0], 8 - kernel[1], 34)
    job = Job("wide_conv", (7, 7, 2 * cin), out, attrs, Tile(0, 0, 0, *out))
    same_bytes(job, extreme(x), {1: pack_conv_weights(weights, 1), 2: params})


@pytest.mark.parametrize("x", [-(2**15), 0])
@pytest.mark.parametrize("kernel", [(1, 511), (23, 23), (40, 30)])
def test_many_taps_of_a_depthwise_are_exact(kernel: tuple[int, int], x: int) -> None:
    random = np.random.default_rng(0)
    weights = random.integers(-128, -120 if x else 128, (17, 1, *kernel), np.int8)
    m, f = np.array([qfp(v) for v in 2.0 ** random.uniform(-18, -14, 17)]).T
    params = pack_params(random.integers(-(2**31), 2**31, 17), m, f, 0)
    attrs = PLAIN | SHORTS | {"kernel": kernel, "group": 17, "act": 0, "x_bytes": 2, "out_bytes": 2}
    job = Job("wide_depthwise", (*kernel, 34), (1, 1, 34), attrs, Tile(0, 0, 0, 1, 1, 34))
    same_bytes(job, extreme(x), {1: pack_depthwise(weights), 2: params})


@pytest.mark.parametrize("out_bytes", [1, 2])
@pytest.mark.parametrize("largest", [2.0**-20, 2.0**-8, 1.5, 2.0**13])
def test_every_scale_is_exact(largest: float, out_bytes: int) -> None:
    """Those with 31 fraction bits, with fewer, and with fewer than 20."""
    random = np.random.default_rng(0)
    weights = random.integers(-128, 128, (65, 700, 1, 1), np.int8)
    weights[::2] //= 8  # sums of 32 bits in one channel, of more in the next
    m, f = np.array([qfp(v) for v in random.uniform(0, largest, 65)]).T
    params = pack_params(random.integers(-(2**20), 2**20, 65), m, f, 0)
    attrs = PLAIN | {"kernel": (1, 1), "group": 1, "act": 0, "x_bytes": 2, "out_bytes": out_bytes}
    attrs |= SHORTS if out_bytes == 2 else {"lo": -128, "hi": 100, "out_zp": 7}
    out = (3, 5, 65 * out_bytes)
    job = Job("wide_conv", (3, 5, 1400), out, attrs, Tile(0, 0, 0, *out))
    same_bytes(job, Memory(2), {1: pack_conv_weights(weights, 1), 2: params})


@pytest.mark.parametrize(
    ("op", "group"), [("wide_conv", 1), ("wide_conv", 2), ("wide_conv", 3), ("wide_depthwise", 96)]
)
def test_large_layers_are_cut_among_threads_without_a_trace(op: str, group: int) -> None:
    random = np.random.default_rng(0)
    share = 1 if op == "wide_depthwise" else 96 // group
    weights = random.integers(-128, 128, (96, share, 3, 3), np.int8)
    m, f = np.array([qfp(v) for v in 2.0 ** random.uniform(-9, -7, 96)]).T
    packed = pack_depthwise(weights) if op == "wide_depthwise" else pack_conv_weights(weights, group)
    params = pack_params(random.integers(-(2**20), 2**20, 96), m, f, 0, 1 if op == "wide_depthwise" else group)
    attrs = PLAIN | SHORTS | {"kernel": (3, 3), "pad": (1, 1), "group": group, "act": 0, "x_bytes": 2, "out_bytes": 2}
    for dims in ((1, 60, 192), (31, 40, 192)):
        job = Job(op, dims, dims, attrs, Tile(0, 0, 0, *dims))
        same_bytes(job, Memory(3), {1: packed, 2: params})


SCALES = [qfp(v * 0.999 * 2.0**e) for e in (-40, -17, -2, 0, 1, 7, 8, 9, 13, 14, 15, 16, 30) for v in (1.0, 0.6)]
ENDS = np.array([-(2**15), 2**15 - 1, -1, 0, 1, 255, -256, 12345], np.int16)


def ends() -> Memory:
    """A memory of the largest and smallest numbers, of either size, in all combinations of two views."""
    memory = Memory(4)
    memory.fill = np.concatenate([ENDS, np.roll(ENDS, 1), ENDS[::-1]]).view(np.uint8)
    return memory


@pytest.mark.parametrize("sizes", [(1, 1, 2), (1, 2, 1), (2, 1, 2), (2, 2, 1), (2, 2, 2)])
@pytest.mark.parametrize("sub", [0, 1])
def test_add_is_exact_at_the_ends_of_every_scale(sizes: tuple[int, int, int], sub: int) -> None:
    names = dict(zip(("a_bytes", "b_bytes", "out_bytes"), sizes, strict=True))
    zero = {
        name: 0 if size == 2 else zp
        for name, size, zp in zip(("zp_a", "zp_b", "out_zp"), sizes, (127, -128, 5), strict=True)
    }
    end = SHORTS if sizes[2] == 2 else {"lo": -128, "hi": 127}
    for left in SCALES:
        for right in SCALES[::3]:
            attrs = {"a": (2, 3, 29), "b": (1, 3, 29), "sub": sub} | names | zero | end
            attrs |= {"m_a": left[0], "f_a": left[1], "m_b": right[0], "f_b": right[1]}
            out = (2, 3, 29 * sizes[2])
            same_bytes(Job("wide_add", (2, 3, 29 * sizes[0]), out, attrs, Tile(0, 0, 0, *out)), ends(), {})


@pytest.mark.parametrize("sizes", [(1, 1, 2), (1, 2, 1), (2, 1, 2), (2, 2, 1), (2, 2, 2)])
def test_mul_is_exact_at_the_ends_of_every_scale(sizes: tuple[int, int, int]) -> None:
    names = dict(zip(("a_bytes", "b_bytes", "out_bytes"), sizes, strict=True))
    zero = {
        name: 0 if size == 2 else zp
        for name, size, zp in zip(("zp_a", "zp_b", "out_zp"), sizes, (127, -128, 5), strict=True)
    }
    end = SHORTS if sizes[2] == 2 else {"lo": -128, "hi": 127}
    for m, f in SCALES:
        attrs = {"a": (2, 3, 29), "b": (1, 3, 29), "m": m, "f": f} | names | zero | end
        out = (2, 3, 29 * sizes[2])
        same_bytes(Job("wide_mul", (2, 3, 29 * sizes[0]), out, attrs, Tile(0, 0, 0, *out)), ends(), {})


@pytest.mark.parametrize("sizes", [(1, 2), (2, 1), (2, 2)])
def test_requantize_is_exact_at_the_ends_of_every_scale(sizes: tuple[int, int]) -> None:
    zero = {"zp": 0 if sizes[0] == 2 else -128, "out_zp": 0 if sizes[1] == 2 else 100}
    end = SHORTS if sizes[1] == 2 else {"lo": -128, "hi": 127}
    for m, f in SCALES:
        attrs = {"m": m, "f": f, "x_bytes": sizes[0], "out_bytes": sizes[1]} | zero | end
        out = (2, 3, 29 * sizes[1])
        job = Job("wide_requantize", (2, 3, 29 * sizes[0]), out, attrs, Tile(0, 0, 0, *out))
        same_bytes(job, ends(), {})


@pytest.mark.parametrize("out_bytes", [1, 2])
def test_every_int16_is_looked_up(out_bytes: int) -> None:
    memory = Memory(5)
    memory.fill = np.arange(-(2**15), 2**15, dtype=np.int16).view(np.uint8)
    attrs = {"x_bytes": 2, "out_bytes": out_bytes} | (SHORTS if out_bytes == 2 else {"lo": -100, "hi": 127})
    table = memory.random.integers(-(2**31), 2**31, 1025)
    table[300:] >>= 8  # not all beyond the limits
    out = (8, 64, 130 * out_bytes)
    job = Job("wide_lut", (8, 64, 260), out, attrs, Tile(0, 0, 0, *out))
    same_bytes(job, memory, {1: table.astype(np.int32)})
