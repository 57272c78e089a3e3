"""Resize nodes of the spatial axes, as the rewrites see them: source, integer factor, and the rule for coordinates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from axtool.graph.passes.work import Work, made_by, shape_of

LINEAR_RULES = ("half_pixel", "pytorch_half_pixel")  # those under which two resizes by 2 come close to one by 4


class Lift(NamedTuple):
    """An enlargement of (n, c, h, w) by integer factors along h and w, under ONNX's names for its rule."""

    mode: str
    coordinate: str
    nearest: str
    factors: tuple[int, int]


def lift_of(work: Work, node: ir.Node) -> Lift | None:
    """What a Resize enlarges by; None for one that does anything else, or whose weights may not sum to 1."""
    source, out = shape_of(node.inputs[0]), shape_of(node.outputs[0])
    if source is None or out is None or len(source) != 4 or source[:2] != out[:2]:
        return None
    attrs = work.attrs(node)
    if attrs.get("mode") not in ("nearest", "linear") or attrs.get("antialias", 0):
        return None
    if attrs["coordinate"] in ("tf_crop_and_resize", "align_corners"):
        return None
    ratios = [b // a for a, b in zip(source[2:], out[2:], strict=True)]
    exact = all(a * ratio == b for a, b, ratio in zip(source[2:], out[2:], ratios, strict=True))
    if not exact or max(ratios) < 2 or any(abs(s - r) > 1e-6 for s, r in zip(attrs["scales"][2:], ratios, strict=True)):
        return None
    return Lift(str(attrs["mode"]), str(attrs["coordinate"]), str(attrs["nearest"]), (ratios[0], ratios[1]))


def lifted(work: Work, value: ir.Value | None) -> tuple[ir.Node, Lift] | None:
    """The Resize that makes the value, and what it does, if it enlarges."""
    node = made_by(value, "Resize")
    lift = lift_of(work, node) if node is not None else None
    return (node, lift) if node is not None and lift is not None else None


def add_resize(work: Work, before: ir.Node, value: ir.Value, lift: Lift, stem: str) -> ir.Value:
    """A new Resize of the value, in front of a node."""
    scales = work.add_constant(np.asarray((1, 1, *lift.factors), np.float32), f"{stem}/scales")
    node = work.insert(
        before, "Resize", [value, None, scales], stem,
        mode=lift.mode, coordinate_transformation_mode=lift.coordinate, nearest_mode=lift.nearest,
    )  # fmt: skip
    made, shape = node.outputs[0], shape_of(value)
    made.type = value.type
    if shape is not None:
        made.shape = ir.Shape((*shape[:2], shape[2] * lift.factors[0], shape[3] * lift.factors[1]))
    return made
