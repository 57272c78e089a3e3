"""Means of the float activations  ->  biases that take back what rounding the weights adds on average.

The sum of an output channel is off by sum((w - scale * q) * x); with the mean of x in each input channel its mean is
known without running anything (Nagel et al., Data-Free Quantization, arXiv:1906.04721, section 4.2, with measured
means). A channel whose weights all round to one side loses several dB by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from axtool.quant.weights import INT32_MAX, channel_weights
from axtool.types import QFormat, Site, Weights

# The correction is an exact integer sum, the same on every CPU: weights and means in these parts of their steps.
_WEIGHT_BITS = 14
_MEAN_BITS = {"int8": 10, "int16": 2}
_WEIGHT_MOST, _MEAN_MOST = 1 << 24, 1 << 24


def correct_bias(site: Site, weights: Weights, source: QFormat, mean: Sequence[float]) -> Weights:
    """The weights of a MAC site with a corrected bias. `mean`: of each channel of its input, in real units.

    Where the input has not that many channels, or a bias would leave int32, nothing is changed.
    """
    lost = _lost(site, weights)  # (cout, cin / group), in steps of the weights
    cout, inputs = lost.shape
    group = int(site.attrs.get("group", 1)) if site.op in ("Conv", "ConvTranspose") else 1
    means = np.asarray(mean, np.float64) / source.scale[0]
    if means.size != group * inputs:
        return weights
    fine = np.clip(np.rint(lost * 2.0**_WEIGHT_BITS), -_WEIGHT_MOST, _WEIGHT_MOST).astype(np.int64)
    mean_bits = _MEAN_BITS[source.kind]
    steps = np.clip(np.rint(means * 2.0**mean_bits), -_MEAN_MOST, _MEAN_MOST).astype(np.int64)
    own = steps.reshape(group, inputs)[np.arange(cout) // (cout // group)]
    delta = (fine * own).sum(axis=1).astype(np.float64) / 2.0 ** (_WEIGHT_BITS + mean_bits)
    unit = source.scale[0] * weights.scale.astype(np.float64)
    bias = weights.bias.astype(np.float64) + delta * unit
    fits = np.abs(bias / unit) + np.abs(delta) < INT32_MAX / 2
    return replace(weights, bias=np.where(fits, bias, weights.bias).astype(np.float32))


def _lost(site: Site, weights: Weights) -> NDArray[np.float64]:
    """What rounding took from each weight, in steps, each tap as often as it meets the input rather than padding."""
    real = channel_weights(site) / weights.scale.astype(np.float64)[:, None]
    share = tap_shares(site)
    kept = channel_weights(site, weights.values)
    lost = (real - kept).reshape(len(real), -1, len(share))
    total = np.zeros(lost.shape[:2])
    for tap, met in enumerate(share):  # one after the other: the same bits on every CPU
        total += lost[:, :, tap] * met
    return total


def tap_shares(site: Site) -> NDArray[np.float64]:
    """For each tap of the kernel, the share of output positions at which it meets the input: 1 without padding.

    A tap of a transposed convolution meets fewer than all positions where it is strided.
    """
    if site.op not in ("Conv", "ConvTranspose"):
        return np.ones(1)
    reads, makes = (_spatial(site.shapes[name]) for name in (site.inputs[0], site.outputs[0]))
    a = site.attrs
    windows = zip(a["kernel"], a["strides"], a["dilations"], a["pads"], strict=False)
    rows, columns = (_axis_shares(site.op, *window, reads[axis], makes[axis]) for axis, window in enumerate(windows))
    shares: NDArray[np.float64] = np.multiply.outer(rows, columns).reshape(-1)
    return shares


def _axis_shares(
    op: str, kernel: int, stride: int, dilation: int, pad: int, reads: int, makes: int
) -> NDArray[np.float64]:
    taps = np.arange(kernel)[:, None] * dilation - pad
    positions, size = (makes, reads) if op == "Conv" else (reads, makes)
    met = taps + np.arange(positions)[None, :] * stride
    shares: NDArray[np.float64] = ((met >= 0) & (met < size)).sum(axis=1) / makes
    return shares


def _spatial(shape: Sequence[int]) -> tuple[int, int]:
    """(height, width); an image of one row where there is one axis."""
    return (shape[2], shape[3]) if len(shape) == 4 else (1, shape[2])
