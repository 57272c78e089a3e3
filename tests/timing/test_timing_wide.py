"""What numbers of 16 bits cost: passes of the MAC array, bytes of the port, and as many numbers as before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from axtool.target_file import load_target
from axtool.timing.cost import CostModel
from axtool.types import Tile
from tests.plan.lower_case import Case

CHIP = load_target("qc-u-1d5-8mb")
DRAIN = CHIP.costs["mac_drain"]
CONV = Case("(float[1,40,32,32] x) => (float[1,24,32,32] y) { y = Conv<pads=[1,1,1,1]>(x, w) }", w=(24, 40, 3, 3))
SUM = Case("(float[1,8,32,32] x, float[1,8,32,32] z) => (float[1,8,32,32] y) { y = Add(x, z) }")


def cost(case: Case, *wide: str, chip=CHIP):
    program = case.lowered(wide=wide)
    (_, h, w, c) = program.tensors["y"].shape
    return CostModel(program, chip).cost(0, Tile(0, 0, 0, h, w, c))


@pytest.mark.parametrize("passes", [1, 2, 4])
def test_a_convolution_of_int16_takes_all_its_steps_once_for_each_pass(passes):
    chip = replace(CHIP, costs={**CHIP.costs, "int16_passes": passes})
    assert cost(CONV, "x", chip=chip).mac == 24 * (passes * 9 * 3 + DRAIN)


def test_a_convolution_of_int8_that_makes_int16_takes_its_steps_once():
    assert cost(CONV, "y").mac == cost(CONV).mac == 24 * (9 * 3 + DRAIN)


@pytest.mark.parametrize("case", [CONV, SUM])
def test_numbers_are_counted_once_whatever_their_bytes(case):
    narrow, wide = cost(case), cost(case, "x", "y")
    assert (wide.macs, wide.compute) == (narrow.macs, narrow.compute)


def test_bytes_of_the_port_are_counted_as_they_are_stored():
    pixels = 32 * 32
    assert cost(SUM).port_bytes == 3 * 8 * pixels
    assert cost(SUM, "x").port_bytes == 4 * 8 * pixels
    assert cost(SUM, "x", "z", "y").port_bytes == 6 * 8 * pixels
