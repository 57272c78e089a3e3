"""LayerNorm as frameworks write it in nine ops becomes one op; look-alikes stay."""

import re
from typing import Any

import numpy as np
import pytest

from axtool.graph.passes import PASSES
from axtool.graph.passes.fuse_layer_norm import fuse_layer_norm
from axtool.graph.sites import sites_of
from tests.graph.pass_models import apply, build, cleaned, noise, ops, run

F = np.float32
X = "float[1, 5, 8] x"
CONSTANTS: dict[str, Any] = {
    "two": F(2), "half": F(0.5), "minus_half": F(-0.5), "one": F(1), "three": F(3), "eps": F(1e-5), "no_eps": F(-1e-5),
    "gamma": noise(8, seed=1), "beta": noise(8, seed=2), "deep": noise(1, 1, 8, seed=3), "rows": noise(5, 1, seed=4),
}  # fmt: skip
LAST = "<axes = [-1]>"
CENTRED = f"m = ReduceMean{LAST}(x) c = Sub(x, m)"
SPREAD = f"q = Pow(c, two) v = ReduceMean{LAST}(q) e = Add(v, eps) s = Sqrt(e)"

FUSED = {
    "as torch writes it": f"{CENTRED} {SPREAD} d = Div(c, s) g = Mul(d, gamma) y = Add(g, beta)",
    "constants first": f"{CENTRED} {SPREAD} d = Div(c, s) g = Mul(gamma, d) y = Add(beta, g)",
    "square by Mul": f"{CENTRED} q = Mul(c, c) v = ReduceMean{LAST}(q) e = Add(eps, v) s = Sqrt(e) d = Div(c, s) "
    "g = Mul(d, gamma) y = Add(g, beta)",
    "centred twice": f"{CENTRED} n = ReduceMean{LAST}(x) w = Sub(x, n) q = Pow(w, two) v = ReduceMean{LAST}(q) "
    "e = Add(v, eps) s = Sqrt(e) d = Div(c, s) g = Mul(d, gamma) y = Add(g, beta)",
    "times the reciprocal": f"{CENTRED} {SPREAD} r = Reciprocal(s) d = Mul(c, r) g = Mul(d, gamma) y = Add(g, beta)",
    "times one over the root": f"{CENTRED} {SPREAD} r = Div(one, s) d = Mul(r, c) g = Mul(d, gamma) y = Add(g, beta)",
    "root as a power": f"{CENTRED} q = Pow(c, two) v = ReduceMean{LAST}(q) e = Add(v, eps) s = Pow(e, half) "
    "d = Div(c, s) g = Mul(d, gamma) y = Add(g, beta)",
    "reciprocal root as a power": f"{CENTRED} q = Pow(c, two) v = ReduceMean{LAST}(q) e = Add(v, eps) "
    "s = Pow(e, minus_half) d = Mul(c, s) g = Mul(d, gamma) y = Add(g, beta)",
    "without constants": f"{CENTRED} {SPREAD} y = Div(c, s)",
    "without an offset": f"{CENTRED} {SPREAD} d = Div(c, s) y = Mul(d, gamma)",
    "constants with axes of one": f"{CENTRED} {SPREAD} d = Div(c, s) g = Mul(d, deep) y = Add(g, beta)",
    "the axis counted from the front": "m = ReduceMean<axes = [2]>(x) c = Sub(x, m) q = Pow(c, two) "
    "v = ReduceMean<axes = [2]>(q) e = Add(v, eps) s = Sqrt(e) d = Div(c, s) g = Mul(d, gamma) y = Add(g, beta)",
}

KEPT = {
    "without a mean": f"q = Pow(x, two) v = ReduceMean{LAST}(q) e = Add(v, eps) s = Sqrt(e) d = Div(x, s) "
    "y = Mul(d, gamma)",
    "mean along another axis": "m = ReduceMean<axes = [1]>(x) c = Sub(x, m) q = Pow(c, two) "
    "v = ReduceMean<axes = [1]>(q) e = Add(v, eps) s = Sqrt(e) y = Div(c, s)",
    "variance along another axis": f"{CENTRED} q = Pow(c, two) v = ReduceMean<axes = [1]>(q) e = Add(v, eps) "
    "s = Sqrt(e) y = Div(c, s)",
    "a third power": f"{CENTRED} q = Pow(c, three) v = ReduceMean{LAST}(q) e = Add(v, eps) s = Sqrt(e) y = Div(c, s)",
    "variance of another value": f"{CENTRED} n = Neg(c) w = Abs(n) q = Pow(w, two) v = ReduceMean{LAST}(q) "
    "e = Add(v, eps) s = Sqrt(e) y = Div(c, s)",
    "no root": f"{CENTRED} q = Pow(c, two) v = ReduceMean{LAST}(q) e = Add(v, eps) y = Div(c, e)",
    "no epsilon": f"{CENTRED} q = Pow(c, two) v = ReduceMean{LAST}(q) s = Sqrt(v) y = Div(c, s)",
    "another value divided": f"{CENTRED} {SPREAD} z = Abs(x) y = Div(z, s)",
}


def model_of(body: str, outputs: str = "float y", opset: int = 13) -> Any:
    """The body with the constants that it names."""
    used = {name: value for name, value in CONSTANTS.items() if re.search(rf"\b{name}\b", body)}
    return build(body, X, outputs, opset=opset, **used)


@pytest.mark.parametrize("form", FUSED)
@pytest.mark.parametrize("opset", [11, 13, 17])
def test_one_op_takes_the_place_of_the_ops(form: str, opset: int) -> None:
    result = cleaned(model_of(FUSED[form], opset=opset), takes=["LayerNormalization"])
    assert ops(result.model) == ["LayerNormalization"]
    assert result.model.graph.outputs[0].name == "y"


@pytest.mark.parametrize("form", KEPT)
def test_look_alikes_stay(form: str) -> None:
    assert apply(fuse_layer_norm, model_of(KEPT[form])) == 0


@pytest.mark.parametrize(("opset", "domain"), [(13, "ax"), (17, "")])
def test_it_is_onnx_own_op_where_onnx_has_it(opset: int, domain: str) -> None:
    (site,) = sites_of(cleaned(model_of(FUSED["as torch writes it"], opset=opset), takes=["LayerNormalization"]).model)
    assert site.domain == domain
    assert site.attrs == {"axis": 2, "epsilon": pytest.approx(1e-5)}
    np.testing.assert_array_equal(site.constants[site.inputs[1]], CONSTANTS["gamma"])
    np.testing.assert_array_equal(site.constants[site.inputs[2]], CONSTANTS["beta"])


def test_an_offset_for_each_row_stays_behind_it() -> None:
    body = f"{CENTRED} {SPREAD} d = Div(c, s) g = Mul(d, gamma) y = Add(g, rows)"
    assert ops(cleaned(model_of(body), takes=["LayerNormalization"]).model) == ["LayerNormalization", "Add"]


def test_a_variance_that_is_an_output_keeps_its_ops() -> None:
    model = model_of(f"{CENTRED} {SPREAD} y = Div(c, s)", "float y, float v")
    assert apply(fuse_layer_norm, model) == 0


def test_a_centred_value_that_is_read_elsewhere_stays_beside_the_norm() -> None:
    body = f"{CENTRED} {SPREAD} y = Div(c, s) z = Abs(c)"
    assert sorted(ops(cleaned(model_of(body, "float y, float z"), takes=["LayerNormalization"]).model)) == [
        "Abs", "LayerNormalization", "ReduceMean", "Sub",
    ]  # fmt: skip


def test_a_device_without_the_op_keeps_the_small_ones() -> None:
    assert "ReduceMean" in ops(cleaned(model_of(FUSED["as torch writes it"])).model)


def test_the_pass_can_be_switched_off() -> None:
    model = model_of(FUSED["as torch writes it"])
    kept = cleaned(model, takes=["LayerNormalization"], disable=["fuse-layer-norm"]).model
    assert "LayerNormalization" not in ops(kept)
    assert "fuse-layer-norm" in [step.name for step in PASSES]


def test_a_row_without_variance_gives_the_offset() -> None:
    model = cleaned(model_of(FUSED["as torch writes it"]), takes=["LayerNormalization"]).model
    (found,) = run(model, x=np.full((1, 5, 8), 3, F))
    np.testing.assert_allclose(found, np.broadcast_to(CONSTANTS["beta"], (1, 5, 8)), atol=1e-6)


IMAGE = "float[1, 8, 3, 4] x"
FIRST = "<axes = [1]>"
IMAGE_NORM = (
    f"m = ReduceMean{FIRST}(x) c = Sub(x, m) q = Pow(c, two) v = ReduceMean{FIRST}(q) e = Add(v, eps) s = Sqrt(e) "
    "d = Div(c, s) g = Mul(d, first) y = Add(g, second)"
)
FIRSTS: dict[str, Any] = {"first": noise(8, 1, 1, seed=5), "second": noise(1, 8, 1, 1, seed=6)}


@pytest.mark.parametrize("opset", [13, 17])
def test_channels_of_an_image_are_moved_there_and_back(opset: int) -> None:
    constants = {"two": F(2), "eps": F(1e-6)} | FIRSTS
    result = cleaned(build(IMAGE_NORM, IMAGE, opset=opset, **constants), takes=["LayerNormalization"])
    assert ops(result.model) == ["Transpose", "LayerNormalization", "Transpose"]
    assert result.model.graph.outputs[0].name == "y"


@pytest.mark.parametrize("other", ["<axes = [2]>", "<axes = [2, 3]>"])
def test_norms_of_an_image_along_other_axes_stay(other: str) -> None:
    body = IMAGE_NORM.replace(FIRST, other)
    assert apply(fuse_layer_norm, build(body, IMAGE, opset=13, two=F(2), eps=F(1e-6), **FIRSTS)) == 0


def test_a_variance_along_another_axis_than_the_mean_stays() -> None:
    body = IMAGE_NORM.replace(f"v = ReduceMean{FIRST}", "v = ReduceMean<axes = [3]>")
    assert apply(fuse_layer_norm, build(body, IMAGE, opset=13, two=F(2), eps=F(1e-6), **FIRSTS)) == 0
