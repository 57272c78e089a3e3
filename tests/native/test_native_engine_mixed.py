"""Ops on fx32 and fp16: the native engine gives the bytes of the reference on any shape, box, scale and CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from axtool.ops.boxes import Job
from axtool.ops.encoding import ragged
from axtool.ops.legal import check_layer
from axtool.ops.packing_fp16 import pack_bias, pack_linear
from axtool.sim.engine import open_engine
from axtool.types import Tile
from tests.native.one_command import EXAMPLES, Memory, op_row, same_bytes
from tests.ops.cases import random_case, random_tile
from tests.ops.mixed_cases import MAKERS

PLAIN = {"zp": 0, "scale": 0, "shift": 0, "f_x": 24, "f": 20, "relu": 0, "bias_rows": 1}


def flats(op: str, operands: tuple[NDArray[Any], ...]) -> dict[int, NDArray[Any]]:
    """The operands that are not tensors, by their place."""
    first = 2 if op in ("fx_add", "fx_mul") else 1
    return dict(enumerate(operands[first:], first))


@pytest.mark.parametrize("op", MAKERS)
@EXAMPLES
@given(seed=st.integers(0, 2**32 - 1), whole=st.booleans())
def test_mixed_ops_have_the_bytes_of_the_reference(op: str, seed: int, whole: bool) -> None:
    case = random_case(op, seed)
    tile = Tile(0, 0, 0, *case.out_dims) if whole else random_tile(case, seed)
    same_bytes(case.job(tile), Memory(seed), flats(op, case.operands))


def every_half() -> Memory:
    """A memory that holds every fp16 there is."""
    memory = Memory(1)
    memory.fill = np.arange(2**16, dtype=np.uint16).view(np.uint8)
    return memory


@pytest.mark.parametrize("f", [0, 15, 31])
def test_every_fp16_becomes_the_same_fx32(f: int) -> None:
    out = (16, 64, 4 * 64)
    job = Job("fx_from_fp16", (16, 64, 2 * 64), out, {"f": f, "x_bytes": 2, "out_bytes": 4}, Tile(0, 0, 0, *out))
    same_bytes(job, every_half(), {})


@pytest.mark.parametrize("f", [0, 10, 14, 24, 31])
def test_fx32_at_every_rounding_edge_of_fp16(f: int) -> None:
    """Each fp16, the middle to the next one, and one step to either side of it."""
    halves = np.arange(0, 2**15 - 2**10, 7, dtype=np.uint16).view(np.float16).astype(np.float64)
    middles = np.ldexp((halves[1:] + halves[:-1]) / 2, f)
    steps = np.concatenate([np.rint(middles) + at for at in (-1, 0, 1)])
    steps = np.concatenate([steps, -steps, [2**31 - 1, -(2**31)]])
    memory = Memory(2)
    memory.fill = np.clip(steps, -(2**31), 2**31 - 1).astype("<i4").view(np.uint8)
    out = (16, 60, 2 * 64)
    job = Job("fp16_from_fx", (16, 60, 4 * 64), out, {"f": f, "x_bytes": 4, "out_bytes": 2}, Tile(0, 0, 0, *out))
    same_bytes(job, memory, {})


@pytest.mark.parametrize("out_bytes", [2, 4])
@pytest.mark.parametrize("x_bytes", [1, 2, 4])
@pytest.mark.parametrize(("pixels", "k", "n"), [((1, 200), 256, 96), ((29, 7), 300, 40), ((1, 3), 1030, 70)])
def test_large_linears_are_cut_among_threads_without_a_trace(
    pixels: tuple[int, int], k: int, n: int, x_bytes: int, out_bytes: int
) -> None:
    random = np.random.default_rng(k)
    weights = pack_linear(random.normal(0, 0.1, (k, n)))
    bias = pack_bias(random.normal(size=(pixels[0] * pixels[1], n)))
    attrs = PLAIN | {"bias_rows": pixels[0] * pixels[1], "x_bytes": x_bytes, "out_bytes": out_bytes}
    attrs |= {"zp": 3, "scale": 1 << 30, "shift": 5} if x_bytes == 1 else {}
    out = (*pixels, n * out_bytes)
    job = Job("fp16_linear", (*pixels, k * x_bytes), out, attrs, Tile(0, 0, 0, *out))
    same_bytes(job, Memory(3), {1: weights, 2: bias})


@pytest.mark.parametrize("relu", [0, 1])
@pytest.mark.parametrize("out_bytes", [2, 4])
def test_sums_that_leave_their_kind_saturate_and_no_number_is_always_the_same(out_bytes: int, relu: int) -> None:
    """Infinities of either sign, their difference, and numbers around the ends of fp16 and of fx32."""
    weights = np.array([[65504, -65504, np.inf, -np.inf, np.nan, 1, -1, 2**-24] * 4] * 2, np.float64)
    weights[1, ::3] *= -1
    ends = np.array([0, 2.0**31, -(2.0**31), 65519.996, 65520, -65520, 2.0**-25, 2.0**-24 * 1.5] * 4)
    attrs = PLAIN | {"x_bytes": 2, "f": 0, "out_bytes": out_bytes, "relu": relu}
    memory = every_half()
    out = (1, 999, 32 * out_bytes)
    job = Job("fp16_linear", (1, 999, 4), out, attrs, Tile(0, 0, 0, *out))
    same_bytes(job, memory, {1: pack_linear(weights), 2: pack_bias(ends)})


@pytest.mark.parametrize(("op", "wrong"), [
    ("fx_add", {"a_bytes": 2}), ("fx_add", {"shift_b": 63}), ("fx_add", {"shift_a": -31}), ("fx_add", {"sub": 2}),
    ("fx_mul", {"shift": 63}), ("fx_mul", {"out_bytes": 1}), ("fx_requantize", {"lo": 5, "hi": 4}),
    ("fx_quantize", {"shift": -1}), ("fx_quantize", {"inverse": -1}), ("fx_quantize", {"rest": 63}),
    ("fx_quantize", {"out_bytes": 1, "hi": 128}), ("fx_dequantize", {"x_bytes": 4}), ("fx_dequantize", {"scale": -1}),
    ("fx_lut", {"interval": 21}), ("fx_from_fp16", {"f": 32}), ("fp16_from_fx", {"f": -1}),
    ("fp16_linear", {"bias_rows": 7919}), ("fp16_linear", {"relu": 2}), ("fp16_linear", {"out_bytes": 1}),
    ("fp16_linear", {"f_x": 32}),
])  # fmt: skip
def test_the_engine_refuses_the_rows_that_are_illegal(op: str, wrong: dict[str, int]) -> None:
    case = random_case(op, 1)
    attrs = case.attrs | wrong
    with pytest.raises(ValueError, match=op):
        check_layer(op, case.in_dims, case.out_dims, attrs)
    row = op_row(op, case.in_dims, case.out_dims, attrs)
    with pytest.raises(ValueError, match=op):
        open_engine("native", *ragged([row]), *ragged([]), {"ext": 0, "ocm": 0})
