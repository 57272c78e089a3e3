"""Softmax and LayerNormalization in fx32: which layers they become, and how near onnxruntime they stay."""

from __future__ import annotations

import numpy as np
import pytest

from axtool.plan.build import plan
from axtool.plan.check_program import verify_program
from axtool.plan.lower import lower
from axtool.quant.formats import quantize_stage
from axtool.sim.images import run_plan
from axtool.target_file import load_target
from axtool.types import Program
from tests.plan.lower_case import Case, quantized, run_whole, whole_values

CHIP = load_target("qc-u-1d5-8mb")
DECIBELS = 90.0


def lowered(case: Case, precision: dict[str, str]) -> Program:
    ranges = {name: (float(x.min(initial=0)), float(x.max(initial=0))) for name, x in case.floats.items()}
    numbers = quantize_stage(case.sites, ranges, CHIP, case.inputs, case.outputs, precision=precision)
    program = lower(case.sites, numbers, CHIP, case.inputs, case.outputs)
    verify_program(program)
    return program


@pytest.mark.parametrize(
    ("op", "graph", "weights"),
    [
        (
            "fx_layer_norm",
            "(float[1,9,24] x) => (float[1,9,24] y) { y = LayerNormalization (x, g, b) }",
            {"g": (24,), "b": (24,)},
        ),
        (
            "fx_layer_norm",
            "(float[1,70,800] x) => (float[1,70,800] y) { y = LayerNormalization (x, g) }",
            {"g": (800,)},
        ),
        ("fx_softmax", "(float[1,9,24] x) => (float[1,9,24] y) { y = Softmax (x) }", {}),
        ("fx_softmax", "(float[1,12,4,5] x) => (float[1,12,4,5] y) { y = Softmax <axis = 1> (x) }", {}),
    ],
)
def test_a_row_op_in_fx32_is_one_layer_near_the_float_one(op: str, graph: str, weights: dict) -> None:
    case = Case(graph, **weights)
    program = lowered(case, {"x": "fx32", "y": "fx32"})
    assert [layer.op for layer in program.layers] == [op]
    want = case.floats["y"]
    noise = np.sum((run_whole(program, case.feeds)["y"] - want) ** 2)
    assert 10 * np.log10(np.sum(want**2) / noise) > DECIBELS
    stored = quantized(program, case.feeds)
    made = run_plan(
        plan(program, CHIP), {name: _numbers(program, name, values) for name, values in stored.items()}, "native"
    )
    np.testing.assert_array_equal(
        np.ascontiguousarray(made["y"][0]).view(np.int8), whole_values(program, case.feeds)["y"]
    )


def test_an_int8_reader_of_a_layer_norm_in_fx32_gets_a_conversion() -> None:
    graph = "(float[1,9,24] x) => (float[1,9,8] y) { n = LayerNormalization (x, g) y = MatMul (n, w) }"
    case = Case(graph, g=(24,), w=(24, 8))
    assert [layer.op for layer in lowered(case, {"x": "fx32", "n": "fx32"}).layers] == [
        "fx_layer_norm",
        "fx_quantize",
        "conv",
    ]


def _numbers(program: Program, name: str, values: np.ndarray) -> np.ndarray:
    """Bytes of an input as the numbers of its format, (1, h, w, c)."""
    return (
        np.ascontiguousarray(values).view("<i4")[None] if program.tensors[name].format.kind == "fx32" else values[None]
    )
