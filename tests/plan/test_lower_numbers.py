# ruff: noqa: E501 (a graph is one line)
"""Each op lowered and run by the reference arithmetic, against onnxruntime on the float model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from axtool.plan.lower import lower
from tests.plan.lower_case import Case, target

WORST_STEPS = 3.5  # of the output: its own rounding, that of the inputs and of the weights
LEAST_SQNR_DB = 28.0

CASES = {
    "conv": ("(float[1,5,9,8] x) => (float[1,6,o,p] y) { y = Conv<strides=[2,1], dilations=[1,2], pads=[1,0,2,1]>(x, w, b) }", {"w": (6, 5, 3, 3), "b": (6,)}),
    "grouped conv": ("(float[1,6,9,8] x) => (float[1,4,o,p] y) { y = Conv<group=2>(x, w) }", {"w": (4, 3, 3, 3)}),
    "depthwise conv": ("(float[1,6,9,8] x) => (float[1,12,o,p] y) { y = Conv<group=6, pads=[1,1,1,1]>(x, w, b) }", {"w": (12, 1, 3, 3), "b": (12,)}),
    "1-D conv": ("(float[1,6,20] x) => (float[1,4,o] y) { y = Conv<strides=[2], pads=[1,2]>(x, w, b) }", {"w": (4, 6, 5), "b": (4,)}),
    "transposed conv": ("(float[1,6,5,4] x) => (float[1,4,o,p] y) { y = ConvTranspose<strides=[2,3], pads=[1,0,1,1], output_padding=[1,0]>(x, w, b) }", {"w": (6, 4, 3, 4), "b": (4,)}),
    "grouped transposed conv": ("(float[1,6,5,4] x) => (float[1,4,o,p] y) { y = ConvTranspose<strides=[2,2], group=2>(x, w) }", {"w": (6, 2, 2, 2)}),
    "1-D transposed conv": ("(float[1,6,5] x) => (float[1,4,o] y) { y = ConvTranspose<strides=[2]>(x, w) }", {"w": (6, 4, 3)}),
    "gemm": ("(float[1,20] x) => (float[1,7] y) { y = Gemm<alpha=0.5, beta=2.0>(x, w, b) }", {"w": (20, 7), "b": (1, 7)}),
    "gemm with transposed weights and one bias": ("(float[1,20] x) => (float[1,7] y) { y = Gemm<transB=1>(x, w, b) }", {"w": (7, 20), "b": (1,)}),
    "matmul of rank 2": ("(float[1,20] x) => (float[1,7] y) { y = MatMul(x, w) }", {"w": (20, 7)}),
    "matmul of rank 3": ("(float[1,5,20] x) => (float[1,5,7] y) { y = MatMul(x, w) }", {"w": (20, 7)}),
    "matmul of rank 4": ("(float[1,3,5,20] x) => (float[1,3,5,7] y) { y = MatMul(x, w) }", {"w": (1, 1, 20, 7)}),
    "matmul of rank 1": ("(float[20] x) => (float[7] y) { y = MatMul(x, w) }", {"w": (20, 7)}),
    "add of two": ("(float[1,4,5,6] x, float[1,4,5,6] z) => (float[1,4,5,6] y) { y = Add(x, z) }", {}),
    "sum of two": ("(float[1,4,5,6] x, float[1,4,5,6] z) => (float[1,4,5,6] y) { y = Sum(x, z) }", {}),
    "sub that broadcasts both": ("(float[1,4,5,1] x, float[1,1,5,6] z) => (float[1,4,5,6] y) { y = Sub(x, z) }", {}),
    "mul by a gate for each channel": ("(float[1,4,5,6] x, float[1,4,1,1] z) => (float[1,4,5,6] y) { y = Mul(x, z) }", {}),
    "add of a lower rank": ("(float[1,4,5,6] x, float[1,6] z) => (float[1,4,5,6] y) { y = Add(x, z) }", {}),
    "add of rank 3 to rank 4": ("(float[1,4,5,6] x, float[1,5,6] z) => (float[1,4,5,6] y) { y = Add(x, z) }", {}),
    "add of a scalar": ("(float[1,4,5,6] x) => (float[1,4,5,6] y) { y = Add(x, w) }", {"w": 0.75}),
    "sub from a constant for each channel": ("(float[1,4,5,6] x) => (float[1,4,5,6] y) { y = Sub(w, x) }", {"w": (4, 1, 1)}),
    "sub of a constant": ("(float[1,4,5,6] x) => (float[1,4,5,6] y) { y = Sub(x, w) }", {"w": (1, 4, 1, 1)}),
    "mul by a constant for each channel": ("(float[1,4,5,6] x) => (float[1,4,5,6] y) { y = Mul(x, w) }", {"w": (4, 1, 1)}),
    "mul by a channel of zeros": ("(float[1,3,5,6] x) => (float[1,3,5,6] y) { y = Mul(w, x) }", {"w": [[[0.0]], [[1.5]], [[-0.2]]]}),
    "div by a constant for each channel": ("(float[1,3,5,6] x) => (float[1,3,5,6] y) { y = Div(x, w) }", {"w": [[[0.5]], [[1.5]], [[-2.0]]]}),
    "div by a constant for each column": ("(float[1,3,2,3] x) => (float[1,3,2,3] y) { y = Div(x, w) }", {"w": [0.5, 1.5, -2.0]}),
    "add of a constant image": ("(float[1,4,5,6] x) => (float[1,4,5,6] y) { y = Add(x, w) }", {"w": (1, 4, 5, 6)}),
    "sub from a constant image": ("(float[1,4,5,6] x) => (float[1,4,5,6] y) { y = Sub(w, x) }", {"w": (4, 5, 6)}),
    "mul by a constant that makes more": ("(float[1,4,1,1] x) => (float[1,4,5,6] y) { y = Mul(x, w) }", {"w": (1, 4, 5, 6)}),
    "a square": ("(float[1,4,5,6] x) => (float[1,4,5,6] y) { y = Mul(x, x) }", {}),
    "batch normalization": ("(float[1,4,5,6] x) => (float[1,4,5,6] y) { y = BatchNormalization(x, s, b, m, v) }", {"s": (4,), "b": (4,), "m": (4,), "v": [0.5, 1.0, 2.0, 3.0]}),
    "concat of channels": ("(float[1,4,5,6] x, float[1,3,5,6] z) => (float[1,7,5,6] y) { y = Concat<axis=1>(x, z) }", {}),
    "concat of rows": ("(float[1,4,5,6] x, float[1,4,2,6] z) => (float[1,4,7,6] y) { y = Concat<axis=2>(x, z) }", {}),
    "concat of columns, twice the same": ("(float[1,4,5,6] x) => (float[1,4,5,12] y) { y = Concat<axis=-1>(x, x) }", {}),
    "concat with an empty one": ("(float[1,4,5,6] x, float[1,0,5,6] z) => (float[1,4,5,6] y) { y = Concat<axis=1>(x, z) }", {}),
    "concat of rank 3": ("(float[1,4,5] x, float[1,4,3] z) => (float[1,4,8] y) { y = Concat<axis=2>(x, z) }", {}),
    "split": ("(float[1,6,5,6] x) => (float[1,4,5,6] y, float[1,2,5,6] z) <int64[2] s = {4, 2}> { y, z = Split<axis=1>(x, s) }", {}),
    "slice with steps": ("(float[1,6,9,8] x) => (float[1,2,5,8] y) <int64[3] s = {1,0,-1}, int64[3] e = {5,9,-100}, int64[3] a = {1,2,3}, int64[3] t = {2,2,-1}> { y = Slice(x, s, e, a, t) }", {}),
    "pad with a constant": ("(float[1,2,3,4] x) => (float[1,4,4,7] y) <int64[8] p = {0,1,0,2,0,1,1,1}, float v = {0.5}> { y = Pad(x, p, v) }", {}),
    "pad by reflection": ('(float[1,2,3,4] x) => (float[1,2,5,7] y) <int64[8] p = {0,0,1,2,0,0,1,1}> { y = Pad<mode="reflect">(x, p) }', {}),
    "pad with the edge": ('(float[1,2,3,4] x) => (float[1,2,5,7] y) <int64[8] p = {0,0,1,2,0,0,1,1}> { y = Pad<mode="edge">(x, p) }', {}),
    "pad that crops": ("(float[1,2,5,6] x) => (float[1,2,3,8] y) <int64[8] p = {0,0,-1,1,0,0,-1,1}> { y = Pad(x, p) }", {}),
    "max pool": ("(float[1,4,9,8] x) => (float[1,4,o,p] y) { y = MaxPool<kernel_shape=[3,2], strides=[2,2], pads=[1,0,1,0], ceil_mode=1>(x) }", {}),
    "max pool, dilated": ("(float[1,4,9,8] x) => (float[1,4,o,p] y) { y = MaxPool<kernel_shape=[3,2], dilations=[2,2]>(x) }", {}),
    "1-D max pool": ("(float[1,4,9] x) => (float[1,4,o] y) { y = MaxPool<kernel_shape=[3], strides=[2]>(x) }", {}),
    "average pool": ("(float[1,4,9,8] x) => (float[1,4,o,p] y) { y = AveragePool<kernel_shape=[3,2], strides=[2,2], pads=[1,0,1,1]>(x) }", {}),
    "average pool that counts pads": ("(float[1,4,9,8] x) => (float[1,4,o,p] y) { y = AveragePool<kernel_shape=[3,3], strides=[2,2], pads=[1,0,1,1], count_include_pad=1>(x) }", {}),
    "average pool, ceil": ("(float[1,4,9,8] x) => (float[1,4,o,p] y) { y = AveragePool<kernel_shape=[3,3], strides=[2,2], pads=[1,0,1,1], ceil_mode=1, count_include_pad=1>(x) }", {}),
    "average pool, ceil, without pads": ("(float[1,4,10,8] x) => (float[1,4,o,p] y) { y = AveragePool<kernel_shape=[3,3], strides=[2,2], ceil_mode=1>(x) }", {}),
    "global average pool": ("(float[1,4,5,6] x) => (float[1,4,1,1] y) { y = GlobalAveragePool(x) }", {}),
    "global max pool": ("(float[1,4,5,6] x) => (float[1,4,1,1] y) { y = GlobalMaxPool(x) }", {}),
    "mean over space": ("(float[1,4,5,6] x) => (float[1,4] y) <int64[2] a = {2, 3}> { y = ReduceMean<keepdims=0>(x, a) }", {}),
    "mean over space, channels last": ("(float[1,5,6,4] x) => (float[1,1,1,4] y) <int64[2] a = {1, 2}> { y = ReduceMean(x, a) }", {}),
    "mean over tokens": ("(float[1,5,4] x) => (float[1,4] y) <int64[1] a = {1}> { y = ReduceMean<keepdims=0>(x, a) }", {}),
    "nearest": ('(float[1,4,5,6] x) => (float[1,4,10,18] y) <float[4] s = {1.0,1.0,2.0,3.0}> { y = Resize<mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor">(x, , s) }', {}),
    "linear": ('(float[1,4,5,6] x) => (float[1,4,10,18] y) <float[4] s = {1.0,1.0,2.0,3.0}> { y = Resize<mode="linear">(x, , s) }', {}),
    "linear, pytorch, to more than one": ('(float[1,4,1,6] x) => (float[1,4,2,12] y) <float[4] s = {1.0,1.0,2.0,2.0}> { y = Resize<mode="linear", coordinate_transformation_mode="pytorch_half_pixel">(x, , s) }', {}),
    "linear, asymmetric": ('(float[1,4,5,6] x) => (float[1,4,20,12] y) <float[4] s = {1.0,1.0,4.0,2.0}> { y = Resize<mode="linear", coordinate_transformation_mode="asymmetric">(x, , s) }', {}),
    "flatten": ("(float[1,4,5,6] x) => (float[1,120] y) { y = Flatten(x) }", {}),
    "reshape that splits channels": ("(float[1,12,5,6] x) => (float[1,4,3,30] y) <int64[4] s = {1,4,3,30}> { y = Reshape(x, s) }", {}),
    "reshape that merges space": ("(float[1,12,5,6] x) => (float[1,12,30] y) <int64[3] s = {1,12,-1}> { y = Reshape(x, s) }", {}),
    "squeeze and unsqueeze": ("(float[1,4,1,6] x) => (float[1,4,6,1] y) <int64[1] a = {2}, int64[1] c = {3}> { t = Squeeze(x, a) y = Unsqueeze(t, c) }", {}),
    "transpose": ("(float[1,4,5,6] x) => (float[1,6,4,5] y) { y = Transpose<perm=[0,3,1,2]>(x) }", {}),
    "transpose of tokens": ("(float[1,4,5] x) => (float[1,5,4] y) { y = Transpose<perm=[0,2,1]>(x) }", {}),
    "depth to space": ("(float[1,8,3,4] x) => (float[1,2,6,8] y) { y = DepthToSpace<blocksize=2>(x) }", {}),
    "depth to space, CRD": ('(float[1,8,3,4] x) => (float[1,2,6,8] y) { y = DepthToSpace<blocksize=2, mode="CRD">(x) }', {}),
    "space to depth": ("(float[1,2,6,8] x) => (float[1,8,3,4] y) { y = SpaceToDepth<blocksize=2>(x) }", {}),
    "prelu for each channel": ("(float[1,4,5,6] x) => (float[1,4,5,6] y) { y = PRelu(x, w) }", {"w": (4, 1, 1)}),
    "prelu with one slope": ("(float[1,4,5,6] x) => (float[1,4,5,6] y) { y = PRelu(x, w) }", {"w": (1,)}),
    "prelu along the last axis": ("(float[1,5,6,4] x) => (float[1,5,6,4] y) { y = PRelu(x, w) }", {"w": (4,)}),
    "identity": ("(float[1,4,5,6] x) => (float[1,4,5,6] y) { y = Identity(x) }", {}),
    "max of one": ("(float[1,4,5,6] x) => (float[1,4,5,6] y) { y = Max(x) }", {}),
    "a relu of its own": ("(float[1,4,5,6] x) => (float[1,4,5,6] y) { y = Relu(x) }", {}),
    "an average with a relu": ("(float[1,4,5,6] x) => (float[1,4,4,5] y) { t = AveragePool<kernel_shape=[2,2]>(x) y = Relu(t) }", {}),
    "an addition with a relu": ("(float[1,4,5,6] x, float[1,4,5,6] z) => (float[1,4,5,6] y) { t = Add(x, z) y = Relu(t) }", {}),
    "a conv with a clip": ("(float[1,5,9,8] x) => (float[1,6,9,8] y) <float lo = {-0.5}, float hi = {1.5}> { t = Conv(x, w) y = Clip(t, lo, hi) }", {"w": (6, 5, 1, 1)}),
    "a conv with a hard swish": ("(float[1,5,9,8] x) => (float[1,6,9,8] y) { t = Conv(x, w) y = HardSwish(t) }", {"w": (6, 5, 1, 1)}),
    "a conv with a scaled and shifted hard swish": ("(float[1,5,9,8] x) => (float[1,6,9,8] y) { t = Conv(x, w) h = HardSwish(t) m = Mul(s, h) y = Add(m, a) }", {"w": (6, 5, 1, 1), "s": 1.7, "a": -0.4}),
    "a conv with a clip that is scaled": ("(float[1,5,9,8] x) => (float[1,6,9,8] y) <float lo = {0.0}, float hi = {3.0}> { t = Conv(x, w) c = Clip(t, lo, hi) y = Div(c, s) }", {"w": (6, 5, 1, 1), "s": 6.0}),
    "functions of each other": ("(float[1,4,5,6] x) => (float[1,4,5,6] y) { a = Mul(x, s) b = Tanh(a) c = Sub(t, b) y = Sigmoid(c) }", {"s": 0.7, "t": 0.4}),
    "a conv with a prelu for each channel": ("(float[1,5,9,8] x) => (float[1,6,9,8] y) { t = Conv(x, w) y = PRelu(t, s) }", {"w": (6, 5, 1, 1), "s": (6, 1, 1)}),
    "flatten before a gemm": ("(float[1,4,3,5] x) => (float[1,7] y) { t = Flatten(x) y = Gemm<transB=1>(t, w, b) }", {"w": (7, 60), "b": (7,)}),
    "reshape before a matmul": ("(float[1,4,15] x) => (float[1,7] y) <int64[2] s = {1,-1}> { u = Conv(x, v) t = Reshape(u, s) y = MatMul(t, w) }", {"v": (4, 4, 1), "w": (60, 7)}),
    "an image as tokens": ("(float[1,4,3,5] x) => (float[1,15,7] y) <int64[3] s = {1,6,-1}> { c = Conv(x, v) r = Reshape(c, s) t = Transpose<perm=[0,2,1]>(r) y = MatMul(t, w) }", {"v": (6, 4, 1, 1), "w": (6, 7)}),
    "channels-last around a conv": ("(float[1,5,6,4] x) => (float[1,5,6,7] y) { t = Transpose<perm=[0,3,1,2]>(x) c = Conv(t, w) y = Transpose<perm=[0,2,3,1]>(c) }", {"w": (7, 4, 1, 1)}),
    "two outputs of one value": ("(float[1,4,5,6] x) => (float[1,4,5,6] y, float[1,4,5,6] z) { y = Relu(x) z = Identity(y) }", {}),
    "an output of an input": ("(float[1,4,5,6] x) => (float[1,5,6,4] y, float[1,4,5,6] z) { y = Transpose<perm=[0,2,3,1]>(x) z = Relu(x) }", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_lowered_op_is_close_to_onnxruntime(name: str) -> None:
    graph, weights = CASES[name]
    case = Case(graph, **weights)
    for output, (steps, sqnr) in case.errors(case.lowered()).items():
        assert steps <= WORST_STEPS, f"{output}: {steps:.2f} steps, {sqnr:.1f} dB"
        assert sqnr >= LEAST_SQNR_DB, f"{output}: {steps:.2f} steps, {sqnr:.1f} dB"


@pytest.mark.parametrize("vector_unit", [True, False])
@pytest.mark.parametrize("op", ["Sigmoid", "Tanh", "LeakyRelu<alpha=0.2>", "HardSigmoid", "Elu", "Softplus", "Exp"])
def test_a_function_behind_a_conv_is_close_with_and_without_a_vector_unit(op: str, vector_unit: bool) -> None:
    case = Case(f"(float[1,5,9,8] x) => (float[1,6,9,8] y) {{ t = Conv(x, w, b) y = {op}(t) }}", w=(6, 5, 1, 1), b=(6,))
    ((steps, _),) = case.errors(case.lowered(vector_unit=vector_unit)).values()
    assert steps <= (WORST_STEPS if vector_unit else WORST_STEPS + 1.5)


@pytest.mark.parametrize("op", ["Sigmoid", "Elu", "HardSwish", "LeakyRelu<alpha=0.2>"])
def test_a_function_is_right_beyond_the_range_of_its_argument_where_its_output_can_show_it(op: str) -> None:
    case = Case(f"(float[1,5,9,8] x) => (float[1,6,9,8] y) {{ t = Conv(x, w, b) y = {op}(t) }}", w=(6, 5, 1, 1), b=(6,))
    numbers = case.quantization()
    low, high = numbers.ranges["t"]
    cut = replace(numbers, ranges={**numbers.ranges, "t": (low / 3, high / 3)})
    ((steps, _),) = case.errors(lower(case.sites, cut, target(), case.inputs, case.outputs)).values()
    assert steps <= WORST_STEPS


def test_a_table_reaches_no_further_than_its_output_can_show() -> None:
    case = Case(
        "(float[1,5,9,8] x) => (float[1,6,9,8] y) { t = Conv(x, w) y = LeakyRelu<alpha=0.2>(t) }", w=(6, 5, 1, 1)
    )
    numbers = case.quantization()
    program = case.lowered()
    shown = int(program.constants["y/table"][-1])
    seen = max(map(abs, numbers.ranges["t"]))
    fmt = numbers.formats["y"]
    assert shown == min(int(np.floor((seen / fmt.scale[0] + fmt.zero_point[0]) * 128 + 0.5)), 2**15 - 1)


def test_a_chain_with_a_residual_keeps_its_quality() -> None:
    graph = """(float[1,3,16,16] x) => (float[1,10] y) {
      a = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w0, b0) b = HardSwish(a)
      c = Conv<pads=[1,1,1,1], group=8>(b, w1) d = Relu(c) e = Conv(d, w2) f = Add(b, e)
      g = MaxPool<kernel_shape=[2,2], strides=[2,2]>(f) h = Flatten(g) y = Gemm<transB=1>(h, w3) }"""
    case = Case(graph, w0=(8, 3, 3, 3), b0=(8,), w1=(8, 1, 3, 3), w2=(8, 8, 1, 1), w3=(10, 128))
    ((_, sqnr),) = case.errors(case.lowered()).values()
    assert sqnr >= LEAST_SQNR_DB
