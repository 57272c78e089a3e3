"""A constant mask of attention  ->  the same with finite numbers: -Inf and -3.4e38 have no place in a fixed point."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from axtool.graph.passes.work import Work, constant
from axtool.ops.limits_attention import HIDING


def bounded(work: Work, mask: ir.Value, stem: str) -> ir.Value:
    """The mask with everything below `HIDING` raised to it. As it is where nothing is, where only the frame knows its
    numbers, or where it leaves a row no key: there the floor would decide what the row becomes.
    """
    values = constant(mask)
    if values is None or values.ndim == 0 or not (values < HIDING).any():
        return mask
    if not (values > HIDING).any(axis=-1).all() or np.isnan(values).any():
        return mask
    return work.add_constant(np.maximum(values, np.asarray(HIDING, values.dtype)), stem)
