"""A clean model and the numbers of its device stages  ->  the bytes of a standard QDQ ONNX model.

onnxruntime, with its graph optimizations off, computes in it what the device computes: every tensor that the device
holds in int8 or int16 is rounded by a QuantizeLinear and DequantizeLinear pair of the same format, weights are int8
with one scale for each output channel, biases int32. What the device never rounds (the sum before a fused clamp or
activation) has no pair. Host stages stay float, and so does what the device computes in fx32 or fp16: ONNX has no such
integers, and float32 rounds finer than either. An int8 node reads such a tensor through a pair of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes.common import InlinePass

from axtool.graph.functions import attach
from axtool.graph.qdq_nodes import QdqGraph
from axtool.graph.split import Stage
from axtool.graph.standard import to_standard
from axtool.ops.arithmetic import quantize_host
from axtool.ops.elements import narrow
from axtool.ops.limits_elementwise import BINARY
from axtool.ops.limits_mac import MAC
from axtool.ops.precise import PRECISE
from axtool.plan.lower import lowered
from axtool.plan.lower_builder import Builder, Sums
from axtool.quant.ties import moved
from axtool.target import Target
from axtool.types import QFormat, Quantization, Site, Weights

OPSET = 13  # the first with a scale for each channel
WIDE_OPSET = 21  # the first in which int16 is rounded to
Real = NDArray[np.float64]


def emit_qdq(
    model: ir.Model, numbers: Sequence[tuple[Stage, Quantization]], target: Target, producer: tuple[str, str]
) -> bytes:
    """`model` is the clean one that `split` cut; `numbers` are its device stages with theirs. `model` is left as it is.

    Raises UnsupportedError where the result cannot be written as one file of opset 13 or newer, of 21 with int16.
    """
    copy = attach(model.clone())
    graph = QdqGraph(copy.graph)
    opset = OPSET
    for stage, quantization in numbers:
        sites = stage.sites
        built = lowered(sites, quantization, target, stage.inputs, stage.outputs)
        inside = {id(graph.makers[site.outputs[0]]) for site in sites}
        _Stage(graph, built, quantization.weights).write_constants(sites)
        formats = rounding(sites, built)
        if any(fmt.kind == "int16" for fmt in formats.values()):
            opset = WIDE_OPSET
        for name, fmt in formats.items():
            if name in stage.inputs:  # the host reads it as it is
                graph.rounded(name, fmt, lambda node, inside=inside: id(node) in inside)  # type: ignore[misc]
            else:
                graph.rounded(name, fmt)
        whole = {id(graph.makers[s.outputs[0]]) for s in sites if built.precision(s) not in PRECISE}
        for name, fmt in quantization.read_as.items():
            graph.rounded(name, fmt, lambda node, whole=whole: id(node) in whole)  # type: ignore[misc]
    _round_scores(copy, numbers)
    return to_standard(copy, opset, producer)


def _round_scores(model: ir.Model, numbers: Sequence[tuple[Stage, Quantization]]) -> None:
    """What an int8 attention rounds inside of it: the scores, which are in sight once its body is in the graph."""
    scores = {
        site.outputs[1]: quantization.formats[site.outputs[1]]
        for stage, quantization in numbers
        for site in stage.sites
        if site.op == "Attention" and len(site.outputs) > 1 and site.outputs[1] in quantization.formats
    }
    whole = {name: fmt for name, fmt in scores.items() if fmt.kind not in PRECISE}
    if not whole:
        return
    InlinePass()(model)
    graph = QdqGraph(model.graph)
    for name, fmt in whole.items():
        graph.rounded(name, fmt)


def rounding(sites: Sequence[Site], built: Builder) -> dict[str, QFormat]:
    """The ONNX tensors that the device rounds, and to which format."""
    held = {name: built.tensors[held.tensor].format for name, held in built.held.items()}
    for site in sites:
        source = moved(site)
        for name in site.outputs:  # what only moves on has no tensor of its own, and the same numbers
            if name and source in held:
                held.setdefault(name, held[source])
        made = {held[name] for name in site.outputs if name in held}
        if site.op == "Split" and site.inputs[0] not in held and len(made) == 1:  # its parts were made in its place
            held[site.inputs[0]] = made.pop()
    order = [name for site in sites for name in (*site.inputs, *site.outputs)]
    whole = {name: fmt for name, fmt in held.items() if fmt.kind not in PRECISE}
    return {name: whole[name] for name in dict.fromkeys(order) if name in whole}


@dataclass
class _Stage:
    """The constants of one stage, put into the graph as the device has them."""

    graph: QdqGraph
    built: Builder
    weights: Mapping[str, Weights]

    def write_constants(self, sites: Sequence[Site]) -> None:
        for site in sites:
            if site.op in MAC and site.outputs[0] in self.built.sums:
                self._mac(site)
        for layer in self.built.layers:
            origin = self.built.origins[layer.name]
            site = origin[0]
            at = [index for index, name in enumerate(site.inputs) if name in site.constants]
            if site.op not in BINARY or not at:
                continue
            if narrow(layer.op) == "depthwise":
                self._per_channel(site, at[0], self.built.sums[site.outputs[0]])
            elif narrow(layer.op) in ("add", "mul"):
                name = next(name for name in layer.inputs if name in self.built.constants)
                self._operand(site, at[0], self.built.tensors[name].format)

    def _mac(self, site: Site) -> None:
        """int8 weights, and an int32 bias where there is one or the correction made one."""
        node, sums = self.graph.makers[site.outputs[0]], self.built.sums[site.outputs[0]]
        node.replace_input_with(1, self._weights(node, site, sums))
        node.attributes.pop("alpha", None)  # both are in the numbers
        node.attributes.pop("beta", None)
        bias, after = sums.bias, self._absorbed(site)
        if site.op == "MatMul":  # it has no bias of its own
            if after is not None:
                self._replace_addend(after, sums, bias)
            elif bias.any():
                self._add_behind(node, site, sums)
            return
        if after is not None:
            self._replace_addend(after, sums, np.zeros_like(bias))
        given = site.inputs[2] if len(site.inputs) > 2 else ""
        if bias.any() or given:
            unit = sums.input_scale * sums.scale
            stem = given or f"{site.outputs[0]}_bias"
            made = self.graph.stored(node, bias.astype(np.int32), unit.astype(np.float32), stem)
            node.resize_inputs(3)
            node.replace_input_with(2, made)

    def _weights(self, node: ir.Node, site: Site, sums: Sums) -> ir.Value:
        """The weights in the layout of the op, dequantized channel by channel."""
        weights, shape = self.weights[site.outputs[0]], site.constants[site.inputs[1]].shape
        group = int(site.attrs["group"]) if site.op == "ConvTranspose" else 1
        if group == 1:
            values, axis = weights.values.reshape(shape), _channel_axis(site, len(shape))
        else:  # no axis has all output channels: they are stored first, and moved
            parts = weights.values.reshape(group, shape[0] // group, *shape[1:]).swapaxes(1, 2)
            values, axis = parts.reshape(group * shape[1], shape[0] // group, *shape[2:]), 0
        before = weights.scale.astype(np.float64)
        if not np.array_equal(before, sums.scale):  # coarser where sums would leave int32
            values = np.rint(values * _along(before / sums.scale, axis, values.ndim)).astype(np.int8)
        made = self.graph.stored(node, values, sums.scale.astype(np.float32), site.inputs[1], axis)
        if group > 1:
            made = self.graph.reshaped(node, made, parts.shape)
            made = self.graph.transposed(node, made, (0, 2, 1, *range(3, parts.ndim)))
            made = self.graph.reshaped(node, made, shape)
        return made

    def _absorbed(self, site: Site) -> Site | None:
        """The Add behind a MAC site whose constant the device has in the bias."""
        for origin in self.built.origins.values():
            if len(origin) > 1 and origin[0].index == site.index and origin[1].op == "Add":
                return origin[1]
        return None

    def _replace_addend(self, site: Site, sums: Sums, bias: NDArray[np.int64]) -> None:
        """The constant of an addition as the int32 that the device adds."""
        node = self.graph.makers[site.outputs[0]]
        at = next(index for index, name in enumerate(site.inputs) if name in site.constants)
        sign = -1 if site.op == "Sub" and at == 1 else 1
        rank = len(site.shapes[site.outputs[0]])
        node.replace_input_with(at, self._addend(node, sums, sign * bias, rank, site.inputs[at]))

    def _addend(self, node: ir.Node, sums: Sums, bias: NDArray[np.int64], rank: int, stem: str) -> ir.Value:
        unit = (sums.input_scale * sums.scale).astype(np.float32)
        return self.graph.stored(node, _along(bias, sums.axis, rank).astype(np.int32), unit, stem, sums.axis)

    def _add_behind(self, node: ir.Node, site: Site, sums: Sums) -> None:
        """An addition behind a MatMul, which takes over its name."""
        made = self.graph.behind(node, "Add", site.outputs[0])
        made.resize_inputs(2)
        rank = len(site.shapes[site.outputs[0]])
        made.replace_input_with(1, self._addend(made, sums, sums.bias, rank, f"{site.outputs[0]}_bias"))

    def _per_channel(self, site: Site, at: int, sums: Sums) -> None:
        """A factor or an addend for each channel: exact on the device, which multiplies by it in its weights."""
        if site.op in ("Add", "Sub"):
            self._replace_addend(site, sums, sums.bias)
            return
        node = self.graph.makers[site.outputs[0]]
        real = self._factor(node, site, at)
        scale = np.where(real == 0, 1.0, np.abs(real)) / 127
        values = np.rint(real / scale).astype(np.int8)
        each = np.asarray(scale.reshape(-1) if real.size > 1 else scale.reshape(()), np.float32)
        axis = int(np.argmax(real.shape)) if real.ndim else 0
        node.replace_input_with(at, self.graph.stored(node, values, each, site.inputs[at], axis))

    def _operand(self, site: Site, at: int, fmt: QFormat) -> None:
        """A constant that varies over more than channels: a tensor of integers, as the data is."""
        node = self.graph.makers[site.outputs[0]]
        values = quantize_host(self._factor(node, site, at), fmt).astype(fmt.kind)
        scale, zero = np.asarray(fmt.scale[0], np.float32), np.asarray(fmt.zero_point[0], fmt.kind)
        node.replace_input_with(at, self.graph.stored(node, values, scale, site.inputs[at], zero=zero))

    def _factor(self, node: ir.Node, site: Site, at: int) -> Real:
        """The constant as the device has it: a division becomes a product."""
        real = np.asarray(site.constants[site.inputs[at]], np.float64)
        if site.op != "Div":
            return real
        node.op_type = "Mul"
        return 1 / real


def _channel_axis(site: Site, rank: int) -> int:
    """The axis of the weights along which the output channels are."""
    if site.op == "ConvTranspose":
        return 1
    return rank - 1 if site.op == "MatMul" or (site.op == "Gemm" and not site.attrs.get("transB", 0)) else 0


def _along(values: NDArray[Any], axis: int, rank: int) -> NDArray[Any]:
    shape = [1] * rank
    shape[axis] = len(values)
    return values.reshape(shape)
