"""The Reshapes and Slices that rewrites of transformers put between nodes, with the shapes of what they make."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from axtool.graph.passes.work import Work, constant, shape_of


def reshaped(work: Work, value: ir.Value, shape: tuple[int, ...], before: ir.Node, stem: str) -> ir.Value:
    """The value in this shape; itself if it has it already."""
    if shape_of(value) == shape:
        return value
    wanted = work.add_constant(np.asarray(shape, np.int64), f"{stem}/shape")
    return typed(work.insert(before, "Reshape", [value, wanted], f"{stem}/reshaped").outputs[0], shape)


def narrowed(work: Work, value: ir.Value, axis: int, start: int, stop: int, before: ir.Node, stem: str) -> ir.Value:
    """A range of the value along an axis; itself if that is all of it."""
    shape = shape_of(value)
    assert shape is not None
    if (start, stop) == (0, shape[axis]):
        return value
    numbers = [work.add_constant(np.asarray([n], np.int64), f"{stem}/slice") for n in (start, stop, axis)]
    made = work.insert(before, "Slice", [value, *numbers], f"{stem}/part").outputs[0]
    return typed(made, (*shape[:axis], stop - start, *shape[axis + 1 :]))


def typed(value: ir.Value, shape: tuple[int, ...]) -> ir.Value:
    """The value, said to be float32 of this shape."""
    value.type, value.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(shape)
    return value


def set_target(work: Work, node: ir.Node) -> None:
    """Give a Reshape its output's shape as its target, if it copies dimensions of an input that has changed."""
    target = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    shape = shape_of(node.outputs[0])
    assert shape is not None
    if target is None or 0 in target:
        if len(node.inputs) < 2:
            node.resize_inputs(2)
        node.attributes.clear()
        node.replace_input_with(1, work.add_constant(np.asarray(shape, np.int64), f"{node.outputs[0].name}/shape"))
