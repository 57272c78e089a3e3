"""Nodes that change nothing go; their look-alikes stay."""

from typing import Any

import numpy as np
import pytest

from axtool.graph.passes.remove_noops import remove_noops
from axtool.graph.passes.tidy import lift_constants
from tests.graph.pass_models import apply, build, cleaned, noise, ops

GONE: dict[str, tuple[str, dict[str, Any]]] = {
    "identity": ("i = Identity(x) y = Relu(i)", {}),
    "dropout": ("d, m = Dropout(x) y = Relu(d)", {}),
    "cast to the same type": ("c = Cast<to = 1>(x) y = Relu(c)", {}),
    "concat of one": ("c = Concat<axis = 1>(x) y = Relu(c)", {}),
    "sum of one": ("c = Sum(x) y = Relu(c)", {}),
    "max of one": ("c = Max(x) y = Relu(c)", {}),
    "mean of one": ("c = Mean(x) y = Relu(c)", {}),
    "pad by nothing": ("c = Pad(x, p) y = Relu(c)", {"p": np.zeros(8, np.int64)}),
    "reshape to the same": ("c = Reshape(x, s) y = Relu(c)", {"s": np.array([0, 3, -1, 8])}),
    "transpose in order": ("c = Transpose<perm = [0, 1, 2, 3]>(x) y = Relu(c)", {}),
    "slice of everything": ("c = Slice(x, a, b) y = Relu(c)", {"a": np.zeros(4, np.int64), "b": np.full(4, 99)}),
    "add zero": ("c = Add(x, z) y = Relu(c)", {"z": np.zeros((3, 1, 1), np.float32)}),
    "one times": ("c = Mul(o, x) y = Relu(c)", {"o": np.float32(1)}),
    "over one": ("c = Div(x, o) y = Relu(c)", {"o": np.float32(1)}),
    "pool of one": ("c = MaxPool<kernel_shape = [1, 1]>(x) y = Relu(c)", {}),
    "expand to the same": ("c = Expand(x, s) y = Relu(c)", {"s": np.array([1, 3, 1, 1])}),
    "an empty part of a concat": ("c = Concat<axis = 1>(x, e) y = Relu(c)", {"e": np.zeros((1, 0, 8, 8), np.float32)}),
}
KEPT: dict[str, tuple[str, dict[str, Any]]] = {
    "cast to another type": ("c = Cast<to = 11>(x) d = Cast<to = 1>(c) y = Relu(d)", {}),
    "transpose of equal sizes": ("c = Transpose<perm = [0, 1, 3, 2]>(x) y = Relu(c)", {}),
    "backward slice": ("c = Slice(x, a, b, d, s) y = Relu(c)", {
        "a": np.array([-1]), "b": np.array([-99]), "d": np.array([3]), "s": np.array([-1]),
    }),
    "zero minus": ("c = Sub(z, x) y = Relu(c)", {"z": np.float32(0)}),
    "add zero that broadcasts": ("c = Add(x, z) y = Relu(c)", {"z": np.zeros((2, 3, 8, 8), np.float32)}),
    "mask used": ("d, m = Dropout(x) f = Cast<to = 1>(m) y = Add(d, f)", {}),
    "pool that strides": ("c = MaxPool<kernel_shape = [1, 1], strides = [2, 2]>(x) y = Relu(c)", {}),
}  # fmt: skip


@pytest.mark.parametrize("body", GONE)
def test_a_node_that_changes_nothing_goes(body: str) -> None:
    text, constants = GONE[body]
    model = build(text, **constants)
    assert apply(remove_noops, model) >= 1
    assert ops(model) == ["Relu"]


@pytest.mark.parametrize("body", KEPT)
def test_look_alikes_stay(body: str) -> None:
    text, constants = KEPT[body]
    model = build(text, **constants)
    before = ops(model)
    apply(remove_noops, model)
    assert ops(model) == before


def test_a_graph_output_takes_its_name_to_the_node_that_makes_it() -> None:
    result = cleaned(build("r = Relu(x) y = Identity(r)"))
    assert [value.name for value in result.model.graph.outputs] == ["y"]
    assert ops(result.model) == ["Relu"]


def test_an_identity_from_input_to_output_stays() -> None:
    assert ops(cleaned(build("y = Identity(x)")).model) == ["Identity"]


def test_two_outputs_of_the_same_numbers_keep_both_names() -> None:
    result = cleaned(build("r = Relu(x) y = Identity(r) z = Identity(r)", outputs="float y, float z"))
    assert [value.name for value in result.model.graph.outputs] == ["y", "z"]


@pytest.mark.parametrize(
    "attribute",
    ["value = float[2] {1.5, 2.0}", "value_floats = [1.5, 2.0]", "value_float = 1.5", "value_ints = [1, 2]"],
)
def test_constant_nodes_become_initializers(attribute: str) -> None:
    cast = "k = Cast<to = 1>(c)"
    model = build(f"c = Constant<{attribute}>() {cast} y = Add(x, k)", "float[2] x")
    assert apply(lift_constants, model) == 1
    assert "c" in model.graph.initializers


def test_unused_nodes_and_initializers_go() -> None:
    model = build("a = Relu(x) dead = Mul(a, k) y = Neg(a)", k=noise(1))
    result = cleaned(model)
    assert ops(result.model) == ["Relu", "Neg"]
    assert not result.model.graph.initializers
