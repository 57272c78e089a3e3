"""mAP of the digit scenes, on cases that can be worked out by hand; and the networks with attention."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from benchmarks.attention import segformer_b0
from benchmarks.mean_precision import MeanPrecision

BOX = [0.0, 0.0, 10.0, 10.0]
FAR = [50.0, 50.0, 60.0, 60.0]


def detection(box: list[float], score: float, index: int = 0) -> dict[str, object]:
    return {"index": index, "label": str(index), "score": score, "box": box}


def mean(detections: list[dict[str, object]], truth: list[list[float]]) -> float:
    made = MeanPrecision()
    made.add(detections, truth)
    return made.mean()


def test_all_found_and_nothing_else_is_one() -> None:
    assert mean([detection(BOX, 0.9), detection(FAR, 0.8)], [[*BOX, 0], [*FAR, 0]]) == 1


def test_a_false_alarm_above_the_right_one_halves_the_precision() -> None:
    assert mean([detection(FAR, 0.9), detection(BOX, 0.8)], [[*BOX, 0]]) == pytest.approx(0.5)


def test_an_object_is_found_once() -> None:
    assert mean([detection(BOX, 0.9), detection(BOX, 0.8)], [[*BOX, 0], [*FAR, 0]]) == pytest.approx(51 / 101)


def test_a_class_that_is_not_there_does_not_count() -> None:
    assert mean([detection(BOX, 0.9), detection(BOX, 0.9, index=3)], [[*BOX, 0]]) == 1


def test_the_mean_is_over_classes() -> None:
    assert mean([detection(BOX, 0.9)], [[*BOX, 0], [*FAR, 1]]) == pytest.approx(0.5)


def test_a_box_that_covers_less_than_half_is_another() -> None:
    assert mean([detection([0.0, 0.0, 10.0, 4.9], 0.9)], [[*BOX, 0]]) == 0


def test_segformer_is_sound_and_always_the_same() -> None:
    model = segformer_b0(64, 64)
    onnx.checker.check_model(model, full_check=True)
    (output,) = model.graph.output
    assert [dim.dim_value for dim in output.type.tensor_type.shape.dim] == [1, 19, 16, 16]
    weights = [onnx.numpy_helper.to_array(tensor) for tensor in segformer_b0(64, 64).graph.initializer]
    for tensor, again in zip(model.graph.initializer, weights, strict=True):
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensor), again)
