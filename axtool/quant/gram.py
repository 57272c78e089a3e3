"""Float activations  ->  for each MAC site the Gram matrix of what its output channels multiply with.

X'X over the windows of the samples says how the errors of two weights of a channel add up: rounding uses it.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.quant.observe import Feeds, Progress, Work, run_pieces
from axtool.quant.weights import weight_name
from axtool.types import Site

ROWS_OF_K, LEAST_ROWS = 12, 12_000  # windows in all: so many for each value of a window, and no fewer than these
MOST_K = 2304  # values of a window: a larger matrix takes more memory and time than its layer is worth

Matrices = NDArray[np.float64]  # (group, k, k)


@dataclass(frozen=True, eq=False)
class Gram:
    """The matrices of a site, one a group, and what was made with them: many trials ask for the same."""

    matrices: Matrices
    rounded: dict[bytes, NDArray[np.int8]] = field(default_factory=dict)  # by the weights that were rounded
    scaled: dict[tuple[float, ...], Gram] = field(default_factory=dict)  # by the factors of the input's channels


def has_gram(site: Site) -> bool:
    """A Conv, Gemm or MatMul with constant weights and windows that are not too long."""
    if weight_name(site) is None or site.op == "ConvTranspose" or site.attrs.get("transA", 0):
        return False
    return window_length(site) <= MOST_K


def window_length(site: Site) -> int:
    """How many values one output channel multiplies with."""
    shape = site.shapes[site.inputs[1]]
    if site.op == "Conv":
        return math.prod(shape[1:])
    return shape[-1] if site.op == "Gemm" and site.attrs.get("transB", 0) else shape[-2]


def gather_grams(
    work: Work, sites: Sequence[Site], samples: Iterable[Feeds], count: int, progress: Progress | None = None
) -> dict[str, Gram]:
    """The matrices by the name of the site's first output, from one float pass over `count` samples."""
    readers: dict[str, list[Site]] = {}
    for site in sites:
        if has_gram(site):
            readers.setdefault(site.inputs[0], []).append(site)
    grams: dict[str, Matrices] = {}

    def visit(index: int, name: str, array: NDArray[Any]) -> None:
        for site in readers.get(name, ()):
            rows = windows(site, array, -(-max(ROWS_OF_K * window_length(site), LEAST_ROWS) // count), seed=index)
            key = site.outputs[0]
            if key not in grams:
                grams[key] = np.zeros((len(rows), rows.shape[2], rows.shape[2]))
            (native_function("gram_f32") or gram_f32)(rows, grams[key])

    run_pieces(work, samples, visit, progress)
    return {name: Gram(matrices) for name, matrices in grams.items()}


def gram_f32(x: NDArray[np.float32], gram: Matrices) -> None:
    """gram += x'x of each group, (group, n, k), the sum over n in float32. The native function has the same bits."""
    product = np.zeros(gram.shape, np.float32)
    for n in range(x.shape[1]):
        product += x[:, n, :, None] * x[:, n, None, :]
    gram += product


def windows(site: Site, array: NDArray[Any], most: int, seed: int) -> NDArray[np.float32]:
    """Up to `most` windows of one sample, chosen at random: (group, windows, k), k as in `channel_weights`."""
    values = np.asarray(array, np.float32)
    random = np.random.default_rng(seed)
    if site.op != "Conv":
        rows = values.reshape(-1, values.shape[-1])
        return np.ascontiguousarray(rows[None, _some(random, len(rows), most)])
    if values.ndim == 3:
        values = values[:, :, None, :]
    a = site.attrs
    (kh, kw), (sh, sw), (dh, dw), (top, left, bottom, right) = a["kernel"], a["strides"], a["dilations"], a["pads"]
    image = np.ascontiguousarray(values[0])
    columns = (image.shape[2] + left + right - (kw - 1) * dw - 1) // sw + 1
    lines = (image.shape[1] + top + bottom - (kh - 1) * dh - 1) // sh + 1
    chosen = _some(random, lines * columns, most)
    found = np.empty((a["group"], len(chosen), len(image) // a["group"] * kh * kw), np.float32)
    y, x = chosen // columns * sh - top, chosen % columns * sw - left
    (native_function("windows_f32") or windows_f32)(image, (kh, kw), (dh, dw), y, x, found)
    return found


def windows_f32(
    image: NDArray[np.float32],
    kernel: tuple[int, int],
    dilation: tuple[int, int],
    y: NDArray[np.int64],
    x: NDArray[np.int64],
    found: NDArray[np.float32],
) -> None:
    """What the taps meet from each (y, x) of an image (c, h, w) on, 0 outside: (group, windows, k)."""
    rows = np.arange(kernel[0])[:, None] * dilation[0] + y  # (kh, windows)
    columns = np.arange(kernel[1])[:, None] * dilation[1] + x
    inside = ((rows >= 0) & (rows < image.shape[1]))[:, None] & ((columns >= 0) & (columns < image.shape[2]))[None]
    taken = image[:, rows.clip(0, image.shape[1] - 1)[:, None], columns.clip(0, image.shape[2] - 1)[None]]
    values = np.where(inside, taken, np.float32(0))  # (c, kh, kw, windows)
    found[:] = values.reshape(len(found), -1, len(y)).transpose(0, 2, 1)


def scaled_gram(site: Site, gram: Gram, factors: Sequence[float]) -> Gram:
    """The matrix of a site whose input has its channels multiplied by `factors` (none: as it is)."""
    key = tuple(factors)
    if not key:
        return gram
    if key not in gram.scaled:
        group, length, _ = gram.matrices.shape
        each = np.repeat(np.asarray(key, np.float64), group * length // len(key))
        rows = each.reshape(group, length)  # the channels of a group, then the taps
        gram.scaled[key] = Gram(gram.matrices * rows[:, :, None] * rows[:, None, :])
    return gram.scaled[key]


def _some(random: np.random.Generator, count: int, most: int) -> NDArray[np.int64]:
    return np.arange(count) if count <= most else np.sort(random.choice(count, most, replace=False))


@cache
def native_function(name: str) -> Callable[..., Any] | None:
    """The compiled twin of a function here, where it was built."""
    try:
        return getattr(importlib.import_module("axtool.native._native"), name, None)
    except ImportError:
        return None
