"""A chip that keeps no activation between layers: each is written once, read by its readers, the bits stay the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from axtool.errors import FitError, UsageError
from axtool.ops.encoding import dims_of
from axtool.plan.build import plan
from axtool.plan.build_directives import Directive
from axtool.plan.check_plan import verify_plan
from axtool.plan.groups import find_groups
from axtool.plan.whole import whole_plan
from axtool.target import Target
from axtool.target_file import load_target
from axtool.timing.clock import time_plan
from axtool.types import Plan
from tests.plan.hand_programs import Net, every_op, feeds_of, residual_net, run

CHIP = load_target("qc-u-1d5-8mb")


def external(ocm_bytes: int = CHIP.memory.ocm_bytes) -> Target:
    return replace(CHIP, memory=replace(CHIP.memory, activations="external", ocm_bytes=ocm_bytes))


def written(built: Plan) -> Counter[str]:
    """Bytes stored of the output of each layer."""
    amounts: Counter[str] = Counter()
    for command in built.commands:
        if command.kind == "store":
            tile = command.reads[0].tile
            amounts[built.program.layers[command.layer].outputs[0]] += tile.h * tile.w * tile.n
    return amounts


@pytest.mark.parametrize("make", [residual_net, every_op])
@pytest.mark.parametrize("kib", [8192, 64, 24])
def test_every_output_is_written_once_and_in_full(make, kib):
    built = plan(make(), external(kib * 1024))
    passing = find_groups(built.program, {}).passing
    copies = [name for layer in built.program.layers if layer.op in ("concat", "slice") for name in layer.outputs]
    made = [name for layer in built.program.layers for name in layer.outputs if name not in passing]
    whole = {name: int(np.prod(dims_of(built.program.tensors[name].shape))) for name in made}
    amounts = written(built)
    assert {name: amounts[name] for name in made if name not in copies} == {
        name: size for name, size in whole.items() if name not in copies
    }
    assert all(amounts[name] <= whole[name] for name in copies)  # less where a part was made in place
    assert set(amounts) <= set(whole)


@pytest.mark.parametrize("make", [residual_net, every_op])
@pytest.mark.parametrize("kib", [8192, 24])
def test_the_bits_are_those_of_a_chip_that_keeps_its_activations(make, kib):
    program, chip = make(), external(kib * 1024)
    feeds, built = feeds_of(program), plan(program, chip)
    verify_plan(built, chip)
    expected = run(plan(program, CHIP), feeds)
    for name, values in run(built, feeds).items():
        np.testing.assert_array_equal(values, expected[name])


def test_a_tensor_is_read_once_by_each_reader_of_single_pixels():
    net = Net(40, 40, 16)
    left, right = net.conv("x", 32, 1), net.conv("x", 24, 1)
    program = net.program(left, right)
    built = plan(program, external())
    image = sum(c.reads[0].tile.h * c.reads[0].tile.w * 16 for c in built.commands if c.kind == "load" and _boxed(c))
    assert image == 2 * 40 * 40 * 16


def test_no_activation_outlives_the_layers_that_it_is_staged_for():
    built = plan(residual_net(), external())
    constants, groups = built.program.constants, find_groups(built.program, {})
    staged = [s for s in built.slots if s.memory == "ocm" and s.tensor not in constants]
    assert all((s.first, s.last) == (groups.of(s.first).first, groups.of(s.first).last) for s in staged)


def test_an_output_is_not_written_over_by_a_later_tensor_with_some_of_its_numbers():
    net = Net(6, 5, 16)
    both = net.conv("x", 16, 1)
    kept = net.concat(net.lut("x"), both, net.lut("x"))
    later = net.lut(net.concat(net.conv(kept, 16, 1), both))
    program = net.program(kept, later)
    built, feeds = plan(program, external()), feeds_of(program)
    verify_plan(built, external())
    expected = run(whole_plan(program, CHIP), feeds)
    for name, values in run(built, feeds).items():
        np.testing.assert_array_equal(values, expected[name])


def test_a_directive_that_keeps_a_tensor_on_chip_is_refused():
    with pytest.raises(UsageError, match="keeps no activation on chip"):
        plan(residual_net(), external(), [Directive("conv_0", residency="ocm")])


def _boxed(command) -> bool:
    return command.reads[0].tile.h > 1


def lone(chip: Target) -> Target:
    return replace(chip, memory=replace(chip.memory, double_buffers=False))


@pytest.mark.parametrize("make", [residual_net, every_op])
def test_without_double_buffers_the_bits_are_the_same_and_no_box_comes_early(make):
    """Nor is it faster."""
    chip, program = lone(external(24 * 1024)), make()
    built = plan(program, chip)
    verify_plan(built, chip)
    feeds = feeds_of(program)
    for name, array in run(whole_plan(program, chip), feeds).items():
        np.testing.assert_array_equal(run(built, feeds)[name], array)
    double = time_plan(plan(program, external(24 * 1024)), chip).total
    assert time_plan(built, chip).total >= double


def test_a_directive_that_asks_for_double_buffers_where_there_are_none_is_refused():
    net = Net(16, 16, 8)
    program = net.program(net.lut("x"))
    with pytest.raises(FitError, match="double buffering"):
        plan(program, lone(external()), [Directive(tile=(8, 8, 8), buffers=2)])
