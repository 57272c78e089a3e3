"""DetrPostamble beside the tails of detection transformers, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axtool.runtime import Postamble, TensorInfo, op
from axtool.runtime.mega import DetrPostamble
from benchmarks.tails.detr import detr
from tests import tiny
from tests.runtime.mega_case import assert_kernel_is_the_tail
from tests.runtime.tail_case import Tail, random_buffers

HEADS = """(float[1,16,8,10] x) => (float[1,20,7] pred_logits, float[1,20,4] pred_boxes) {
  f = Conv <kernel_shape=[2,2], strides=[2,2]> (x, w)
  shape = Constant <value_ints=[1,32,20]> ()
  flat = Reshape(f, shape)
  queries = Transpose <perm=[0,2,1]> (flat)
  a = MatMul(queries, to_logits)
  pred_logits = Add(a, of_logits)
  b = MatMul(queries, to_hidden)
  c = Add(b, of_hidden)
  d = Relu(c)
  e = MatMul(d, to_boxes)
  g = Add(e, of_boxes)
  pred_boxes = Sigmoid(g)
}"""
WEIGHTS = {
    "w": (32, 16, 2, 2), "to_logits": (32, 7), "of_logits": (7,), "to_hidden": (32, 32), "of_hidden": (32,),
    "to_boxes": (32, 4), "of_boxes": (4,),
}  # fmt: skip


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


def test_a_compiled_head_has_its_biases_on_the_device_and_gives_what_its_tail_gives(tmp_path: Path) -> None:
    model, out = tiny.save(tmp_path / "heads.onnx", HEADS, WEIGHTS), tmp_path / "heads.axm"
    assert tiny.axtool("compile", model, "--calib", "random:4", "-O", "0", "-o", out).code == 0
    kernel = Postamble(fused_kernel="DetrPostamble", num_classes=7)
    x = np.random.default_rng(1).random((1, 16, 8, 10), np.float32)
    plain, fused = op.load(out)(x), op.load(out, using_postamble=kernel)(x)
    np.testing.assert_array_equal(fused[0], plain[0])
    np.testing.assert_allclose(fused[1], plain[1], rtol=1e-5, atol=1e-6)


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
        ([(1, 1, 9, 7), (1, 1, 9, 4)], {"scores": "soft"}, "there is no kind of scores 'soft'; .*softmax"),
        ([(1, 1, 9, 7), (1, 1, 9, 4)], {"num_classes": 0}, "num_classes is 0, want a whole number"),
    ],
)
def test_what_is_no_head_of_a_transformer_is_refused(shapes: Any, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DetrPostamble(infos_of(*shapes), 64, 64, **{"num_classes": 7, **params})
