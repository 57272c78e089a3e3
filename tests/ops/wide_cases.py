"""A random layer of int8 numbers  ->  one of the `wide_` op of its name, with numbers of two bytes in some places."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.ops.arithmetic import qfp
from axtool.ops.packing import fold_bias, pack_params
from tests.ops.cases import Case

SPREAD = {1: 74.0, 2: 19000.0}  # of random numbers of so many bytes
LIMITS = {1: (-128, 127), 2: (-(2**15), 2**15 - 1)}


def widened(case: Case, seed: int) -> Case:
    """The same shapes and windows; scales that keep most results between the bounds."""
    rng = np.random.default_rng([seed, 16])
    a, operands = dict(case.attrs), list(case.operands)
    sizes = _sizes(case, rng)
    for at, (size, zp) in enumerate(_tensors(case.op, sizes)):
        if size == 2:
            a |= {zp: 0} if zp in a else {}
            operands[at] = random_numbers(rng, operands[at].shape)
    made = sizes["out_bytes"]
    match case.op:
        case "conv" | "depthwise":
            operands[2] = _params(case, a, sizes, rng)
        case "add":
            for side in "ab":
                a[f"m_{side}"], a[f"f_{side}"] = _scale(rng, 0.7 * _ratio(made, sizes[f"{side}_bytes"]))
        case "mul":
            a["m"], a["f"] = _scale(rng, SPREAD[made] / SPREAD[sizes["a_bytes"]] / SPREAD[sizes["b_bytes"]])
        case "requantize":
            a["m"], a["f"] = _scale(rng, _ratio(made, sizes["x_bytes"]))
        case "avg_pool":
            counts = range(1, a["kernel"][0] * a["kernel"][1] + 1)
            rows = [(count, *qfp(1.3 * _ratio(made, sizes["x_bytes"]) / count)) for count in counts]
            operands[1] = np.array(rows, np.int32).reshape(-1)
        case "lut":
            del a["per_channel"]
            table = rng.integers(-(2**15), 2**15, 256, dtype=np.int16)
            points = rng.integers(-(2**14) * made**8, 2**14 * made**8, 1025, dtype=np.int32)
            operands[1] = table if sizes["x_bytes"] == 1 else points
    a |= _ends(rng, made) | sizes | ({"out_zp": 0} if made == 2 and "out_zp" in a else {})
    first, out = next(iter(sizes.values())), case.out_dims
    return replace(
        case,
        op=f"wide_{case.op}",
        in_dims=(*case.in_dims[:2], case.in_dims[2] * first),
        out_dims=(*out[:2], out[2] * made),
        attrs=a,
        operands=tuple(x if x.ndim == 1 else x.view(np.int8) for x in operands),
    )


def random_numbers(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int16]:
    """int16 over its whole range, the ends among them."""
    x = rng.integers(-(2**15), 2**15, shape, dtype=np.int16)
    ends = rng.integers(0, 16, shape)
    return np.where(ends == 0, np.int16(-(2**15)), np.where(ends == 1, np.int16(2**15 - 1), x))


def _sizes(case: Case, rng: np.random.Generator) -> dict[str, int]:
    names = ("a_bytes", "b_bytes", "out_bytes") if case.op in ("add", "mul") else ("x_bytes", "out_bytes")
    choices = [sizes for sizes in product((1, 2), repeat=len(names)) if 2 in sizes]
    if case.attrs.get("act"):  # it makes numbers of one byte
        choices = [(2, 1)]
    return dict(zip(names, choices[int(rng.integers(len(choices)))], strict=True))


def _tensors(op: str, sizes: dict[str, int]) -> list[tuple[int, str]]:
    """Bytes and the name of the zero point of each operand that is a tensor."""
    if "a_bytes" in sizes:
        return [(sizes["a_bytes"], "zp_a"), (sizes["b_bytes"], "zp_b")]
    return [(sizes["x_bytes"], "x_zp" if op in ("conv", "depthwise") else "zp")]


def _params(case: Case, a: dict[str, Any], sizes: dict[str, int], rng: np.random.Generator) -> NDArray[np.int32]:
    assert case.w is not None
    assert case.bias is not None
    rows = case.w.reshape(len(case.w), -1)
    wsum = rows.sum(axis=1, dtype=np.int64)
    wanted = SPREAD[2 if a["act"] else sizes["out_bytes"]]
    middle = wanted / (SPREAD[sizes["x_bytes"]] * 74 * np.sqrt(rows.shape[1]))
    m, f = zip(*(_scale(rng, middle) for _ in wsum), strict=True)
    group = 1 if case.op == "depthwise" else a["group"]
    return pack_params(fold_bias(case.bias, a["x_zp"], wsum), m, f, wsum, group)


def _ratio(out: int, given: int) -> float:
    return SPREAD[out] / SPREAD[given]


def _scale(rng: np.random.Generator, middle: float) -> tuple[int, int]:
    return qfp(float(middle * 2.0 ** rng.uniform(-2, 2)))


def _ends(rng: np.random.Generator, size: int) -> dict[str, int]:
    lo, hi = LIMITS[size]
    if rng.integers(3) == 0:
        lo, hi = sorted(int(x) for x in rng.integers(lo, hi + 1, 2))
    return {"lo": lo, "hi": hi}
