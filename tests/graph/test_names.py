"""The user's own names, through renames and folds."""

from pathlib import Path

import pytest

from axtool.errors import AxError
from axtool.graph.load import Loaded, load_model
from tests.graph.load_models import model, node, save, says


@pytest.fixture
def loaded(tmp_path: Path) -> Loaded:
    nodes = [node("Neg", ["x"], ["stem"]), node("Relu", ["stem"], ["head"]), node("Abs", ["head"], ["y"])]
    return load_model(save(tmp_path, model(nodes)))


def test_at_first_every_name_is_its_own(loaded: Loaded) -> None:
    assert loaded.names.user == ("x", "stem", "head", "y")
    assert [loaded.names.to_clean(name) for name in loaded.names.user] == list(loaded.names.user)


def test_an_unknown_name_gets_the_nearest(loaded: Loaded) -> None:
    with pytest.raises(AxError) as caught:
        loaded.names.to_clean("heed")
    says(caught.value, 2, "unknown-tensor", "heed", "head")


def test_a_renamed_tensor_is_found_both_ways(loaded: Loaded) -> None:
    loaded.model.graph[1].outputs[0].name = "renamed"
    names = loaded.names.after(loaded.model, {"head": "renamed"})
    assert names.to_clean("head") == "renamed"
    assert names.to_user("renamed") == "head"
    assert names.to_user("stem") == "stem"


def test_a_second_rename_follows_the_first(loaded: Loaded) -> None:
    value = loaded.model.graph[1].outputs[0]
    value.name = "once"
    names = loaded.names.after(loaded.model, {"head": "once"})
    value.name = "twice"
    assert names.after(loaded.model, {"once": "twice"}).to_clean("head") == "twice"


def test_a_folded_tensor_says_so(loaded: Loaded) -> None:
    loaded.model.graph[0].outputs[0].name = "other"
    with pytest.raises(AxError) as caught:
        loaded.names.after(loaded.model).to_clean("stem")
    says(caught.value, 2, "folded-tensor", "stem")
