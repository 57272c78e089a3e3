"""A convolution with a large stride  ->  SpaceToDepth by the stride, and a convolution of stride 1 over its blocks.

An output pixel of stride s begins s pixels behind its neighbour: in blocks of s x s pixels, one block behind. A window
of k pixels that begins d pixels inside a block lies in ceil((d + k) / s) blocks; the weights of the pixels around it
are zeros. The products are the same ones, so that int8 results are the same bits. A gather of every tap becomes a few
structured flows: an array walks a window of stride 1, and reads blocks of a few columns packed.
"""

from __future__ import annotations

from math import ceil, prod

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.graph.passes.work import Work, constant, shape_of
from axtool.target import Target

UNLIMITED = 1 << 30


def space_to_depth_stem(work: Work, target: Target) -> int:
    """Windows that overlap (a stem of 7x7 by 4): one block of the stride, which a packed flow reads."""
    block, stride = _limits(target)
    found = 0
    for node in work.nodes("Conv"):
        step = _square(work, node)
        if step is not None and stride < step <= block and max(work.attrs(node)["kernel"]) > step:
            found += _rewrite(work, node, (step,))
    return found


def space_to_depth_reduction(work: Work, target: Target) -> int:
    """Windows side by side that are wider than a packed flow (8x8 by 8): by passes of at most its width each."""
    block, _ = _limits(target)
    found = 0
    for node in work.nodes("Conv"):
        step = _square(work, node)
        if step is None or step <= block or max(work.attrs(node)["kernel"]) > step:
            continue
        blocks = _factors(step, block)
        if blocks is not None:
            found += _rewrite(work, node, blocks)
    return found


def _limits(target: Target) -> tuple[int, int]:
    """The widest block of a packed flow, and the largest stride of a structured one."""
    return target.limits.get("max_packed_block", UNLIMITED), target.limits.get("max_flow_stride", UNLIMITED)


def _square(work: Work, node: ir.Node) -> int | None:
    """The stride of an ungrouped 2-D convolution with constant weights whose maps are whole blocks; else None."""
    attrs, shape, weights = work.attrs(node), shape_of(node.inputs[0]), constant(node.inputs[1])
    if weights is None or weights.ndim != 4 or shape is None or shape_of(node.outputs[0]) is None:
        return None
    strides = attrs["strides"]
    fixed = node.inputs[0] in work.given or node.inputs[1] in work.given
    plain = attrs["group"] == 1 and set(attrs["dilations"]) == {1} and len(set(strides)) == 1 and not fixed
    step = int(strides[0])
    return step if plain and step > 1 and all(n % step == 0 for n in shape[2:]) else None


def _factors(step: int, most: int) -> tuple[int, ...] | None:
    """The stride as a product of blocks of at most `most`, the largest first; None where a prime is larger."""
    found: list[int] = []
    while step > 1:
        divisor = next((n for n in range(min(most, step), 1, -1) if step % n == 0), None)
        if divisor is None:
            return None
        found.append(divisor)
        step //= divisor
    return tuple(found)


def _rewrite(work: Work, node: ir.Node, blocks: tuple[int, ...]) -> int:
    step, attrs = prod(blocks), work.attrs(node)
    weights, value, out = constant(node.inputs[1]), node.inputs[0], shape_of(node.outputs[0])
    shape = shape_of(value)
    assert weights is not None
    assert value is not None
    assert out is not None
    assert shape is not None
    begin = [int(pad) for pad in attrs["pads"][:2]]
    before = [ceil(pad / step) for pad in begin]  # blocks of padding
    inside = [n * step - pad for n, pad in zip(before, begin, strict=True)]  # pixels of it that the window skips
    taps = [ceil((d + k) / step) for d, k in zip(inside, attrs["kernel"], strict=True)]
    behind = [o - 1 + t - n // step - b for o, t, n, b in zip(out[2:], taps, shape[2:], before, strict=True)]
    stem = node.outputs[0].name or "conv"
    if min(behind) < 0:  # rows that no window reads: nothing to gain from a crop
        return 0
    for at, block in enumerate(blocks):
        made = work.insert(node, "SpaceToDepth", [value], f"{stem}/blocks{at}", blocksize=block).outputs[0]
        sizes = shape_of(value)
        assert sizes is not None
        made.type = value.type
        made.shape = ir.Shape((sizes[0], sizes[1] * block * block, sizes[2] // block, sizes[3] // block))
        value = made
    kernel = _in_blocks(weights, blocks, inside, taps)
    named = node.inputs[1].name if node.inputs[1] is not None else ""
    node.replace_input_with(0, value)
    work.set_constant(node, 1, kernel, f"{named}_blocks")
    work.become(node, "Conv", list(node.inputs), kernel_shape=taps, pads=[*before, *behind])
    return 1


def _in_blocks(
    weights: NDArray[np.generic], blocks: tuple[int, ...], inside: list[int], taps: list[int]
) -> NDArray[np.generic]:
    """(cout, cin, kh, kw) -> (cout, cin s^2, th, tw), channels in the order of nested SpaceToDepth."""
    cout, cin, kh, kw = weights.shape
    step = prod(blocks)
    full = np.zeros((cout, cin, taps[0] * step, taps[1] * step), weights.dtype)
    full[:, :, inside[0] : inside[0] + kh, inside[1] : inside[1] + kw] = weights
    for block in blocks:
        n, c, h, w = full.shape
        split = full.reshape(n, c, h // block, block, w // block, block)
        full = split.transpose(0, 3, 5, 1, 2, 4).reshape(n, block * block * c, h // block, w // block)
    return np.ascontiguousarray(full)
