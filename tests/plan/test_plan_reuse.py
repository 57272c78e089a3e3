"""A plan serves every program that differs from its own in numbers only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from axtool.plan.build import plan
from axtool.plan.reuse import renumbered
from axtool.target_file import load_target
from axtool.types import Program
from tests.plan.hand_programs import Net

TARGET = load_target("qc-u-1d5-8mb")


def branches(seed: int = 0, size: int = 24, act: int = 0) -> Program:
    net = Net(size, size, 16, seed)
    a = net.conv("x", 32, act=act)
    b = net.conv(net.depthwise("x"), 32, k=1)
    return net.program(net.concat(a, b))


def with_attrs(program: Program, at: int, **changed: Any) -> Program:
    layers = list(program.layers)
    layers[at] = replace(layers[at], attrs={**layers[at].attrs, **changed})
    return replace(program, layers=tuple(layers))


def test_other_weights_get_the_plan_that_planning_anew_gives() -> None:
    known, other = plan(branches(0), TARGET), branches(1)
    fresh, reused = plan(other, TARGET), renumbered(known, other)
    assert reused is not None
    assert (reused.commands, reused.slots, reused.sizes) == (fresh.commands, fresh.slots, fresh.sizes)
    assert reused.program.layers == fresh.program.layers
    assert all(np.array_equal(a, fresh.program.constants[n]) for n, a in reused.program.constants.items())


def test_other_zero_points_and_bounds_change_no_plan() -> None:
    program = branches()
    other = with_attrs(program, 0, x_zp=-7, out_zp=5, lo=-5, hi=90)
    reused = renumbered(plan(program, TARGET), other)
    assert reused is not None
    assert reused.commands == plan(other, TARGET).commands
    assert next(layer for layer in reused.program.layers if layer.outputs == ("t0",)).attrs["x_zp"] == -7


def test_other_shapes_need_another_plan() -> None:
    assert renumbered(plan(branches(size=24), TARGET), branches(size=16)) is None


def test_another_window_needs_another_plan() -> None:
    program = branches()
    assert renumbered(plan(program, TARGET), with_attrs(program, 0, dilation=(2, 2))) is None


def test_a_table_more_needs_another_plan() -> None:
    assert renumbered(plan(branches(), TARGET), branches(act=1)) is None


def test_a_copy_that_becomes_a_rescale_needs_another_plan() -> None:
    program = branches()
    last = len(program.layers) - 1
    parts = list(program.layers[last].attrs["parts"])
    parts[2] = 0 if parts[2] else 1 << 30
    assert renumbered(plan(program, TARGET), with_attrs(program, last, parts=tuple(parts))) is None


def test_a_layer_more_needs_another_plan() -> None:
    net = Net(24, 24, 16)
    a = net.conv("x", 32)
    longer = net.program(net.concat(a, net.conv(net.conv(net.depthwise("x"), 32, k=1), 32)))
    assert renumbered(plan(branches(), TARGET), longer) is None
