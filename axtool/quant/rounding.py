"""Weights and the Gram matrix of their inputs  ->  int8 weights whose errors cancel in the sums, at the same scales.

Rounding each weight to the nearest step leaves errors that add up in the output. Here one weight after the other is
rounded, and what it lost is made good by those that follow, as least squares says (Frantar et al., GPTQ,
arXiv:2210.17323; the inputs with the largest energy first).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from axtool.quant.gram import Gram
from axtool.quant.weights import LIMIT, channel_weights, from_channels
from axtool.types import Site, Weights

DAMPING = 0.01  # of the mean energy, added to each input's own
BLOCK = 128  # weights whose errors are passed on together

Floats = NDArray[np.float64]


def round_weights(site: Site, weights: Weights, gram: Gram) -> Weights:
    """The weights of a MAC site rounded for the inputs of which `gram` (group, k, k) is the Gram matrix.

    Never worse for those inputs than the nearest steps: a channel for which it would be keeps these.
    """
    real = channel_weights(site) / weights.scale.astype(np.float64)[:, None]  # (cout, k), in steps
    nearest = channel_weights(site, weights.values)
    shape = (len(gram), len(real) // len(gram), real.shape[1])  # (group, cout / group, k)
    rounded = _round(real.reshape(shape), gram).reshape(real.shape)
    lost = [_loss((real - steps).reshape(shape), gram) for steps in (rounded, nearest)]
    better = lost[0] < lost[1]
    return replace(weights, values=from_channels(site, np.where(better[:, None], rounded, nearest).astype(np.int8)))


def _round(real: Floats, grams: Gram) -> Floats:
    """(group, cout, k) in steps -> whole steps; all groups at once."""
    energy = np.diagonal(grams, axis1=1, axis2=2)
    order = np.argsort(-energy, axis=1, kind="stable")
    left = np.take_along_axis(real, order[:, None, :], axis=2)
    ordered = np.take_along_axis(np.take_along_axis(grams, order[:, :, None], axis=1), order[:, None, :], axis=2)
    spread = _inverse_roots(ordered)
    steps = np.empty_like(left)
    count = left.shape[2]
    for start in range(0, count, BLOCK):
        stop = min(start + BLOCK, count)
        errors = np.empty((*left.shape[:2], stop - start))
        for at in range(start, stop):
            np.clip(np.rint(left[:, :, at]), -LIMIT, LIMIT, out=steps[:, :, at])
            error = (left[:, :, at] - steps[:, :, at]) / spread[:, at, at, None]
            errors[:, :, at - start] = error
            left[:, :, at + 1 : stop] -= error[:, :, None] * spread[:, None, at, at + 1 : stop]
        left[:, :, stop:] -= errors @ spread[:, start:stop, stop:]
    found = np.empty_like(steps)
    np.put_along_axis(found, np.broadcast_to(order[:, None, :], steps.shape), steps, axis=2)
    return found


def _inverse_roots(grams: Gram) -> Floats:
    """The upper triangles U with U'U = the inverse of the damped matrix; more damping while one is not definite.

    Inputs that were always zero damp with one: their weights stay the nearest.
    """
    size = grams.shape[1]
    mean = np.trace(grams, axis1=1, axis2=2) / size
    damping = np.where(mean > 0, DAMPING * mean, 1.0)[:, None, None] * np.eye(size)
    while True:
        try:
            inverse = np.linalg.inv(grams + damping)
            return np.asarray(np.linalg.cholesky((inverse + inverse.swapaxes(1, 2)) / 2).swapaxes(1, 2), np.float64)
        except np.linalg.LinAlgError:
            damping = damping * 10


def _loss(error: Floats, grams: Gram) -> Floats:
    """The squared error of each output channel, summed over the windows: (cout,)."""
    squares: Floats = ((error @ grams) * error).sum(axis=2)
    return squares.reshape(-1)
