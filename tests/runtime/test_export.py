"""What an exporter's metadata choose: the task of a model, and the kernel that `.optimized()` picks."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from axtool.artefact import axm
from axtool.runtime import Postamble, op
from axtool.runtime.export import postambles_of, task_of
from axtool.types import TensorSpec
from tests.runtime.conftest import SOFTMAX, compiled
from tests.tiny import CLASSIFIER, CLASSIFIER_WEIGHTS, model

FRONT = ["NchwToNhwc", "Quant", "Pad", "AxRuntimeModel"]
BEHIND = ["Depad", "Dequant", "_AlignToModelOutput", "_ListUnpack", "OnnxModel"]
FUSED = ["QuantizeTransposePad", "AxRuntimeModel"]
NAMES = [str(digit) for digit in range(10)]


def kinds(pipeline: op.LoadedSeq) -> list[str]:
    return [type(operator).__name__ for operator in pipeline.operators]


def outputs(*shapes: tuple[int, ...]) -> list[TensorSpec]:
    return [TensorSpec(f"o{at}", shape, "float32") for at, shape in enumerate(shapes)]


def changed(digits: Path, folder: Path, **export: Any) -> Path:
    """The same model, whose exporter would have written something else."""
    artefact = axm.read(digits)
    axm.write(folder / "other.axm", replace(artefact, export={**artefact.export, **export}))
    return folder / "other.axm"


def test_compile_keeps_what_the_exporter_wrote(digits: Path) -> None:
    export = axm.read(digits).export
    assert (export["task"], export["names"], export["imgsz"]) == ("detect", NAMES, [160, 160])


def test_a_model_compiled_without_a_task_has_the_exporters(digits: Path) -> None:
    assert axm.read(digits).task == {"kind": "detection", "decode": "yolo", "labels": NAMES}


def test_optimized_picks_the_kernel_of_the_exporters_task(digits: Path) -> None:
    loaded = op.load(digits)
    assert kinds(loaded) == [*FRONT, *BEHIND]
    made = loaded.optimized()
    assert kinds(made) == [*FUSED, "_ListUnpack", "UltralyticsYoloPostamble"]
    assert made.postamble == Postamble(fused_kernel="UltralyticsYoloPostamble", num_classes=10, dfl_bins=16)


def test_the_picked_kernel_gives_what_the_tail_gives(digits: Path) -> None:
    loaded = op.load(digits)
    image = np.random.default_rng(7).random((1, 3, 160, 160), np.float32)
    np.testing.assert_allclose(loaded.optimized()(image), loaded(image), rtol=1e-5, atol=1e-3)


def test_an_empty_postamble_keeps_the_graph_on_an_export_of_ultralytics(digits: Path) -> None:
    assert kinds(op.load(digits, using_postamble=Postamble()).optimized()) == [*FUSED, *BEHIND]


def test_a_declared_kernel_is_left_alone(digits: Path) -> None:
    declared = Postamble(fused_kernel="UltralyticsYoloPostamble", num_classes=10, backend="scalar")
    assert op.load(digits, using_postamble=declared).optimized().postamble == declared


def test_no_policy_picks_nothing(digits: Path) -> None:
    assert kinds(op.load(digits).optimized("none")) == [*FRONT, *BEHIND]


def test_a_pipeline_picks_for_the_models_inside_it(digits: Path) -> None:
    made = op.seq(op.letterbox(160, 160), op.to_tensor(), op.seq(op.load(digits), name="net")).optimized()
    assert "UltralyticsYoloPostamble" in repr(made)


def test_metadata_that_contradict_the_heads_pick_nothing_and_the_log_says_why(
    digits: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "axtool"):
        made = op.load(changed(digits, tmp_path, names=NAMES[:9])).optimized()
    assert kinds(made) == [*FUSED, *BEHIND]
    assert "no kernel picked from the exporter's metadata: UltralyticsYoloPostamble: " in caplog.text


def test_a_kernel_that_would_give_other_numbers_is_not_picked(
    digits: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = Postamble(fused_kernel="tests.runtime.test_export:Zeros")
    monkeypatch.setattr(sys.modules["axtool.runtime.op.load"], "postambles_of", lambda export: (wrong,))
    with caplog.at_level(logging.INFO, "axtool"):
        made = op.load(digits).optimized()
    assert kinds(made) == [*FUSED, *BEHIND]
    assert "output 0 is off by" in caplog.text


class Zeros(op.Operator):
    postamble_slot = "fused_kernel"

    def __init__(self, infos: Any, model_width: int, model_height: int, *, name: str = "") -> None:
        super().__init__(name=name)

    def __call__(self, *tensors: Any) -> Any:
        return np.zeros((1, 14, 525), np.float32)


def test_a_picked_kernel_is_saved_with_the_pipeline(digits: Path, tmp_path: Path) -> None:
    op.seq(op.load(digits)).optimized().save_axe(tmp_path / "net.axe")
    assert "UltralyticsYoloPostamble" in repr(op.load(tmp_path / "net.axe"))


def test_a_detector_has_the_task_only_where_its_output_has_a_row_for_each_class() -> None:
    export = {"task": "detect", "names": ["a", "b"]}
    assert task_of(export, outputs((1, 6, 10)))["decode"] == "yolo"
    assert task_of(export, outputs((1, 300, 6))) == {}
    assert task_of(export, outputs((1, 6, 10), (1, 2))) == {}


def test_a_classifier_has_the_task_of_its_names() -> None:
    export = {"task": "classify", "names": ["a", "b"]}
    assert task_of(export, outputs((1, 2))) == {"kind": "classification", "labels": ["a", "b"]}
    assert task_of(export, outputs((1, 3))) == {}


def test_without_class_names_there_is_nothing_to_try() -> None:
    assert postambles_of({"task": "detect"}) == ()
    assert postambles_of({}) == ()


def test_a_pose_is_tried_with_the_dimensions_of_its_keypoints() -> None:
    tried = postambles_of({"task": "pose", "names": ["a"], "kpt_shape": [17, 2]})
    assert [postamble.params["keypoint_dims"] for postamble in tried] == [2, 2]


@pytest.mark.parametrize(("graph", "picked"), [(SOFTMAX, True), (CLASSIFIER, False)])
def test_a_classifier_is_not_softmaxed_twice(tmp_path: Path, graph: str, picked: bool) -> None:
    """With Softmax in its tail the kernel is picked; with logits, whatever the exporter says, it is not."""
    made = model(graph, CLASSIFIER_WEIGHTS)
    made.metadata_props.add(key="task", value="classify")
    made.metadata_props.add(key="names", value=repr(dict(enumerate(NAMES))))
    onnx.save(made, str(tmp_path / "m.onnx"))
    loaded = op.load(compiled(tmp_path / "m.onnx", tmp_path / "m.axm")).optimized()
    assert (kinds(loaded)[-1] == "ClassificationPostamble") is picked


def test_a_pose_and_a_segmentation_have_tasks_where_the_outputs_are_theirs() -> None:
    export = {"task": "pose", "names": ["a", "b"], "kpt_shape": [4, 3]}
    made = task_of(export, outputs((1, 18, 10)))
    assert (made["kind"], made["keypoints"], made["labels"]) == ("pose", 4, ["a", "b"])
    assert task_of(export, outputs((1, 6, 10))) == {}
    assert task_of({**export, "kpt_shape": [4, 2]}, outputs((1, 14, 10))) == {}
    export = {"task": "segment", "names": ["a", "b"]}
    made = task_of(export, outputs((1, 22, 10), (1, 16, 8, 8)))
    assert (made["kind"], made["classes"], made["coefficients"]) == ("segmentation", 2, 16)
    assert task_of(export, outputs((1, 22, 10), (1, 32, 8, 8))) == {}
    assert task_of(export, outputs((1, 22, 10))) == {}
