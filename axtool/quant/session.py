"""An ONNX model as bytes  ->  an onnxruntime session that gives the same bits however many processes there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from numpy.typing import NDArray

from axtool.host_errors import SILENT, run_error, session_error

_WHERE = "calibration"


class FloatSession:
    """A CPU session of one thread: how work is cut over threads must never show in a range.

    What onnxruntime refuses, on loading or on running, is an AxError that names its node.
    """

    def __init__(self, model: bytes) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = SILENT
        options.enable_mem_pattern = False  # with it the second run takes all again, in one block beside the first
        if _one_arena():
            options.add_session_config_entry("session.use_env_allocators", "1")
            options.add_session_config_entry(
                "session.use_device_allocator_for_initializers", "1"
            )  # these go in the end
        try:
            self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise session_error(error, _culprit(model, options) or _WHERE) from error
        self._session._model_bytes = b""  # kept for a fallback to other providers: all weights a second time

    def run(self, outputs: Sequence[str], feeds: Mapping[str, NDArray[Any]], *, last: bool = False) -> list[Any]:
        """The outputs, in their order: arrays, or lists of them for a sequence. The `last` run gives the memory back
        that all sessions share.
        """
        import onnxruntime

        options = onnxruntime.RunOptions()
        if last:
            options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        try:
            results: list[Any] = self._session.run(list(outputs), dict(feeds), options)
        except Exception as error:
            raise run_error(error, _WHERE) from error
        return results


@cache
def _one_arena() -> bool:
    """One pool of memory for the sessions of all pieces: what one has freed serves the next. It grows by what is asked
    for, not by doubling. False where this process has a shared one already, which is not ours to use.
    """
    import onnxruntime as ort

    place = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    try:
        ort.create_and_register_allocator(place, ort.OrtArenaCfg({"arena_extend_strategy": 1}))
    except Exception:  # it only says "fail"
        return False
    return True


def _culprit(model: bytes, options: Any) -> str:
    """The first node that does not load alone either, or "": what is wrong with attributes comes without a name."""
    import onnx
    import onnxruntime

    proto = onnx.load_model_from_string(model)
    infos = {info.name: info for info in (*proto.graph.input, *proto.graph.value_info, *proto.graph.output)}
    weights = {tensor.name: tensor for tensor in proto.graph.initializer}
    for index, node in enumerate(proto.graph.node):
        names = [name for name in node.input if name]
        if not all(name in infos or name in weights for name in names):
            continue
        alone = onnx.ModelProto(ir_version=proto.ir_version, opset_import=proto.opset_import)
        alone.functions.extend(proto.functions)
        alone.graph.name = "node"
        alone.graph.node.append(node)
        alone.graph.initializer.extend(weights[name] for name in dict.fromkeys(names) if name in weights)
        alone.graph.input.extend(infos[name] for name in dict.fromkeys(names) if name not in weights)
        alone.graph.output.extend(infos.get(name) or onnx.ValueInfoProto(name=name) for name in node.output if name)
        try:
            onnxruntime.InferenceSession(alone.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception:  # any refusal names the culprit; the caller raises the first error, with this name
            return f"{node.op_type} '{node.name}' (node {index} in calibration)"
    return ""


def open_session(model: bytes) -> FloatSession:
    """A session for one piece of the float model."""
    return FloatSession(model)
