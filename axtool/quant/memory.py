"""Does the float model fit the memory of this machine? Asked before onnxruntime allocates anything; and what was
freed goes back to the machine.
"""

from __future__ import annotations

import ctypes
import math
import os
import resource
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from axtool.errors import EnvironmentFault

if TYPE_CHECKING:
    import onnx_ir as ir


def check_memory(models: Iterable[ir.Model], limit: int | None = None) -> None:
    """Raise EnvironmentFault for the node whose inputs and outputs together need more than `limit` bytes.

    By default the limit is what the machine has, or what this process may take of it.
    """
    limit = memory_bytes() if limit is None else limit
    for model in models:
        for index, node in enumerate(model.graph):
            values = {value for value in (*node.inputs, *node.outputs) if value is not None}
            need = sum(value_bytes(value) for value in values)
            if need <= limit:
                continue
            largest = max(values, key=value_bytes)
            assert largest.shape is not None
            raise EnvironmentFault(
                f"{node.op_type} '{node.name}' (node {index}) needs {need:,} bytes in float, there are {limit:,}: "
                f"'{largest.name}' is {list(largest.shape)}",
                where="calibration",
                hint="use a smaller input or a machine with more memory",
                code="no-memory",
            )


def memory_bytes() -> int:
    """What this process may have: the machine's memory, or its own limit of address space."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
    return installed if allowed == resource.RLIM_INFINITY else min(installed, allowed)


def give_back() -> None:
    """Return to the machine what was freed: glibc keeps the holes that a model leaves when it is read, tens of MB."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform.startswith("linux") else None
    if trim is not None:
        trim(0)


def value_bytes(value: ir.Value) -> int:
    """Bytes of a tensor whose shape is known; 0 of another."""
    if value.shape is None or value.dtype is None or not value.shape.is_static():
        return 0
    size = 8.0 if value.dtype == value.dtype.STRING else value.dtype.itemsize  # a string: its pointer at least
    return int(math.prod(int(d) for d in value.shape.numpy()) * size)
