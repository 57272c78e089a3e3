"""A scale or offset that could not fold backwards folds into every MAC op that reads it, or stays."""

from typing import Any

import numpy as np
import pytest

from axtool.graph.passes.fold_forward import fold_forward
from tests.graph.pass_models import apply, build, cleaned, hits, noise, ops

F = np.float32
W: dict[str, Any] = {
    "w": noise(4, 3, 3, 3),
    "k": noise(4),
    "d": noise(6, 1, 3, 3),
    "t": noise(3, 4, 2, 2),
    "u": noise(4, 3, 1, 1),
}
READERS = {
    "conv": "y = Conv<pads = [1, 1, 1, 1]>(s, w)",
    "conv with bias": "y = Conv(s, w, k)",
    "depthwise": "y = Conv<group = 3, pads = [1, 1, 1, 1]>(s, d)",
    "transposed": "y = ConvTranspose(s, t)",
    "two convs": "y = Conv(s, w) z = Conv(s, u)",
}


def model(body: str, **constants: Any) -> Any:
    used = {name: value for name, value in W.items() if f", {name})" in body or f", {name}," in body}
    return build(body, outputs="float y, float z" if "z =" in body else "float y", **used, **constants)


@pytest.mark.parametrize("reader", READERS)
def test_a_scale_folds_into_all_its_readers(reader: str) -> None:
    one = model(f"r = Relu(x) s = Mul(r, c) {READERS[reader]}", c=F(0.37))
    assert apply(fold_forward, one) == 1
    assert "Mul" not in ops(one)


@pytest.mark.parametrize(
    "reader", ["y = Conv(s, w)", "y = Conv(s, w, k)", "y = Conv<group = 3>(s, d)", "y = Conv(s, w) z = Conv(s, u)"]
)
@pytest.mark.parametrize("shape", [(), (3, 1, 1)])
def test_an_offset_folds_into_convs_without_padding(reader: str, shape: tuple[int, ...]) -> None:
    one = model(f"r = Relu(x) s = Add(r, c) {reader}", c=noise(*shape))
    assert apply(fold_forward, one) == 1
    assert "Add" not in ops(one)


@pytest.mark.parametrize("transposed", [0, 1])
def test_an_offset_folds_into_a_gemm(transposed: int) -> None:
    w = noise(4, 5) if transposed else noise(5, 4)
    one = build(f"r = Relu(x) s = Add(r, c) y = Gemm<transB = {transposed}>(s, w)", "float[2, 5] x", c=noise(5), w=w)
    assert apply(fold_forward, one) == 1


def test_a_scale_and_an_offset_fold_from_the_end() -> None:
    result = cleaned(model("r = Relu(x) m = Mul(r, a) s = Add(m, b) y = Conv(s, w)", a=F(0.7), b=F(0.1)))
    assert ops(result.model) == ["Relu", "Conv"]
    assert hits(result)["fold-forward"] == 2


@pytest.mark.parametrize(
    ("why", "body", "constant"),
    [
        ("padding is zero, not the offset", "s = Add(x, c) y = Conv<pads = [1, 1, 1, 1]>(s, w)", noise()),
        ("same padding", 's = Add(x, c) y = Conv<auto_pad = "SAME_UPPER">(s, w)', noise()),
        ("another reader", "s = Mul(x, c) y = Conv(s, w) z = Neg(s)", noise()),
        ("one scale for each channel", "s = Mul(x, c) y = Conv(s, w)", noise(3, 1, 1)),
        ("an offset over space", "s = Add(x, c) y = Conv(s, w)", noise(8)),
        ("a scale of zero", "s = Mul(x, c) y = Conv(s, w)", F(0)),
        ("a scale that is not finite", "s = Mul(x, c) y = Conv(s, w)", F(np.inf)),
        ("a transposed conv has borders", "s = Add(x, c) y = ConvTranspose(s, t)", noise()),
    ],
)
def test_look_alikes_stay(why: str, body: str, constant: Any) -> None:
    assert apply(fold_forward, model(body, c=constant)) == 0


def test_a_value_that_is_an_output_stays() -> None:
    one = build("s = Mul(x, c) y = Conv(s, w)", outputs="float y, float s", c=F(0.5), w=W["w"])
    assert apply(fold_forward, one) == 0


def test_the_weight_as_second_reader_of_a_value_stays() -> None:
    one = build("s = Mul(x, c) y = MatMul(s, s)", "float[4, 4] x", c=F(0.5))
    assert apply(fold_forward, one) == 0
