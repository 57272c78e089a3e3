"""The door to the simulated device: rows of layers and commands -> an engine that runs them over two memories."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from axtool.types import View

ENGINES = ("native", "reference")


@dataclass(frozen=True)
class Tap:
    """Copy `view` into `out`, uint8 (h, w, n) of the view's tile, after command `after_command` has run."""

    after_command: int
    view: View
    out: NDArray[np.uint8]


class Engine(Protocol):
    """Executes the commands it was made of. The memories are the caller's, at least as long as `sizes` said."""

    def run(self, ext: NDArray[np.uint8], ocm: NDArray[np.uint8], taps: Sequence[Tap] | None = None) -> None:
        """Run every command, in order. The bytes of ext and of the taps are the result.

        With `merge` the native engine reads a load's bytes at their source where that is proven to be the same; what
        ocm holds afterwards is then not specified.
        """

    def freeze(self, ext: NDArray[np.uint8], ocm: NDArray[np.uint8]) -> int:
        """Arrange weights and tables that are in `ext` once, for later runs without taps: the bits stay, time is saved.

        From then on such runs need not see what the host writes over these. Returns the bytes that this takes.
        """


def open_engine(
    name: str,
    layers: NDArray[np.int64],
    layer_offsets: NDArray[np.int64],
    commands: NDArray[np.int64],
    command_offsets: NDArray[np.int64],
    sizes: Mapping[str, int],
    threads: int = 1,
    isa: str = "auto",
    merge: bool = True,
) -> Engine:
    """An engine over the rows of `axtool.ops.encoding`.

    "native" uses `threads` threads and the instruction set `isa` ("auto": the best of this CPU); `merge` lets it join
    adjacent commands of a layer, which never changes the bits. Without the native module it is the reference, said
    once. Raises ValueError, with the number of the command, for rows that no engine may run.
    """
    if name not in ENGINES:
        raise ValueError(f"engine '{name}' does not exist; there are {', '.join(ENGINES)}")
    if name == "native":
        module = _native()
        if module is not None:
            from axtool.sim.native import NativeEngine

            return NativeEngine(
                module, layers, layer_offsets, commands, command_offsets, sizes, threads=threads, isa=isa, merge=merge
            )
        _say_once()
    from axtool.sim.reference import ReferenceEngine

    return ReferenceEngine(layers, layer_offsets, commands, command_offsets, sizes)


def native_available() -> bool:
    """Whether the C++ engine was built."""
    return _native() is not None


@cache
def _native() -> Any:
    try:
        return importlib.import_module("axtool.native._native")
    except ImportError:
        return None


@cache
def _say_once() -> None:
    logging.getLogger("axtool").warning("the native engine is not built: running on the NumPy reference, slowly")
