"""Whole command streams on the native engine: joined and elided or not, on any number of threads, the same bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from axtool.ops.arithmetic import qfp
from axtool.ops.boxes import Job, is_empty
from axtool.ops.elements import is_wide
from axtool.ops.encoding import FIELDS, OPCODES, WIDTHS, encode_command, ragged
from axtool.ops.regions import needed, reads_of
from axtool.sim.engine import Tap, open_engine
from axtool.types import Command, Tile, View

native = pytest.importorskip("axtool.native._native")

DIMS = (4, 5, 6)
BYTES = 1800  # of each memory: so small that operands, results and copies overlap in every way
HALF = qfp(0.5)
LAYERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("lut", {"per_channel": 0}),
    ("lut", {"per_channel": 1}),
    ("requantize", {"zp": 3, "m": HALF[0], "f": HALF[1], "out_zp": -2, "lo": -128, "hi": 127}),
    (
        "add",
        {"a": DIMS, "b": DIMS, "zp_a": 1, "m_a": HALF[0], "f_a": HALF[1], "zp_b": 2, "m_b": HALF[0], "f_b": HALF[1]}
        | {"out_zp": 0, "lo": -128, "hi": 127, "sub": 0},
    ),
    ("max_pool", {"kernel": (3, 3), "stride": (1, 1), "dilation": (1, 1), "pad": (1, 1)}),
    ("slice", {"start": (3, 0, 5), "step": (-1, 1, -1)}),
    (
        "wide_add",
        {"a": (4, 5, 3), "b": (4, 5, 3), "zp_a": 0, "m_a": HALF[0], "f_a": HALF[1], "zp_b": 0, "m_b": HALF[0]}
        | {"f_b": HALF[1], "out_zp": 0, "lo": -(2**15), "hi": 2**15 - 1, "sub": 0}
        | {"a_bytes": 2, "b_bytes": 2, "out_bytes": 2},
    ),
    (
        "wide_requantize",
        {"zp": 0, "m": HALF[0], "f": HALF[1], "out_zp": 0, "lo": -(2**15), "hi": 2**15 - 1}
        | {"x_bytes": 2, "out_bytes": 2},
    ),
    ("concat", {"axis": 2, "out_zp": 0, "parts": (0, 0, 0, 0, 2, 5, HALF[0], HALF[1])}),
    (
        "add",
        {
            "a": DIMS,
            "b": (1, 5, 1),
            "zp_a": 1,
            "m_a": HALF[0],
            "f_a": HALF[1],
            "zp_b": 2,
            "m_b": HALF[0],
            "f_b": HALF[1],
        }
        | {"out_zp": 0, "lo": -128, "hi": 127, "sub": 1},
    ),
    (
        "mul",
        {
            "a": DIMS,
            "b": DIMS,
            "zp_a": 1,
            "zp_b": 2,
            "m": HALF[0] >> 5,
            "f": HALF[1],
            "out_zp": 0,
            "lo": -128,
            "hi": 127,
        },
    ),
)
Rows = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


def in_dims(op: str) -> tuple[int, int, int]:
    return (4, 5, 2) if op == "concat" else DIMS


def layer_rows() -> list[list[int]]:
    rows = []
    for op, attrs in LAYERS:
        row = [OPCODES[op], *in_dims(op), *DIMS]
        for name in FIELDS[op]:
            row += [int(v) for v in (attrs[name] if name in WIDTHS else (attrs[name],))]
        rows.append(row)
    return rows


def rows_of(commands: list[Command]) -> Rows:
    return (*ragged(layer_rows()), *ragged([encode_command(c) for c in commands]))


class Stream:
    """Random commands that mean nothing, over two small memories."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.commands: list[Command] = []
        while len(self.commands) < 40:
            (self.layer, self.layer, self.copies)[self.random.integers(3)]()

    def origin(self, tile: Tile, flat: bool = False, even: bool = False) -> View:
        """A view somewhere; operands often lie at one of a few places, as planned ones do."""
        memory = str(self.random.choice(["ext", "ocm", "ocm"]))
        pixel = tile.n + int(self.random.choice([0, 0, 2]))
        row = (tile.w - 1) * pixel + tile.n + int(self.random.choice([0, 0, pixel - tile.n]))
        if flat:
            pixel = row = tile.n
        extent = (tile.h - 1) * row + (tile.w - 1) * pixel + tile.n
        offset = int(self.random.choice([0, 128, 256, 900, int(self.random.integers(0, BYTES - extent))]))
        offset -= offset % 2 if even else 0
        return View(memory, min(offset, (BYTES - extent) // 2 * 2), tile, row, pixel)  # type: ignore[arg-type]

    def layer(self) -> None:
        """All tiles of a layer, sometimes with each operand loaded just before."""
        index = int(self.random.integers(len(LAYERS)))
        op, attrs = LAYERS[index]
        part = int(self.random.integers(2)) if op == "concat" else 0
        whole = Tile(0, 0, 0, *DIMS)
        steps = [int(self.random.integers(1, size + 1)) for size in DIMS]
        steps[2] += steps[2] % 2 if is_wide(op) else 0
        tiles = [
            Tile(y, x, c, min(steps[0], 4 - y), min(steps[1], 5 - x), min(steps[2], 6 - c))
            for c in range(0, 6, steps[2]) for y in range(0, 4, steps[0]) for x in range(0, 5, steps[1])
        ]  # fmt: skip
        reads = []
        for read in range(reads_of(op)):
            box = needed(Job(op, in_dims(op), DIMS, attrs, whole, part), read)
            flat = op == "lut" and read == 1
            view = self.origin(box, flat, is_wide(op))
            if view.memory == "ocm" and self.random.integers(2):
                source = self.origin(box, flat)  # of int16, it may begin at an odd address
                copy = View("ext", source.offset, box, source.row_stride, source.pixel_stride)
                self.commands.append(Command("load", "dma_read", index, box, (copy,), (view,)))
            reads.append(view)
        write = self.origin(whole, even=is_wide(op))
        for tile in tiles[: int(self.random.integers(1, len(tiles) + 1))]:
            job = Job(op, in_dims(op), DIMS, attrs, tile, part)
            views = tuple(part_of(view, needed(job, read)) for read, view in enumerate(reads))
            self.commands.append(Command("compute", "vector", index, tile, views, (part_of(write, tile),), part))

    def copies(self) -> None:
        box = Tile(
            0, 0, 0, int(self.random.integers(1, 5)), int(self.random.integers(1, 6)), int(self.random.integers(1, 7))
        )
        source, target = self.origin(box), self.origin(box)
        kind = {("ext", "ocm"): "load", ("ocm", "ext"): "store"}.get((source.memory, target.memory), "move")
        self.commands.append(Command(kind, "dma_read", 0, box, (source,), (target,)))  # type: ignore[arg-type]

    def taps(self) -> list[tuple[int, View]]:
        """Some places to look at, after some commands; often at what the command wrote."""
        found = []
        for _ in range(6):
            after = int(self.random.integers(len(self.commands)))
            view = self.commands[after].writes[0] if self.random.integers(2) else self.origin(Tile(1, 2, 0, 2, 3, 6))
            found.append((after, view))
        return found

    def images(self) -> list[NDArray[np.uint8]]:
        return [self.random.integers(0, 256, BYTES, np.uint8) for _ in range(2)]


def part_of(view: View, box: Tile) -> View:
    if is_empty(box):
        box = Tile(view.tile.y, view.tile.x, view.tile.c, 1, 1, 1)
    at = (box.y - view.tile.y) * view.row_stride + (box.x - view.tile.x) * view.pixel_stride + box.c - view.tile.c
    return View(view.memory, view.offset + at, box, view.row_stride, view.pixel_stride)


def runs(engine: Any, images: list[NDArray[np.uint8]], taps: list[tuple[int, View]]) -> list[NDArray[np.uint8]]:
    """ext, ocm and what the taps saw, after two runs: the second starts from what the first left on chip."""
    ext, ocm = (image.copy() for image in images)
    outs = [np.zeros((view.tile.h, view.tile.w, view.tile.n), np.uint8) for _, view in taps]
    for _ in range(2):
        engine.run(ext, ocm, [Tap(after, view, out) for (after, view), out in zip(taps, outs, strict=True)])
    return [ext, ocm, *outs]


SIZES = {"ext": BYTES, "ocm": BYTES}
EXAMPLES = settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@EXAMPLES
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_joined_and_elided_streams_leave_the_bytes_of_the_reference(seed: int, tapped: bool) -> None:
    stream = Stream(seed)
    rows, images, taps = rows_of(stream.commands), stream.images(), stream.taps() if tapped else []
    want = runs(open_engine("reference", *rows, SIZES), images, taps)
    for threads, merge in ((1, False), (1, True), (2, True)):
        got = runs(open_engine("native", *rows, SIZES, threads=threads, merge=merge), images, taps)
        if merge:  # what is left on chip is no result: elided loads never came there
            want[1] = got[1]
        for index, (one, other) in enumerate(zip(got, want, strict=True)):
            np.testing.assert_array_equal(one, other, err_msg=f"{threads} threads, merge {merge}: image {index}")


def big_stream(tiles: int) -> tuple[Rows, dict[str, int]]:
    """Load a table, then look up every row of a tensor in tiles, from ext to ext."""
    h, w, c = 32, 20, 64
    layers = ragged([[OPCODES["lut"], h, w, c, h, w, c, 0]])
    size, table = h * w * c, Tile(0, 0, 0, 1, 1, 256)
    commands = [
        Command(
            "load", "dma_read", 0, table, (View("ext", 2 * size, table, 256, 256),), (View("ocm", 64, table, 256, 256),)
        )
    ]
    for y in range(0, h, h // tiles):
        tile = Tile(y, 0, 0, h // tiles, w, c)
        reads = (View("ext", y * w * c, tile, w * c, c), View("ocm", 64, table, 256, 256))
        commands.append(Command("compute", "vector", 0, tile, reads, (View("ext", size + y * w * c, tile, w * c, c),)))
    return (*layers, *ragged([encode_command(command) for command in commands])), {"ext": 2 * size + 256, "ocm": 512}


def test_tiles_of_a_layer_become_one_step_and_its_load_none() -> None:
    rows, sizes = big_stream(tiles=8)
    assert native.Engine(*rows, sizes, merge=False).steps == 9
    assert native.Engine(*rows, sizes).steps == 1


@pytest.mark.parametrize("operand", [0, 1])
def test_tiles_of_a_sum_over_one_of_its_operands_become_one_step(operand: int) -> None:
    h, w, c = 32, 20, 64
    dims, size = (h, w, c), 32 * 20 * 64
    attrs = {**dict(LAYERS[3][1]), "a": dims, "b": dims}
    row = [OPCODES["add"], *dims, *dims]
    for name in FIELDS["add"]:
        row += [int(v) for v in (attrs[name] if name in WIDTHS else (attrs[name],))]
    commands = []
    for y in range(0, h, 8):
        tile = Tile(y, 0, 0, 8, w, c)
        reads = tuple(View("ext", read * size + y * w * c, tile, w * c, c) for read in (0, 1))
        commands.append(Command("compute", "vector", 0, tile, reads, (reads[operand],)))
    rows = (*ragged([row]), *ragged([encode_command(command) for command in commands]))
    sizes = {"ext": 2 * size, "ocm": 64}
    ext, ocm = np.random.default_rng(2).integers(0, 256, 2 * size, np.uint8), np.zeros(64, np.uint8)
    want = ext.copy()
    open_engine("reference", *rows, sizes).run(want, ocm)
    assert native.Engine(*rows, sizes).steps == 1
    for threads in (1, 2, 3):
        got = ext.copy()
        open_engine("native", *rows, sizes, threads=threads).run(got, ocm)
        np.testing.assert_array_equal(got, want)


def test_a_load_whose_source_changes_before_it_is_read_is_done() -> None:
    rows, sizes = big_stream(tiles=1)
    commands, box = rows[2], Tile(0, 0, 0, 1, 1, 256)
    store = Command(
        "move", "array", 0, box, (View("ext", 0, box, 256, 256),), (View("ext", 2 * 32 * 20 * 64, box, 256, 256),)
    )
    first = int(rows[3][1])
    both = ragged([commands[:first], encode_command(store), commands[first:]])
    assert native.Engine(*rows[:2], *both, sizes).steps == 3


@pytest.mark.parametrize("change", ["source", "order"])
def test_a_changed_plan_shows_in_the_bits(change: str) -> None:
    rows, sizes = big_stream(tiles=2)
    broken = [array.copy() for array in rows]
    first = int(rows[3][1])
    if change == "source":
        broken[2][13] -= 1  # offset of the table in ext
    else:
        last = int(rows[3][2])
        broken[2] = np.concatenate([rows[2][first:last], rows[2][:first], rows[2][last:]])
        broken[3] = np.array([0, last - first, last, len(rows[2])], np.int64)
    ext, ocm = np.random.default_rng(0).integers(0, 256, sizes["ext"], np.uint8), np.zeros(sizes["ocm"], np.uint8)
    results = []
    for stream in (rows, broken):
        mine = ext.copy()
        open_engine("native", *stream, sizes).run(mine, ocm.copy())
        results.append(mine)
    assert not np.array_equal(*results)


def test_any_number_of_threads_gives_the_same_bytes_again_and_again() -> None:
    rows, sizes = big_stream(tiles=4)
    ext, ocm = np.random.default_rng(1).integers(0, 256, sizes["ext"], np.uint8), np.zeros(sizes["ocm"], np.uint8)
    want = ext.copy()
    open_engine("reference", *rows, sizes).run(want, ocm.copy())
    for threads in (1, 2, 3, 5):
        engine = open_engine("native", *rows, sizes, threads=threads)
        for _ in range(20):
            got = ext.copy()
            engine.run(got, ocm.copy())
            np.testing.assert_array_equal(got, want)
