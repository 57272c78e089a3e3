"""What the rows of the `fx_` and `fp16_` ops must satisfy: sizes of their numbers, and shifts that 64 bits bear."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from axtool.ops.boxes import Dims

FX, FP16 = (4,), (2,)
TWO, ONE = {"a_bytes": FX, "b_bytes": FX, "out_bytes": FX}, {"x_bytes": FX, "out_bytes": FX}
# Bytes that a number of each operand may have, by op and field.
NUMBER_BYTES: Mapping[str, Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {
        "fx_add": TWO,
        "fx_mul": TWO,
        "fx_requantize": ONE,
        "fx_quantize": {"x_bytes": FX, "out_bytes": (1, 2)},
        "fx_dequantize": {"x_bytes": (1, 2), "out_bytes": FX},
        "fx_lut": ONE,
        "fx_softmax": ONE,
        "fx_layer_norm": ONE,
        "fx_from_fp16": {"x_bytes": FP16, "out_bytes": FX},
        "fp16_from_fx": {"x_bytes": FX, "out_bytes": FP16},
        "fp16_linear": {"x_bytes": (1, 2, 4), "out_bytes": (2, 4)},
    }
)
LEFT, RIGHT = -30, 62  # how far a number may be shifted
STEPS = 20  # a table of 2^12 intervals of 2^20 covers every int32
MOST_INPUTS = 2**20  # of a linear: their float32 copies are a few MiB
LIMITS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        **dict.fromkeys(("shift", "shift_a", "shift_b"), (LEFT, RIGHT)),
        **dict.fromkeys(("inverse", "scale"), (0, 2**31 - 1)),
        **dict.fromkeys(("f", "f_x"), (0, 31)),
        "rest": (0, RIGHT),
        "interval": (0, STEPS),
        "first": (-(2**31), 2**31 - 1),
    }
)


def mixed_faults(op: str, in_dims: Dims, out_dims: Dims, a: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a row whose sizes are right. Dims are in numbers."""
    for name, (least, most) in LIMITS.items():
        if name in a and not least <= a[name] <= most:
            yield f"{name} {a[name]} is not {least}..{most}"
    if op == "fx_quantize" and a["shift"] < 0:
        yield f"shift {a['shift']} is below 0"
    if op != "fp16_linear":
        return
    if a["bias_rows"] not in (1, out_dims[0] * out_dims[1]):
        yield f"bias_rows {a['bias_rows']} is neither 1 nor the {out_dims[0] * out_dims[1]} pixels of the output"
    if in_dims[2] > MOST_INPUTS:
        yield f"{in_dims[2]} inputs of a sum are more than {MOST_INPUTS}"
