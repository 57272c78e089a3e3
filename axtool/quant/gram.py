"""Float activations  ->  for each MAC site the Gram matrix of what its output channels multiply with.

X'X over the windows of the samples says how the errors of two weights of a channel add up: rounding uses it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.quant.observe import Feeds, Progress, Work, run_pieces
from axtool.quant.weights import weight_name
from axtool.types import Site

ROWS_OF_K, LEAST_ROWS = 12, 12_000  # windows in all: so many for each value of a window, and no fewer than these
MOST_K = 2304  # values of a window: a larger matrix takes more memory and time than its layer is worth

Gram = NDArray[np.float64]  # (group, k, k)


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
    grams: dict[str, Gram] = {}

    def visit(index: int, name: str, array: NDArray[Any]) -> None:
        for site in readers.get(name, ()):
            rows = windows(site, array, -(-max(ROWS_OF_K * window_length(site), LEAST_ROWS) // count), seed=index)
            product = np.matmul(rows.transpose(0, 2, 1), rows).astype(np.float64)
            key = site.outputs[0]
            grams[key] = grams[key] + product if key in grams else product

    run_pieces(work, samples, visit, progress)
    return grams


def windows(site: Site, array: NDArray[Any], most: int, seed: int) -> NDArray[np.float32]:
    """Up to `most` windows of one sample, chosen at random: (group, windows, k), k as in `channel_weights`."""
    values = np.asarray(array, np.float32)
    random = np.random.default_rng(seed)
    if site.op != "Conv":
        rows = values.reshape(-1, values.shape[-1])
        return rows[None, _some(random, len(rows), most)]
    if values.ndim == 3:
        values = values[:, :, None, :]
    a = site.attrs
    (kh, kw), (sh, sw), (dh, dw), (top, left, bottom, right) = a["kernel"], a["strides"], a["dilations"], a["pads"]
    padded = np.pad(values, ((0, 0), (0, 0), (top, bottom), (left, right)))
    columns = (padded.shape[3] - (kw - 1) * dw - 1) // sw + 1
    lines = (padded.shape[2] - (kh - 1) * dh - 1) // sh + 1
    chosen = _some(random, lines * columns, most)
    y = chosen // columns * sh + np.arange(kh)[:, None] * dh  # (kh, windows)
    x = chosen % columns * sw + np.arange(kw)[:, None] * dw
    found = padded[0][:, y[:, None, :], x[None, :, :]]  # (c, kh, kw, windows)
    grouped = found.reshape(a["group"], -1, len(chosen))
    return np.ascontiguousarray(grouped.transpose(0, 2, 1))


def scaled_gram(site: Site, gram: Gram, factors: Sequence[float]) -> Gram:
    """The matrix of a site whose input has its channels multiplied by `factors` (none: as it is)."""
    if not factors:
        return gram
    group, length, _ = gram.shape
    each = np.repeat(np.asarray(factors, np.float64), group * length // len(factors))
    rows = each.reshape(group, length)  # the channels of a group, then the taps
    return gram * rows[:, :, None] * rows[:, None, :]


def _some(random: np.random.Generator, count: int, most: int) -> NDArray[np.int64]:
    return np.arange(count) if count <= most else np.sort(random.choice(count, most, replace=False))
