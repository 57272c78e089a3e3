"""A float graph under change  ->  QuantizeLinear and DequantizeLinear nodes in it, and constants stored as integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.graph.names import fresh
from axtool.graph.passes.quant_params import format_of
from axtool.graph.passes.work import values_of
from axtool.types import QFormat

Reads = Callable[[ir.Node], bool]
ZERO_TYPES = {"int8": np.int8, "int16": np.int16}


@dataclass
class QdqGraph:
    """A graph that gets QDQ nodes. `current` holds, by the name that a tensor had, what its later readers read."""

    graph: ir.Graph
    taken: set[str] = field(default_factory=set)
    makers: dict[str, ir.Node] = field(default_factory=dict)
    current: dict[str, ir.Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.taken |= {value.name for value in values_of(self.graph) if value.name}
        self.taken |= {node.name for node in self.graph if node.name}
        for node in self.graph:
            self.makers |= {value.name: node for value in node.outputs if value.name}
        for value in values_of(self.graph):
            self.current[value.name or ""] = value

    def constant(self, array: NDArray[Any], stem: str) -> ir.Value:
        """A new initializer, whose name begins with `stem`."""
        name = fresh(stem, self.taken)
        tensor = ir.tensor(np.ascontiguousarray(array).reshape(array.shape), name=name)
        value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor)
        self.graph.register_initializer(value)
        return value

    def node(self, op: str, inputs: list[ir.Value | None], stem: str, like: ir.Value, **attributes: Any) -> ir.Node:
        """A new float node that is not yet in the graph; its output is called `stem` and has the shape of `like`."""
        made = ir.node(op, inputs, attributes=attributes or None, name=fresh(f"{stem}/{op}", self.taken))
        value = made.outputs[0]
        value.name, value.shape, value.type = fresh(stem, self.taken), like.shape, ir.TensorType(ir.DataType.FLOAT)
        return made

    def stored(
        self, before: ir.Node, integers: NDArray[Any], scale: NDArray[np.float32], stem: str, axis: int = 0,
        zero: NDArray[Any] | None = None,
    ) -> ir.Value:  # fmt: skip
        """A constant that is kept as integers: one scale for all, or one for each entry of `axis`.

        int32 has no zero point, in all other types it is 0 where none is given.
        """
        kept = self.constant(integers, f"{stem}_quantized")
        inputs: list[ir.Value | None] = [kept, self.constant(scale, f"{stem}_scale")]
        if integers.dtype != np.int32:
            zeros = np.zeros(scale.shape, integers.dtype) if zero is None else zero
            inputs.append(self.constant(zeros, f"{stem}_zero_point"))
        along = {"axis": axis} if scale.ndim else {}
        made = self.node("DequantizeLinear", inputs, f"{stem}_dequantized", kept, **along)
        self.graph.insert_before(before, made)
        return made.outputs[0]

    def reshaped(self, before: ir.Node, value: ir.Value, shape: Sequence[int]) -> ir.Value:
        """A Reshape of `value`."""
        sizes = self.constant(np.asarray(shape, np.int64), f"{value.name}_shape")
        made = self.node("Reshape", [value, sizes], _moved(value), value)
        made.outputs[0].shape = ir.Shape(shape)
        self.graph.insert_before(before, made)
        return made.outputs[0]

    def transposed(self, before: ir.Node, value: ir.Value, perm: Sequence[int]) -> ir.Value:
        """A Transpose of `value`, whose shape is known."""
        assert value.shape is not None
        made = self.node("Transpose", [value], _moved(value), value, perm=perm)
        made.outputs[0].shape = ir.Shape([value.shape[axis] for axis in perm])
        self.graph.insert_before(before, made)
        return made.outputs[0]

    def behind(self, node: ir.Node, op: str, name: str) -> ir.Node:
        """A new node that reads the tensor `name`, which `node` makes, and makes it from now on."""
        value = self.current[name]
        made = self.node(op, [value], f"{name}_before", value)
        self.graph.insert_after(node, made)
        self._hand_over(value, made.outputs[0], [use for use in value.uses() if use[0] is not made])
        value.name, made.outputs[0].name = made.outputs[0].name, name
        return made

    def rounded(self, name: str, fmt: QFormat, reads: Reads | None = None) -> None:
        """The readers of a tensor (those that `reads` says yes to) read it through a pair of nodes.

        A tensor that is already rounded to that format gets no second pair. A name of the signature stays with what is
        seen outside: the rounded value of an output, the float value of an input.
        """
        value = self.current[name]
        maker = value.producer()
        if maker is not None and maker.op_type == "DequantizeLinear" and format_of(maker) == fmt:
            return
        users = [use for use in value.uses() if reads is None or reads(use[0])]
        if not users and not value.is_graph_output():
            return
        scale = self.constant(np.array(fmt.scale[0], np.float32), f"{name}_scale")
        zero = self.constant(np.array(fmt.zero_point[0], ZERO_TYPES[fmt.kind]), f"{name}_zero_point")
        quantize = self.node("QuantizeLinear", [value, scale, zero], f"{name}_quantized", value)
        assert zero.dtype is not None
        quantize.outputs[0].type = ir.TensorType(zero.dtype)
        inputs: list[ir.Value | None] = [quantize.outputs[0], scale, zero]
        restore = self.node("DequantizeLinear", inputs, f"{name}_dequantized", value)
        if maker is not None:
            self.graph.insert_after(maker, [quantize, restore])
        else:
            self.graph.insert_before(self.graph[0], [quantize, restore])
        if reads is not None:
            for node, index in users:
                node.replace_input_with(index, restore.outputs[0])
        elif self._hand_over(value, restore.outputs[0], users):
            value.name, restore.outputs[0].name = fresh(f"{name}_float", self.taken), name

    def _hand_over(self, value: ir.Value, seen: ir.Value, users: Sequence[tuple[ir.Node, int]]) -> bool:
        """`users` and what is outside read `seen` in the place of `value`. True if something outside does."""
        for node, index in users:
            node.replace_input_with(index, seen)
        self.current[value.name or ""] = seen
        outside = value.is_graph_output()
        for index, output in enumerate(list(self.graph.outputs)):
            if output is value:
                self.graph.outputs[index] = seen
        return outside


def _moved(value: ir.Value) -> str:
    return f"{value.name}_moved"
