"""What a recipe wants of single nodes: a precision, the host; and what is said where a node has no such format."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from axtool.errors import UsageError
from axtool.ops.limits_precise import OPS
from axtool.plan.lower import PRECISE_LOWERINGS
from axtool.quant.recipe_file import RecipeFile, recipe_from_dict
from axtool.quant.wishes import precision_of
from axtool.target_file import load_target
from axtool.types import Site


def site(index: int, op: str, inputs: str, output: str, makers: str = "") -> Site:
    names = tuple(inputs.split())
    return Site(op, output, index, names, (output,), makers=dict(zip(names, makers.split(), strict=False)))


# a projection with its bias, a residual sum, its norm, one convolution of one tap
SITES = (
    site(0, "MatMul", "x w", "p"),
    site(1, "Add", "p b", "q", "MatMul"),
    site(2, "Reshape", "q shape", "r", "Add"),
    site(3, "Add", "r x", "s", "Reshape"),
    site(4, "LayerNormalization", "s g", "n", "Add"),
    replace(site(5, "Conv", "n k", "y"), constants={"k": np.zeros((4, 4, 1, 1), np.float32)}),
    replace(site(6, "Conv", "n k3", "z"), constants={"k3": np.zeros((4, 4, 3, 3), np.float32)}),
)


def recipe(*layers: dict[str, Any]) -> RecipeFile:
    return recipe_from_dict({"schema": "axtool.quant/1", "name": "mine", "layers": list(layers)})


def asked(*layers: dict[str, Any]) -> dict[str, str]:
    return precision_of(SITES, recipe(*layers), ["x"]).by_output(SITES)


def test_what_no_entry_means_has_no_precision_of_its_own() -> None:
    assert asked({"match": {"op": "MatMul"}, "format": "fp16"}) == {"p": "fp16"}


def test_a_later_entry_wins() -> None:
    first = {"match": {"op": "Add"}, "format": "fx32"}
    assert asked(first, {"match": {"op": "Add", "after": "MatMul"}, "format": "fp16"}) == {"q": "fp16", "s": "fx32"}
    assert asked(first, {"match": {"name": "s"}, "format": "float"}) == {"q": "fx32"}


def test_an_input_of_the_model_has_a_precision_too() -> None:
    assert asked({"match": {"name": "x"}, "format": "fx32"}) == {"x": "fx32"}


def test_what_only_moves_has_no_precision() -> None:
    assert asked({"match": {"op": ["Reshape", "LayerNormalization"]}, "format": "fx32"}) == {"n": "fx32"}


def test_a_convolution_of_one_tap_is_a_product(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert asked({"match": {"op": "Conv"}, "format": "fp16"}) == {"y": "fp16"}
    assert "1 of 2 nodes keep their format: Conv 'z' (node 6) has no fp16: of convolutions only" in caplog.text


@pytest.mark.parametrize(
    ("op", "kind", "told"),
    [
        ("LayerNormalization", "fp16", "has no fp16; LayerNormalization has fx32"),
        ("MatMul", "fx32", "has no fx32; MatMul has fp16"),
    ],
)
def test_a_format_that_none_of_the_nodes_has_is_refused(op: str, kind: str, told: str) -> None:
    with pytest.raises(UsageError, match=told) as caught:
        asked({"match": {"op": op}, "format": kind})
    assert (caught.value.code, caught.value.exit) == ("no-such-format", 2)


def test_a_sum_of_two_activations_is_no_bias_of_a_product() -> None:
    with pytest.raises(UsageError, match="it has where it is the bias or the Relu behind a matrix product"):
        asked({"match": {"name": "s"}, "format": "fp16"})


def test_a_format_that_the_target_lacks_is_refused_with_those_it_has() -> None:
    file = recipe({"match": {"op": "MatMul"}, "format": "fp16"})
    with pytest.raises(UsageError, match="asks for fp16, which metis does not have: its formats are int8"):
        precision_of(SITES, file, ["x"], load_target("metis"))
    assert precision_of(SITES, file, ["x"], load_target("qc-u-1d5-8mb")).sites == {0: "fp16"}


@pytest.mark.parametrize("kind", ["fp16", "fx32"])
def test_what_a_recipe_may_ask_for_is_what_the_device_has_a_form_for(kind: str) -> None:
    assert frozenset(PRECISE_LOWERINGS[kind]) == OPS[kind]
