"""Queries, keys or values of an attention block  ->  tokens [1, L, C] whose channels hold the heads side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.graph.passes.reshaping import narrowed, reshaped, typed
from axtool.graph.passes.views import Index, View, views_of
from axtool.graph.passes.work import Work, constant, shape_of


@dataclass(frozen=True)
class Operand:
    """An operand (heads, tokens, channels of a head) as a view of a source that holds whole tokens."""

    value: ir.Value  # as the product reads it
    view: View
    heads: int
    tokens: int
    channels: int
    chosen: Index  # the source's channels in the order (head, channel of the head)
    channels_first: bool  # the source is [channels, tokens] rather than [tokens, channels]
    scale: float
    array: NDArray[np.float32] | None = None  # tokens (1, L, C), if the operand is a constant

    @property
    def contiguous(self) -> bool:
        """Whether the channels lie in the source as the op wants them, one behind the other."""
        return self.array is not None or bool(np.all(np.diff(self.chosen) == 1))


def operand_of(work: Work, value: ir.Value | None, order: tuple[int, int, int]) -> Operand | None:
    """The operand that a product reads; `order` puts its axes (flat batch, rows, columns) into heads, tokens, channels.

    None where it is not a split of whole tokens into heads: windows, a batch, heads that share keys.
    """
    shape = shape_of(value)
    if value is None or shape is None or len(shape) < 2:
        return None
    array = constant(value)
    if array is not None:
        heads = array.reshape(-1, *shape[-2:]).transpose(order)
        tokens = np.ascontiguousarray(heads.transpose(1, 0, 2)).reshape(1, heads.shape[1], -1)
        view = View(value, np.arange(array.size).reshape(shape), 1.0, ())
        sizes = heads.shape[0], heads.shape[1], heads.shape[2]
        chosen = np.arange(tokens.shape[-1])
        return Operand(value, view, *sizes, chosen, False, 1.0, tokens.astype(np.float32))
    found = [operand for view in views_of(work, value, scaled=True) if (operand := _split(value, view, order))]
    if value in work.given or any(out in work.given for op in found for node in op.view.path for out in node.outputs):
        return None
    # Tokens as they are need no move at all; otherwise the furthest source needs the fewest.
    return next((operand for operand in found if _is_tokens(operand)), found[0] if found else None)


def _is_tokens(operand: Operand) -> bool:
    shape = shape_of(operand.view.source)
    whole = shape is not None and shape[:-1] == (1, operand.tokens)
    return whole and not operand.channels_first and operand.contiguous


def _split(value: ir.Value, view: View, order: tuple[int, int, int]) -> Operand | None:
    size = int(np.prod(shape_of(view.source) or ()))
    index = view.index.reshape(-1, *view.index.shape[-2:]).transpose(order)  # (heads, tokens, channels)
    heads, tokens, channels = index.shape
    if not index.size or size % tokens:
        return None
    step = int(index[0, 1, 0] - index[0, 0, 0]) if tokens > 1 else size
    first = index[:, 0, :].reshape(-1)
    if not np.array_equal(index, index[:, :1] + step * np.arange(tokens)[:, None]):
        return None
    width = size // tokens
    if step == width and first.max() < width:
        return Operand(value, view, heads, tokens, channels, first, False, view.scale)
    images = (shape_of(view.source) or ())[:2] == (1, width)
    if step == 1 and images and not np.any(first % tokens):
        return Operand(value, view, heads, tokens, channels, first // tokens, True, view.scale)
    return None


def tokens_of(work: Work, operand: Operand, before: ir.Node, stem: str) -> ir.Value:
    """The operand as tokens (1, L, C), made before a node: Reshape, Transpose and Slice as far as they are needed."""
    if operand.array is not None:
        return work.add_constant(operand.array, stem)
    value = operand.view.source
    shape = shape_of(value)
    assert shape is not None
    tokens, width = operand.tokens, int(np.prod(shape)) // operand.tokens
    start, stop = int(operand.chosen[0]), int(operand.chosen[-1]) + 1
    if operand.channels_first:
        value = narrowed(work, value, 1, start, stop, before, stem)
        value = reshaped(work, value, (1, stop - start, tokens), before, stem)
        value = work.insert(before, "Transpose", [value], f"{stem}/tokens", perm=(0, 2, 1)).outputs[0]
        return typed(value, (1, tokens, stop - start))
    value = reshaped(work, value, (1, tokens, width), before, stem)
    return narrowed(work, value, 2, start, stop, before, stem)
