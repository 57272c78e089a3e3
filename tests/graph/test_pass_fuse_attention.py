"""Attention as frameworks write it becomes ax::Attention, whatever moves make the heads; look-alikes stay."""

import re
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from axtool.graph.passes.attention_mask import bounded
from axtool.graph.passes.fuse_attention import fuse_attention
from axtool.graph.passes.work import Work, constant
from axtool.graph.sites import sites_of
from axtool.ops.limits_attention import attention_mask_values
from axtool.target_file import load_target
from axtool.types import Site
from tests.graph.pass_models import apply, build, cleaned, noise, ops

F = np.float32
HEADS, TOKENS, WIDTH = 2, 5, 8  # two heads of four channels
TAKES = ["Attention"]


def shape(*numbers: int) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.int64)


CONSTANTS: dict[str, Any] = {
    "half": F(0.5), "root": F(0.5**0.5), "two": F(2), "zero": shape(0),
    "heads4": shape(1, TOKENS, 2, 4), "tokens": shape(1, TOKENS, WIDTH), "stream": shape(TOKENS, 2, 4),
    "flat": shape(TOKENS, WIDTH), "packed": shape(1, TOKENS, 3, 2, 4), "merged": shape(2, TOKENS, 4),
    "scores4": shape(1, 2, TOKENS, TOKENS), "scores3": shape(2, TOKENS, TOKENS), "memory": shape(1, 7, 2, 4),
    "wq": noise(8, 8, seed=1), "wk": noise(8, 8, seed=2), "wv": noise(8, 8, seed=3), "wqkv": noise(8, 24, seed=4),
    "bq": noise(8, seed=5), "at0": np.array(0), "at1": np.array(1), "at2": np.array(2), "ones": shape(1, 1, 1),
    "queries": noise(2, TOKENS, 4, seed=6), "causal": np.triu(np.full((TOKENS, TOKENS), -1e4, F), 1),
    "biases": noise(1, 2, TOKENS, TOKENS, seed=7), "wide": shape(1, 2, 12, 16), "parts": shape(4, 4, 4),
    "image": shape(1, 8, 4, 4), "kernel": noise(24, 8, 1, 1, seed=8, scale=0.3), "offset": noise(24, seed=9),
    "depthwise": noise(8, 1, 3, 3, seed=10), "windows": shape(2, 3, 2, 4), "window_rows": shape(1, 6, WIDTH),
    "one_head": shape(1, TOKENS, 1, 4), "wk1": noise(8, 4, seed=11), "seven": shape(1, 7, WIDTH),
}  # fmt: skip

PROJECTED = "a = MatMul(x, wq) b = MatMul(x, wk) c = MatMul(x, wv)"
SPLIT = (
    f"{PROJECTED} ra = Reshape(a, heads4) rb = Reshape(b, heads4) rc = Reshape(c, heads4) "
    "q = Transpose<perm = [0, 2, 1, 3]>(ra) k = Transpose<perm = [0, 2, 3, 1]>(rb) "
    "v = Transpose<perm = [0, 2, 1, 3]>(rc)"
)
SOFTMAX = "p = Softmax<axis = -1>"
JOIN = "t = Transpose<perm = [0, 2, 1, 3]>(o) y = Reshape(t, tokens)"
PLAIN = f"s = MatMul(q, k) {SOFTMAX}(s) o = MatMul(p, v)"
PACKED = "w = MatMul(x, wqkv) r = Reshape(w, packed) h = Transpose<perm = [2, 0, 3, 1, 4]>(r)"
X = "float[1, 5, 8] x"

FUSED: dict[str, tuple[str, float]] = {  # body, scale
    "heads of four axes": (f"{SPLIT} {PLAIN} {JOIN}", 1.0),
    "scores scaled": (
        f"{SPLIT} s = MatMul(q, k) d = Mul(s, half) {SOFTMAX}(d) o = MatMul(p, v) {JOIN}", 0.5,
    ),
    "scores divided": (
        f"{SPLIT} s = MatMul(q, k) d = Div(s, two) p = Softmax<axis = 3>(d) o = MatMul(p, v) {JOIN}", 0.5,
    ),
    "queries scaled": (f"{SPLIT} e = Mul(q, half) s = MatMul(e, k) {SOFTMAX}(s) o = MatMul(p, v) {JOIN}", 0.5),
    "queries and keys scaled by the root": (
        f"{SPLIT} e = Mul(q, root) f = Mul(root, k) s = MatMul(e, f) {SOFTMAX}(s) o = MatMul(p, v) {JOIN}",
        0.5,
    ),
    "keys moved twice": (
        f"{PROJECTED} ra = Reshape(a, heads4) rb = Reshape(b, heads4) rc = Reshape(c, heads4) "
        "q = Transpose<perm = [0, 2, 1, 3]>(ra) kh = Transpose<perm = [0, 2, 1, 3]>(rb) "
        f"k = Transpose<perm = [0, 1, 3, 2]>(kh) v = Transpose<perm = [0, 2, 1, 3]>(rc) {PLAIN} {JOIN}",
        1.0,
    ),
    "packed, split and squeezed": (
        f"{PACKED} qq, kk, vv = Split<axis = 0>(h, ones) q = Squeeze(qq, zero) kh = Squeeze(kk, zero) "
        f"v = Squeeze(vv, zero) k = Transpose<perm = [0, 1, 3, 2]>(kh) {PLAIN} {JOIN}",
        1.0,
    ),
    "packed, gathered": (
        f"{PACKED} q = Gather<axis = 0>(h, at0) kh = Gather<axis = 0>(h, at1) v = Gather<axis = 0>(h, at2) "
        f"k = Transpose<perm = [0, 1, 3, 2]>(kh) {PLAIN} {JOIN}",
        1.0,
    ),
    "heads of three axes": (
        f"{PROJECTED} ra = Reshape(a, stream) rb = Reshape(b, stream) rc = Reshape(c, stream) "
        "q = Transpose<perm = [1, 0, 2]>(ra) k = Transpose<perm = [1, 2, 0]>(rb) v = Transpose<perm = [1, 0, 2]>(rc) "
        f"{PLAIN} t = Transpose<perm = [1, 0, 2]>(o) y = Reshape(t, flat)",
        1.0,
    ),
    "scores in three axes and four": (
        f"{SPLIT} qm = Reshape(q, merged) s = MatMul(q, k) s3 = Reshape(s, scores3) s4 = Reshape(s3, scores4) "
        f"{SOFTMAX}(s4) o = MatMul(p, v) {JOIN}",
        1.0,
    ),
    "constant queries": (
        f"{PROJECTED} rb = Reshape(b, stream) rc = Reshape(c, stream) k = Transpose<perm = [1, 2, 0]>(rb) "
        f"v = Transpose<perm = [1, 0, 2]>(rc) s = MatMul(queries, k) {SOFTMAX}(s) o = MatMul(p, v) "
        "t = Transpose<perm = [1, 0, 2]>(o) y = Reshape(t, tokens)",
        1.0,
    ),
    "one head": ("a = MatMul(x, wq) b = MatMul(x, wk) k = Transpose<perm = [0, 2, 1]>(b) s = MatMul(a, k) "
                 f"{SOFTMAX}(s) y = MatMul(p, b)", 1.0),
}  # fmt: skip

KEPT: dict[str, str] = {
    "softmax over the queries": f"{SPLIT} s = MatMul(q, k) p = Softmax<axis = 2>(s) o = MatMul(p, v) {JOIN}",
    "scores read elsewhere": f"{SPLIT} {PLAIN} t = Transpose<perm = [0, 2, 1, 3]>(o) r = Reshape(t, tokens) "
    "n = ReduceMax<keepdims = 1, axes = [0, 1, 2, 3]>(s) y = Add(r, n)",
    "probabilities read elsewhere": f"{SPLIT} {PLAIN} t = Transpose<perm = [0, 2, 1, 3]>(o) r = Reshape(t, tokens) "
    "n = ReduceMax<keepdims = 1, axes = [0, 1, 2, 3]>(p) y = Add(r, n)",
    "probabilities weighed": f"{SPLIT} s = MatMul(q, k) {SOFTMAX}(s) u = Mul(p, biases) o = MatMul(u, v) {JOIN}",
    "a bias of each head": f"{SPLIT} s = MatMul(q, k) d = Add(s, biases) {SOFTMAX}(d) o = MatMul(p, v) {JOIN}",
    "a mask that is scaled too": f"{SPLIT} s = MatMul(q, k) d = Add(s, causal) e = Mul(d, half) {SOFTMAX}(e) "
    f"o = MatMul(p, v) {JOIN}",
    "heads that are not joined": f"{SPLIT} {PLAIN} y = Relu(o)",
    "heads joined across tokens": f"{SPLIT} {PLAIN} y = Reshape(o, tokens)",
    "windows of tokens": "a = MatMul(x, wq) r = Reshape(a, windows) q = Transpose<perm = [0, 2, 1, 3]>(r) "
    f"k = Transpose<perm = [0, 2, 3, 1]>(r) s = MatMul(q, k) {SOFTMAX}(s) o = MatMul(p, q) "
    "t = Transpose<perm = [0, 2, 1, 3]>(o) y = Reshape(t, window_rows)",
    "keys shared by the heads": "a = MatMul(x, wq) b = MatMul(x, wk1) ra = Reshape(a, heads4) "
    "rb = Reshape(b, one_head) q = Transpose<perm = [0, 2, 1, 3]>(ra) k = Transpose<perm = [0, 2, 3, 1]>(rb) "
    "v = Transpose<perm = [0, 2, 1, 3]>(rb) "
    f"{PLAIN} {JOIN}",
    "no softmax": f"{SPLIT} s = MatMul(q, k) p = Sigmoid(s) o = MatMul(p, v) {JOIN}",
}  # fmt: skip


def model_of(body: str, inputs: str = X, outputs: str = "float y", **options: Any) -> ir.Model:
    """The body with the constants that it names."""
    used = {name: value for name, value in CONSTANTS.items() if re.search(rf"\b{name}\b", body)}
    return build(body, inputs, outputs, **options, **used)


@pytest.mark.parametrize("form", FUSED)
def test_one_op_takes_the_place_of_the_block(form: str) -> None:
    body, scale = FUSED[form]
    result = cleaned(model_of(body), takes=TAKES)
    assert set(ops(result.model)) <= {"MatMul", "Slice", "Reshape", "Attention"}
    (site,) = [site for site in sites_of(result.model) if site.op == "Attention"]
    heads = 1 if form == "one head" else HEADS
    assert site.attrs == {"heads": heads, "scale": pytest.approx(scale)}
    assert site.shapes[site.outputs[0]] == (1, TOKENS, WIDTH)
    assert site.shapes[site.outputs[1]] == (1, heads, TOKENS, TOKENS)
    assert result.model.graph.outputs[0].name == "y"


@pytest.mark.parametrize("form", KEPT)
def test_look_alikes_stay(form: str) -> None:
    inputs = "float[1, 6, 8] x" if form == "windows of tokens" else X
    assert apply(fuse_attention, model_of(KEPT[form], inputs)) == 0


def test_a_batch_of_two_stays() -> None:
    body = f"{SPLIT} {PLAIN} {JOIN}".replace("heads4", "pair4").replace("tokens", "pair")
    constants = {name: value for name, value in CONSTANTS.items() if name in ("wq", "wk", "wv")}
    pairs: dict[str, Any] = {"pair4": shape(2, TOKENS, 2, 4), "pair": shape(2, TOKENS, WIDTH)}
    assert apply(fuse_attention, build(body, "float[2, 5, 8] x", **constants, **pairs)) == 0


@pytest.mark.parametrize("opset", [11, 13, 17])
def test_a_mask_of_the_keys_becomes_an_input(opset: int) -> None:
    body = f"{SPLIT} s = MatMul(q, k) e = Div(s, two) d = Add(e, mask) p = Softmax<axis = 3>(d) o = MatMul(p, v) {JOIN}"
    result = cleaned(model_of(body, f"{X}, float[1, 1, 1, 5] mask", opset=opset), takes=TAKES)
    (site,) = [site for site in sites_of(result.model) if site.op == "Attention"]
    assert site.inputs[3] == "mask"


def test_a_causal_mask_becomes_a_constant_input() -> None:
    body = f"{SPLIT} s = MatMul(q, k) d = Add(causal, s) {SOFTMAX}(d) o = MatMul(p, v) {JOIN}"
    (site,) = [s for s in sites_of(cleaned(model_of(body), takes=TAKES).model) if s.op == "Attention"]
    np.testing.assert_array_equal(site.constants[site.inputs[3]], CONSTANTS["causal"])


def test_queries_and_keys_may_differ_in_number() -> None:
    body = (
        "a = MatMul(x, wq) b = MatMul(z, wk) c = MatMul(z, wv) ra = Reshape(a, heads4) rb = Reshape(b, memory) "
        "rc = Reshape(c, memory) q = Transpose<perm = [0, 2, 1, 3]>(ra) k = Transpose<perm = [0, 2, 3, 1]>(rb) "
        f"v = Transpose<perm = [0, 2, 1, 3]>(rc) {PLAIN} {JOIN}"
    )
    result = cleaned(model_of(body, f"{X}, float[1, 7, 8] z"), takes=TAKES)
    (site,) = [site for site in sites_of(result.model) if site.op == "Attention"]
    assert [site.shapes[name][1] for name in site.inputs] == [TOKENS, 7, 7]


IMAGE = "float[1, 8, 4, 4] x"
INTERLEAVED = (
    "w = Conv(x, kernel, offset) r = Reshape(w, wide) q, k, v = Split<axis = 2>(r, parts) e = Mul(q, half) "
    f"t = Transpose<perm = [0, 1, 3, 2]>(e) s = MatMul(t, k) {SOFTMAX}(s) "
    "u = Transpose<perm = [0, 1, 3, 2]>(p) o = MatMul(v, u) m = Reshape(o, image)"
)


def test_interleaved_heads_of_an_image_are_put_side_by_side() -> None:
    result = cleaned(model_of(f"{INTERLEAVED} y = Relu(m)", IMAGE), takes=TAKES)
    assert "Split" not in ops(result.model)
    assert ops(result.model).count("Slice") == 3
    assert "Attention" in ops(result.model)


def test_a_convolution_of_the_values_reads_them_in_their_new_place() -> None:
    body = f"{INTERLEAVED} n = Reshape(v, image) g = Conv<group = 8, pads = [1, 1, 1, 1]>(n, depthwise) y = Add(m, g)"
    result = cleaned(model_of(body, IMAGE), takes=TAKES)
    assert ops(result.model).count("Attention") == 1
    assert "Split" not in ops(result.model)


@pytest.mark.parametrize("read", ["w", "r"])
def test_interleaved_heads_that_are_read_elsewhere_stay(read: str) -> None:
    body = f"{INTERLEAVED} y = Relu(m) z = Relu({read})"
    assert apply(fuse_attention, model_of(body, IMAGE, "float y, float z")) == 0


def test_a_device_without_the_op_keeps_the_small_ones() -> None:
    assert "Softmax" in ops(cleaned(model_of(f"{SPLIT} {PLAIN} {JOIN}")).model)


def test_the_pass_can_be_switched_off() -> None:
    kept = cleaned(model_of(f"{SPLIT} {PLAIN} {JOIN}"), takes=TAKES, disable=["fuse-attention"]).model
    assert "Softmax" in ops(kept)


def test_scores_have_the_name_of_their_context() -> None:
    (site,) = [
        s for s in sites_of(cleaned(model_of(f"{SPLIT} {PLAIN} {JOIN}"), takes=TAKES).model) if s.op == "Attention"
    ]
    assert site.outputs == ("y", "y/scores")


def masked(values: np.ndarray) -> ir.Value:
    """A constant mask as attention reads it."""
    work = Work(ir.Model(ir.Graph([], [], nodes=[], name="g", opset_imports={"": 17}), ir_version=8))
    return bounded(work, work.add_constant(values.astype(np.float32), "mask"), "bounded")


@pytest.mark.parametrize("low", [-np.inf, -3.4e38, -1e9])
def test_a_mask_that_hides_by_infinity_hides_by_a_number_that_fixed_points_hold(low: float) -> None:
    causal = np.triu(np.full((1, 1, 4, 4), low), 1)
    made = constant(masked(causal))
    assert made is not None
    np.testing.assert_array_equal(made[0, 0], np.triu(np.full((4, 4), -1e4, np.float32), 1))


@pytest.mark.parametrize("row", [[-np.inf] * 4, [np.nan, -np.inf, 0, 0], [-3.4e38] * 4, [-1e4, -5, 0, 0]])
def test_a_mask_that_leaves_a_row_nothing_or_is_small_stays(row: list[float]) -> None:
    assert masked(np.asarray([[row, [0, 0, 0, -1e4]]])).name == "mask"


@pytest.mark.parametrize(
    ("values", "said"),
    [([0, -np.inf], "1 infinite values"), ([np.nan, -np.inf], "2 NaN values"), ([0, -1e4], None)],
)
def test_attention_with_a_mask_of_no_finite_number_stays_off_the_device(values: list[float], said: str | None) -> None:
    mask = np.asarray([values], np.float32)
    site = Site("Attention", "attention", 0, ("q", "k", "v", "mask"), ("y", "scores"), constants={"mask": mask})
    seen = attention_mask_values(site, load_target("qc-u-1d5-8mb"))
    assert seen == (None if said is None else f"the mask holds {said}")
