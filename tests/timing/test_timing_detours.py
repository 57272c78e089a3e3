"""What a program does for want of an optimisation is charged by primitive costs, where the plan names it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from axtool.artefact.entries import pack_stage, unpack_stage
from axtool.artefact.stages import DeviceStage
from axtool.graph.front import Reading
from axtool.ops.encoding import dims_of
from axtool.report.profile import plans_of_onnx
from axtool.target_file import load_target
from axtool.timing.clock import time_plan
from axtool.timing.detours import detours_of, places
from axtool.types import Plan
from tests.graph.pass_models import build, noise

CHIP = load_target("qc-u-1d7-16mb")
COSTS = CHIP.costs
F = np.float32
# a stem of 7x7 by 4, a layer that shrinks a map of two tiles, two branches that are joined and read
BODY = (
    "s = Conv<strides = [4, 4], pads = [3, 3, 3, 3]>(x, stem) r = Relu(s)"
    " h = Conv<strides = [2, 2], pads = [1, 1, 1, 1]>(r, half) a = Conv(h, one) b = Conv(h, two)"
    " j = Concat<axis = 1>(a, b) y = Conv<pads = [1, 1, 1, 1]>(j, last)"
)
WEIGHTS: dict[str, Any] = {
    "stem": noise(8, 3, 7, 7), "half": noise(16, 8, 3, 3), "one": noise(8, 16, 1, 1), "two": noise(8, 16, 1, 1),
    "last": noise(4, 16, 3, 3),
}  # fmt: skip


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    path = Path(tmp_path_factory.mktemp("model")) / "model.onnx"
    onnx.save(ir.to_proto(build(BODY, "float[1, 3, 128, 256] x", **WEIGHTS)), path)
    plans, _ = plans_of_onnx(path, CHIP, Reading(), lambda name: None)
    return plans[0]


def saved(planned: Plan, *names: str) -> int:
    """Cycles that the optimisations are worth, on their own."""
    return time_plan(replace(planned, without=names), CHIP).total - time_plan(planned, CHIP).total


def test_a_window_over_blocks_is_read_again_for_each_output_channel(planned: Plan) -> None:
    """2 tiles, 7 channels more than one, 48 channels of 33 x 33 pixels each, at 64 bytes a cycle."""
    walk = 48 * 33 * 33 / 64 + COSTS["flow"]
    assert saved(planned, "single-walk") == pytest.approx(2 * 7 * walk, rel=0.05)


def test_blocks_of_the_input_are_stored_one_by_one(planned: Plan) -> None:
    store = COSTS["gather"] + 1024 * COSTS["gather_per_element"] + COSTS["fence"]
    assert saved(planned, "packed-space-to-depth") == pytest.approx(2 * 48 * store, rel=0.05)


def test_a_map_of_two_tiles_goes_to_external_memory_and_comes_back_tile_by_tile(planned: Plan) -> None:
    """16 tile-channels; two requests of 200 cycles are under way at a time."""
    cycles = saved(planned, "stage-activations")
    bytes_each = 1024 / CHIP.read_bytes_per_cycle
    assert 16 * (100 + bytes_each) <= cycles <= 16 * (200 + 2 * bytes_each) + 200
    timing = time_plan(replace(planned, without=("stage-activations",)), CHIP)
    assert timing.read_bytes - time_plan(planned, CHIP).read_bytes == 16 * 1024


def test_branches_are_copied_by_tiles(planned: Plan) -> None:
    """The latency of the weights behind, 200 cycles, hides beside the copies."""
    copies = 16 * COSTS["copy_per_kib"]
    assert copies - CHIP.external.latency_cycles <= saved(planned, "branches-in-place") <= copies


def test_a_network_without_attention_is_one_kernel_behind_one_entry(planned: Plan) -> None:
    assert saved(planned, "single-entry") == saved(planned, "prefetch-weights") == 0
    assert [place for place in places(planned.program, CHIP) if place.name == "single-entry"] == []


def test_a_place_is_named_by_its_number(planned: Plan) -> None:
    assert saved(planned, "branches-in-place:1") == saved(planned, "branches-in-place")
    assert saved(planned, "branches-in-place:2") == 0


def test_each_cycle_is_charged_once(planned: Plan) -> None:
    without = ("single-walk", "packed-space-to-depth", "stage-activations", "branches-in-place")
    timing = time_plan(replace(planned, without=without), CHIP)
    assert timing.total == max(event.end for event in timing.events)
    assert timing.total == sum(timing.ledger.values())


def test_nothing_is_charged_where_all_is_on(planned: Plan) -> None:
    assert detours_of(planned.program, CHIP, ()) == {}


def test_an_artefact_keeps_what_its_plan_is_without(planned: Plan) -> None:
    blobs: dict[str, Any] = {}
    entry = pack_stage(0, DeviceStage(replace(planned, without=("single-walk",))), blobs)
    stage = unpack_stage(0, entry, CHIP.name, blobs)
    assert isinstance(stage, DeviceStage)
    assert stage.plan.without == ("single-walk",)


def test_a_window_by_4_is_gathered_tap_by_tap_until_space_to_depth_takes_its_place(tmp_path: Path) -> None:
    """147 loads for each of 2 tiles: each starts a gather and moves 1,024 elements."""
    path = tmp_path / "model.onnx"
    body = "y = Conv<strides = [4, 4], pads = [3, 3, 3, 3]>(x, stem)"
    onnx.save(ir.to_proto(build(body, "float[1, 3, 128, 256] x", stem=WEIGHTS["stem"])), path)
    cycles = {}
    for off in ((), ("space-to-depth-stem",)):
        plans, _ = plans_of_onnx(path, CHIP, Reading(disable=off), lambda name: None)
        assert dims_of(plans[0].program.tensors[plans[0].program.outputs[0]].shape) == (32, 64, 8)
        cycles[off] = time_plan(plans[0], CHIP).ledger["data_ocm"]
    load = COSTS["gather"] + 1024 * COSTS["gather_per_element"]
    assert cycles["space-to-depth-stem",] == pytest.approx(2 * 147 * load, rel=0.05)
    assert cycles[()] < cycles["space-to-depth-stem",] / 10


def test_a_depthwise_layer_waits_for_the_flow_of_each_channel_and_a_dense_one_does_not(tmp_path: Path) -> None:
    """32 channels of one tile: in and out, 64 flows; a dense layer uses what one flow brings for every output."""
    port = {}
    for name, group in (("depthwise", 32), ("dense", 1)):
        weights = noise(32, 32 // group, 1, 1)
        path = tmp_path / f"{name}.onnx"
        onnx.save(ir.to_proto(build(f"y = Conv<group = {group}>(x, w)", "float[1, 32, 32, 32] x", w=weights)), path)
        plans, _ = plans_of_onnx(path, CHIP, Reading(), lambda name: None)
        timing = time_plan(plans[0], CHIP)
        port[name] = sum(event.end - event.start for event in timing.events if event.lane == "port")
    assert port["dense"] == pytest.approx(64 * 16 + 2 * COSTS["flow"], abs=2)
    assert port["depthwise"] == pytest.approx(64 * (16 + COSTS["flow"]), abs=2)


NORMED = "s = Add(a, b) y = LayerNormalization<axis = -1>(s, g) "


def test_a_layer_norm_goes_on_with_the_sum_in_front_of_it(tmp_path: Path) -> None:
    """The sum of 600 tokens of 64 channels is in the array: it is neither stored nor fetched."""
    path = tmp_path / "model.onnx"
    tokens = "float[1, 600, 64] a, float[1, 600, 64] b"
    onnx.save(ir.to_proto(build(NORMED, tokens, g=np.ones(64, F))), path)
    plans, _ = plans_of_onnx(path, CHIP, Reading(), lambda name: None)
    assert [layer.op for layer in plans[0].program.layers] == ["add", "layer_norm"]
    port = [event for event in time_plan(plans[0], CHIP).events if event.lane == "port"]
    moved = {at: sum(event.end - event.start for event in port if event.layer == at) for at in (0, 1)}
    assert moved[0] == pytest.approx(2 * 64 * (16 + COSTS["flow"]), abs=2)
    assert moved[1] == pytest.approx(64 * 16 + COSTS["flow"], abs=2)


def test_a_layer_norm_is_relaid_by_a_tile_copy_each_way(tmp_path: Path) -> None:
    """600 tokens are 19 tiles down, 64 channels 2 across, whatever a number takes."""
    path = tmp_path / "model.onnx"
    onnx.save(
        ir.to_proto(build("y = LayerNormalization<axis = -1>(a, g)", "float[1, 600, 64] a", g=np.ones(64, F))), path
    )
    plans, _ = plans_of_onnx(path, CHIP, Reading(), lambda name: None)
    assert time_plan(plans[0], CHIP).ledger["data_array"] == 2 * 19 * 2 * COSTS["copy_per_kib"]
