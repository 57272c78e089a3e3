"""The unrolling of MAC layers on arrays of other chips, against formulas worked out by hand."""

from __future__ import annotations

from math import ceil

import pytest

from axtool.target import Target
from axtool.target_file import load_target, set_values
from axtool.timing.cost import OUTPUT, Cost, CostModel
from axtool.types import Program, Tile
from tests.plan.hand_programs import Net

CHIP = load_target("qc-u-1d5-8mb")
# 8 pixels x 16 x 16, without drain: cycles are steps.
BLOCKED = set_values(
    CHIP,
    {
        "array.rows": 8, "array.columns": 1, "array.output_channels": 16, "costs.mac_drain": 0,
        "costs.array_shift": 0, "costs.window_shift": 0,
    },
)  # fmt: skip

SMALL_UNIT = {"rows": 1, "columns": 1, "channels": 16}


def changed(target: Target, **values: object) -> Target:
    return set_values(target, {key.replace("__", "."): value for key, value in values.items()})


def conv(cin: int, cout: int, k: int = 3, h: int = 16, w: int = 16, **options) -> Program:
    net = Net(h, w, cin)
    return net.program(net.conv("x", cout, k, **options))


def cost(program: Program, target: Target, inside: frozenset[int] = frozenset()) -> Cost:
    _, h, w, c = program.tensors[program.layers[-1].outputs[0]].shape
    return CostModel(program, target).cost(len(program.layers) - 1, Tile(0, 0, 0, h, w, c), inside=inside)


def test_a_step_covers_a_block_of_pixels_and_of_both_kinds_of_channels():
    assert cost(conv(40, 50), BLOCKED).mac == 2 * 16 * ceil(50 / 16) * 9 * ceil(40 / 16)


@pytest.mark.parametrize(
    ("fold", "blocks"), [("none", 49 * ceil(3 / 16)), ("row", 7 * ceil(21 / 16)), ("window", ceil(147 / 16))]
)
def test_folded_taps_share_the_lanes_of_input_channels(fold: str, blocks: int):
    assert cost(conv(3, 16, 7), changed(BLOCKED, array__fold=fold)).mac == 32 * blocks


@pytest.mark.parametrize(("cin", "blocks"), [(3, 2), (7, 4), (8, 9)])
def test_only_layers_of_few_channels_are_folded(cin: int, blocks: int):
    target = changed(BLOCKED, array__fold="window", array__fold_below=8)
    assert cost(conv(cin, 16), target).mac == 32 * blocks


def test_folding_a_depthwise_layer_changes_nothing():
    net = Net(16, 16, 24)
    program = net.program(net.depthwise("x"))
    assert cost(program, changed(BLOCKED, array__fold="window")) == cost(program, BLOCKED)


@pytest.mark.parametrize("duty", [1, 0.9, 0.5, 0.01])
def test_an_array_that_may_not_always_multiply_takes_longer_for_each_step(duty: float):
    assert cost(conv(32, 16), changed(BLOCKED, array__duty=duty)).mac == ceil(32 * 9 * 2 / duty)


def test_a_depthwise_unit_of_its_own_is_not_the_array_that_is_limited():
    net = Net(16, 16, 24)
    program = net.program(net.depthwise("x"))
    own = changed(BLOCKED, **{f"array__depthwise__{key}": value for key, value in SMALL_UNIT.items()})
    assert cost(program, changed(own, array__duty=0.5)) == cost(program, own)
    assert cost(program, changed(BLOCKED, array__duty=0.5)).mac == 2 * cost(program, BLOCKED).mac


def test_winograd_divides_the_steps():
    assert cost(conv(32, 16), changed(BLOCKED, array__winograd=2.25)).mac == ceil(32 * 9 * 2 / 2.25)


@pytest.mark.parametrize(
    "program",
    [
        conv(32, 16, 3, stride=2), conv(32, 16, 5), conv(32, 16, 3, dilation=2), conv(32, 32, 3, group=2),
        conv(8, 16, 3), conv(32, 16, 3, op="conv_transpose"),
    ],
    ids=["stride 2", "5x5", "dilated", "grouped", "few channels", "transposed"],
)  # fmt: skip
def test_winograd_is_for_full_3x3_convolutions_of_stride_1(program: Program):
    target = changed(BLOCKED, array__winograd=2.25)
    assert cost(program, target) == cost(program, BLOCKED)
    assert CostModel(program, target).weight_factor(0) == 1


def test_winograd_reads_transformed_weights():
    assert CostModel(conv(32, 16), changed(BLOCKED, array__winograd=2.25)).weight_factor(0) == pytest.approx(16 / 9)


@pytest.mark.parametrize(("k", "stride", "factor"), [(1, 2, 4), (3, 2, 16 / 9), (7, 2, 64 / 49), (3, 1, 1), (4, 2, 1)])
def test_extended_kernels_are_read_in_multiples_of_their_stride(k: int, stride: int, factor: float):
    program = conv(32, 16, k, stride=stride)
    extended = changed(BLOCKED, array__strided_weights="extended")
    assert CostModel(program, extended).weight_factor(0) == pytest.approx(factor)
    assert CostModel(program, BLOCKED).weight_factor(0) == 1


def test_groups_do_not_share_a_step():
    assert cost(conv(32, 32, group=8), BLOCKED).mac == 32 * 8 * 9
    assert cost(conv(64, 64, group=2), BLOCKED).mac == 32 * 2 * 2 * 9 * 2


def test_a_depthwise_layer_has_an_unrolling_of_its_own_where_the_chip_says_so():
    net = Net(16, 16, 40)
    program = net.program(net.depthwise("x"))
    own = changed(BLOCKED, **{f"array__depthwise__{key}": n for key, n in
                              (("rows", 4), ("columns", 2), ("channels", 32), ("cycles", 3))})  # fmt: skip
    assert cost(program, BLOCKED).mac == 32 * ceil(40 / 16) * 9
    assert cost(program, own).mac == 4 * 8 * ceil(40 / 32) * 9 * 3


def test_weights_that_enter_behind_the_macs_cost_the_first_block_alone():
    target = changed(BLOCKED, array__weights_bytes_per_cycle=64)
    found = cost(conv(32, 32), target)
    assert found.array == 9 * 32 * 32 // 64
    assert found.data_array == 16 * 16 // 64


def test_weights_that_take_longer_than_their_macs_are_charged_for_the_rest():
    target = changed(BLOCKED, array__weights_bytes_per_cycle=2)
    found = cost(conv(32, 32), target)
    enter, macs, blocks = 16 * 16 / 2, 32, 9 * 2 * 2
    assert found.data_array == enter + (blocks - 1) * (enter - macs)


def test_weights_that_are_in_the_array_enter_no_more():
    target = changed(BLOCKED, array__weights_bytes_per_cycle=2)
    assert cost(conv(32, 32), target, frozenset({1})).array == 0


def test_winograd_weights_enter_transformed():
    target = changed(BLOCKED, array__weights_bytes_per_cycle=2, array__winograd=2.25)
    assert cost(conv(32, 32), target).array == 16 * 32 * 32 // 2


def test_the_zeros_of_an_extended_kernel_do_not_enter_the_array():
    target = changed(BLOCKED, array__weights_bytes_per_cycle=2)
    program = conv(32, 32, 1, stride=2)
    assert cost(program, changed(target, array__strided_weights="extended")) == cost(program, target)


def test_a_flow_is_started_for_each_operand_and_the_output():
    program = conv(8, 8)
    none, some = (cost(program, changed(CHIP, costs__flow=flow)).port for flow in (0, 25))
    assert some == none + 2 * 25


def test_an_op_that_uses_each_channel_once_starts_a_flow_for_each_unless_it_goes_on_with_one():
    net = Net(32, 32, 8)
    program = net.program(net.add("x", net.input("y", 32, 32, 8)))
    none, some = (cost(program, changed(CHIP, costs__flow=flow)).port for flow in (0, 25))
    assert some == none + 3 * 8 * 25
    handed = [cost(program, changed(CHIP, costs__flow=flow), frozenset({0})).port for flow in (0, 25)]
    assert handed[1] == handed[0] + 2 * 25


def test_operands_inside_the_array_cross_no_port():
    net = Net(32, 32, 8)
    program = net.program(net.add("x", net.input("y", 32, 32, 8)))
    target = changed(CHIP, costs__flow=25)
    assert cost(program, target, frozenset({0})).port_bytes == 2 * 8 * 1024
    assert cost(program, target, frozenset({0, OUTPUT})).port_bytes == 8 * 1024
    nothing = cost(program, target, frozenset({0, 1, OUTPUT}))
    assert (nothing.port, nothing.port_bytes, nothing.data_ocm) == (0, 0, 0)


@pytest.mark.parametrize(("options", "k", "hops"), [({}, 3, 4), ({"dilation": 2}, 3, 8), ({}, 5, 8), ({}, 1, 0)])
def test_a_window_reaches_its_neighbours_by_hops_for_each_input_step(options: dict[str, int], k: int, hops: int):
    target = changed(CHIP, costs__array_shift=0, costs__window_shift=0.5)
    assert cost(conv(40, 8, k, 32, 32, **options), target).data_array == 8 * 3 * hops * 0.5


def test_the_total_of_pipelined_engines_is_that_of_the_busiest():
    program = conv(64, 64, 1, 32, 32)
    turns, beside = cost(program, CHIP), cost(program, changed(CHIP, engines__pipelined="true"))
    assert turns.total == turns.mac + turns.compute + turns.data_array + turns.data_ocm
    assert beside.total == max(beside.mac, beside.compute, beside.port, beside.array) < turns.total


@pytest.mark.parametrize(("grouped", "blocks", "factor"), [("groups", 4 * 9, 1.0), ("dense", 9 * ceil(64 / 16), 4.0)])
def test_a_convolution_in_groups_runs_by_group_or_with_zeros_between_them(grouped: str, blocks: int, factor: float):
    program, target = conv(64, 64, group=4), changed(BLOCKED, array__grouped=grouped, array__output_channels=64)
    model = CostModel(program, target)
    assert cost(program, target).mac == 32 * blocks
    assert model.weight_factor(0) == factor
    assert cost(program, target).macs == 256 * 64 * 9 * 16


def test_a_depthwise_layer_is_never_run_as_a_dense_one():
    net = Net(16, 16, 24)
    program = net.program(net.depthwise("x"))
    assert cost(program, changed(BLOCKED, array__grouped="dense")) == cost(program, BLOCKED)
