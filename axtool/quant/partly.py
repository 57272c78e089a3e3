"""A float stage and its numbers  ->  the stage with what is chosen of them in it: weights and tensors that are rounded.

onnxruntime runs it in float: a rounded tensor passes a pair of QuantizeLinear and DequantizeLinear, weights have the
values that the integers stand for. What is stored in fx32 or fp16 stays as it is: its rounding hardly shows.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.graph.qdq_nodes import QdqGraph
from axtool.graph.split import Stage
from axtool.quant.weights import channel_weights, from_channels
from axtool.types import Quantization, Site, Weights

INTEGERS = ("int8", "int16")


def partly_quantized(stage: Stage, numbers: Quantization, chosen: Collection[str]) -> ir.Model:
    """A copy of the stage's float model, in which the tensors of `chosen`, and the weights that make them, are rounded.

    A tensor that is stored otherwise is rounded where an int8 node reads it whose result is chosen.
    """
    model = stage.float_model.clone()
    graph = QdqGraph(model.graph)
    for site in stage.sites:
        if site.outputs[0] in chosen and site.outputs[0] in numbers.weights:
            _store(graph, site, numbers.weights[site.outputs[0]])
    readers = {id(graph.makers[site.outputs[0]]): site for site in stage.sites}
    for name, fmt in numbers.formats.items():
        if fmt.kind in INTEGERS and name in chosen and name in graph.current:
            graph.rounded(name, fmt)
    for name, fmt in numbers.read_as.items():
        if name in graph.current:

            def reads(node: ir.Node) -> bool:
                site = readers.get(id(node))
                if site is None or site.outputs[0] not in chosen:
                    return False
                made = numbers.formats.get(site.outputs[0])
                return made is not None and made.kind in INTEGERS

            graph.rounded(name, fmt, reads)
    return model


def _store(graph: QdqGraph, site: Site, weights: Weights) -> None:
    """The node of a site multiplies with the real values of its integers; a bias takes its correction."""
    node = graph.makers[site.outputs[0]]
    channels = channel_weights(site, weights.values) * weights.scale.astype(np.float64)[:, None]
    real = from_channels(site, channels).reshape(site.constants[site.inputs[1]].shape)
    before = node.inputs[1]
    node.replace_input_with(1, graph.constant(real.astype(np.float32), site.inputs[1]))
    if before is not None and before.name and not before.uses() and before.name in graph.graph.initializers:
        del graph.graph.initializers[before.name]  # else both are in memory, and again in what is run
    node.attributes.pop("alpha", None)  # both are in the numbers
    node.attributes.pop("beta", None)
    if site.op == "MatMul":
        return  # it has no bias of its own
    bias: NDArray[np.float32] = weights.bias
    if bias.any() or len(site.inputs) > 2:
        node.resize_inputs(3)
        node.replace_input_with(2, graph.constant(bias.astype(np.float32), f"{site.outputs[0]}_bias"))
