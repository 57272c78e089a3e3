"""The graph while passes change it, and the few edits that they share.

A pass changes nodes in place wherever it can, so that names, shapes and graph outputs stay with their values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.graph.names import fresh
from axtool.graph.site_attrs import Facts, canonical
from axtool.types import QFormat

Inputs = Sequence[ir.Value | None]
FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE, ir.DataType.BFLOAT16)


@dataclass
class Work:
    """A model under change. `given` are formats that the file itself prescribes."""

    model: ir.Model
    given: dict[ir.Value, QFormat] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    # float constants that were stored as integers: (scale, zero point, stored type, axis of the scales)
    quantized: dict[ir.Value, tuple[NDArray[Any], NDArray[Any], str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for graph in self.model.graphs():
            self.taken.update(value.name for value in values_of(graph) if value.name)
            self.taken.update(node.name for node in graph if node.name)

    @property
    def graph(self) -> ir.Graph:
        return self.model.graph

    @property
    def opset(self) -> int:
        return self.model.opset_imports.get("", 1)

    def nodes(self, *ops: str) -> Iterator[ir.Node]:
        """The nodes of the main graph with one of these ops, in order; safe while nodes are removed."""
        wanted = set(ops)
        for node in tuple(self.graph):
            if node.op_type in wanted and node.domain == "" and node.graph is self.graph:
                yield node

    def fresh(self, stem: str) -> str:
        """A name that nothing in the model has: `stem`, or `stem_2`, ..."""
        return fresh(stem, self.taken)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    # Constants

    def add_constant(self, array: NDArray[Any], stem: str) -> ir.Value:
        """A new initializer of the main graph."""
        name = self.fresh(stem)
        tensor = ir.tensor(np.ascontiguousarray(array).reshape(array.shape), name=name)
        value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor)
        self.graph.register_initializer(value)
        return value

    def set_constant(self, node: ir.Node, index: int, array: NDArray[Any], stem: str) -> ir.Value:
        """Give an input a new constant. It keeps the name of the old one if nobody else reads that (cases of shared
        weights): a message about the weight then names what the user knows."""
        old = node.inputs[index] if index < len(node.inputs) else None
        value = self.add_constant(array, stem)
        if index >= len(node.inputs):
            node.resize_inputs(index + 1)
        node.replace_input_with(index, value)
        if old is not None and constant(old) is not None and not old.uses() and not old.is_graph_output():
            name = old.name
            assert name is not None
            self.graph.initializers.pop(name)
            value.name = name
        return value

    # Values

    def attrs(self, node: ir.Node) -> dict[str, Any]:
        """The canonical attributes of a node (those of its `Site`)."""
        return canonical(facts_of(node, self.opset))

    def bypass(self, old: ir.Value, new: ir.Value) -> bool:
        """Everything that read `old` reads `new`, which has the same numbers. False if that would change something.

        Names of the signature stay, and so does what others read: where a quantized file rounds `old` but not `new`,
        the two are the same only if nothing else reads `new`. The node that made `old` is left without readers.
        """
        fmt = self.given.get(old)
        if fmt is not None and self.given.get(new) != fmt and (new in self.given or not _private(new)):
            return False
        if old.is_graph_output():
            if new.producer() is None or new.is_graph_output() or new.graph is not self.graph:
                return False
            old_name = old.name
            old.replace_all_uses_with(new, replace_graph_outputs=True)
            old.name = self.fresh(f"{old_name}_unused")
            new.name = old_name
        else:
            old.replace_all_uses_with(new)
        if old in self.given:
            self.given.setdefault(new, self.given.pop(old))
        return True

    def take_over(self, node: ir.Node, later: ir.Node) -> None:
        """`node` makes what `later` made: its output gets that name, shape and readers; `later` is removed."""
        value, last = node.outputs[0], later.outputs[0]
        name, given = last.name, self.given.pop(last, None)
        last.replace_all_uses_with(value, replace_graph_outputs=True)
        value.shape, value.type = last.shape, last.type
        self.graph.remove(later, safe=True)
        value.name = name
        self.given.pop(value, None)
        if given is not None:
            self.given[value] = given

    def insert(self, before: ir.Node, op: str, inputs: Inputs, stem: str, **attributes: Any) -> ir.Node:
        """A new node just before another one; its output is named `stem`, made unique. Its type is the caller's."""
        node = ir.node(op, inputs, attributes=attributes or None, name=self.fresh(f"{stem}/{op}"))
        node.outputs[0].name = self.fresh(stem)
        self.graph.insert_before(before, node)
        return node

    def become(self, node: ir.Node, op: str, inputs: Inputs, domain: str = "", **attributes: Any) -> None:
        """Change what a node does; its name and outputs stay."""
        node.op_type, node.domain = op, domain
        node.attributes.clear()
        for attr in ir.convenience.convert_attributes(attributes):
            node.attributes[attr.name] = attr
        set_inputs(node, inputs)


def _private(value: ir.Value) -> bool:
    """True if one node reads the value and nobody else."""
    return len(value.uses()) == 1 and not value.is_graph_output() and not value.is_graph_input()


def hold(work: Work, output: ir.Value, value: ir.Value, before: ir.Node) -> None:
    """A graph output that is a constant, an input or another output needs a node that makes it: an Identity."""
    name = output.name
    made = work.insert(before, "Identity", [value], f"{name}_held").outputs[0]
    made.type, made.shape = output.type or value.type, output.shape or value.shape
    output.replace_all_uses_with(made, replace_graph_outputs=True)
    output.name = work.fresh(f"{name}_unused")
    made.name = name


def facts_of(node: ir.Node, opset: int) -> Facts:
    """What `canonical` needs to know of a node."""
    inputs = tuple((value.name or "") if value is not None else "" for value in node.inputs)
    outputs = tuple(value.name or "" for value in node.outputs)
    raw = {name: attr.value for name, attr in node.attributes.items() if attr.type not in _GRAPHS}
    values = [value for value in (*node.inputs, *node.outputs) if value is not None]
    shapes = {value.name: shape for value in values if (shape := shape_of(value)) is not None}
    constants = {value.name: array for value in node.inputs if value and (array := constant(value)) is not None}
    return Facts(node.op_type, opset, raw, inputs, outputs, shapes, constants)  # type: ignore[arg-type]


_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def set_inputs(node: ir.Node, inputs: Inputs) -> None:
    """Replace all inputs of a node."""
    for index in range(len(node.inputs)):
        node.replace_input_with(index, None)
    node.resize_inputs(len(inputs))
    for index, value in enumerate(inputs):
        node.replace_input_with(index, value)


def values_of(graph: ir.Graph) -> Iterator[ir.Value]:
    """Every value that a graph itself defines."""
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in graph:
        yield from node.outputs


def constant(value: ir.Value | None) -> NDArray[Any] | None:
    """The array of an initializer that no caller can override, or None."""
    if value is None or value.const_value is None or not value.is_initializer() or value.is_graph_input():
        return None
    return value.const_value.numpy()


def scalar(value: ir.Value | None) -> float | None:
    """The number in a one-element float constant, or None."""
    array = constant(value)
    return float(array.reshape(-1)[0]) if array is not None and array.size == 1 and array.dtype.kind == "f" else None


def shape_of(value: ir.Value | None) -> tuple[int, ...] | None:
    """The shape, if all of it is known."""
    if value is None or value.shape is None or not value.shape.is_static():
        return None
    return tuple(int(d) for d in value.shape.numpy())


def rank_of(value: ir.Value | None) -> int | None:
    return None if value is None or value.shape is None else len(value.shape)


def made_by(value: ir.Value | None, *ops: str, domain: str = "") -> ir.Node | None:
    """The node that makes the value, if it is one of these ops."""
    node = value.producer() if value is not None else None
    return node if node is not None and node.domain == domain and node.op_type in ops else None


def only_reader(value: ir.Value) -> ir.Node | None:
    """The one node that reads the value, if nothing else does: no second input, no graph output, no subgraph."""
    uses = value.uses()
    if len(uses) != 1 or value.is_graph_output():
        return None
    return next(iter(uses))[0]


def feeds_only(value: ir.Value, node: ir.Node) -> bool:
    """True if `node` reads the value once and nothing else reads it."""
    return only_reader(value) is node


def is_float(value: ir.Value | None) -> bool:
    return value is not None and value.dtype in FLOATS


def per_channel(array: NDArray[Any], rank: int, channels: int, axis: int = 1) -> NDArray[Any] | None:
    """The (channels,) vector that a constant broadcast against a tensor of this rank amounts to, or None.

    A scalar amounts to a constant vector; anything that varies along another axis, or adds axes, to none.
    """
    if array.ndim > rank:
        return None
    full = array.reshape((1,) * (rank - array.ndim) + array.shape)
    if any(extent != 1 for at, extent in enumerate(full.shape) if at != axis) or full.shape[axis] not in (1, channels):
        return None
    return np.broadcast_to(full.reshape(-1), (channels,)).copy()


def remove_unused(work: Work) -> int:
    """Remove nodes that nobody reads, and what only they read. Subgraphs count as readers."""
    count = 0
    for node in reversed(tuple(work.graph)):
        if not any(value.uses() or value.is_graph_output() for value in node.outputs):
            work.graph.remove(node, safe=True)
            count += 1
    return count
