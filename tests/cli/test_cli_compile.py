"""`axtool compile`: what it writes, what it says, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from axtool.artefact import axm
from axtool.cli.compile_command import TASK_HELP
from axtool.cli.task import task_of
from axtool.errors import UsageError
from axtool.runtime.detect import DECODERS
from axtool.runtime.task import KINDS
from tests import tiny
from tests.conftest import Tiny
from tests.tiny import axtool

CALIB = ("--calib", "random:2")


@pytest.fixture
def onnx(tiny_models: Tiny) -> Path:
    return tiny_models / "cls.onnx"


def test_the_summary_is_on_stdout_and_the_warnings_on_stderr(onnx: Path, work: Path) -> None:
    ran = axtool("compile", onnx, *CALIB)
    assert (ran.code, (work / "cls.axm").is_file()) == (0, True)
    assert ran.out.startswith("cls.axm: ")
    assert "5 of 5 nodes" in ran.out
    assert "warning: 2 random samples" in ran.err
    assert "warning" not in ran.out


def test_quiet_says_nothing(onnx: Path, work: Path) -> None:
    assert axtool("compile", onnx, *CALIB, "-q") == tiny.Ran(0, "", "")


def test_verbose_says_each_note_once(onnx: Path, work: Path) -> None:
    ran = axtool("compile", onnx, *CALIB, "-v")
    lines = [line for line in ran.err.splitlines() if not line.startswith("calibrating")]
    assert ran.code == 0
    assert len(lines) == len(set(lines))


def test_the_document_says_what_was_written(onnx: Path, work: Path) -> None:
    ran = axtool("compile", onnx, *CALIB, "--json")
    document = ran.document
    assert (document["status"], document["file"]) == ("ok", "cls.axm")
    assert document["file_bytes"] == (work / "cls.axm").stat().st_size
    assert document["nodes"] == {"device": 5, "host": 0}


def test_two_compiles_give_the_same_bytes(onnx: Path, work: Path) -> None:
    for name in ("a.axm", "b.axm"):
        assert axtool("compile", onnx, *CALIB, "-o", name, "-q").code == 0
    assert (work / "a.axm").read_bytes() == (work / "b.axm").read_bytes()


def test_saved_ranges_give_the_same_programs_without_data(tiny_models: Tiny, onnx: Path, work: Path) -> None:
    ran = axtool("compile", onnx, "--ranges", tiny_models / "ranges.json", "-o", "a.axm", "-q")
    assert ran.code == 0, ran.err
    made, first = axm.read(work / "a.axm"), axm.read(tiny_models / "cls.axm")
    assert [s.plan.commands for s in made.device_stages] == [s.plan.commands for s in first.device_stages]
    for one, other in zip(made.device_stages, first.device_stages, strict=True):
        for name, array in one.plan.program.constants.items():
            np.testing.assert_array_equal(array, other.plan.program.constants[name])


def test_calibration_and_ranges_together_are_refused(tiny_models: Tiny, onnx: Path, work: Path) -> None:
    ran = axtool("compile", onnx, *CALIB, "--ranges", tiny_models / "ranges.json")
    assert (ran.code, "both given" in ran.err, list(work.iterdir())) == (2, True, [])


def test_an_existing_output_is_left_alone_without_force(onnx: Path, work: Path) -> None:
    (work / "cls.axm").write_bytes(b"old")
    ran = axtool("compile", onnx, *CALIB, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "output-exists")
    assert "--force" in ran.err
    assert (work / "cls.axm").read_bytes() == b"old"


def test_force_replaces_the_output(onnx: Path, work: Path) -> None:
    (work / "cls.axm").write_bytes(b"old")
    assert axtool("compile", onnx, *CALIB, "--force", "-q").code == 0
    assert axm.is_axm(work / "cls.axm")


def test_not_even_force_overwrites_the_model(onnx: Path, work: Path) -> None:
    (work / "m.onnx").write_bytes(onnx.read_bytes())
    ran = axtool("compile", "m.onnx", *CALIB, "-o", "m.onnx", "--force")
    assert (ran.code, "is an input" in ran.err) == (2, True)
    assert (work / "m.onnx").read_bytes() == onnx.read_bytes()


def test_a_failure_keeps_the_old_file_even_with_force(onnx: Path, work: Path) -> None:
    (work / "cls.axm").write_bytes(b"old")
    assert axtool("compile", onnx, "--calib", "nowhere", "--force").code == 2
    assert [(p.name, p.read_bytes()) for p in work.iterdir()] == [("cls.axm", b"old")]


def test_a_place_for_ranges_that_does_not_exist_is_found_before_any_work(onnx: Path, work: Path) -> None:
    ran = axtool("compile", onnx, *CALIB, "--save-ranges", "no/r.json")
    assert (ran.code, list(work.iterdir())) == (2, [])
    assert "calibrating" not in ran.err


def test_saved_ranges_are_json_by_tensor(onnx: Path, work: Path) -> None:
    assert axtool("compile", onnx, *CALIB, "--save-ranges", "r.json", "-q").code == 0
    assert set(json.loads((work / "r.json").read_text())["tensors"]) >= {"x", "scores"}


def test_check_runs_every_step_against_its_oracle(onnx: Path, work: Path) -> None:
    ran = axtool("compile", onnx, *CALIB, "--check", "-q")
    assert ran.code == 0, ran.err


def test_what_each_optimisation_is_worth_is_a_table_and_a_key_of_the_document(onnx: Path, work: Path) -> None:
    out = axtool("compile", onnx, *CALIB, "--explain-passes").out
    assert "fuse-before-upsample" in out
    assert "Agreement with the float model" in out
    worth = axtool("compile", onnx, *CALIB, "--explain-passes", "--json", "--force").document["passes"]
    assert {row["name"] for row in worth["rows"]} >= {"single-entry", "split-resize", "int32-mean"}
    assert worth["base_cycles_modelled"] >= worth["composed_cycles_modelled"] >= worth["final_cycles_modelled"] > 0


def test_a_chip_without_optimisations_has_no_rows(onnx: Path, work: Path) -> None:
    worth = axtool("compile", onnx, *CALIB, "--target", "metis", "--explain-passes", "--json").document["passes"]
    assert worth["rows"] == []
    assert worth["base_cycles_modelled"] == worth["final_cycles_modelled"]


# words of the command line -> (error code, a part of what is said)
REFUSED: dict[str, tuple[tuple[str, ...], str, str]] = {
    "no data": ((), "no-samples", "random:32"),
    "no such folder of data": (("--calib", "pictures"), "file-not-found", "pictures"),
    "no sample": (("--calib", "random:0"), "bad-option", "random:N"),
    "more random samples than are counted": (("--calib", "random:" + "9" * 20), "bad-option", "from 1 to 1000000"),
    "a random number of thousands of digits": (("--calib", "random:" + "9" * 9000), "bad-option", "from 1 to 1000000"),
    "a size of thousands of digits": ((*CALIB, "--dim", "batch=" + "9" * 9000), "bad-option", "NAME=N"),
    "no name of data": (("--calib", ""), "bad-option", "an empty name"),
    "no name of an output": ((*CALIB, "--outputs", ""), "bad-option", "a name is empty"),
    "an output without a name": ((*CALIB, "--outputs", "scores,"), "bad-option", "a name is empty"),
    "an unknown chip": ((*CALIB, "--target", "qc-u-1d7"), "unknown-target", "qc-u-1d7-16mb"),
    "an unknown input": ((*CALIB, "--input-shape", "xx:1,3,16,16"), "unknown-input", "did you mean x?"),
    "a shape that is none": ((*CALIB, "--input-shape", "x:1,a"), "bad-option", "NAME:1,3,H,W"),
    "a size that is none": ((*CALIB, "--dim", "batch=0"), "bad-option", "NAME=N"),
    "an unknown output": ((*CALIB, "--outputs", "scoress"), "unknown-output", "did you mean scores?"),
    "an unknown pass": ((*CALIB, "--disable-pass", "fuse-clips"), "unknown-pass", "fuse-clip"),
    "an unknown optimisation": ((*CALIB, "--disable-pass", "fuse-before-upsampling"), "unknown-pass", "fuse-before-"),
    "a place that is no number": ((*CALIB, "--disable-pass", "prefetch-weights:x"), "unknown-pass", "prefetch-weights"),
    "an unknown optimisation to add": ((*CALIB, "--enable-pass", "replicate"), "unknown-pass", "replicate-labels"),
    "an unknown method": ((*CALIB, "--method", "min-max"), "bad-option", "did you mean minmax?"),
    "an unknown resize": ((*CALIB, "--resize", "leterbox"), "bad-option", "letterbox"),
    "a mean of words": ((*CALIB, "--mean", "a,b,c"), "bad-option", "--mean"),
    "a percentile over 100": ((*CALIB, "--percentile", "300"), "bad-option", "300"),
    "a folder that is not there": ((*CALIB, "-o", "no/where.axm"), "no-such-folder", "make the folder"),
    "a folder as output": ((*CALIB, "-o", "."), "output-is-folder", "folder"),
    "ranges that are not there": (("--ranges", "r.json"), "file-not-found", "r.json"),
    "an unknown option": ((*CALIB, "--tarket", "x"), "usage", "--target"),
    "a word where a number belongs": ((*CALIB, "--jobs", "many"), "usage", "--jobs"),
    "a percentile of minmax": ((*CALIB, "--method", "minmax", "--percentile", "99"), "bad-option", "minmax"),
    "an output of no kind": ((*CALIB, "-o", "model.bin"), "bad-option", ".axm"),
    "an unknown task": ((*CALIB, "--task", "clasification"), "bad-task", "did you mean classification?"),
    "an unknown decoder": ((*CALIB, "--task", "detection:yolox1"), "bad-task", "did you mean yolox"),
    "a detection of no decoder": ((*CALIB, "--task", "detection"), "bad-task", "detection:yolo"),
    "labels without a task": ((*CALIB, "--labels", "a,b"), "bad-option", "--task"),
    "labels that are not there": ((*CALIB, "--task", "classification", "--labels", "l.txt"), "file-not-found", "l.txt"),
    "a preprocessing that is not there": ((*CALIB, "--preprocess", "p.py:f"), "file-not-found", "p.py"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_and_nothing_is_written(onnx: Path, work: Path, name: str) -> None:
    words, code, said = REFUSED[name]
    ran = axtool("compile", onnx, *words, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, code), ran.err
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert list(work.iterdir()) == []


def broken(folder: Path, kind: str) -> Path:
    path = folder / "bad.onnx"
    good = tiny.model(tiny.CLASSIFIER, tiny.CLASSIFIER_WEIGHTS)
    if kind == "truncated":
        path.write_bytes(good.SerializeToString()[:700])
    elif kind == "text":
        path.write_text("not a model\n")
    elif kind == "external":
        import onnx

        onnx.save(
            good, str(path), save_as_external_data=True, location="weights.bin", size_threshold=0,
            convert_attribute=False,
        )  # fmt: skip
        (folder / "weights.bin").unlink()
    elif kind == "nan":
        array = np.full((8, 3, 3, 3), np.nan)
        path = tiny.save(path, tiny.CLASSIFIER, {**tiny.CLASSIFIER_WEIGHTS, "w1": array})
    elif kind == "host only":
        path = tiny.save(path, "(float[1,3,3] x) => (float[1,3,3] y) { y = Det2(x) }".replace("Det2", "Trilu"), {})
    elif kind == "channels":
        path = tiny.save(path, tiny.CLASSIFIER, {**tiny.CLASSIFIER_WEIGHTS, "w1": (8, 4, 3, 3)})
    return path


@pytest.mark.parametrize(
    ("kind", "exit_code"),
    [("missing", 2), ("truncated", 2), ("text", 2), ("external", 2), ("channels", 2), ("nan", 5), ("host only", 3)],
)
def test_a_bad_model_is_refused_by_its_kind(work: Path, kind: str, exit_code: int) -> None:
    path = broken(work, kind)
    before = sorted(p.name for p in work.iterdir())
    ran = axtool("compile", path, *CALIB, "-o", "out.axm", "--json")
    assert ran.code == exit_code, ran.err
    assert ran.document["error"]["exit"] == exit_code
    assert ("w1" if kind == "nan" else path.name) in ran.err
    assert "Traceback" not in ran.err
    assert sorted(p.name for p in work.iterdir()) == before


def test_a_model_that_does_not_fit_is_exit_6(onnx: Path, work: Path) -> None:
    import yaml

    from axtool.config import package_dir

    values = yaml.safe_load((package_dir("configs") / "targets" / "qc-u-1d7-16mb.yaml").read_text())
    values["name"] = "small"
    memory = values["memory"]["ocm_bytes"]
    if isinstance(memory, dict):
        memory["value"] = 64
    else:
        values["memory"]["ocm_bytes"] = 64
    Path("small.yaml").write_text(yaml.safe_dump(values))
    ran = axtool("compile", onnx, *CALIB, "--target", "small.yaml", "-o", "out.axm", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (6, "does-not-fit"), ran.err
    assert not Path("out.axm").exists()


def test_pictures_of_another_kind_are_refused(onnx: Path, work: Path) -> None:
    (work / "pictures").mkdir()
    (work / "pictures" / "notes.txt").write_text("no picture")
    ran = axtool("compile", onnx, "--calib", "pictures")
    assert (ran.code, "pictures" in ran.err) == (2, True)
    (work / "pictures" / "a.png").write_bytes(b"no picture either")
    ran = axtool("compile", onnx, "--calib", "pictures")
    assert (ran.code, "a.png" in ran.err) == (2, True)


@pytest.mark.parametrize("labels", ["zero, one,two", "names.txt"])
def test_a_task_makes_the_users_own_model_draw(tiny_models: Tiny, onnx: Path, work: Path, labels: str) -> None:
    (work / "names.txt").write_text("zero\none\n\ntwo\n")
    picture = tiny_models / "picture.png"
    ran = axtool("compile", onnx, "--calib", picture, "--task", "classification", "--labels", labels)
    assert ran.code == 0, ran.err
    assert axm.read(work / "cls.axm").task["labels"] == ["zero", "one", "two"]
    assert "classification, 3 labels" in axtool("info", "cls.axm").out
    ran = axtool("run", "cls.axm", picture, "--save", "out.png")
    assert (ran.code, (work / "out.png").is_file(), "wrote out.png" in ran.err) == (0, True, True)


def test_the_help_names_every_decoder_and_kind_of_task() -> None:
    assert [name for name in (*DECODERS, *KINDS) if name not in TASK_HELP] == []


def test_a_pose_says_how_many_keypoints_it_has() -> None:
    assert task_of("pose:yolo-anchored:17", "a,b") == {
        "kind": "pose", "decode": "yolo-anchored", "keypoints": 17, "labels": ["a", "b"],
    }  # fmt: skip
    assert task_of("segmentation:yolo", None) == {"kind": "segmentation", "decode": "yolo"}


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("pose:yolo", "want how many keypoints"), ("pose:yolo:none", "want how many keypoints"),
        ("pose:yolo:0", "want how many keypoints"), ("pose", "want the decoder of the outputs"),
        ("segmentation:yolo:4", "a segmentation has no keypoints"),
        ("detection:yolo:4", "a detection has no keypoints"),
        ("pose:dbnet:4", "decoder 'dbnet' gives no pose"),
    ],
)  # fmt: skip
def test_a_task_that_contradicts_itself_is_refused(task: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        task_of(task, None)


def test_a_compiled_file_is_not_compiled_again(tiny_models: Tiny, work: Path) -> None:
    for words in ((), CALIB):
        ran = axtool("compile", tiny_models / "cls.axm", *words)
        assert (ran.code, "already compiled; want an .onnx" in ran.err) == (2, True), ran.err


def test_verbose_says_the_passes_the_split_and_the_seconds_of_each_step(onnx: Path, work: Path) -> None:
    said = axtool("compile", onnx, *CALIB, "-v").err
    assert "passes: " in said
    assert "split, nodes of each stage: device 5" in said
    for step in ("reading", "calibrating", "planning", "writing"):
        assert re.search(rf"^{step}: [0-9.]+ s$", said, re.MULTILINE), said


def test_the_elapsed_time_is_measured(onnx: Path, work: Path) -> None:
    assert re.search(r"elapsed +[0-9.]+ (s|ms), measured here", axtool("compile", onnx, *CALIB).out)
    assert axtool("compile", onnx, *CALIB, "--json", "--force").document["elapsed_s_measured"] > 0
