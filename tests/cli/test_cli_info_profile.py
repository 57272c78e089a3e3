"""`axtool info` and `profile`: what a file holds, and where its cycles go."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import onnx
import onnx.parser
import pytest

from tests import tiny
from tests.artefact.axm_files import Arrays, Manifest, changed
from tests.conftest import Tiny
from tests.tiny import axtool


@pytest.mark.parametrize("name", ["cls.onnx", "cls.axm"])
def test_info_names_inputs_outputs_work_and_split(tiny_models: Tiny, name: str) -> None:
    ran = axtool("info", tiny_models / name)
    assert ran.code == 0
    for said in (
        "x  float32 1x3x16x16",
        "scores  float32 1x10",
        "MACs, 100.0 % on the device",
        "5 of 5 nodes after passes",
    ):
        assert said in ran.out
    assert ran.err == ""


def test_support_says_why_a_node_is_on_the_host_and_what_would_avoid_it(tiny_models: Tiny) -> None:
    words = ("info", tiny_models / "two.onnx", "--input-shape", "image:1,3,8,8")
    ran = axtool(*words, "--support")
    assert "Softmax" in ran.out
    assert "why on the host" in ran.out
    rows = axtool(*words, "--json").document["support"]
    host = [row for row in rows if row["kind"] == "host"]
    assert host
    assert all(row["reasons"] for row in host)


def test_the_compiled_file_keeps_the_reasons(tiny_models: Tiny) -> None:
    rows = axtool("info", tiny_models / "two.axm", "--json").document["support"]
    assert any(row["op"] == "Softmax" and row["reasons"] for row in rows)


@pytest.mark.parametrize(
    ("option", "said"), [("--layers", "conv"), ("--tensors", "zero point"), ("--memory", "offset")]
)
def test_info_shows_what_is_asked_for(tiny_models: Tiny, option: str, said: str) -> None:
    assert said in axtool("info", tiny_models / "cls.axm", option).out
    assert said not in axtool("info", tiny_models / "cls.axm").out.replace("2 conv", "")
    ran = axtool("info", tiny_models / "cls.onnx", option)
    assert (ran.code, ran.out, "not compiled" in ran.err, "axtool profile" in ran.err) == (2, "", True, True)


def test_a_file_that_is_no_model_is_refused(work: Path) -> None:
    Path("notes.txt").write_text("notes")
    for name in ("notes.txt", "nothing.onnx", "nothing.axm", "."):
        ran = axtool("info", name, "--json")
        assert (ran.code, ran.document["status"]) == (2, "error")


def test_the_ledger_of_a_profile_closes(tiny_models: Tiny) -> None:
    document = axtool("profile", tiny_models / "cls.axm", "--json").document
    assert sum(document["ledger_cycles"].values()) == document["cycles"]
    for layer in document["layers"]:
        assert sum(layer["ledger_cycles"].values()) == layer["cycles"]
    assert sum(layer["cycles"] for layer in document["layers"]) == document["cycles"]


def test_a_document_has_the_sums_by_segment_and_op(tiny_models: Tiny) -> None:
    document = axtool("profile", tiny_models / "cls.axm", "--json").document
    assert {row["op"]: row["layers"] for row in document["ops"]} == {"conv": 2, "avg_pool": 1}
    for rows in (document["ops"], document["segments"]):
        assert sum(row["cycles"] for row in rows) == document["cycles"]
        assert sum(row["layers"] for row in rows) == len(document["layers"])


def test_frames_per_second_are_of_the_device_alone(tiny_models: Tiny) -> None:
    assert "frames/s (device only)" in axtool("profile", tiny_models / "cls.axm").out
    for words in (("two.axm",), ("two.onnx", "--input-shape", "image:1,3,8,8")):
        model, *more = words
        ran = axtool("profile", tiny_models / model, *more)
        assert re.search(r"frames/s \(device only; [1-9] host nodes? not in it\)", ran.out)


def test_a_bare_onnx_takes_the_cycles_of_the_compiled_file(tiny_models: Tiny) -> None:
    bare = axtool("profile", tiny_models / "cls.onnx", "--json").document
    compiled = axtool("profile", tiny_models / "cls.axm", "--json").document
    assert bare["cycles"] == compiled["cycles"]


def test_a_bare_onnx_with_a_concat_is_told_to_be_cheap(tiny_models: Tiny, tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[1,8,9,10] x) => (float[1,16,8,9] y)
              { a = Sigmoid (x) b = Relu (x) c = Concat <axis=1> (a, b) y = MaxPool <kernel_shape=[2,2]> (c) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "joined.onnx")
    said = axtool("profile", tmp_path / "joined.onnx").err
    assert "in the compiled file 1 concat may take more" in " ".join(said.split())
    assert "may take more" not in axtool("profile", tiny_models / "cls.onnx").err


def test_another_chip_and_a_changed_one_take_other_cycles(tiny_models: Tiny) -> None:
    own = axtool("profile", tiny_models / "cls.axm", "--json").document
    other = axtool("profile", tiny_models / "cls.axm", "--target", "qc-u-1d5-8mb", "--json").document
    slow = axtool("profile", tiny_models / "cls.axm", "--set", "clock_hz=100MHz", "--json").document
    assert other["target"] == "qc-u-1d5-8mb"
    assert slow["latency_ms"] > own["latency_ms"]


def read_csv() -> list[dict[str, str]]:
    return list(csv.DictReader(Path("rows.csv").read_text().splitlines()))


def test_rows_are_sorted_summed_and_cut(tiny_models: Tiny, work: Path) -> None:
    words = ("profile", tiny_models / "cls.axm", "--csv", "rows.csv", "--force")
    shown = axtool(*words, "--sort", "cycles", "--top", "2").out
    rows = read_csv()
    assert len(rows) == 3  # the file has all, what is shown two
    assert rows[1]["name"] in shown
    assert rows[2]["name"] not in shown
    assert int(rows[0]["cycles"]) >= int(rows[1]["cycles"])
    axtool(*words, "--by", "op")
    assert sorted(row["op"] for row in read_csv()) == ["avg_pool", "conv"]


@pytest.mark.parametrize("gate", [("--max-cycles", "5"), ("--max-latency", "1e-9"), ("--max-external-bytes", "5")])
def test_a_gate_that_is_exceeded_is_exit_1_with_the_profile(tiny_models: Tiny, gate: tuple[str, str]) -> None:
    ran = axtool("profile", tiny_models / "cls.axm", *gate, "--json")
    assert (ran.code, ran.document["status"]) == (1, "failed")
    assert len(ran.document["exceeded"]) == 1
    assert ran.document["layers"]
    text = axtool("profile", tiny_models / "cls.axm", *gate)
    assert (text.code, "failed: " in text.out) == (1, True)
    assert re.search(r"failed: .*(ms|cycles|B), limit [0-9.e-]+ (ms|cycles|B)", text.out)


def test_a_gate_that_holds_is_exit_0(tiny_models: Tiny) -> None:
    assert axtool("profile", tiny_models / "cls.axm", "--max-cycles", "1e12").code == 0


@pytest.mark.parametrize(
    "setting",
    [
        "ext.read_bytes_per_s=1e-300", "clock_hz=1e-300", "clock_hz=1e308", "costs.add=1e308", "costs.fence=1e18",
        "memory.ocm_bytes_per_cycle=1e-320", "external.latency_cycles=9999999999999999999999", "cores=1e15",
        "array.rows=1e15", "array.cycles=1e15", "energy.lrm=1e308", "channel_multiple=1e9",
    ],
)  # fmt: skip
def test_a_value_beyond_any_chip_is_a_fault_of_the_chip(tiny_models: Tiny, setting: str) -> None:
    ran = axtool("profile", tiny_models / "cls.axm", "--set", setting, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "bad-target"), ran.err


@pytest.mark.parametrize("setting", ["ext.read_bytes_per_s=1e3", "costs.add=1e7", "clock_hz=1", "array.cycles=65536"])
def test_a_value_at_the_bounds_is_profiled(tiny_models: Tiny, work: Path, setting: str) -> None:
    words = ("profile", tiny_models / "cls.axm", "--set", setting, "--trace", "t.json", "--csv", "rows.csv")
    assert axtool(*words).code == 0


def test_a_chip_that_is_too_small_is_exit_6(tiny_models: Tiny) -> None:
    ran = axtool("profile", tiny_models / "cls.axm", "--set", "memory.ocm_bytes=64", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (6, "does-not-fit")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--set", "memory.ocm_byte=1MiB"), "unknown-target-value", "did you mean memory.ocm_bytes"),
        (("--set", "clock_hz=fast"), "bad-target", "fast"),
        (("--set", "clock_hz"), "bad-option", "KEY=VALUE"),
        (("--by", "layr"), "bad-option", "did you mean layer?"),
        (("--sort", "cycle"), "bad-option", "did you mean cycles?"),
        (("--target", "qc-u-1d7"), "unknown-target", "qc-u-1d7-16mb"),
        (("--csv", "no/rows.csv"), "no-such-folder", "rows.csv"),
        (("--max-latency", "5 parsecs"), "bad-option", "--max-latency 5 parsecs"),
        (("--max-external-bytes", "much"), "bad-option", "--max-external-bytes much"),
        (("--sweep", "clock_hz=1,2", "--trace", "t.json"), "bad-option", "--sweep and --trace do not go together"),
        (("--sweep", "clock_hz=1,2", "--by", "op"), "bad-option", "--sweep and --by do not go together"),
        (("--sweep", "clock_hz=1,2", "--compare", "b.axm"), "bad-option", "--sweep and --compare do not go together"),
        (("--compare", "b.axm", "--trace", "t.json"), "bad-option", "--compare and --trace do not go together"),
        (("--compare", "b.axm"), "file-not-found", "b.axm"),
        (("--jobs", "2"), "bad-option", "--jobs is about --sweep"),
        (("--sweep", "clock_hz="), "bad-option", "a value is empty"),
    ],
)
def test_bad_options_of_profile_are_refused(
    tiny_models: Tiny, work: Path, words: tuple[str, ...], code: str, said: str
) -> None:
    ran = axtool("profile", tiny_models / "cls.axm", *words, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, code), ran.err
    assert said in ran.err
    assert list(work.iterdir()) == []


def test_a_sweep_shows_what_does_not_fit_and_goes_on(tiny_models: Tiny, work: Path) -> None:
    ran = axtool("profile", tiny_models / "cls.axm", "--sweep", "memory.ocm_bytes=64,16MiB", "--csv", "rows.csv")
    assert ran.code == 0
    assert "1 of 2 configurations fits" in ran.out
    assert [row["status"] for row in read_csv()] == ["does not fit", "ok"]
    assert "sweeping: 2/2 configurations" in ran.err


def test_a_sweep_in_which_nothing_fits_is_exit_6_with_the_table(tiny_models: Tiny) -> None:
    ran = axtool("profile", tiny_models / "cls.axm", "--sweep", "memory.ocm_bytes=64,128", "--json")
    assert (ran.code, ran.document["status"], len(ran.document["points"])) == (6, "failed", 2)


def test_limits_of_a_sweep_fail_it_only_where_no_configuration_holds_them(tiny_models: Tiny) -> None:
    words = ("profile", tiny_models / "cls.axm", "--sweep", "clock_hz=1MHz,1GHz", "--json", "--max-latency")
    ran = axtool(*words, "1ms")
    assert (ran.code, [len(point["exceeded"]) for point in ran.document["points"]]) == (0, [1, 0])
    assert axtool(*words, "1ns").code == 1


def test_a_comparison_names_both_sides_and_their_rows_go_into_a_file(tiny_models: Tiny, work: Path) -> None:
    words = ("profile", tiny_models / "cls.axm", "--compare", tiny_models / "cls.onnx", "--csv", "rows.csv")
    ran = axtool(*words)
    assert ran.code == 0
    assert "cls.axm on qc-u-1d7-16mb" in ran.out
    assert "cls.onnx on qc-u-1d7-16mb" in ran.out
    assert {row["matched"] for row in read_csv()} == {"both"}
    assert all(row["difference_cycles"] == "0" for row in read_csv())


def test_a_model_is_compared_with_itself_on_another_chip(tiny_models: Tiny) -> None:
    words = ("profile", tiny_models / "cls.onnx", "--compare-target", "qc-u-1d5-8mb", "--json")
    document = axtool(*words).document
    assert (document["this"]["target"], document["other"]["target"]) == ("qc-u-1d7-16mb", "qc-u-1d5-8mb")
    assert all(row["matched"] == "both" for row in document["layers"])


def test_directives_change_what_is_planned(tiny_models: Tiny, work: Path) -> None:
    name = axtool("profile", tiny_models / "cls.onnx", "--json").document["layers"][0]["name"]
    entry = f"{{layers: '{name}', tile: {{rows: 2}}}}"
    Path("d.yaml").write_text(f"schema: axtool.directives/1\ndirectives: [{entry}]\n")
    words = ("profile", tiny_models / "cls.onnx", "--json")
    tiled = axtool(*words, "--directives", "d.yaml").document
    assert tiled["layers"][0]["commands"] > axtool(*words).document["layers"][0]["commands"]
    Path("d.yaml").write_text("schema: axtool.directives/1\ndirectives: [{layers: nothing, tile: {rows: 2}}]\n")
    ran = axtool(*words, "--directives", "d.yaml")
    assert (ran.code, ran.document["error"]["code"]) == (2, "unmatched-directive")


def test_info_flags_weights_that_are_not_finite(work: Path) -> None:
    weights = {**tiny.CLASSIFIER_WEIGHTS, "b1": [float("nan")] * 8}
    ran = axtool("info", tiny.save(Path("nan.onnx"), tiny.CLASSIFIER, weights))
    assert (ran.code, "fault" in ran.out, "b1" in ran.out) == (0, True, True)


def test_info_lists_the_files_of_weights(work: Path) -> None:
    model = tiny.model(tiny.CLASSIFIER, tiny.CLASSIFIER_WEIGHTS)
    onnx.save(model, "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    (row,) = axtool("info", "m.onnx", "--json").document["external_files"]
    assert (row["file"], row["bytes"]) == ("w.bin", Path("w.bin").stat().st_size)
    assert "w.bin" in axtool("info", "m.onnx").out


def test_every_category_with_cycles_has_a_reason(tiny_models: Tiny) -> None:
    for layer in axtool("profile", tiny_models / "cls.onnx", "--json").document["layers"]:
        assert set(layer["reasons"]) == {name for name, cycles in layer["ledger_cycles"].items() if cycles}
        assert all(layer["reasons"].values())
    out = axtool("profile", tiny_models / "cls.onnx", "--why").out
    assert re.search(r"  mac +[0-9,]+ +[0-9.]+ %  the MAC array: .* of it in use", out)
    assert re.search(r"  other +[0-9,]+ +[0-9.]+ %  fixed costs: entry 900", out)


def test_what_the_exporter_wrote_is_shown_with_its_licence_first(tiny_models: Tiny, work: Path) -> None:
    made = onnx.load(str(tiny_models / "cls.onnx"))
    texts = {"task": "classify", "names": str({i: f"n{i}" for i in range(10)}), "license": "AGPL-3.0 License"}
    for key, value in texts.items():
        made.metadata_props.add(key=key, value=value)
    onnx.save(made, "exported.onnx")
    assert axtool("compile", "exported.onnx", "--calib", "random:2", "-o", "exported.axm", "-q").code == 0
    for file in ("exported.onnx", "exported.axm"):
        assert "export  licence AGPL-3.0 License, task classify, 10 class names" in axtool("info", file).out
        assert axtool("info", file, "--json").document["export"]["names"][9] == "n9"
    assert axtool("info", tiny_models / "cls.axm", "--json").document["export"] is None


@pytest.mark.parametrize("wrong", ["x", 3, {"layers": "x"}, {"layers": [{"nodes": [], "tensors": []}]}, None])
def test_a_recipe_that_is_none_is_told_with_the_file(tiny_models: Tiny, work: Path, wrong: object) -> None:
    def change(manifest: Manifest, arrays: Arrays) -> None:
        manifest["quantization"]["recipe"]["resolved"] = wrong

    path = changed(tiny_models / "cls.axm", work / "odd.axm", change)
    ran = axtool("info", path)
    assert ran.code == 2, ran.err
    assert "odd.axm" in ran.err


def test_it_is_said_why_no_kernel_is_named(tiny_models: Tiny) -> None:
    assert "kernels none needed: the device makes the outputs itself" in axtool("info", tiny_models / "cls.axm").out
    assert "kernels none of the built-in ones fits by shape" in axtool("info", tiny_models / "two.axm").out
