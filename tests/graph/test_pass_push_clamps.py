"""A clamp behind a Concat of layers moves into the layers; what only looks alike stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from axtool.graph.passes.push_clamps import push_clamps
from tests.graph.pass_models import apply, build, cleaned, noise, ops

F = np.float32
W: dict[str, Any] = {"a": noise(4, 3, 1, 1), "b": noise(2, 3, 3, 3), "k": noise(4), "zero": F(0), "six": F(6)}
JOINED = "p = Conv(x, a, k) q = Conv<pads = [1, 1, 1, 1]>(x, b) c = Concat<axis = 1>(p, q)"


@pytest.mark.parametrize(("clamp", "op"), [("y = Relu(c)", "Relu"), ("y = Clip(c, zero, six)", "Clip")])
def test_a_clamp_moves_in_front_of_the_concat(clamp: str, op: str) -> None:
    one = build(f"{JOINED} {clamp}", **W)
    assert apply(push_clamps, one) == 1
    assert sorted(ops(one)) == sorted(["Conv", op, "Conv", op, "Concat"])
    assert [value.name for value in one.graph.outputs] == ["y"]


def test_of_a_clean_model_each_layer_has_its_clamp() -> None:
    result = cleaned(build(f"{JOINED} r = Relu(c) y = MaxPool<kernel_shape = [2, 2]>(r)", **W))
    assert ops(result.model)[-2:] == ["Concat", "MaxPool"]


@pytest.mark.parametrize(
    "body",
    [
        "p = Conv(x, a, k) c = Concat<axis = 1>(p, x) y = Relu(c)",  # the input is no layer
        "p = Conv(x, a, k) c = Concat<axis = 1>(p, p) y = Relu(c)",  # the same layer twice
        f"{JOINED} r = Relu(c) y = Add(r, c)",  # the Concat is read before the clamp
        f"{JOINED} r = Relu(c) s = ReduceMean(p) y = Add(r, s)",  # a layer is read before the clamp
        f"{JOINED} y = Sigmoid(c)",  # no clamp
    ],
)
def test_what_only_looks_alike_stays(body: str) -> None:
    assert apply(push_clamps, build(body, **W)) == 0
