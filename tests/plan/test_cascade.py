"""Layers in bands of rows: the bits of whole layers, less external traffic, chosen only where it is faster."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axtool.errors import FitError
from axtool.plan import build, cascade
from axtool.plan.build import plan
from axtool.plan.build_directives import Directive
from axtool.plan.cascade import choose_cascade, find_cascades, jobs_inside, joined
from axtool.plan.check_plan import verify_plan
from axtool.plan.commands import emit
from axtool.plan.groups import Group, alone, find_groups, groups_of
from axtool.plan.tile import choose
from axtool.plan.tile_boxes import TileJob
from axtool.plan.whole import whole_plan
from axtool.target import Target
from axtool.target_file import load_target
from axtool.timing.clock import time_plan
from axtool.types import Plan, Program
from tests.plan.hand_programs import Net, feeds_of, run
from tests.plan.planned_bits import CHIP, same_bits

APART = (Directive("*", buffers=2), Directive("*", buffers=1))  # the last to say something counts


def sized(ocm_bytes: int) -> Target:
    return replace(CHIP, memory=replace(CHIP.memory, ocm_bytes=ocm_bytes))


def funnel(h: int = 96, w: int = 64) -> Program:
    """Wide maps at the front, narrow ones behind: what spills is between the first layers."""
    net = Net(h, w, 8)
    x = net.conv(net.conv("x", 48), 16, 3, 2)
    return net.program(net.conv(net.conv(x, 16, 3, 2), 8))


def read_bytes(built: Plan, chip: Target) -> int:
    return int(time_plan(built, chip).to_dict()["read_bytes"])


def written_bytes(built: Plan, chip: Target) -> int:
    return int(time_plan(built, chip).to_dict()["write_bytes"])


def test_layers_whose_map_spills_run_in_bands():
    chip = sized(160 * 1024)
    built = same_bits(funnel(), chip)
    assert groups_of(built)[0][:2] == (0, 1)
    assert {slot.tensor for slot in built.slots if slot.memory == "ext"} >= {"x", "t3"}
    assert "t0" not in {slot.tensor for slot in built.slots if slot.memory == "ext"}


def test_bands_are_faster_and_move_fewer_bytes_than_a_spill():
    chip, program = sized(160 * 1024), funnel()
    banded, spilled = plan(program, chip), plan(program, chip, APART)
    assert groups_of(spilled) == ()
    assert time_plan(banded, chip).total < time_plan(spilled, chip).total
    assert read_bytes(banded, chip) < read_bytes(spilled, chip)
    assert written_bytes(banded, chip) < written_bytes(spilled, chip)


def test_with_room_on_chip_no_layer_runs_in_bands():
    assert groups_of(plan(funnel(), CHIP)) == ()


def test_rows_at_the_seams_are_made_twice_and_no_others():
    built = plan(funnel(), sized(160 * 1024))
    rows = [set(range(c.tile.y, c.tile.y + c.tile.h)) for c in built.commands if c.layer == 0 and c.kind == "compute"]
    made = sum(len(band) for band in {frozenset(band) for band in rows})
    bands = len({(c.tile.y) for c in built.commands if c.layer == 1 and c.kind == "compute"})
    assert 96 < made <= 96 + 2 * bands


def test_a_tensor_that_someone_else_reads_breaks_the_chain():
    net = Net(16, 16, 8)
    x = net.conv("x", 16)
    y = net.conv(x, 16)
    program = net.program(net.concat(net.conv(y, 8), x))
    groups = [Group(((at,),)) for at in range(len(program.layers))]
    assert joined(program, groups[:2]) is None
    assert joined(program, groups[1:3]) == Group(((1,), (2,)), frozenset({y}))


def test_an_output_between_two_layers_breaks_the_chain():
    net = Net(16, 16, 8)
    x = net.conv("x", 16)
    program = net.program(net.conv(x, 8), x)
    assert joined(program, [Group(((0,),)), Group(((1,),))]) is None


def test_a_skip_over_the_layers_of_a_cascade_stays_inside():
    net = Net(40, 33, 8)
    x = net.conv("x", 16)
    y = net.add(net.conv(net.conv(x, 16), 16), x)
    program = net.program(net.conv(y, 8))
    group = joined(program, find_groups(program, {}).groups)
    assert group is not None
    assert group.passing == {"t0", "t1", "t2", "t3"}
    for height in (1, 2, 5, 16, 40):
        forced(program, group, height)


def forced(program: Program, group: Group, height: int) -> None:
    """The bits of a plan that must run these layers in bands of so many rows, whether that is fast or not."""
    groups = replace(alone(program), groups=(group, *(g for g in alone(program).groups if g.first > group.last)))
    chip = CHIP
    with patch.object(cascade, "_heights", return_value={height}):
        layout = build._grouped(program, chip, {}, groups)
    built = build._planned(layout)
    verify_plan(built, chip)
    assert list(emit(layout)) == list(built.commands)
    feeds = feeds_of(program)
    expected = run(whole_plan(program, CHIP), feeds)
    for engine in ("reference", "native"):
        for name, values in run(built, feeds, engine).items():
            np.testing.assert_array_equal(values, expected[name])


@pytest.mark.parametrize("memory", [{"bands": False}, {"activations": "external"}])
def test_a_chip_may_have_no_bands(memory):
    chip = sized(160 * 1024)
    assert groups_of(plan(funnel(), replace(chip, memory=replace(chip.memory, **memory)))) == ()


def outside(*, pipelined: bool, bands: bool = True) -> Target:
    """A chip that keeps no activation between layers."""
    chip = load_target("nvdla-2048")
    memory = replace(chip.memory, activations="external", bands=bands)
    return replace(chip, memory=memory, engines=replace(chip.engines, pipelined=pipelined))


def test_a_pool_takes_the_rows_of_the_convolution_where_activations_are_external():
    net = Net(64, 48, 8)
    convolved = net.conv("x", 64)
    program = net.program(net.conv(net.max_pool(convolved), 16))
    chip = outside(pipelined=True)
    built = same_bits(program, chip)
    assert groups_of(built) == ((0, 1),)
    assert convolved not in {slot.tensor for slot in built.slots if slot.memory == "ext"}
    assert read_bytes(built, chip) < read_bytes(plan(program, chip, APART), chip)


@pytest.mark.parametrize("chip", [outside(pipelined=False), outside(pipelined=True, bands=False)])
def test_a_pool_waits_for_the_whole_map_on_a_chip_whose_engines_take_turns_or_that_has_no_bands(chip):
    net = Net(64, 48, 8)
    assert groups_of(plan(net.program(net.max_pool(net.conv("x", 64))), chip)) == ()


def test_two_pools_and_two_convolutions_run_apart_where_activations_are_external():
    net = Net(64, 48, 8)
    program = net.program(net.max_pool(net.max_pool(net.conv(net.conv("x", 64), 64)), stride=1))
    assert groups_of(plan(program, outside(pipelined=True))) == ((1, 2),)


@given(
    st.tuples(st.integers(1, 40), st.integers(1, 24), st.sampled_from([1, 3, 7, 17])),
    st.lists(
        st.sampled_from(["conv", "strided", "wide", "depthwise", "max", "mean", "lut", "skip", "up", "linear", "grow"]),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from([1, 2, 3, 5, 8, 13]),
)
@settings(max_examples=80, deadline=None)
def test_any_chain_in_bands_has_the_bits_of_whole_layers(dims, ops, height):
    net = Net(*dims)
    x = skip = net.conv("x", dims[2], 1)
    for op in ops:
        c, large = net.dims(x)[2], np.prod(net.dims(x)) > 8000
        match op:
            case "conv":
                x = net.conv(x, 5, act=1)
            case "strided":
                x = net.conv(x, 9, 3, 2)
            case "wide":
                x = net.conv(x, 6, 3, dilation=2)
            case "depthwise":
                x = net.depthwise(x, 5)
            case "max":
                x = net.max_pool(x)
            case "mean":
                x = net.avg_pool(x)
            case "up" | "linear":
                x = x if large else net.resize(x, 2, linear=op == "linear")
            case "grow":
                x = x if large else net.conv(x, 4, 2, 2, 0, op="conv_transpose")
            case "skip":
                x = net.add(x, skip) if net.dims(x) == net.dims(skip) else net.add(x, net.operand(1, 1, c))
            case _:
                x = net.lut(x)
    program = net.program(x)
    group = joined(program, find_groups(program, {}).groups)
    if group is not None and len(group.bundles) > 1:
        forced(program, group, min(height, program.tensors[x].shape[1]))


@given(st.integers(20, 120), st.integers(8, 40), st.floats(0.1, 0.8))
@settings(max_examples=25, deadline=None)
def test_a_funnel_gives_the_same_bits_in_any_memory_that_it_fits(h, w, share):
    program = funnel(h, w)
    with suppress(FitError):
        same_bits(program, sized(int(share * plan(program, CHIP).sizes["ocm"]) // 64 * 64))


def test_no_room_means_no_bands():
    program = funnel()
    groups = alone(program).groups[:2]
    group = joined(program, groups)
    assert group is not None
    jobs = [jobs_inside(TileJob(program.layers[at], program, CHIP, frozenset({"x", "t0"})), group) for at in (0, 1)]
    assert choose_cascade(jobs, group, 1 << 20)
    assert choose_cascade(jobs, group, 4096) is None


def test_bands_that_gain_nothing_are_not_taken():
    program = funnel()
    single = alone(program)
    jobs = [TileJob(layer, program, CHIP, frozenset({"t0"})) for layer in program.layers]
    tilings = [replace(choose(job, 1 << 20), cycles=0.0) for job in jobs]
    assert find_cascades(program, single, [True] * len(jobs), jobs, tilings, [1 << 20] * len(jobs)) == single


@pytest.mark.parametrize("kib", [512, 300, 160, 96, 64])
def test_a_plan_with_bands_is_never_slower_than_one_without(kib: int):
    chip, program = sized(kib * 1024), funnel()
    with suppress(FitError):
        assert time_plan(plan(program, chip), chip).total <= time_plan(plan(program, chip, APART), chip).total
