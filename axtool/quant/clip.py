"""What calibration saw of a tensor  ->  the range that its format should hold, by one of several methods.

- `minmax`: all that was seen;
- `percentile`: without the outermost values of each end;
- `mse`: the range whose rounding and clipping errors together are the smallest mean square;
- `entropy`: the range whose 255 levels tell the most of the distribution (the smallest Kullback-Leibler divergence).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from axtool.quant.observers import Histogram, MinMax

METHODS = ("minmax", "percentile", "mse", "entropy")
STEPS = 255
_EDGES = 160  # candidates for each end of a range
_SHRINKS = 96  # candidates of the entropy method

Floats = NDArray[np.float64]


def clip(observer: MinMax, method: str, percentile: float = 99.999) -> tuple[float, float]:
    """(low, high) in real units. Only `minmax` needs no histogram; the others fall back to it where there is none."""
    if not isinstance(observer, Histogram) or observer.exponent is None or method == "minmax":
        return observer.range()
    if method == "percentile":
        return observer.percentile(percentile) if percentile < 100 else observer.range()
    return _mse(observer) if method == "mse" else _entropy(observer)


def _mse(seen: Histogram) -> tuple[float, float]:
    """Every pair of candidate ends: what lies outside loses its distance, what lies inside a twelfth of a squared step.

    Values of zero are exact in every range and count for nothing.
    """
    values, counts = seen.occupied()
    lows, highs = _ends(seen.low), _ends(seen.high)
    below = np.array([_beyond(values, counts, low, -1) for low in lows])
    above = np.array([_beyond(values, counts, high, 1) for high in highs])
    step = np.maximum(np.subtract.outer(highs, lows).T, 0) / STEPS  # (lows, highs)
    inside = counts[values != 0].sum() * step**2 / 12
    best = int(np.argmin(inside + below[:, None] + above[None, :]))
    return float(lows[best // len(highs)]), float(highs[best % len(highs)])


def _ends(extreme: float) -> Floats:
    """Candidates from the extreme towards zero, the extreme first."""
    return extreme * (np.arange(_EDGES, 0, -1) / _EDGES)


def _beyond(values: Floats, counts: Floats, end: float, side: int) -> float:
    out = (values - end) * side > 0
    return float((counts[out] * (values[out] - end) ** 2).sum())


def _entropy(seen: Histogram) -> tuple[float, float]:
    """Both ends shrink together. P is the distribution with what lies outside moved to the ends, Q what 255 levels
    keep of it, spread evenly over the bins that were not empty (Migacz, 8-bit Inference with TensorRT, 2017).
    """
    values, counts = seen.occupied()
    best, found = np.inf, (seen.low, seen.high)
    for share in np.linspace(1.0, 0.25, _SHRINKS):
        low, high = seen.low * share, seen.high * share
        divergence = _divergence(values, counts, low, high)
        if divergence < best - 1e-12:
            best, found = divergence, (low, high)
    return found


def _divergence(values: Floats, counts: Floats, low: float, high: float) -> float:
    inside = (values >= low) & (values <= high)
    if high <= low or not inside.any():
        return float(np.inf)
    kept, reference = counts[inside], counts[inside].copy()
    reference[0] += counts[values < low].sum()
    reference[-1] += counts[values > high].sum()
    level = np.minimum(((values[inside] - low) * (STEPS / (high - low))).astype(np.int64), STEPS - 1)
    full = kept > 0
    members = np.bincount(level[full], minlength=STEPS)
    sums = np.bincount(level, weights=kept, minlength=STEPS)
    spread = np.where(full, sums[level] / np.maximum(members[level], 1), 0.0)
    p, q = reference / reference.sum(), spread / spread.sum()
    told = (p > 0) & (q > 0)
    lost = p[(p > 0) & (q == 0)].sum()  # an end bin that was empty before
    return float((p[told] * np.log(p[told] / q[told])).sum() + lost)
