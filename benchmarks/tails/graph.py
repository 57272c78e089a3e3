"""A small writer of ONNX graphs: the tails that postamble kernels replace, as exporters write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import TensorProto, helper, numpy_helper


class Graph:
    """Nodes in order. Every method adds a node and gives the name of its output."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []

    def input(self, name: str, shape: Sequence[int]) -> str:
        """A float32 input."""
        self._inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)))
        return name

    def constant(self, value: ArrayLike, dtype: Any = np.float32) -> str:
        """A constant."""
        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def add(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """A node; the names of its outputs where there are several."""
        names = [f"t{len(self._nodes)}_{index}" for index in range(outputs)]
        self._nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def reshape(self, x: str, *shape: int) -> str:
        """Reshape to constant sizes."""
        return str(self.add("Reshape", x, self.constant(shape, np.int64)))

    def part(self, x: str, axis: int, start: int, stop: int, step: int = 1) -> str:
        """A slice along one axis."""
        bounds = [self.constant([value], np.int64) for value in (start, stop, axis, step)]
        return str(self.add("Slice", x, *bounds))

    def model(self, outputs: Mapping[str, tuple[str, Sequence[int], int]]) -> bytes:
        """The bytes of a checked model: outputs by name, each (tensor, shape, ONNX element type)."""
        nodes = list(self._nodes)
        made = []
        for name, (tensor, shape, kind) in outputs.items():
            nodes.append(helper.make_node("Identity", [tensor], [name]))
            made.append(helper.make_tensor_value_info(name, kind, list(shape)))
        graph = helper.make_graph(nodes, "tail", self._inputs, made, self._constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        return bytes(model.SerializeToString())


FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
