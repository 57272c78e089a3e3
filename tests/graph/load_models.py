"""Model files for the tests of loading: written from nodes, so that they may be as wrong as a test wants them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from axtool.errors import AxError, Exit
from axtool.graph.load import load_model

FLOAT, INT64, FLOAT16 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.FLOAT16
node = helper.make_node


def value(name: str, shape: Sequence[int | str | None] | None = (1, 3), dtype: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, None if shape is None else list(shape))


def model(
    nodes: Iterable[onnx.NodeProto],
    inputs: Iterable[onnx.ValueInfoProto] | None = None,
    outputs: Iterable[onnx.ValueInfoProto] | None = None,
    weights: Mapping[str, Any] | None = None,
    *,
    opset: int = 17,
    ir: int = 8,
    domains: Mapping[str, int] | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """By default x[1,3] -> y, and y has no declared shape."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [value("x")] if inputs is None else list(inputs),
        [value("y", None)] if outputs is None else list(outputs),
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()],
    )
    imports = [helper.make_opsetid(domain, version) for domain, version in {"": opset, **(domains or {})}.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir, functions=list(functions))


def save(folder: Path, content: onnx.ModelProto | bytes, name: str = "net.onnx") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
    return path


def refusal(path: Path, **options: Any) -> AxError:
    """The error that loading ends in."""
    try:
        load_model(path, **options)
    except AxError as error:
        return error
    raise AssertionError(f"{path.name} was accepted")


def says(error: AxError, exit_code: int, code: str, *words: str) -> None:
    """The error has this exit code and stable word, and every one of these words is in its text, hint or details."""
    text = " | ".join((str(error), error.hint, *error.details))
    assert (error.exit, error.code) == (Exit(exit_code), code), text
    missing = [word for word in words if word not in text]
    assert not missing, f"{missing} not in: {text}"
