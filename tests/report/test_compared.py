"""Comparison of two profiles: which layers belong together, and what the differences sum to."""

from __future__ import annotations

from typing import Any

from axtool.report.compared import by_origin, compared_document, compared_rows
from axtool.report.gates import Gates
from tests.report.profiles import LAYERS, document


def row(name: str, *origin: str) -> dict[str, Any]:
    return {"name": name, "origin": list(origin)}


def matched(this: list[dict[str, Any]], other: list[dict[str, Any]]) -> list[tuple[list[str], list[str]]]:
    groups = by_origin(this, other)
    return [([one["name"] for one in mine], [one["name"] for one in theirs]) for mine, theirs in groups]


def test_layers_of_the_same_nodes_belong_together_whatever_they_are_called() -> None:
    assert matched([row("a", "Conv_0")], [row("b", "Conv_0")]) == [(["a"], ["b"])]


def test_a_layer_that_the_other_file_has_in_two_stands_beside_both() -> None:
    this, other = [row("a", "Conv_0", "Relu_1")], [row("a", "Conv_0"), row("b", "Relu_1")]
    assert matched(this, other) == [(["a"], ["a", "b"])]
    assert matched(other, this) == [(["a", "b"], ["a"])]


def test_a_layer_without_a_partner_is_a_row_of_its_own() -> None:
    assert matched([row("a", "Conv_0")], [row("b", "Conv_1")]) == [(["a"], []), ([], ["b"])]


def test_a_layer_that_came_from_no_node_is_matched_by_its_name_alone() -> None:
    assert matched([row("pad"), row("x", "pad")], [row("pad")]) == [(["pad"], ["pad"]), (["x"], [])]


def test_differences_sum_to_that_of_the_totals_by_layer_op_and_segment() -> None:
    this, other = document(), document(layers=LAYERS[1:4])
    compared = compared_document(this, other, Gates())
    whole = other["cycles"] - this["cycles"]
    assert whole != 0
    for by in ("layer", "op", "segment"):
        rows = compared_rows(compared, by=by)
        assert sum(one["difference_cycles"] for one in rows) == whole
        assert sum(sum(one["difference_ledger_cycles"].values()) for one in rows) == whole
        for side, profiled in (("this", this), ("other", other)):
            assert sum(one[f"{side}_cycles"] for one in rows) == profiled["cycles"]
    assert sum(one["difference"] for one in compared["categories"]) == whole


def test_a_model_does_not_differ_from_itself() -> None:
    compared = compared_document(document(), document(), Gates())
    assert all(one["matched"] == "both" and not one["difference_cycles"] for one in compared["layers"])
    assert all(one["difference"] in (0, None) and one["ratio"] in (1, None) for one in compared["totals"])


def test_sorted_rows_begin_with_the_largest_difference_in_either_direction() -> None:
    compared = compared_document(document(), document(layers=LAYERS[1:4]), Gates())
    changes = [abs(one["difference_cycles"]) for one in compared_rows(compared, sort="cycles")]
    assert changes == sorted(changes, reverse=True)
