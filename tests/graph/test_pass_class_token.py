"""A class token joins the others by Pad and Add, and is picked by Slice: ops that the device has."""

from typing import Any

import numpy as np
import pytest

from axtool.graph.passes.gather_to_slice import gather_to_slice
from axtool.graph.passes.pad_constants import pad_constants
from axtool.graph.sites import sites_of
from tests.graph.pass_models import apply, build, noise, ops

X = "float[1, 5, 8] x"
NORM = "n = LayerNormalization<axis = -1>(x, gamma)"
GAMMA: dict[str, Any] = {"gamma": noise(8)}
TOKEN: dict[str, Any] = {"token": noise(1, 1, 8, seed=1)}
PLACES: dict[str, Any] = {"places": noise(1, 6, 8, seed=2)}


@pytest.mark.parametrize(("index", "left"), [(0, (1, 8)), (-1, (1, 8)), ([4], (1, 1, 8)), ([1, 2, 3], (1, 3, 8))])
def test_neighbours_are_sliced(index: Any, left: tuple[int, ...]) -> None:
    model = build(f"{NORM} y = Gather<axis = 1>(n, at)", X, **GAMMA, at=np.array(index))
    assert apply(gather_to_slice, model) == 1
    assert "Gather" not in ops(model)
    assert sites_of(model)[-1].shapes["y"] == left


@pytest.mark.parametrize("index", [[2, 0], [1, 3], [[0, 1]]])
def test_others_stay_gathered(index: Any) -> None:
    model = build(f"{NORM} y = Gather<axis = 1>(n, at)", X, **GAMMA, at=np.array(index))
    assert apply(gather_to_slice, model) == 0


def test_a_pick_from_the_batch_stays() -> None:
    model = build(f"{NORM} y = Gather<axis = 0>(n, at)", X, **GAMMA, at=np.array(0))
    assert apply(gather_to_slice, model) == 0


def test_a_graph_without_blocks_keeps_its_gathers() -> None:
    assert apply(gather_to_slice, build("y = Gather<axis = 1>(x, at)", X, at=np.array(0))) == 0


@pytest.mark.parametrize("parts", ["token, x", "x, token"])
def test_a_constant_token_is_added_to_zeros(parts: str) -> None:
    model = build(f"y = Concat<axis = 1>({parts})", X, **TOKEN)
    assert apply(pad_constants, model) == 1
    assert ops(model) == ["Pad", "Add"]


@pytest.mark.parametrize("sum_", ["Add(c, places)", "Add(places, c)"])
def test_positions_behind_it_are_the_same_sum(sum_: str) -> None:
    model = build(f"c = Concat<axis = 1>(token, x) y = {sum_}", X, **TOKEN, **PLACES)
    assert apply(pad_constants, model) == 1
    assert ops(model).count("Add") == 1


def test_a_joined_value_that_is_read_twice_keeps_its_own_sum() -> None:
    model = build(
        "c = Concat<axis = 1>(token, x) y = Add(c, places) z = Relu(c)", X, "float y, float z", **TOKEN, **PLACES
    )
    assert apply(pad_constants, model) == 1
    assert ops(model).count("Add") == 2


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        ("y = Concat<axis = 1>(x, z)", f"{X}, float[1, 2, 8] z"),
        ("y = Concat<axis = 2>(x, token)", "float[1, 1, 8] x"),
        ("y = Concat<axis = 0>(token, x)", "float[2, 1, 8] x"),
    ],
)
def test_other_joins_stay(body: str, inputs: str) -> None:
    constants = TOKEN if "token" in body else {}
    assert apply(pad_constants, build(body, inputs, **constants)) == 0
