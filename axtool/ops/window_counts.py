"""How many cells the windows of an average pool count: the rows that its constants must have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST = 1 << 16  # of positions with a cut window along an axis, and of counts in all


def window_counts(have: Sequence[int], made: Sequence[int], window: Mapping[str, Any]) -> list[int]:
    """Each number of cells that some window counts, ascending; windows of nothing left out.

    `have` and `made` are (h, w) of input and output, `window` the attributes of an avg_pool layer. The work does not
    grow with the sizes but with the windows that an edge cuts. Raises ValueError for more than 2^16 of these.
    """
    along = [_along(have[axis], made[axis], window, axis) for axis in (0, 1)]
    if along[0].size * along[1].size > MOST:
        raise ValueError(f"its windows count {along[0].size} x {along[1].size} different numbers of cells")
    return sorted({int(rows) * int(columns) for rows in along[0] for columns in along[1]})


def _along(have: int, made: int, window: Mapping[str, Any], axis: int) -> NDArray[np.int64]:
    """The different numbers of cells along one axis, 0 left out."""
    kernel, stride, pad = (int(window[name][axis]) for name in ("kernel", "stride", "pad"))
    dilation = int(window["dilation"][axis])
    before, after = (pad, int(window["pad_end"][axis])) if window["include_pad"] else (0, 0)
    low, high, reach = -before, have + after, (kernel - 1) * dilation
    # Of position p the window is cells start(p), start(p) + dilation, …, start(p) + reach; start(p) = p stride - pad.
    left = range(_first(low - reach + pad, stride), _first(low + pad, stride))
    right = range(_first(high - reach + pad, stride), _first(high + pad, stride))
    cut = [range(max(0, side.start), min(made, side.stop)) for side in (left, right)]
    if any(len(side) > MOST for side in cut):
        raise ValueError(f"a kernel of {kernel} is cut in more than {MOST} ways")
    whole = range(max(0, left.stop), min(made, right.start))
    places = [position for side in (*cut, whole[:1]) for position in side]
    starts = [position * stride - pad for position in places]
    counts = {_below(high - at, dilation, kernel) - _below(low - at, dilation, kernel) for at in starts}
    return np.array(sorted(counts - {0}), np.int64)


def _first(place: int, stride: int) -> int:
    """The first position p with p stride >= place."""
    return -(-place // stride)


def _below(distance: int, dilation: int, kernel: int) -> int:
    """Cells of a window that lie less than `distance` behind its start."""
    return min(max(-(-distance // dilation), 0), kernel)
