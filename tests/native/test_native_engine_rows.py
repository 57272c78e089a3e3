"""Ops that look at all channels of a pixel: the native engine gives the bytes of the reference on every CPU."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from axtool.ops.boxes import Job
from axtool.ops.encoding import OPCODES, ragged
from axtool.ops.exponential import exp_table
from axtool.ops.reference_fx_rows import fx_affine
from axtool.ops.reference_rows import affine_pairs, epsilon_fields
from axtool.sim.engine import open_engine
from axtool.types import Tile
from tests.native.one_command import EXAMPLES, Memory, same_bytes, seeded
from tests.ops.cases import random_case, random_tile

LENGTHS = (1, 3, 7, 17, 33, 64, 65, 100, 256, 1000)
LAYER = {"softmax": [2**30, 24, 0, -128, 127, 1], "layer_norm": [29, 0, -128, 127, 2**30, -20, 3]}
LAYER |= {"fx_softmax": [24, 30, 1, 4, 4], "fx_layer_norm": [31, 2**30, -20, 3, 4, 4]}


@pytest.mark.parametrize("op", ["softmax", "layer_norm", "arg_max", "fx_softmax", "fx_layer_norm"])
@EXAMPLES
@given(data=st.data())
def test_row_ops_have_the_bytes_of_the_reference(op: str, data: st.DataObject) -> None:
    draw, memory = data.draw, seeded(data.draw)
    seed = draw(st.integers(0, 2**32 - 1))
    case = random_case(op, seed)
    memory.fill = np.ascontiguousarray(case.operands[0]).view(np.uint8).reshape(-1)  # rows of few numbers as well
    job = case.job(random_tile(case, seed) if draw(st.booleans()) else None)
    same_bytes(job, memory, dict(enumerate(case.operands[1:], 1)))


@pytest.mark.parametrize("length", LENGTHS)
def test_rows_of_every_length_are_summed_whole(length: int) -> None:
    rng = np.random.default_rng(length)
    pairs, f = affine_pairs(rng.normal(1, 0.3, length), rng.normal(0, 1, length), 0.03, length)
    norm = {"f": f, "out_zp": 5, "lo": -128, "hi": 127, **epsilon_fields(1e-5, 0.02, length)}
    dims = (2, 5, length)
    for form in range(4):
        same_bytes(Job("layer_norm", dims, dims, norm | {"form": form}, Tile(0, 0, 0, *dims)), Memory(form), {1: pairs})
    attrs = {"m": 255 << 23, "f": 23, "out_zp": -128, "lo": -128, "hi": 127, "form": 1}
    for scale in (0.001, 0.1, 3.0):
        same_bytes(Job("softmax", dims, dims, attrs, Tile(0, 0, 0, *dims)), Memory(1), {1: exp_table(scale)})


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("form", range(4))
def test_rows_of_fx32_are_summed_whole(length: int, form: int) -> None:
    rng = np.random.default_rng(length)
    pairs, shift = fx_affine(rng.normal(1, 0.3, length), rng.normal(0, 1, length), 28, length)
    dims = (2, 5, length * 4)
    norm = {"shift": shift, **epsilon_fields(1e-5, 2.0**-24, length), "form": form, "x_bytes": 4, "out_bytes": 4}
    for at, fill in enumerate(
        (rng.integers(-(2**31), 2**31, 997), rng.integers(-9, 9, 997), rng.normal(0, 2**24, 997))
    ):
        memory = Memory(at)
        memory.fill = fill.astype("<i4").view(np.uint8)
        same_bytes(Job("fx_layer_norm", dims, dims, norm, Tile(0, 0, 0, *dims)), memory, {1: pairs})
        attrs = {"f_x": 24, "f": 30 + at % 2, "form": form % 2, "x_bytes": 4, "out_bytes": 4}
        memory = Memory(at)
        memory.fill = fill.astype("<i4").view(np.uint8)
        same_bytes(Job("fx_softmax", dims, dims, attrs, Tile(0, 0, 0, *dims)), memory, {})


@pytest.mark.parametrize("length", [*LENGTHS, 15, 16, 31, 150])
def test_the_first_of_the_largest_is_found_wherever_it_is(length: int) -> None:
    dims, attrs = (4, 7, length), {"flat": 1, "last": 0, "x_bytes": 1, "out_bytes": 4}
    for levels in (b"\0\1", b"\x80\x81", b"\x7e\x7f", bytes(range(256))):
        memory = Memory(length)
        memory.fill = memory.random.choice(np.frombuffer(levels, np.uint8), 997)
        same_bytes(Job("arg_max", dims, (1, 4, 28), attrs, Tile(0, 0, 0, 1, 4, 28)), memory, {})


def test_the_longest_row_is_summed_without_loss() -> None:
    length = 2**16
    pairs, f = affine_pairs(np.ones(length), np.zeros(length), 0.03, length)
    dims = (1, 1, length)
    for form in (0, 1):
        norm = {"f": f, "out_zp": 0, "lo": -128, "hi": 127, **epsilon_fields(1e-5, 0.02, length), "form": form}
        memory = Memory(form)
        memory.fill = np.array([127, 128], np.uint8)  # 127 and -128: the largest squares
        same_bytes(Job("layer_norm", dims, dims, norm, Tile(0, 0, 0, *dims)), memory, {1: pairs})


@pytest.mark.parametrize(
    ("op", "at", "value", "why"),
    [
        ("softmax", 0, -1, "is not a scale|want at least 0"),
        ("softmax", 1, 32, "is not a scale|want 0..31"),
        ("softmax", 5, 2, "form 2 is not 0..1|want 0..1"),
        ("layer_norm", 6, 4, "form 4 is not 0..3|want 0..3"),
        ("layer_norm", 0, 30, "f 30 is not 0..29|want 0..29"),
        ("layer_norm", 4, 5, "number of 31 bits"),
        ("layer_norm", 5, 5000, "number of 31 bits"),
        ("fx_layer_norm", 0, 63, "shift 63 is not|want 0..62"),
        ("fx_layer_norm", 4, 2, "x_bytes 2 is not|numbers of 4 bytes"),
        ("fx_softmax", 0, 32, "f_x 32 is not 0..31|want 0..31"),
    ],
)
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_row_that_is_none_is_refused(engine: str, op: str, at: int, value: int, why: str) -> None:
    fields = list(LAYER[op])
    fields[at] = value
    row = [OPCODES[op], 2, 2, 8, 2, 2, 8, *fields]
    with pytest.raises(ValueError, match=why):
        open_engine(engine, *ragged([row]), *ragged([]), {"ext": 64, "ocm": 64})


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_row_of_more_than_2_to_the_16_channels_is_refused(engine: str) -> None:
    row = [OPCODES["softmax"], 1, 1, 2**16 + 1, 1, 1, 2**16 + 1, *LAYER["softmax"]]
    with pytest.raises(ValueError, match="65537 channels"):
        open_engine(engine, *ragged([row]), *ragged([]), {"ext": 64, "ocm": 64})
