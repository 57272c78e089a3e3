"""Every device op by name -> its meaning: NumPy functions of the box to make and the boxes it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from axtool.ops import reference_attention as attention
from axtool.ops import reference_custom as custom
from axtool.ops import reference_elementwise as elementwise
from axtool.ops import reference_fp16_products as fp16_products
from axtool.ops import reference_fx_rows as fx_rows
from axtool.ops import reference_mac as mac
from axtool.ops import reference_mixed as mixed
from axtool.ops import reference_movement as movement
from axtool.ops import reference_pool as pool
from axtool.ops import reference_rows as rows
from axtool.ops import reference_wide as wide
from axtool.ops.boxes import Box, Job
from axtool.ops.reference_arg_max import arg_max

Reference = Callable[[Job, Sequence[Box]], NDArray[np.int8]]

REFERENCE: Mapping[str, Reference] = MappingProxyType(
    {
        "conv": mac.conv,
        "depthwise": mac.depthwise,
        "conv_transpose": mac.conv_transpose,
        "add": elementwise.add,
        "mul": elementwise.mul,
        "concat": elementwise.concat,
        "requantize": elementwise.requantize,
        "slice": movement.slice_,
        "pad": movement.pad,
        "max_pool": pool.max_pool,
        "avg_pool": pool.avg_pool,
        "resize_nearest": pool.resize_nearest,
        "resize_linear": pool.resize_linear,
        "lut": elementwise.lut,
        "transpose": movement.transpose,
        "reshape": movement.reshape,
        "depth_to_space": movement.depth_to_space,
        "space_to_depth": movement.space_to_depth,
        **wide.WIDE,
        "matmul": attention.matmul,
        "attention": attention.attention,
        **fp16_products.FP16_PRODUCTS,
        "softmax": rows.softmax,
        "layer_norm": rows.layer_norm,
        "arg_max": arg_max,
        "fx_softmax": fx_rows.softmax,
        "fx_layer_norm": fx_rows.layer_norm,
        **mixed.MIXED,
        "custom": custom.compute,
    }
)


def compute(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """The output box (h, w, n) of a job, in bytes; of a concat, the part that its one input fills."""
    return REFERENCE[job.op](job, reads)
