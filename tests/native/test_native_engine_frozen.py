"""Weights and tables arranged once: the same bytes, read no more where they came from, and only where no command
writes them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from axtool.ops.arithmetic import qfp
from axtool.ops.packing import fold_bias, pack_conv_weights, pack_params
from axtool.sim.engine import Engine, Tap, open_engine
from axtool.sim.images import encode_plan, host_slot, new_images, open_plan, read_tensor, sizes_of, write_tensor
from axtool.types import Command, Plan, Tile, View
from tests.sim.tiny_plans import Cut, Tiny, cuts, one_box, random_int8

native = pytest.importorskip("axtool.native._native")
pytestmark = pytest.mark.skipif(native.cpu()["best"] != "avx2", reason="only AVX2 has a frozen form")

Memories = dict[str, NDArray[np.uint8]]


def conv_plan(kernel: int = 1, stride: int = 1, act: int = 0, cut: Cut = one_box, staged: bool = False) -> Plan:
    """A convolution of 160 to 150 channels, more than enough of them to be worth freezing."""
    rng, pad = np.random.default_rng(kernel), kernel // 2
    weights = random_int8(rng, 150, 160, kernel, kernel)
    wsum = weights.reshape(150, -1).sum(1, dtype=np.int64)
    net = Tiny()
    net.input("x", (9, 10, 160), zp=5)
    scale = qfp(0.002 * (60 if act else 1))
    params = pack_params(fold_bias(rng.integers(-999, 999, 150), 5, wsum), *scale, wsum)
    names = ["x", net.constant("w", pack_conv_weights(weights, 1)), net.constant("p", params)]
    if act:
        names.append(net.constant("t", rng.integers(-9999, 9999, 1025).astype(np.int16)))
    dims = (-(-9 // stride), -(-10 // stride), 150)
    limits = {"x_zp": 5, "out_zp": -3, "lo": -128, "hi": 127, "act": act}
    shape = {"kernel": (kernel, kernel), "stride": (stride, stride), "dilation": (1, 1), "pad": (pad, pad), "group": 1}
    net.layer("conv", names, "y", dims, **shape, **limits)
    return net.plan(["y"], cut, staged)


def images(plan: Plan, seed: int = 0) -> Memories:
    memories = new_images(plan)
    write_tensor(memories, host_slot(plan, "x"), plan.program.tensors["x"], pixels(seed))
    return memories


def pixels(seed: int) -> NDArray[np.int8]:
    return random_int8(np.random.default_rng(seed), 1, 9, 10, 160)


def run(engine: Engine, plan: Plan, memories: Memories, taps: list[Tap] | None = None) -> NDArray[np.int8]:
    engine.run(memories["ext"], memories["ocm"], taps)
    return read_tensor(memories, host_slot(plan, "y"), plan.program.tensors["y"])


def freeze(engine: Engine, memories: Memories) -> int:
    return engine.freeze(memories["ext"], memories["ocm"])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("act", [0, 1])
@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (1, 2), (3, 1), (3, 2), (5, 1)])
def test_frozen_weights_give_the_bytes_of_the_reference(kernel: int, stride: int, act: int, threads: int) -> None:
    plan = conv_plan(kernel, stride, act)
    engine = open_plan(plan, "native", threads)
    assert freeze(engine, images(plan)) > 150 * 160 * kernel * kernel
    for seed in (1, 2):
        want = run(open_plan(plan, "reference"), plan, images(plan, seed))
        np.testing.assert_array_equal(run(engine, plan, images(plan, seed)), want)


@pytest.mark.parametrize("cut", [cuts(4, 4, 160), cuts(9, 10, 128)], ids=["boxes", "channels"])
def test_tiles_that_load_their_weights_are_frozen_where_the_loads_were_left_out(cut: Cut) -> None:
    plan = conv_plan(cut=cut, staged=True)
    engine = open_plan(plan, "native", 2)
    assert freeze(engine, images(plan)) > 0
    want = run(open_plan(plan, "reference"), plan, images(plan, 4))
    np.testing.assert_array_equal(run(engine, plan, images(plan, 4)), want)


def test_tiles_of_the_same_channels_share_what_is_frozen() -> None:
    whole, parted = conv_plan(), conv_plan(cut=cuts(3, 10, 160), staged=True)
    assert freeze(open_plan(parted, "native"), images(parted)) == freeze(open_plan(whole, "native"), images(whole))


@pytest.mark.parametrize("cut", [cuts(3, 10, 160), cuts(9, 10, 64)], ids=["rows", "channels"])
def test_the_bytes_of_a_table_are_frozen_once_for_all_tiles(cut: Cut) -> None:
    plain, table = (conv_plan(act=act, cut=cut, staged=True) for act in (0, 1))
    more = freeze(open_plan(table, "native"), images(table)) - freeze(open_plan(plain, "native"), images(plain))
    assert more == 65536


@pytest.mark.parametrize(("kernel", "name"), [(1, "w"), (3, "w"), (1, "t"), (3, "t"), (5, "t")])
def test_later_runs_do_not_look_at_what_is_frozen(kernel: int, name: str) -> None:
    plan = conv_plan(kernel, act=1)
    frozen, plain = open_plan(plan, "native"), open_plan(plan, "native")
    want = run(plain, plan, images(plan))
    freeze(frozen, images(plan))
    broken = images(plan)
    slot = host_slot(plan, name)
    broken["ext"][slot.offset : slot.offset + slot.size] = 0
    np.testing.assert_array_equal(run(frozen, plan, broken), want)
    assert not np.array_equal(run(plain, plan, broken), want)


def test_runs_with_taps_read_the_weights_in_ext_even_when_frozen() -> None:
    plan = conv_plan()
    engine = open_plan(plan, "native")
    want = run(engine, plan, images(plan))
    freeze(engine, images(plan))
    view = plan.commands[-1].writes[0]
    seen = np.empty((view.tile.h, view.tile.w, view.tile.n), np.uint8)
    run(engine, plan, images(plan), [Tap(len(plan.commands) - 1, view, seen)])
    np.testing.assert_array_equal(seen.view(np.int8)[None, :, :, :150], want)


@pytest.mark.parametrize("kernel", [1, 3])
def test_weights_and_tables_that_a_command_writes_are_not_frozen(kernel: int) -> None:
    plan = conv_plan(kernel, act=1)
    every = freeze(open_plan(plan, "native"), images(plan))
    weights = freeze(open_plan(with_a_write_to("t", plan), "native"), images(plan))
    table = freeze(open_plan(with_a_write_to("w", plan), "native"), images(plan))
    assert weights > 0
    assert table > 0
    assert weights + table == every


def with_a_write_to(name: str, plan: Plan) -> Plan:
    slot = host_slot(plan, name)
    byte = Tile(0, 0, 0, 1, 1, 1)
    write = Command("move", "array", 0, byte, (View("ext", 0, byte, 1, 1),), (View("ext", slot.offset, byte, 1, 1),))
    return Plan(plan.program, plan.target, plan.slots, (*plan.commands, write), plan.sizes)


def test_loads_that_are_done_freeze_nothing() -> None:
    plan = conv_plan(staged=True)
    assert freeze(open_plan(plan, "native", merge=False), images(plan)) == 0


@pytest.mark.parametrize(("kernel", "name"), [(1, "w"), (3, "w"), (3, "t")])
def test_freezing_again_takes_what_is_there_now(kernel: int, name: str) -> None:
    plan = conv_plan(kernel, act=1)
    engine = open_plan(plan, "native")
    first = images(plan)
    freeze(engine, first)
    slot = host_slot(plan, name)
    first["ext"][slot.offset : slot.offset + slot.size] = 0
    freeze(engine, first)
    assert not np.array_equal(run(engine, plan, images(plan)), run(open_plan(plan, "native"), plan, images(plan)))


def test_freezing_refuses_memories_that_are_too_short() -> None:
    plan = conv_plan()
    memories = images(plan)
    with pytest.raises(ValueError, match="the commands need"):
        open_plan(plan, "native").freeze(memories["ext"][:-64], memories["ocm"])


def test_the_reference_has_nothing_to_freeze() -> None:
    plan = conv_plan()
    assert freeze(open_engine("reference", *encode_plan(plan), sizes_of(plan)), images(plan)) == 0
