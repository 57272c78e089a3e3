# ruff: noqa: E501 (a graph is one line)
"""Numbers of fx32 and fp16 through what only moves them, and the ends of the device in these formats."""

from __future__ import annotations

import numpy as np
import pytest

from axtool.ops.storing import to_numbers, to_reals
from axtool.plan.build import plan
from axtool.plan.check_plan import verify_plan
from axtool.plan.check_program import verify_program
from axtool.plan.lower import lower
from axtool.quant.formats import quantize_stage
from axtool.runtime.device import DeviceSession
from axtool.target_file import load_target
from tests.plan.lower_case import Case

MOVES = {
    "reshape": "(float[1,6,4] x) => (float[1,4,6] y) <int64[3] s = {1,4,6}> { y = Reshape(x, s) }",
    "transpose": "(float[1,6,5] x) => (float[1,5,6] y) { y = Transpose<perm=[0,2,1]>(x) }",
    "image to tokens": "(float[1,3,2,5] x) => (float[1,10,3] y) <int64[3] s = {1,3,10}> { a = Reshape(x, s) y = Transpose<perm=[0,2,1]>(a) }",
    "slice of tokens": "(float[1,6,5] x) => (float[1,2,5] y) <int64[1] a = {1}, int64[1] b = {3}, int64[1] c = {1}> { y = Slice(x, a, b, c) }",
    "slice of channels": "(float[1,6,7] x) => (float[1,6,3] y) <int64[1] a = {2}, int64[1] b = {5}, int64[1] c = {2}> { y = Slice(x, a, b, c) }",
    "split": "(float[1,6,6] x) => (float[1,6,2] y, float[1,6,4] z) <int64[2] s = {2,4}> { y, z = Split<axis=2>(x, s) }",
    "concat": "(float[1,2,3] x, float[1,4,3] z) => (float[1,6,3] y) { y = Concat<axis=1>(x, z) }",
    "concat of channels": "(float[1,2,3] x, float[1,2,4] z) => (float[1,2,7] y) { y = Concat<axis=2>(x, z) }",
    "pad": "(float[1,2,3,3] x) => (float[1,2,5,4] y) <int64[8] p = {0,0,1,0,0,0,1,1}> { y = Pad(x, p) }",
    "nearest": """(float[1,2,3,3] x) => (float[1,2,6,6] y) <float[4] s = {1.0,1.0,2.0,2.0}> { y = Resize<mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor">(x, , s) }""",
}  # fmt: skip


TARGET = load_target("qc-u-1d5-8mb")


def numbers_of(case: Case, precision, **more):
    ranges = dict.fromkeys(case.floats, (-4.0, 4.0))
    return quantize_stage(case.sites, ranges, TARGET, case.inputs, case.outputs, precision=precision, **more)


def session_of(case: Case, numbers, engine: str) -> DeviceSession:
    program = lower(case.sites, numbers, TARGET, case.inputs, case.outputs)
    verify_program(program)
    planned = plan(program, TARGET)
    verify_plan(planned, TARGET)
    return DeviceSession(planned, engine=engine)


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("kind", ["fx32", "fp16"])
@pytest.mark.parametrize("name", MOVES)
def test_what_only_moves_numbers_keeps_every_bit_of_them(name, kind, engine):
    case = Case(MOVES[name])
    numbers = numbers_of(case, dict.fromkeys(case.inputs, kind))
    made = session_of(case, numbers, engine).run(case.feeds)
    for out in case.outputs:
        assert numbers.formats[out].kind == kind
        np.testing.assert_array_equal(
            made[out], to_reals(to_numbers(case.floats[out], numbers.formats[out]), numbers.formats[out])
        )
