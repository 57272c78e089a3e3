"""The NumPy engine: what every other engine must agree with, byte for byte."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from axtool.ops.boxes import Box
from axtool.ops.reference import compute
from axtool.ops.regions import written
from axtool.sim.checks import check_view, read_commands, read_layers
from axtool.sim.engine import Tap
from axtool.types import Command, Tile, View

Memories = Mapping[str, NDArray[np.uint8]]


class ReferenceEngine:
    """Commands one by one: read the whole of each operand's view, compute, write."""

    def __init__(
        self,
        layers: NDArray[np.int64],
        layer_offsets: NDArray[np.int64],
        commands: NDArray[np.int64],
        command_offsets: NDArray[np.int64],
        sizes: Mapping[str, int],
    ) -> None:
        self.sizes = dict(sizes)
        self.layers = read_layers(layers, layer_offsets)
        self.commands = read_commands(commands, command_offsets, self.layers, self.sizes)

    def run(self, ext: NDArray[np.uint8], ocm: NDArray[np.uint8], taps: Sequence[Tap] | None = None) -> None:
        """Run every command, in order. ValueError for memories or taps that do not fit, or numbers no op may read."""
        memories = {"ext": check_memory("ext", ext, self.sizes), "ocm": check_memory("ocm", ocm, self.sizes)}
        after = _by_command(taps or (), len(self.commands), self.sizes)
        for index, command in enumerate(self.commands):
            try:
                self._step(command, memories)
            except ValueError as error:
                raise ValueError(f"command {index}: {error}") from error
            for tap in after.get(index, ()):
                tap.out[...] = seen(memories, tap.view)

    def freeze(self, ext: NDArray[np.uint8], ocm: NDArray[np.uint8]) -> int:
        """Nothing to arrange: this engine reads its operands where they are."""
        return 0

    def _step(self, command: Command, memories: Memories) -> None:
        target = command.writes[0]
        if command.kind != "compute":
            seen(memories, target)[...] = seen(memories, command.reads[0]).copy()
            return
        job = self.layers[command.layer].job(command)
        box = written(job)
        if min(box.h, box.w, box.n) == 0:  # this input of a concat has nothing in the tile
            return
        reads = [Box(seen(memories, view).view(np.int8), view.tile) for view in command.reads]
        values = compute(job, reads)
        Box(seen(memories, target).view(np.int8), target.tile).cut(box)[...] = values


def seen(memories: Memories, view: View) -> NDArray[np.uint8]:
    """The bytes of a view, in place: (h, w, n)."""
    tile = view.tile
    start = memories[view.memory][view.offset :]
    return as_strided(start, (tile.h, tile.w, tile.n), (view.row_stride, view.pixel_stride, 1))


def check_memory(name: str, memory: NDArray[np.uint8], sizes: Mapping[str, int]) -> NDArray[np.uint8]:
    """The memory, if it is one line of bytes and long enough. Raises ValueError."""
    if memory.dtype != np.uint8 or memory.ndim != 1 or (memory.size and not memory.flags.c_contiguous):
        raise ValueError(f"{name} must be one line of uint8")
    if memory.size < sizes.get(name, 0):
        raise ValueError(f"{name} has {memory.size} bytes, the commands need {sizes[name]}")
    return memory


def _by_command(taps: Sequence[Tap], count: int, sizes: Mapping[str, int]) -> dict[int, list[Tap]]:
    grouped: dict[int, list[Tap]] = defaultdict(list)
    for tap in taps:
        if not 0 <= tap.after_command < count:
            raise ValueError(f"a tap after command {tap.after_command}; there are {count}")
        check_view(tap.view, sizes)
        if tap.out.shape != _shape(tap.view.tile) or tap.out.dtype != np.uint8:
            raise ValueError(f"a tap of {_shape(tap.view.tile)} bytes has {tap.out.dtype} {tap.out.shape} to fill")
        grouped[tap.after_command].append(tap)
    return grouped


def _shape(tile: Tile) -> tuple[int, int, int]:
    return tile.h, tile.w, tile.n
