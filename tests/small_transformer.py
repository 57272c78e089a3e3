"""A small transformer with random weights: an image made tokens, encoder layers, heads for classes and boxes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TOKENS, CHANNELS, HEADS, HIDDEN, CLASSES = 20, 32, 4, 64, 5
IMAGE = (1, 8, 4, 5)
# The precisions of a mixed transformer: linear layers and attention in fp16, sums and normalization in fx32, the
# feed-forward blocks in int8, the heads' products in fp16 and what follows them in fx32.
RECIPE = """schema: axtool.quant/1
name: mixed
recipes: [{method: minmax, bias: none}]
refine: []
layers:
  - {match: {op: [Add, LayerNormalization, Relu, Sigmoid]}, format: fx32}
  - {match: {op: [Conv, MatMul, Attention]}, format: fp16}
  - {match: {op: Add, after: MatMul}, format: fp16}
  - {match: {name: ['class*', 'box*'], op: Add}, format: fx32}
  - {match: {name: '*_ffn*'}, format: int8}
"""


class _Graph:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, values: object) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, op: str, inputs: list[str], name: str, **attrs: object) -> str:
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attrs))
        return name

    def normal(self, name: str, spread: float, *shape: int) -> str:
        return self.constant(name, self.rng.normal(0, spread, shape).astype(np.float32))

    def linear(self, x: str, name: str, before: int, after: int) -> str:
        product = self.node("MatMul", [x, self.normal(f"{name}.w", before**-0.5, before, after)], f"{name}_product")
        return self.node("Add", [product, self.normal(f"{name}.b", 0.1, after)], name)

    def norm(self, x: str, name: str) -> str:
        gain = self.constant(f"{name}.g", self.rng.uniform(0.5, 1.5, CHANNELS).astype(np.float32))
        shift = self.normal(f"{name}.s", 0.1, CHANNELS)
        return self.node("LayerNormalization", [x, gain, shift], name, axis=-1, epsilon=1e-5)

    def heads(self, x: str, name: str, perm: list[int]) -> str:
        made = self.node("Reshape", [x, "split"], f"{name}_split")
        return self.node("Transpose", [made], f"{name}_turned", perm=perm)

    def attention(self, x: str, name: str) -> str:
        q, k, v = (self.linear(x, f"{name}_{part}", CHANNELS, CHANNELS) for part in "qkv")
        q, v = self.heads(q, f"{name}_q", [0, 2, 1, 3]), self.heads(v, f"{name}_v", [0, 2, 1, 3])
        scores = self.node("MatMul", [q, self.heads(k, f"{name}_k", [0, 2, 3, 1])], f"{name}_scores")
        scaled = self.node("Mul", [scores, "scale"], f"{name}_scaled")
        shares = self.node("Softmax", [scaled], f"{name}_shares", axis=-1)
        context = self.node("MatMul", [shares, v], f"{name}_context")
        tokens = self.node("Transpose", [context], f"{name}_back", perm=[0, 2, 1, 3])
        return self.linear(self.node("Reshape", [tokens, "join"], f"{name}_join"), f"{name}_out", CHANNELS, CHANNELS)


def small_transformer(layers: int = 2, seed: int = 5) -> onnx.ModelProto:
    """Image [1, 8, 4, 5] -> class [1, 20, 5], box [1, 20, 4]."""
    g = _Graph(seed)
    g.constant("split", np.array([1, TOKENS, HEADS, CHANNELS // HEADS]))
    g.constant("join", np.array([1, TOKENS, CHANNELS]))
    g.constant("flat", np.array([1, CHANNELS, TOKENS]))
    g.constant("scale", np.float32((CHANNELS // HEADS) ** -0.5))
    filters = g.normal("input.w", 0.4, CHANNELS, IMAGE[1], 1, 1)
    image = g.node("Conv", ["image", filters, g.normal("input.b", 0.1, CHANNELS)], "input")
    x = g.node("Transpose", [g.node("Reshape", [image, "flat"], "input_flat")], "tokens", perm=[0, 2, 1])
    for at in range(layers):
        x = g.norm(g.node("Add", [x, g.attention(x, f"l{at}_attention")], f"l{at}_sum1"), f"l{at}_norm1")
        hidden = g.node("Relu", [g.linear(x, f"l{at}_ffn1", CHANNELS, HIDDEN)], f"l{at}_ffn_relu")
        block = g.linear(hidden, f"l{at}_ffn2", HIDDEN, CHANNELS)
        x = g.norm(g.node("Add", [x, block], f"l{at}_sum2"), f"l{at}_norm2")
    g.linear(x, "class", CHANNELS, CLASSES)
    box = g.linear(g.node("Relu", [g.linear(x, "box1", CHANNELS, CHANNELS)], "box_relu"), "box2", CHANNELS, 4)
    g.node("Sigmoid", [box], "box")
    graph = helper.make_graph(
        g.nodes,
        "small",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, IMAGE)],
        [
            helper.make_tensor_value_info("class", TensorProto.FLOAT, (1, TOKENS, CLASSES)),
            helper.make_tensor_value_info("box", TensorProto.FLOAT, (1, TOKENS, 4)),
        ],
        g.constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def samples(count: int, seed: int = 1) -> list[np.ndarray]:
    """Inputs of the model."""
    rng = np.random.default_rng(seed)
    return [rng.normal(0, 1, IMAGE).astype(np.float32) for _ in range(count)]


def written(folder: Path, count: int = 12) -> tuple[Path, Path, Path]:
    """The model, a folder of samples and the recipe, as files."""
    model, calib, recipe = folder / "small.onnx", folder / "calib", folder / "mixed.yaml"
    onnx.save(small_transformer(), str(model))
    calib.mkdir()
    for at, image in enumerate(samples(count)):
        np.save(calib / f"{at}.npy", image)
    recipe.write_text(RECIPE)
    return model, calib, recipe
