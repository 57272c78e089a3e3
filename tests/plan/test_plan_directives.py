"""Directives: followed to the letter, the same bits, and an error where they cannot be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from axtool.errors import Exit, FitError, UsageError
from axtool.plan.build import plan
from axtool.plan.build_directives import Directive, matches
from axtool.plan.check_plan import verify_plan
from axtool.plan.groups import find_groups
from axtool.target_file import load_target
from tests.plan.hand_programs import feeds_of, residual_net, run

CHIP = load_target("qc-u-1d5-8mb")
PROGRAM = residual_net()
FEEDS = feeds_of(PROGRAM)
EXPECTED = run(plan(PROGRAM, CHIP), FEEDS)


def planned(*directives: Directive, ocm_bytes: int = 8 * 2**20):
    chip = replace(CHIP, memory=replace(CHIP.memory, ocm_bytes=ocm_bytes))
    built = plan(PROGRAM, chip, directives)
    verify_plan(built, chip)
    for name, values in run(built, FEEDS).items():
        np.testing.assert_array_equal(values, EXPECTED[name])
    return built


def index_of(name: str) -> int:
    return next(i for i, layer in enumerate(plan(PROGRAM, CHIP).program.layers) if layer.name == name)


def test_a_tile_is_used_as_it_was_asked_for():
    built = planned(Directive("conv_0", residency="ext", tile=(8, 44, 16)))
    boxes = {(c.tile.h, c.tile.n) for c in built.commands if c.kind == "compute" and c.layer == index_of("conv_0")}
    assert boxes == {(8, 16), (8, 8)}


def test_a_tensor_sent_to_external_memory_has_no_slot_of_its_size_on_chip():
    built = planned(Directive("conv_0", residency="ext"))
    output = PROGRAM.layers[0].outputs[0]
    assert any(slot.tensor == output and slot.memory == "ext" for slot in built.slots)


def test_a_tensor_kept_on_chip_is_not_spilled():
    output = PROGRAM.layers[2].outputs[0]
    assert any(s.tensor == output and s.memory == "ext" for s in planned(ocm_bytes=12 * 1024).slots)
    built = planned(Directive("conv_2", residency="ocm"), ocm_bytes=24 * 1024)
    assert not any(s.tensor == output and s.memory == "ext" for s in built.slots)


def test_without_prefetch_constants_arrive_with_their_layer():
    built = planned(Directive("*", prefetch=False))
    names = {name for layer in PROGRAM.layers for name in layer.inputs if name in PROGRAM.constants}
    groups = find_groups(built.program, {})
    assert all(s.first == groups.of(s.last).first for s in built.slots if s.memory == "ocm" and s.tensor in names)


@pytest.mark.parametrize("buffers", [1, 2])
def test_each_staged_operand_has_the_buffers_it_was_given(buffers: int):
    built = planned(Directive("conv_0", residency="ext", tile=(8, 44, 24), buffers=buffers))
    output = PROGRAM.layers[0].outputs[0]
    assert sum(s.tensor == output and s.memory == "ocm" and s.last == 0 for s in built.slots) == buffers


def test_a_prefetch_that_has_no_room_is_refused():
    with pytest.raises(FitError, match="asks for prefetch"):
        planned(Directive("conv_11", tile=(40, 44, 16), prefetch=True))


def test_the_last_directive_that_says_something_counts():
    built = planned(Directive("*", prefetch=True), Directive("conv_2", prefetch=False))
    layer = built.program.layers[index_of("conv_2")]
    slots = [s for s in built.slots if s.memory == "ocm" and s.tensor in layer.inputs and s.tensor in PROGRAM.constants]
    assert all(slot.first == slot.last for slot in slots)


def test_a_pattern_that_matches_nothing_gets_the_nearest_names():
    with pytest.raises(UsageError) as caught:
        planned(Directive("convv_2"))
    assert "conv_2" in caught.value.hint
    assert caught.value.exit == Exit.USAGE


def test_a_tile_that_splits_a_block_of_channels_is_refused():
    with pytest.raises(UsageError, match="is not possible"):
        planned(Directive("conv_0", tile=(8, 8, 12)))


def test_a_tile_that_does_not_fit_is_refused():
    with pytest.raises(FitError):
        planned(Directive("conv_0", residency="ext", tile=(40, 44, 24)), ocm_bytes=16 * 1024)


def test_a_tensor_that_cannot_stay_on_chip_is_refused():
    with pytest.raises(FitError):
        planned(Directive("conv_0", residency="ocm"), ocm_bytes=16 * 1024)


def test_every_pattern_that_matches_nothing_is_listed():
    with pytest.raises(UsageError) as caught:
        planned(Directive("convv_2", prefetch=False), Directive("conv_*", prefetch=False), Directive("nothing"))
    assert "2 directives match no layer" in str(caught.value)
    assert [line.split(":")[0] for line in caught.value.details] == ["'convv_2'", "'nothing'"]


def test_a_pattern_may_name_the_node_that_a_layer_came_from():
    origin = PROGRAM.layers[2].origin[0]
    built = planned(Directive(origin, residency="ext"))
    assert any(s.tensor == PROGRAM.layers[2].outputs[0] and s.memory == "ext" for s in built.slots)


def test_a_name_with_brackets_is_meant_as_it_is_written():
    layer = replace(PROGRAM.layers[0], name="block[0]/conv")
    assert matches(Directive("block[0]/conv"), layer)
    assert not matches(Directive("block[1]/conv"), layer)


def test_an_extent_that_a_tile_leaves_out_is_the_whole():
    built = planned(Directive("conv_0", residency="ext", tile=(8, None, None)))
    boxes = {(c.tile.h, c.tile.n) for c in built.commands if c.kind == "compute" and c.layer == index_of("conv_0")}
    assert boxes == {(8, 24)}


def test_a_second_buffer_that_nothing_would_fill_is_refused():
    with pytest.raises(UsageError, match="comes in more than one box"):
        planned(Directive("conv_0", buffers=2))


def test_two_buffers_are_taken_in_turns_where_a_layer_stages_anything():
    built = planned(Directive("conv_0", residency="ext", buffers=2))
    output = PROGRAM.layers[0].outputs[0]
    assert sum(s.tensor == output and s.memory == "ocm" and s.last == 0 for s in built.slots) == 2


def test_two_buffers_without_room_are_refused():
    with pytest.raises(FitError, match="2 buffers"):
        planned(Directive("*", buffers=2), ocm_bytes=6144)


def test_a_prefetch_of_nothing_is_refused():
    with pytest.raises(UsageError, match="no constants to load"):
        planned(Directive("max_pool*", prefetch=True))
