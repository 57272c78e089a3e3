"""SegFormer-B0 as shapes: the backbone as exporters write it, the two decode heads, labels at the size of the picture.

`linear` heads project tokens (the checkpoint on Hugging Face), `conv` heads maps, with a ReLU (MMSegmentation).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks.networks import OPSET
from benchmarks.validation.shapes import Built, Shapes

CHANNELS, HEADS, REDUCTIONS = (32, 64, 160, 256), (1, 2, 5, 8), (8, 4, 2, 1)
BLOCKS, EXPANSION, BRANCH = 2, 4, 256
Head = Literal["linear", "conv"]


def segformer_b0(classes: int, head: Head, height: int = 256, width: int = 512) -> Built:
    """The whole network, labels out."""
    net = _Tokens("segformer_b0", height, width)
    maps = _backbone(net)
    logits = _head(net, maps, classes, head)
    labels = net.op("ArgMax", net.upsample(logits, 4, "linear"), axis=1, keepdims=0)
    out = helper.make_tensor_value_info(labels, TensorProto.INT64, (1, height, width))
    graph = helper.make_graph(net.nodes, net.name, [net.input], [out], net.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    return Built(onnx.shape_inference.infer_shapes(model, strict_mode=True), net.largest)


class _Tokens(Shapes):
    """Shapes, and what a transformer adds to them. Tokens are (1, h w, c); `size` keeps their map's."""

    def tokens(self, x: str) -> str:
        return self.op("Transpose", self.reshaped(x, 1, self.channels[x], -1), perm=[0, 2, 1])

    def image(self, x: str) -> str:
        h, w = self.size[x]
        return self.reshaped(self.op("Transpose", x, perm=[0, 2, 1]), 1, self.channels[x], h, w)

    def reshaped(self, x: str, *shape: int) -> str:
        return self.op("Reshape", x, self.constant(np.array(shape, np.int64)))

    def linear(self, x: str, cout: int) -> str:
        y = self.op("MatMul", x, self.kernel((self.channels[x], cout)), channels=cout)
        return self.op("Add", y, self.bias(cout))

    def norm(self, x: str) -> str:
        scale = np.ones(self.channels[x], np.float32)
        scale[0] += (len(self.weights) + 1) / 2**12  # each its own
        bias = self.bias(self.channels[x])
        return self.op("LayerNormalization", x, self.constant(scale), bias, axis=-1, epsilon=1e-6)

    def gelu(self, x: str) -> str:
        gate = self.op("Erf", self.op("Div", x, self.constant(np.float32(np.sqrt(2)))))
        gated = self.op("Mul", x, self.op("Add", gate, self.constant(np.float32(1))))
        return self.op("Mul", gated, self.constant(np.float32(0.5)))

    def attention(self, x: str, heads: int, reduction: int) -> str:
        """Queries of every token, keys and values of a map that a convolution has made smaller."""
        c = self.channels[x]
        seen = x
        if reduction > 1:
            seen = self.norm(self.tokens(self.conv(self.image(x), c, reduction, reduction, pad=0)))
        q, k, v = self.linear(x, c), self.linear(seen, c), self.linear(seen, c)
        q, v = (self.op("Transpose", self._heads(one, heads), perm=[0, 2, 1, 3]) for one in (q, v))
        k = self.op("Transpose", self._heads(k, heads), perm=[0, 2, 3, 1])
        scale = self.constant(np.float32(1 / np.sqrt(c // heads)))
        weights = self.op("Softmax", self.op("Mul", self.op("MatMul", q, k), scale), axis=-1)
        context = self.op("Transpose", self.op("MatMul", weights, v), perm=[0, 2, 1, 3])
        return self.linear(self.reshaped(context, 1, -1, c), c)

    def _heads(self, x: str, heads: int) -> str:
        return self.reshaped(x, 1, -1, heads, self.channels[x] // heads)

    def feed_forward(self, x: str) -> str:
        """A linear layer, a depthwise 3x3 on the map, GELU, a linear layer."""
        wide = self.linear(x, self.channels[x] * EXPANSION)
        return self.linear(self.gelu(self.tokens(self.depthwise(self.image(wide), 3))), self.channels[x])


def _backbone(net: _Tokens) -> list[str]:
    """The last map of each of the four stages."""
    x, maps = "images", []
    for stage, (c, heads, reduction) in enumerate(zip(CHANNELS, HEADS, REDUCTIONS, strict=True)):
        x = net.norm(net.tokens(net.conv(x, c, 3 if stage else 7, 2 if stage else 4)))
        for _ in range(BLOCKS):
            x = net.op("Add", net.attention(net.norm(x), heads, reduction), x)
            x = net.op("Add", net.feed_forward(net.norm(x)), x)
        x = net.image(net.norm(x))
        maps.append(x)
    return maps


def _head(net: _Tokens, maps: list[str], classes: int, head: Head) -> str:
    """Each branch in 256 channels, enlarged to the first, joined from the last on, fused by 1x1, classified."""
    branches = []
    for at, x in enumerate(maps):
        branch = net.conv(x, BRANCH, act="relu") if head == "conv" else net.image(net.linear(net.tokens(x), BRANCH))
        branches.append(net.upsample(branch, 2**at, "linear") if at else branch)
    return net.conv(net.conv(net.concat(*reversed(branches)), BRANCH, act="relu"), classes)
