"""What it costs that tensors share a format: told in steps and decibels, warned of where it is large."""

from __future__ import annotations

from pathlib import Path

import pytest

from axtool.quant.formats import int8_format
from axtool.quant.layer_figures import LayerFigures
from axtool.quant.tie_costs import add_to_figures, tie_costs, tie_notices
from axtool.types import Layer, QFormat, Quantization, Site
from tests.quant.two_branches import two_branches
from tests.tiny import axtool

CONCAT = Site("Concat", "c", 0, ("a", "b"), ("y",), {"axis": 1})
POOL = Site("MaxPool", "m", 0, ("x",), ("y",))
STEP = QFormat("int8", (0.5,), (0,))


def numbers(**ranges: tuple[float, float]) -> Quantization:
    return Quantization({name: int8_format(*limits) for name, limits in ranges.items()}, ranges, {})


def figures(name: str, high: float) -> LayerFigures:
    row = LayerFigures(0, Layer("max_pool", ("x",), (name,)), STEP)
    row.low, row.high = 0.0, high
    return row


def test_a_part_costs_what_the_whole_is_wider() -> None:
    (cost,) = tie_costs((CONCAT,), numbers(a=(0, 64), b=(0, 2), y=(0, 64)))
    assert (cost.tensor, cost.shared, cost.factor) == ("b", "y", pytest.approx(32))
    assert str(cost) == "32x coarser with 'y', 30 dB"


def test_parts_as_wide_as_the_whole_cost_nothing() -> None:
    assert tie_costs((CONCAT,), numbers(a=(0, 64), b=(0, 63), y=(0, 64))) == ()


def test_what_is_moved_costs_what_its_input_was_wider() -> None:
    same = Quantization({"x": STEP, "y": STEP}, {}, {})
    (cost,) = tie_costs((POOL,), same, {"x": figures("x", 80), "y": figures("y", 8)})
    assert (cost.tensor, cost.shared, cost.factor) == ("y", "x", 10)


def test_what_is_moved_costs_nothing_that_was_not_measured() -> None:
    assert tie_costs((POOL,), Quantization({"x": STEP, "y": STEP}, {}, {})) == ()


def test_a_format_of_its_own_is_no_tie() -> None:
    own = Quantization({"x": STEP, "y": QFormat("int8", (0.1,), (0,))}, {}, {})
    assert tie_costs((POOL,), own, {"x": figures("x", 80), "y": figures("y", 8)}) == ()


def test_a_large_cost_is_warned_of_and_a_small_one_is_not() -> None:
    large = tie_costs((CONCAT,), numbers(a=(0, 64), b=(0, 2), y=(0, 64)))
    assert [str(notice) for notice in tie_notices(large)] == [
        "tensors that lose much by sharing a format: 'b' 32x coarser with 'y', 30 dB"
    ]
    assert tie_notices(tie_costs((CONCAT,), numbers(a=(0, 64), b=(0, 8), y=(0, 64)))) == ()


def test_the_largest_cost_of_a_tensor_is_in_its_figures() -> None:
    rows = {"b": figures("b", 4)}
    add_to_figures(tie_costs((CONCAT,), numbers(a=(0, 64), b=(0, 2), y=(0, 64))), rows)
    assert (rows["b"].tie_factor, rows["b"].tied_to) == (pytest.approx(32), "y")


@pytest.fixture
def joined(work: Path) -> Path:
    """Two branches of which one is fifty times as large, joined before a convolution."""
    return two_branches(work / "m.onnx", 50, 1)


def test_explain_tells_what_a_tie_costs(joined: Path) -> None:
    ran = axtool("compile", joined, "--calib", "random:8", "-o", "m.axm", "--explain", "--json")
    rows = {row["tensor"]: row["tie"] for row in ran.document["explain"]}
    assert "coarser with 'y'" in rows["b"]
    assert rows["z"] == ""
    assert "tensors that lose much by sharing a format: 'b'" in ran.err


def test_the_table_of_layers_tells_what_a_tie_costs(joined: Path) -> None:
    axtool("compile", joined, "--calib", "random:8", "-o", "m.axm")
    words = ("verify", "m.axm", "--against", joined, "--data", "random:8", "--layers")
    rows = {row["output"]: row for row in axtool(*words, "--json").document["layers"]}
    assert rows["b"]["tied_to"] == "y"
    assert rows["b"]["tie_factor"] > 16
    assert f"{rows['b']['tie_factor']:.3g}x" in axtool(*words).out
