"""SegFormerPostamble beside its tail: which labels are its own, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from axtool.runtime import TensorInfo
from axtool.runtime.mega import SegFormerPostamble, segformer
from axtool.runtime.mega.byte_functions import native_module
from benchmarks.tails.labels import labels
from tests.runtime.tail_case import Tail, random_buffers

native = pytest.mark.skipif(native_module() is None, reason="the native module is not built")


@pytest.mark.parametrize("keepdims", [False, True])
def test_without_enlargement_every_label_is_the_tails_ties_too(keepdims: bool) -> None:
    rng, tail = np.random.default_rng(0), Tail(labels(37, 29, 150, 1, keepdims=keepdims))
    infos = tail.infos(rng)
    buffers = random_buffers(infos, rng)
    kernel = SegFormerPostamble(infos, 29, 37, num_classes=150, keepdims=keepdims)
    made, (wanted,) = kernel(*buffers), tail.run(buffers, infos)
    assert made.dtype == np.int64
    assert kernel.output_shapes == (wanted.shape,)
    np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("factor", [2, 3, 4, 8, 11])
@pytest.mark.parametrize("classes", [1, 2, 19])
def test_enlarged_labels_are_the_tails_where_no_two_classes_are_equal(factor: int, classes: int) -> None:
    rng, tail = np.random.default_rng(factor), Tail(labels(9, 21, classes, factor))
    infos = tail.infos(rng)
    buffers = random_buffers(infos, rng)
    made = SegFormerPostamble(infos, 21 * factor, 9 * factor, num_classes=classes)(*buffers)
    (wanted,) = tail.run(buffers, infos)
    inside = buffers[0][infos[0].inside][0].astype(np.int64)
    scores = segformer.enlarged(segformer.enlarged(inside, 0, factor), 1, factor)
    of_tail = np.take_along_axis(scores, wanted[0].astype(np.int64)[..., None], -1)[..., 0]
    np.testing.assert_array_equal(of_tail, scores.max(-1))
    single = (scores == scores.max(-1, keepdims=True)).sum(-1) == 1
    np.testing.assert_array_equal(made[0][single], wanted[0][single])


@native
@pytest.mark.parametrize("factor", [1, 2, 5, 8, 9])
@pytest.mark.parametrize(
    "size",
    [(1, 1, 1), (2, 15, 3), (3, 16, 7), (5, 33, 19), (4, 70, 2), (1, 31, 150), (3, 9, 16), (2, 6, 70), (3, 5, 32)],
)
@pytest.mark.parametrize("low", [-128, -2, 127])
def test_every_backend_gives_the_labels_of_numpy(factor: int, size: tuple[int, int, int], low: int) -> None:
    h, w, c = size
    x = np.random.default_rng(1).integers(low, 128, (h + 2, w + 3, c + 1)).astype(np.int8)[1:-1, 2:-1, :c]
    wanted = np.empty((h * factor, w * factor), np.int64)
    segformer.label_pixels(x, factor, wanted)
    for backend in native_module().postamble_backends():
        for threads in (1, 3):
            found = np.full_like(wanted, -1)
            native_module().Labels(backend, threads).run(x, factor, found)
            np.testing.assert_array_equal(found, wanted)


@native
def test_the_native_loop_refuses_an_output_of_another_size() -> None:
    with pytest.raises(ValueError, match=r"want \(h \* factor, w \* factor\)"):
        native_module().Labels().run(np.zeros((2, 2, 3), np.int8), 2, np.zeros((4, 3), np.int64))


def scores(h: int = 4, w: int = 8, c: int = 19) -> TensorInfo:
    return TensorInfo((1, h, w, c), name="scores", scale=0.1)


def test_a_model_of_several_outputs_is_refused() -> None:
    with pytest.raises(ValueError, match="reads the one map of scores, this model has 2; drop the Postamble"):
        SegFormerPostamble([scores(), scores()], 32, 16, num_classes=19)


def test_another_number_of_classes_is_refused() -> None:
    with pytest.raises(ValueError, match=r"output 0 'scores' .*want 150 channels for num_classes=150"):
        SegFormerPostamble([scores()], 32, 16, num_classes=150)


def test_a_size_that_is_no_whole_multiple_is_refused() -> None:
    with pytest.raises(ValueError, match="18x32 is no whole multiple of it; give factor"):
        SegFormerPostamble([scores()], 32, 18, num_classes=19)


@pytest.mark.parametrize("factor", [1, 3, 4])
def test_labels_of_the_same_score_are_told_as_equal(factor: int) -> None:
    rng, tail = np.random.default_rng(factor), Tail(labels(9, 21, 5, factor))
    infos = tail.infos(rng)
    buffers = [rng.choice([-128, 0, 127], info.shape).astype(np.int8) for info in infos]
    kernel = SegFormerPostamble(infos, 21 * factor, 9 * factor, num_classes=5)
    made, (wanted,) = kernel(*buffers), tail.run(buffers, infos)
    assert kernel.equal_labels(made, wanted.astype(np.int64), *buffers).all()
    inside = buffers[0][infos[0].inside][0].astype(np.int64)
    scores = segformer.enlarged(segformer.enlarged(inside, 0, factor), 1, factor)
    other = (made + 1) % 5
    same = np.take_along_axis(scores, made[0][..., None], -1) == np.take_along_axis(scores, other[0][..., None], -1)
    np.testing.assert_array_equal(kernel.equal_labels(made, other, *buffers)[0], same[..., 0])
    assert not kernel.equal_labels(made, np.full_like(made, 99), *buffers).any()
