"""One ONNX node on onnxruntime."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper


def run_node(op: str, *arrays: np.ndarray | None, opset: int = 21, **attrs: Any) -> np.ndarray:
    """The node's first output. None is an absent input."""
    kinds = tuple(None if a is None else (str(a.dtype), a.ndim) for a in arrays)
    session = _session(op, kinds, opset, tuple(sorted((k, v) for k, v in attrs.items())))
    feeds = {f"i{at}": array for at, array in enumerate(arrays) if array is not None}
    return session.run(None, feeds)[0]


@functools.lru_cache(maxsize=64)
def _session(op: str, kinds: Any, opset: int, attrs: Any) -> onnxruntime.InferenceSession:
    names = ["" if kind is None else f"i{at}" for at, kind in enumerate(kinds)]
    node = helper.make_node(op, names, ["o"], **dict(attrs))
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind[0])), [None] * kind[1])
        for name, kind in zip(names, kinds, strict=True)
        if kind is not None
    ]
    output = onnx.ValueInfoProto(name="o")
    graph = helper.make_graph([node], "g", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    inferred = onnx.shape_inference.infer_shapes(model)
    inferred.graph.output[0].CopyFrom(_typed(op, inferred, inputs))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(inferred.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _typed(op: str, model: onnx.ModelProto, inputs: list[onnx.ValueInfoProto]) -> onnx.ValueInfoProto:
    inferred = model.graph.output[0].type.tensor_type.elem_type
    kind = inferred or inputs[0].type.tensor_type.elem_type
    return helper.make_tensor_value_info("o", kind, None)


def nchw(array: np.ndarray) -> np.ndarray:
    """(h, w, c) -> (1, c, h, w)."""
    return np.ascontiguousarray(array.transpose(2, 0, 1)[None])


def hwc(array: np.ndarray) -> np.ndarray:
    """(1, c, h, w) -> (h, w, c)."""
    return array[0].transpose(1, 2, 0)
