"""Recipe files: what comes with the package, what the options stand for, and every fault by its line and key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from axtool.errors import UsageError
from axtool.graph.front import Reading, read_front
from axtool.plain_yaml import MOST_BYTES, MOST_DEEP, parse_plain
from axtool.quant.follow import wish_of
from axtool.quant.recipe import REFINED, recipes_of
from axtool.quant.recipe_file import (
    LEVELS,
    MOST_PATTERNS,
    chosen_recipe,
    list_recipes,
    load_recipe,
    recipe_from_dict,
)
from axtool.target_file import load_target
from tests.small_transformer import written

HEAD = "schema: axtool.quant/1\n"


def read(tmp_path: Path, text: str) -> Any:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return load_recipe(path)


def faults(tmp_path: Path, text: str) -> tuple[str, ...]:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text)
    assert caught.value.exit == 2
    assert caught.value.where == str(tmp_path / "mine.yaml")
    return caught.value.details or (caught.value.what,)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_the_shipped_recipe_of_a_level_tries_what_the_level_tries(level: int) -> None:
    file = load_recipe(LEVELS[level])
    assert file.tried == recipes_of(None, None, level)
    assert file.refined == REFINED[level]


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_level_is_its_recipe_file(level: int) -> None:
    assert chosen_recipe(None, optimize=level) == chosen_recipe(LEVELS[level])


def test_without_options_the_default_recipe_is_meant() -> None:
    assert chosen_recipe(None) == chosen_recipe("default")


@pytest.mark.parametrize("name", list_recipes())
def test_a_shipped_recipe_is_called_like_its_file_and_says_what_it_is_for(name: str) -> None:
    file = load_recipe(name)
    assert (file.name, bool(file.description)) == (name, True)


def test_the_recipe_of_detr_finds_each_part_of_a_small_one(tmp_path: Path) -> None:
    target = load_target("qc-u-1d5-8mb")
    model, _, _ = written(tmp_path)
    front = read_front(model, target, Reading(), wish=wish_of(load_recipe("detr-mixed"), target))
    (stage,) = front.parts.stages
    kinds = {site.op: set[str]() for site in stage.sites}
    for site in stage.sites:
        kinds[site.op].add(stage.precision.get(site.outputs[0], "int8"))
    wanted = {"Conv": "fp16", "MatMul": "fp16", "Attention": "fp16", "Gemm": "int8", "LayerNormalization": "fx32"}
    assert {op: kinds[op] for op in wanted} == {op: {kind} for op, kind in wanted.items()}
    assert [stage.precision[name] for name in ("image", "l0_sum1", "box2", "box")] == ["fx32"] * 4


@pytest.mark.parametrize("name", list_recipes())
def test_a_recipe_written_as_plain_values_is_read_as_the_same_one(name: str, tmp_path: Path) -> None:
    file = chosen_recipe(name)
    assert recipe_from_dict(file.to_dict()) == file
    assert read(tmp_path, yaml.safe_dump(file.to_dict())) == file


def test_a_chosen_method_is_tried_with_and_without_correction() -> None:
    assert chosen_recipe(None, "mse").tried == recipes_of("mse", None, 1)


def test_a_recipe_that_leaves_the_tried_ones_open_takes_those_of_the_options() -> None:
    file = chosen_recipe("mac-only", "mse", None, 2)
    assert (file.tried, file.refined, len(file.layers)) == (recipes_of("mse", None, 2), REFINED[2], 2)


@pytest.mark.parametrize("options", [("mse", None, None), (None, 99.9, None), (None, None, 1)])
def test_a_recipe_and_an_option_that_both_say_what_is_tried_are_refused(options: Any) -> None:
    with pytest.raises(UsageError, match="says which recipes are tried, and so does --"):
        chosen_recipe("default", *options)


def test_an_unknown_name_gets_the_nearest_ones() -> None:
    with pytest.raises(UsageError) as caught:
        load_recipe("mac_only")
    assert (caught.value.code, caught.value.hint) == ("unknown-recipe", "did you mean mac-only?")


def test_a_file_without_a_name_is_called_like_the_file(tmp_path: Path) -> None:
    assert read(tmp_path, HEAD).name == "mine"


def test_one_word_stands_for_a_list_of_one(tmp_path: Path) -> None:
    file = read(tmp_path, HEAD + "layers: [{match: {op: Conv}, format: int8}]")
    assert file.layers[0].match.op == ["Conv"]


def test_numbers_may_be_written_as_json_writes_them(tmp_path: Path) -> None:
    file = read(tmp_path, HEAD + "layers: [{match: {op: Conv}, range: [-1e-05, 1e3]}]")
    assert file.layers[0].range == [-1e-5, 1000.0]


# text after the schema line -> what is said of it
WRONG: dict[str, tuple[str, str]] = {
    "an unknown key": ("recipe: []", "line 2: recipe: unknown key; did you mean recipes"),
    "an unknown key inside": (
        "layers:\n  - match: {op: Conv}\n    fromat: int8",
        "line 4: layers[0].fromat: unknown key; did you mean format",
    ),
    "an unknown key of a match": (
        "layers:\n  - match:\n      nam: a",
        "line 4: layers[0].match.nam: unknown key; did you mean name?",
    ),
    "an unknown key of a region": (
        "layers: [{match: {region: {form: a}}, format: int8}]",
        "line 2: layers[0].match.region.form: unknown key; did you mean from?",
    ),
    "an unknown format": (
        "layers:\n- {match: {op: Conv}, format: int61}",
        "line 3: layers[0].format: want 'int8', 'int16', 'fp16', 'fx32' or 'float', found 'int61'; did you mean",
    ),
    "an unknown method": (
        "recipes:\n- {method: min-max}",
        "line 3: recipes[0].method: want 'minmax', 'percentile', 'mse' or 'entropy', found 'min-max'; did you mean "
        "minmax?",
    ),
    "a percentile of minmax": (
        "recipes: [{method: minmax, percentile: 99}]",
        "line 2: recipes[0]: percentile means nothing with method minmax",
    ),
    "a percentile over 100": ("recipes: [{percentile: 101}]", "line 2: recipes[0].percentile: want less than or equal"),
    "a word for a number": ("recipes: [{percentile: high}]", "line 2: recipes[0].percentile: want a valid number"),
    "a yes for a number": ("recipes: [{percentile: yes}]", "line 2: recipes[0].percentile: want a valid number"),
    "no recipes": ("recipes: []", "line 2: recipes: List should have at least 1 item"),
    "a number for a name": (
        "layers: [{match: {name: 12:30}, format: int8}]",
        "line 2: layers[0].match.name: want a valid list, found 750",
    ),
    "a word for a switch": ("activations: {symmetric: maybe}", "line 2: activations.symmetric: want a valid boolean"),
    "an exception of nothing": (
        "activations: {asymmetric_after_relu: true}",
        "line 2: activations: asymmetric_after_relu is an exception of symmetric: true",
    ),
    "a scale of what has none": (
        "layers: [{match: {op: MatMul}, format: fp16, weights: {granularity: tensor}}]",
        "layers[0]: weights says how integers are scaled; fp16 has no scale",
    ),
    "a place that is none": (
        "layers: [{match: {op: Conv, position: first}, format: fp16}]",
        "layers[0].match.position[0]: want a number, or two with a colon such as '1:-1', found 'first'",
    ),
    "a turn of a given range": (
        "layers: [{match: {op: Conv}, range: [0, 1], turn: 2}]",
        "layers[0]: a range that is given is looked for in no turn",
    ),
    "nothing left out": (
        "layers: [{match: {op: Conv, except: {}}, format: fp16}]",
        "layers[0].match.except: want op, name, or both",
    ),
    "a match of nothing": (
        "layers: [{match: {}, format: int8}]",
        "line 2: layers[0].match: want op, name, region or inputs",
    ),
    "inputs beside an op": (
        "layers: [{match: {inputs: true, op: Conv}, format: fx32}]",
        "layers[0].match: inputs stands alone: inputs of the model are no nodes",
    ),
    "an input on the host": (
        "layers: [{match: {inputs: true}, format: float}]",
        "layers[0]: float means nothing for an input of the model; formats are int8, int16 and fx32",
    ),
    "a budget of nothing": (
        "budget: {}",
        "line 2: budget: want sqnr_db, cycles (0.05 is 5 % more), formats, or several",
    ),
    "no match": ("layers: [{format: int8}]", "line 2: layers[0].match: missing"),
    "a region of nothing": ("layers: [{match: {region: {}}, format: int8}]", "want from, to, or both"),
    "an entry that says nothing": ("layers: [{match: {op: Conv}}]", "line 2: layers[0]: says nothing: want format"),
    "a range upside down": ("layers: [{match: {op: Conv}, range: [1, 0]}]", "layers[0]: range: 1 is above 0"),
    "a range of three": (
        "layers: [{match: {op: Conv}, range: [0, 1, 2]}]",
        "layers[0].range: List should have at most 2",
    ),
    "an infinite range": ("layers: [{match: {op: Conv}, range: [0, .inf]}]", "layers[0].range[1]: want"),
    "a range and a method": (
        "layers: [{match: {op: Conv}, range: [0, 1], method: mse}]",
        "layers[0]: range and method both say what the range is",
    ),
    "an empty pattern": ("layers: [{match: {op: ''}, format: int8}]", "layers[0].match.op[0]: String should have at"),
    "layers as a mapping": ("layers: {a: 1}", "line 2: layers: want a valid list"),
    "a null": ("weights:", "line 2: weights: want a mapping with the keys"),
    "an anchor": ("name: &a b\ndescription: *a", "line 2: an anchor or alias"),
    "a merge": ("weights: {<<: {granularity: tensor}}", "line 2: the key '<<' is no text"),
    "a key twice": ("name: a\nname: b", "line 3: the key 'name' comes twice"),
    "a key that is a number": ("weights: {1: 2}", "line 2: the key '1' is no text"),
    "a key that is a list": ("? [a, b]\n: c", "line 2: the key of several values is no text"),
    "half a character": ('name: "\\ud83d"', "line 2: a text with half a character"),
    "a date": ("name: 2026-01-01", "line 2: timestamp is no plain value"),
    "a tag": ("name: !!python/object:os.system x", "line 2: python/object:os.system is no plain value"),
    "bytes": ("name: !!binary aGk=", "line 2: binary is no plain value"),
    "two documents": ("---\nname: b", "expected a single document"),
    "no YAML": ("name: [", "not a file of plain YAML values"),
    "depth": ("name: " + "[" * (MOST_DEEP + 1), "line 2: nested too deep"),
    "too many patterns": (
        f"layers: [{{match: {{name: {['a'] * 600}, op: {['b'] * 600}}}, format: int8}}]",
        f"1,200 patterns in all; at most {MOST_PATTERNS:,}",
    ),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_what_is_wrong_is_told_with_its_line(case: str, tmp_path: Path) -> None:
    text, said = WRONG[case]
    assert said in "\n".join(faults(tmp_path, HEAD + text))


def test_all_faults_are_told(tmp_path: Path) -> None:
    assert len(faults(tmp_path, HEAD + "a: 1\nb: 2\nweights: {granularity: row}")) == 3


@pytest.mark.parametrize("text", ["", "[]", "a", "null", "1"])
def test_a_file_that_is_no_mapping_is_refused(text: str, tmp_path: Path) -> None:
    assert "want a mapping of keys" in faults(tmp_path, text)[0]


def test_a_file_without_a_schema_is_refused(tmp_path: Path) -> None:
    assert faults(tmp_path, "name: a") == ("line 1: schema: missing; want axtool.quant/1",)


def test_a_file_of_another_schema_is_refused(tmp_path: Path) -> None:
    assert (
        "line 1: schema: want 'axtool.quant/1', found 'axtool.quant/2'" in faults(tmp_path, "schema: axtool.quant/2")[0]
    )


def test_a_large_file_is_refused_unread(tmp_path: Path) -> None:
    assert f"larger than {MOST_BYTES:,} bytes" in faults(tmp_path, HEAD + "#" * MOST_BYTES)[0]


def test_a_file_of_bytes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not a file of plain YAML values"):
        load_recipe(tmp_path / "mine.yaml")


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_recipe(tmp_path / "no.yaml")
    assert caught.value.code == "file-not-found"


def test_the_line_of_a_value_is_that_of_its_key() -> None:
    plain = parse_plain("a:\n  b:\n    - 1\n    - c: 2\n")
    assert [plain.line(place) for place in (("a",), ("a", "b"), ("a", "b", 1, "c"), ("a", "x"))] == [1, 2, 4, 1]


def test_a_character_that_json_writes_in_two_halves_is_one() -> None:
    text = json.dumps({"a": ["\U0001f600"], "\U0001f600": {"b": "\u00fc"}})
    assert text.isascii()
    assert parse_plain(text).values == {"a": ["\U0001f600"], "\U0001f600": {"b": "\u00fc"}}
