"""Well-known architectures as ONNX models with seeded weights: for speed, cycles and bits, not for accuracy.

Weights are He-normal, so that activations keep sane statistics; BatchNorm is folded, as exporters do. `resnet50`
(4.09 GMAC at 224), `mobilenet_v2` (0.30 GMAC at 224), `yolov8n` (4.37 GMAC at 640, split head and DFL tail).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


class Net:
    """A graph being written: each method adds a node and returns the name of its output."""

    def __init__(self, name: str, shape: tuple[int, ...], seed: int = 0) -> None:
        self.name, self.rng = name, np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.input = helper.make_tensor_value_info("images", TensorProto.FLOAT, shape)
        self.channels = {"images": shape[1]}

    def op(self, kind: str, *inputs: str, channels: int = 0, **attrs: object) -> str:
        out = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [out], name=out, **attrs))
        self.channels[out] = channels or self.channels.get(inputs[0], 0)
        return out

    def constant(self, array: np.ndarray | np.generic) -> str:
        name = f"const_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def conv(
        self, x: str, cout: int, k: int = 1, s: int = 1, group: int = 1, act: str = "", gain: float = 2.0,
        pad: int | None = None,
    ) -> str:  # fmt: skip
        cin = self.channels[x]
        pads = [k // 2 if pad is None else pad] * 4
        y = self.op(
            "Conv", x, self.kernel((cout, cin // group, k, k), gain), self.bias(cout), channels=cout,
            kernel_shape=[k, k], strides=[s, s], pads=pads, group=group,
        )  # fmt: skip
        return self.activate(y, act)

    def kernel(self, shape: tuple[int, ...], gain: float = 2.0) -> str:
        """Weights (cout, cin / group, kh, kw) of a convolution."""
        return self.constant(self.rng.normal(0, np.sqrt(gain / np.prod(shape[1:])), shape).astype(np.float32))

    def bias(self, cout: int) -> str:
        return self.constant(self.rng.normal(0, 0.05, cout).astype(np.float32))

    def activate(self, x: str, act: str) -> str:
        if act == "silu":
            return self.op("Mul", x, self.op("Sigmoid", x))
        if act == "relu6":
            return self.op("Clip", x, self.constant(np.float32(0)), self.constant(np.float32(6)))
        return self.op("Relu", x) if act == "relu" else x

    def halves(self, x: str) -> list[str]:
        """Both halves of the channels of x: one Split, as exporters write `chunk`."""
        half = self.channels[x] // 2
        names = [f"split_{len(self.nodes)}_{index}" for index in range(2)]
        sizes = self.constant(np.array([half, half], np.int64))
        self.nodes.append(helper.make_node("Split", [x, sizes], names, name=names[0][:-2], axis=1))
        self.channels |= dict.fromkeys(names, half)
        return names

    def model(self, outputs: list[str]) -> onnx.ModelProto:
        infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, self.name, [self.input], infos, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def resnet50(size: int = 224) -> onnx.ModelProto:
    """ResNet-50 v1.5 (stride in the 3x3), logits."""
    net = Net("resnet50", (1, 3, size, size))
    return net.model([_classifier(net, resnet(net, "images", (3, 4, 6, 3)))])


def resnet(net: Net, x: str, depths: tuple[int, ...], gain: float = 0.5) -> str:
    """The features of a ResNet of bottlenecks; `gain` is that of the last convolution of each."""
    x = net.conv(x, 64, 7, 2, act="relu")
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for stage, blocks in enumerate(depths):
        width = 64 << stage
        for block in range(blocks):
            s = 2 if stage and block == 0 else 1
            short = net.conv(x, 4 * width, 1, s, gain=1.0) if block == 0 else x
            y = net.conv(net.conv(x, width, 1, act="relu"), width, 3, s, act="relu")
            x = net.op("Relu", net.op("Add", net.conv(y, 4 * width, 1, gain=gain), short))
    return x


def mobilenet_v2(size: int = 224) -> onnx.ModelProto:
    """MobileNetV2 1.0, logits."""
    net = Net("mobilenet_v2", (1, 3, size, size))
    x = net.conv("images", 32, 3, 2, act="relu6")
    for expand, cout, repeat, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for block in range(repeat):
            cin, s = net.channels[x], stride if block == 0 else 1
            y = net.conv(x, cin * expand, 1, act="relu6") if expand > 1 else x
            y = net.conv(y, cin * expand, 3, s, group=cin * expand, act="relu6")
            y = net.conv(y, cout, 1, gain=1.0)
            x = net.op("Add", x, y) if s == 1 and cin == cout else y
    return net.model([_classifier(net, net.conv(x, 1280, 1, act="relu6"))])


def yolov8n(size: int = 640, classes: int = 80, *, tail: bool = True) -> onnx.ModelProto:
    """YOLOv8n: with `tail` one decoded output (1, 4 + classes, anchors), else the six head convolutions."""
    net = Net("yolov8n", (1, 3, size, size))
    x = net.conv(net.conv("images", 16, 3, 2, act="silu"), 32, 3, 2, act="silu")
    x = net.conv(_c2f(net, x, 32, 1, shortcut=True), 64, 3, 2, act="silu")
    p3 = _c2f(net, x, 64, 2, shortcut=True)
    p4 = _c2f(net, net.conv(p3, 128, 3, 2, act="silu"), 128, 2, shortcut=True)
    p5 = _sppf(net, _c2f(net, net.conv(p4, 256, 3, 2, act="silu"), 256, 1, shortcut=True))
    n4 = _c2f(net, _concat(net, _up(net, p5), p4), 128, 1, shortcut=False)
    o3 = _c2f(net, _concat(net, _up(net, n4), p3), 64, 1, shortcut=False)
    o4 = _c2f(net, _concat(net, net.conv(o3, 64, 3, 2, act="silu"), n4), 128, 1, shortcut=False)
    o5 = _c2f(net, _concat(net, net.conv(o4, 128, 3, 2, act="silu"), p5), 256, 1, shortcut=False)
    heads = []
    for level in (o3, o4, o5):
        box = net.conv(net.conv(net.conv(level, 64, 3, act="silu"), 64, 3, act="silu"), 64, 1, gain=1.0)
        width = max(64, min(classes, 100))
        cls = net.conv(net.conv(net.conv(level, width, 3, act="silu"), width, 3, act="silu"), classes, 1, gain=1.0)
        heads.append((box, cls))
    if not tail:
        return net.model([name for pair in heads for name in pair])
    return net.model([_decode(net, heads, size, classes)])


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "resnet50": resnet50,
    "mobilenet_v2": mobilenet_v2,
    "yolov8n-320": lambda: yolov8n(320, tail=False),
    "yolov8n-640": lambda: yolov8n(640, tail=False),
}


def _classifier(net: Net, x: str) -> str:
    channels = net.channels[x]
    flat = net.op("Flatten", net.op("GlobalAveragePool", x))
    w = net.rng.normal(0, np.sqrt(1 / channels), (1000, channels)).astype(np.float32)
    return net.op("Gemm", flat, net.constant(w), net.constant(np.zeros(1000, np.float32)), transB=1, channels=1000)


def _c2f(net: Net, x: str, cout: int, repeat: int, *, shortcut: bool) -> str:
    hidden = cout // 2
    y = net.conv(x, cout, 1, act="silu")
    parts = net.halves(y)
    for _ in range(repeat):
        z = net.conv(net.conv(parts[-1], hidden, 3, act="silu"), hidden, 3, act="silu")
        parts.append(net.op("Add", parts[-1], z) if shortcut else z)
    return net.conv(_concat(net, *parts), cout, 1, act="silu")


def _sppf(net: Net, x: str) -> str:
    channels = net.channels[x]
    parts = [net.conv(x, channels // 2, 1, act="silu")]
    for _ in range(3):
        parts.append(net.op("MaxPool", parts[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2, 2, 2, 2]))
    return net.conv(_concat(net, *parts), channels, 1, act="silu")


def _up(net: Net, x: str) -> str:
    scales = net.constant(np.array([1, 1, 2, 2], np.float32))
    return net.op("Resize", x, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric",
                  nearest_mode="floor")  # fmt: skip


def _concat(net: Net, *parts: str) -> str:
    return net.op("Concat", *parts, axis=1, channels=sum(net.channels[p] for p in parts))


def _decode(net: Net, heads: list[tuple[str, str]], size: int, classes: int) -> str:
    """DFL over 16 bins, distances to boxes in pixels, sigmoid of the classes."""
    strides = (8, 16, 32)
    joined = [
        net.op("Reshape", _concat(net, box, cls), net.constant(np.array([1, 64 + classes, -1], np.int64)))
        for box, cls in heads
    ]
    every = net.op("Concat", *joined, axis=2)
    box, cls = f"{every}_box", f"{every}_cls"
    net.nodes.append(
        helper.make_node("Split", [every, net.constant(np.array([64, classes], np.int64))], [box, cls], axis=1)
    )
    bins = net.op("Reshape", box, net.constant(np.array([1, 4, 16, -1], np.int64)))
    bins = net.op("Softmax", net.op("Transpose", bins, perm=[0, 2, 1, 3]), axis=1)
    weight = np.arange(16, dtype=np.float32).reshape(1, 16, 1, 1)
    dist = net.op("Conv", bins, net.constant(weight), kernel_shape=[1, 1], channels=1)
    dist = net.op("Reshape", dist, net.constant(np.array([1, 4, -1], np.int64)))
    grids, steps = [], []
    for stride in strides:
        n = size // stride
        yy, xx = np.mgrid[0:n, 0:n]
        grids.append(np.stack([xx.ravel(), yy.ravel()]) + 0.5)
        steps.append(np.full(n * n, stride))
    anchors = net.constant(np.concatenate(grids, 1)[None].astype(np.float32))
    cuts = [net.constant(np.array([v], np.int64)) for v in (0, 2, 4, 1)]
    low = net.op("Sub", anchors, net.op("Slice", dist, cuts[0], cuts[1], cuts[3]))
    high = net.op("Add", anchors, net.op("Slice", dist, cuts[1], cuts[2], cuts[3]))
    centre = net.op("Div", net.op("Add", low, high), net.constant(np.float32(2)))
    boxes = net.op("Concat", centre, net.op("Sub", high, low), axis=1)
    boxes = net.op("Mul", boxes, net.constant(np.concatenate(steps)[None].astype(np.float32)))
    return net.op("Concat", boxes, net.op("Sigmoid", cls), axis=1)
