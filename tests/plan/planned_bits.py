"""A planned program against the plan that shares nothing: the same bits from both engines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from axtool.plan.build import plan
from axtool.plan.build_directives import Directive
from axtool.plan.check_plan import verify_plan
from axtool.plan.whole import whole_plan
from axtool.target import Target
from axtool.target_file import load_target
from axtool.types import Plan, Program
from tests.plan.hand_programs import feeds_of, run

CHIP = load_target("qc-u-1d5-8mb")


def same_bits(program: Program, chip: Target = CHIP, directives: Sequence[Directive] = ()) -> Plan:
    """The legal plan, after both engines gave the numbers of the plan that shares nothing."""
    built, feeds = plan(program, chip, directives), feeds_of(program)
    verify_plan(built, chip)
    expected = run(whole_plan(program, CHIP), feeds)
    for engine in ("reference", "native"):
        for name, values in run(built, feeds, engine).items():
            np.testing.assert_array_equal(values, expected[name], err_msg=f"{engine} {name}")
    return built
