"""1x1 Conv(Concat(Resize(a), Resize(b), c))  ->  Resize(Conv(a) + ...) + Conv(c): a 1x1 convolution commutes with it.

A 1x1 convolution weighs channels, an enlargement weighs pixels by weights that sum to 1: they may change places, the
bias too. Each branch meets its columns of the weights at its own resolution, and the running sum climbs: branches that
are enlarged alike are added before, once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.graph.optimize.resizes import Lift, add_resize, lifted
from axtool.graph.passes.work import Work, constant, feeds_only, made_by, shape_of
from axtool.target import Target

Array = NDArray[np.generic]


@dataclass(frozen=True)
class _Branch:
    """A part of the Concat: where its enlargements begin, those in order, and its columns of the weights."""

    source: ir.Value
    lifts: tuple[Lift, ...]
    weights: Array  # (cout, channels, 1, 1)


def fuse_before_upsample(work: Work, target: Target) -> int:
    """How many convolutions moved in front of the enlargements."""
    return sum(_fuse(work, node) for node in work.nodes("Conv"))


def _fuse(work: Work, conv: ir.Node) -> bool:
    branches = _branches(work, conv)
    if branches is None or not _pays(branches, conv):
        return False
    bias = conv.inputs[2] if len(conv.inputs) > 2 else None
    stem = conv.outputs[0].name or "fused"
    plain = [at for at, branch in enumerate(branches) if not branch.lifts]
    first = plain[0] if plain else 0  # the bias enters once
    terms = [
        (_convolve(work, conv, branch, bias if at == first else None, f"{stem}/branch{at}"), branch.lifts)
        for at, branch in enumerate(branches)
    ]
    parts = _levels(work, conv, terms, stem)
    total = parts[0]
    for part in parts[1:-1]:
        total = _add(work, conv, total, part, stem)
    if len(parts) == 1:
        maker = total.producer()
        assert maker is not None
        work.take_over(maker, conv)
    else:
        work.become(conv, "Add", [total, parts[-1]])
    return True


def _branches(work: Work, conv: ir.Node) -> list[_Branch] | None:
    """The parts that a pointwise convolution reads through a Concat of channels; None where it is another pattern."""
    concat, weights = made_by(conv.inputs[0], "Concat"), constant(conv.inputs[1])
    if concat is None or weights is None or weights.ndim != 4 or weights.shape[2:] != (1, 1):
        return None
    joined, attrs = concat.outputs[0], work.attrs(conv)
    pointwise = attrs["group"] == 1 and not any(attrs["pads"]) and set(attrs["strides"]) == {1}
    if not pointwise or work.attrs(concat).get("axis") != 1 or not feeds_only(joined, conv) or joined in work.given:
        return None
    found, begin = [], 0
    for value in concat.inputs:
        shape = shape_of(value)
        if value is None or shape is None or value in work.given:
            return None
        source, lifts = _climb(work, value, concat)
        found.append(_Branch(source, lifts, weights[:, begin : begin + shape[1]]))
        begin += shape[1]
    return _joined_alike(found)


def _climb(work: Work, value: ir.Value, reader: ir.Node) -> tuple[ir.Value, tuple[Lift, ...]]:
    """Where the enlargements of a value begin, and these from there on; only those that nobody else reads."""
    lifts: list[Lift] = []
    while (step := lifted(work, value)) is not None and feeds_only(value, reader) and value not in work.given:
        reader, lift = step
        source = reader.inputs[0]
        assert source is not None
        lifts.insert(0, lift)
        value = source
    return value, tuple(lifts)


def _joined_alike(branches: list[_Branch]) -> list[_Branch]:
    """Branches of one source with the same enlargements are one, their weights added."""
    merged: dict[tuple[int, tuple[Lift, ...]], _Branch] = {}
    for branch in branches:
        key = (id(branch.source), branch.lifts)
        if key in merged:
            total = np.asarray(merged[key].weights, np.float64) + np.asarray(branch.weights, np.float64)
            merged[key] = replace(branch, weights=total.astype(branch.weights.dtype))
        else:
            merged[key] = branch
    return list(merged.values())


def _pays(branches: list[_Branch], conv: ir.Node) -> bool:
    """Whether more than half of the products go: each branch costs a requantize and a sum for every output."""
    out = shape_of(conv.outputs[0])
    if out is None or not any(branch.lifts for branch in branches):
        return False
    channels = sum(branch.weights.shape[1] for branch in branches)
    after = 0.0
    for branch in branches:
        smaller = 1
        for lift in branch.lifts:
            smaller *= lift.factors[0] * lift.factors[1]
        after += branch.weights.shape[1] / smaller
    return bool(2 * after < channels)


def _convolve(work: Work, conv: ir.Node, branch: _Branch, bias: ir.Value | None, stem: str) -> ir.Value:
    weights = work.add_constant(np.asarray(branch.weights), f"{stem}/weight")
    inputs = [branch.source, weights, *([bias] if bias is not None else [])]
    made = work.insert(conv, "Conv", inputs, stem, kernel_shape=[1, 1]).outputs[0]
    made.type, shape = branch.source.type, shape_of(branch.source)
    assert shape is not None
    made.shape = ir.Shape((shape[0], branch.weights.shape[0], *shape[2:]))
    return made


def _levels(work: Work, conv: ir.Node, terms: list[tuple[ir.Value, tuple[Lift, ...]]], stem: str) -> list[ir.Value]:
    """The summands at the resolution that the terms end at: what has been enlarged alike is summed before."""
    here = [value for value, lifts in terms if not lifts]
    above: dict[tuple[Lift, tuple[int, ...] | None], list[tuple[ir.Value, tuple[Lift, ...]]]] = {}
    for value, lifts in terms:
        if lifts:
            above.setdefault((lifts[-1], _before_last(value, lifts)), []).append((value, lifts[:-1]))
    for (lift, _), group in above.items():
        parts = _levels(work, conv, group, stem)
        total = parts[0]
        for part in parts[1:]:
            total = _add(work, conv, total, part, stem)
        here.append(add_resize(work, conv, total, lift, f"{stem}/up"))
    return here


def _before_last(value: ir.Value, lifts: tuple[Lift, ...]) -> tuple[int, ...] | None:
    """The size that a value has in front of its last enlargement."""
    shape = shape_of(value)
    if shape is None:
        return None
    h, w = shape[2:]
    for lift in lifts[:-1]:
        h, w = h * lift.factors[0], w * lift.factors[1]
    return h, w


def _add(work: Work, conv: ir.Node, a: ir.Value, b: ir.Value, stem: str) -> ir.Value:
    made = work.insert(conv, "Add", [a, b], f"{stem}/sum").outputs[0]
    made.type, made.shape = a.type, a.shape
    return made
