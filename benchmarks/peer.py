"""A float model  ->  onnxruntime's int8 forms of it, with or without the float at both ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

FORMS = ("QOperator", "QDQ")


class _Reader:
    """Calibration samples as onnxruntime's quantizer wants them."""

    def __init__(self, samples: Sequence[Mapping[str, NDArray[Any]]]) -> None:
        self._left = iter(samples)

    def get_next(self) -> Mapping[str, NDArray[Any]] | None:
        return next(self._left, None)


def quantize_model(
    model: Path, folder: Path, form: str, samples: Sequence[Mapping[str, NDArray[Any]]]
) -> onnx.ModelProto:
    """The model with u8 activations and s8 weights per channel, in `form`; min-max ranges over the samples."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    CalibrationDataReader.register(_Reader)
    out = folder / f"{model.stem}.{form}.onnx"
    quantize_static(
        model,
        out,
        _Reader(samples),
        quant_format=QuantFormat[form],
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    return onnx.load(out)


def strip_ends(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model from uint8 to uint8: without the QuantizeLinear behind its inputs and the DequantizeLinear
    before its outputs. Raises ValueError where an end is not quantized.
    """
    stripped = onnx.ModelProto()
    stripped.CopyFrom(model)
    graph = stripped.graph
    for value in list(graph.input):
        readers = [node for node in graph.node if value.name in node.input]
        if [node.op_type for node in readers] != ["QuantizeLinear"]:
            raise ValueError(f"input '{value.name}' is read by {[node.op_type for node in readers]}")
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        value.CopyFrom(helper.make_tensor_value_info(readers[0].output[0], TensorProto.UINT8, shape))
        graph.node.remove(readers[0])
    for value in list(graph.output):
        maker = next(node for node in graph.node if value.name in node.output)
        if maker.op_type != "DequantizeLinear":
            raise ValueError(f"output '{value.name}' is made by {maker.op_type}")
        value.CopyFrom(helper.make_tensor_value_info(maker.input[0], TensorProto.UINT8, None))
        graph.node.remove(maker)
    return stripped


def open_session(model: bytes, threads: int) -> Any:
    """A CPU session with every graph optimisation and `threads` threads within an operator."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def version() -> str:
    """Of onnxruntime."""
    import onnxruntime

    return str(onnxruntime.__version__)


def random_samples(shape: Sequence[int], count: int, seed: int = 0) -> list[dict[str, NDArray[np.float32]]]:
    """Standard normal feeds for the one input of the benchmark networks."""
    rng = np.random.default_rng(seed)
    return [{"images": rng.standard_normal(shape, np.float32)} for _ in range(count)]
