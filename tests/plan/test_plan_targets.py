"""A program planned for each chip that comes with the package: legal plans, the same bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from axtool.plan.build import plan
from axtool.plan.check_plan import verify_plan
from axtool.target_file import list_targets, load_target
from tests.plan.hand_programs import every_op, feeds_of, residual_net, run

FIRST, *REST = list_targets()


@pytest.mark.parametrize("make", [residual_net, every_op])
@pytest.mark.parametrize("name", REST)
@pytest.mark.parametrize("kib", [None, 64, 24])
def test_the_bits_do_not_depend_on_the_chip(make, name, kib):
    program, chip = make(), load_target(name)
    if kib is not None:
        chip = replace(chip, memory=replace(chip.memory, ocm_bytes=kib * 1024))
    feeds, built = feeds_of(program), plan(program, chip)
    verify_plan(built, chip)
    expected = run(plan(program, load_target(FIRST)), feeds)
    for output, values in run(built, feeds).items():
        np.testing.assert_array_equal(values, expected[output])
