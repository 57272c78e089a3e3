"""A stored array and an input  ->  how it splits into feeds, and each entry as a feed; nothing is cast silently."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.errors import UsageError
from axtool.inputs.notice import Notice, note
from axtool.inputs.prepare import Preparation
from axtool.inputs.preprocess import Preprocess
from axtool.inputs.spec import InputSpec, fits, show_shape


@dataclass(frozen=True, slots=True)
class Conform:
    """How the entries of one array become feeds of one input.

    `stacked`: entries are along axis 0, `rows` of them a feed; else the array is one feed. `image`: an entry is a
    uint8 image (h, w[, c]) that goes through the preparation or the user's function. `planes`: an entry has the
    model's own shape and uint8 values, and is only normalised.
    """

    spec: InputSpec
    stacked: bool
    rows: int
    count: int
    preparation: Preparation | None = None
    preprocess: Preprocess | None = None
    image: bool = False
    planes: bool = False

    def feed(self, entry: NDArray[Any], where: str) -> NDArray[Any]:
        """The feed for one entry (rows along axis 0 when `rows` is above 1). Raises UsageError naming `where`."""
        if self.image:
            return prepared(_channels_last(entry), self.spec, self.preparation, self.preprocess, where)
        if self.planes:
            assert self.preparation is not None
            return _normalised(entry, self.spec, self.preparation)
        shape = [d if w is None else w for d, w in zip(_padded(entry.shape, self.spec), self.spec.shape, strict=True)]
        return finite(cast_to(entry.reshape(shape), self.spec, where), where)


def conform(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    spec: InputSpec,
    where: str,
    preparation: Preparation | None = None,
    preprocess: Preprocess | None = None,
) -> tuple[Conform, tuple[Notice, ...]]:
    """How an array of this shape and type feeds `spec`. Raises UsageError when it cannot without a guess."""
    pixels = dtype == np.uint8 and spec.dtype != "uint8"
    explicit = preprocess is not None or (preparation is not None and preparation.normalises)
    if pixels and spec.is_float and not explicit:
        raise UsageError(
            "uint8 values for a float input: say how pixels become numbers",
            where=where,
            hint="give --mean, --std or --scale, or --preprocess file.py:function, or save the array as "
            "float32 as the model wants it",
            code="uint8-for-float",
        )
    if pixels and explicit:
        return _conform_pixels(shape, spec, where, preparation, preprocess)
    notices = _check_dtype(dtype, spec, where)
    if spec.matches(shape):
        return Conform(spec, False, 1, 1), notices
    stacked = _stack(shape, spec)
    if stacked is None:
        raise _wrong_shape(shape, spec, where)
    return stacked, notices


def cast_to(array: NDArray[Any], spec: InputSpec, where: str) -> NDArray[Any]:
    """The array in the input's type. Raises UsageError where an integer would not fit."""
    wanted = np.dtype(spec.dtype)
    result = np.ascontiguousarray(array.astype(wanted)).reshape(array.shape)
    if wanted.kind in "iu" and not np.array_equal(result, array):
        low, high = array.min(), array.max()
        raise UsageError(f"values from {low} to {high} do not fit {spec.dtype}", where=where, code="wrong-dtype")
    return result


def finite(array: NDArray[Any], where: str) -> NDArray[Any]:
    """The array itself. Raises UsageError with the count when it holds NaN or +Inf; -Inf may be a mask."""
    if array.dtype.kind == "f" and array.size and not np.isfinite(array.max()):
        counts = [(int(np.isnan(array).sum()), "NaN"), (int(np.isposinf(array).sum()), "Inf")]
        found = ", ".join(f"{count} {name}" for count, name in counts if count)
        if found:
            raise UsageError(
                f"{found} of {array.size} values",
                where=where,
                code="nan-in-input",
                hint="fix the sample or leave it out",
            )
    return array


def prepared(
    pixels: NDArray[Any], spec: InputSpec, preparation: Preparation | None, preprocess: Preprocess | None, where: str
) -> NDArray[Any]:
    """An RGB uint8 image (h, w[, c]) as a feed, by the user's function or else by the preparation."""
    from axtool.inputs.images import as_rgb

    if preprocess is None:
        try:
            batch = (preparation or Preparation()).resolve(spec).prepare(pixels)
            return batch if len(spec.shape) == 4 else batch[0]
        except UsageError as error:
            raise UsageError(error.what, where=where, hint=error.hint, code=error.code) from None
    result = preprocess(as_rgb(pixels))
    if not spec.matches(result.shape) and spec.matches((1, *result.shape)):
        result = result[None]
    source = f"{preprocess} for {where}"
    if not spec.matches(result.shape):
        raise _wrong_shape(result.shape, spec, source)
    if result.dtype == np.uint8 and spec.is_float:
        raise UsageError(
            "returned uint8 values for a float input",
            where=source,
            code="uint8-for-float",
            hint="return float32, as the model wants it",
        )
    _check_dtype(result.dtype, spec, source)
    return finite(cast_to(result, spec, source), source)


def _conform_pixels(
    shape: tuple[int, ...],
    spec: InputSpec,
    where: str,
    preparation: Preparation | None,
    preprocess: Preprocess | None,
) -> tuple[Conform, tuple[Notice, ...]]:
    """uint8 arrays with a stated preparation: already in the model's shape, or images (n, h, w[, c])."""
    own = Conform(spec, False, 1, 1) if spec.matches(shape) else _stack(shape, spec)
    if own is not None and own.rows == 1:
        if preprocess is not None:
            return Conform(spec, own.stacked, 1, own.count, preprocess=preprocess, image=True), ()
        resolved = (preparation or Preparation()).resolve(spec)
        told = note("normalised", "uint8 values in the model's shape: normalised, colour order left alone", where)
        return Conform(spec, own.stacked, 1, own.count, preparation=resolved, planes=True), (told,)
    channels_last = len(shape) >= 3 and shape[-1] in (1, 3, 4)
    rank = 3 if channels_last else 2
    if len(shape) not in (rank, rank + 1):
        raise _wrong_shape(shape, spec, where)
    stacked = len(shape) == rank + 1
    count = shape[0] if stacked else 1
    return Conform(spec, stacked, 1, count, preparation=preparation, preprocess=preprocess, image=True), ()


def _channels_last(entry: NDArray[Any]) -> NDArray[Any]:
    """A uint8 entry as an image (h, w[, c]): a batch axis of one goes, channels in front move to the end."""
    if entry.ndim == 4 and entry.shape[0] == 1:
        entry = entry[0]
    if entry.ndim == 3 and entry.shape[2] not in (1, 3, 4) and entry.shape[0] in (1, 3):
        entry = entry.transpose(1, 2, 0)
    return entry


def _stack(shape: tuple[int, ...], spec: InputSpec) -> Conform | None:
    """Entries along axis 0: (n, …) of whole feeds, of feeds without their batch axis, or one without."""
    wanted = spec.shape
    batch = wanted[0] if wanted else None
    if len(shape) == len(wanted) + 1 and fits(shape[1:], wanted):
        return Conform(spec, True, 1, shape[0])
    if wanted and len(shape) == len(wanted) and fits(shape[1:], wanted[1:]):
        rows = batch or 1
        return Conform(spec, True, rows, shape[0] // rows) if shape[0] % rows == 0 else None
    if wanted and batch in (None, 1) and fits(shape, wanted[1:]):
        return Conform(spec, False, 1, 1)
    return None


def _padded(shape: tuple[int, ...], spec: InputSpec) -> tuple[int, ...]:
    return shape if len(shape) == len(spec.shape) else (1, *shape)


def _normalised(entry: NDArray[Any], spec: InputSpec, preparation: Preparation) -> NDArray[Any]:
    pixels = np.asarray(entry).reshape(entry.shape[-3:])
    if preparation.layout != "NHWC":
        pixels = pixels.transpose(1, 2, 0)
    result = preparation.normalise(pixels)
    return result if len(spec.shape) == 4 else result[0]


def _check_dtype(dtype: np.dtype[Any], spec: InputSpec, where: str) -> tuple[Notice, ...]:
    """Notes for a cast that loses nothing that matters. Raises UsageError for the others."""
    wanted = np.dtype(spec.dtype)
    if dtype == wanted:
        return ()
    if wanted.kind == "f" and dtype.kind == "f":
        return (note("cast", f"{dtype} values are cast to {wanted}", where),)
    if wanted.kind in "iu" and dtype.kind in "iu":
        return (note("cast", f"{dtype} values are cast to {wanted} where they fit", where),)
    if wanted.kind == "O":  # text: it is saved as such, objects would be pickled
        if dtype.kind == "U":
            return ()
        hint = "save an array of text: numpy.save(path, numpy.array(words, dtype=str))"
        raise UsageError(f"expected text got {dtype}", where=where, hint=hint, code="wrong-dtype")
    hint = f"save the array as {wanted}" + (" as the model wants it" if wanted.kind == "f" else "")
    raise UsageError(f"expected {wanted} got {dtype}", where=where, hint=hint, code="wrong-dtype")


def _wrong_shape(shape: tuple[int, ...], spec: InputSpec, where: str) -> UsageError:
    """Height and width in the message where only they differ."""
    wanted = spec.shape
    rank = len(wanted)
    code, hint = "wrong-shape", f"the input is {spec}; samples may be stacked on a leading axis"
    what = f"expected {show_shape(wanted)} got {show_shape(shape)}"
    if rank == 4 and len(shape) in (3, 4):
        last = wanted[-1] in (1, 3) and wanted[1] not in (1, 3)
        spatial = slice(-3, -1) if last else slice(-2, None)
        channel = -1 if last else -3
        if fits(shape[1:], wanted[1:]):
            what, hint = f"{shape[0]} rows do not fill batches of {wanted[0]}", f"the input is {spec}"
        elif shape[channel] == wanted[channel] and shape[spatial] != wanted[spatial]:
            (h, w), (got_h, got_w) = wanted[spatial], shape[spatial]
            what = f"expected {h or '?'}x{w or '?'} got {got_h}x{got_w}"
            hint, code = "give images (or uint8 arrays) and --resize fit, letterbox or crop", "wrong-size"
        elif shape[-1 if channel == -3 else -3] == wanted[channel]:
            hint = "the channels are on another axis: transpose the array"
    return UsageError(what, where=where, hint=hint, code=code)
