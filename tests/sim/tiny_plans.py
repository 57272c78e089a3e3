"""Plans made by hand: every tensor at its own place, one command a layer or several tiles, staged or not.

The real planner is tested elsewhere; these plans exist so that the engines can be tested without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from axtool.ops.arithmetic import qfp
from axtool.ops.boxes import is_empty, whole
from axtool.ops.elements import is_sized, narrow, out_bytes
from axtool.ops.encoding import FIELDS, MAC_OPS, dims_of, window_of
from axtool.ops.packing import fold_bias, pack_conv_weights, pack_params
from axtool.ops.regions import needed, written
from axtool.sim.checks import LayerRow
from axtool.types import Command, Layer, Plan, Program, QFormat, Slot, Tensor, Tile, View
from tests.ops.cases import Case

Cut = Callable[[str, tuple[int, int, int]], Sequence[Tile]]
ANY = QFormat("int8", (1.0,))


def one_box(op: str, dims: tuple[int, int, int]) -> list[Tile]:
    """The whole output as one tile."""
    return [whole(dims)]


def cuts(ys: int, xs: int, cs: int) -> Cut:
    """Tiles of at most `ys` rows, `xs` columns and `cs` channels."""

    def cut(op: str, dims: tuple[int, int, int]) -> list[Tile]:
        return [
            Tile(y, x, c, min(ys, dims[0] - y), min(xs, dims[1] - x), min(cs, dims[2] - c))
            for y in range(0, dims[0], ys)
            for x in range(0, dims[1], xs)
            for c in range(0, dims[2], cs)
        ]

    return cut


@dataclass
class Tiny:
    """A program that grows layer by layer, and then a plan of it."""

    multiple: int = 16  # channels of a pixel are stored in this many bytes, or a multiple
    tensors: dict[str, Tensor] = field(default_factory=dict)
    constants: dict[str, NDArray] = field(default_factory=dict)
    layers: list[Layer] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    def input(self, name: str, dims: tuple[int, int, int], zp: int = 0) -> str:
        self.tensors[name] = Tensor(name, (1, *dims), QFormat("int8", (1.0,), (zp,)))
        self.inputs.append(name)
        return name

    def constant(self, name: str, array: NDArray) -> str:
        self.tensors[name] = Tensor(name, array.shape, ANY)
        self.constants[name] = array
        return name

    def layer(self, op: str, inputs: Sequence[str], out: str, dims: tuple[int, int, int], **attrs: object) -> str:
        self.tensors[out] = Tensor(out, (1, *dims), ANY)
        self.layers.append(Layer(op, tuple(inputs), (out,), attrs, name=out))
        return out

    def plan(self, outputs: Sequence[str], cut: Cut = one_box, staged: bool = False) -> Plan:
        """`staged`: tiles are loaded into on-chip memory with strides of their own, and stored again."""
        self.outputs = list(outputs)
        program = Program(
            dict(self.tensors), tuple(self.layers), dict(self.constants), tuple(self.inputs), tuple(outputs)
        )
        return _Emitter(program, self.multiple, cut, staged).plan()


class _Emitter:
    def __init__(self, program: Program, multiple: int, cut: Cut, staged: bool) -> None:
        self.program, self.cut, self.staged, self.multiple = program, cut, staged, multiple
        self.used = {"ext": 0, "ocm": 0}
        self.homes: dict[str, View] = {}
        self.slots: list[Slot] = []
        self.commands: list[Command] = []
        host = {*program.inputs, *program.outputs, *program.constants}
        for name, tensor in program.tensors.items():
            self._place(name, tensor, "ext" if staged or name in host else "ocm")

    def plan(self) -> Plan:
        for index, layer in enumerate(self.program.layers):
            dims = dims_of(self.program.tensors[layer.outputs[0]].shape)
            for tile in self.cut(layer.op, dims):
                for part in range(len(layer.inputs) if layer.op == "concat" else 1):
                    self._emit(index, layer, tile, part)
        return Plan(self.program, "tiny", tuple(self.slots), tuple(self.commands), dict(self.used))

    def _emit(self, index: int, layer: Layer, tile: Tile, part: int) -> None:
        dims = (dims_of(self.program.tensors[name].shape) for name in (layer.inputs[0], layer.outputs[0]))
        row = LayerRow(layer.op, *dims, layer.attrs)
        command = Command("compute", "mac" if layer.op in MAC_OPS else "vector", index, tile, (), (), part)
        job = row.job(command)
        names = [layer.inputs[part]] if layer.op == "concat" else list(layer.inputs)
        reads = []
        for read, name in enumerate(names):
            box = needed(job, read)
            flat = name in self.program.constants and self.program.constants[name].ndim == 1
            if flat and narrow(layer.op) == "avg_pool":  # which rows are used depends on their numbers
                box = self.homes[name].tile
            reads.append(self._stage(index, name, box, layer.op) if self.staged else self.homes[name])
        if not self.staged:
            self._add(command, reads, self.homes[layer.outputs[0]])
            return
        box = written(job)
        if is_empty(box):
            return
        target = self._room(box, layer.op)
        self._add(command, reads, target)
        self._copy("store", index, target, part_of(self.homes[layer.outputs[0]], box))

    def _stage(self, index: int, name: str, box: Tile, op: str) -> View:
        if is_empty(box):  # the tile sees padding alone: any pixel will do
            box = Tile(0, 0, box.c, 1, 1, max(box.n, 1))
        target = self._room(box, op)
        self._copy("load", index, part_of(self.homes[name], box), target)
        return target

    def _copy(self, kind: str, index: int, source: View, target: View) -> None:
        engine = "dma_read" if kind == "load" else "dma_write"
        self.commands.append(Command(kind, engine, index, source.tile, (source,), (target,)))

    def _add(self, command: Command, reads: Sequence[View], write: View) -> None:
        self.commands.append(
            Command("compute", command.engine, command.layer, command.tile, tuple(reads), (write,), command.part)
        )

    def _room(self, tile: Tile, op: str) -> View:
        """A fresh place in on-chip memory, with gaps between pixels and rows; numbers of several bytes lie evenly."""
        pixel = tile.n if tile.h == tile.w == 1 else tile.n + 3
        row = tile.w * pixel + 5
        if is_sized(dict.fromkeys(FIELDS[op])):
            pixel += -pixel % 4
            row = tile.w * pixel + 8
        return self._take("ocm", tile, row, pixel, tile.h * row)

    def _place(self, name: str, tensor: Tensor, memory: str) -> None:
        array = self.program.constants.get(name)
        if array is not None and array.ndim == 1:
            tile, row, pixel, size = Tile(0, 0, 0, 1, 1, array.nbytes), array.nbytes, array.nbytes, array.nbytes
        else:
            _, h, w, c = tensor.shape
            pixel = c if array is not None else -(-c // self.multiple) * self.multiple
            tile, row, size = Tile(0, 0, 0, h, w, c), w * pixel, h * w * pixel
        self.homes[name] = self._take(memory, tile, row, pixel, size)
        home = self.homes[name]
        self.slots.append(Slot(name, home.memory, home.offset, size, 0, len(self.program.layers)))

    def _take(self, memory: str, tile: Tile, row: int, pixel: int, size: int) -> View:
        offset = self.used[memory]
        self.used[memory] = offset + -(-size // 64) * 64
        return View(memory, offset, tile, row, pixel)


def part_of(view: View, box: Tile) -> View:
    """The same bytes, seen through a smaller box."""
    tile = view.tile
    offset = view.offset + (box.y - tile.y) * view.row_stride + (box.x - tile.x) * view.pixel_stride + (box.c - tile.c)
    return View(view.memory, offset, box, view.row_stride, view.pixel_stride)


def random_int8(rng: np.random.Generator, *shape: int) -> NDArray[np.int8]:
    return rng.integers(-128, 128, shape, dtype=np.int8)


def plan_of(case: Case, cut: Cut = one_box, staged: bool = False) -> tuple[Plan, dict[str, NDArray[np.int8]]]:
    """One random layer as a plan, and its inputs."""
    net, names, feeds = Tiny(), [], {}
    for at, array in enumerate(case.operands):
        name = f"operand{at}"
        names.append(name)
        if array.ndim == 1:
            net.constant(name, array)
        else:
            net.input(name, array.shape)
            feeds[name] = array[None]
    net.layer(case.op, names, "out", case.out_dims, **case.attrs)
    return net.plan(["out"], cut, staged), feeds


def block_cuts(case: Case, seed: int) -> Cut:
    """Random tiles of whole numbers; of a MAC op whole blocks of 16 channels inside whole groups."""
    rng = np.random.default_rng(seed)
    number = out_bytes(case.attrs)
    height, width, channels = (int(rng.integers(1, n + 1)) for n in (*case.out_dims[:2], case.out_dims[2] // number))
    if case.op in MAC_OPS:
        group = window_of(case.attrs)["group"]
        grouped = narrow(case.op) != "depthwise" and group > 1
        share = case.out_dims[2] // number // group
        channels = share * -(-channels // share) if grouped else 16 * -(-channels // 16)
    return cuts(height, width, channels * number)


def small_net(seed: int = 0) -> tuple[Tiny, dict[str, NDArray[np.int8]]]:
    """conv -> max_pool -> concat of both -> add -> lut, every result used."""
    rng = np.random.default_rng(seed)
    net = Tiny()
    net.input("x", (9, 8, 5), 3)
    w = random_int8(rng, 19, 5, 3, 3)
    wsum = w.reshape(19, -1).sum(axis=1, dtype=np.int64)
    net.constant("w", pack_conv_weights(w, 1))
    net.constant("p", pack_params(fold_bias(rng.integers(-900, 900, 19), 3, wsum), *qfp(0.002), wsum))
    window = {"kernel": (3, 3), "stride": (1, 1), "dilation": (1, 1), "pad": (1, 1)}
    clamp = {"out_zp": -3, "lo": -128, "hi": 127}
    dims = (9, 8, 19)
    net.layer("conv", ["x", "w", "p"], "conv", dims, **window, group=1, x_zp=3, act=0, **clamp)
    net.layer("max_pool", ["conv"], "pool", dims, **window)
    (m, f), both = qfp(0.6), (9, 8, 38)
    net.layer("concat", ["conv", "pool"], "both", both, axis=2, out_zp=0, parts=(0, -3, m, f, 19, -3, 0, 0))
    table = random_int8(rng, 256)
    net.constant("table", table)
    net.layer("lut", ["both", "table"], "bent", both, per_channel=0)
    scale = {"zp_a": 0, "m_a": m, "f_a": f, "zp_b": 0, "m_b": m, "f_b": f}
    net.layer("add", ["both", "bent"], "out", both, a=both, b=both, **scale, sub=0, **clamp)
    return net, {"x": random_int8(rng, 1, 9, 8, 5)}
