# ruff: noqa: E501 (a graph is one line)
"""Moves of fx32 and fp16: every number arrives as it was, in whatever layout, tiles and engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from axtool.ops.storing import to_numbers, to_reals
from axtool.plan.build import plan
from axtool.plan.check_plan import verify_plan
from axtool.runtime.device import DeviceSession
from axtool.target_file import load_target
from tests.plan.lower_case import Case
from tests.plan.test_lower_mixed import program_of
from tests.plan.test_lower_numbers import CASES

TARGET = load_target("qc-u-1d5-8mb")
SMALL = replace(TARGET, memory=replace(TARGET.memory, ocm_bytes=6 << 10))  # tensors do not fit: boxes come and go
MOVES = {
    **{name: CASES[name][0] for name in (
        "concat of channels", "concat of rows", "concat of columns, twice the same", "concat of rank 3", "pad by reflection",
        "transpose", "transpose of tokens", "depth to space", "space to depth",
    )},
    "heads of tokens": "(float[1,5,12] x) => (float[1,3,5,4] y) <int64[4] s = {1,5,3,4}> { a = Reshape(x, s) y = Transpose<perm=[0,2,1,3]>(a) }",
    "heads with keys as columns": "(float[1,5,12] x) => (float[1,3,4,5] y) <int64[4] s = {1,5,3,4}> { a = Reshape(x, s) y = Transpose<perm=[0,2,3,1]>(a) }",
    "an image as tokens": "(float[1,7,3,4] x) => (float[1,12,7] y) <int64[3] s = {1,7,12}> { a = Reshape(x, s) y = Transpose<perm=[0,2,1]>(a) }",
    "parts of packed projections": "(float[1,5,21] x) => (float[1,5,7] a, float[1,5,14] b) <int64[2] n = {7,14}> { a, b = Split<axis=2>(x, n) }",
    "channels sliced": "(float[1,5,17] x) => (float[1,5,6] y) <int64[1] s = {3}, int64[1] e = {9}, int64[1] t = {2}> { y = Slice(x, s, e, t) }",
    "rows sliced with a step": "(float[1,3,9,8] x) => (float[1,3,5,8] y) <int64[1] s = {0}, int64[1] e = {9}, int64[1] t = {2}, int64[1] d = {2}> { y = Slice(x, s, e, t, d) }",
    "zeros around": "(float[1,3,4,5] x) => (float[1,5,6,6] y) <int64[8] p = {0,1,1,0,0,1,1,1}> { y = Pad(x, p) }",
    "nearest, twice as large": '(float[1,3,4,5] x) => (float[1,3,8,10] y) <float[4] s = {1.0,1.0,2.0,2.0}> { y = Resize<mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor">(x, , s) }',
    "another shape": "(float[1,6,4,5] x) => (float[1,10,12] y) <int64[3] s = {1,10,12}> { y = Reshape(x, s) }",
}  # fmt: skip


@pytest.mark.parametrize("kind", ["fx32", "fp16"])
@pytest.mark.parametrize("name", MOVES)
def test_a_move_keeps_every_number(name: str, kind: str) -> None:
    case = Case(MOVES[name])
    program = program_of(case, dict.fromkeys(case.inputs, kind))
    kinds = {program.tensors[out].format.kind for out in case.outputs}
    assert kinds == {kind}
    given, mixed = program.tensors[case.inputs[0]].format, len(case.inputs) > 1 and kind == "fx32"
    want = {
        out: case.floats[out] if mixed else to_reals(to_numbers(case.floats[out], given), given) for out in case.outputs
    }
    for chip in (TARGET, SMALL):
        planned = plan(program, chip)
        verify_plan(planned, chip)
        for engine in ("reference", "native"):
            made = DeviceSession(planned, engine=engine).run(case.feeds)
            for out in case.outputs:
                # parts of other fraction bits come to the coarsest: half a step to there, and a step floored
                steps = 1.5 * 2.0 ** -program.tensors[out].format.fraction_bits if mixed else 0.0
                np.testing.assert_allclose(made[out], want[out], rtol=2.0**-24 if mixed else 0.0, atol=steps)
