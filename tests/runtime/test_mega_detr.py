"""DetrPostamble beside the tails of detection transformers, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from axtool.runtime import TensorInfo
from axtool.runtime.mega import DetrPostamble
from benchmarks.tails.detr import detr
from tests.runtime.mega_case import assert_kernel_is_the_tail
from tests.runtime.tail_case import Tail, random_buffers


@pytest.mark.parametrize("scores", ["none", "softmax", "sigmoid"])
@pytest.mark.parametrize(("queries", "classes"), [(100, 92), (1, 1), (7, 3), (33, 17)])
def test_logits_or_scores_and_boxes_are_the_tails(queries: int, classes: int, scores: str) -> None:
    params = {"num_classes": classes, "scores": scores}
    assert_kernel_is_the_tail(detr(queries, classes, scores=scores), DetrPostamble, (800, 750), params, seed=queries)


def test_scores_of_a_scale_beyond_the_range_of_exp_are_the_tails() -> None:
    for scores in ("softmax", "sigmoid"):
        params = {"num_classes": 20, "scores": scores}
        assert_kernel_is_the_tail(detr(9, 20, scores=scores), DetrPostamble, (64, 64), params, scale=0.7)


def test_logits_are_the_dequantized_bytes_bit_for_bit() -> None:
    rng, tail = np.random.default_rng(3), Tail(detr(11, 13))
    infos = tail.infos(rng)
    buffers = random_buffers(infos, rng)
    logits, _ = DetrPostamble(infos, 64, 64, num_classes=13)(*buffers)
    np.testing.assert_array_equal(logits, tail.run(buffers, infos)[0])


@pytest.mark.parametrize("boxes_first", [False, True])
def test_four_classes_are_told_from_boxes_by_their_roles(boxes_first: bool) -> None:
    roles = ["boxes", "logits"] if boxes_first else ["logits", "boxes"]
    params = {"num_classes": 4, "tensor_roles": roles}
    assert_kernel_is_the_tail(detr(6, 4, boxes_first=boxes_first), DetrPostamble, (64, 64), params, same_order=True)


def infos_of(*shapes: tuple[int, ...]) -> list[TensorInfo]:
    return [TensorInfo(shape, name="ab"[i], scale=0.1) for i, shape in enumerate(shapes)]


@pytest.mark.parametrize(
    ("shapes", "params", "message"),
    [
        ([(1, 1, 9, 7)], {}, r"reads logits and boxes, this model has 1 outputs: output 0 'a' .*; drop the Postamble"),
        ([(1, 1, 9, 7), (1, 1, 8, 4)], {}, "logits and boxes are of the same queries, this model has output 0 'a'"),
        ([(1, 1, 9, 4), (1, 1, 9, 4)], {}, r"cannot tell output 0 'a' .* apart: both are 4 wide; give tensor_roles"),
        ([(1, 1, 9, 7), (1, 1, 9, 5)], {}, r"want one of each, logits and boxes \(4 channels\)"),
        (
            [(1, 1, 9, 8), (1, 1, 9, 4)],
            {},
            r"output 0 'a' .* logits: want 7 channels; count 'no object' as a class",
        ),
        ([(1, 1, 9, 6), (1, 1, 9, 4)], {}, r"output 0 'a' .* has the logits: want 7 channels; drop the Postamble"),
        ([(1, 1, 9, 7), (1, 1, 9, 4)], {"tensor_roles": ["boxes", "logits"]}, "output 0 'a' .* the boxes: want 4"),
        ([(1, 1, 9, 7), (1, 1, 9, 4)], {"tensor_roles": ["boxes", "boxes"]}, "want one of each"),
        ([(1, 1, 9, 7), (1, 1, 9, 4)], {"tensor_roles": ["box", "logits"]}, "there is no role 'box'; .*boxes"),
        ([(1, 1, 9, 7), (1, 1, 9, 4)], {"scores": "soft"}, "there are no scores 'soft'; .*softmax"),
        ([(1, 1, 9, 7), (1, 1, 9, 4)], {"num_classes": 0}, "num_classes is 0, want a whole number"),
    ],
)
def test_what_is_no_head_of_a_transformer_is_refused(shapes: Any, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DetrPostamble(infos_of(*shapes), 64, 64, **{"num_classes": 7, **params})
