"""An ONNX model as bytes  ->  an onnxruntime session that gives the same bits however many processes there are."""

from __future__ import annotations

from typing import Any


def open_session(model: bytes) -> Any:
    """A CPU session of one thread: how work is cut over threads must never show in a range."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
