"""One compute command on one chip -> its cycles by category, from the primitive costs of the target.

A tile-channel is one channel of one array-sized tile, idle elements included: a tile of 47 x 50 pixels costs as much
as one of 64 x 64. The MAC array of a step covers `rows x columns` output pixels, `input_channels` and
`output_channels`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from axtool.ops.boxes import Job, is_empty
from axtool.ops.elements import in_bytes, in_numbers, is_wide, narrow, out_bytes
from axtool.ops.encoding import MAC_OPS, dims_of
from axtool.ops.moves import COPIES, GATHERS
from axtool.ops.regions import needed, tensor_reads
from axtool.target import Array, Target
from axtool.types import Layer, Program, Tile

PLACELESS = ("add", "mul", "lut", "requantize", "transpose")  # a box needs as much of its inputs wherever it lies
KIB = 1024


@dataclass(frozen=True, slots=True)
class Cost:
    """Cycles that one command adds to the critical path, and what it did."""

    mac: int = 0
    compute: int = 0
    data_array: int = 0
    data_ocm: int = 0
    macs: int = 0
    port_bytes: int = 0

    @property
    def total(self) -> int:
        return self.mac + self.compute + self.data_array + self.data_ocm


class CostModel:
    """Costs of a program's tiles on a target; equal tiles of a layer are worked out once."""

    def __init__(self, program: Program, target: Target) -> None:
        self.program, self.target = program, target
        self._known: dict[tuple[int, ...], Cost] = {}
        self._dims = [_dims(layer, program) for layer in program.layers]

    def cost(self, at: int, tile: Tile, part: int = 0) -> Cost:
        """The cost of one output box of layer `at`."""
        layer = self.program.layers[at]
        key: tuple[int, ...] = (at, part, tile.h, tile.w, tile.n)
        if narrow(layer.op) not in PLACELESS:  # how much of its input a box needs depends on the place
            key = (*key, tile.y, tile.x, tile.c)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._work_out(layer, at, tile, part)
        return found

    def _work_out(self, layer: Layer, at: int, tile: Tile, part: int) -> Cost:
        ins, out = self._dims[at]
        job = Job(layer.op, ins[part if layer.op == "concat" else 0], out, layer.attrs, tile, part)
        port = self._port_bytes(layer, job, ins)
        cycles = ceil(port / self.target.memory.ocm_bytes_per_cycle)
        if layer.op in MAC_OPS:
            return self._mac(layer, job, port, cycles)
        if layer.op in COPIES or layer.op in GATHERS:
            moved = max(cycles, self._moved(layer, tile))  # no copy is faster than the port
            return Cost(compute=self._compute(layer, tile, part), data_ocm=moved, port_bytes=port)
        compute = self._compute(layer, tile, part)
        return Cost(compute=compute, data_ocm=max(0, cycles - compute), port_bytes=port)

    def _mac(self, layer: Layer, job: Job, port: int, cycles: int) -> Cost:
        """Steps over the taps and input channels of each output channel, the drain of each, then requantize.

        An input of 16 bits takes the steps, and the array's shifts, of several passes. Transfers run beside the MACs:
        only what exceeds them is charged.
        """
        passes = self.target.costs["int16_passes"] if in_bytes(layer.attrs) == 2 else 1
        job = in_numbers(job) if is_wide(job.op) else job
        costs, array, tile = self.target.costs, self.target.array, job.tile
        channels = self._tiles(tile) * ceil(tile.n / array.output_channels)
        depth = 1 if job.op == "depthwise" else job.in_dims[2] // layer.attrs["group"]
        steps = _taps(layer) * ceil(depth / array.input_channels) * array.cycles * passes
        mac = ceil(channels * (steps + costs["mac_drain"]))
        act = costs["interpolate"] if layer.attrs["act"] else 0
        return Cost(
            mac=mac,
            compute=ceil(self._tiles(tile) * tile.n * (costs["requantize"] + act)),
            data_array=ceil(self._tiles(tile) * tile.n * costs["array_shift"] * passes),
            data_ocm=max(0, cycles - mac),
            macs=_macs(layer, job, depth),
            port_bytes=port,
        )

    def _compute(self, layer: Layer, tile: Tile, part: int) -> int:
        costs, op = self.target.costs, narrow(layer.op)
        match op:
            case "lut" if in_bytes(layer.attrs) == 2:
                each = costs["interpolate"]
            case "add" | "mul" | "lut" | "requantize":
                each = costs[op]
            case "resize_linear":
                each = costs["resize"]
            case "max_pool" | "avg_pool":
                kernel = layer.attrs["kernel"]
                each = costs["pool_tap"] * kernel[0] * kernel[1] + costs["requantize"] * (op == "avg_pool")
            case "concat":
                each = costs["requantize"] if layer.attrs["parts"][4 * part + 2] else 0.0
            case _:
                each = 0.0
        return ceil(self._tiles(tile) * (tile.n // out_bytes(layer.attrs)) * each)

    def _moved(self, layer: Layer, tile: Tile) -> int:
        """Cycles of a copy by whole tiles, or of a gather by elements."""
        costs, elements = self.target.costs, tile.h * tile.w * tile.n
        if layer.op in GATHERS or (layer.op == "slice" and set(layer.attrs["step"]) != {1}):
            lines = ceil(elements / self._array_pixels)
            return ceil(lines * costs["gather"] + elements * costs["gather_per_element"])
        return ceil(elements / KIB * costs["copy_per_kib"])

    def _port_bytes(self, layer: Layer, job: Job, ins: Sequence[tuple[int, int, int]]) -> int:
        """Bytes between on-chip memory and array: each operand's box and the output, whole tiles unless one pixel."""
        total = self._box_bytes(job.tile)
        for index in range(tensor_reads(layer.op)):
            box = needed(job, index)
            total += 0 if is_empty(box) else self._box_bytes(box)
        return total

    def _box_bytes(self, box: Tile) -> int:
        pixels = box.h * box.w
        return box.n * (pixels if pixels == 1 else max(pixels, self._array_pixels))

    def _tiles(self, tile: Tile) -> int:
        return array_fills(self.target.array, tile.h, tile.w)

    @property
    def _array_pixels(self) -> int:
        return self.target.array.rows * self.target.array.columns


def array_fills(array: Array, height: int, width: int) -> int:
    """How many times so many output pixels fill the array; a line of tokens fills it as well as a square."""
    if 1 in (height, width):
        return ceil(height * width / (array.rows * array.columns))
    return ceil(height / array.rows) * ceil(width / array.columns)


def peak_macs(target: Target) -> float:
    """Multiply-accumulates that the array does in a cycle."""
    array = target.array
    return array.rows * array.columns * array.input_channels * array.output_channels / array.cycles


def _dims(layer: Layer, program: Program) -> tuple[list[tuple[int, int, int]], tuple[int, int, int]]:
    boxed = layer.inputs if layer.op == "concat" else layer.inputs[:1]
    return [dims_of(program.tensors[name].shape) for name in boxed], dims_of(program.tensors[layer.outputs[0]].shape)


def _taps(layer: Layer) -> int:
    """Taps that meet one output pixel: of a transposed convolution, those of one phase of its stride."""
    kh, kw, sh, sw = (int(v) for v in (*layer.attrs["kernel"], *layer.attrs["stride"]))
    if layer.op == "conv_transpose":
        return ceil(kh / sh) * ceil(kw / sw)
    return kh * kw


def _macs(layer: Layer, job: Job, depth: int) -> int:
    """Multiply-accumulates by definition, padding included; a transposed convolution has them by input pixel."""
    (kh, kw), tile = layer.attrs["kernel"], job.tile
    pixels: float = tile.h * tile.w
    if layer.op == "conv_transpose":
        pixels *= job.in_dims[0] * job.in_dims[1] / (job.out_dims[0] * job.out_dims[1])
    return round(pixels * tile.n * int(kh * kw) * depth)
