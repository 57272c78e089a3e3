"""Custom ops  ->  the C functions that the native engine calls: the user's own, or the NumPy reference behind one."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from axtool.errors import UsageError
from axtool.ops import custom
from axtool.ops.reference_custom import reckoned

FAILED = 1
_BYTES, _SIZES = ctypes.POINTER(ctypes.c_int8), ctypes.POINTER(ctypes.c_int64)
FUNCTION = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.POINTER(_BYTES),
    ctypes.c_int64,
    _SIZES,
    ctypes.POINTER(ctypes.c_uint8),
    ctypes.c_int64,
    _BYTES,
)


class CustomFunctions:
    """The functions of some ops, kept alive; `failure` is what a reference raised last."""

    def __init__(self, ids: Iterable[int]) -> None:
        self.failure: BaseException | None = None
        self._kept: list[object] = []
        known = set(ids)
        self.names = sorted(custom.of_id(number).name for number in known)
        self.addresses = {number: self._address(custom.of_id(number)) for number in known}

    def take_failure(self) -> BaseException | None:
        """What a reference raised, once."""
        failure, self.failure = self.failure, None
        return failure

    def _address(self, op: custom.CustomOp) -> int:
        function = _loaded(op) if op.native is not None else FUNCTION(self._behind(op))
        self._kept.append(function)
        return ctypes.cast(function, ctypes.c_void_p).value or 0

    def _behind(self, op: custom.CustomOp):  # type: ignore[no-untyped-def]
        """The NumPy reference as a C function."""

        def call(inputs, count, dims, numbers, size, output):  # type: ignore[no-untyped-def]
            try:
                shapes = np.ctypeslib.as_array(dims, (3 * (count + 1),)).reshape(-1, 3).tolist()
                boxes = [np.ctypeslib.as_array(inputs[at], tuple(shapes[at])).copy() for at in range(count)]
                made = reckoned(op, boxes, np.ctypeslib.as_array(numbers, (size,)).copy(), tuple(shapes[count]))
                np.ctypeslib.as_array(output, tuple(shapes[count]))[...] = made
            except BaseException as error:  # nothing can be raised through C: Ctrl-C would be lost, the bits be wrong
                self.failure = error
                return FAILED
            return 0

        return call


def ids_of(layers: NDArray[np.int64], offsets: NDArray[np.int64], opcode: int) -> list[int]:
    """The ids in the rows of custom ops: the first field behind op and dims."""
    starts = [int(start) for start in offsets[:-1]]
    return [int(layers[start + 7]) for start in starts if start + 7 < len(layers) and layers[start] == opcode]


def _loaded(op: custom.CustomOp):  # type: ignore[no-untyped-def]
    """The function of a library. UsageError where it cannot be loaded, or has no such function."""
    assert op.native is not None
    path, name = op.native
    try:
        return getattr(ctypes.CDLL(str(path)), name)
    except (OSError, AttributeError) as error:
        raise UsageError(
            f"custom op '{op.name}': {error}",
            where=str(path),
            code="custom-op-failed",
            hint="give the function C linkage, and build the library for this machine",
        ) from error
