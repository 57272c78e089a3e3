"""For files of custom ops: `from axtool.custom import CustomOp`. And how such a file is loaded.

See docs/custom-ops.md.
"""

from __future__ import annotations

import runpy
from collections.abc import Sequence
from pathlib import Path

from axtool.errors import UsageError
from axtool.graph.passes.pattern import Pattern, read_pattern
from axtool.ops.custom import Case, CustomOp, Ints, add, told
from axtool.ops.limits import device_ops

__all__ = ["Case", "CustomOp", "Ints", "load_custom_ops", "load_files"]


def load_files(paths: Sequence[Path]) -> None:
    """Load each file of custom ops."""
    for path in paths:
        load_custom_ops(path)


def load_custom_ops(path: Path) -> tuple[CustomOp, ...]:
    """Run a Python file and make the `CustomOp`s that are its global names known to this process, in their order.

    Raises UsageError for a file that is not there, fails, has none, or whose ops are not well formed: a pattern that
    does not parse, two ops of one name, a native library that is not there.
    """
    if not path.is_file():
        raise UsageError(f"no file of custom ops is at '{path}'", code="file-not-found", hint="check the path")
    try:
        found = runpy.run_path(str(path), run_name="axtool_custom_ops")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's code: whatever it raises is about the file, `sys.exit` too
        raise UsageError(
            f"the file of custom ops fails: {told(error)}{_line_of(error, path)}",
            where=str(path),
            code="bad-custom-op",
            hint=f"run `python {path.name}`, which shows where",
        ) from error
    ops = tuple(value for value in found.values() if isinstance(value, CustomOp))
    if not ops:
        raise UsageError(
            "the file defines no custom op",
            where=str(path),
            code="bad-custom-op",
            hint="give a global name to a CustomOp (from axtool.custom import CustomOp)",
        )
    for op in ops:
        _check(op, path)
        try:
            add(op)
        except ValueError as error:
            raise UsageError(str(error), where=str(path), code="bad-custom-op", hint="rename one of them") from error
    return ops


def _check(op: CustomOp, path: Path) -> Pattern:
    try:
        pattern = read_pattern(op)
    except ValueError as error:
        raise UsageError(
            f"custom op '{op.name}': {error}",
            where=str(path),
            code="bad-custom-op",
            hint="a pattern is ONNX text: Name (x) => (y) { s = Sigmoid (x) y = Mul (x, s) }",
        ) from error
    if (op.name in onnx_ops()) or op.name in device_ops():
        raise UsageError(
            f"'{op.name}' is an op already", where=str(path), code="bad-custom-op", hint=f"call it My{op.name}"
        )
    if op.native is not None and not Path(op.native[0]).is_file():
        raise UsageError(
            f"custom op '{op.name}': the library '{op.native[0]}' is not there",
            where=str(path),
            code="file-not-found",
            hint="build it, or leave `native` out: the NumPy reference runs then, slowly",
        )
    return pattern


def onnx_ops() -> frozenset[str]:
    """The names of ONNX's own ops."""
    import onnx

    return frozenset(schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == "")


def _line_of(error: BaseException, path: Path) -> str:
    """Where in the file it failed: the innermost of its lines on the way."""
    if isinstance(error, SyntaxError):
        return ""  # says it itself
    line, trace = 0, error.__traceback__
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename) == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f" (line {line})" if line else ""
