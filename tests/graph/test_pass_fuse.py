"""Activations that frameworks write as several ops become one; look-alikes stay."""

import re
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from axtool.graph.passes import clean
from axtool.graph.passes.fuse_gates import fuse_gates
from tests.graph.pass_models import apply, build, cleaned, noise, ops, run

F = np.float32
X = "float[2, 8] x"
# Every constant that the bodies below may name.
CONSTANTS: dict[str, Any] = {
    "zero": F(0), "half": F(0.5), "one": F(1), "three": F(3), "five": F(5), "six": F(6),
    "sixth": F(1 / 6), "fifth": F(0.2), "tenth": F(0.1), "steep": F(1.5), "quick": F(1.702),
    "root2": F(2**0.5), "inv2": F(0.5**0.5), "bend": F(0.044715), "rootpi": F((2 / np.pi) ** 0.5), "row": noise(8),
    "up": F(np.inf), "down": F(-np.inf), "deep": np.full((1, 1, 1), 0.1, F),
}  # fmt: skip
GATE = "a = Add(x, three) c = Clip(a, zero, six)"
CUBE = "q = Mul(x, x) c = Mul(q, x) b = Mul(bend, c) s = Add(b, x) m = Mul(rootpi, s) t = Tanh(m) a = Add(one, t)"

FUSED: dict[str, tuple[str, str]] = {
    "silu": ("Silu", "s = Sigmoid(x) y = Mul(x, s)"),
    "silu, other order": ("Silu", "s = Sigmoid(x) y = Mul(s, x)"),
    "hardswish of hardsigmoid": ("HardSwish", "h = HardSigmoid<alpha = 0.16666667, beta = 0.5>(x) y = Mul(x, h)"),
    "hardswish, product over six": ("HardSwish", f"{GATE} p = Mul(x, c) y = Div(p, six)"),
    "hardswish, gate over six": ("HardSwish", f"{GATE} g = Div(c, six) y = Mul(x, g)"),
    "hardswish, gate times a sixth": ("HardSwish", f"{GATE} g = Mul(sixth, c) y = Mul(g, x)"),
    "hardswish, x times a sixth": ("HardSwish", f"s = Mul(x, sixth) {GATE} y = Mul(s, c)"),
    "hardswish of min and relu": (
        "HardSwish", "a = Add(x, three) r = Relu(a) c = Min(r, six) p = Mul(x, c) y = Mul(p, sixth)",
    ),
    "hardswish of a unit clip": (
        "HardSwish", "s = Mul(x, sixth) a = Add(s, half) c = Clip(a, zero, one) y = Mul(x, c)",
    ),
    "mish": ("Mish", "p = Softplus(x) t = Tanh(p) y = Mul(x, t)"),
    "gelu": ("Gelu", "d = Div(x, root2) e = Erf(d) a = Add(e, one) p = Mul(x, a) y = Mul(p, half)"),
    "gelu, half first": ("Gelu", "h = Mul(half, x) d = Mul(x, inv2) e = Erf(d) a = Add(one, e) y = Mul(h, a)"),
    "gelu, half of the gate": ("Gelu", "d = Div(x, root2) e = Erf(d) a = Add(e, one) g = Mul(a, half) y = Mul(x, g)"),
    "gelu by tanh": (
        "Gelu", "q = Pow(x, three) b = Mul(q, bend) s = Add(x, b) m = Mul(s, rootpi) t = Tanh(m) a = Add(t, one) "
        "p = Mul(x, a) y = Mul(p, half)",
    ),
    "gelu by tanh, with Muls": ("Gelu", f"{CUBE} h = Mul(x, half) y = Mul(h, a)"),
    "relu of max": ("Relu", "y = Max(x, zero)"),
    "relu of clip": ("Relu", "y = Clip(x, zero)"),
    "relu6 of relu and min": ("Clip", "r = Relu(x) y = Min(r, six)"),
    "relu6 of min and max": ("Clip", "r = Min(x, six) y = Max(zero, r)"),
    "clip of clip": ("Clip", "c = Clip(x, zero, six) y = Clip(c, half, three)"),
    "leaky relu": ("LeakyRelu", "m = Mul(x, tenth) y = Max(x, m)"),
    "leaky relu, other order": ("LeakyRelu", "m = Mul(tenth, x) y = Max(m, x)"),
}  # fmt: skip

KEPT: dict[str, str] = {
    "gate of another value": "z = Neg(x) s = Sigmoid(z) y = Mul(x, s)",
    "hardsigmoid of other slope": "h = HardSigmoid(x) y = Mul(x, h)",
    "clip to five": "a = Add(x, three) c = Clip(a, zero, five) p = Mul(x, c) y = Mul(p, sixth)",
    "product over five": f"{GATE} p = Mul(x, c) y = Mul(p, fifth)",
    "silu with a temperature": "t = Mul(x, quick) s = Sigmoid(t) y = Mul(x, s)",
    "one plus erf of x": "e = Erf(x) a = Add(e, one) p = Mul(x, a) y = Mul(p, half)",
    "tanh of softplus of another": "z = Neg(x) p = Softplus(z) t = Tanh(p) y = Mul(x, t)",
    "max with a steeper line": "m = Mul(x, steep) y = Max(x, m)",
    "max of two tensors": "n = Neg(x) y = Max(x, n)",
    "max with a row": "y = Max(x, row)",
    "max with a line that adds an axis": "m = Mul(x, deep) y = Max(x, m)",
    "crossing bounds": "y = Clip(x, six, zero)",
}


def model_of(body: str, outputs: str = "float y", **options: Any) -> ir.Model:
    """The body with the constants that it names."""
    used = {name: value for name, value in CONSTANTS.items() if re.search(rf"\b{name}\b", body)}
    return build(body, X, outputs, **options, **used)


@pytest.mark.parametrize("form", FUSED)
@pytest.mark.parametrize("opset", [13, 20])
def test_one_activation_takes_the_place_of_the_ops(form: str, opset: int) -> None:
    op, body = FUSED[form]
    result = cleaned(model_of(body, opset=opset))
    assert ops(result.model) == [op]
    assert result.model.graph.outputs[0].name == "y"


@pytest.mark.parametrize("form", KEPT)
def test_look_alikes_stay(form: str) -> None:
    model = model_of(KEPT[form])
    before = ops(model)
    assert ops(cleaned(model).model) == before


@pytest.mark.parametrize("opset", [9, 11, 13])
def test_relu6_is_recognised_in_every_opset(opset: int) -> None:
    clip = "Clip<min = 0.0, max = 6.0>(a)" if opset < 11 else "Clip(a, zero, six)"
    body = f"a = Add(x, three) c = {clip} p = Mul(x, c) y = Mul(p, sixth)"
    assert ops(cleaned(model_of(body, opset=opset)).model) == ["HardSwish"]


@pytest.mark.parametrize("opset", [9, 17])
@pytest.mark.parametrize(
    ("body", "op"),
    [
        ("y = Max(x, up)", "Clip"),
        ("y = Min(x, down)", "Clip"),
        ("m = Min(x, six) y = Max(m, down)", "Clip"),
        ("m = Max(x, down) y = Min(m, half)", "Clip"),
        ("m = Relu(x) y = Max(m, up)", "Clip"),
        ("m = Max(x, zero) y = Min(m, up)", "Relu"),
    ],
)
def test_an_infinite_bound_bounds_as_before(opset: int, body: str, op: str) -> None:
    feed = {"x": np.array([[-np.inf, -3.4e38, -1, 0, 0.25, 9, 3.4e38, np.inf]] * 2, F)}
    model = model_of(body, opset=opset)
    before = run(model, **feed)
    after = cleaned(model).model
    assert ops(after) == [op]
    np.testing.assert_array_equal(run(after, **feed), before)


def test_a_sigmoid_that_is_read_elsewhere_stays_beside_the_silu() -> None:
    result = cleaned(model_of("s = Sigmoid(x) y = Mul(s, x) z = Neg(s)", "float y, float z"))
    assert ops(result.model) == ["Sigmoid", "Silu", "Neg"]


def test_a_sigmoid_that_is_an_output_stays() -> None:
    result = cleaned(model_of("s = Sigmoid(x) y = Mul(s, x)", "float y, float s"))
    assert sorted(ops(result.model)) == ["Sigmoid", "Silu"]


def test_an_inner_product_that_is_read_elsewhere_stays() -> None:
    body = f"{GATE} p = Mul(x, c) y = Mul(p, sixth) z = Neg(p)"
    assert "Neg" in ops(cleaned(model_of(body, "float y, float z")).model)


@pytest.mark.parametrize("opset", [9, 17])
def test_a_sixth_that_was_rounded_to_fp16_is_kept_exactly(opset: int) -> None:
    clip = "r = Relu(a) c = Min(r, six)"
    body = f"a = Add(x, three) {clip} p = Mul(x, c) y = Mul(p, k)"
    model = build(body, X, opset=opset, three=F(3), six=F(6), k=F(np.float16(1 / 6)))
    x = noise(2, 8, scale=4)
    before = run(model, x=x)[0]
    result = clean(model)
    assert ops(result.model) == ["HardSwish"]
    assert result.model.graph[0].attributes["ratio"].as_float() == pytest.approx(0.99975586, rel=1e-6)
    np.testing.assert_allclose(run(result.model, x=x)[0], before, rtol=1e-6)


@pytest.mark.parametrize(("form", "expected"), [("gelu", -0.158655), ("gelu by tanh", -0.158808)])
def test_the_two_gelus_differ_where_they_should(form: str, expected: float) -> None:
    result = clean(model_of(FUSED[form][1]))
    assert result.model.graph[0].domain == "ax"
    assert run(result.model, x=np.full((2, 8), -1, F))[0].reshape(-1)[0] == pytest.approx(expected, abs=1e-6)


def test_a_gate_in_another_type_than_float32_stays() -> None:
    model = build("s = Sigmoid(x) y = Mul(x, s)", "double[2, 8] x", "double y")
    assert apply(fuse_gates, model) == 0
