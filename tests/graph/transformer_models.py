"""Small transformers as the well-known exporters write them, with seeded weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from tests.graph.pass_models import build

HEADS, WIDTH = 2, 16
DEPTH = WIDTH // HEADS  # channels of a head
TOKENS, QUERIES = 6, 4


class Net:
    """ONNX text that grows line by line, with the constants that it names."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.lines: list[str] = []
        self.constants: dict[str, NDArray[Any]] = {}

    def const(self, array: Any) -> str:
        """A constant; equal ones are one."""
        array = np.asarray(array)
        for name, known in self.constants.items():
            if known.dtype == array.dtype and known.shape == array.shape and np.array_equal(known, array):
                return name
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def random(self, *shape: int, scale: float = 1.0) -> str:
        return self.const(self.rng.normal(0, scale, shape).astype(np.float32))

    def number(self, value: float) -> str:
        return self.const(np.float32(value))

    def op(self, kind: str, *inputs: str, **attributes: str) -> str:
        """A node with one output, whose name comes back; attributes as ONNX text."""
        name = f"v{len(self.lines)}"
        given = ", ".join(f"{key} = {value}" for key, value in attributes.items())
        self.lines.append(f"{name} = {kind}{f'<{given}>' if given else ''}({', '.join(inputs)})")
        return name

    def reshape(self, x: str, *shape: int) -> str:
        return self.op("Reshape", x, self.const(np.array(shape, np.int64)))

    def transpose(self, x: str, *perm: int) -> str:
        return self.op("Transpose", x, perm=str(list(perm)))

    def linear(self, x: str, columns: int = WIDTH, rows: int = WIDTH) -> str:
        product = self.op("MatMul", x, self.random(rows, columns, scale=rows**-0.5))
        return self.op("Add", self.random(columns, scale=0.1), product)

    def gemm(self, x: str, columns: int = WIDTH, rows: int = WIDTH) -> str:
        weight, bias = self.random(columns, rows, scale=rows**-0.5), self.random(columns, scale=0.1)
        return self.op("Gemm", x, weight, bias, transB="1")

    def norm(self, x: str) -> str:
        return self.op("LayerNormalization", x, self.random(WIDTH), self.random(WIDTH), axis="-1", epsilon="1e-5")

    def norm_of_small_ops(self, x: str) -> str:
        centred = self.op("Sub", x, self.op("ReduceMean", x, axes="[-1]"))
        square = self.op("ReduceMean", self.op("Pow", centred, self.number(2)), axes="[-1]")
        root = self.op("Sqrt", self.op("Add", square, self.number(1e-5)))
        scaled = self.op("Mul", self.op("Div", centred, root), self.random(WIDTH))
        return self.op("Add", scaled, self.random(WIDTH))

    def mlp(self, x: str, act: str = "Relu", wide: int = 2 * WIDTH) -> str:
        return self.linear(self.op(act, self.linear(x, wide)), rows=wide)

    def gelu(self, x: str) -> str:
        error = self.op("Erf", self.op("Div", x, self.number(2**0.5)))
        return self.op("Mul", self.op("Mul", x, self.op("Add", error, self.number(1))), self.number(0.5))

    def build(self, inputs: str, outputs: dict[str, str], opset: int = 17) -> ir.Model:
        named = [f"{name} = Identity({value})" for name, value in outputs.items()]
        body = " ".join([*self.lines, *named])
        return build(body, inputs, ", ".join(f"float {name}" for name in outputs), opset, **self.constants)  # type: ignore[arg-type]


def detr(opset: int = 13) -> ir.Model:
    """The public sequence-first form: one encoder layer and two decoder layers, the first of which begins with what a
    simplifier folds (queries of a constant); position embeddings; the heads of all layers, of which the last is asked.
    """
    net = Net()
    positions, queries = net.random(TOKENS, 1, WIDTH), net.random(QUERIES, 1, WIDTH)
    x = net.transpose(net.reshape("x", 1, WIDTH, TOKENS), 2, 0, 1)
    placed = net.op("Add", x, positions)
    x = net.norm_of_small_ops(net.op("Add", x, _sequence_first(net, placed, placed, x, TOKENS, TOKENS)))
    memory = net.norm_of_small_ops(net.op("Add", x, net.mlp(x)))
    placed = net.op("Add", memory, positions)
    folded = net.random(HEADS, QUERIES, DEPTH)
    y = net.op("Add", net.random(QUERIES, 1, WIDTH), _sequence_first(net, "", placed, memory, QUERIES, TOKENS, folded))
    layers = []
    for layer in range(2):
        if layer:
            asked = net.op("Add", y, queries)
            y = net.norm_of_small_ops(net.op("Add", y, _sequence_first(net, asked, asked, y, QUERIES, QUERIES)))
            asked = net.op("Add", y, queries)
            y = net.op("Add", y, _sequence_first(net, asked, placed, memory, QUERIES, TOKENS))
        y = net.norm_of_small_ops(y)
        y = net.norm_of_small_ops(net.op("Add", y, net.mlp(y)))
        layers.append(net.op("Unsqueeze", net.norm_of_small_ops(y), net.const(np.array([0]))))
    stack = net.transpose(net.op("Concat", *layers, axis="0"), 0, 2, 1, 3)
    last = net.const(np.array(-1))
    logits = net.op("Gather", net.linear(stack, 5), last, axis="0")
    boxes = net.op("Sigmoid", net.linear(net.op("Relu", net.linear(stack)), 4))
    return net.build(
        f"float[1, {WIDTH}, 2, 3] x", {"logits": logits, "boxes": net.op("Gather", boxes, last, axis="0")}, opset
    )


def _sequence_first(net: Net, q: str, k: str, v: str, queries: int, keys: int, folded: str = "") -> str:
    """nn.MultiheadAttention on [L, 1, C]: heads in three axes, queries scaled, the output projection a Gemm."""
    heads = folded
    if not folded:
        heads = net.transpose(net.reshape(net.linear(q), queries, HEADS, DEPTH), 1, 0, 2)
        heads = net.op("Mul", heads, net.number(DEPTH**-0.5))
    keyed = net.transpose(net.reshape(net.linear(k), keys, HEADS, DEPTH), 1, 2, 0)
    valued = net.transpose(net.reshape(net.linear(v), keys, HEADS, DEPTH), 1, 0, 2)
    weights = net.op("Softmax", net.op("MatMul", heads, keyed), axis="-1")
    context = net.transpose(net.op("MatMul", weights, valued), 1, 0, 2)
    return net.reshape(net.gemm(net.reshape(context, queries, WIDTH)), queries, 1, WIDTH)


def vit() -> ir.Model:
    """DeiT / timm: norm before each block, queries, keys and values packed, no biases there."""
    net = Net()
    x = net.transpose(net.reshape("x", 1, WIDTH, TOKENS), 0, 2, 1)
    for _ in range(2):
        packed = net.op("MatMul", net.norm(x), net.random(WIDTH, 3 * WIDTH, scale=0.25))
        split = net.transpose(net.reshape(packed, 1, TOKENS, 3, HEADS, DEPTH), 2, 0, 3, 1, 4)
        q, k, v = (net.op("Gather", split, net.const(np.array(at)), axis="0") for at in range(3))
        scores = net.op("MatMul", net.op("Mul", q, net.number(DEPTH**-0.5)), net.transpose(k, 0, 1, 3, 2))
        context = net.op("MatMul", net.op("Softmax", scores, axis="-1"), v)
        x = net.op("Add", x, net.linear(net.reshape(net.transpose(context, 0, 2, 1, 3), 1, TOKENS, WIDTH)))
        hidden = net.gelu(net.linear(net.norm(x), 2 * WIDTH))
        x = net.op("Add", x, net.linear(hidden, rows=2 * WIDTH))
    return net.build(f"float[1, {WIDTH}, 2, 3] x", {"y": net.norm(x)})


def bert(opset: int = 17) -> ir.Model:
    """A sentence encoder: norms after the sums, scores divided, a mask of the keys that the caller feeds."""
    net = Net()
    x = net.norm_of_small_ops("x")
    hidden = net.op("Sub", net.number(1), net.reshape("mask", 1, 1, 1, TOKENS))
    mask = net.op("Mul", hidden, net.number(-10000))
    for _ in range(2):
        q, k, v = (net.reshape(net.linear(x), 1, TOKENS, HEADS, DEPTH) for _ in range(3))
        scores = net.op("MatMul", net.transpose(q, 0, 2, 1, 3), net.transpose(k, 0, 2, 3, 1))
        masked = net.op("Add", net.op("Div", scores, net.number(DEPTH**0.5)), mask)
        context = net.op("MatMul", net.op("Softmax", masked, axis="3"), net.transpose(v, 0, 2, 1, 3))
        out = net.linear(net.reshape(net.transpose(context, 0, 2, 1, 3), 1, TOKENS, WIDTH))
        x = net.norm_of_small_ops(net.op("Add", out, x))
        wide = net.gelu(net.linear(x, 2 * WIDTH))
        x = net.norm_of_small_ops(net.op("Add", net.linear(wide, rows=2 * WIDTH), x))
    return net.build(f"float[1, {TOKENS}, {WIDTH}] x, float[1, {TOKENS}] mask", {"y": x}, opset)


def segformer() -> ir.Model:
    """Keys and values of fewer tokens than queries, by a convolution with large strides; a convolution in the MLP."""
    net = Net()
    x = net.transpose(net.reshape("x", 1, WIDTH, 16), 0, 2, 1)
    asked = net.norm(x)
    image = net.reshape(net.transpose(asked, 0, 2, 1), 1, WIDTH, 4, 4)
    reduced = net.op("Conv", image, net.random(WIDTH, WIDTH, 2, 2, scale=0.1), strides="[2, 2]")
    small = net.norm(net.transpose(net.reshape(reduced, 1, WIDTH, 4), 0, 2, 1))
    q = net.transpose(net.reshape(net.linear(asked), 1, 16, HEADS, DEPTH), 0, 2, 1, 3)
    k = net.transpose(net.reshape(net.linear(small), 1, 4, HEADS, DEPTH), 0, 2, 3, 1)
    v = net.transpose(net.reshape(net.linear(small), 1, 4, HEADS, DEPTH), 0, 2, 1, 3)
    scores = net.op("Div", net.op("MatMul", q, k), net.number(DEPTH**0.5))
    context = net.op("MatMul", net.op("Softmax", scores, axis="-1"), v)
    x = net.op("Add", net.linear(net.reshape(net.transpose(context, 0, 2, 1, 3), 1, 16, WIDTH)), x)
    wide = net.reshape(net.transpose(net.linear(net.norm(x), 2 * WIDTH), 0, 2, 1), 1, 2 * WIDTH, 4, 4)
    wide = net.op("Conv", wide, net.random(2 * WIDTH, 1, 3, 3), group=str(2 * WIDTH), pads="[1, 1, 1, 1]")
    wide = net.gelu(net.transpose(net.reshape(wide, 1, 2 * WIDTH, 16), 0, 2, 1))
    return net.build(f"float[1, {WIDTH}, 4, 4] x", {"y": net.op("Add", net.linear(wide, rows=2 * WIDTH), x)})


def yolo() -> ir.Model:
    """YOLO11's attention: queries, keys and values of each head interleaved in one convolution's channels, the context
    channels first, and a convolution that reads the values.
    """
    net = Net()
    inner = DEPTH // 2
    packed = net.op("Conv", "x", net.random(HEADS * (2 * inner + DEPTH), WIDTH, 1, 1, scale=0.25), net.random(32))
    heads = net.reshape(packed, 1, HEADS, 2 * inner + DEPTH, 12)
    sizes = net.const(np.array([inner, inner, DEPTH]))
    net.lines.append(f"q, k, v = Split<axis = 2>({heads}, {sizes})")
    scores = net.op("MatMul", net.transpose("q", 0, 1, 3, 2), "k")
    weights = net.op("Softmax", net.op("Mul", scores, net.number(inner**-0.5)), axis="-1")
    context = net.reshape(net.op("MatMul", "v", net.transpose(weights, 0, 1, 3, 2)), 1, WIDTH, 3, 4)
    values = net.reshape("v", 1, WIDTH, 3, 4)
    placed = net.op("Conv", values, net.random(WIDTH, 1, 3, 3), group=str(WIDTH), pads="[1, 1, 1, 1]")
    out = net.op("Conv", net.op("Add", context, placed), net.random(WIDTH, WIDTH, 1, 1, scale=0.25))
    return net.build(f"float[1, {WIDTH}, 3, 4] x", {"y": net.op("Add", "x", out)})
