"""The comparison of quantizers: scores, what stays float, who is absent, and the rows. No network, no peers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from benchmarks import quantizer_cases, quantizer_peers, quantizer_rows, quantizer_text, quantizers
from benchmarks.metered import metered
from benchmarks.networks import Net
from benchmarks.peer import quantize_model, random_samples
from benchmarks.peers.stream import Samples
from benchmarks.quantizer_cases import CASES, Case, NotAtHand, first, save_samples
from benchmarks.quantizer_peers import (
    AXTOOL,
    CALIBRATION,
    MAC_ONLY,
    NEEDS,
    PEERS,
    PLAIN,
    QUANTIZERS,
    SCRIPTS,
    Quantizer,
)
from benchmarks.quantizer_rows import Result
from benchmarks.quantizer_score import Judge, judge, parts, stays_float
from benchmarks.quantizer_tasks import reading_of, transcript

SHAPE = (1, 3, 16, 16)
YOLO = {"kind": "detection", "decode": "yolo", "classes": 1, "labels": ["face"], "threshold": 0.3, "iou": 0.5}
CLASSES = {"kind": "classification"}


def model_of(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')


def tiny() -> onnx.ModelProto:
    net = Net("tiny", SHAPE)
    return net.model([net.conv(net.conv("images", 16, 3, 2, act="relu"), 8)])


def result(name: str, db: float = 20.0, cpu_s: float = 4.0, peak_mb: float = 200.0, model: str = "m") -> Result:
    cost = {"cpu_s": cpu_s, "wall_s": cpu_s, "peak_mb": peak_mb}
    return Result(model, name, "1", cost, {"sqnr_db": {"out": db}, "top1_agreement": 1.0, "stays_float": {}})


# Scores.


def test_each_column_group_of_a_detector_has_its_own_figure() -> None:
    model = model_of("g (float[1, 5, 2] x) => (float[1, 5, 2] y) { y = Identity(x) }")
    right = np.ones((1, 5, 2), np.float32)
    found = right.copy()
    found[:, 4:] *= 1.1  # of the scores alone
    made = Judge(model, YOLO)
    made.add({"y": right}, {"y": found})
    assert made.to_dict()["sqnr_db"] == {"boxes": 99.0, "scores": pytest.approx(20, abs=0.01)}


def test_each_input_of_a_last_concat_has_its_own_figure() -> None:
    model = model_of(
        "g (float[1, 2] a, float[1, 3] b) => (float[1, 5] y) { c = Relu(a) d = Relu(b) y = Concat<axis = 1>(c, d) }"
    )
    assert parts(model, CLASSES)["y"] == [("y/c", 1, slice(0, 2)), ("y/d", 1, slice(2, 5))]


def test_noise_is_summed_over_samples_before_the_logarithm() -> None:
    made = Judge(model_of("g (float[1, 2] x) => (float[1, 2] y) { y = Identity(x) }"), CLASSES)
    right = np.array([[3.0, 4.0]], np.float32)
    made.add({"y": right}, {"y": right})
    made.add({"y": right}, {"y": right + np.array([[0.0, np.sqrt(0.5)]], np.float32)})
    assert made.to_dict()["sqnr_db"]["y"] == pytest.approx(20, abs=0.01)


def test_an_invented_object_is_counted_apart_from_the_kept_ones() -> None:
    model = model_of("g (float[1, 5, 2] x) => (float[1, 5, 2] y) { y = Identity(x) }")
    right = np.array([[[10, 50], [10, 50], [8, 8], [8, 8], [0.9, 0.1]]], np.float32)
    found = right.copy()
    found[0, 4, 1] = 0.8
    made = Judge(model, YOLO)
    made.add({"y": right}, {"y": found})
    figures = made.to_dict()
    assert (figures["objects"], figures["found"], figures["invented"]) == (1, 1, 1)


def test_repeats_and_blanks_are_no_text() -> None:
    scores = np.eye(4, dtype=np.float32)[[0, 2, 2, 0, 2, 3, 3, 0]][None]
    assert transcript(scores) == [2, 2, 3]


def test_a_line_that_reads_the_same_is_counted() -> None:
    made = Judge(model_of("g (float[1, 2, 3] x) => (float[1, 2, 3] y) { y = Identity(x) }"), {"kind": "text-line"})
    right = np.array([[[0.1, 0.8, 0.1], [0.9, 0.1, 0.0]]], np.float32)
    made.add({"y": right}, {"y": right * 0.5})
    made.add({"y": right}, {"y": right[:, :, ::-1]})
    assert (made.to_dict()["lines_same"], made.to_dict()["samples"]) == (1, 2)


def test_pixels_of_the_same_best_class_are_counted() -> None:
    made = reading_of({"kind": "pixels"})
    right = np.array([[[[0.1, 0.9]], [[0.2, 0.3]]]], np.float32)  # (1, 2 classes, 1, 2)
    made.add({"y": right}, {"y": right[:, ::-1]})
    made.add({"y": right}, {"y": right * 2})
    assert made.to_dict() == {"pixels_same": 0.5, "samples": 2}


def test_where_the_objects_are_known_both_models_have_a_mean_precision() -> None:
    truth = [[[5, 25, 15, 75, 0]]]
    made = reading_of({**YOLO, "truth": truth})
    right = np.array([[[10, 50], [50, 10], [10, 8], [50, 8], [0.9, 0.1]]], np.float32)
    made.add({"y": right}, {"y": right * np.float32([1, 1, 1, 1, 0.1])[:, None]})
    assert made.to_dict() == {"map50": 0.0, "map50_float": 1.0, "samples": 1}


def test_columns_of_keypoints_are_no_scores() -> None:
    model = model_of("g (float[1, 7, 2] x) => (float[1, 7, 2] y) { y = Identity(x) }")
    assert parts(model, YOLO)["y"][1:] == [("scores", 1, slice(4, 5)), ("rest", 1, slice(5, None))]


# What stays float.


def test_a_fully_quantized_model_has_nothing_in_float(tmp_path: Path) -> None:
    onnx.save(tiny(), tmp_path / "tiny.onnx")
    quantized = quantize_model(tmp_path / "tiny.onnx", tmp_path, "QDQ", random_samples(SHAPE, 2))
    assert stays_float(quantized) == {}


def test_an_op_on_a_result_that_was_not_quantized_stays_float() -> None:
    model = model_of(
        """g (float[1, 4] x) => (float[1, 4] y) <float s = {0.1}, uint8 z = {0}> {
        q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)
        a = Sigmoid(d)  y = Mul(d, a) }"""
    )
    assert stays_float(model) == {"Mul": 1}


def test_a_convolution_with_float_weights_stays_float() -> None:
    model = model_of(
        """g (float[1, 1, 4, 4] x) => (float[1, 1, 4, 4] y)
        <float s = {0.1}, uint8 z = {0}, float[1, 1, 1, 1] w = {2.0}> {
        q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  y = Conv(d, w) }"""
    )
    assert stays_float(model) == {"Conv": 1}


def test_a_relu_behind_a_quantized_sum_is_one_op_with_it() -> None:
    model = model_of(
        """g (float[1, 4] x) => (float[1, 4] y) <float s = {0.1}, uint8 z = {0}> {
        q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  a = Add(d, d)  y = Relu(a) }"""
    )
    assert stays_float(model) == {}


def test_moving_values_does_not_make_them_float() -> None:
    model = model_of(
        """g (float[1, 4] x) => (float[4, 1] y) <float s = {0.1}, uint8 z = {0}> {
        q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  t = Transpose(d)  y = Sigmoid(t) }"""
    )
    assert stays_float(model) == {}


def test_a_quantized_model_is_judged_against_the_float_one(tmp_path: Path) -> None:
    path = tmp_path / "tiny.onnx"
    onnx.save(tiny(), path)
    samples = random_samples(SHAPE, 4)
    onnx.save(quantize_model(path, tmp_path, "QDQ", samples), tmp_path / "q.onnx")
    figures = judge(path, tmp_path / "q.onnx", samples, CLASSES)
    (db,) = figures["sqnr_db"].values()
    assert 20 < db < 60


# Samples and processes.


def test_samples_come_back_from_the_file_as_they_went_in(tmp_path: Path) -> None:
    samples = random_samples(SHAPE, 3)
    save_samples(samples, tmp_path / "s.npz")
    for wanted, got in zip(samples, Samples(str(tmp_path / "s.npz")), strict=True):
        np.testing.assert_array_equal(wanted["images"], got["images"])


def test_samples_can_be_gone_through_again_after_a_rewind(tmp_path: Path) -> None:
    save_samples(random_samples(SHAPE, 1), tmp_path / "s.npz")
    samples = Samples(str(tmp_path / "s.npz"))
    assert samples.get_next() is not None
    assert samples.get_next() is None
    samples.rewind()
    assert samples.get_next() is not None


def test_a_process_is_charged_its_own_memory_and_not_its_parents() -> None:
    held = np.ones(30_000_000)  # 240 MB here
    small = metered([sys.executable, "-I", "-S", "-c", "pass"])
    assert held.nbytes / 2**20 > 2 * small.peak_mb > 0


def test_the_memory_of_a_process_that_it_starts_counts() -> None:
    inner = f"import subprocess; subprocess.run([{sys.executable!r}, '-I', '-S', '-c', 'b = bytearray(200 << 20)'])"
    assert metered([sys.executable, "-I", "-S", "-c", inner]).peak_mb > 200


def test_a_process_that_takes_too_long_is_ended() -> None:
    assert metered([sys.executable, "-c", "import time; time.sleep(60)"], timeout_s=0.3).code == -9


# Who is there.


def test_a_peer_without_its_environment_says_how_to_get_it(tmp_path: Path) -> None:
    absence = Quantizer("Peer", "with_peer.py", (), "peer").absence(tmp_path)
    assert absence == "not installed: make bench-quantizers-peers"


def test_a_peer_that_could_not_be_installed_says_why(tmp_path: Path) -> None:
    (tmp_path / "peer.absent").write_text("pip: no space left\n", encoding="utf-8")
    assert Quantizer("Peer", "with_peer.py", (), "peer").absence(tmp_path) == "pip: no space left"


def test_an_absent_peer_has_no_figures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Quantizer, "absence", lambda self: "needs a GPU")
    made = quantizers.measure("m", PEERS[-1], quantizers.Files(tmp_path))
    assert (made.absent, dict(made.figures), dict(made.cost)) == ("needs a GPU", {}, {})


def test_a_quantizer_that_fails_says_its_last_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('this model is too strange')"]
    monkeypatch.setattr(Quantizer, "command", lambda self, *files: command)
    made = quantizers.measure("m", AXTOOL, quantizers.Files(tmp_path))
    assert (made.failed, dict(made.figures)) == ("this model is too strange", {})


def test_every_peer_has_its_script_and_every_environment_its_packages() -> None:
    assert all((SCRIPTS / quantizer.script).is_file() for quantizer in (PLAIN, CALIBRATION, *PEERS))
    assert {quantizer.environment for quantizer in PEERS} - {None} == NEEDS.keys()


def test_a_model_that_is_not_at_hand_is_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(calibration: int, judged: int) -> Case:
        raise NotAtHand("it is elsewhere")

    monkeypatch.setitem(CASES, "m", missing)
    assert quantizers.run(["m"], QUANTIZERS).skipped == {"m": "it is elsewhere"}


def test_a_model_of_the_folder_beside_is_not_at_hand_without_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(quantizer_cases, "SHARED", tmp_path)
    with pytest.raises(NotAtHand, match="is not in a folder 'shared' beside the repository"):
        quantizer_cases.build("efficientnet-lite0")


def test_constant_nodes_become_initializers() -> None:
    model = model_of(
        "g (float[1, 2] x) => (float[1, 2] y) { c = Constant<value = float[1, 2] {1.0, 2.0}>() y = Add(x, c) }"
    )
    made = quantizer_cases.fixed(model)
    assert [node.op_type for node in made.graph.node] == ["Add"]
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(made.graph.initializer[0]), [[1, 2]])


def test_no_more_samples_are_taken_than_asked() -> None:
    assert len(first(random_samples(SHAPE, 5), 3)) == 3


def test_few_samples_of_a_model_that_is_judged_on_none_are_none() -> None:
    assert quantizers.amount_of("detr-r101", quick=True).judged == 0
    assert quantizers.amount_of("digits-v8pose", quick=True).judged == quantizers.QUICK


def test_a_model_that_is_judged_on_nothing_only_costs() -> None:
    assert [q.name for q in quantizers.meant_for("detr-r101", quantizers.amount_of("detr-r101", quick=False))] == [
        PLAIN.name,
        CALIBRATION.name,
    ]


def test_a_recipe_of_one_model_is_not_run_on_others() -> None:
    usual = quantizers.Amount()
    assert MAC_ONLY in quantizers.meant_for("ppocr-rec", usual)
    assert MAC_ONLY not in quantizers.meant_for("nudenet-320n", usual)


def test_what_is_kept_is_not_run_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refused(name: str, files: object, amount: object) -> None:
        raise NotAtHand("it would be run")

    monkeypatch.setitem(CASES, "m", lambda calibration, judged: None)
    monkeypatch.setattr(quantizers, "write_case", refused)
    quantizers.Done([result(AXTOOL.name), result(PLAIN.name)]).save(tmp_path / "kept.json")
    done = quantizers.run(["m"], [AXTOOL, PLAIN], keep=tmp_path / "kept.json")
    assert ([r.quantizer for r in done.results], done.skipped) == ([AXTOOL.name, PLAIN.name], {})
    assert quantizers.run(["m"], [MAC_ONLY], keep=tmp_path / "kept.json").skipped == {"m": "it would be run"}


# Rows and tables.


def test_three_decibels_are_a_ratio_of_their_amplitudes() -> None:
    rows = quantizer_rows.rows([result("axtool", 23.0), result("NNCF", 20.0), result("Quark", 12.0)])
    sqnr = next(row for row in rows if row["measured"] == "SQNR")
    assert (sqnr["ratio"], sqnr["peer"]["name"]) == (pytest.approx(1.4125, abs=1e-3), "NNCF")


def test_the_margin_over_the_best_peer_decides() -> None:
    cost = {"cpu_s": 1.0, "peak_mb": 1.0}
    named = [
        Result("efficientnet-lite0", name, "1", cost, {"sqnr_db": {"logits": db}, "stays_float": {}})
        for name, db in (("axtool", 22.9), ("NNCF", 20.0))
    ]
    assert next(row for row in quantizer_rows.rows(named) if row["measured"] == "SQNR")["met"] is False


def test_a_peer_that_leaves_more_in_float_is_compared_with_the_recipe_that_does() -> None:
    cost = {"cpu_s": 1.0, "peak_mb": 1.0}
    named = [
        Result("ppocr-rec", name, "1", cost, {"sqnr_db": {"text": db}, "stays_float": {"Add": floats}})
        for name, db, floats in (
            (AXTOOL.name, 14.0, 9),
            (MAC_ONLY.name, 17.0, 99),
            ("NNCF", 17.5, 90),
            ("Quark", 11.0, 9),
        )
    ]
    rows = [row for row in quantizer_rows.rows(named) if "orientation" not in row["asked"]]
    found = {row["measured"]: (row["peer"]["name"], row["met"]) for row in rows if row["measured"].startswith("SQNR")}
    assert found == {"SQNR": ("Quark", True), "SQNR, mac-only": ("NNCF", True)}


def test_calibration_is_held_against_the_percentile_of_onnxruntime() -> None:
    ours = Result("m", CALIBRATION.name, "1", {"cpu_s": 2.0, "peak_mb": 1.0})
    rows = quantizer_rows.rows([ours, result("onnxruntime percentile", cpu_s=5.0)])
    found = {row["name"]: (row["ratio"], row["met"]) for row in rows}
    assert found == {"m": (2.5, True), "all": (0.0, False)}  # twice as fast, on no model three times


def test_calibration_is_held_against_the_plain_pass() -> None:
    plain = Result("m", PLAIN.name, "1", {"cpu_s": 1.5, "peak_mb": 100.0, "imports_cpu_s": 0.5})
    ours = Result("m", CALIBRATION.name, "1", {"cpu_s": 4.0, "peak_mb": 275.0, "imports_cpu_s": 2.0})
    found = {row["measured"]: (row["ratio"], row["met"]) for row in quantizer_rows.rows([plain, ours])}
    assert found == {"CPU of calibration": (1.3, True), "memory of calibration": (1.0, True)}


def test_a_large_model_may_take_less_over_the_plain_pass() -> None:
    plain = Result("resnet50", PLAIN.name, "1", {"cpu_s": 1.0, "peak_mb": 100.0})
    ours = Result("resnet50", CALIBRATION.name, "1", {"cpu_s": 2.0, "peak_mb": 100.0})
    row = next(row for row in quantizer_rows.rows([plain, ours]) if row["measured"].startswith("CPU"))
    assert (row["asked"], row["met"]) == ("1.6 x 1.00 = 1.60 s", False)


def test_map_may_fall_by_a_hundredth() -> None:
    cost = {"cpu_s": 1.0, "peak_mb": 1.0}
    figures = {"sqnr_db": {}, "stays_float": {}, "map50_float": 0.75}
    for found, met in ((0.741, True), (0.739, False)):
        (row,) = quantizer_rows.rows([Result("m", AXTOOL.name, "1", cost, {**figures, "map50": found})])
        assert (row["measured"], row["met"]) == ("mAP50", met)


def test_without_figures_of_ours_there_is_nothing_to_compare() -> None:
    assert quantizer_rows.rows([Result("m", "axtool", failed="no"), result("NNCF")]) == []


def test_the_document_has_rows_results_and_what_was_skipped() -> None:
    done = quantizers.Done([result("axtool"), result("NNCF"), Result("m", "AIMET", absent="why")], {"other": "gone"})
    made = json.loads(json.dumps(done.to_dict(), allow_nan=False))
    assert made["command"] == "benchmarks.quantizers"
    assert {"name", "measured", "ratio", "target", "met", "ours", "peer"} <= made["rows"][0].keys()
    assert [r["absent"] for r in made["results"]] == ["", "", "why"]
    assert made["skipped"] == {"other": "gone"}


def test_the_table_says_who_is_absent_and_why() -> None:
    line = next(
        line for line in quantizer_text.text([Result("m", "AIMET", absent="no wheel")]).splitlines() if "AIMET" in line
    )
    assert "absent: no wheel" in line


def test_the_last_json_line_of_a_script_is_what_it_tells() -> None:
    code = "print('chatter'); print('{\"version\": \"1\"}')"
    assert quantizers.told_by(metered([sys.executable, "-c", code])) == {"version": "1"}


@pytest.mark.parametrize("words", [["--models", "resnet49"], ["--quantizers", "nobody"]])
def test_names_that_are_none_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        quantizers._parser().parse_args(words)
    assert stopped.value.code == 2


def test_our_slower_way_is_shown_and_is_no_peer() -> None:
    assert quantizer_rows.rows([result("axtool"), result("axtool -O2", 30.0)]) == quantizer_rows.rows(
        [result("axtool")]
    )


def failed_pip(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess([], 1, "", "WARNING: old\nERROR: No matching distribution found for nncf\n")


def test_an_environment_that_pip_cannot_fill_leaves_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def create(home: Path, *, with_pip: bool) -> None:
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "python").touch()

    monkeypatch.setattr(quantizer_peers.venv, "create", create)
    monkeypatch.setattr(quantizer_peers.subprocess, "run", failed_pip)
    reason = quantizer_peers.install("nncf", "torch", tmp_path)
    assert reason == "pip: No matching distribution found for nncf"
    assert next(peer for peer in PEERS if peer.environment == "nncf").absence(tmp_path) == reason
