"""`axtool verify --metric`: label maps and sets of boxes of compiled models, their tables, limits and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from axtool.report.schemas import check_document
from tests import tiny
from tests.conftest import Tiny
from tests.tiny import Ran, axtool

LABELS = """(float[1,3,16,24] x) => (int64[1,16,24] labels) {
  c = Conv <kernel_shape=[3,3], pads=[1,1,1,1]> (x, w, b)
  labels = ArgMax <axis=1, keepdims=0> (c)
}"""
CHANCE = """(float[1,3,16,24] x) => (float[1,1,16,24] chance) {
  c = Conv <kernel_shape=[3,3], pads=[1,1,1,1]> (x, w, b)
  chance = Sigmoid(c)
}"""
DETR = """(float[1,3,16,24] x) => (float[1,12,5] logits, float[1,12,4] boxes) {
  c = Conv <kernel_shape=[4,8], strides=[4,8]> (x, w, b)
  l = Conv <kernel_shape=[1,1]> (c, wl, bl)
  s = Conv <kernel_shape=[1,1]> (c, wb, bb)
  g = Sigmoid(s)
  ls = Constant <value_ints=[1,5,12]> ()
  bs = Constant <value_ints=[1,4,12]> ()
  lr = Reshape(l, ls)
  br = Reshape(g, bs)
  logits = Transpose <perm=[0,2,1]> (lr)
  boxes = Transpose <perm=[0,2,1]> (br)
}"""


@pytest.fixture(scope="module")
def segmenters(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """`labels`, `chance` and `detr`, each .onnx and .axm."""
    folder = tmp_path_factory.mktemp("segmenters")
    maps = {"w": (6, 3, 3, 3), "b": (6,)}
    chance = {"w": (1, 3, 3, 3), "b": (1,)}
    boxes = {"w": (8, 3, 4, 8), "b": (8,), "wl": (5, 8, 1, 1), "bl": (5,), "wb": (4, 8, 1, 1), "bb": (4,)}
    for name, graph, weights in (("labels", LABELS, maps), ("chance", CHANCE, chance), ("detr", DETR, boxes)):
        tiny.save(folder / f"{name}.onnx", graph, weights)
        task = ("--task", "semantic", "--labels", "no,yes") if name == "chance" else ()
        ran = axtool("compile", folder / f"{name}.onnx", "--calib", "random:4", "-o", folder / f"{name}.axm", *task)
        assert ran.code == 0, ran.err
    return Tiny(folder)


def verify(models: Tiny, name: str, *words: object) -> Ran:
    source = models / f"{name}.onnx"
    return axtool("verify", models / f"{name}.axm", "--against", source, "--data", "random:8", *words)


def test_labels_are_compared_pixel_by_pixel(segmenters: Tiny) -> None:
    ran = verify(segmenters, "labels", "--metric", "miou,pixel", "--json")
    document = ran.document
    check_document(document)
    labels = document["metrics"]["labels"]
    assert (ran.code, labels["samples"], labels["pixels"], labels["classes"]) == (0, 8, 8 * 16 * 24, 6)
    assert 0.9 < labels["pixel_agreement"] <= 1
    assert 0 < labels["clear_pixels"] < labels["pixels"]
    assert labels["clear_pixel_agreement"] > labels["pixel_agreement"]
    text = verify(segmenters, "labels", "--metric", "pixel").out
    assert "agreement of the clear pixels" in text
    assert "checked: agreement of the clear pixels >= 0.95" in text


def test_a_broken_limit_of_labels_is_exit_1(segmenters: Tiny) -> None:
    ran = verify(segmenters, "labels", "--metric", "miou", "--min-miou", "1", "--limit", "2")
    assert (ran.code, "mean IoU" in ran.out, "want at least 1" in ran.out) == (1, True, True), ran.out


def test_a_semantic_task_has_its_metrics_unasked(segmenters: Tiny) -> None:
    document = verify(segmenters, "chance", "--json").document
    labels = document["metrics"]["labels"]
    assert (document["verdict"], document["agreement"], labels["classes"]) == ("passed", None, 2)
    assert 0.001 < labels["step"] < 0.1  # of the logits: the sigmoid is the host's
    assert labels["clear_pixel_agreement"] == 1


def test_a_semantic_result_is_the_share_of_the_classes(segmenters: Tiny, tiny_models: Tiny) -> None:
    ran = axtool("run", segmenters / "chance.axm", tiny_models / "picture.png", "--json")
    check_document(ran.document)
    result = ran.document["result"]
    assert (result["size"], sum(row["share"] for row in result["classes"])) == ([16, 24], pytest.approx(1))
    assert "of the pixels" in axtool("run", segmenters / "chance.axm", tiny_models / "picture.png").out


def test_boxes_of_a_detr_need_no_task(segmenters: Tiny) -> None:
    ran = verify(segmenters, "detr", "--metric", "iou", "--json")
    check_document(ran.document)
    boxes = ran.document["metrics"]["boxes"]
    assert (ran.code, boxes["reference_boxes"], boxes["device_boxes"]) == (0, 80, 80), ran.out
    assert boxes["matched"] >= 72
    assert boxes["mean_iou"] > 0.9
    text = verify(segmenters, "detr", "--metric", "iou").out
    assert "mean IoU of the matched" in text
    assert "checked: matched share of the best 10 boxes >= 0.8" in text


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("labels", ("--metric", "iou"), "nothing says how the outputs become boxes"),
        ("detr", ("--metric", "ious"), "there is no metric 'ious'"),
        ("detr", ("--min-matched", "0.5"), "--min-matched is a limit of --metric iou"),
    ],
)
def test_metrics_that_mean_nothing_are_refused(segmenters: Tiny, name: str, words: tuple[str, ...], said: str) -> None:
    ran = verify(segmenters, name, *words)
    assert (ran.code, said in ran.err) == (2, True), ran.err


def test_an_output_without_pixels_has_no_labels(tiny_models: Tiny) -> None:
    ran = axtool(
        "verify", tiny_models / "cls.axm", "--against", tiny_models / "cls.onnx", "--data", tiny_models / "data.npz",
        "--metric", "pixel",
    )  # fmt: skip
    assert (ran.code, "neither labels nor scores of pixels" in ran.err) == (2, True), ran.err


def test_metrics_want_the_source(segmenters: Tiny, work: Path) -> None:
    ran = axtool("verify", segmenters / "detr.axm", "--data", "random:1", "--metric", "iou")
    assert (ran.code, "--against" in ran.err) == (2, True)


@pytest.mark.parametrize(("name", "metric"), [("detr", "iou"), ("labels", "pixel")])
def test_panels_show_the_source_beside_the_device(segmenters: Tiny, work: Path, name: str, metric: str) -> None:
    import cv2

    pytest.importorskip("matplotlib")
    words = ("--metric", metric, "--limit", "2", "--save", "panels")
    ran = verify(segmenters, name, *words)
    assert (ran.code, "drew 2 samples in panels" in ran.err) == (0, True), ran.err
    files = sorted((work / "panels").iterdir())
    assert len(files) == 2
    picture = cv2.imread(str(files[0]))
    assert picture is not None
    left, right = picture[60:, :600].astype(int), picture[60:, 600:].astype(int)
    assert left.std() > 10
    assert right.std() > 10
    assert "exists" in verify(segmenters, name, *words).err  # nothing is replaced unasked
    assert verify(segmenters, name, *words, "--force").code == 0


def test_panels_say_what_they_need(segmenters: Tiny, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    none = verify(segmenters, "labels", "--save", "panels")
    assert (none.code, "nothing says what to draw" in none.err) == (2, True), none.err
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    ran = verify(segmenters, "detr", "--metric", "iou", "--save", "panels")
    assert (ran.code, "axtool[report]" in ran.err) == (4, True), ran.err
