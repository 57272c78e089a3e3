"""One command over memories of random bytes, run by both engines, and what random cases are drawn from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from axtool.ops.arithmetic import qfp
from axtool.ops.boxes import Job, is_empty
from axtool.ops.elements import out_bytes
from axtool.ops.encoding import FIELDS, OPCODES, WIDTHS, encode_command, ragged
from axtool.ops.regions import needed, number_bytes, reads_of
from axtool.sim.engine import open_engine
from axtool.types import Command, Tile, View

native = pytest.importorskip("axtool.native._native")

CHANNELS = (1, 3, 7, 16, 17, 32, 65)
EXAMPLES = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def op_row(op: str, in_dims: tuple[int, int, int], out_dims: tuple[int, int, int], attrs: dict[str, Any]) -> list[int]:
    row = [OPCODES[op], *in_dims, *out_dims]
    for name in FIELDS[op]:
        row += [int(v) for v in (attrs[name] if name in WIDTHS else (attrs[name],))]
    return row


class Memory:
    """Two memories of random bytes, and views handed out of them without overlap."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.used = {"ext": 0, "ocm": 0}
        self.values: list[tuple[View, NDArray[np.uint8]]] = []
        self.fill: NDArray[np.uint8] | None = None  # in place of random bytes, from even addresses on

    def view(self, tile: Tile, *, numbers: NDArray[Any] | None = None, align: int = 1) -> View:
        memory = str(self.random.choice(["ext", "ocm"]))
        pixel = tile.n + int(self.random.choice([0, 0, 1, 5, 64]))
        pixel += -pixel % min(align, 4)
        row = (tile.w - 1) * pixel + tile.n + int(self.random.choice([0, 0, 3, 64]))
        row += -row % min(align, 4)
        offset = self.used[memory] + int(self.random.integers(0, 40))
        offset += -offset % align
        view = View(memory, offset, tile, row, pixel)  # type: ignore[arg-type]
        self.used[memory] = offset + (tile.h - 1) * row + (tile.w - 1) * pixel + tile.n
        if numbers is not None:
            self.values.append((view, np.ascontiguousarray(numbers).reshape(-1).view(np.uint8)))
        return view

    def images(self) -> dict[str, NDArray[np.uint8]]:
        images = {name: self.random.integers(0, 256, size, np.uint8) for name, size in self.used.items()}
        if self.fill is not None:
            images = {name: np.resize(self.fill, size) for name, size in self.used.items()}
        for view, numbers in self.values:
            images[view.memory][view.offset : view.offset + view.tile.n] = numbers[: view.tile.n]
        return images


def same_bytes(job: Job, memory: Memory, flat: dict[int, NDArray[Any]]) -> None:
    """Build the views of one command, run it on both engines and every instruction set, compare both memories."""
    reads = []
    for index in range(reads_of(job.op, job.attrs)):
        box = needed(job, index)
        if index in flat:
            data = np.ascontiguousarray(flat[index]).reshape(-1).view(np.uint8)
            first = box.c if memory.random.integers(2) else 0  # the part that is needed, or from the beginning
            end = len(data) if job.op.endswith("avg_pool") else box.c + box.n
            reads.append(memory.view(Tile(0, 0, first, 1, 1, end - first), numbers=data[first:end], align=64))
            continue
        size = number_bytes(job.op, index, job.attrs)
        if is_empty(box):
            box = Tile(0, 0, 0, 1, 1, size)
        more = [int(v) for v in memory.random.integers(0, 3, 6)]  # a view may hold more than is needed
        more[2] *= size
        y, x, c = max(box.y - more[0], 0), max(box.x - more[1], 0), max(box.c - more[2], 0)
        reads.append(
            memory.view(
                Tile(y, x, c, box.y + box.h - y + more[3], box.x + box.w - x + more[4], box.c + box.n - c + more[5]),
                align=size,
            )
        )
    write = memory.view(job.tile, align=out_bytes(job.attrs))
    command = Command("compute", "mac", 0, job.tile, tuple(reads), (write,), job.part)
    rows = (*ragged([op_row(job.op, job.in_dims, job.out_dims, dict(job.attrs))]), *ragged([encode_command(command)]))
    images = memory.images()
    want = {name: image.copy() for name, image in images.items()}
    open_engine("reference", *rows, memory.used).run(want["ext"], want["ocm"])
    for isa in native.cpu()["isas"]:
        for threads in (1, 2):
            got = {name: image.copy() for name, image in images.items()}
            open_engine("native", *rows, memory.used, threads=threads, isa=isa).run(got["ext"], got["ocm"])
            for name in images:
                np.testing.assert_array_equal(
                    got[name], want[name], err_msg=f"{isa}, {threads} threads: {name} of {job}"
                )


Draw = Callable[[st.SearchStrategy[Any]], Any]
small = st.integers(1, 12)
channels = st.sampled_from(CHANNELS)
zero_points = st.integers(-128, 127)


def box_in(draw: Draw, dims: tuple[int, int, int], step: int = 1) -> Tile:
    """A box of a tensor, half of the time all of it; channels begin at a multiple of `step`."""
    if draw(st.booleans()):
        return Tile(0, 0, 0, *dims)
    y, x = draw(st.integers(0, dims[0] - 1)), draw(st.integers(0, dims[1] - 1))
    c = draw(st.integers(0, (dims[2] - 1) // step)) * step
    return Tile(y, x, c, *(draw(st.integers(1, size - at)) for size, at in zip(dims, (y, x, c), strict=True)))


def scale(draw: Draw, largest: float = 8.0) -> tuple[int, int]:
    return qfp(draw(st.floats(1e-7, largest)))


def limits(draw: Draw) -> tuple[int, int]:
    lo, hi = sorted((draw(zero_points), draw(zero_points)))
    return draw(st.sampled_from([(-128, 127), (lo, hi)]))


def seeded(draw: Draw) -> Memory:
    return Memory(draw(st.integers(0, 2**32 - 1)))


def window(draw: Draw, dims: tuple[int, int, int]) -> tuple[dict[str, Any], tuple[int, int]]:
    """Kernel, stride, dilation, pad that leave at least one output position, and how many they leave."""
    kernel, stride = (
        (draw(st.integers(1, 5)), draw(st.integers(1, 5))),
        (draw(st.integers(1, 3)), draw(st.integers(1, 3))),
    )
    dilation = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    pad, out = [], []
    for k, s, d, size in zip(kernel, stride, dilation, dims, strict=False):
        before, after = draw(st.integers(0, 6)), draw(st.integers(0, 6))
        out.append(max((size + before + after - (k - 1) * d - 1) // s + 1, 1))
        pad.append(before)
    return {"kernel": kernel, "stride": stride, "dilation": dilation, "pad": tuple(pad)}, (out[0], out[1])


class Fixed:
    """In place of random numbers: no gaps between views, and these bytes in ext."""

    def __init__(self, *values: NDArray[np.uint8]) -> None:
        self.bytes = np.concatenate(values)

    def choice(self, options: list[Any]) -> Any:
        return options[0]

    def integers(self, low: int, high: int, size: int = 0, dtype: Any = int) -> Any:
        return np.resize(self.bytes, size).astype(dtype) if dtype is np.uint8 else np.zeros(size, int) if size else 0


def wsum_of(weights: NDArray[np.int8], blocks: int, depthwise: bool) -> NDArray[np.int64]:
    """Sum of the weights of each lane of each block."""
    lanes = weights.reshape(blocks, -1, 16, 1 if depthwise else 4).astype(np.int64)
    return lanes.sum(axis=(1, 3)).reshape(-1)
