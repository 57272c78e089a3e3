"""Whatever engine runs a plan, both memories hold what the reference left in every result."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axtool.ops.encoding import FIELDS
from axtool.sim import engine as door
from axtool.sim.engine import Tap, native_available, open_engine
from axtool.sim.images import encode_plan, host_slot, new_images, open_plan, run_plan, sizes_of, write_tensor
from axtool.sim.reference import ReferenceEngine
from axtool.types import Tile
from tests.ops.cases import random_case
from tests.sim.tiny_plans import block_cuts, cuts, part_of, plan_of, small_net

EXAMPLES = 12
needs_native = pytest.mark.skipif(not native_available(), reason="the native engine is not built")


@needs_native
@pytest.mark.parametrize("op", FIELDS)
@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), staged=st.booleans(), threads=st.integers(1, 3), merge=st.booleans())
def test_every_op_has_the_same_bits_on_both_engines(op, seed, staged, threads, merge):
    case = random_case(op, seed)
    plan, feeds = plan_of(case, block_cuts(case, seed), staged)
    got = run_plan(plan, feeds, "native", threads, merge=merge)
    np.testing.assert_array_equal(got["out"], run_plan(plan, feeds, "reference")["out"])


@needs_native
@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_network_has_the_same_bits_on_both_engines(staged, threads):
    net, feeds = small_net()
    plan = net.plan(["out", "pool"], cuts(4, 3, 16), staged)
    want = run_plan(plan, feeds)
    for name, array in run_plan(plan, feeds, "native", threads).items():
        np.testing.assert_array_equal(array, want[name])


@pytest.mark.parametrize("name", ["reference", pytest.param("native", marks=needs_native)])
def test_a_tap_may_fill_a_slice_of_a_larger_array(name):
    net, feeds = small_net()
    plan = net.plan(["out"])
    memories, box = new_images(plan), Tile(0, 1, 2, 9, 5, 7)
    write_tensor(memories, host_slot(plan, "x"), plan.program.tensors["x"], feeds["x"])
    whole = np.zeros((9, 8, 19), np.uint8)
    tap = Tap(0, part_of(plan.commands[0].writes[0], box), whole[:, 1:6, 2:9])
    open_plan(plan, name).run(memories["ext"], memories["ocm"], [tap])
    want = run_plan(net.plan(["conv"]), feeds)["conv"][0, :, 1:6, 2:9]
    np.testing.assert_array_equal(whole[:, 1:6, 2:9].view(np.int8), want)


def test_without_the_native_module_the_reference_runs_and_says_so_once(monkeypatch, caplog):
    door._say_once.cache_clear()
    monkeypatch.setattr(door, "_native", lambda: None)
    net, _ = small_net()
    plan = net.plan(["out"])
    for _ in range(2):
        engine = open_engine("native", *encode_plan(plan), sizes_of(plan))
        assert isinstance(engine, ReferenceEngine)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert not native_available()
