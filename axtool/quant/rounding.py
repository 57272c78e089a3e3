"""Weights and the Gram matrix of their inputs  ->  int8 weights whose errors cancel in the sums, at the same scales.

Rounding each weight to the nearest step leaves errors that add up in the output. Here one weight after the other is
rounded, and what it lost is made good by those that follow, as least squares says (Frantar et al., GPTQ,
arXiv:2210.17323; the inputs with the largest energy first). With the matrix as M D M', M lower triangular with ones on
its diagonal, and the weights rounded from the last to the first, weight j is rounded at

    w_j + sum over i > j of M_ij (w_i - q_i)

and what it then is off by, squared and times D_j, is its part of the squared error: no inverse is needed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from axtool.quant.gram import Gram, Matrices, native_function
from axtool.quant.weights import LIMIT, channel_weights, from_channels
from axtool.types import Site, Weights

DAMPING = 0.01  # of the mean energy, added to each input's own

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def round_weights(site: Site, weights: Weights, gram: Gram) -> Weights:
    """The weights of a MAC site rounded for the inputs of which `gram` is the Gram matrix.

    Never worse for those inputs than the nearest steps: a channel for which it would be keeps these.
    """
    key = weights.scale.tobytes() + weights.values.tobytes()
    if key not in gram.rounded:
        gram.rounded[key] = _rounded(site, weights, gram.matrices)
    return replace(weights, values=gram.rounded[key])


def _rounded(site: Site, weights: Weights, grams: Matrices) -> NDArray[np.int8]:
    real = channel_weights(site) / weights.scale.astype(np.float64)[:, None]  # (cout, k), in steps
    nearest = channel_weights(site, weights.values)
    shape = (len(grams), len(real) // len(grams), real.shape[1])  # (group, cout / group, k)
    steps, lost = _round(real.reshape(shape), nearest.reshape(shape), np.ascontiguousarray(grams, np.float64))
    better = (lost[0] < lost[1]).reshape(-1)
    return from_channels(site, np.where(better[:, None], steps.reshape(real.shape), nearest).astype(np.int8))


def _round(real: Floats, nearest: Floats, grams: Matrices) -> tuple[Floats, Floats]:
    """(group, cout, k) in steps -> whole steps, and (2, group, cout): what they and the nearest lose.

    The matrices are damped, more where one is not positive definite. Inputs that were always zero damp with one: their
    weights stay the nearest.
    """
    energy = np.diagonal(grams, axis1=1, axis2=2)
    order = np.ascontiguousarray(np.argsort(-energy, axis=1, kind="stable")[:, ::-1])
    mean = energy.mean(axis=1)
    damping = np.where(mean > 0, DAMPING * mean, 1.0)
    steps, lost = np.empty(real.shape), np.empty((2, *real.shape[:2]))
    made = native_function("round_rows_f64") or round_rows_f64
    real, nearest = np.ascontiguousarray(real, np.float64), np.ascontiguousarray(nearest, np.float64)
    while not made(real, nearest, grams, order, damping, LIMIT, steps, lost):
        damping = damping * 10
    return steps, lost


def round_rows_f64(
    real: Floats,
    nearest: Floats,
    grams: Matrices,
    order: Integers,
    damping: Floats,
    limit: float,
    steps: Floats,
    lost: Floats,
) -> bool:
    """The obvious loops of the native function of this name, which has the same bits.

    `order` (group, k) ends with the weight that is rounded first; `damping` (group,) is added to the diagonals. False,
    and nothing of use in `steps` and `lost`, where a matrix is not positive definite.
    """
    group, k = np.arange(len(grams))[:, None], grams.shape[1]
    m = grams[group[:, :, None], order[:, :, None], order[:, None, :]]
    m[:, np.arange(k), np.arange(k)] += damping[:, None]
    d = np.empty((len(grams), k))
    for j in range(k):
        d[:, j] = m[:, j, j]
        if not (d[:, j] > 0).all():
            return False
        row = m[:, j, j + 1 :].copy()
        m[:, j, j + 1 :] = row / d[:, j, None]  # column j of M
        m[:, j + 1 :, j + 1 :] -= m[:, j, j + 1 :, None] * row[:, None, :]
    places = np.broadcast_to(order[:, None, :], real.shape)
    w, fixed = (np.take_along_axis(array, places, axis=2) for array in (real, nearest))
    for way in range(2):
        left, total, square = w.copy(), np.zeros(real.shape[:2]), np.zeros(real.shape[:2])
        for j in reversed(range(k)):
            q = fixed[:, :, j] if way else np.clip(np.rint(left[:, :, j]), -limit, limit)
            error, off = w[:, :, j] - q, left[:, :, j] - q
            total += d[:, j, None] * off * off
            square += error * error
            left[:, :, :j] += m[:, None, :j, j] * error[:, :, None]
            if not way:
                np.put_along_axis(steps, order[:, j][:, None, None], q[:, :, None], axis=2)
        lost[way] = total - damping[:, None] * square
    return True
