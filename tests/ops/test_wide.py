"""What the manual says of int16 is what a lowering can do."""

from __future__ import annotations

import pytest

from axtool.ops.limits import device_ops
from axtool.ops.wide import ALWAYS, SOMETIMES, why_not_wide, wide_rule
from tests.plan.lower_case import Case, target
from tests.plan.test_lower_numbers import CASES
from tests.plan.test_lower_wide import NARROW


def test_every_op_that_may_be_int16_is_an_op_of_the_device():
    assert set(ALWAYS | SOMETIMES.keys()) <= set(device_ops())


def test_the_manual_names_the_ops_that_are_always_int8():
    never = [op for op in device_ops() if wide_rule(op).endswith("never int16.")]
    others = ["GlobalMaxPool", "LayerNormalization", "MaxPool", "ReduceMax", "ReduceSum", "Softmax"]
    assert never == ["Attention", "ConvTranspose", *others]


@pytest.mark.parametrize("name", CASES)
def test_an_op_is_refused_int16_only_where_the_manual_says_so(name: str):
    graph, weights = CASES[name]
    case = Case(graph, **weights)
    refused = {site.op for site in case.sites if why_not_wide(site, site.inputs[0], target())}
    assert all(wide_rule(op) != "Values may be int16." for op in refused)
    assert bool(refused) is (name in NARROW)
