"""The NumPy engine over hand-made plans: tiles, places, order, garbage in memory, taps."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axtool.ops.encoding import FIELDS
from axtool.sim.engine import Tap
from axtool.sim.images import new_images, open_plan, run_plan, write_tensor
from axtool.types import Plan, Tile, View
from tests.ops.cases import random_case
from tests.sim.tiny_plans import block_cuts, cuts, part_of, plan_of, small_net

EXAMPLES = 15
TILES = cuts(4, 5, 16)


def run_images(plan: Plan, feeds: dict, garbage: int | None = None) -> dict[str, np.ndarray]:
    """Both memories after a run; `garbage` fills what nobody wrote before it."""
    memories = new_images(plan)
    if garbage is not None:
        rng, clean = np.random.default_rng(garbage), memories["ext"]
        memories = {name: rng.integers(0, 256, data.size, dtype=np.uint8) for name, data in memories.items()}
        for name, array in plan.program.constants.items():
            slot = next(s for s in plan.slots if s.tensor == name)
            memories["ext"][slot.offset : slot.offset + array.nbytes] = clean[slot.offset :][: array.nbytes]
    for name, array in feeds.items():
        slot = next(s for s in plan.slots if s.tensor == name)
        write_tensor(memories, slot, plan.program.tensors[name], array)
    open_plan(plan).run(memories["ext"], memories["ocm"], None)
    return memories


@pytest.mark.parametrize("op", FIELDS)
@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_staged_tiles_make_the_bits_of_one_whole_command(op, seed):
    case = random_case(op, seed)
    plan, feeds = plan_of(case)
    staged, _ = plan_of(case, block_cuts(case, seed), staged=True)
    np.testing.assert_array_equal(run_plan(plan, feeds)["out"], run_plan(staged, feeds)["out"])


@pytest.mark.parametrize("staged", [False, True])
def test_a_network_in_tiles_has_the_bits_of_the_whole(staged):
    net, feeds = small_net()
    whole = run_plan(net.plan(["out", "pool"]), feeds)
    tiled = run_plan(net.plan(["out", "pool"], TILES, staged), feeds)
    for name, array in whole.items():
        np.testing.assert_array_equal(tiled[name], array)


@pytest.mark.parametrize("staged", [False, True])
def test_what_was_in_memory_before_never_reaches_a_result(staged):
    net, feeds = small_net()
    plan = net.plan(["out"], TILES, staged)
    slot = next(s for s in plan.slots if s.tensor == "out")
    outs = [run_images(plan, feeds, garbage)["ext"][slot.offset :][: slot.size] for garbage in (1, 2)]
    pixels = [out.reshape(9, 8, -1)[:, :, :38] for out in outs]
    np.testing.assert_array_equal(*pixels)


def outcome(plan: Plan, feeds: dict) -> bytes | None:
    """The output bytes, or None for a refusal."""
    try:
        return run_plan(plan, feeds)["out"].tobytes()
    except ValueError:
        return None


@pytest.mark.parametrize("shift", [-64, -1, 1, 64, 10**6])
def test_moving_any_view_changes_the_bits_or_is_refused(shift):
    net, feeds = small_net()
    plan = net.plan(["out"])
    right = outcome(plan, feeds)
    for index, command in enumerate(plan.commands):
        for at in range(len(command.reads) + 1):
            views = [*command.reads, *command.writes]
            views[at] = replace(views[at], offset=views[at].offset + shift)
            moved = replace(command, reads=tuple(views[:-1]), writes=tuple(views[-1:]))
            commands = (*plan.commands[:index], moved, *plan.commands[index + 1 :])
            assert outcome(replace(plan, commands=commands), feeds) != right, (index, at)


def test_swapping_two_neighbouring_layers_changes_the_bits():
    net, feeds = small_net()
    plan = net.plan(["out"])
    right = outcome(plan, feeds)
    commands = plan.commands  # conv, pool, concat part 0, concat part 1, lut, add
    for index in (0, 1, 3, 4):
        swapped = [*commands[:index], commands[index + 1], commands[index], *commands[index + 2 :]]
        if index == 1:  # part 0 reads the conv: only part 1 needs the pool
            swapped = [commands[0], commands[2], commands[3], commands[1], *commands[4:]]
        assert outcome(replace(plan, commands=tuple(swapped)), feeds) != right, index


def test_dropping_any_command_changes_the_bits():
    net, feeds = small_net()
    plan = net.plan(["out"], TILES, staged=True)
    right = outcome(plan, feeds)
    for index in range(0, len(plan.commands), 7):
        commands = (*plan.commands[:index], *plan.commands[index + 1 :])
        assert outcome(replace(plan, commands=commands), feeds) != right, index


def test_a_tap_copies_a_view_after_its_command():
    net, feeds = small_net()
    plan = net.plan(["out"])
    home = plan.commands[0].writes[0]
    box = Tile(2, 1, 3, 4, 5, 7)
    out = np.zeros((4, 5, 7), np.uint8)
    memories = new_images(plan)
    slot = next(s for s in plan.slots if s.tensor == "x")
    write_tensor(memories, slot, plan.program.tensors["x"], feeds["x"])
    open_plan(plan).run(memories["ext"], memories["ocm"], [Tap(0, part_of(home, box), out)])
    want = run_plan(net.plan(["conv"]), feeds)["conv"][0, 2:6, 1:6, 3:10]
    np.testing.assert_array_equal(out.view(np.int8), want)


@pytest.mark.parametrize(
    ("tap", "reason"),
    [
        (Tap(6, View("ocm", 0, Tile(0, 0, 0, 1, 1, 1), 1, 1), np.zeros((1, 1, 1), np.uint8)), "after command 6"),
        (Tap(0, View("ocm", 10**9, Tile(0, 0, 0, 1, 1, 1), 1, 1), np.zeros((1, 1, 1), np.uint8)), "leave ocm"),
        (Tap(0, View("ocm", 0, Tile(0, 0, 0, 1, 1, 2), 1, 1), np.zeros((1, 1, 1), np.uint8)), "to fill"),
    ],
)
def test_a_tap_that_does_not_fit_is_refused(tap, reason):
    net, _ = small_net()
    plan = net.plan(["out"])
    memories = new_images(plan)
    with pytest.raises(ValueError, match=reason):
        open_plan(plan).run(memories["ext"], memories["ocm"], [tap])


def test_memories_that_are_too_short_are_refused():
    net, _ = small_net()
    plan = net.plan(["out"])
    memories = new_images(plan)
    with pytest.raises(ValueError, match="ocm has 10 bytes"):
        open_plan(plan).run(memories["ext"], memories["ocm"][:10], None)


def test_a_memory_that_is_not_bytes_is_refused():
    net, _ = small_net()
    plan = net.plan(["out"])
    memories = new_images(plan)
    with pytest.raises(ValueError, match="ext must be one line of uint8"):
        open_plan(plan).run(memories["ext"].view(np.int8), memories["ocm"], None)
