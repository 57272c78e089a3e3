"""Pads, pools, transposes, float types and duplicates."""

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from axtool.graph.passes.cancel_transposes import cancel_transposes
from axtool.graph.passes.fold_pad import fold_pad
from axtool.graph.passes.merge_duplicates import merge_duplicates
from axtool.graph.passes.simplify_pools import simplify_pools
from axtool.graph.passes.widen_floats import widen_floats
from axtool.graph.passes.work import Work
from tests.graph.pass_models import apply, build, cleaned, noise, ops, run

F = np.float32
SPATIAL = np.array([0, 0, 1, 2, 0, 0, 2, 1])
POOL = "MaxPool<kernel_shape = [3, 3]>"
AVERAGE = "AveragePool<kernel_shape = [3, 3]"


def test_a_zero_pad_moves_into_the_conv() -> None:
    model = build("q = Pad(x, p) y = Conv<pads = [1, 0, 0, 1]>(q, w)", p=SPATIAL, w=noise(4, 3, 3, 3))
    assert apply(fold_pad, model) == 1
    assert model.graph[0].attributes["pads"].as_ints() == (2, 2, 2, 2)


def test_a_pad_that_two_convs_read_goes_only_when_both_took_it() -> None:
    body = 'q = Pad(x, p) y = Conv(q, w) z = Conv<auto_pad = "SAME_UPPER">(q, w)'
    model = build(body, outputs="float y, float z", p=SPATIAL, w=noise(4, 3, 3, 3))
    assert apply(fold_pad, model) == 1
    assert sorted(ops(model)) == ["Conv", "Conv", "Pad"]


def test_a_pad_before_an_average_pool_is_counted() -> None:
    model = build(f"q = Pad(x, p) y = {AVERAGE}, strides = [2, 2]>(q)", p=SPATIAL)
    assert apply(fold_pad, model) == 1
    assert model.graph[0].attributes["count_include_pad"].as_int() == 1


def test_a_pad_with_minus_infinity_moves_into_the_max_pool() -> None:
    model = build(f"q = Pad(x, p, low) y = {POOL}(q)", p=SPATIAL, low=F(-np.inf))
    assert apply(fold_pad, model) == 1


def test_a_zero_pad_of_a_relu_moves_into_the_max_pool() -> None:
    assert apply(fold_pad, build(f"r = Relu(x) q = Pad(r, p) y = {POOL}(q)", p=SPATIAL)) == 1


WIDE = np.array([0, 0, 3, 0, 0, 0, 0, 0])
STAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "zero pad, negative values, max pool": (f"q = Pad(x, p) y = {POOL}(q)", {"p": SPATIAL}),
    "a value other than zero": ("q = Pad(x, p, v) y = Conv(q, w)", {"p": SPATIAL, "v": F(3.5), "w": noise(2, 3, 3, 3)}),
    "reflect": ('q = Pad<mode = "reflect">(x, p) y = Conv(q, w)', {"p": SPATIAL, "w": noise(2, 3, 3, 3)}),
    "channels": ("q = Pad(x, p) y = Conv(q, w)", {"p": np.array([0, 1, 0, 0, 0, 0, 0, 0]), "w": noise(2, 4, 3, 3)}),
    "cropping": ("q = Pad(x, p) y = Conv(q, w)", {"p": -SPATIAL, "w": noise(2, 3, 3, 3)}),
    "uncounted pads of its own": (f"q = Pad(x, p) y = {AVERAGE}, pads = [1, 1, 1, 1]>(q)", {"p": SPATIAL}),
    "a ceiling": (f"q = Pad(x, p) y = {AVERAGE}, strides = [2, 2], ceil_mode = 1>(q)", {"p": SPATIAL}),
    "a window in the padding": (f"r = Relu(x) q = Pad(r, p) y = {POOL}(q)", {"p": WIDE}),
    "a spread window": (
        "r = Relu(x) q = Pad(r, p) y = MaxPool<kernel_shape = [3, 3], dilations = [2, 2]>(q)",
        {"p": SPATIAL},
    ),
}


@pytest.mark.parametrize("why", STAYS)
def test_look_alikes_of_a_foldable_pad_stay(why: str) -> None:
    body, constants = STAYS[why]
    assert apply(fold_pad, build(body, **constants)) == 0


def test_a_pad_stays_before_a_max_pool_whose_indices_are_read() -> None:
    body = f"r = Relu(x) q = Pad(r, p) y, i = {POOL}(q)"
    assert apply(fold_pad, build(body, outputs="float y, int64 i", p=SPATIAL)) == 0


def test_a_mean_over_space_is_a_global_pool() -> None:
    model = build("y = ReduceMean<axes = [-1, 2]>(x)")
    assert apply(simplify_pools, model) == 1
    assert ops(model) == ["GlobalAveragePool"]


def test_a_mean_over_space_in_opset_18_is_a_global_pool() -> None:
    assert ops(cleaned(build("y = ReduceMean(x, a)", opset=18, a=np.array([2, 3]))).model) == ["GlobalAveragePool"]


def test_a_pool_as_large_as_its_input_is_a_global_pool() -> None:
    model = build("y = AveragePool<kernel_shape = [8, 8], strides = [8, 8]>(x)")
    assert apply(simplify_pools, model) == 1


@pytest.mark.parametrize(
    "body",
    [
        "y = ReduceMean<axes = [2, 3], keepdims = 0>(x)",
        "y = ReduceMean<axes = [1, 2]>(x)",
        "y = AveragePool<kernel_shape = [7, 8]>(x)",
        "y = AveragePool<kernel_shape = [8, 8], pads = [1, 1, 1, 1]>(x)",
    ],
)
def test_other_means_stay(body: str) -> None:
    assert apply(simplify_pools, build(body)) == 0


@pytest.mark.parametrize("order", ["x, z", "z, x"])
@pytest.mark.parametrize("value", [0, -1.5])
def test_a_concat_with_a_border_of_one_number_is_a_pad(order: str, value: float) -> None:
    model = build(f"y = Concat<axis = 1>({order})", z=np.full((1, 5, 8, 8), value, F))
    assert apply(simplify_pools, model) == 1
    assert ops(model) == ["Pad"]


def test_a_concat_with_varied_numbers_stays() -> None:
    assert apply(simplify_pools, build("y = Concat<axis = 1>(x, z)", z=noise(1, 5, 8, 8))) == 0


def test_transposes_that_undo_each_other_go() -> None:
    result = cleaned(build("a = Relu(x) t = Transpose<perm = [0, 2, 3, 1]>(a) y = Transpose<perm = [0, 3, 1, 2]>(t)"))
    assert ops(result.model) == ["Relu"]


def test_transposes_in_a_row_become_one() -> None:
    model = build("t = Transpose<perm = [0, 2, 3, 1]>(x) y = Transpose<perm = [0, 2, 1, 3]>(t)")
    assert apply(cancel_transposes, model) == 1
    assert [tuple(node.attributes["perm"].as_ints()) for node in model.graph] == [(0, 3, 2, 1)]


def test_transposes_cancel_across_elementwise_ops() -> None:
    body = "t = Transpose<perm = [0, 2, 3, 1]>(x) r = Relu(t) s = Mul(r, two) y = Transpose<perm = [0, 3, 1, 2]>(s)"
    model = build(body, two=F(2))
    assert apply(cancel_transposes, model) == 1
    assert ops(model) == ["Relu", "Mul"]
    assert "t" not in {value.name for node in model.graph for value in node.outputs}


def test_what_holds_other_numbers_than_before_has_another_name() -> None:
    body = "t = Transpose<perm = [0, 2, 3, 1]>(x) r = Relu(t) s = Neg(r) y = Transpose<perm = [0, 3, 1, 2]>(s)"
    result = cleaned(build(body))
    assert not {"t", "r", "s"} & {value.name for node in result.model.graph for value in node.outputs}


@pytest.mark.parametrize(
    "body",
    [
        "t = Transpose<perm = [0, 2, 3, 1]>(x) r = Relu(t) y = Transpose<perm = [0, 3, 1, 2]>(r) z = Neg(r)",
        "t = Transpose<perm = [0, 2, 3, 1]>(x) r = Softmax(t) z = Transpose<perm = [0, 3, 1, 2]>(r) y = Abs(z)",
        "t = Transpose<perm = [0, 2, 3, 1]>(x) r = Mul(t, row) z = Transpose<perm = [0, 3, 1, 2]>(r) y = Neg(z)",
    ],
)
def test_transposes_around_what_knows_the_axes_stay(body: str) -> None:
    constants = {"row": noise(3)} if "row" in body else {}
    model = build(body, outputs="float y, float z", **constants)
    apply(cancel_transposes, model)
    assert ops(model).count("Transpose") == 2


def test_a_transpose_stays_beside_a_constant_that_adds_an_axis() -> None:
    body = "t = Transpose<perm = [1, 0, 2]>(x) s = Add(t, two) y = Transpose<perm = [0, 2, 1, 3]>(s)"
    model = build(body, inputs="float[2, 3, 4] x", two=np.full((1, 1, 1, 1), 2, F))
    assert apply(cancel_transposes, model) == 0


def half_model() -> ir.Model:
    body = "c = Conv(x, w) f = Cast<to = 1>(c) g = Cast<to = 10>(f) k = ConstantOfShape(s) h = Cast<to = 10>(k)"
    body += " y = Sub(g, h)"
    w = noise(4, 3, 3, 3).astype(np.float16)
    return build(body, "float16[1, 3, 8, 8] x", "float16 y", w=w, s=np.array([1]))


def test_a_half_precision_model_computes_in_float32_between_casts() -> None:
    result = cleaned(half_model())
    assert ops(result.model)[0] == "Cast"
    assert ops(result.model)[-1] == "Cast"
    inside = [value.dtype for node in list(result.model.graph)[1:-1] for value in node.inputs if value is not None]
    assert set(inside) == {ir.DataType.FLOAT}


def test_a_half_precision_signature_stays() -> None:
    model = half_model()
    x = noise(1, 3, 8, 8).astype(np.float16)
    before = run(model, x=x)[0]
    result = cleaned(model)
    assert [(value.name, value.dtype) for value in result.model.graph.inputs] == [("x", ir.DataType.FLOAT16)]
    assert [(value.name, value.dtype) for value in result.model.graph.outputs] == [("y", ir.DataType.FLOAT16)]
    np.testing.assert_allclose(run(result.model, x=x)[0], before, rtol=5e-3, atol=5e-3)


def test_subgraphs_are_widened_too() -> None:
    body = """y = If<then_branch = a () => (float16[2] t) { t = Mul(x, k) },
                     else_branch = b () => (float16[2] e) { e = Neg(x) }>(c)"""
    model = build(body, "float16[2] x, bool c", "float16[2] y", k=noise(2).astype(np.float16))
    assert apply(widen_floats, model) > 0
    assert np.asarray(run(model, x=np.ones(2, np.float16), c=np.array(True))[0]).dtype == np.float16


def test_a_float32_model_is_left_alone() -> None:
    assert widen_floats(Work(build("y = Relu(x)"))) == 0


def test_equal_initializers_become_one() -> None:
    model = build("a = Add(x, p) y = Mul(a, q)", p=noise(3, 1, 1), q=noise(3, 1, 1))
    assert apply(merge_duplicates, model) == 1


@pytest.mark.parametrize(
    ("p", "q"),
    [
        (F(2), F(4)),
        (F(0.0), F(-0.0)),
        (F(2), np.full(1, 2, F)),
        (noise(3, 1, 1), noise(1, 3, 1, 1)),
    ],
)
def test_look_alike_initializers_stay_apart(p: Any, q: Any) -> None:
    assert merge_duplicates(Work(build("a = Add(x, p) y = Mul(a, q)", p=p, q=q))) == 0


def test_the_same_bytes_of_another_type_stay_apart() -> None:
    body = "i = Cast<to = 1>(q) a = Add(x, p) y = Mul(a, i)"
    assert merge_duplicates(Work(build(body, p=F(0), q=np.int32(0)))) == 0
