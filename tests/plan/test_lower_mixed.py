# ruff: noqa: E501 (a graph is one line)
"""Layers of fx32 and fp16: close to the float model, the same bits in both engines, in the layers that are meant."""

from __future__ import annotations

import numpy as np
import pytest

from axtool.plan.build import plan
from axtool.plan.check_plan import verify_plan
from axtool.plan.check_program import verify_program
from axtool.plan.lower import lower
from axtool.quant.formats import quantize_stage
from axtool.runtime.device import DeviceSession
from axtool.target_file import load_target
from axtool.types import Program
from tests.plan.lower_case import Case

TARGET = load_target("qc-u-1d5-8mb")
FINE, HALF, COARSE = 120.0, 60.0, 30.0  # dB that fx32, fp16 and int8 leave of normal values

# graph, weights, precision, ops in their order, least SQNR
CASES = {
    "a residual sum": (
        "(float[1,5,7] x, float[1,5,7] z) => (float[1,5,7] y) { y = Add(x, z) }", {},
        {"x": "fx32", "z": "fx32", "y": "fx32"}, ["fx_add"], FINE,
    ),
    "a sum of int8 and fx32": (
        "(float[1,5,7] x, float[1,5,7] z) => (float[1,5,7] y) { y = Add(x, z) }", {},
        {"z": "fx32", "y": "fx32"}, ["fx_dequantize", "fx_add"], COARSE,
    ),
    "a difference with a clamp": (
        "(float[1,5,7] x, float[1,5,7] z) => (float[1,5,7] y) { a = Sub(x, z) y = Relu(a) }", {},
        {"x": "fx32", "z": "fx32", "a": "fx32", "y": "fx32"}, ["fx_add"], FINE,
    ),
    "a product with a constant": (
        "(float[1,5,7] x) => (float[1,5,7] y) { a = Mul(x, w) y = Add(a, c) }", {"w": (7,), "c": (5, 1)},
        {"x": "fx32", "a": "fx32", "y": "fx32"}, ["fx_mul", "fx_add"], FINE,
    ),
    "a sum by another name": (
        "(float[1,5,7] x, float[1,5,7] z) => (float[1,5,7] y) { y = Sum(x, z) }", {},
        {"x": "fx32", "z": "fx32", "y": "fx32"}, ["fx_add"], FINE,
    ),
    "a quotient by a constant": (
        "(float[1,5,7] x) => (float[1,5,7] y) { y = Div(x, w) }", {"w": np.array([3.0, -0.7, 12.0, 1.0, 0.3, 9.0, 2.0])},
        {"x": "fx32", "y": "fx32"}, ["fx_mul"], FINE,
    ),
    "a product broadcast over an image": (
        "(float[1,3,5,7] x, float[1,3,1,1] z) => (float[1,3,5,7] y) { y = Mul(x, z) }", {},
        {"x": "fx32", "z": "fx32", "y": "fx32"}, ["fx_mul"], FINE,
    ),
    "functions": (
        "(float[1,5,7] x) => (float[1,5,7] y) { a = Tanh(x) y = Sigmoid(a) }", {},
        {"x": "fx32", "a": "fx32", "y": "fx32"}, ["fx_lut"], 100.0,
    ),
    "a linear layer": (
        "(float[1,5,9] x) => (float[1,5,33] y) { a = MatMul(x, w) y = Add(b, a) }", {"w": (9, 33), "b": (33,)},
        {"x": "fx32", "a": "fp16", "y": "fp16"}, ["fp16_linear"], HALF,
    ),
    "a linear layer of int8 with a bias for each token": (
        "(float[1,5,9] x) => (float[1,5,33] y) { a = MatMul(x, w) y = Add(a, b) }", {"w": (9, 33), "b": (5, 33)},
        {"a": "fp16", "y": "fp16"}, ["fp16_linear"], COARSE,
    ),
    "a linear layer with a Relu, then one of its fp16": (
        "(float[1,5,9] x) => (float[1,5,4] y) { a = MatMul(x, w) c = Add(a, b) d = Relu(c) e = MatMul(d, v) y = Add(e, u) }",
        {"w": (9, 33), "b": (33,), "v": (33, 4), "u": (4,)},
        {"x": "fp16", "a": "fp16", "c": "fp16", "d": "fp16", "e": "fp16", "y": "fp16"}, ["fp16_linear"] * 2, HALF,
    ),
    "a plain product of a head": (
        "(float[1,5,9] x) => (float[1,5,4] y) { a = MatMul(x, w) b = Add(a, c) d = Relu(b) e = MatMul(d, v) f = Add(e, u) y = Sigmoid(f) }",
        {"w": (9, 33), "c": (33,), "v": (33, 4), "u": (4,)},
        {"x": "fx32", "a": "fp16", "b": "fx32", "d": "fx32", "e": "fp16", "f": "fx32", "y": "fx32"},
        ["fp16_linear", "fx_add", "fp16_linear", "fx_add", "fx_lut"], HALF,
    ),
    "an input in fx32 that a convolution reads": (
        "(float[1,3,5,7] x) => (float[1,4,5,7] y) { a = Conv<pads=[1,1,1,1]>(x, w, b) y = Relu(a) }", {"w": (4, 3, 3, 3), "b": (4,)},
        {"x": "fx32"}, ["fx_quantize", "conv"], COARSE,
    ),
    "an input in fx32 that is rearranged for int8": (
        "(float[1,3,4,6] x) => (float[1,4,2,3] y) { a = SpaceToDepth<blocksize=2>(x) y = Conv(a, w, b) }", {"w": (4, 12, 1, 1), "b": (4,)},
        {"x": "fx32"}, ["fx_quantize", "space_to_depth", "conv"], COARSE,
    ),
    "an image projected to tokens": (
        "(float[1,9,3,4] x) => (float[1,12,8] y) <int64[3] s = {1,8,12}> { a = Conv(x, w, b) c = Reshape(a, s) d = Transpose<perm=[0,2,1]>(c) y = Add(d, p) }",
        {"w": (8, 9, 1, 1), "b": (8,), "p": (1, 12, 8)},
        {"a": "fp16", "y": "fx32"}, ["fp16_linear", "fx_add"], COARSE,
    ),
    "a Gemm": (
        "(float[1,9] x) => (float[1,8] y) { y = Gemm<transB=1, alpha=0.5, beta=2.0>(x, w, b) }", {"w": (8, 9), "b": (8,)},
        {"x": "fx32", "y": "fp16"}, ["fp16_linear"], HALF,
    ),
    "an int8 feed-forward block between fx32 sums": (
        "(float[1,5,8] x, float[1,5,8] z) => (float[1,5,8] y) { a = Add(x, z) c = MatMul(a, w) d = Add(c, b) e = Relu(d) f = MatMul(e, v) g = Add(f, u) y = Add(a, g) }",
        {"w": (8, 33), "b": (33,), "v": (33, 8), "u": (8,)},
        {"x": "fx32", "z": "fx32", "a": "fx32", "y": "fx32"},
        ["fx_add", "fx_quantize", "conv", "conv", "fx_dequantize", "fx_add"], COARSE,
    ),
}  # fmt: skip


def program_of(case: Case, precision, **more) -> Program:
    ranges = {name: (float(x.min(initial=0)), float(x.max(initial=0))) for name, x in case.floats.items()}
    numbers = quantize_stage(case.sites, ranges, TARGET, case.inputs, case.outputs, precision=precision, **more)
    program = lower(case.sites, numbers, TARGET, case.inputs, case.outputs)
    verify_program(program)
    return program


def decibels(made: np.ndarray, want: np.ndarray) -> float:
    noise = float(np.square(made.astype(np.float64) - want).sum())
    return 10 * np.log10(float(np.square(want.astype(np.float64)).sum()) / max(noise, 1e-300))


@pytest.mark.parametrize("name", CASES)
def test_layers_of_other_precisions_are_close_to_the_float_model(name):
    graph, weights, precision, ops, least = CASES[name]
    case = Case(graph, **weights)
    program = program_of(case, precision)
    assert [layer.op for layer in program.layers if layer.op not in ("reshape", "transpose")] == ops
    planned = plan(program, TARGET)
    verify_plan(planned, TARGET)
    made = {engine: DeviceSession(planned, engine=engine).run(case.feeds) for engine in ("reference", "native")}
    for out in case.outputs:
        np.testing.assert_array_equal(made["reference"][out], made["native"][out])
        assert decibels(made["native"][out], case.floats[out]) > least


def test_two_readers_of_int8_share_one_conversion():
    case = Case(
        "(float[1,5,8] x) => (float[1,5,8] y, float[1,5,4] z) { a = Tanh(x) y = MatMul(a, v) z = MatMul(a, w) }",
        v=(8, 8), w=(8, 4),
    )  # fmt: skip
    program = program_of(case, {"x": "fx32", "a": "fx32"})
    assert [layer.op for layer in program.layers] == ["fx_lut", "fx_quantize", "conv", "conv"]


def test_a_branch_that_is_read_in_fx32_too_is_moved_in_fx32():
    case = Case(
        "(float[1,4,6] x) => (float[1,6,4] y) { a = Tanh(x) b = Transpose<perm=[0,2,1]>(a) c = MatMul(b, w) y = Add(b, c) }",
        w=(4, 4),
    )  # fmt: skip
    program = program_of(case, {"x": "fx32", "a": "fx32", "y": "fx32"})
    ops = [layer.op for layer in program.layers if layer.op not in ("reshape", "transpose")]
    assert ops == ["fx_lut", "fx_quantize", "conv", "fx_dequantize", "fx_add"]
    assert program.tensors[program.layers[-1].inputs[0]].format.kind == "fx32"
