"""The plan without tiles: the same bits as any other."""

import numpy as np
import pytest

from axtool.plan.build import plan
from axtool.plan.whole import whole_plan
from axtool.target_file import load_target
from tests.plan.hand_programs import every_op, feeds_of, residual_net, run

TARGET = load_target("qc-u-1d7-16mb")


@pytest.mark.parametrize("make", [residual_net, every_op])
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_layers_computed_at_once_give_the_bits_of_tiles(make, engine):
    program = make()
    feeds = feeds_of(program)
    tiled, whole = (run(made, feeds, engine) for made in (plan(program, TARGET), whole_plan(program, TARGET)))
    for name in program.outputs:
        np.testing.assert_array_equal(tiled[name], whole[name])


@pytest.mark.parametrize("make", [residual_net, every_op])
def test_each_layer_is_one_command_or_one_for_each_part_of_a_concat(make):
    program = make()
    wanted = [at for at, layer in enumerate(program.layers) for _ in (layer.inputs if layer.op == "concat" else "1")]
    assert [command.layer for command in whole_plan(program, TARGET).commands] == wanted


@pytest.mark.parametrize("make", [residual_net, every_op])
def test_no_tensor_lies_where_another_one_lives(make):
    slots = whole_plan(make(), TARGET).slots
    for a in slots:
        for b in slots:
            apart = a.offset + a.size <= b.offset or b.offset + b.size <= a.offset
            assert a is b or apart or a.last < b.first or b.last < a.first
