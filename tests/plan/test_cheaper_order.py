"""Layers that commute are swapped for the cheaper order, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from axtool.graph.front import Reading, read_front
from axtool.plan.cheaper_order import in_cheaper_order
from axtool.plan.check_program import verify_program
from axtool.plan.lower import lower, lowered
from axtool.plan.whole import whole_plan
from axtool.quant.formats import quantize_stage
from axtool.quant.ties import observed_names
from axtool.runtime.device import DeviceSession
from axtool.target_file import load_target
from axtool.types import Program
from tests.graph.pass_models import build, noise

CHIP = load_target("qc-u-1d7-16mb")
S2 = np.asarray((1, 1, 2, 2), np.float32)
LABELS = (
    'u = Resize<mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">(x, , s)'
    " y = ArgMax<axis = 1, keepdims = {}>(u)"
)


def both_orders(path: Path, body: str, outputs: str, **constants: Any) -> tuple[Program, Program]:
    onnx.save(ir.to_proto(build(body, "float[1, 5, 8, 12] x", outputs, **constants)), path)
    front = read_front(path, CHIP, Reading())
    (stage,) = front.parts.stages
    names = observed_names(stage.sites, stage.inputs, stage.outputs, (), stage.precision)
    ranges = dict.fromkeys(names, (-3.0, 3.0))
    numbers = quantize_stage(stage.sites, ranges, CHIP, stage.inputs, stage.outputs, {}, precision=stage.precision)
    args = (stage.sites, numbers, CHIP, stage.inputs, stage.outputs)
    return lowered(*args).program(), lower(*args)


@pytest.mark.parametrize(
    ("body", "order"),
    [
        (LABELS.format(0), ["arg_max", "resize_nearest", "reshape"]),
        (LABELS.format(1), ["arg_max", "resize_nearest"]),
    ],
)
def test_swapped_layers_have_the_same_bits(tmp_path: Path, body: str, order: list[str]) -> None:
    before, after = both_orders(tmp_path / "model.onnx", body, "int64 y", s=S2)
    assert [layer.op for layer in after.layers] == order
    assert before.layers != after.layers
    verify_program(after)
    x = noise(1, 5, 8, 12)
    results = [
        DeviceSession(whole_plan(program, CHIP), engine="reference").run({"x": x}) for program in (before, after)
    ]
    np.testing.assert_array_equal(results[0]["y"], results[1]["y"])


def test_a_map_that_somebody_else_reads_is_made(tmp_path: Path) -> None:
    body = f"{LABELS.format(0)} z = Relu(u)"
    before, after = both_orders(tmp_path / "model.onnx", body, "int64 y, float z", s=S2)
    assert before.layers == after.layers


def test_a_program_without_such_a_pair_is_itself(tmp_path: Path) -> None:
    before, _ = both_orders(tmp_path / "model.onnx", "y = Relu(x)", "float y")
    same: Callable[[Program], Program] = in_cheaper_order
    assert same(before) is before
