"""Recipes: which are tried, how they are scored, and that the best one is kept."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from axtool.errors import UsageError
from axtool.graph.parts import Part
from axtool.graph.split import Stage
from axtool.quant.calibrate import MOST_HELD, MOST_KEPT, held_back
from axtool.quant.judged import judged_by
from axtool.quant.recipe import TRIED, QuantRecipe, recipes_of
from axtool.quant.score import BEST_DB, WORST_DB, Score
from axtool.quant.trial import GAIN_DB, Trial, best
from axtool.runtime.model import load
from tests.conftest import Tiny
from tests.tiny import axtool

A, B, C = QuantRecipe(), QuantRecipe("minmax"), QuantRecipe("mse")


def score(pairs: list[tuple[np.ndarray, np.ndarray]], parts: tuple[Part, ...] = ()) -> float | None:
    made = Score({"y": parts} if parts else {})
    for right, got in pairs:
        made.add({"y": right}, {"y": got})
    return made.decibels()


def test_nothing_chosen_tries_all_recipes() -> None:
    assert recipes_of(None, None, 1) == TRIED


def test_a_chosen_method_is_tried_with_and_without_correction() -> None:
    assert recipes_of("mse", None, 1) == (QuantRecipe("mse"), QuantRecipe("mse", bias="none"))


def test_a_chosen_percentile_is_kept_to() -> None:
    assert {(r.method, r.percentile) for r in recipes_of(None, 99.5, 1)} == {("percentile", 99.5)}


def test_without_optimization_there_is_one_plain_recipe() -> None:
    assert recipes_of(None, None, 0) == (QuantRecipe(bias="none"),)


@pytest.mark.parametrize(("method", "percentile"), [("max", None), (None, 50.0), ("percentile", 101.0)])
def test_a_method_or_percentile_that_is_none_is_refused(method: str | None, percentile: float | None) -> None:
    with pytest.raises(UsageError):
        recipes_of(method, percentile, 1)


def test_the_first_recipe_stays_where_another_is_hardly_better() -> None:
    assert best([Trial(A, 20.0), Trial(B, 20.0 + GAIN_DB / 2)]).recipe == A


def test_the_best_recipe_is_kept() -> None:
    assert best([Trial(A, 20.0), Trial(B, 25.0), Trial(C, 24.0)]).recipe == B


def test_a_recipe_that_is_better_in_total_only_by_one_sample_is_not_kept() -> None:
    trials = [Trial(A, 20.0, (10.0, 30.0, 30.0)), Trial(B, 22.0, (15.0, 26.0, 26.0))]
    assert best(trials).recipe == A


def test_a_recipe_that_is_better_on_the_average_sample_but_not_in_total_is_not_kept() -> None:
    trials = [Trial(A, 20.0, (10.0, 30.0, 30.0)), Trial(B, 19.0, (9.0, 33.0, 33.0))]
    assert best(trials).recipe == A


def test_the_figures_of_samples_are_apart_and_leave_out_what_cannot_be_compared() -> None:
    made = Score({})
    for right, got in ((10.0, 11.0), (0.0, 1.0), (10.0, 10.1)):
        made.add({"y": np.full(3, right)}, {"y": np.full(3, got)})
    assert made.each() == pytest.approx((20.0, 40.0))


def test_a_recipe_that_cannot_be_compared_beats_none() -> None:
    assert best([Trial(A), Trial(B)]).recipe == A


def test_a_score_is_ten_times_the_logarithm_of_signal_over_noise() -> None:
    assert score([(np.full(4, 10.0), np.full(4, 11.0))]) == pytest.approx(20.0)


def test_signal_and_noise_are_summed_over_the_samples() -> None:
    pairs = [(np.array([3.0]), np.array([3.0])), (np.array([4.0]), np.array([4.5]))]
    assert score(pairs) == pytest.approx(20.0)


def test_each_part_of_a_concat_counts_as_much_as_another() -> None:
    right, got = np.array([[1000.0, 1.0]]), np.array([[1000.0, 2.0]])
    assert score([(right, got)], (Part("a", 1, 0, 1), Part("b", 1, 1, 2))) == pytest.approx((BEST_DB + 0) / 2)


def test_an_exact_output_has_the_best_score_and_a_destroyed_one_the_worst() -> None:
    figures = [score([(np.ones(2), np.full(2, value))]) for value in (1.0, 100.0)]
    assert figures == [BEST_DB, WORST_DB]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200])
def test_an_output_that_is_no_number_or_out_of_bounds_has_the_worst_score(value: float) -> None:
    assert score([(np.ones(2), np.array([1.0, value]))]) == WORST_DB


def test_outputs_of_integers_and_of_zeros_say_nothing() -> None:
    assert score([(np.ones(2, np.int64), np.ones(2, np.int64)), (np.zeros(3), np.ones(3))]) is None


def test_infinities_of_the_float_model_are_left_out() -> None:
    assert score([(np.array([-np.inf, 10.0]), np.array([-50.0, 11.0]))]) == pytest.approx(20.0)


@pytest.mark.parametrize(("count", "held"), [(7, 0), (8, 2), (31, 7), (32, MOST_HELD), (1000, MOST_HELD)])
def test_a_quarter_of_the_samples_is_held_back_up_to_a_limit(count: int, held: int) -> None:
    assert len(held_back(count, 1)) == held


def test_held_back_samples_lie_evenly_among_the_others() -> None:
    assert held_back(32, 1) == {2, 6, 10, 14, 18, 22, 26, 30}


def test_large_outputs_leave_room_for_fewer_held_back_samples() -> None:
    assert (len(held_back(32, MOST_KEPT // 3)), len(held_back(32, 2 * MOST_KEPT))) == (3, 0)


def test_compiling_tells_what_each_recipe_reached(tiny_models: Tiny, work: Path) -> None:
    ran = axtool("compile", tiny_models / "cls.onnx", "--calib", "random:16", "-o", "m.axm", "--json")
    trials = ran.document["calibration"]["trials"]
    assert [trial["recipe"] for trial in trials[: len(TRIED)]] == [str(recipe) for recipe in TRIED]
    assert ran.document["calibration"]["method"] in [trial["recipe"] for trial in trials]


def test_the_recipe_that_was_kept_is_in_the_file(tiny_models: Tiny, work: Path) -> None:
    axtool("compile", tiny_models / "cls.onnx", "--calib", "random:16", "-o", "m.axm", "-q")
    info = axtool("info", "m.axm").out
    assert "recipes on samples held back" in info


def test_all_samples_make_the_ranges_in_the_end(tiny_models: Tiny, work: Path) -> None:
    for name, level in (("plain.json", "0"), ("tried.json", "1")):
        words = ("--calib", "random:16", "--method", "minmax", "-O", level, "--save-ranges", name, "-o", f"{name}.axm")
        assert axtool("compile", tiny_models / "cls.onnx", *words, "-q").code == 0
    plain, tried = (json.loads((work / name).read_text()) for name in ("plain.json", "tried.json"))
    assert plain["tensors"] == tried["tensors"]
    assert plain["samples"] == tried["samples"] == 16


@pytest.mark.parametrize("level", ["0", "1"])
def test_saved_ranges_make_the_same_program(tiny_models: Tiny, work: Path, level: str) -> None:
    words = ("--calib", "random:16", "-O", level, "--save-ranges", "r.json", "-o", "a.axm", "-q")
    assert axtool("compile", tiny_models / "cls.onnx", *words).code == 0
    assert axtool("compile", tiny_models / "cls.onnx", "--ranges", "r.json", "-o", "b.axm", "-q").code == 0
    first, second = (load(work / name).artefact.device_stages[0].plan for name in ("a.axm", "b.axm"))
    assert first.commands == second.commands
    assert first.program.layers == second.program.layers
    assert {n: a.tobytes() for n, a in first.program.constants.items()} == {
        n: a.tobytes() for n, a in second.program.constants.items()
    }


def test_the_same_recipe_is_kept_for_any_number_of_processes(tiny_models: Tiny, work: Path) -> None:
    for jobs in ("1", "2"):
        words = ("--calib", "random:16", "-j", jobs, "-o", f"{jobs}.axm", "-q")
        assert axtool("compile", tiny_models / "cls.onnx", *words).code == 0
    assert (work / "1.axm").read_bytes() == (work / "2.axm").read_bytes()


def test_rounding_for_the_data_is_kept_only_where_it_is_better(tiny_models: Tiny, work: Path) -> None:
    words = ("--calib", "random:16", "-O", "2", "-o", "m.axm", "--json")
    calibration = axtool("compile", tiny_models / "cls.onnx", *words).document["calibration"]
    trials = {trial["recipe"]: trial["sqnr_db"] for trial in calibration["trials"]}
    rounded = [recipe for recipe in trials if "weights rounded for the data" in recipe]
    assert rounded
    if calibration["method"] in rounded:
        before = max(figure for recipe, figure in trials.items() if recipe not in rounded)
        assert trials[calibration["method"]] > before + GAIN_DB


def stages_of(text: str, host: tuple[str, ...]) -> tuple[Stage, ...]:
    """A device stage x -> `host`, and the host stage of this text."""
    head = '<ir_version: 9, opset_import: ["": 18]> g '
    device = onnx.parser.parse_model(f"{head}(float[1,4] x) => (float[1,4] a) {{ a = Relu(x) }}")
    tail = onnx.parser.parse_model(f"{head}(float[1,4] a) => (float[1,4] y) {{ {text} }}")
    return (
        Stage("device", ir.from_proto(device), ("x",), ("a",)),
        Stage("host", ir.from_proto(tail), host, ("y",)),
    )


def test_recipes_are_judged_before_a_softmax_of_the_host() -> None:
    assert judged_by(stages_of("y = Softmax(a)", ("a",)), ["y"]) == ("a",)


@pytest.mark.parametrize("text", ["y = Sigmoid(a)", "s = Softmax(a) y = Sqrt(s)", "s = Sqrt(a) y = Softmax(s)"])
def test_recipes_are_judged_by_any_other_output_itself(text: str) -> None:
    assert judged_by(stages_of(text, ("a",)), ["y"]) == ("y",)
