"""The names of a model's tensors."""

from pathlib import Path

import numpy as np

from axtool.graph.load import load_model
from axtool.graph.names import fresh, value_names
from tests.graph.load_models import model, node, save


def test_every_value_is_named_once_in_graph_order(tmp_path: Path) -> None:
    nodes = [node("Add", ["x", "w"], ["stem"]), node("Add", ["stem", "w"], ["y"])]
    loaded = load_model(save(tmp_path, model(nodes, weights={"w": np.ones((1, 3), np.float32)})))
    assert value_names(loaded.model) == ("x", "w", "stem", "y")


def test_a_fresh_name_is_taken_from_then_on() -> None:
    taken = {"a", "a_2"}
    assert [fresh(stem, taken) for stem in ("b", "a", "a", "b")] == ["b", "a_3", "a_4", "b_2"]
