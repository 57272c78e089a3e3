"""What the entries of a recipe mean in a model: by op, by name, by region, and what is said where they mean nothing."""

from __future__ import annotations

from typing import Any

import pytest

from axtool.errors import UsageError
from axtool.quant.matches import hits
from axtool.quant.recipe_file import recipe_from_dict
from axtool.quant.wishes import wishes
from axtool.types import Site


def site(index: int, op: str, name: str, inputs: str, outputs: str) -> Site:
    return Site(op, name, index, tuple(inputs.split()), tuple(outputs.split()))


# x -> c1 -> r1 -> c2 -> s -> y, and beside it r1 -> side -> s; two results of one split
SITES = (
    site(0, "Conv", "stem/conv", "x w1", "a"),
    site(1, "Relu", "stem/act", "a", "r"),
    site(2, "Conv", "block[0]/conv", "r w2", "b"),
    site(3, "MaxPool", "block0/pool", "r", "p"),
    site(4, "Add", "sum", "b p", "s"),
    site(5, "Split", "halves", "s", "h0 h1"),
    site(6, "Silu", "end", "h0", "y"),
)


def meant(match: dict[str, Any], **entry: Any) -> list[str]:
    """The names of the nodes that an entry means."""
    return [SITES[at].name for at in found(match, **entry).nodes]


def found(match: dict[str, Any], **entry: Any) -> Any:
    file = recipe([{"match": match, **(entry or {"format": "int8"})}])
    return hits(file, SITES, ["x"])[0]


def recipe(layers: list[dict[str, Any]]) -> Any:
    return recipe_from_dict({"schema": "axtool.quant/1", "name": "mine", "layers": layers})


def fault(match: dict[str, Any], **entry: Any) -> str:
    with pytest.raises(UsageError) as caught:
        found(match, **entry)
    assert (caught.value.code, caught.value.exit) == ("unmatched-recipe", 2)
    (text,) = caught.value.details
    return text


def test_an_op_means_every_node_of_it() -> None:
    assert meant({"op": "Conv"}) == ["stem/conv", "block[0]/conv"]


def test_several_ops_mean_the_nodes_of_each_in_the_order_of_the_model() -> None:
    assert meant({"op": ["Relu", "Conv"]}) == ["stem/conv", "stem/act", "block[0]/conv"]


def test_an_op_may_be_a_pattern() -> None:
    assert meant({"op": "*Pool"}) == ["block0/pool"]
    assert len(meant({"op": "*"})) == len(SITES)


def test_a_name_is_that_of_a_node_or_of_what_it_makes() -> None:
    assert meant({"name": "stem/act"}) == meant({"name": "r"}) == ["stem/act"]


def test_a_name_with_brackets_means_itself_first() -> None:
    assert meant({"name": "block[0]/conv"}) == ["block[0]/conv"]


def test_a_name_may_be_a_pattern() -> None:
    assert meant({"name": "block[0-9]*/*"}) == ["block0/pool"]
    assert meant({"name": "stem/*"}) == ["stem/conv", "stem/act"]


def test_a_node_that_two_patterns_mean_is_meant_once() -> None:
    assert meant({"name": ["stem/*", "a"]}) == ["stem/conv", "stem/act"]


def test_op_name_and_region_all_have_to_fit() -> None:
    assert meant({"op": "Conv", "name": "stem/*"}) == ["stem/conv"]
    assert meant({"op": "Conv", "region": {"from": "r"}}) == ["block[0]/conv"]


def test_a_region_is_what_lies_on_the_ways_between_its_tensors() -> None:
    assert meant({"region": {"from": "r", "to": "s"}}) == ["block[0]/conv", "block0/pool", "sum"]
    assert meant({"region": {"from": "a", "to": "b"}}) == ["stem/act", "block[0]/conv"]


def test_a_region_without_a_beginning_is_all_that_its_end_needs() -> None:
    assert meant({"region": {"to": "p"}}) == ["stem/conv", "stem/act", "block0/pool"]


def test_a_region_without_an_end_is_all_that_is_made_of_its_beginning() -> None:
    assert meant({"region": {"from": "s"}}) == ["halves", "end"]


def test_a_region_may_begin_at_an_input_of_the_model() -> None:
    assert meant({"region": {"from": "x", "to": "a"}}) == ["stem/conv"]


def test_a_node_brings_all_tensors_that_it_makes() -> None:
    assert found({"op": "Split"}).tensors == ("h0", "h1")


def test_an_input_of_the_model_has_a_format_and_a_range_too() -> None:
    assert (found({"name": "x"}).nodes, found({"name": "x"}).tensors) == ((), ("x",))


def test_an_input_of_the_model_cannot_go_to_the_host() -> None:
    assert "no node" in fault({"name": "x"}, format="float")


def test_an_unknown_name_gets_the_nearest() -> None:
    assert fault({"name": "stem/konv"}) == (
        "layer entry 1: no node or tensor is called 'stem/konv'; did you mean stem/conv or stem/act?"
    )


def test_each_name_of_a_list_has_to_mean_something() -> None:
    assert "'nothing*'" in fault({"name": ["stem/*", "nothing*"]})


def test_an_op_that_there_is_not_gets_the_nearest() -> None:
    assert "no op is called 'Convv'; did you mean Conv?" in fault({"op": ["Convv", "Relu"]})


def test_an_op_that_this_model_lacks_may_stand_beside_one_that_it_has() -> None:
    assert meant({"op": ["Relu", "Gelu", "Gemm", "Mish"]}) == ["stem/act"]


def test_ops_of_which_the_model_has_none_are_refused_with_those_that_it_has() -> None:
    text = fault({"op": ["Gemm", "MatMul"]})
    assert "no node is of op Gemm or MatMul; ops of the model: Add, Conv, MaxPool" in text


def test_parts_that_fit_nothing_together_are_refused() -> None:
    assert "no node is of op Relu and of name block0/*" in fault({"op": "Relu", "name": "block0/*"})


def test_a_region_between_tensors_that_nothing_joins_is_refused() -> None:
    assert "that region" in fault({"region": {"from": "b", "to": "p"}})


def test_an_unknown_tensor_of_a_region_gets_the_nearest() -> None:
    assert "no tensor is called 'h2'; did you mean h1 or h0?" in fault({"region": {"from": "h2"}})


def test_the_faults_of_all_entries_are_told() -> None:
    with pytest.raises(UsageError) as caught:
        hits(recipe([{"match": {"name": n}, "format": "int8"} for n in ("q1", "a", "q2")]), SITES, ["x"])
    assert [text.split(":")[0] for text in caught.value.details] == ["layer entry 1", "layer entry 3"]


def test_float_keeps_a_node_on_the_host_and_names_the_recipe() -> None:
    wished = wishes(recipe([{"match": {"op": "Relu"}, "format": "float"}]), SITES, ["x"])
    assert {at: reason.rule for at, reason in wished.host.items()} == {
        1: "The recipe 'mine' keeps it on the host (layer entry 1)."
    }


def test_a_later_format_of_a_node_wins() -> None:
    layers = [{"match": {"op": "*"}, "format": "float"}, {"match": {"op": "Conv"}, "format": "int8"}]
    wished = wishes(recipe(layers), SITES, ["x"])
    assert (set(wished.host), set(wished.device)) == ({1, 3, 4, 5, 6}, {0, 2})
    wished = wishes(recipe(layers[::-1]), SITES, ["x"])
    assert (len(wished.host), set(wished.device)) == (len(SITES), set())


def test_an_entry_of_a_range_moves_nothing() -> None:
    wished = wishes(recipe([{"match": {"op": "*"}, "method": "minmax"}]), SITES, ["x"])
    assert (wished.host, set(wished.device)) == ({}, set())


def test_what_is_left_out_is_not_meant() -> None:
    assert meant({"op": "*", "except": {"op": ["Conv", "MaxPool"], "name": "end"}}) == ["stem/act", "sum", "halves"]


def test_what_is_left_out_need_not_be_in_the_model() -> None:
    assert meant({"op": "Conv", "except": {"op": "Softmax"}}) == ["stem/conv", "block[0]/conv"]


def test_a_neighbour_decides_between_nodes_of_one_op() -> None:
    assert meant({"op": "Conv", "after": "Relu"}) == ["block[0]/conv"]
    assert meant({"op": "Conv", "before": "Relu"}) == ["stem/conv"]


def test_a_position_is_one_among_the_nodes_that_fit() -> None:
    assert meant({"op": "Conv", "position": 0}) == ["stem/conv"]
    assert meant({"op": "*", "position": [0, -1]}) == ["stem/conv", "end"]
    assert meant({"op": "*", "position": "1:-4"}) == ["stem/act", "block[0]/conv"]


def test_a_position_behind_the_last_node_is_refused() -> None:
    assert fault({"op": "Conv", "position": 2}) == "layer entry 1: position 2 of 2 nodes that fit"
