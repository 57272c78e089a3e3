"""Small models for the tests of the commands: text graphs with random weights, and one of each compiled once."""

from __future__ import annotations

import contextlib
import io
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

CLASSIFIER = """(float[1,3,16,16] x) => (float[1,10] scores) {
  a = Conv <kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]> (x, w1, b1)
  r = Relu(a)
  p = GlobalAveragePool(r)
  f = Flatten(p)
  scores = Gemm <transB=1> (f, w2, b2)
}"""
CLASSIFIER_WEIGHTS = {"w1": (8, 3, 3, 3), "b1": (8,), "w2": (10, 8), "b2": (10,)}

# The Softmax over the last axis of rank 3 stays on the host; sizes are symbolic.
TWO_STAGES = """(float[N,3,H,W] image) => (float[N,4,S] chances, float[N,4,P,Q] map) {
  c = Conv <kernel_shape=[3,3], pads=[1,1,1,1]> (image, w, b)
  map = Sigmoid(c)
  shape = Constant <value_ints=[0,4,-1]> ()
  flat = Reshape(map, shape)
  chances = Softmax <axis=-1> (flat)
}"""
TWO_STAGES_WEIGHTS = {"w": (4, 3, 3, 3), "b": (4,)}


def model(graph: str, weights: Mapping[str, Any], *, opset: int = 17) -> onnx.ModelProto:
    """A graph in ONNX text; `weights` are shapes to fill with random numbers, or arrays."""
    rng = np.random.default_rng(5)
    made = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> g {graph}')
    for name, given in weights.items():
        array = rng.normal(0, 0.3, given) if isinstance(given, tuple) else np.asarray(given)
        made.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), name))
    return made


def save(path: Path, graph: str, weights: Mapping[str, Any], *, opset: int = 17) -> Path:
    onnx.save(model(graph, weights, opset=opset), str(path))
    return path


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


def _run(main: Callable[[Sequence[str]], None], words: Sequence[object]) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(word) for word in words])
        except SystemExit as leaving:
            code = leaving.code
        finally:  # what a command does to the process that it is alone in
            logger = logging.getLogger("axtool")
            logger.handlers, logger.propagate = [], True
            logger.setLevel(logging.NOTSET)
    assert isinstance(code, int)
    return Ran(code, out.getvalue(), err.getvalue())


def axtool(*words: object) -> Ran:
    """`axtool …` in this process."""
    from axtool.cli.main import main

    return _run(main, words)


def axzoo(*words: object) -> Ran:
    """`axzoo …` in this process."""
    from axtool.cli.zoo import main

    return _run(main, words)
