"""What a budget may be spent on beside int16: streams in fx32, matrix products in fp16."""

from __future__ import annotations

import numpy as np

from axtool.quant.mixtures import Mixture, ends, mixtures, precision_of_all
from axtool.target_file import load_target
from axtool.types import Site

TARGET = load_target("qc-u-1d7-16mb")
SHAPES = {"w": (4, 4), "b": (4,), "v": (4, 4), "c": (4,), "k": (4, 4, 3, 3), "g": (4,)}
ARRAYS = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}


def net(*rows: str) -> list[Site]:
    """Nodes of rows such as `Add s: p b`."""
    makers: dict[str, str] = {}
    sites = []
    for index, row in enumerate(rows):
        head, _, read = row.partition(": ")
        op, out = head.split()
        names = tuple(read.split())
        constants = {name: ARRAYS[name] for name in names if name in ARRAYS}
        shapes = {name: (1, 6, 4) for name in (*names, out) if name not in ARRAYS}
        made = {name: makers.get(name, "") for name in names if name not in ARRAYS}
        sites.append(Site(op, out, index, names, (out,), shapes=shapes, constants=constants, makers=made))
        makers[out] = op
    return sites


def offered(kind: str, *rows: str) -> list[list[str]]:
    return [list(mixture.nodes) for mixture in mixtures(net(*rows), TARGET, [kind])]


def test_sums_norms_and_functions_that_follow_each_other_are_one_stream() -> None:
    assert offered("fx32", "Add s: x y", "LayerNormalization n: s g", "Gelu z: n") == [["s", "n", "z"]]


def test_a_product_parts_two_streams() -> None:
    rows = ("LayerNormalization n: x g", "MatMul p: n w", "Gelu z: p")
    assert offered("fx32", *rows) == [["n"], ["z"]]


def test_what_only_moves_values_joins_a_stream_and_is_not_named() -> None:
    assert offered("fx32", "Add s: x y", "Reshape r: s", "Sigmoid z: r") == [["s", "z"]]


def test_a_residual_holds_a_stream_together() -> None:
    rows = ("LayerNormalization n: x g", "MatMul p: n w", "Add s: p n")
    assert offered("fx32", *rows) == [["n", "s"]]


def test_the_bias_of_a_product_is_no_stream() -> None:
    assert offered("fx32", "MatMul p: x w", "Add q: p b") == []


def test_a_product_takes_its_bias_and_its_relu_along() -> None:
    assert offered("fp16", "MatMul p: x w", "Add q: p b", "Relu r: q", "Gelu z: r") == [["p", "q", "r"]]


def test_a_bias_that_somebody_else_reads_past_stays_where_it_is() -> None:
    assert offered("fp16", "MatMul p: x w", "Add q: p b", "Gelu z: p") == [["p"]]


def test_a_convolution_of_several_taps_is_no_product() -> None:
    assert offered("fp16", "Conv p: x k") == []


def test_a_format_that_is_not_to_be_bought_or_that_the_chip_lacks_is_not_offered() -> None:
    sites = net("MatMul p: x w", "Gelu z: p")
    assert [mixture.format for mixture in mixtures(sites, TARGET, ["fp16"])] == ["fp16"]
    assert mixtures(sites, load_target("metis"), ["fp16", "fx32"]) == ()


def test_several_mixtures_ask_for_all_their_nodes() -> None:
    both = (Mixture("fx32", "a", ("a", "b")), Mixture("fp16", "c", ("c",)))
    assert precision_of_all(both) == {"a": "fx32", "b": "fx32", "c": "fp16"}
    assert str(both[0]) == "'a' and 1 more in fx32"


def test_the_ends_of_a_stage_are_its_tails_and_its_first_product() -> None:
    sites = net("Conv a: x k", "Relu r: a", "Conv b: r k", "Sigmoid y: b", "Conv z: r k")
    found = ends(sites, {"x"}, ("y", "z"))
    assert [mixture.nodes for mixture in found] == [("b", "y"), ("z",), ("a",)]
    assert precision_of_all(found) == {}  # the device computes none of them
