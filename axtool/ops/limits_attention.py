"""Limits of Attention: softmax(q k^T * scale + mask) v, head by head."""

from __future__ import annotations

import numpy as np

from axtool.ops.attention import attention_room
from axtool.ops.limits_core import limit, shape_of
from axtool.target import Target
from axtool.types import Site

MOST_KEYS = 2**18  # of `axtool.ops.legal`
# What hides a key in a mask: exp of it is 0 beside any score that float16 holds well, and exporters of float16 write
# it. Lower numbers, -Inf too, are held there.
HIDING = -1e4


@limit("Attention", advice="Choose a chip whose elements compute on 32 bits, or keep it on the host.")
def attention_target(site: Site, target: Target) -> str | None:
    """Attention runs where the formats of the target have fx32."""
    return None if "fx32" in target.formats else f"{target.name} has {', '.join(target.formats)}"


@limit("Attention", advice="Export with opset 22, so that it is written as MatMul, Softmax and MatMul.")
def attention_form(site: Site, target: Target) -> str | None:
    """Attention is the block of MatMul, Softmax and MatMul that axtool makes one op of, not that of ONNX 23."""
    return None if site.domain == "ax" else "it is ONNX's own"


@limit("Attention", advice="Bring q, k and v to [1, tokens, channels], the heads side by side in the channels.")
def attention_shapes(site: Site, target: Target) -> str | None:
    """Attention has q [1, L, C], k [1, S, C] and v [1, S, D], with at most 2^18 keys, and heads that divide C and D."""
    q, k, v = (shape_of(site, name) for name in site.inputs[:3])
    heads = int(site.attrs["heads"])
    same = len(q) == len(k) == len(v) == 3 and q[2] == k[2] and k[1] == v[1]
    if same and heads > 0 and q[2] % heads == v[2] % heads == 0 and k[1] <= MOST_KEYS:
        return None
    return f"q, k and v are {q}, {k} and {v} with {heads} heads"


@limit("Attention", advice="Add the mask to the scores of all heads alike, or multiply it into the keys.")
def attention_mask(site: Site, target: Target) -> str | None:
    """The mask of Attention is the same for all heads: [1, 1, 1 or L, S], with or without the leading ones."""
    if len(site.inputs) < 4 or not site.inputs[3]:
        return None
    shape = shape_of(site, site.inputs[3])
    length, keys = (shape_of(site, name)[1] for name in site.inputs[:2])
    rows = shape[-2] if len(shape) > 1 else 1
    good = bool(shape) and shape[-1] == keys and rows in (1, length) and all(n == 1 for n in shape[:-2])
    return None if good else f"the mask is {shape} for {length} queries and {keys} keys"


@limit("Attention", advice="Let each query see a key, and write what it shall not see as -1e4.")
def attention_mask_values(site: Site, target: Target) -> str | None:
    """A mask of Attention that is a constant is finite: no fixed point holds Inf, and a row of -Inf has no softmax."""
    values = site.constants.get(site.inputs[3]) if len(site.inputs) > 3 else None
    if values is None or np.isfinite(values).all():
        return None
    bad = values[~np.isfinite(values)]
    return f"the mask holds {bad.size} {'NaN' if np.isnan(bad).any() else 'infinite'} values"


@limit("Attention", advice="Use fewer keys (pool them), or a chip with more memory in each element.")
def attention_row(site: Site, target: Target) -> str | None:
    """A row of scores of one head stays in a processing element until its softmax is done: it fits beside a query, the
    sums and the table."""
    (_, _, depth), (_, keys, made) = shape_of(site, site.inputs[0]), shape_of(site, site.inputs[2])
    heads, room = int(site.attrs["heads"]), target.memory.lrm_bytes_per_pe
    mask = len(site.inputs) > 3 and bool(site.inputs[3])
    lanes = target.array.input_channels
    needed = attention_room(keys, depth // heads, made // heads, lanes, mask=mask).total
    return f"{keys} keys need {needed:,} bytes, and an element has {room:,}" if needed > room else None
