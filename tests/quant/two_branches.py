"""A model of two branches of very different size, joined before a convolution."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests import tiny


def two_branches(path: Path, large: float, small: float) -> Path:
    """The model written to `path`: weights of branch `a` spread by `large`, those of `b` by `small`."""
    graph = """(float[1,3,8,8] x) => (float[1,4,8,8] z) {
      a = Conv(x, w)
      b = Conv(x, v)
      y = Concat <axis=1> (a, b)
      z = Conv(y, u)
    }"""
    rng = np.random.default_rng(1)
    weights = {"w": rng.normal(0, large, (2, 3, 1, 1)), "v": rng.normal(0, small, (2, 3, 1, 1)), "u": (4, 4, 1, 1)}
    return tiny.save(path, graph, weights)
