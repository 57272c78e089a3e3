"""Where each element of a value comes from, through nodes that only move elements.

Exporters split and join heads in many orders of Reshape, Transpose, Split, Slice and Squeeze. Instead of a pattern for
each, the positions of the source are sent through the nodes: what arrives says what they do together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.graph.passes.work import Work, constant, scalar, shape_of

Index = NDArray[np.int64]
SHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
MOVES = (*SHAPES, "Transpose", "Split", "Slice", "Gather")


@dataclass(frozen=True)
class View:
    """A value as elements of a source: its element p is `scale` times element `index[p]` of the flat source."""

    source: ir.Value
    index: Index  # of the shape of the value
    scale: float
    path: tuple[ir.Node, ...]  # from the source to the value


def views_of(work: Work, value: ir.Value, *, scaled: bool = False) -> Iterator[View]:
    """The value as a view of each value that it comes from, the furthest first, itself last.

    `scaled` also looks through products with one number.
    """
    path: list[ir.Node] = []
    chain = [value]
    factors = [1.0]
    while (step := _step(chain[-1], scaled)) is not None:
        node, source, factor = step
        path.append(node)
        chain.append(source)
        factors.append(factors[-1] * factor)
    for depth in range(len(chain) - 1, -1, -1):
        index = _follow(work, chain[depth], path[:depth][::-1], chain[:depth][::-1])
        if index is not None:
            yield View(chain[depth], index, factors[depth], tuple(path[:depth][::-1]))


def _step(value: ir.Value, scaled: bool) -> tuple[ir.Node, ir.Value, float] | None:
    node = value.producer()
    if node is None or node.domain != "" or not node.inputs or shape_of(value) is None:
        return None
    if node.op_type in MOVES:
        source, factor = node.inputs[0], 1.0
    elif scaled and node.op_type == "Mul":
        at = 0 if scalar(node.inputs[1]) is not None else 1
        number = scalar(node.inputs[1 - at])
        source, factor = node.inputs[at], number if number is not None else 0.0
        if number is None or shape_of(source) != shape_of(value):
            return None
    else:
        return None
    return None if source is None or shape_of(source) is None else (node, source, factor)


def _follow(work: Work, source: ir.Value, path: list[ir.Node], values: list[ir.Value]) -> Index | None:
    shape = shape_of(source)
    assert shape is not None
    index: Index | None = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    for node, value in zip(path, values, strict=True):
        index = moved(work, node, value, index) if index is not None else None
    return index


def moved(work: Work, node: ir.Node, value: ir.Value, array: NDArray[Any]) -> NDArray[Any] | None:
    """What a node of `MOVES` (or a product with a number) makes of an array, as its output `value`. None if unknown."""
    shape, attrs = shape_of(value), work.attrs(node)
    if shape is None:
        return None
    if node.op_type == "Mul":
        return array
    if node.op_type in SHAPES:
        return array.reshape(shape)
    if node.op_type == "Transpose" and "perm" in attrs:
        return array.transpose(attrs["perm"])
    if node.op_type == "Split" and "sizes" in attrs:
        at = list(node.outputs).index(value)
        bounds = np.cumsum((0, *attrs["sizes"]))
        return np.take(array, np.arange(bounds[at], bounds[at + 1]), axis=attrs["axis"])
    if node.op_type == "Slice" and "starts" in attrs:
        for axis, (start, step) in enumerate(zip(attrs["starts"], attrs["steps"], strict=True)):
            array = np.take(array, start + step * np.arange(shape[axis]), axis=axis)
        return array
    picked = constant(node.inputs[1]) if node.op_type == "Gather" else None
    if picked is None or "axis" not in attrs:
        return None
    return np.take(array, picked.astype(np.int64), axis=attrs["axis"])
