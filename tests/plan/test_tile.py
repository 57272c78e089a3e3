"""Tilings: boxes cover the output once, stay in the room they were given, and get better with more of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axtool.ops.encoding import dims_of
from axtool.plan.build import plan
from axtool.plan.check_plan import verify_plan
from axtool.plan.memory import align
from axtool.plan.tile import LEVELS, choose, smallest
from axtool.plan.tile_boxes import Step, TileJob, array_tile, constant_sizes, grid
from axtool.plan.tile_cost import evaluate
from axtool.plan.tile_flow import array_cycles
from axtool.target import Target
from axtool.target_file import load_target, set_values
from axtool.timing.cost import CostModel
from axtool.types import Program, Tile
from tests.plan.hand_programs import Net, every_op, run

CHIP = set_values(load_target("qc-u-1d5-8mb"), {"external.in_flight": 1})
EVERY = every_op()


def job(program: Program, at: int, chip: Target = CHIP) -> TileJob:
    layer = program.layers[at]
    names = [name for name in (*layer.inputs, *layer.outputs) if name not in program.constants]
    return TileJob(layer, program, chip, frozenset(names))


def covered(tiles: list[Tile], dims: tuple[int, int, int]) -> np.ndarray:
    counts = np.zeros(dims, int)
    for t in tiles:
        counts[t.y : t.y + t.h, t.x : t.x + t.w, t.c : t.c + t.n] += 1
    return counts


@given(st.tuples(*[st.integers(1, 40)] * 3), st.tuples(*[st.integers(1, 40)] * 3), st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_grid_covers_its_area_once(dims, size, by_channel):
    assert (covered(list(grid(Tile(0, 0, 0, *dims), size, by_channel)), dims) == 1).all()


@pytest.mark.parametrize("at", range(len(EVERY.layers)), ids=lambda i: EVERY.layers[i].op)
@pytest.mark.parametrize("level", [0, 3, LEVELS - 1])
def test_the_room_of_a_level_is_enough_for_a_tiling(at: int, level: int):
    work = job(EVERY, at)
    room = smallest(work, level)
    tiling = choose(work, room)
    assert tiling is not None
    assert tiling.bytes <= room


@pytest.mark.parametrize("at", range(len(EVERY.layers)), ids=lambda i: EVERY.layers[i].op)
def test_the_steps_of_a_layer_cover_its_output_once(at: int):
    work = job(EVERY, at)
    tiling = choose(work, smallest(work, LEVELS - 2))
    dims = dims_of(EVERY.tensors[work.layer.outputs[0]].shape)
    assert (covered([step.box for step in tiling.steps], dims) == 1).all()


def test_nothing_fits_no_room():
    assert choose(job(EVERY, 0), 0) is None


def test_a_layer_with_room_is_one_step():
    assert len(choose(job(EVERY, 0), 1 << 30).steps) == 1


def test_more_room_costs_no_more_cycles_within_five_per_cent():
    net = Net(200, 200, 32)
    net.conv("x", 64)
    work = job(net.program("t0"), 0)
    cycles = [choose(work, kib * 1024).cycles for kib in (64, 128, 256, 512, 1024, 2048, 8192)]
    assert all(later <= 1.05 * earlier for earlier, later in pairwise(cycles))
    assert cycles[-1] < 0.5 * cycles[0]


def test_weights_larger_than_the_room_come_in_slices_of_sixteen_channels():
    net = Net(8, 8, 256)
    net.conv("x", 256)
    program = net.program("t0")
    tiling = choose(TileJob(program.layers[0], program, CHIP, frozenset()), 200_000)
    assert tiling.sliced
    assert all(step.box.c % 16 == 0 for step in tiling.steps)


def test_a_grouped_convolution_is_never_split_inside_a_group_of_odd_size():
    net = Net(40, 40, 36)
    net.conv("x", 36, group=3)
    work = job(net.program("t0"), 0)
    for level in range(LEVELS):
        tiling = choose(work, smallest(work, level))
        assert all(step.box.c % 12 == 0 for step in tiling.steps)


def test_two_buffers_overlap_transfers_and_array():
    net = Net(200, 200, 32)
    net.conv("x", 32)
    work = job(net.program("t0"), 0)
    one, two = evaluate(work, (32, 200, 32)), evaluate(work, (32, 200, 32), double=True)
    assert two.cycles < one.cycles
    assert two.bytes > one.bytes


def test_a_band_is_read_with_its_halo():
    net = Net(64, 64, 4)
    net.conv("x", 4, k=5)
    tiling = evaluate(job(net.program("t0"), 0), (16, 64, 4))
    assert tiling.staged[0].size == (16 + 4) * 64 * 4


@pytest.mark.parametrize(("dims", "tile"), [((64, 64, 3), (32, 32)), ((1, 600, 8), (1, 1024)), ((77, 1, 8), (1024, 1))])
def test_a_line_of_tokens_fills_the_array(dims, tile):
    assert array_tile(dims, CHIP) == tile


def test_a_box_costs_what_its_commands_cost():
    net = Net(64, 64, 64)
    program = net.program(net.conv("x", 64, k=3))
    model = CostModel(program, CHIP)
    commands = [model.cost(0, Tile(y, x, 0, 32, 32, 64)).total for y in (0, 32) for x in (0, 32)]
    whole = array_cycles(job(program, 0), Step(Tile(0, 0, 0, 64, 64, 64)))
    assert whole == sum(commands)


def test_a_box_on_an_array_of_one_pixel_loads_its_weights_once():
    net = Net(64, 64, 64)
    program, chip = net.program(net.conv("x", 64)), load_target("nvdla-2048")
    box = Tile(0, 0, 0, 64, 64, 64)
    assert array_cycles(job(program, 0, chip), Step(box)) == CostModel(program, chip).cost(0, box).total
    assert array_cycles(job(program, 0, chip), Step(box)) < 64 * 64 * array_cycles(
        job(program, 0, chip), Step(Tile(0, 0, 0, 1, 1, 64))
    )


def test_where_activations_are_external_a_layer_waits_for_its_weights():
    net = Net(28, 28, 128)
    program, chip = net.program(net.conv("x", 128)), load_target("nvdla-2048")
    work = job(program, 0, chip)
    weights = work.slice_bytes(128)[0] / chip.read_bytes_per_cycle
    kept = replace(chip, memory=replace(chip.memory, activations="resident"))
    waits, hides = (evaluate(job(program, 0, it), (28, 28, 128)).cycles for it in (chip, kept))
    assert hides < waits <= hides + weights + 1000
    assert len(choose(work, chip.memory.ocm_bytes).steps) > 1


@pytest.mark.parametrize(("kernel", "stride", "factor"), [(1, 2, 4), (3, 1, 16 / 9), (3, 2, 16 / 9), (1, 1, 1)])
def test_weights_take_the_room_that_the_chip_needs_for_them(kernel: int, stride: int, factor: float):
    net = Net(32, 32, 64)
    program, chip = net.program(net.conv("x", 64, k=kernel, stride=stride)), load_target("nvdla-2048")
    work = job(program, 0, chip)
    weights = program.constants[work.layer.inputs[1]].nbytes
    assert constant_sizes(work, 64)[work.layer.inputs[1]] == align(round(weights * factor))
    assert work.slice_bytes(32)[0] == round(weights * factor / 2)


def test_requests_under_way_hide_their_latency():
    net = Net(200, 200, 8)
    program = net.program(net.add("x", net.input("other", 200, 200, 8)))
    quick = replace(CHIP, costs={**CHIP.costs, "flow": 0.0})  # or the port is the bound
    chips = [replace(quick, external=replace(CHIP.external, in_flight=count)) for count in (1, 8)]
    alone, together = (evaluate(job(program, 0, chip), (1, 200, 8), double=True) for chip in chips)
    assert together.cycles < 0.85 * alone.cycles


def test_operands_of_one_element_are_staged_once():
    net = Net(64, 64, 16)
    net.mul("x", net.input("gate", 1, 1, 16))
    tiling = evaluate(job(net.program("t0"), 0), (8, 64, 16), double=True)
    assert Counter({key: buffers.count for key, buffers in tiling.staged.items()}) == {0: 2, 1: 1, -1: 2}


def test_weights_may_come_in_one_buffer_beside_boxes_in_two():
    net = Net(56, 56, 256)
    program, chip = net.program(net.conv("x", 256)), load_target("nvdla-2048")
    work = job(program, 0, chip)
    found = choose(work, chip.memory.ocm_bytes)
    assert (found.double, {buffers.count for buffers in found.constants.values()}) == (True, {1})
    assert found.cycles < 0.7 * choose(work, chip.memory.ocm_bytes, buffers=1).cycles
    built = plan(program, chip)
    verify_plan(built, chip)
    feeds = {"x": np.random.default_rng(0).integers(-128, 128, (56, 56, 256), np.int8)}
    np.testing.assert_array_equal(run(built, feeds, "native")["t0"], run(plan(program, CHIP), feeds, "native")["t0"])
