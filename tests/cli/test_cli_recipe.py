"""`axtool compile --recipe`: what a recipe changes, what the file keeps of it, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml

from axtool.artefact import axm
from axtool.cli.compile_command import RECIPE_HELP
from axtool.quant.recipe_file import list_recipes
from axtool.runtime.model import load
from axtool.types import QFormat
from tests import tiny
from tests.quant.qdq_case import run, sqnr_db
from tests.small_transformer import samples, written
from tests.tiny import Ran, axtool

RESIDUAL = """(float[1,4,8,8] x) => (float[1,6] y) {
  a = Conv <kernel_shape=[3,3], pads=[1,1,1,1]> (x, w1, b1)
  r = Relu(a)
  b = Conv <kernel_shape=[3,3], pads=[1,1,1,1]> (r, w2)
  s = Add(b, r)
  q = Sigmoid(s)
  p = GlobalAveragePool(q)
  f = Flatten(p)
  y = Gemm <transB=1> (f, w3)
}"""
WEIGHTS = {"w1": (4, 4, 3, 3), "b1": (4,), "w2": (4, 4, 3, 3), "w3": (6, 4)}


@pytest.fixture
def net(work: Path) -> Path:
    np.savez(work / "d.npz", x=np.random.default_rng(3).normal(0, 1, (16, 4, 8, 8)).astype(np.float32))
    return tiny.save(work / "net.onnx", RESIDUAL, WEIGHTS)


def recipe(work: Path, layers: list[dict[str, Any]], name: str = "mine.yaml", **rest: Any) -> Path:
    path = work / name
    path.write_text(yaml.safe_dump({"schema": "axtool.quant/1", **rest, "layers": layers}))
    return path


def compiled(net: Path, *words: object, out: str = "m.axm") -> Ran:
    ran = axtool("compile", net, "--calib", "d.npz", "-o", out, "--force", *words)
    assert ran.code == 0, ran.err
    return ran


def formats(path: str | Path = "m.axm") -> dict[str, QFormat]:
    return {name: t.format for s in axm.read(Path(path)).device_stages for name, t in s.plan.program.tensors.items()}


def reasons(net: Path, *words: object) -> dict[str, str]:
    rows = compiled(net, *words, "--explain", "--json").document["explain"]
    return {row["tensor"]: row["why"] for row in rows}


@pytest.mark.parametrize(("level", "name"), [("0", "plain"), ("1", "default"), ("2", "everything")])
def test_a_level_gives_the_bytes_of_its_recipe(net: Path, work: Path, level: str, name: str) -> None:
    compiled(net, "-O", level, "-q", out="a.axm")
    compiled(net, "--recipe", name, "-q", out="b.axm")
    assert (work / "a.axm").read_bytes() == (work / "b.axm").read_bytes()


@pytest.mark.parametrize("name", [name for name in list_recipes() if name != "detr-mixed"])  # of transformers only
def test_every_shipped_recipe_compiles_runs_and_agrees_with_float(net: Path, work: Path, name: str) -> None:
    compiled(net, "--recipe", name, "-q")
    ran = axtool("verify", "m.axm", "--against", net, "--data", "d.npz", "--layers", "--json")
    assert (ran.code, ran.document["verdict"]) == (0, "passed")


@pytest.mark.parametrize("name", list_recipes())
def test_every_shipped_recipe_is_named_in_the_help(name: str) -> None:
    assert name in RECIPE_HELP


@pytest.mark.parametrize(
    "words", [(), ("-O", "2"), ("--method", "mse"), ("--percentile", "99.9", "-O", "0"), ("--budget-cycles", "+80%")]
)
def test_the_recipe_in_a_file_compiles_to_the_same_bytes_again(net: Path, work: Path, words: tuple[str, ...]) -> None:
    compiled(net, *words, "-q", out="a.axm")
    stored = axtool("info", "a.axm", "--json").document["quantization"]["recipe"]
    for name, text in (("back.yaml", yaml.safe_dump(stored)), ("back.json", json.dumps(stored))):
        (work / name).write_text(text)
        compiled(net, "--recipe", name, "-q", out="b.axm")
        assert (work / "a.axm").read_bytes() == (work / "b.axm").read_bytes()


def test_a_recipe_of_layers_in_a_file_compiles_to_the_same_bytes_again(net: Path, work: Path) -> None:
    layers = [
        {"match": {"op": "*"}, "method": "minmax"},
        {"match": {"region": {"from": "r", "to": "s"}}, "percentile": 99.5},
        {"match": {"name": "y"}, "range": [-1e-05, 3]},
        {"match": {"op": ["Gemm"]}, "format": "float"},
    ]
    mine = recipe(work, layers, activations={"symmetric": True}, weights={"granularity": "tensor"}, name="my.yaml")
    compiled(net, "--recipe", mine, "-q", out="a.axm")
    stored = axtool("info", "a.axm", "--json").document["quantization"]["recipe"]
    assert [entry["nodes"] for entry in stored["resolved"]["layers"]][2:] == [["Gemm_y"], ["Gemm_y"]]
    (work / "back.yaml").write_text(yaml.safe_dump(stored))
    compiled(net, "--recipe", "back.yaml", "-q", out="b.axm")
    assert (work / "a.axm").read_bytes() == (work / "b.axm").read_bytes()


def test_the_file_says_what_was_kept(net: Path, work: Path) -> None:
    ran = compiled(net, "--json")
    stored = axtool("info", "m.axm", "--json").document["quantization"]["recipe"]
    kept = stored["resolved"]["kept"]
    tried = [(way["method"], way.get("percentile"), way["bias"]) for way in stored["recipes"]]
    assert (kept["method"], kept.get("percentile"), kept["bias"]) in tried
    assert ran.document["calibration"]["method"].startswith(kept["method"])
    assert ran.document["calibration"]["recipe"] == "default"


def test_the_file_says_what_was_tried_on_it_and_kept(net: Path, work: Path) -> None:
    calibration = compiled(net, "-O", "2", "--json").document["calibration"]
    kept = axtool("info", "m.axm", "--json").document["quantization"]["recipe"]["resolved"]["kept"]
    assert kept["round_weights"] == ("weights rounded for the data" in calibration["method"])
    assert kept["equalize"] == ("channels equalized" in calibration["method"])


def test_info_tells_the_recipe_and_what_its_entries_mean(net: Path, work: Path) -> None:
    mine = recipe(work, [{"match": {"op": "Gemm"}, "format": "float"}, {"match": {"name": "x"}, "range": [-2, 2]}])
    compiled(net, "--recipe", mine, "-q")
    text = axtool("info", "m.axm").out
    assert "  recipe  mine\n          float: 1 node (Gemm_y)\n          range -2 to 2: input (x)\n" in text


def test_float_keeps_nodes_on_the_host_and_says_why(net: Path, work: Path) -> None:
    compiled(net, "--recipe", recipe(work, [{"match": {"op": ["Add", "Gemm"]}, "format": "float"}]), "-q")
    rows = {row["node"]: row for row in axtool("info", "m.axm", "--json").document["support"]}
    assert {name for name, row in rows.items() if row["kind"] == "host"} >= {"Add_s", "Gemm_y"}
    assert rows["Add_s"]["reasons"] == ["The recipe 'mine' keeps it on the host (layer entry 1)."]
    assert axtool("verify", "m.axm", "--against", net, "--data", "d.npz", "--layers", "-q").code == 0


def test_mac_only_leaves_every_mac_and_nothing_else_on_the_device(net: Path, work: Path) -> None:
    compiled(net, "--recipe", "mac-only", "-q")
    rows = axtool("info", "m.axm", "--json").document["support"]
    assert {row["op"] for row in rows if row["kind"] == "device"} == {"Conv", "Gemm"}
    assert {row["op"] for row in rows if row["kind"] == "host"}.isdisjoint({"Conv", "Gemm"})
    made = formats()
    assert {name: made[name].kind for name in ("a", "b", "y")} == dict.fromkeys(("a", "b", "y"), "int16")
    assert {made[name].kind for name in ("x", "r")} == {"int8"}


def test_int16_holds_for_all_tensors_that_share_a_format_and_explain_names_the_entry(net: Path, work: Path) -> None:
    mine = recipe(work, [{"match": {"op": "Relu"}, "format": "int16"}, {"match": {"name": "q"}, "format": "int16"}])
    why = reasons(net, "--recipe", mine)
    assert why["r"].endswith("; int16 by layer entry 1 of recipe 'mine'")
    assert why["q"].endswith("; int16 by layer entry 2 of recipe 'mine'")
    made = formats()
    assert {name for name in ("x", "r", "b", "s", "q", "y") if made[name].kind == "int16"} == {"r", "q"}
    assert axtool("verify", "m.axm", "--against", net, "--data", "d.npz", "--layers", "-q").code == 0


def test_a_later_int8_takes_int16_back(net: Path, work: Path) -> None:
    layers = [{"match": {"op": ["Relu", "Add"]}, "format": "int16"}, {"match": {"name": "r"}, "format": "int8"}]
    why = reasons(net, "--recipe", recipe(work, layers))
    assert {name: formats()[name].kind for name in ("r", "s")} == {"r": "int8", "s": "int16"}
    assert "recipe" not in why["r"]


def test_int16_and_a_range_of_one_tensor_go_together(net: Path, work: Path) -> None:
    mine = recipe(work, [{"match": {"name": "s"}, "format": "int16", "range": [-4, 4]}])
    compiled(net, "--recipe", mine, "-q", out="a.axm")
    assert formats("a.axm")["s"].kind == "int16"
    assert 4 / 32767 <= formats("a.axm")["s"].scale[0] < 9 / 32767  # with room beyond the range
    stored = axtool("info", "a.axm", "--json").document["quantization"]["recipe"]
    (work / "back.yaml").write_text(yaml.safe_dump(stored))
    compiled(net, "--recipe", "back.yaml", "-q", out="b.axm")
    assert (work / "a.axm").read_bytes() == (work / "b.axm").read_bytes()


def test_int16_of_an_op_that_has_no_such_form_is_refused_with_the_reason(work: Path) -> None:
    pool = "y = MaxPool <kernel_shape=[2,2], strides=[2,2]> (a)"
    graph = f"(float[1,4,8,8] x) => (float[1,4,4,4] y) {{ a = Conv(x, w) {pool} }}"
    np.savez(work / "d.npz", x=np.random.default_rng(3).normal(0, 1, (8, 4, 8, 8)).astype(np.float32))
    model = tiny.save(work / "pool.onnx", graph, {"w": (4, 4, 1, 1)})
    mine = recipe(work, [{"match": {"op": "MaxPool"}, "format": "int16"}])
    ran = axtool("compile", model, "--calib", "d.npz", "--recipe", mine, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "not-int16")
    assert "MaxPool" in ran.document["error"]["message"]


def test_a_model_of_which_the_recipe_leaves_nothing_is_refused_with_the_reasons(net: Path, work: Path) -> None:
    mine = recipe(work, [{"match": {"op": "*"}, "format": "float"}])
    ran = axtool("compile", net, "--calib", "d.npz", "--recipe", mine, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (3, "nothing-for-the-device")
    assert "recipe 'mine' keeps it on the host" in ran.document["error"]["details"][0]


def test_a_range_replaces_what_calibration_found(net: Path, work: Path) -> None:
    compiled(net, "--recipe", recipe(work, [{"match": {"name": "s"}, "range": [-51.0, 204.0]}]), "-q")
    assert formats()["s"] == QFormat("int8", (1.0,), (-77,))


def test_a_range_of_one_tensor_holds_for_all_that_share_its_format(net: Path, work: Path) -> None:
    compiled(net, "--recipe", recipe(work, [{"match": {"name": "a"}, "range": [0, 25.5]}]), "-q")
    assert formats()["r"].scale == (np.float32(0.1),)


def test_the_later_of_two_entries_wins(net: Path, work: Path) -> None:
    layers = [{"match": {"name": "s"}, "range": [0, 255]}, {"match": {"op": "*"}, "range": [0, 510]}]
    compiled(net, "--recipe", recipe(work, layers), "-q")
    assert {formats()[name].scale for name in ("s", "b", "y")} == {(2.0,)}


def test_a_method_of_a_layer_is_that_of_its_tensors_only(net: Path, work: Path) -> None:
    compiled(net, "-O", "0", "--method", "percentile", "--percentile", "90", "-q", out="narrow.axm")
    compiled(net, "-O", "0", "--method", "minmax", "-q", out="wide.axm")
    mine = recipe(work, [{"match": {"name": "s"}, "method": "minmax"}])
    compiled(net, "-O", "0", "--percentile", "90", "--recipe", mine, "-q")
    assert formats()["s"] == formats("wide.axm")["s"] != formats("narrow.axm")["s"]
    assert formats()["b"] == formats("narrow.axm")["b"]


def test_a_percentile_of_a_layer_is_found_where_all_else_is_minmax(net: Path, work: Path) -> None:
    mine = recipe(work, [{"match": {"name": "s"}, "percentile": 90}])
    compiled(net, "-O", "0", "--method", "minmax", "--recipe", mine, "-q")
    compiled(net, "-O", "0", "--percentile", "90", "-q", out="narrow.axm")
    assert formats()["s"] == formats("narrow.axm")["s"]


def test_symmetric_activations_have_the_zero_point_0(net: Path, work: Path) -> None:
    compiled(net, "--recipe", "symmetric", "-q")
    assert {fmt.zero_point for fmt in formats().values() if fmt.kind == "int8"} == {(0,)}


def test_weights_per_tensor_have_one_multiplier_a_layer(net: Path, work: Path) -> None:
    def mantissas(path: str) -> list[int]:
        program = axm.read(Path(path)).device_stages[0].plan.program
        layer = next(layer for layer in program.layers if "Conv_b" in layer.origin)
        params = next(program.constants[name] for name in layer.inputs if name.endswith("params"))
        return [int(v) for v in np.asarray(params).reshape(-1, 4, 16)[0, 1, :4]]

    compiled(net, "-O", "0", "-q", out="channel.axm")
    compiled(net, "-O", "0", "--recipe", "per-tensor", "-q", out="tensor.axm")
    assert len(set(mantissas("channel.axm"))) > len(set(mantissas("tensor.axm"))) == 1


def test_explain_names_the_entry_that_decided(net: Path, work: Path) -> None:
    layers = [{"match": {"name": "s"}, "range": [0, 1]}, {"match": {"name": "b"}, "method": "mse"}]
    why = reasons(net, "--recipe", recipe(work, layers))
    assert why["s"].endswith("; range by layer entry 1 of recipe 'mine'")
    assert why["b"].endswith("; mse by layer entry 2 of recipe 'mine'")
    assert "recipe" not in why["x"]


def test_ranges_from_a_file_leave_a_recipe_its_single_ranges_and_say_so(net: Path, work: Path) -> None:
    compiled(net, "--save-ranges", "r.json", "-q")
    mine = recipe(work, [{"match": {"name": "s"}, "range": [0, 255]}])
    ran = axtool("compile", net, "--ranges", "r.json", "--recipe", mine, "-o", "b.axm")
    assert "warning: ranges are given: nothing is tried, and of --recipe only" in ran.err
    assert formats("b.axm")["s"].scale == (1.0,)
    assert formats("b.axm")["b"] == formats()["b"]


def test_a_method_beside_given_ranges_is_said_to_change_nothing(net: Path, work: Path) -> None:
    compiled(net, "--save-ranges", "r.json", "-q")
    ran = axtool("compile", net, "--ranges", "r.json", "--method", "mse", "-o", "b.axm")
    assert "warning: ranges are given: --method changes nothing" in ran.err


def test_saved_ranges_hold_what_the_recipe_changed(net: Path, work: Path) -> None:
    mine = recipe(work, [{"match": {"name": "s"}, "range": [0, 255]}])
    compiled(net, "--recipe", mine, "--save-ranges", "r.json", "-q")
    assert json.loads((work / "r.json").read_text())["tensors"]["s"] == [0, 255]


def test_an_entry_for_the_host_alone_is_said_to_change_nothing(work: Path) -> None:
    tiny.save(work / "two.onnx", tiny.TWO_STAGES, tiny.TWO_STAGES_WEIGHTS)
    mine = recipe(work, [{"match": {"op": "Softmax"}, "range": [0, 1]}])
    words = ("--calib", "random:2", "--input-shape", "image:1,3,8,8", "--recipe", mine)
    ran = axtool("compile", "two.onnx", *words)
    assert ran.code == 0
    assert "layer entry 1 of recipe 'mine' changes nothing: the device does not have 'chances'" in ran.err


def test_a_range_of_a_tensor_whose_format_the_model_brings_is_said_to_change_nothing(net: Path, work: Path) -> None:
    compiled(net, "--emit", "qdq=q.onnx", "-q", out="a.axm")
    mine = recipe(work, [{"match": {"name": "s"}, "range": [0, 1]}])
    ran = compiled(work / "q.onnx", "--recipe", mine)
    assert "layer entry 1 of recipe 'mine' changes nothing: the model brings the formats of 's'" in ran.err


def test_a_quantized_model_may_have_nodes_kept_in_float(net: Path, work: Path) -> None:
    compiled(net, "--emit", "qdq=q.onnx", "-q", out="a.axm")
    compiled(work / "q.onnx", "--recipe", "mac-only", "-q")
    ran = axtool("verify", "m.axm", "--against", "q.onnx", "--data", "d.npz", "--min-sqnr", "40", "--json")
    assert (ran.code, ran.document["verdict"]) == (0, "passed")


def test_a_name_that_means_nothing_is_refused_before_any_sample_is_read(net: Path, work: Path) -> None:
    mine = recipe(work, [{"match": {"name": "Conv_aa"}, "format": "float"}])
    ran = axtool("compile", net, "--calib", "d.npz", "--recipe", mine)
    assert (ran.code, (work / "net.axm").exists()) == (2, False)
    assert "net.onnx: the recipe 'mine' does not fit the model: layer entry 1: no node or tensor is called" in ran.err
    assert "did you mean Conv_a" in ran.err
    assert "calibrating" not in ran.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--recipe", "defualt"), "unknown-recipe", "did you mean default?"),
        (("--recipe", "no.yaml"), "file-not-found", "no.yaml"),
        (("--recipe", "default", "--method", "mse"), "bad-option", "and so does --method"),
        (("--recipe", "plain", "--percentile", "99"), "bad-option", "and so does --percentile"),
        (("--recipe", "everything", "-O", "2"), "bad-option", "and so does --optimize"),
    ],
)
def test_what_does_not_go_together_is_refused(net: Path, words: tuple[str, ...], code: str, said: str) -> None:
    ran = axtool("compile", net, "--calib", "d.npz", *words, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, code)
    assert said in ran.err


def test_a_recipe_file_is_never_overwritten(net: Path, work: Path) -> None:
    mine = recipe(work, [{"match": {"op": "Conv"}, "format": "int8"}], name="net.axm")
    (work / "mine.yaml").symlink_to(mine)
    ran = axtool("compile", net, "--calib", "d.npz", "--recipe", "mine.yaml", "--force")
    assert (ran.code, "is an input" in ran.err) == (2, True)


def test_a_recipe_that_a_hostile_file_claims_is_refused_cleanly(net: Path, work: Path) -> None:
    compiled(net, "-q")
    data = (work / "m.axm").read_bytes()
    (work / "m.axm").write_bytes(data.replace(b"axtool.quant/1", b"axtool.quant/9"))
    ran = axtool("verify", "m.axm", "--against", net, "--data", "d.npz")
    assert (ran.code, "the recipe in the file: not a recipe" in ran.err) == (2, True)


def test_the_numbers_of_a_recipe_do_not_depend_on_the_number_of_processes(net: Path, work: Path) -> None:
    mine = recipe(work, [{"match": {"name": "s"}, "percentile": 99}, {"match": {"op": "Gemm"}, "format": "float"}])
    for jobs in ("1", "2"):
        compiled(net, "--recipe", mine, "-j", jobs, "-q", out=f"{jobs}.axm")
    assert (work / "1.axm").read_bytes() == (work / "2.axm").read_bytes()


def test_a_compiled_model_of_a_recipe_runs_on_both_engines_alike(net: Path, work: Path) -> None:
    compiled(net, "--recipe", "symmetric", "-q")
    feeds = {"x": np.load("d.npz")["x"][:1]}
    one, other = (load(work / "m.axm", engine=engine).run(feeds).outputs["y"] for engine in ("reference", "native"))
    np.testing.assert_array_equal(one, other)


def test_of_many_stages_the_first_are_shown_and_the_rest_counted(work: Path) -> None:
    links = " ".join(f"c{i} = Conv({'x' if not i else f'r{i - 1}'}, w) r{i} = Relu(c{i})" for i in range(6))
    model = tiny.save(
        work / "chain.onnx", f"(float[1,4,4,4] x) => (float[1,4,4,4] r5) {{ {links} }}", {"w": (4, 4, 1, 1)}
    )
    assert axtool("compile", model, "--calib", "random:2", "--recipe", "mac-only", "-o", "m.axm", "-q").code == 0
    assert (
        "device | host | device | … (12 stages, 6 of them on the device); host: 6 Relu" in axtool("info", "m.axm").out
    )


def test_an_entry_scales_the_tensors_of_its_nodes_only(net: Path, work: Path) -> None:
    recipe(work, [{"match": {"op": "Add"}, "activations": {"symmetric": True}}])
    compiled(net, "--recipe", "mine.yaml", "-q")
    assert formats()["s"].zero_point == (0,)
    assert formats()["x"].zero_point != (0,)


def test_what_a_relu_makes_keeps_all_its_steps_where_all_else_is_symmetric(net: Path, work: Path) -> None:
    recipe(work, [], activations={"symmetric": True, "asymmetric_after_relu": True})
    compiled(net, "--recipe", "mine.yaml", "-q")
    assert {name: fmt.zero_point for name, fmt in formats().items() if name in ("x", "r", "s")} == {
        "x": (0,), "r": (-128,), "s": (0,),
    }  # fmt: skip


def test_a_later_turn_is_another_range_and_saved_ranges_keep_it(net: Path, work: Path) -> None:
    early = [{"match": {"op": "Relu"}, "range": [0, 0.1]}]
    recipe(work, early, "early.yaml")
    recipe(work, [*early, {"match": {"op": "Add"}, "turn": 2}], "late.yaml")
    compiled(net, "--recipe", "early.yaml", "-O", "0", "-q")
    seen = formats()["s"]
    compiled(net, "--recipe", "late.yaml", "-O", "0", "-q", "--save-ranges", "r.json")
    clipped, program = formats()["s"], axm.read(Path("m.axm")).device_stages[0].plan.program
    assert clipped.scale[0] < seen.scale[0] / 2
    ran = axtool("compile", net, "--ranges", "r.json", "-o", "n.axm", "-O", "0")
    assert ran.code == 0, ran.err
    assert axm.read(Path("n.axm")).device_stages[0].plan.program.tensors == program.tensors


def test_an_entry_that_may_mean_nothing_is_no_fault(net: Path, work: Path) -> None:
    layers = [{"match": {"op": "Softmax"}, "format": "fx32", "optional": True}]
    recipe(work, layers)
    compiled(net, "--recipe", "mine.yaml", "-q")
    assert "fx32: no node" in axtool("info", "m.axm").out


def test_a_format_that_the_chip_lacks_is_refused_before_calibration(net: Path, work: Path) -> None:
    recipe(work, [{"match": {"op": "Gemm"}, "format": "fp16"}])
    ran = axtool("compile", net, "--calib", "nowhere.npz", "--recipe", "mine.yaml", "--target", "metis")
    assert ran.code == 2
    assert "asks for fp16, which metis does not have: its formats are int8" in ran.err


def test_a_budget_may_send_the_end_of_the_model_to_the_host_and_saved_ranges_send_it_again(
    net: Path, work: Path
) -> None:
    ways = [{"method": "minmax", "bias": "none"}]
    budget = {"sqnr_db": 44.5, "formats": ["float"]}
    recipe(work, [], recipes=ways, weights={"granularity": "tensor"}, budget=budget)
    ran = compiled(net, "--recipe", "mine.yaml", "--save-ranges", "r.json", "--json")
    (step,) = ran.document["calibration"]["mixed"]
    assert (step["format"], step["outputs"]) == ("float", ["y"])
    assert step["sqnr_db"] >= 44.5
    assert axtool("verify", "m.axm", "--against", net, "--data", "d.npz").code == 0
    again = axtool("compile", net, "--ranges", "r.json", "-o", "n.axm", "--json")
    assert again.code == 0, again.err
    assert again.document["nodes"] == ran.document["nodes"]
    assert "float       1 node: 'Gemm_y'; 4" in compiled(net, "--recipe", "mine.yaml").out


def test_the_recipe_of_detr_agrees_with_the_mixed_model_in_onnxruntime(work: Path) -> None:
    model, calib, _ = written(work)
    words = ("--calib", calib, "--recipe", "detr-mixed", "--target", "qc-u-1d5-8mb", "--emit", "qdq=q.onnx")
    ran = axtool("compile", model, *words, "-o", "m.axm", "--json")
    assert (ran.code, len(ran.document["stages"])) == (0, 1), ran.err
    device, mixed = load(Path("m.axm")), onnx.load("q.onnx")
    for image in samples(3, seed=9):
        made, want = device.run({"image": image}).outputs, run(mixed, {"image": image})
        assert min(sqnr_db(want[name], made[name]) for name in want) > 30  # fp16 in float32 there
