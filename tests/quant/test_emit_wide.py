"""int16 from a recipe to a compiled file: what the device computes, what the emitted QDQ model does, what is said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from axtool.runtime.model import load
from tests import tiny
from tests.plan.test_lower_wide import CHAIN, WEIGHTS
from tests.quant.qdq_case import Emitted, compiled, pairs, sqnr_db

RECIPE = """schema: axtool.quant/1
recipes: [{{method: minmax, bias: none}}]
layers:
  - match: {match}
    format: int16
"""


def with_recipe(folder: Path, match: str, graph: str = CHAIN, weights: dict = WEIGHTS) -> Emitted:
    source = tiny.save(folder / "m.onnx", graph, weights, opset=18)
    recipe = folder / "recipe.yaml"
    recipe.write_text(RECIPE.format(match=match))
    return compiled(source, "--recipe", recipe, optimize=None)


@pytest.fixture(scope="module")
def wide(tmp_path_factory) -> Emitted:
    return with_recipe(tmp_path_factory.mktemp("wide"), '{op: "*"}')


@pytest.fixture(scope="module")
def some(tmp_path_factory) -> Emitted:
    return with_recipe(tmp_path_factory.mktemp("some"), "{op: [HardSwish, GlobalAveragePool]}")


def kinds(emitted: Emitted) -> dict[str, str]:
    (device,) = emitted.engine().devices
    return {name: tensor.format.kind for name, tensor in device.program.tensors.items() if len(tensor.shape) == 4}


def test_a_recipe_makes_the_tensors_of_its_nodes_int16(some):
    found = kinds(some)
    # a: the sum that the table of HardSwish reads; e, r: averages; f and y read them in int8 again
    assert {name for name in "abcdefghijklmnqyz" if found.get(name) == "int16"} == {"a", "b", "e", "q"}


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_stored_model_with_int16_runs_on_both_engines(wide, engine):
    for feeds in wide.feeds[:2]:
        made, want = wide.engine(engine).run(feeds).outputs, wide.engine("reference").run(feeds).outputs
        for name, array in want.items():
            np.testing.assert_array_equal(made[name], array)


@pytest.mark.parametrize("which", ["wide", "some"])
def test_onnxruntime_computes_from_the_emitted_file_what_the_device_computes(which, request):
    emitted = request.getfixturevalue(which)
    for feeds in emitted.feeds:
        device, file = emitted.engine().run(feeds).outputs, emitted.run(feeds)
        for name, array in device.items():
            assert sqnr_db(array, file[name]) > (55 if which == "wide" else 33), name


def test_a_file_with_int16_is_of_the_first_opset_that_has_it(wide):
    assert [(item.domain, item.version) for item in wide.proto.opset_import] == [("", 21)]
    onnx.checker.check_model(wide.proto, full_check=True)
    known = {tensor.name: tensor.data_type for tensor in wide.proto.graph.initializer}
    types = {name: known[quantize.input[2]] for name, (quantize, _) in pairs(wide.proto).items()}
    assert types["b"] == onnx.TensorProto.INT16
    assert types["x"] == onnx.TensorProto.INT8


def test_info_and_verify_speak_of_int16(wide):
    text = tiny.axtool("info", wide.axm, "--tensors").out
    row = next(line for line in text.splitlines() if line.strip().startswith("b "))
    assert "int16" in row
    document = tiny.axtool("info", wide.axm, "--json").document
    described = {tensor["name"]: tensor for tensor in document["stages"][0]["tensors"]}
    assert described["b"]["format"] == "int16"
    data = wide.source.with_suffix(".npz")
    checked = tiny.axtool("verify", wide.axm, "--against", wide.source, "--data", data, "--layers", "--json").document
    levels = {row["output"]: row["used_levels"] for row in checked["layers"]}
    assert levels["b"] > 256


def test_explain_says_who_asked_for_int16(wide):
    said = tiny.axtool(
        "compile", wide.source, "--calib", wide.source.with_suffix(".npz"), "--recipe",
        wide.source.with_name("recipe.yaml"), "-o", wide.source.with_name("again.axm"), "--explain", "--json",
    )  # fmt: skip
    rows = {row["tensor"]: row for row in json.loads(said.out)["explain"]}
    assert rows["b"]["format"] == "int16"
    assert "int16 by layer entry 1" in rows["b"]["why"]


POOLED = """(float[1,3,16,16] x) => (float[1,4,8,8] y) {
  a = Conv(x, w) p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(a) y = Conv(p, v) }"""


def test_tensors_that_cannot_be_int16_stay_int8_with_a_warning(tmp_path):
    made = with_recipe(tmp_path, '{op: "*"}', POOLED, {"w": (4, 3, 1, 1), "v": (4, 4, 1, 1)})
    assert kinds(made) == {"x": "int8", "a": "int8", "p": "int8", "y": "int16"}


def test_an_entry_of_which_nothing_can_be_int16_is_refused_with_the_op(tmp_path):
    source = tiny.save(tmp_path / "m.onnx", POOLED, {"w": (4, 3, 1, 1), "v": (4, 4, 1, 1)})
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(RECIPE.format(match="{op: MaxPool}"))
    said = tiny.axtool("compile", source, "--calib", "random:2", "--recipe", recipe, "-o", tmp_path / "m.axm", "--json")
    assert said.code == 2
    assert said.document["error"]["code"] == "not-int16"
    assert "MaxPool is for int8 only" in said.document["error"]["message"]


def test_an_emitted_file_with_int16_compiles_again_to_the_same_numbers_without_samples(wide, tmp_path):
    again = tmp_path / "again.axm"
    said = tiny.axtool("compile", wide.qdq, "-o", again)
    assert said.code == 0, said.err
    other = load(again, engine="native")
    mine, theirs = (
        {name: tensor.format for name, tensor in model.devices[0].program.tensors.items() if len(tensor.shape) == 4}
        for model in (wide.engine(), other)
    )
    assert {fmt.kind for fmt in theirs.values()} == {"int8", "int16"}
    assert {name: fmt for name, fmt in theirs.items() if name in mine and mine[name].kind != fmt.kind} == {}
    for feeds in wide.feeds[:3]:
        made, want = other.run(feeds).outputs, wide.engine().run(feeds).outputs
        for name, array in want.items():
            assert sqnr_db(array, made[name]) > 70, name
