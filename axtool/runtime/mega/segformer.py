"""`SegFormerPostamble`: the class of every pixel, of scores that are still small."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.mega.byte_functions import native_module
from axtool.runtime.mega.checks import DROP, MOST_THREADS, check_backend, check_infos, check_tensors, named
from axtool.runtime.mega.params import check_count, check_flag, check_size
from axtool.runtime.op.operator import Operator
from axtool.runtime.pool import Pool
from axtool.runtime.tensor_info import TensorInfo

MOST_FACTOR = 256  # of an enlargement


class SegFormerPostamble(Operator):
    """Bilinear enlargement and argmax over the classes in one pass, without the enlarged scores in between.

    Families: SegFormer and any network whose tail is Resize (linear, half_pixel) and ArgMax, or ArgMax alone.

    num_classes   channels of the one output.
    factor        how much larger the labels are than the scores, a whole number. Default: model_height over the
                  tensor's height, which must be model_width over its width; 1 where the device has enlarged already.
    keepdims      whether the labels keep an axis for the classes, as ArgMax's keepdims says. Default False.
    backend, threads
                  'auto', 'scalar', 'avx2', 'avx512' or 'neon', and how many threads share the rows; all give the same
                  labels.

    Emits labels, int64 (1, h * factor, w * factor), or (1, 1, h * factor, w * factor) with keepdims.

    The labels are those of the onnxruntime tail but for exact ties: interpolated bytes are compared as whole numbers,
    and of equal ones the first class wins, as in ArgMax. The tail interpolates in float32, where rounding decides
    between such equals. With factor 1 nothing is rounded and every label is the tail's.
    """

    postamble_slot = "fused_kernel"

    num_classes: int
    factor: int
    backend: str
    threads: int

    def __init__(
        self,
        output_infos: Sequence[TensorInfo],
        model_width: int,
        model_height: int,
        *,
        num_classes: int,
        factor: int | None = None,
        keepdims: bool = False,
        backend: str = "auto",
        threads: int = 1,
        name: str = "",
    ) -> None:
        check_infos(output_infos)
        if len(output_infos) != 1:
            raise ValueError(f"reads the one map of scores, this model has {len(output_infos)}; {DROP}")
        (info,) = output_infos
        _, h, w, c = info.unpadded_shape
        if c != check_count("num_classes", num_classes):
            raise ValueError(f"{named(info, 0)}: want {num_classes} channels for num_classes={num_classes}; {DROP}")
        if factor is None:
            check_size(model_width, model_height)
            factor = model_height // h
            if (h * factor, w * factor) != (model_height, model_width):
                raise ValueError(
                    f"{named(info, 0)}: {model_height}x{model_width} is no whole multiple of it; give factor, or {DROP}"
                )
        self.num_classes, self.factor = num_classes, check_count("factor", factor, most=MOST_FACTOR)
        self.threads = check_count("threads", threads, most=MOST_THREADS)
        native = native_module()
        self._native = None if native is None else native.Labels(check_backend(backend), threads)
        self.backend = "numpy" if self._native is None else str(self._native.backend)
        size = h * factor, w * factor
        self.output_shapes: tuple[tuple[int, ...], ...] = (
            (1, 1, *size) if check_flag("keepdims", keepdims) else (1, *size),
        )
        self._info, self._pool = info, Pool(self.output_shapes[0], np.int64)
        super().__init__(name=name)

    def __call__(self, raw: NDArray[np.int8]) -> NDArray[np.int64]:
        (raw,) = check_tensors((raw,), (self._info,))
        labels: NDArray[np.int64] = self._pool.take()
        h, w = labels.shape[-2:]
        pixels, rows = raw[self._info.inside][0], labels.reshape(h, w)
        if self._native is None:
            label_pixels(pixels, self.factor, rows)
        else:
            self._native.run(pixels, self.factor, rows)
        return labels

    def equal_labels(
        self, got: NDArray[np.int64], wanted: NDArray[np.int64], raw: NDArray[np.int8]
    ) -> NDArray[np.bool_]:
        """Where two arrays of labels name classes of the same score, or the same class: exact ties are no error."""
        equal = np.asarray(got == wanted)
        h, w = equal.shape[-2:]
        flat = equal.reshape(h, w)  # a view
        rows, cols = np.nonzero(~flat)
        x = raw[self._info.inside][0].astype(np.int64)
        scores = [_score(x, self.factor, rows, cols, labels.reshape(h, w)[rows, cols]) for labels in (got, wanted)]
        flat[rows, cols] = scores[0] == scores[1]
        return equal


def _score(
    x: NDArray[np.int64], factor: int, rows: NDArray[np.intp], cols: NDArray[np.intp], classes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """What `enlarged` gives along both axes at some pixels, each for one class; far below all for one that is none."""
    total = np.zeros(rows.shape, np.int64)
    known = (classes >= 0) & (classes < x.shape[2])
    picked = np.where(known, classes, 0)
    for y, y_weight in _corners(rows, factor, x.shape[0]):
        for at, x_weight in _corners(cols, factor, x.shape[1]):
            total += x[y, at, picked] * y_weight * x_weight
    return np.where(known, total, np.iinfo(np.int64).min + classes)


def _corners(
    place: NDArray[np.intp], factor: int, size: int
) -> tuple[tuple[NDArray[np.intp], NDArray[np.intp]], tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """The two neighbours of each place along an axis, with their weights."""
    before, weight = np.divmod(2 * place + 1 - factor, 2 * factor)
    first, second = np.clip(before, 0, size - 1), np.clip(before + 1, 0, size - 1)
    return (first, 2 * factor - weight), (second, weight)


def label_pixels(x: NDArray[np.int8], factor: int, out: NDArray[np.int64]) -> None:
    """The first of the largest channels at every pixel of x (h, w, c) enlarged, into out (h * factor, w * factor)."""
    rows = enlarged(x.astype(np.int64), 0, factor)
    enlarged(rows, 1, factor).argmax(-1, out=out)


def enlarged(x: NDArray[np.int64], axis: int, factor: int) -> NDArray[np.int64]:
    """Half-pixel bilinear enlargement along an axis, times 2 * factor: whole numbers."""
    size = x.shape[axis]
    place = 2 * np.arange(size * factor) + 1 - factor
    before, weight = np.divmod(place, 2 * factor)
    weight = np.expand_dims(weight, [i for i in range(x.ndim) if i != axis])
    first = x.take(np.clip(before, 0, size - 1), axis)
    second = x.take(np.clip(before + 1, 0, size - 1), axis)
    made: NDArray[np.int64] = first * (2 * factor - weight) + second * weight
    return made
