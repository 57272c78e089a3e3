"""`axtool compile --budget-sqnr`, `--budget-cycles`: tensors in int16, and what is said about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from axtool.artefact import axm
from tests import tiny
from tests.tiny import Ran, axtool

NET = """(float[1,3,8,8] x) => (float[1,6] y) {
  a = Conv <kernel_shape=[3,3], pads=[1,1,1,1]> (x, w1)
  b = Conv <kernel_shape=[3,3], pads=[1,1,1,1], group=4> (a, w2)
  r = Relu(b)
  p = GlobalAveragePool(r)
  f = Flatten(p)
  y = Gemm <transB=1> (f, w3)
}"""


@pytest.fixture
def net(work: Path) -> Path:
    rng = np.random.default_rng(3)
    np.savez(work / "d.npz", x=rng.normal(0, 1, (16, 3, 8, 8)).astype(np.float32))
    channels = np.array([1, 0.01, 0.003, 30]).reshape(4, 1, 1, 1)  # int8 has one scale for all four
    weights = {"w1": rng.normal(0, 1, (4, 3, 3, 3)) * channels, "w2": rng.normal(0, 1, (4, 1, 3, 3)) / channels}
    return tiny.save(work / "net.onnx", NET, {**weights, "w3": (6, 4)})


def compiled(net: Path, *words: object, out: str = "m.axm") -> Ran:
    return axtool("compile", net, "--calib", "d.npz", "--method", "minmax", "-o", out, "--force", "--json", *words)


def calibration(ran: Ran) -> Any:
    assert ran.code == 0, ran.err
    return ran.document["calibration"]


def wide(path: str = "m.axm") -> set[str]:
    (stage,) = axm.read(Path(path)).device_stages
    return {name for name, tensor in stage.plan.program.tensors.items() if tensor.format.kind == "int16"}


def test_the_tensor_that_loses_most_becomes_int16_first(net: Path) -> None:
    values = {"schema": "axtool.quant/1", "recipes": [{"method": "minmax"}], "budget": {"cycles": 0.5}}
    Path("plain.yaml").write_text(yaml.safe_dump(values))
    ran = axtool("compile", net, "--calib", "d.npz", "--recipe", "plain.yaml", "-o", "m.axm", "--json")
    steps = calibration(ran)["int16"]
    assert steps[0]["tensor"] == "a"
    assert "a" in wide()
    figures = [ran.document["calibration"]["trials"][0]["sqnr_db"], *(step["sqnr_db"] for step in steps)]
    assert figures == sorted(figures)


def test_no_more_cycles_are_added_than_the_budget_has(net: Path) -> None:
    steps = calibration(compiled(net, "--budget-cycles", "+1%"))["int16"]
    assert all(step["cycles_added"] <= 0.01 for step in steps)


def test_ranges_keep_which_tensors_are_int16(net: Path) -> None:
    calibration(compiled(net, "--budget-cycles", "+50%", "--save-ranges", "r.json"))
    again = axtool("compile", net, "--ranges", "r.json", "-o", "again.axm")
    assert again.code == 0, again.err
    assert wide() == wide("again.axm") != set()


def test_ranges_with_an_int16_tensor_that_is_not_there_are_refused(net: Path) -> None:
    calibration(compiled(net, "--budget-cycles", "+50%", "--save-ranges", "r.json"))
    document = json.loads(Path("r.json").read_text())
    for wrong in (["nothing"], "a", [3]):
        Path("r.json").write_text(json.dumps({**document, "int16": wrong}))
        ran = axtool("compile", net, "--ranges", "r.json", "-o", "n.axm", "--json")
        assert (ran.code, ran.document["error"]["code"]) == (2, "bad-ranges")


def test_info_says_what_became_int16_and_what_it_costs(net: Path) -> None:
    calibration(compiled(net, "--budget-cycles", "+50%"))
    text = axtool("info", "m.axm", "-v").out
    assert "int16" in text
    assert "of modelled cycles" in text


def test_the_recipe_that_the_file_keeps_makes_the_same_file(net: Path) -> None:
    calibration(compiled(net, "--budget-cycles", "+50%"))
    kept = axtool("info", "m.axm", "--json").document["quantization"]["recipe"]
    Path("kept.yaml").write_text(yaml.safe_dump(kept))
    ran = axtool("compile", net, "--calib", "d.npz", "--recipe", "kept.yaml", "-o", "again.axm")
    assert ran.code == 0, ran.err
    assert Path("again.axm").read_bytes() == Path("m.axm").read_bytes()


def test_a_budget_out_of_reach_ends_in_exit_5_with_the_best_that_was_reached(net: Path) -> None:
    ran = compiled(net, "--budget-sqnr", 119)
    assert (ran.code, ran.document["error"]["code"]) == (5, "budget-not-met")
    assert "the best is" in ran.document["error"]["message"]
    assert not Path("m.axm").exists()


def test_a_budget_wants_samples_to_measure_by(net: Path) -> None:
    few = compiled(net, "--budget-sqnr", 30, "--limit", 4)
    assert (few.code, few.document["error"]["code"]) == (2, "too-few-samples")
    calibration(compiled(net, "--save-ranges", "r.json"))
    ran = axtool("compile", net, "--ranges", "r.json", "--budget-sqnr", 30, "-o", "n.axm", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "bad-option")


def test_what_only_limits_cycles_is_no_fault_where_there_is_nothing_to_measure_by(net: Path) -> None:
    for words in (("--budget-cycles", "+5%"), ("-O", 2)):
        ran = compiled(net, *words, "--limit", 4)
        assert calibration(ran)["int16"] == []
        assert "no tensor became int16" in ran.err


def test_everything_includes_int16(net: Path) -> None:
    assert calibration(compiled(net, "-O", 2))["int16"]


def test_two_budgets_are_one_too_many(net: Path) -> None:
    values = {"schema": "axtool.quant/1", "budget": {"cycles": 0.5}}
    Path("mine.yaml").write_text(yaml.safe_dump(values))
    ran = axtool("compile", net, "--calib", "d.npz", "--recipe", "mine.yaml", "--budget-sqnr", 30, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "bad-option")


def test_a_budget_of_a_recipe_file_is_followed(net: Path) -> None:
    values = {"schema": "axtool.quant/1", "budget": {"cycles": 0.5}}
    Path("mine.yaml").write_text(yaml.safe_dump(values))
    ran = axtool("compile", net, "--calib", "d.npz", "--recipe", "mine.yaml", "-o", "m.axm", "--json")
    assert calibration(ran)["int16"]
