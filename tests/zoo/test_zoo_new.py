"""`axzoo new`: a config with comments, which `axzoo check` takes; what is guessed is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from axtool.report.schemas import check_document
from axtool.runtime.tensor_info import TensorInfo
from axtool.types import TensorSpec
from axtool.zoo.catalogue import find
from axtool.zoo.guess import guess
from axtool.zoo.heads import Heads
from tests import tiny
from tests.conftest import Tiny
from tests.tiny import Ran, axzoo

ENTRIES = {
    "digits-v8det": ("detection", "yolo"), "digits-v5anchor": ("detection", "yolo-anchored"),
    "digits-v8pose": ("pose", "yolo"), "digits-v8seg": ("segmentation", "yolo"),
}  # fmt: skip
SOFTMAX = tiny.CLASSIFIER.replace("scores = Gemm <transB=1> (f, w2, b2)", "g = Gemm <transB=1> (f, w2, b2)\n"
                                  "  scores = Softmax <axis=-1> (g)")  # fmt: skip


def source(name: str) -> Path:
    entry = find(name)
    return entry.file(entry.config.source.path)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ENTRIES)
def test_a_config_for_a_bundled_model_has_its_task_and_kernel_and_is_whole(work: Path, name: str) -> None:
    ran = axzoo("new", "mine", "--from", source(name), "--json")
    assert ran.code == 0, ran.err
    document = ran.document
    check_document(document)
    assert (document["task"]["kind"], document["task"]["decode"]) == ENTRIES[name]
    kernel = (document["postamble"] or {}).get("fused_kernel")
    wanted = find(name).config.kernel.kernel_name
    assert kernel == (wanted if wanted != "AnchoredYoloPostamble" else None), "anchors are in no shape"
    assert axzoo("check", "mine.yaml").out == "mine.yaml: whole\n"


def test_what_an_exporter_did_not_write_is_guessed_from_the_heads(work: Path) -> None:
    model = onnx.load(source("digits-v8det"))
    del model.metadata_props[:]
    onnx.save(model, "plain.onnx")
    document = axzoo("new", "mine", "--from", "plain.onnx", "--json").document
    assert document["task"] == {"kind": "detection", "decode": "yolo", "labels": [str(n) for n in range(10)]}
    assert document["postamble"] == {"fused_kernel": "UltralyticsYoloPostamble", "num_classes": 10, "dfl_bins": 16}
    assert "YOLOv8's way" in document["guesses"][0]


YOLO = {"fused_kernel": "UltralyticsYoloPostamble"}
FAMILIES = {
    "segmentation": (
        {64: 3, 5: 3, 9: 3}, [(1, 4 + 5 + 9, 84), (1, 9, 32, 32)], (), {"kind": "segmentation", "coefficients": 9},
        {**YOLO, "num_classes": 5, "dfl_bins": 16},
    ),
    "pose": (
        {64: 3, 1: 3, 51: 3}, [(1, 4 + 1 + 51, 84)], (), {"kind": "pose", "keypoints": 17},
        {**YOLO, "num_classes": 1, "dfl_bins": 16},
    ),
    "turned boxes": (
        {64: 3, 1: 3, 15: 3}, [(1, 4 + 15 + 1, 84)], ("Cos", "Sin"), {}, {**YOLO, "num_classes": 15, "dfl_bins": 16},
    ),
    "17 bins": (
        {68: 3, 7: 3}, [(1, 84, 4 + 1 + 7)], (), {}, None,
    ),
    "yolox": (
        {4: 3, 1: 3, 7: 3}, [(1, 84, 4 + 1 + 7)], ("Exp",), {"kind": "detection", "decode": "yolo-anchored"},
        {**YOLO, "num_classes": 7, "has_objectness": True},
    ),
    "raw yolox": (
        {4: 3, 1: 3, 7: 3}, [(1, 84, 4 + 1 + 7)], (), {"decode": "yolox", "strides": [8, 16, 32]},
        {**YOLO, "num_classes": 7, "has_objectness": True, "form": "yolox-raw"},
    ),
    "packed": (
        {36: 3}, [(1, 84 * 3, 12)], (), {"decode": "yolo-anchored"}, None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_families_are_known_by_their_shapes(family: str) -> None:
    channels, outputs, tail, task, postamble = FAMILIES[family]
    infos = [
        TensorInfo((1, size, size, count), np.int8, f"{count}.{size}", scale=0.03)
        for count in channels
        for size in (8, 4, 2)
    ]
    if family == "segmentation":
        infos.append(TensorInfo((1, 32, 32, 9), np.int8, "prototypes", scale=0.03))
    heads = Heads(
        fused=tuple(infos), floats=(), host=(), inputs=(TensorSpec("x", (1, 3, 64, 64), "float32"),),
        outputs=tuple(TensorSpec(f"y{n}", shape, "float32") for n, shape in enumerate(outputs)), size=(64, 64),
        export={}, last_ops={}, tail_ops=frozenset(tail),
    )  # fmt: skip
    found = guess(heads, [])
    assert {key: found.task.get(key) for key in task} == task
    assert found.postamble.to_dict() == (postamble or {})
    assert bool(found.task) == bool(task)


@pytest.mark.parametrize(("graph", "softmax"), [(tiny.CLASSIFIER, True), (SOFTMAX, False)])
def test_a_list_of_values_is_taken_for_classes(work: Path, graph: str, softmax: bool) -> None:
    tiny.save(work / "cls.onnx", graph, tiny.CLASSIFIER_WEIGHTS)
    document = axzoo("new", "mine", "--from", "cls.onnx", "--json").document
    assert document["task"]["kind"] == "classification"
    assert document["task"].get("softmax", False) is softmax
    assert (document["postamble"] is None) is softmax, "a kernel that makes chances is not for logits"


def test_the_config_that_is_begun_builds_and_finds(tiny_models: Tiny, work: Path) -> None:
    (work / "pictures").mkdir()
    for index in range(4):
        (work / "pictures" / f"{index}.png").write_bytes((tiny_models / "picture.png").read_bytes())
    words = ("--calib", "pictures", "--labels", ",".join("abcdefghij"))
    assert axzoo("new", "mine", "--from", tiny_models / "cls.onnx", *words).code == 0
    ran = axzoo("run", "mine.yaml", "pictures/0.png", "--json")
    assert ran.code == 0, ran.err
    assert ran.document["pictures"][0]["result"]["classes"][0]["label"] in "abcdefghij"


def test_the_text_explains_its_lines_and_says_the_next_step(tiny_models: Tiny, work: Path) -> None:
    ran = axzoo("new", "mine", "--from", tiny_models / "cls.onnx")
    assert "next        axzoo check mine.yaml" in ran.out
    text = Path("mine.yaml").read_text()
    assert "licence: unknown  # of the weights: say it" in text
    assert sum("#" in line for line in text.splitlines()) > 8


def test_a_model_that_names_its_licence_has_it_in_its_config(work: Path) -> None:
    model = onnx.load(source("digits-v8det"))
    del model.metadata_props[:]
    for key, value in {"task": "detect", "names": str({n: f"d{n}" for n in range(10)}), "license": "AGPL-3.0"}.items():
        model.metadata_props.add(key=key, value=value)
    onnx.save(model, "plain.onnx")
    assert axzoo("new", "mine", "--from", "plain.onnx").code == 0
    config = find("mine.yaml").config
    assert config.licence == "AGPL-3.0"
    assert config.task["labels"][3] == "d3"


def refused(*words: object) -> Ran:
    ran = axzoo("new", *words, "--json")
    assert ran.code == 2
    return ran


def test_what_cannot_be_is_refused(tiny_models: Tiny, work: Path) -> None:
    model = tiny_models / "cls.onnx"
    assert "want lower case" in refused("My_Model", "--from", model).err
    assert "file not found" in refused("mine", "--from", "gone.onnx").err
    assert "no such file or folder" in refused("mine", "--from", model, "--calib", "gone").err
    assert "has the name of its model" in refused("mine", "--from", model, "--out", "other.yaml").err
    assert "3 names for 10 classes" in refused("mine", "--from", model, "--labels", "a,b,c").err
    assert not Path("mine.yaml").exists()


def test_sizes_that_are_open_are_asked_for(tiny_models: Tiny, work: Path) -> None:
    assert "--input-shape image:" in refused("mine", "--from", tiny_models / "two.onnx").err
    assert axzoo("new", "mine", "--from", tiny_models / "two.onnx", "--input-shape", "image:1,3,8,8").code == 0
    assert find("mine.yaml").config.input_shapes == {"image": [1, 3, 8, 8]}
    assert axzoo("check", "mine.yaml").code == 0


def test_a_config_that_is_there_is_kept_without_force(tiny_models: Tiny, work: Path) -> None:
    Path("mine.yaml").write_text("mine")
    refused("mine", "--from", tiny_models / "cls.onnx")
    assert Path("mine.yaml").read_text() == "mine"
    assert axzoo("new", "mine", "--from", tiny_models / "cls.onnx", "--force").code == 0


def test_a_name_with_lines_of_its_own_stays_one_value(tiny_models: Tiny, work: Path) -> None:
    odd = work / "a\nname: other\nb.onnx"
    odd.write_bytes((tiny_models / "cls.onnx").read_bytes())
    assert axzoo("new", "mine", "--from", odd).code == 0
    assert find("mine.yaml").config.name == "mine"
