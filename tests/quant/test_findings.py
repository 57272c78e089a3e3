"""What is said about formats: values cut off, tensors and parts with hardly any levels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from axtool.quant.findings import findings, levels, outside
from axtool.quant.formats import int8_format
from axtool.quant.observers import Histogram
from axtool.types import QFormat, Quantization, Site, Weights
from tests import tiny
from tests.conftest import Tiny
from tests.quant.two_branches import two_branches
from tests.tiny import axtool


def seen(values: np.ndarray) -> Histogram:
    observer = Histogram()
    observer.observe(np.asarray(values, np.float32))
    return observer


def numbers(**ranges: tuple[float, float]) -> Quantization:
    return Quantization({name: int8_format(*limits) for name, limits in ranges.items()}, ranges, {})


def codes(numbers: Quantization, *sites: Site, **observers: Histogram) -> list[str]:
    return [notice.code for notice in findings(sites, numbers, observers)]


CONCAT = Site("Concat", "c", 0, ("a", "b"), ("y",), {"axis": 1})


def test_values_within_the_range_are_not_cut_off() -> None:
    assert outside(seen(np.linspace(0, 1, 1000)), int8_format(0, 1)) == 0


def test_the_share_of_the_values_that_are_cut_off_is_told() -> None:
    assert outside(seen(np.linspace(-1, 1, 10_001)), int8_format(-1, 0.5)) == pytest.approx(0.25, abs=2e-3)


def test_a_tensor_that_is_cut_off_is_named() -> None:
    told = findings((), numbers(x=(0.0, 0.5)), {"x": seen(np.linspace(0, 1, 1000))})
    assert [notice.code for notice in told] == ["saturated"]
    assert "'x' 49." in str(told[0]) or "'x' 50." in str(told[0])


def test_a_percent_of_the_values_may_be_cut_off() -> None:
    assert codes(numbers(x=(0.0, 0.995)), x=seen(np.linspace(0, 1, 1000))) == []


def test_levels_are_those_of_int8_that_occur() -> None:
    assert levels(seen(np.repeat([0.0, 0.5, 1.0], 5)), int8_format(0, 1)) == 3


def test_a_tensor_with_hardly_any_levels_is_named() -> None:
    assert codes(numbers(x=(0.0, 100.0)), x=seen(np.linspace(0, 1, 1000))) == ["few-levels"]


def test_a_constant_tensor_needs_one_level_only() -> None:
    assert codes(numbers(x=(0.0, 3.0)), x=seen(np.full(9, 3.0))) == []


def test_a_part_of_a_concat_that_is_too_small_for_the_whole_is_named() -> None:
    told = findings((CONCAT,), numbers(a=(0.0, 640.0), b=(0.0, 1.0), y=(0.0, 640.0)))
    assert [notice.code for notice in told] == ["few-levels-part"]
    assert "'b' 1.4 of 'y'" in str(told[0])


def test_parts_of_one_size_are_fine() -> None:
    assert codes(numbers(a=(0.0, 640.0), b=(0.0, 500.0), y=(0.0, 640.0)), CONCAT) == []


def test_many_tensors_are_told_in_one_notice() -> None:
    ranges = {f"t{i}": (0.0, 100.0) for i in range(7)}
    observers = {name: seen(np.linspace(0, 1, 100)) for name in ranges}
    told = findings((), numbers(**ranges), observers)
    assert len(told) == 1
    assert str(told[0]).endswith("and 3 more")


def test_compiling_warns_of_a_part_that_the_joined_tensor_has_no_levels_for(work: Path) -> None:
    model = two_branches(work / "m.onnx", 300, 0.3)
    ran = axtool("compile", model, "--calib", "random:8")
    assert (ran.code, "'b'" in ran.err and "levels of the tensor that joins them" in ran.err) == (0, True)


def test_every_tensor_is_explained(tiny_models: Tiny, work: Path) -> None:
    words = ("compile", tiny_models / "cls.onnx", "--calib", "random:8", "-o", "m.axm", "--explain")
    rows = {row["tensor"]: row for row in axtool(*words, "--json").document["explain"]}
    assert rows["a"]["why"].startswith("only Relu")
    assert (rows["r"]["low"], rows["r"]["zero_point"]) == (0, -128)
    text = axtool(*words, "--force").out
    assert all(name in text for name in rows)


def test_nothing_is_explained_unasked(tiny_models: Tiny, work: Path) -> None:
    ran = axtool("compile", tiny_models / "cls.onnx", "--calib", "random:8", "-o", "m.axm", "--json")
    assert "explain" not in ran.document


def test_a_weight_scale_that_was_raised_is_warned_of() -> None:
    raised = replace(numbers(y=(0.0, 1.0)), warnings=("Conv 'c' (node 0): weight scale raised in channels 1",))
    told = findings((), raised)
    assert [(notice.code, str(notice)) for notice in told] == [("weight-scale-raised", raised.warnings[0])]


CONV = Site("Conv", "c", 0, ("x", "w"), ("y",), {"group": 1}, {}, {}, {"w": np.ones((3, 2, 1, 1), np.float32)})


def test_a_bias_that_raises_a_weight_scale_is_warned_of_in_compiling(work: Path) -> None:
    graph = "(float[1,2,8,8] x) => (float[1,2,8,8] y) { a = Conv(x, w, b) y = Relu(a) }"
    weights = {"w": np.full((2, 2, 1, 1), 1e-3), "b": np.array([0.0, -1e6])}
    ran = axtool("compile", tiny.save(work / "m.onnx", graph, weights), "--calib", "random:8", "-o", "m.axm")
    assert "Conv 'Conv_a' (node 0): weight scale raised against int32 overflow in channels 1" in ran.err
    weights["b"] = np.array([0.0, -0.1])
    ran = axtool("compile", tiny.save(work / "n.onnx", graph, weights), "--calib", "random:8", "-o", "n.axm")
    assert "raised" not in ran.err


@pytest.mark.parametrize(("dead", "told"), [(1, ["dead-channels"]), (0, [])])
def test_channels_whose_weights_all_became_zero_are_counted(dead: int, told: list[str]) -> None:
    values = np.ones((3, 2, 1, 1), np.int8)
    values[:dead] = 0
    weights = Weights(values, np.ones(3, np.float32), np.zeros(3, np.float32))
    notices = findings((CONV,), replace(numbers(x=(0.0, 1.0), y=(0.0, 1.0)), weights={"y": weights}))
    assert [notice.code for notice in notices] == told
    assert all("Conv 'c' (node 0) 1 of 3" in str(notice) for notice in notices)


def test_channels_that_never_had_weights_are_not_told() -> None:
    site = replace(CONV, constants={"w": np.zeros((3, 2, 1, 1), np.float32)})
    weights = Weights(np.zeros((3, 2, 1, 1), np.int8), np.ones(3, np.float32), np.zeros(3, np.float32))
    assert findings((site,), replace(numbers(x=(0.0, 1.0), y=(0.0, 1.0)), weights={"y": weights})) == ()


def test_what_int16_holds_is_not_cut_off() -> None:
    values = seen(np.linspace(-1, 1, 1000))
    assert outside(values, QFormat("int16", (1 / 32767,))) == 0
    assert outside(values, QFormat("int16", (0.5 / 32767,))) == pytest.approx(0.5, abs=0.01)


def test_a_tensor_that_was_always_zero_is_named() -> None:
    told = findings((CONV,), numbers(y=(0.0, 0.0)), {"y": seen(np.zeros(9))})
    assert [(notice.code, "'y'" in str(notice)) for notice in told] == [("dead-tensors", True)]


def test_a_constant_tensor_and_an_input_of_zeros_are_not_dead() -> None:
    assert codes(numbers(y=(0.0, 3.0)), CONV, y=seen(np.full(9, 3.0))) == []
    assert codes(numbers(x=(0.0, 0.0)), CONV, x=seen(np.zeros(9))) == []
