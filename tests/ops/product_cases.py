"""Random layers that multiply two activations: matmul and attention, heads of any width, with and without a mask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from axtool.ops.boxes import Dims
from axtool.ops.exponential import exp_table
from axtool.ops.reference_fp16_products import bits_of

if TYPE_CHECKING:
    from tests.ops.cases import Case, Dice

LENGTHS = (1, 3, 7, 17, 33, 65)


def product_case(d: Dice) -> Case:
    """A small layer of the op, with random numbers to feed it."""
    makers = {
        "matmul": _matmul,
        "attention": _attention,
        "fp16_matmul": _fp16_matmul,
        "fp16_attention": _fp16_attention,
    }
    return makers[d.op](d)


def _matmul(d: Dice) -> Case:
    from tests.ops.cases import Case

    (h, m), k, n = (d.pick((1, 1, 2, 3)), d.pick(LENGTHS)), d.pick(LENGTHS), d.pick(LENGTHS)
    turned = d.between(0, 1)
    b = (d.pick((1, h)), *((n, k) if turned else (k, n)))
    factor, shift = d.scale(0.02 / np.sqrt(k))
    attrs: dict[str, Any] = {"b": b, "trans_b": turned, "zp_a": d.zp(), "zp_b": d.zp(), "m": factor, "f": shift}
    attrs |= {"out_zp": d.zp(), **d.clamp()}
    return Case(d.op, (h, m, k), (h, m, n), attrs, (d.array(h, m, k), d.array(*b)))


def _attention(d: Dice) -> Case:
    from tests.ops.cases import Case

    heads, depth, made = d.pick((1, 1, 2, 3, 8)), d.pick((1, 3, 7, 16, 17)), d.pick((1, 3, 7, 16, 17))
    length, keys, mask = d.pick(LENGTHS), d.pick(LENGTHS), d.between(0, 2)
    attrs: dict[str, Any] = {name: d.zp() for name in ("zp_q", "zp_k", "zp_s", "zp_m", "zp_v", "out_zp")}
    attrs["m_s"], attrs["f_s"] = d.scale(0.01 / np.sqrt(depth))
    attrs["m_m"], attrs["f_m"] = d.scale(d.pick((0.5, 2.0, 100.0)))
    attrs["m"], attrs["f"] = d.scale(0.7)
    attrs |= {"heads": heads, "keys": keys, "mask": mask, "form": d.between(0, 1)}
    operands = [d.array(1, length, heads * depth), d.array(1, keys, heads * depth), d.array(1, keys, heads * made)]
    if mask:
        operands.append(d.array(1, length if mask == 2 else 1, keys))
    table = exp_table(float(d.pick((0.001, 0.02, 0.1, 1.0))))
    dims, out = (1, length, heads * depth), (1, length, heads * made)
    return Case(d.op, dims, out, attrs, (*operands, table))


def _fp16_matmul(d: Dice) -> Case:
    from tests.ops.cases import Case

    case, size = _matmul(d), d.pick((2, 4))
    attrs = {"b": case.attrs["b"], "trans_b": case.attrs["trans_b"], "f": d.between(10, 28)}
    attrs |= {"a_bytes": 2, "b_bytes": 2, "out_bytes": size}
    operands = tuple(halves(d, *array.shape) for array in case.operands)
    return Case(d.op, in_bytes(case.in_dims, 2), in_bytes(case.out_dims, size), attrs, operands)


def _fp16_attention(d: Dice) -> Case:
    from tests.ops.cases import Case

    case, size = _attention(d), d.pick((2, 4))
    attrs = {name: case.attrs[name] for name in ("heads", "keys", "mask", "form")}
    attrs |= {"scale": bits_of(d.pick((1.0, 0.25, 0.17677669, -3.0))), "f_s": d.between(0, 31), "f": d.between(10, 28)}
    attrs |= {"x_bytes": 2, "out_bytes": size}
    operands = tuple(halves(d, *array.shape) for array in case.operands[:-1])
    return Case(d.op, in_bytes(case.in_dims, 2), in_bytes(case.out_dims, size), attrs, operands)


def halves(d: Dice, *shape: int) -> NDArray[np.int8]:
    """fp16 numbers as they are stored."""
    return d.rng.normal(0, 1, shape).astype("<f2").view(np.int8)


def in_bytes(dims: Dims, size: int) -> Dims:
    return dims[0], dims[1], dims[2] * size
