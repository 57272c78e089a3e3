"""`--postamble` of `axtool run` and `axtool verify`: how it is written, what ran, and the verdict on a kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axtool.cli.postamble import postamble_of
from axtool.errors import UsageError
from axtool.inputs.arrays import read_arrays
from axtool.runtime import Postamble
from tests import tiny
from tests.conftest import Tiny
from tests.tiny import Ran, axtool

USER = "tests.runtime.kernels_of_the_user"
KERNEL = f"{USER}:MapAndChances"
YOLO = "UltralyticsYoloPostamble"
LABELS = """(float[1,3,8,8] x) => (int64[1,8,8] labels) {
  c = Conv <kernel_shape=[3,3], pads=[1,1,1,1]> (x, w, b)
  labels = ArgMax <axis=1, keepdims=0> (c)
}"""


@pytest.mark.parametrize(
    ("text", "params"),
    [
        (YOLO, {}),
        (f"{YOLO},num_classes=80", {"num_classes": 80}),
        (f" {YOLO} , num_classes=80 ", {"num_classes": 80}),
        (f"fused_kernel={YOLO},num_classes=80", {"num_classes": 80}),
        (f"{YOLO},has_objectness=true,form='a,b'", {"has_objectness": True, "form": "a,b"}),
        (f"{YOLO},tensor_roles=[box, class]", {"tensor_roles": ["box", "class"]}),
        (f"Postamble(fused_kernel='{YOLO}', num_classes=80)", {"num_classes": 80}),
        (f" Postamble(fused_kernel='{YOLO}', a=[[1, 2.5]], form='x') ", {"a": [[1, 2.5]], "form": "x"}),
        (f"{YOLO},a=[[10, 13.5], [1, 2]],b={{c: 1}}", {"a": [[10, 13.5], [1, 2]], "b": {"c": 1}}),
    ],
)
def test_a_postamble_is_a_name_and_values_as_yaml_has_them(text: str, params: dict[str, Any]) -> None:
    assert postamble_of(text) == Postamble(fused_kernel=YOLO, **params)


def test_none_is_the_empty_postamble() -> None:
    assert postamble_of("none").is_empty


def test_the_slot_is_the_one_that_a_kernel_is_written_for() -> None:
    assert postamble_of(f"{USER}:SoftmaxTail") == Postamble(kernel=f"{USER}:SoftmaxTail")
    assert postamble_of(f"{USER}:RawSoftmaxTail") == Postamble(fused_kernel=f"{USER}:RawSoftmaxTail")


def test_a_kernel_of_the_current_folder_is_found(work: Path) -> None:
    text = "from axtool.runtime import op\nclass TailHere(op.Operator):\n    postamble_slot = 'kernel'\n"
    (work / "tail_of_this_folder.py").write_text(text)
    assert postamble_of("tail_of_this_folder:TailHere").slot == "kernel"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "want the name of a built-in kernel"),
        ("UltralyticsYolo", f"did you mean {YOLO}?"),
        (f"num_classes=80,{YOLO}", "the kernel comes first, its parameters behind it"),
        (f"{YOLO},80", "'80' is no KEY=VALUE"),
        (f"{YOLO},num_classes=1,num_classes=2", "'num_classes=2' is no KEY=VALUE of its own"),
        (f"{YOLO},kernel=x", "'kernel=x' is no KEY=VALUE of its own"),
        (f"{YOLO},num-classes=1", "'num-classes=1' is no KEY=VALUE"),
        (f"{YOLO},num_classes=", "num_classes: want one value"),
        (f"{YOLO},num_classes=1\nb: 2", "num_classes: want one value"),
        (f"{YOLO},num_classes=[1", "num_classes: while parsing"),
        (f"{YOLO},num_classes=!!python/name:os.system", "num_classes: line 1: python/name:os.system is no plain value"),
        (f"{YOLO},num_classes=*a", "num_classes: line 1: an anchor or alias"),
        (f"{YOLO},a={'[' * 99}{']' * 99}", "a: line 1: nested too deep"),
        ("Postamble('x')", "want Postamble(fused_kernel='Name', key=value)"),
        ("Postamble(**a)", "want Postamble(fused_kernel='Name', key=value)"),
        ("Postamble(fused_kernel=open('x'))", "malformed node or string"),
        ("Postamble(fused_kernel='X'", "was never closed"),
        ("Postamble(kernel='X', fused_kernel='Y')", "a Postamble has one kernel"),
        ("Postamble(fused_kernel='X')[0]", "want Postamble(fused_kernel='Name', key=value)"),
        ("none,num_classes=1", "'none' has no parameters"),
        ("no.such.module:Tail", "cannot import 'no.such.module'"),
        (f"{USER}:Tail", "has no class 'Tail'"),
        (f"{USER}:NoOperator", "is not a subclass of op.Operator"),
        (f"{USER}:TwoTails", f"write kernel={USER}:TwoTails or fused_kernel={USER}:TwoTails"),
    ],
)
def test_what_is_no_postamble_is_refused_with_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        postamble_of(text)
    assert said in str(refused.value)
    assert (refused.value.code, str(refused.value)[:12]) == ("bad-postamble", "--postamble ")


def run(tiny_models: Tiny, *words: object) -> Ran:
    return axtool("run", tiny_models / "two.axm", tiny_models / "picture.png", *words, "--resize", "fit", "-q")


def test_run_gives_the_same_outputs_with_the_tail_in_onnxruntime(tiny_models: Tiny, work: Path) -> None:
    assert run(tiny_models, "-o", "plain.npz").code == 0
    assert run(tiny_models, "-o", "none.npz", "--postamble", "none").code == 0
    plain, none = read_arrays("plain.npz", "output"), read_arrays("none.npz", "output")
    assert plain.keys() == none.keys()
    for name, array in plain.items():
        np.testing.assert_array_equal(none[name], array)


def test_run_says_what_made_the_tail_and_how_long_it_took(tiny_models: Tiny, work: Path) -> None:
    document = run(tiny_models, "--postamble", KERNEL, "--repeat", "2", "--json").document
    assert document["tail"] == {"made_by": "MapAndChances", "postamble": {"kernel": KERNEL}}
    assert document["time"]["tail_ms_measured"] > 0
    assert "host_ms_measured" not in document["time"]
    assert "MapAndChances, frame" in run(tiny_models, "--postamble", KERNEL).out
    assert "by onnxruntime, frame" in run(tiny_models, "--postamble", "none").out
    assert run(tiny_models, "--json").document["tail"] is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((YOLO, ), "missing 1 required keyword-only argument: 'num_classes'"),
        ((f"{YOLO},num_classes=4",), "no output has the 64 channels of boxes"),
        ((f"{KERNEL},fault=raises",), "kernel MapAndChances fails while it runs: KeyError: 'anchors'"),
        ((f"{KERNEL},fault=one output",), "MapAndChances gives ndarray, want an array for each of chances, map"),
        ((f"{KERNEL},faults=1",), "unexpected keyword argument 'faults'"),
        ((f"kernel={YOLO},num_classes=4",), f"{YOLO} must be declared as fused_kernel=, not kernel=."),
    ],
)  # fmt: skip
def test_a_kernel_that_does_not_fit_ends_a_run_with_its_own_words(
    tiny_models: Tiny, words: tuple[str, ...], said: str
) -> None:
    ran = run(tiny_models, "--postamble", *words, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "bad-postamble"), ran.out
    assert said in ran.document["error"]["message"]


def test_the_float_engine_has_no_tail_to_replace(tiny_models: Tiny) -> None:
    words = ("--engine", "float", "--postamble", "none")
    ran = axtool("run", tiny_models / "two.onnx", tiny_models / "picture.png", *words)
    assert ran.code == 2
    assert "--postamble is for a compiled model" in ran.err


def verify(tiny_models: Tiny, postamble: str, *words: object) -> Ran:
    data = ("--data", "random:2", "-q")
    return axtool("verify", tiny_models / "two.axm", *data, "--postamble", postamble, *words)


def test_a_right_kernel_passes_without_the_source(tiny_models: Tiny) -> None:
    ran = verify(tiny_models, KERNEL)
    assert ran.code == 0, ran.out
    assert f"passed: kernel {KERNEL}; 2 samples, 4 frames of random buffers" in ran.out
    document = verify(tiny_models, KERNEL, "--json").document
    assert (document["against"], document["stage"], document["outputs"]) == (None, None, [])
    rows = {(row["output"], row["buffers"]): row for row in document["postamble"]["outputs"]}
    assert set(rows) == {(name, kind) for name in ("chances", "map") for kind in ("samples", "random")}
    assert all(row["passed"] and row["tolerance_used"] < 1 for row in rows.values())
    assert document["postamble"]["onnxruntime_ms_measured"] > 0


def test_a_kernel_and_the_source_are_judged_in_one_run(tiny_models: Tiny) -> None:
    against = ("--against", tiny_models / "two.onnx", "--min-sqnr", "5")
    document = verify(tiny_models, f"{KERNEL},fault=one value", *against, "--json").document
    assert document["outputs"]
    assert document["verdict"] == document["postamble"]["verdict"] == "failed"
    assert [line for line in document["failures"] if "MapAndChances: 'map' on samples" in line]
    text = verify(tiny_models, f"{KERNEL},fault=one value", *against).out
    assert "passed: 2 samples, stage all" in text
    assert "failed: kernel" in text


@pytest.mark.parametrize(
    ("fault", "kinds", "said"),
    [
        ("one value", {"samples", "random"}, "at [0, 2, 1, 3] the kernel gives"),
        ("not a number", {"samples", "random"}, "values are finite in only one of the two"),
        (
            "type",
            {"samples", "random"},
            "'map' on samples is float64 [1, 4, 8, 8], the tail gives float32 [1, 4, 8, 8]",
        ),
        ("shape", {"samples", "random"}, "is float32 [4, 8, 8], the tail gives float32 [1, 4, 8, 8]"),
        ("saturated", {"random"}, "'map' on random buffers: at"),
    ],
)
def test_a_wrong_kernel_fails_with_where_and_what(tiny_models: Tiny, fault: str, kinds: set[str], said: str) -> None:
    ran = verify(tiny_models, f"{KERNEL},fault={fault}", "--json")
    tail = ran.document["postamble"]
    assert (ran.code, tail["verdict"]) == (1, "failed")
    assert {row["buffers"] for row in tail["outputs"] if not row["passed"]} == kinds
    assert {row["output"] for row in tail["outputs"] if not row["passed"]} == {"map"}
    assert said in " ".join(tail["failures"])


def test_rtol_and_atol_replace_what_is_allowed(tiny_models: Tiny) -> None:
    fault = f"{KERNEL},fault=one value"
    assert verify(tiny_models, fault, "--atol", "0.011").code == 0
    assert verify(tiny_models, fault, "--rtol", "0.9").code == 0
    assert verify(tiny_models, KERNEL, "--rtol", "0", "--atol", "0").code == 1


def test_labels_agree_but_for_the_share_that_a_kernel_tells_of(work: Path) -> None:
    tiny.save(work / "labels.onnx", LABELS, {"w": (5, 3, 3, 3), "b": (5,)})
    on_the_host = ("--target", "metis")  # has no ArgMax
    assert axtool("compile", "labels.onnx", "--calib", "random:2", "-o", "labels.axm", "-q", *on_the_host).code == 0
    words = ("verify", "labels.axm", "--data", "random:1", "-q", "--postamble")
    right = axtool(*words, f"{USER}:Labels", "--json")
    assert right.code == 0, right.out
    assert all(row["whole_numbers"] and row["differing"] == 0 for row in right.document["postamble"]["outputs"])
    wrong = axtool(*words, f"{USER}:Labels,off=3")
    assert wrong.code == 1
    assert "12 of 256 labels differ, want 0.00% at most" in wrong.out
    assert axtool(*words, f"{USER}:Labels,off=3,share=0.05").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Missing option '--against'"),
        (("--postamble", "none"), "it is the tail that kernels are compared with"),
        (("--postamble", KERNEL, "--layers"), "Missing option '--against'"),
        (("--postamble", KERNEL, "--min-sqnr", "3"), "Missing option '--against'"),
        (("--postamble", KERNEL, "--rtol", "nan"), "--rtol nan: want a number of at least 0"),
        (("--against", "two.onnx", "--atol", "1"), "--rtol and --atol are of a --postamble"),
    ],
)
def test_options_without_what_they_are_of_are_refused(tiny_models: Tiny, words: tuple[str, ...], said: str) -> None:
    ran = axtool("verify", tiny_models / "two.axm", "--data", "random:2", *words)
    assert ran.code == 2
    assert said in ran.err


def test_a_kernel_whose_tolerances_are_none_is_told_so(tiny_models: Tiny) -> None:
    ran = verify(tiny_models, f"{KERNEL},fault=tolerances")
    assert ran.code == 2
    assert "want a Tolerance for each of 2 outputs" in ran.err


@pytest.mark.parametrize("command", [("info",), ("run",), ("verify", "--data", "random:1", "--postamble", KERNEL)])
def test_a_pipeline_is_told_from_a_model(work: Path, command: tuple[str, ...]) -> None:
    (work / "pipeline.axe").write_bytes(b"PK")
    words = ("pipeline.axe", "x.npy") if command == ("run",) else ("pipeline.axe",)
    ran = axtool(*command, *words)
    assert ran.code == 2
    assert "pipeline.axe: an .axe file is a pipeline, not one model" in ran.err


def test_outputs_of_another_type_have_no_error_figures(tiny_models: Tiny) -> None:
    rows = verify(tiny_models, f"{KERNEL},fault=type", "--json").document["postamble"]["outputs"]
    assert {row["max_abs_error"] for row in rows if row["output"] == "map"} == {None}
