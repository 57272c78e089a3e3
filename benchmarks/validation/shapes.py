"""A network of which only shapes matter  ->  an ONNX model whose weights take no room.

Cycles need shapes, not numbers. All weights are zeros of one sparse file beside the model, which holds no blocks on the
disk; each bias differs, so that no pass takes two layers for the same one. BatchNorm is folded, as exporters do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, prod
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from benchmarks.networks import Net

ZEROS = "zeros.bin"
Pair = tuple[int, int]
Pads = int | tuple[int, int, int, int] | str | None  # all sides, (top, left, bottom, right), "same", or k // 2


class Shapes(Net):
    """A graph being written. `size` holds the (height, width) of each tensor that has them."""

    def __init__(self, name: str, height: int, width: int | None = None, channels: int = 3) -> None:
        width = height if width is None else width
        super().__init__(name, (1, channels, height, width))
        self.size: dict[str, Pair] = {"images": (height, width)}
        self.largest = 0

    def op(self, kind: str, *inputs: str, channels: int = 0, **attrs: object) -> str:
        out = super().op(kind, *inputs, channels=channels, **attrs)
        self.size.setdefault(out, self.size.get(inputs[0], (1, 1)))
        return out

    def kernel(self, shape: tuple[int, ...], gain: float = 0.0) -> str:
        """Zeros of that shape, which lie in the file that all weights share."""
        name, size = f"weight_{len(self.weights)}", 4 * prod(shape)
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", ZEROS), ("offset", "0"), ("length", str(size))):
            tensor.external_data.add(key=key, value=value)
        self.weights.append(tensor)
        self.largest = max(self.largest, size)
        return name

    def bias(self, cout: int) -> str:
        values = np.zeros(cout, np.float32)
        values[0] = (len(self.weights) + 1) / 2**16  # small: a larger one asks for coarser weights
        return self.constant(values)

    def conv(  # type: ignore[override]
        self,
        x: str,
        cout: int,
        k: int | Pair = 1,
        s: int = 1,
        group: int = 1,
        act: str = "",
        pad: Pads = None,
        dilation: int = 1,
    ) -> str:
        """Convolution with bias; "same" pads as TensorFlow does, by what the stride leaves over."""
        kernel = (k, k) if isinstance(k, int) else k
        pads = self._pads(x, kernel, s, pad, dilation)
        y = self.op(
            "Conv", x, self.kernel((cout, self.channels[x] // group, *kernel)), self.bias(cout), channels=cout,
            kernel_shape=kernel, strides=[s, s], pads=pads, group=group, dilations=[dilation, dilation],
        )  # fmt: skip
        self.size[y] = self._windows(x, kernel, s, pads, dilation)
        return self.activate(y, act)

    def depthwise(self, x: str, k: int, s: int = 1, act: str = "", pad: Pads = None) -> str:
        return self.conv(x, self.channels[x], k, s, group=self.channels[x], act=act, pad=pad)

    def deconv(self, x: str, cout: int, k: int = 2, s: int = 2) -> str:
        """Transposed convolution that makes the map `s` times as large."""
        cut = (k - s) // 2
        y = self.op(
            "ConvTranspose", x, self.kernel((self.channels[x], cout, k, k)), self.bias(cout), channels=cout,
            kernel_shape=[k, k], strides=[s, s], pads=[cut, cut, k - s - cut, k - s - cut],
        )  # fmt: skip
        self.size[y] = (self.size[x][0] * s, self.size[x][1] * s)
        return y

    def dense(self, x: str, cout: int, act: str = "") -> str:
        """Fully connected layer over all elements of x."""
        depth = self.channels[x] * prod(self.size[x])
        flat = self.op("Flatten", x) if self.size[x] != (0, 0) else x
        y = self.op("Gemm", flat, self.kernel((cout, depth)), self.bias(cout), transB=1, channels=cout)
        self.size[y] = (1, 1)
        return self.activate(y, act)

    def activate(self, x: str, act: str) -> str:
        if act == "leaky":
            return self.op("LeakyRelu", x, alpha=0.1)
        if act == "hswish":
            return self.op("HardSwish", x)
        if act == "mish":
            return self.op("Mul", x, self.op("Tanh", self.op("Softplus", x)))
        if act == "hsigmoid":
            return self.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)
        return self.op("Sigmoid", x) if act == "sigmoid" else super().activate(x, act)

    def max_pool(self, x: str, k: int, s: int, pad: Pads = 0, *, ceil_mode: bool = False) -> str:
        return self._pool("MaxPool", x, k, s, pad, ceil_mode=int(ceil_mode))

    def average_pool(self, x: str, k: int, s: int, pad: Pads = 0, *, counts_pads: bool = False) -> str:
        return self._pool("AveragePool", x, k, s, pad, count_include_pad=int(counts_pads))

    def global_pool(self, x: str) -> str:
        y = self.op("GlobalAveragePool", x)
        self.size[y] = (1, 1)
        return y

    def add(self, a: str, b: str, act: str = "") -> str:
        return self.activate(self.op("Add", a, b), act)

    def concat(self, *parts: str) -> str:
        return self.op("Concat", *parts, axis=1, channels=sum(self.channels[part] for part in parts))

    def upsample(self, x: str, factor: int = 2, mode: str = "nearest") -> str:
        scales = self.constant(np.array([1, 1, factor, factor], np.float32))
        how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        if mode == "linear":
            how = {"coordinate_transformation_mode": "half_pixel"}
        y = self.op("Resize", x, "", scales, mode=mode, **how)
        self.size[y] = (self.size[x][0] * factor, self.size[x][1] * factor)
        return y

    def squeeze_excite(self, x: str, hidden: int, act: str = "relu", gate: str = "sigmoid") -> str:
        """x times a gate for each channel, from the means of the channels."""
        y = self.conv(self.conv(self.global_pool(x), hidden, act=act), self.channels[x], act=gate)
        return self.op("Mul", x, y)

    def halves(self, x: str) -> list[str]:
        parts = super().halves(x)
        self.size |= dict.fromkeys(parts, self.size[x])
        return parts

    def part(self, x: str, begin: int, count: int) -> str:
        """Channels [begin, begin + count)."""
        cuts = [self.constant(np.array([value], np.int64)) for value in (begin, begin + count, 1)]
        return self.op("Slice", x, *cuts, channels=count)

    def _pool(self, kind: str, x: str, k: int, s: int, pad: Pads, **modes: int) -> str:
        pads = self._pads(x, (k, k), s, pad, 1)
        y = self.op(kind, x, kernel_shape=[k, k], strides=[s, s], pads=pads, **modes)
        self.size[y] = self._windows(x, (k, k), s, pads, 1, up=bool(modes.get("ceil_mode")))
        return y

    def _pads(self, x: str, kernel: Pair, s: int, pad: Pads, dilation: int) -> tuple[int, int, int, int]:
        if isinstance(pad, tuple):
            return pad
        if isinstance(pad, int):
            return pad, pad, pad, pad
        if pad is None:
            top, left = kernel[0] // 2 * dilation, kernel[1] // 2 * dilation
            return top, left, top, left
        missing = [
            max(0, (ceil(n / s) - 1) * s + (k - 1) * dilation + 1 - n)
            for n, k in zip(self.size[x], kernel, strict=True)
        ]
        top, left = missing[0] // 2, missing[1] // 2
        return top, left, missing[0] - top, missing[1] - left

    def _windows(
        self, x: str, kernel: Pair, s: int, pads: tuple[int, int, int, int], dilation: int, *, up: bool = False
    ) -> Pair:
        (h, w), (kh, kw) = self.size[x], kernel
        rooms = (h + pads[0] + pads[2] - (kh - 1) * dilation - 1, w + pads[1] + pads[3] - (kw - 1) * dilation - 1)
        counts = [(ceil(room / s) if up else room // s) + 1 for room in rooms]
        return counts[0], counts[1]


@dataclass(frozen=True)
class Built:
    """A model and the bytes of its largest weight."""

    model: onnx.ModelProto
    largest: int

    def write(self, folder: Path) -> Path:
        """model.onnx and the zeros beside it."""
        path = folder / "model.onnx"
        path.write_bytes(self.model.SerializeToString())
        with (folder / ZEROS).open("wb") as zeros:
            zeros.truncate(max(self.largest, 4))
        return path


def finish(net: Shapes, *outputs: str) -> Built:
    """The model that ends in those tensors."""
    return Built(net.model(list(outputs)), net.largest)


def counts(model: onnx.ModelProto) -> tuple[int, int]:
    """Multiply-accumulates of one frame, and elements of the weights and biases of layers that have weights."""
    shapes = {
        info.name: [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        for info in (*model.graph.value_info, *model.graph.input, *model.graph.output)
    }
    weights = {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}
    macs = params = 0
    for node in model.graph.node:
        if node.op_type not in ("Conv", "ConvTranspose", "Gemm"):
            continue
        params += sum(prod(weights[name]) for name in node.input[1:])
        of = shapes[node.input[0] if node.op_type == "ConvTranspose" else node.output[0]]
        pixels = prod(of[2:]) if node.op_type != "Gemm" else 1
        macs += pixels * prod(weights[node.input[1]])
    return macs, params


def scaled(width: float, most: int) -> Callable[[int], int]:
    """Channels at one size of a family: at most `most`, times `width`, rounded up to a multiple of eight."""
    return lambda cout: ceil(min(cout, most) * width / 8) * 8
