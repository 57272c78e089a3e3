"""Boxes and labels of two models: what counts as the same, what is wanted, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from axtool.errors import UsageError
from axtool.types import QFormat, TensorSpec
from axtool.verify.box_metric import BEST, BoxAgreement, boxes_task
from axtool.verify.judge import Limits, judge
from axtool.verify.label_metric import LabelAgreement, step_of
from axtool.verify.metrics import Comparison
from axtool.verify.task_metrics import NO_LIMITS, Least, TaskMetrics, parsed

DETR = {"kind": "detection", "decode": "detr", "size": [100, 100]}


def queries(*rows: tuple[int, float, float]) -> dict[str, Any]:
    """Outputs with these (class, logit, centre x): boxes a fifth of the picture wide and high."""
    logits, boxes = np.zeros((1, len(rows), 4), np.float32), np.full((1, len(rows), 4), 0.2, np.float32)
    for at, (index, logit, x) in enumerate(rows):
        logits[0, at, index], boxes[0, at, 0] = logit, x
    return {"logits": logits, "boxes": boxes}


def agreement(a: dict[str, Any], b: dict[str, Any]) -> BoxAgreement:
    made = BoxAgreement(DETR)
    made.add(a, b)
    return made


def test_a_model_agrees_with_itself() -> None:
    same = agreement(queries((0, 5, 0.3), (1, 5, 0.7)), queries((0, 5, 0.3), (1, 5, 0.7)))
    assert (same.matched, same.share, same.mean_iou) == (2, 1.0, pytest.approx(1.0))


def test_a_box_of_another_class_or_place_is_no_match() -> None:
    wanted = queries((0, 5, 0.3), (1, 5, 0.7))
    moved = agreement(wanted, queries((1, 5, 0.3), (1, 5, 0.9)))
    assert (moved.wanted, moved.got, moved.matched, moved.mean_iou) == (2, 2, 0, None)


def test_the_mean_iou_is_of_the_matched_boxes() -> None:
    near = agreement(queries((0, 5, 0.3), (1, 5, 0.7)), queries((0, 5, 0.32), (2, 5, 0.7)))
    assert (near.matched, near.share) == (1, 0.5)
    assert near.mean_iou == pytest.approx(18 / 22)


def test_only_the_best_boxes_of_a_picture_count() -> None:
    many = [(0, 9 - 0.1 * at, 0.05 * at) for at in range(14)]
    made = agreement(queries(*many), queries(*many))
    assert (made.wanted, made.matched) == (BEST, BEST)


def test_a_box_is_used_once() -> None:
    twice = agreement(queries((0, 5, 0.3), (0, 4, 0.31)), queries((0, 5, 0.3), (1, 4, 0.31)))
    assert twice.matched == 1


def test_outputs_of_a_detr_are_known_by_their_shapes() -> None:
    picture = TensorSpec("input", (1, 3, 750, 800), "float32")
    logits, boxes = TensorSpec("a", (1, 100, 92), "float32"), TensorSpec("b", (1, 100, 4), "float32")
    assert boxes_task({}, [picture], [logits, boxes]) == {**DETR, "size": [750, 800]}
    assert boxes_task({}, [picture], [logits]) is None
    assert boxes_task({"kind": "classification"}, [picture], [logits, boxes]) is None


def scores(*pixels: tuple[float, float, float]) -> Any:
    """Scores (1, 3, 1, n) of three classes."""
    return np.array(pixels, np.float32).T.reshape(1, 3, 1, -1)


def labels(wanted: Any, got: Any, **more: Any) -> LabelAgreement:
    made = LabelAgreement("y", {"threshold": 0.5, "classes": 3}, **more)
    made.add({"y": wanted}, {"y": got})
    return made


def test_pixels_and_classes_are_counted() -> None:
    made = labels(np.array([[0, 0, 1, 2]]), np.array([[0, 1, 1, 1]]))
    assert made.pixel == 0.5
    assert made.miou == pytest.approx((1 / 2 + 1 / 3 + 0) / 3)


def test_the_sums_go_over_all_pictures() -> None:
    made = labels(np.array([[0, 0]]), np.array([[0, 0]]))
    made.add({"y": np.array([[1, 1]])}, {"y": np.array([[0, 1]])})
    assert (made.samples, made.pixel, made.miou) == (2, 0.75, pytest.approx((2 / 3 + 1 / 2) / 2))


def test_only_pixels_with_a_margin_above_one_step_are_clear() -> None:
    wanted = scores((1.0, 0.95, 0), (1.0, 0.2, 0), (0, 0.5, 0))
    got = scores((0.9, 1.0, 0), (1.0, 0.2, 0), (1, 0.5, 0))
    made = labels(wanted, got, step=0.1)
    assert (made.pixel, made.clear, made.clear_pixel) == (pytest.approx(1 / 3), 2, 0.5)
    assert labels(wanted, got).clear_pixel is None


def test_labels_get_their_margins_from_the_scores_beside_them() -> None:
    made = LabelAgreement("y", {"threshold": 0.5, "classes": 3}, scores="s", step=0.1)
    made.add({"y": np.array([[0, 1]]), "s": scores((1, 0.95, 0), (0, 1, 0))}, {"y": np.array([[1, 1]])})
    assert (made.pixel, made.clear, made.clear_pixel) == (0.5, 1, 1.0)


def test_a_step_of_logits_is_held_against_logits() -> None:
    chances = np.array([0.5, 0.51, 0.7, 0.999], np.float32).reshape(1, 1, 1, 4)
    made = LabelAgreement("y", {"threshold": 0.5, "classes": None}, step=0.1, of_logits=True)
    made.add({"y": chances}, {"y": chances})
    assert made.clear == 2  # of 0.51 the logit is 0.04


def test_a_step_is_the_distance_of_two_values() -> None:
    assert step_of(QFormat("int8", (0.25,))) == 0.25
    assert step_of(QFormat("fx32", fraction_bits=3)) == 0.125
    assert step_of(QFormat("fp16")) is None


def judged(metrics: TaskMetrics, least: Least = NO_LIMITS) -> tuple[str, ...]:
    far = Comparison("y")
    far.add(np.ones((1, 4, 4, 4)), -np.ones((1, 4, 4, 4)))  # an SQNR that no stage passes
    return judge("all", [far], None, Limits(metrics=least), metrics).failures


def test_metrics_that_were_asked_for_decide() -> None:
    same = queries((0, 5, 0.3))
    assert judged(TaskMetrics(boxes=agreement(same, same))) == ()
    (reason,) = judged(TaskMetrics(boxes=agreement(same, queries((1, 5, 0.3)))))
    assert "0 of 1 best boxes match (0.0000), want at least 0.8" in reason


def test_without_a_limit_the_clear_pixels_decide() -> None:
    wanted, got = scores((1.0, 0.95, 0), (1.0, 0.2, 0)), scores((0.9, 1.0, 0), (1.0, 0.2, 0))
    assert judged(TaskMetrics(labels=labels(wanted, got, step=0.1))) == ()
    (reason,) = judged(TaskMetrics(labels=labels(wanted, got)))
    assert "pixel agreement 0.5000, want at least 0.9" in reason


def test_a_limit_replaces_the_default() -> None:
    half = labels(np.array([[0, 1]]), np.array([[0, 0]]))
    assert judged(TaskMetrics(labels=half), Least(pixel=0.5)) == ()
    (reason,) = judged(TaskMetrics(labels=half), Least(miou=0.5))
    assert "mean IoU 0.2500, want at least 0.5" in reason
    (reason,) = judged(TaskMetrics(labels=half), Least(clear=0.5))
    assert "no agreement of the clear pixels is known" in reason


def test_names_are_parsed_and_limits_want_their_metric() -> None:
    assert parsed(["miou, pixel", "miou"], Least(miou=0.5)) == ("miou", "pixel")
    with pytest.raises(UsageError, match="no metric 'mious'"):
        parsed(["mious"], Least())
    with pytest.raises(UsageError, match="--min-matched is a limit of --metric iou"):
        parsed(["pixel"], Least(matched=0.5))
