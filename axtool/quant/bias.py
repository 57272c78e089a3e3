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

# Corrections are exact integer sums, the same on every CPU: rows of weights and values in these parts of their steps.
_LOST_BITS, _KEPT_BITS, _VALUE_BITS = 14, 8, 10
_MOST_ROW, _MOST_VALUE = 1 << 24, 1 << 27  # a sum over 2^12 channels still fits 64 bits


def correct_bias(site: Site, weights: Weights, source: QFormat, mean: Sequence[float]) -> Weights:
    """The weights of a MAC site with a corrected bias. `mean`: of each channel of its input, in real units.

    Where the input has not that many channels, or a bias would leave int32, nothing is changed.
    """
    return _shifted(site, weights, source, _lost(site, weights), _LOST_BITS, mean)


def follow_drift(site: Site, weights: Weights, source: QFormat, drift: Sequence[float]) -> Weights:
    """The weights of a MAC site with a bias that takes back the `drift` of its input: for each channel, in real units,
    the float mean minus the mean of what the device has there.
    """
    kept = _met(site, channel_weights(site, weights.values))
    return _shifted(site, weights, source, kept, _KEPT_BITS, drift)


def _shifted(
    site: Site, weights: Weights, source: QFormat, rows: NDArray[np.float64], bits: int, values: Sequence[float]
) -> Weights:
    """The bias plus sum(rows * values): `rows` (cout, cin / group) in steps of the weights, `values` in real units."""
    cout, inputs = rows.shape
    group = int(site.attrs.get("group", 1)) if site.op in ("Conv", "ConvTranspose") else 1
    each = np.asarray(values, np.float64) / source.scale[0]
    if each.size != group * inputs:
        return weights
    fine = np.clip(np.rint(rows * 2.0**bits), -_MOST_ROW, _MOST_ROW).astype(np.int64)
    steps = np.clip(np.rint(each * 2.0**_VALUE_BITS), -_MOST_VALUE, _MOST_VALUE).astype(np.int64)
    own = steps.reshape(group, inputs)[np.arange(cout) // (cout // group)]
    delta = (fine * own).sum(axis=1).astype(np.float64) / 2.0 ** (bits + _VALUE_BITS)
    unit = source.scale[0] * weights.scale.astype(np.float64)
    bias = weights.bias.astype(np.float64) + delta * unit
    fits = np.abs(bias / unit) + np.abs(delta) < INT32_MAX / 2
    return replace(weights, bias=np.where(fits, bias, weights.bias).astype(np.float32))


def _lost(site: Site, weights: Weights) -> NDArray[np.float64]:
    """What rounding took from each weight, in steps, each tap as often as it meets the input rather than padding."""
    real = channel_weights(site) / weights.scale.astype(np.float64)[:, None]
    return _met(site, real - channel_weights(site, weights.values))


def _met(site: Site, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """(cout, k) -> (cout, cin / group): the taps summed, each as often as it meets the input rather than padding."""
    share = tap_shares(site)
    taps = rows.reshape(len(rows), -1, len(share))
    total = np.zeros(taps.shape[:2])
    for tap, met in enumerate(share):  # one after the other: the same bits on every CPU
        total += taps[:, :, tap] * met
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
