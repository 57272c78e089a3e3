"""Plans: legal at every memory size, the same bits as with plenty of memory, and an honest refusal below."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axtool.errors import Exit, FitError
from axtool.plan.build import plan
from axtool.plan.check_plan import verify_plan
from axtool.plan.memory import ALIGNMENT, live_bytes
from axtool.plan.order import activation_bytes, activations, lifetimes, live_peak, order
from axtool.target import Target
from axtool.target_file import load_target
from axtool.types import Program
from tests.plan.hand_programs import Net, every_op, feeds_of, residual_net, run

CHIP = load_target("qc-u-1d5-8mb")


def sized(ocm_bytes: int) -> Target:
    return replace(CHIP, memory=replace(CHIP.memory, ocm_bytes=ocm_bytes))


def same_bits(program: Program, ocm_bytes: int) -> None:
    feeds, chip = feeds_of(program), sized(ocm_bytes)
    small, large = plan(program, chip), plan(program, CHIP)
    verify_plan(small, chip)
    verify_plan(large, CHIP)
    expected = run(large, feeds)
    for name, values in run(small, feeds).items():
        np.testing.assert_array_equal(values, expected[name])


@pytest.mark.parametrize("kib", [64, 32, 16, 8])
def test_a_small_memory_gives_the_same_bits(kib: int):
    same_bits(residual_net(), kib * 1024)


@pytest.mark.parametrize("kib", [40, 24, 15])
def test_every_op_gives_the_same_bits_when_it_is_spilled(kib: int):
    same_bits(every_op(), kib * 1024)


UNARY = {
    "conv": lambda net, x: net.conv(x, 20),
    "grouped": lambda net, x: net.conv(x, 2 * net.dims(x)[2], group=net.dims(x)[2] // 2 or 1),
    "pointwise": lambda net, x: net.conv(x, 33, 1, act=1),
    "strided": lambda net, x: net.conv(x, 17, 3, 2),
    "transposed": lambda net, x: net.conv(x, 12, 2, 2, 0, op="conv_transpose"),
    "depthwise": lambda net, x: net.depthwise(x),
    "max_pool": lambda net, x: net.max_pool(x, 3, 2, 1),
    "avg_pool": lambda net, x: net.avg_pool(x),
    "global_pool": lambda net, x: net.avg_pool(x, 0, 1, 0),
    "lut": lambda net, x: net.lut(x),
    "scale": lambda net, x: net.mul(x, net.operand(1, 1, net.dims(x)[2])),
    "shift": lambda net, x: net.add(x, net.operand(*net.dims(x))),
    "twice": lambda net, x: net.add(x, x),
    "requantize": lambda net, x: net.requantize(x),
    "resize": lambda net, x: net.resize(x),
    "linear": lambda net, x: net.resize(x, 2, linear=True),
    "transpose": lambda net, x: net.transpose(x, (1, 2, 0)),
    "flatten": lambda net, x: net.reshape(x, (1, 1, int(np.prod(net.dims(x))))),
    "pad": lambda net, x: net.pad(x, (1, 2, 0), (0, 1, 3)),
    "flip": lambda net, x: net.slice(x, tuple(n - 1 for n in net.dims(x)), (-1, -1, -1), net.dims(x)),
    "self_concat": lambda net, x: net.concat(x, net.operand(*net.dims(x)), x),
}


@given(
    st.tuples(st.integers(1, 18), st.integers(1, 18), st.sampled_from([1, 2, 3, 7, 8, 16, 17, 34])),
    st.lists(st.sampled_from(sorted(UNARY)), min_size=1, max_size=4),
    st.floats(0.15, 0.9),
)
@settings(max_examples=60, deadline=None)
def test_any_chain_runs_in_any_memory_that_it_fits(dims, ops, share):
    net = Net(*dims)
    x = "x"
    for op in ops:
        if np.prod(net.dims(x)) < 20_000 and (op != "grouped" or net.dims(x)[2] % 2 == 0):
            x = UNARY[op](net, x)
    if x == "x":
        x = net.lut(x)
    program = net.program(x)
    with suppress(FitError):  # a window or a row may be all there is
        same_bits(program, int(share * plan(program, CHIP).sizes["ocm"]) // 64 * 64)


def test_a_model_with_room_moves_each_byte_once():
    program = residual_net()
    built = plan(program, CHIP)
    read = sum(c.reads[0].tile.n for c in built.commands if c.kind == "load")
    constants = {name for layer in program.layers for name in layer.inputs if name in program.constants}
    image = activation_bytes(program, "x", CHIP)
    assert read == image + sum(program.constants[n].nbytes for n in constants if not n.startswith("operand")) + 24


def test_a_plan_is_the_same_every_time():
    program = residual_net()
    assert plan(program, sized(16 * 1024)) == plan(program, sized(16 * 1024))


def test_a_layer_that_cannot_fit_is_named_with_what_it_needs():
    with pytest.raises(FitError) as caught:
        plan(residual_net(), sized(4096))
    text = str(caught.value)
    assert caught.value.exit == Exit.DOES_NOT_FIT
    assert "layer 2 conv 'conv_2' (from /conv_2)" in text
    assert "it needs 6,144 bytes, the chip has 4,096" in text
    assert "tensor 't" in text


@pytest.mark.parametrize("make", ["residual", "every_op", "pyramid", "elementwise"])
def test_the_smallest_change_in_a_refusal_is_enough_and_one_step_less_is_not(make: str):
    program = {"residual": residual_net, "every_op": every_op, "pyramid": pyramid, "elementwise": elementwise}[make]()
    with pytest.raises(FitError) as caught:
        plan(program, sized(64))
    enough = int(caught.value.hint.split("at least ")[1].split(" runs")[0].replace(",", ""))
    verify_plan(plan(program, sized(enough)), sized(enough))
    with pytest.raises(FitError):
        plan(program, sized(enough - ALIGNMENT))


def elementwise() -> Program:
    """Layers that write over what they read need less room on chip than in boxes."""
    net = Net(4, 4, 64)
    return net.program(net.lut(net.lut("x")))


def test_the_order_never_keeps_more_alive_than_the_given_one():
    net = Net(32, 32, 8)
    wide = [net.conv("x", 64) for _ in range(4)]
    thin = [net.conv(name, 8) for name in wide]
    program = net.program(net.concat(*thin))
    sizes = {name: activation_bytes(program, name, CHIP) for name in activations(program)}
    better = order(program, CHIP)
    assert live_peak(program, better.layers, sizes) < live_peak(program, program.layers, sizes)


def test_the_order_makes_every_tensor_before_it_is_read():
    program = order(every_op(), CHIP)
    made = {*program.inputs, *program.constants}
    for layer in program.layers:
        assert made.issuperset(layer.inputs)
        made.update(layer.outputs)


def test_constants_are_loaded_one_layer_ahead():
    built = plan(residual_net(), CHIP)
    first = {}
    for index, command in enumerate(built.commands):
        first.setdefault((command.kind, command.layer), index)
    later = [at for at in range(1, len(built.program.layers)) if ("load", at) in first]
    assert later
    assert all(first["load", at] < first["compute", at - 1] for at in later)


def test_lifetimes_end_with_the_last_reader():
    program = residual_net()
    spans = lifetimes(program, program.layers)
    for name, (first, last) in spans.items():
        readers = [i for i, layer in enumerate(program.layers) if name in layer.inputs]
        assert last == max([*readers, first])


def test_a_spilled_output_is_not_kept_on_chip():
    net = Net(64, 64, 32)
    program = net.program(net.conv("x", 64))
    built = plan(program, sized(160 * 1024))
    assert [s for s in built.slots if s.tensor == "t0" and s.memory == "ocm" and s.size >= 64 * 64 * 64] == []


def test_an_output_without_layers_stays_where_the_host_put_it():
    program = Net(4, 4, 3).program("x")
    built = plan(program, CHIP)
    assert built.commands == ()
    verify_plan(built, CHIP)


def pyramid() -> Program:
    """A backbone whose maps are kept for a top-down path: the lifetimes that are hard to place."""
    net = Net(64, 64, 8)
    maps, x = [], "x"
    for channels in (16, 24, 40, 64):
        x = net.add(net.conv(y := net.conv(x, channels, 3, 2), channels), y)
        maps.append(x)
    for skip in reversed(maps[:-1]):
        x = net.conv(net.concat(net.resize(x), skip), net.dims(skip)[2])
        maps.append(x)
    return net.program(*(net.conv(name, 12, 1) for name in maps))


@pytest.mark.parametrize("make", [pyramid, residual_net, every_op])
def test_a_plan_with_room_is_within_two_per_cent_of_its_lower_bound(make):
    program = make()
    built = plan(program, CHIP)
    verify_plan(built, CHIP)
    chip = [slot for slot in built.slots if slot.memory == "ocm"]
    assert built.sizes["ocm"] <= 1.02 * max(live_bytes(chip))


@pytest.mark.parametrize("kib", [96, 48, 24])
def test_a_pyramid_gives_the_same_bits_in_any_memory(kib: int):
    same_bits(pyramid(), kib * 1024)


def test_slices_of_weights_are_as_wide_as_the_room_allows():
    net = Net(7, 7, 256)
    program = net.program(net.conv("x", 512))
    few, many = (plan(program, sized(kib * 1024)) for kib in (80, 640))
    widths = [{c.tile.n for c in built.commands if c.kind == "compute"} for built in (few, many)]
    assert max(widths[0]) < max(widths[1])


@pytest.mark.parametrize("group", [1, 2, 8])
@pytest.mark.parametrize("op", ["conv", "conv_transpose"])
def test_weights_of_any_group_come_in_slices(op: str, group: int):
    net = Net(6, 6, 64)
    program = net.program(net.conv("x", 192, 3, group=group, op=op))
    weights = program.constants["w0"].nbytes
    ocm_bytes = (6 * 6 * (64 + 192) + weights // 2) // 64 * 64
    same_bits(program, ocm_bytes)
    built = plan(program, sized(ocm_bytes))
    assert all(c.reads[1].tile.n < weights for c in built.commands if c.kind == "compute")


def test_groups_of_an_odd_size_are_sliced_whole():
    net = Net(6, 6, 36)
    program = net.program(net.conv("x", 60, 3, group=3))
    same_bits(program, 16_000 // 64 * 64)
