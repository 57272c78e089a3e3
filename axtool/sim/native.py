"""The C++ engine behind the same door: `axtool.native._native.Engine`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.ops.encoding import MEMORIES, OPCODES
from axtool.sim.custom_functions import CustomFunctions, ids_of
from axtool.sim.engine import Tap


class NativeEngine:
    """Threads, and the instruction set of this CPU or the one asked for; the bits of the reference."""

    def __init__(
        self,
        module: Any,
        layers: NDArray[np.int64],
        layer_offsets: NDArray[np.int64],
        commands: NDArray[np.int64],
        command_offsets: NDArray[np.int64],
        sizes: Mapping[str, int],
        *,
        threads: int,
        isa: str,
        merge: bool,
    ) -> None:
        rows = [np.ascontiguousarray(a, np.int64) for a in (layers, layer_offsets, commands, command_offsets)]
        memories = {memory: int(sizes.get(memory, 0)) for memory in MEMORIES}
        self._functions = CustomFunctions(ids_of(rows[0], rows[1], OPCODES["custom"]))
        functions = self._functions.addresses
        self._engine = module.Engine(*rows, memories, threads=threads, isa=isa, merge=merge, functions=functions)

    def run(self, ext: NDArray[np.uint8], ocm: NDArray[np.uint8], taps: Sequence[Tap] | None = None) -> None:
        """Run every command, in order. ValueError for memories or taps that do not fit."""
        lines = [_in_one_piece(tap) for tap in taps or ()]
        try:
            self._engine.run(ext, ocm, lines)
        except ValueError as error:
            if failure := self._functions.take_failure():
                raise failure from None
            if "custom op" in str(error):  # a C function's own number; a reference says more
                raise ValueError(f"{error}; custom ops of the program: {', '.join(self._functions.names)}") from error
            raise
        for tap, line in zip(taps or (), lines, strict=True):
            if line is not tap:
                tap.out[...] = line.out

    def freeze(self, ext: NDArray[np.uint8], ocm: NDArray[np.uint8]) -> int:
        """Arrange the weights in ext that no command writes, for later runs without taps. The bytes it takes."""
        return int(self._engine.freeze(ext, ocm))


def _in_one_piece(tap: Tap) -> Tap:
    """The tap itself, or one with an array whose bytes follow each other, to be copied where the first wanted it."""
    return tap if tap.out.flags.c_contiguous else Tap(tap.after_command, tap.view, np.empty(tap.out.shape, np.uint8))
