# ruff: noqa: E501 (a graph is one line)
"""What looks like a part of a transformer and is none, or is read by somebody else, stays as it is."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from axtool.graph.passes.batch_first import batch_first
from axtool.graph.passes.ffn_gemm import ffn_gemm
from axtool.graph.passes.fuse_attention import fuse_attention
from axtool.graph.passes.fuse_layer_norm import fuse_layer_norm
from axtool.graph.passes.fuse_projections import fuse_projections
from axtool.graph.passes.merge_views import merge_views
from axtool.graph.passes.select_early import select_early
from axtool.graph.passes.split_projections import split_projections
from axtool.graph.passes.unfuse_gemm import unfuse_gemm
from axtool.graph.passes.work import Work
from axtool.types import QFormat
from tests.graph.pass_models import apply, build, noise, ops

TOKENS = "float[1, 5, 8] x"
INT8 = QFormat("int8", (0.1,), (0,))


def shape(*numbers: int) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.int64)


CONSTANTS: dict[str, Any] = {
    "w": noise(8, 8, seed=1), "u": noise(8, 8, seed=2), "wide": noise(8, 24, seed=3), "b": noise(8, seed=4),
    "up": noise(8, 16, seed=5), "down": noise(16, 8, seed=6), "three": shape(8, 8, 8), "two": shape(8, 16),
    "rows": shape(5, 8), "tokens": shape(1, 5, 8), "last": np.array(-1), "first": np.array(0), "half": np.float32(0.5),
    "places": noise(1, 5, 8, seed=7), "stream": noise(5, 1, 8, seed=8), "gamma": noise(8, seed=9),
}  # fmt: skip


def model_of(body: str, inputs: str = TOKENS, outputs: str = "float y", opset: int = 17) -> ir.Model:
    """The body with the constants that it names; attention nodes get their body."""
    words = set(body.replace("(", " ").replace(")", " ").replace(",", " ").split())
    used = {name: value for name, value in CONSTANTS.items() if name in words}
    return build(body, inputs, outputs, opset, **used)


def attention(q: str, k: str, v: str, out: str = "y") -> str:
    """One head of attention in small ops, which the first pass makes one node."""
    return f"{out}t = Transpose<perm = [0, 2, 1]>({k}) {out}s = MatMul({q}, {out}t) {out}p = Softmax<axis = -1>({out}s) {out} = MatMul({out}p, {v})"


def attended(body: str, inputs: str = TOKENS, outputs: str = "float y") -> ir.Model:
    model = model_of(body, inputs, outputs)
    assert apply(fuse_attention, model) == 1
    return model


STAYS: dict[str, tuple[Callable[[Work], int], Callable[[], ir.Model]]] = {
    "a Gemm behind a Reshape that no attention feeds": (
        unfuse_gemm, lambda: model_of("r = Reshape(x, rows) g = Gemm(r, w, b) y = Reshape(g, tokens)"),
    ),
    "a packed product that is read as a whole too": (
        split_projections,
        lambda: attended(f"m = MatMul(x, wide) q, k, v = Split<axis = 2>(m, three) {attention('q', 'k', 'v')} z = Relu(m)",
                         outputs="float y, float z"),
    ),
    "a packed product whose parts no attention reads": (
        split_projections,
        lambda: model_of("m = MatMul(x, wide) q, k = Split<axis = 2>(m, two) a = Relu(q) z = Relu(k) y = Concat<axis = 2>(a, z)"),
    ),
    "heads whose layers are all read": (
        select_early,
        lambda: model_of("c = Concat<axis = 0>(x, z) h = MatMul(c, w) y = Gather<axis = 0>(h, last) o = Relu(h)",
                         f"{TOKENS}, float[1, 5, 8] z", "float y, float o"),
    ),
    "layers that are mixed before one is picked": (
        select_early,
        lambda: model_of("c = Concat<axis = 0>(x, z) h = Softmax<axis = 0>(c) y = Gather<axis = 0>(h, last)",
                         f"{TOKENS}, float[1, 5, 8] z"),
    ),
    "a pick along another axis than the stack's": (
        select_early,
        lambda: model_of("c = Concat<axis = 0>(x, z) h = Relu(c) y = Gather<axis = 1>(h, last)",
                         f"{TOKENS}, float[1, 5, 8] z"),
    ),
    "sums of [L, 1, C] without a product": (batch_first, lambda: model_of("y = Add(x, stream)", "float[5, 1, 8] x")),
    "a batch of sequences": (batch_first, lambda: model_of("a = MatMul(x, w) y = Relu(a)", "float[5, 2, 8] x")),
    "tokens that are rows already": (batch_first, lambda: model_of("a = MatMul(x, w) y = Relu(a)")),
    "two moves that change the order": (
        merge_views, lambda: model_of("a = Transpose<perm = [0, 2, 1]>(x) y = Reshape(a, tokens)"),
    ),
    "one move": (merge_views, lambda: model_of("y = Reshape(x, rows)")),
    "two linears without a sum": (ffn_gemm, lambda: model_of("a = MatMul(x, up) r = Relu(a) y = MatMul(r, down)")),
    "two linears and the sum with something else": (
        ffn_gemm, lambda: model_of("a = MatMul(x, up) r = Relu(a) c = MatMul(r, down) y = Add(c, z)", f"{TOKENS}, float[1, 5, 8] z"),
    ),
    "two linears whose middle is read elsewhere": (
        ffn_gemm,
        lambda: model_of("a = MatMul(x, up) r = Relu(a) c = MatMul(r, down) y = Add(c, x) z = Neg(r)", outputs="float y, float z"),
    ),
    "two linears without an activation": (ffn_gemm, lambda: model_of("a = MatMul(x, up) c = MatMul(a, down) y = Add(c, x)")),
    "projections of other tokens": (
        fuse_projections,
        lambda: attended(f"q = MatMul(x, w) k = MatMul(z, u) {attention('q', 'k', 'o')}",
                         f"{TOKENS}, float[1, 5, 8] z, float[1, 5, 8] o"),
    ),
    "a projection that is read elsewhere": (
        fuse_projections,
        lambda: attended(f"q = MatMul(x, w) k = MatMul(x, u) {attention('q', 'k', 'x')} z = Relu(q)", outputs="float y, float z"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STAYS)
def test_look_alikes_stay(name: str) -> None:
    step, make = STAYS[name]
    model = make()
    before = ops(model)
    assert apply(step, model) == 0
    assert ops(model) == before


NORM = (
    "m = ReduceMean<axes = [-1]>(x) c = Sub(x, m) q = Mul(c, c) v = ReduceMean<axes = [-1]>(q) e = Add(v, half) "
    "s = Sqrt(e) y = Div(c, s)"
)


@pytest.mark.parametrize(
    ("step", "body", "rounded"),
    [
        (fuse_attention, attention("x", "x", "x"), "ys"),
        (fuse_attention, attention("x", "x", "x"), "yp"),
        (fuse_attention, attention("x", "x", "x"), "yt"),
        (fuse_layer_norm, NORM, "c"),
        (fuse_layer_norm, NORM, "s"),
    ],
)
def test_what_a_quantized_file_rounds_inside_stays(step: Callable[[Work], int], body: str, rounded: str) -> None:
    work = Work(model_of(body))
    value = next(out for node in work.graph for out in node.outputs if out.name == rounded)
    work.given[value] = INT8
    assert step(work) == 0


def test_a_stream_that_is_an_output_keeps_its_shape() -> None:
    model = model_of(
        "a = MatMul(x, w) y = Relu(a) z = Transpose<perm = [2, 0, 1]>(a)", "float[5, 1, 8] x", "float y, float z"
    )
    assert apply(batch_first, model) == 1
    assert [value.shape.numpy() for value in model.graph.outputs if value.shape is not None] == [(5, 1, 8), (8, 5, 1)]
