"""Pools that round their output up, written so that shape inference and onnxruntime agree on the shape.

A last window that would begin behind the image and its padding in front does not count, as in PyTorch. onnxruntime
leaves it out in every opset, onnx's shape inference only from 22 on. Such a pool gets the form that needs no such rule:
it rounds down, or has less padding at the end, which only the window that is left out would have seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

POOLS = ("MaxPool", "AveragePool", "LpPool")


@dataclass(frozen=True, slots=True)
class _Axis:
    """A pool along one spatial axis. `reach` is the extent of its window, `begin` and `end` are pads."""

    size: int
    reach: int
    stride: int
    begin: int
    end: int

    @property
    def floor(self) -> int:
        """Windows that lie in the padded axis."""
        return (self.size + self.begin + self.end - self.reach) // self.stride + 1

    @property
    def spare(self) -> int:
        """Padded elements behind the last of them."""
        return (self.size + self.begin + self.end - self.reach) % self.stride

    @property
    def count(self) -> int:
        """Windows with the one that reaches over the end, if it begins early enough."""
        more = self.spare > 0 and self.floor * self.stride < self.size + self.begin
        return self.floor + more


def settle_pools(model: ir.Model) -> int:
    """Rewrite, in place, the first pool whose inferred shape has a window too many: 1, or 0 where there is none.

    Shapes behind it are to be inferred again before the next one is looked for.
    """
    for node in model.graph:
        if node.op_type in POOLS and node.domain == "" and _settle(node):
            return 1
    return 0


def _settle(node: ir.Node) -> bool:
    axes = _axes(node)
    made = node.outputs[0].shape
    if axes is None or made is None or not made.is_static() or len(made) != 2 + len(axes):
        return False
    if tuple(made.numpy()[2:]) == tuple(axis.count for axis in axes):
        return False
    if all(axis.count == axis.floor for axis in axes):
        del node.attributes["ceil_mode"]
        return True
    cut = [axis.spare if axis.count == axis.floor else 0 for axis in axes]
    if not any(cut) or any(less > axis.end for less, axis in zip(cut, axes, strict=True)):
        return False
    ends = [axis.end - less for less, axis in zip(cut, axes, strict=True)]
    node.attributes["pads"] = ir.AttrInt64s("pads", [*(axis.begin for axis in axes), *ends])
    return True


def _axes(node: ir.Node) -> list[_Axis] | None:
    """The spatial axes of a pool that rounds up with pads of its own, or None for other pools and unknown shapes."""
    source, auto = node.inputs[0], node.attributes.get("auto_pad")
    ceil, kernel = node.attributes.get("ceil_mode"), _ints(node, "kernel_shape")
    if source is None or source.shape is None or not source.shape.is_static() or ceil is None or not ceil.as_int():
        return None
    if (auto is not None and auto.as_string() != "NOTSET") or len(source.shape) != 2 + len(kernel) or not kernel:
        return None
    rank = len(kernel)
    strides, dilations = _ints(node, "strides") or (1,) * rank, _ints(node, "dilations") or (1,) * rank
    pads = _ints(node, "pads") or (0,) * 2 * rank
    if not len(strides) == len(dilations) == rank or len(pads) != 2 * rank:
        return None
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    sizes = (int(size) for size in source.shape.numpy()[2:])
    return [_Axis(*numbers) for numbers in zip(sizes, reach, strides, pads[:rank], pads[rank:], strict=True)]


def _ints(node: ir.Node, name: str) -> tuple[int, ...]:
    attribute = node.attributes.get(name)
    return () if attribute is None else tuple(attribute.as_ints())
