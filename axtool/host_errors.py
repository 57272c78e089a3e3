"""onnxruntime's exceptions  ->  errors that a user reads: which node, the reason, and what to do about it.

Wherever a session is opened or run, its log severity is 4: what onnxruntime has to say reaches the user as our error,
once. Its exceptions share no base class of their own, so callers catch Exception.
"""

from __future__ import annotations

import re

from axtool.errors import AxError, EnvironmentFault, UnsupportedError, UsageError

SILENT = 4  # the log severity of every session

_RUNNING = re.compile(r"Non-zero status code returned while running (\w+) node\. Name:'(.*?)' Status Message: ")
_NODE = re.compile(r"Node \((.*?)\) Op \((\w+)\) \[\w+\] ?")
_NESTED = re.compile(r"/\S+\.(?:cc|h|hpp):\d+ .*?\[ONNXRuntimeError\] : \d+ : \w+ : ")
_LINE = re.compile(r"\b\w+\.(?:cc|h|hpp):\d+ \w+ ")
_SOURCE = re.compile(r"/\S+\.(?:cc|h|hpp):\d+ .*?(?:was false|were false|failed)\.\s*")
_NO_MEMORY = ("bad_alloc", "bad allocation", "Failed to allocate memory", "BFCArena")
_NO_ARRAY = ("Numpy_type", "No corresponding Numpy type")  # bfloat16, float8, int4


def session_error(error: Exception, where: str) -> AxError:
    """Why onnxruntime did not load a model."""
    if isinstance(error, AxError):
        return error
    if _lacks_memory(error):
        return _no_memory(where)
    if "NOT_IMPLEMENTED" in str(error) or type(error).__name__ == "NotImplemented":
        return UnsupportedError(
            f"onnxruntime has no kernel: {words(error)}",
            where=where,
            hint="use float32 where the op has no other type",
            code="float-kernel",
        )
    return UsageError(
        f"onnxruntime refuses the model: {words(error)}",
        where=where,
        hint="check it with onnx.checker and export it again",
        code="float-model",
    )


def run_error(error: Exception, where: str) -> AxError:
    """Why onnxruntime could not run a model that it loaded."""
    if isinstance(error, AxError):
        return error
    if _lacks_memory(error):
        return _no_memory(where)
    if any(sign in str(error) for sign in _NO_ARRAY):
        return UnsupportedError(
            f"a value that crosses between stages has an element type that NumPy lacks: {words(error)}",
            where=where,
            hint="cast it to float32 before it leaves its part of the model",
            code="element-type",
        )
    return UsageError(
        f"onnxruntime failed: {words(error)}",
        where=where,
        hint="the graph does not suit this input; check its Reshape and Gather constants",
        code="float-run",
    )


def words(error: Exception) -> str:
    """onnxruntime's message without its status prefix and source positions."""
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if text.startswith("[ONNXRuntimeError]"):
        text = text.split(" : ", 3)[-1]
    text = _RUNNING.sub(r"\1 '\2': ", text)
    text = _NODE.sub(r"\2 '\1': ", text)
    text = _SOURCE.sub("", _LINE.sub("", _NESTED.sub("", text)))
    return text.removeprefix("Exception during initialization: ")[:400]


def _lacks_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in _NO_MEMORY)


def _no_memory(where: str) -> AxError:
    return EnvironmentFault(
        "out of memory in onnxruntime",
        where=where,
        hint="use a smaller input or a machine with more",
        code="no-memory",
    )
