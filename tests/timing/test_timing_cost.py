"""Costs of single tiles against formulas worked out by hand, and DETR's backbone against its published MACs."""

from __future__ import annotations

import time
from dataclasses import replace
from math import ceil

import pytest

from axtool.plan.build import plan
from axtool.plan.tile_boxes import grid
from axtool.target_file import load_target, set_values
from axtool.timing.array import peak_macs
from axtool.timing.clock import time_plan
from axtool.timing.cost import CostModel
from axtool.types import Program, Tile
from tests.plan.hand_programs import Net, every_op

SECONDS = 1.0  # of CPU, for the backbone; a quarter of it is usual
DRAIN, REQUANTIZE, SHIFT, PORT = 3, 10.3, 6.05, 64
CHIP = set_values(
    load_target("qc-u-1d5-8mb"),
    {
        "costs.mac_drain": DRAIN, "costs.requantize": REQUANTIZE, "costs.add": REQUANTIZE, "costs.array_shift": SHIFT,
        "costs.window_shift": 0, "costs.flow": 0, "costs.copy_per_kib": 55, "costs.gather": 28,
        "costs.gather_per_element": 0.24, "memory.ocm_bytes_per_cycle": PORT,
    },
)  # fmt: skip


def cost(program: Program, tile: Tile, part: int = 0):
    return CostModel(program, CHIP).cost(len(program.layers) - 1, tile, part)


def conv(cin: int, cout: int, k: int, h: int = 32, w: int = 32, **options) -> Program:
    net = Net(h, w, cin)
    return net.program(net.conv("x", cout, k, **options))


@pytest.mark.parametrize(("cin", "cout", "k"), [(64, 64, 3), (256, 64, 1), (3, 64, 7), (17, 33, 5)])
def test_a_tile_of_a_convolution_takes_its_steps_and_a_drain_for_each_channel(cin, cout, k):
    assert cost(conv(cin, cout, k), Tile(0, 0, 0, 32, 32, cout)).mac == cout * (k * k * ceil(cin / 16) + DRAIN)


@pytest.mark.parametrize("size", [(3, 5, 7), (4, 4, 16), (1, 7, 3)])
def test_the_cost_of_a_tile_does_not_depend_on_those_asked_for_before(size):
    program = every_op()
    model = CostModel(program, CHIP)
    for at, layer in enumerate(program.layers):
        _, *dims = program.tensors[layer.outputs[0]].shape
        for tile in grid(Tile(0, 0, 0, *dims), size, True):
            assert model.cost(at, tile) == CostModel(program, CHIP).cost(at, tile), (layer.op, tile)


def test_a_tile_that_fills_part_of_the_array_costs_as_much_as_a_full_one():
    program = conv(64, 64, 3, 47, 50)
    full, part = Tile(0, 0, 0, 32, 32, 64), Tile(32, 32, 0, 15, 18, 64)
    assert cost(program, part).mac == cost(program, full).mac


def test_a_depthwise_convolution_uses_one_mac_of_each_element():
    net = Net(32, 32, 24)
    assert cost(net.program(net.depthwise("x")), Tile(0, 0, 0, 32, 32, 24)).mac == 24 * (9 + DRAIN)


def test_a_transposed_convolution_has_the_taps_of_one_phase():
    program = conv(16, 8, 4, 16, 16, stride=2, pad=1, op="conv_transpose")
    assert cost(program, Tile(0, 0, 0, 32, 32, 8)).mac == 8 * (4 + DRAIN)


def test_groups_divide_the_input_channels():
    assert cost(conv(64, 64, 3, group=4), Tile(0, 0, 0, 32, 32, 64)).mac == 64 * (9 + DRAIN)


def test_requantize_is_charged_for_each_output_channel():
    assert cost(conv(16, 50, 1), Tile(0, 0, 0, 32, 32, 50)).compute == ceil(50 * REQUANTIZE)


def test_shifts_inside_the_array_are_charged_for_each_output_channel():
    assert cost(conv(16, 50, 1), Tile(0, 0, 0, 32, 32, 50)).data_array == ceil(50 * SHIFT)


def test_transfers_behind_the_macs_cost_nothing():
    assert cost(conv(64, 64, 3), Tile(0, 0, 0, 32, 32, 64)).data_ocm == 0


def test_only_the_excess_of_transfers_over_macs_is_charged():
    found = cost(conv(64, 64, 1), Tile(0, 0, 0, 32, 32, 64))
    assert found.data_ocm == (64 + 64) * 1024 // PORT - found.mac


def test_an_add_reads_two_tiles_and_writes_one():
    net = Net(32, 32, 8)
    found = cost(net.program(net.add("x", net.input("y", 32, 32, 8))), Tile(0, 0, 0, 32, 32, 8))
    assert found.port_bytes == 3 * 8 * 1024
    assert found.compute == ceil(8 * REQUANTIZE)
    assert found.data_ocm == 3 * 8 * 1024 // PORT - found.compute


def test_a_copy_costs_by_the_byte():
    net = Net(32, 32, 8)
    assert cost(net.program(net.resize("x")), Tile(0, 0, 0, 32, 32, 8)).data_ocm == 8 * 55


def test_a_gather_costs_by_the_element():
    net = Net(32, 32, 8)
    found = cost(net.program(net.transpose("x", (1, 0, 2))), Tile(0, 0, 0, 32, 32, 8))
    assert found.data_ocm == ceil(8 * (28 + 0.24 * 1024))


def test_a_table_behind_a_convolution_costs_alu_cycles():
    plain, table = (cost(conv(16, 50, 1, act=act), Tile(0, 0, 0, 32, 32, 50)).compute for act in (0, 1))
    assert table - plain == 50 * CHIP.costs["interpolate"]


def test_the_peak_of_the_array_is_its_published_one():
    assert peak_macs(CHIP) == 16384


def test_a_smaller_array_takes_more_steps():
    program, half = conv(64, 64, 3), replace(CHIP, array=replace(CHIP.array, rows=16))
    tile = Tile(0, 0, 0, 32, 32, 64)
    assert CostModel(program, half).cost(0, tile).mac == 2 * CostModel(program, CHIP).cost(0, tile).mac


def resnet101(height: int = 750, width: int = 800) -> Program:
    """The 104 convolutions of DETR's backbone, with their residual adds."""
    net = Net(height, width, 3)
    x = net.max_pool(net.conv("x", 64, 7, 2, 3))
    for stage, (blocks, channels) in enumerate(((3, 64), (4, 128), (23, 256), (3, 512))):
        for block in range(blocks):
            stride = 2 if stage and block == 0 else 1
            y = net.conv(net.conv(net.conv(x, channels, 1), channels, 3, stride), 4 * channels, 1)
            x = net.add(y, net.conv(x, 4 * channels, 1, stride) if block == 0 else x)
    return net.program(x)


@pytest.fixture(scope="module")
def backbone():
    made = plan(resnet101(), CHIP)
    return made, time_plan(made, CHIP)


def test_the_backbone_has_its_published_macs(backbone):
    _, timing = backbone
    assert sum(layer.op == "conv" for layer in timing.layers) == 104
    assert timing.macs == 93_689_164_800


def test_timing_the_backbone_takes_well_under_a_second(backbone):
    made, timing = backbone
    assert len(made.commands) > 1000
    begun = time.process_time()
    assert time_plan(made, CHIP) == timing
    assert time.process_time() - begun < SECONDS


def test_the_mac_cycles_of_the_backbone_follow_the_tile_formula(backbone):
    made, timing = backbone
    program, expected = made.program, 0
    for layer in program.layers:
        if layer.op == "conv":
            (_, _, _, cin), (_, h, w, cout) = (program.tensors[n].shape for n in (layer.inputs[0], layer.outputs[0]))
            k = layer.attrs["kernel"][0]
            expected += ceil(h / 32) * ceil(w / 32) * cout * (k * k * ceil(cin / 16) + DRAIN)
    assert timing.ledger["mac"] == pytest.approx(expected, rel=0.03)
