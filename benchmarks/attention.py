"""SegFormer-B0 and DETR-R101 as ONNX models with seeded weights, as exporters write them: for cost, and for the bits.

`segformer_b0` gives the logits at a quarter of 256 x 512 (3.7 GMAC), `detr_r101` classes and boxes of 100 queries from
750 x 800 pixels (101 GMAC). Tokens are (1, n, c).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx

from benchmarks.networks import Net, resnet


def segformer_b0(height: int = 256, width: int = 512, classes: int = 19) -> onnx.ModelProto:
    """SegFormer-B0: four stages of attention over fewer keys than queries, then one linear layer for each."""
    net = Net("segformer_b0", (1, 3, height, width), seed=21)
    x, levels = "images", []
    for stage, (channels, heads, fewer) in enumerate(((32, 1, 8), (64, 2, 4), (160, 5, 2), (256, 8, 1))):
        x = net.conv(x, channels, 7 if stage == 0 else 3, 4 if stage == 0 else 2)
        size = (height >> stage + 2, width >> stage + 2)
        x = _norm(net, _tokens(net, x))
        for _ in range(2):
            y = _norm(net, x)
            keys = y
            if fewer > 1:
                small = net.conv(_map(net, y, size), channels, fewer, fewer, gain=1.0, pad=0)
                keys = _norm(net, _tokens(net, small))
            x = net.op("Add", x, _attend(net, y, keys, keys, heads))
            x = net.op("Add", x, _mixed(net, _norm(net, x), size))
        x = _map(net, _norm(net, x), size)
        levels.append((x, size))
    parts = [_level(net, x, size, (height // 4, width // 4)) for x, size in reversed(levels)]
    joined = net.op("Concat", *parts, axis=1, channels=4 * 256)
    return net.model([net.conv(net.conv(joined, 256, act="relu"), classes, gain=9.0)])


def detr_r101(height: int = 750, width: int = 800, classes: int = 92, queries: int = 100) -> onnx.ModelProto:
    """DETR with ResNet-101: six layers of encoder over the last map, six of decoder over the queries."""
    net = Net("detr_r101", (1, 3, height, width), seed=11)
    features = resnet(net, "images", (3, 4, 23, 3), gain=0.06)
    memory = _tokens(net, net.conv(features, 256, gain=1.0))
    rows, columns = -(-height // 32), -(-width // 32)
    place = net.constant(_places(rows, columns)[None])
    wanted = net.constant(net.rng.normal(0, 1, (1, queries, 256)).astype(np.float32))
    for _ in range(6):
        query = net.op("Add", memory, place)
        memory = _norm(net, net.op("Add", memory, _attend(net, query, query, memory, 8)))
        memory = _norm(net, net.op("Add", memory, _feed_forward(net, memory)))
    seen = net.op("Add", memory, place)
    x = net.constant(np.zeros((1, queries, 256), np.float32))
    net.channels[x] = 256
    for _ in range(6):
        query = net.op("Add", x, wanted)
        x = _norm(net, net.op("Add", x, _attend(net, query, query, x, 8)))
        x = _norm(net, net.op("Add", x, _attend(net, net.op("Add", x, wanted), seen, memory, 8)))
        x = _norm(net, net.op("Add", x, _feed_forward(net, x)))
    x = _norm(net, x)
    box = net.op("Relu", _linear(net, net.op("Relu", _linear(net, x, 256)), 256))
    return net.model([_linear(net, x, classes, 6.0), net.op("Sigmoid", _linear(net, box, 4, 4.0))])


WITH_ATTENTION: dict[str, Callable[[], onnx.ModelProto]] = {"segformer-b0": segformer_b0, "detr-r101": detr_r101}


def _linear(net: Net, x: str, cout: int, scale: float = 1.0) -> str:
    """MatMul and Add, as PyTorch writes a linear layer of three dimensions."""
    cin = net.channels[x]
    weight = net.constant(net.rng.normal(0, scale / math.sqrt(cin), (cin, cout)).astype(np.float32))
    bias = net.constant(net.rng.normal(0, 0.05, cout).astype(np.float32))
    product = net.op("MatMul", x, weight, channels=cout)
    return net.op("Add", bias, product, channels=cout)


def _norm(net: Net, x: str) -> str:
    channels = net.channels[x]
    scale = net.constant(net.rng.uniform(0.8, 1.2, channels).astype(np.float32))
    offset = net.constant(net.rng.normal(0, 0.05, channels).astype(np.float32))
    return net.op("LayerNormalization", x, scale, offset, axis=-1, epsilon=1e-6)


def _attend(net: Net, query: str, key: str, value: str, heads: int) -> str:
    """Attention of several heads, with its four projections."""
    channels = net.channels[query]
    each = channels // heads

    def split(x: str, perm: list[int]) -> str:
        parts = net.op("Reshape", _linear(net, x, channels), _shape(net, 1, -1, heads, each))
        return net.op("Transpose", parts, perm=perm)

    q, k, v = split(query, [0, 2, 1, 3]), split(key, [0, 2, 3, 1]), split(value, [0, 2, 1, 3])
    scores = net.op("Div", net.op("MatMul", q, k), net.constant(np.float32(math.sqrt(each))))
    found = net.op("Transpose", net.op("MatMul", net.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    return _linear(net, net.op("Reshape", found, _shape(net, 1, -1, channels), channels=channels), channels)


def _mixed(net: Net, x: str, size: tuple[int, int]) -> str:
    """SegFormer's feed-forward: linear, depthwise 3x3, GELU, linear."""
    channels = net.channels[x]
    y = _map(net, _linear(net, x, 4 * channels), size)
    y = _tokens(net, net.conv(y, 4 * channels, 3, group=4 * channels))
    return _linear(net, _gelu(net, y), channels)


def _gelu(net: Net, x: str) -> str:
    """x / 2 * (1 + erf(x / sqrt 2)), which has no op of its own before opset 20."""
    one = net.op("Add", net.op("Erf", net.op("Div", x, net.constant(np.float32(math.sqrt(2))))),
                 net.constant(np.float32(1)))  # fmt: skip
    return net.op("Mul", net.op("Mul", x, one), net.constant(np.float32(0.5)))


def _feed_forward(net: Net, x: str) -> str:
    return _linear(net, net.op("Relu", _linear(net, x, 2048, math.sqrt(2))), 256)


def _level(net: Net, x: str, size: tuple[int, int], wanted: tuple[int, int]) -> str:
    """One stage of SegFormer at the size of the first."""
    y = _map(net, _linear(net, _tokens(net, x), 256), size)
    if size == wanted:
        return y
    sizes = _shape(net, 1, 256, *wanted)
    return net.op("Resize", y, "", "", sizes, mode="linear", coordinate_transformation_mode="half_pixel")


def _tokens(net: Net, x: str) -> str:
    """(1, c, h, w) as (1, h * w, c)."""
    channels = net.channels[x]
    return net.op("Transpose", net.op("Reshape", x, _shape(net, 1, channels, -1)), perm=[0, 2, 1])


def _map(net: Net, x: str, size: tuple[int, int]) -> str:
    """(1, h * w, c) as (1, c, h, w)."""
    return net.op("Reshape", net.op("Transpose", x, perm=[0, 2, 1]), _shape(net, 1, net.channels[x], *size))


def _shape(net: Net, *dims: int) -> str:
    return net.constant(np.array(dims, np.int64))


def _places(rows: int, columns: int, features: int = 128) -> np.ndarray:
    """The sine embedding of DETR (rows * columns, 2 * features): y, then x."""
    divisor = 10000 ** (2 * (np.arange(features) // 2) / features)

    def along(count: int) -> np.ndarray:
        angle = np.arange(1, count + 1)[:, None] * 2 * np.pi / count / divisor
        return np.stack([np.sin(angle[:, 0::2]), np.cos(angle[:, 1::2])], 2).reshape(count, features)

    y, x = along(rows)[:, None], along(columns)[None]
    both = [np.broadcast_to(part, (rows, columns, features)) for part in (y, x)]
    return np.concatenate(both, 2).reshape(rows * columns, 2 * features).astype(np.float32)
