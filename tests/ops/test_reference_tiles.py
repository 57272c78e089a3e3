"""A box computed from no more than it needs equals the same box of the whole result."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axtool.ops.boxes import Box, contains, is_empty, whole
from axtool.ops.elements import narrow
from axtool.ops.encoding import FIELDS
from axtool.ops.legal import check_layer
from axtool.ops.reference import REFERENCE, compute
from axtool.ops.regions import needed, reads_of, written
from axtool.types import Tile
from tests.ops.cases import Case, random_case, random_tile, whole_box

EXAMPLES = 40


def staged(case: Case, tile: Tile, part: int) -> list[Box]:
    """Copies of what the tile needs, and nothing else."""
    job, boxes = case.job(tile, part), case.boxes()
    if case.op == "concat":
        boxes = [boxes[part]]
    out = []
    for read, box in enumerate(boxes):
        want = needed(job, read)
        if narrow(case.op) == "avg_pool" and read == 1:
            want = box.tile
        out.append(Box(np.zeros((0, 0, 0), np.int8), want) if is_empty(want) else Box(box.cut(want).copy(), want))
    return out


def whole_result(case: Case) -> np.ndarray:
    if case.op != "concat":
        return compute(case.job(), case.boxes())
    out = np.zeros(case.out_dims, np.int8)
    for part, array in enumerate(case.operands):
        job = case.job(part=part)
        Box(out, whole(case.out_dims)).cut(written(job))[...] = compute(job, [whole_box(array)])
    return out


@pytest.mark.parametrize("op", FIELDS)
@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_tile_equals_its_part_of_the_whole(op, seed):
    case = random_case(op, seed)
    tile = random_tile(case, seed)
    want = Box(whole_result(case), whole(case.out_dims))
    for part in range(len(case.operands) if op == "concat" else 1):
        job = case.job(tile, part)
        box = written(job)
        if not is_empty(box):
            np.testing.assert_array_equal(compute(job, staged(case, tile, part)), want.cut(box))


@pytest.mark.parametrize("op", FIELDS)
@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_what_a_tile_needs_is_inside_its_operands(op, seed):
    case = random_case(op, seed)
    tile = random_tile(case, seed)
    for read, box in enumerate(case.boxes()):
        job = case.job(tile, read if op == "concat" else 0)
        assert contains(box.tile, needed(job, 0 if op == "concat" else read))


@pytest.mark.parametrize("op", FIELDS)
def test_random_layers_are_legal_and_read_what_their_op_reads(op):
    for seed in range(30):
        case = random_case(op, seed)
        check_layer(op, case.in_dims, case.out_dims, case.attrs)
        assert set(case.attrs) == set(FIELDS[op])
        if op != "concat":
            assert len(case.operands) == reads_of(op, case.attrs)


def test_every_device_op_has_a_reference():
    assert set(REFERENCE) == set(FIELDS)
