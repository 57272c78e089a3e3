"""On-chip memories of 64 KiB to 1 MiB: whatever they force to be tiled and spilled, the bits are those with plenty."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from axtool.errors import EnvironmentFault, FitError
from axtool.graph.front import Reading
from axtool.plan.build import plan
from axtool.plan.check_plan import verify_plan
from axtool.report.plan_facts import spilled_slots
from axtool.report.profile import programs_of_onnx
from axtool.sim.engine import native_available
from axtool.target import Target
from axtool.target_file import load_target
from axtool.types import Plan, Program
from axtool.zoo.catalogue import find
from axtool.zoo.recipe import recipe_of
from tests.plan.hand_programs import Net, feeds_of, run
from tests.zoo_at_hand import AT_HAND

CHIP = load_target("qc-u-1d5-8mb")
PLENTY = replace(CHIP, memory=replace(CHIP.memory, ocm_bytes=1 << 30))
SIZES = (64, 96, 128, 192, 256, 384, 512, 768, 1024)  # KiB
ENGINE = "native" if native_available() else "reference"


def sized(kib: int) -> Target:
    return replace(CHIP, memory=replace(CHIP.memory, ocm_bytes=kib * 1024))


def same_bits(program: Program, kib: int, *, verify: bool = True) -> Plan:
    """The plan in the small memory, after it was found legal, within its budget and right."""
    chip = sized(kib)
    small = plan(program, chip)
    assert small.sizes["ocm"] <= kib * 1024
    if verify:
        verify_plan(small, chip)
    feeds = feeds_of(program)
    expected = run(plan(program, PLENTY), feeds, ENGINE)
    for name, values in run(small, feeds, ENGINE).items():
        np.testing.assert_array_equal(values, expected[name])
    return small


def same_bits_where_layers_fit(program: Program, kib: int) -> None:
    """The same for a random program, which may join so many channels that no tile of a later layer fits."""
    try:
        same_bits(program, kib)
    except FitError as fault:
        if "with the smallest tile it needs" not in str(fault):
            raise
        reject()


@cache
def zoo_programs(name: str) -> tuple[Program, ...]:
    try:
        recipe = recipe_of(find(name))
    except EnvironmentFault as fault:
        pytest.skip(str(fault))
    reading = Reading(recipe.input_shapes, recipe.dims, recipe.outputs)
    return tuple(programs_of_onnx(Path(recipe.model), CHIP, reading, lambda step: None)[0])


@pytest.mark.parametrize("kib", [64, *(pytest.param(kib, marks=pytest.mark.slow) for kib in SIZES[1:])])
def test_a_detector_of_the_zoo_has_the_same_bits(kib: int):
    for program in zoo_programs("digits-v8det"):
        small = same_bits(program, kib)
        assert spilled_slots(small) or kib > 64


@pytest.mark.slow
@pytest.mark.parametrize("kib", SIZES[::2])
@pytest.mark.parametrize("name", [entry.path.stem for entry in AT_HAND])
def test_every_model_of_the_zoo_has_the_same_bits(name: str, kib: int):
    for program in zoo_programs(name):
        same_bits(program, kib, verify=False)


def test_a_memory_with_room_spills_nothing():
    for program in zoo_programs("digits-v8det"):
        assert not spilled_slots(plan(program, PLENTY))


STEPS = {
    "conv": lambda net, x, n: net.conv(x, 8 * n),
    "act": lambda net, x, n: net.conv(x, 8 * n, 1, act=1),
    "down": lambda net, x, n: net.conv(x, 16 * n, 3, 2),
    "depthwise": lambda net, x, n: net.depthwise(x),
    "pool": lambda net, x, n: net.max_pool(x),
    "up": lambda net, x, n: net.resize(x) if np.prod(net.dims(x)) < 150_000 else net.lut(x),
    "residual": lambda net, x, n: net.add(net.conv(net.conv(x, 8 * n), net.dims(x)[2], 1), x),
    "branches": lambda net, x, n: net.concat(net.conv(x, 8 * n, 1), net.depthwise(x), x),
    "halves": lambda net, x, n: net.add(*(net.conv(x, 8 * n, k) for k in (1, 3))),
}


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Chains of blocks, some with branches, on maps of up to 330 KB; a tensor in the middle may be an output too."""
    net = Net(draw(st.integers(20, 96)), draw(st.integers(20, 96)), draw(st.sampled_from([3, 16, 36])))
    x, outputs = "x", []
    for name, width in draw(
        st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(1, 5)), min_size=2, max_size=6)
    ):
        if np.prod(net.dims(x)) < 400_000:
            x = STEPS[name](net, x, width)
            if draw(st.booleans()):
                outputs.append(x)
    return net.program(*dict.fromkeys([*outputs[:1], x if x != "x" else net.lut("x")]))


@given(programs(), st.sampled_from(SIZES[:6]))
@settings(max_examples=10, deadline=None)
def test_random_programs_have_the_same_bits(program: Program, kib: int):
    same_bits_where_layers_fit(program, kib)


@pytest.mark.slow
@given(programs(), st.sampled_from(SIZES))
@settings(max_examples=300, deadline=None)
def test_many_random_programs_have_the_same_bits(program: Program, kib: int):
    same_bits_where_layers_fit(program, kib)
