"""One compute command on one chip -> its cycles by category, from the primitive costs of the target.

A tile-channel is one channel of one array-sized tile, idle elements included: a tile of 47 x 50 pixels costs as much
as one of 64 x 64. The MAC array of a step covers `rows x columns` output pixels, `input_channels` and
`output_channels`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from axtool.ops import custom
from axtool.ops.boxes import Job, is_empty
from axtool.ops.elements import in_bytes, in_numbers, is_sized, narrow, out_bytes
from axtool.ops.encoding import MAC_OPS, PRODUCTS, ROW_OPS, dims_of, window_of
from axtool.ops.moves import COPIES, GATHERS
from axtool.ops.regions import needed, number_bytes, tensor_reads
from axtool.target import DEFAULT_COSTS, Target
from axtool.timing.array import (
    WINOGRAD_WEIGHTS,
    array_fills,
    hops,
    is_gathered,
    packs,
    saved,
    takes_winograd,
    weight_factor,
    work,
)
from axtool.timing.cost_mixed import MIXED_COSTS, narrowing, passes_of
from axtool.timing.cost_products import product_cycles
from axtool.timing.cost_rows import relayout_cycles, row_cycles
from axtool.types import Layer, Program, Tile

# A box of these needs as much of its inputs wherever it lies.
PLACELESS = ("add", "mul", "lut", "requantize", "transpose", *PRODUCTS, *ROW_OPS, *MIXED_COSTS)
# Ops that make one channel of each channel that they read, and use it for nothing else. Those of fx32 are none: the
# start of a flow hides behind the one in front, of four times as many bytes.
CHANNELWISE = ("depthwise", "add", "mul", "lut", "requantize")
KIB = 1024
OUTPUT = -1  # stands for the output among the operands of a command; inputs have their index
WEIGHTS = 1  # the operand of a MAC layer that holds its weights
NOTHING: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Cost:
    """What one command does, and the cycles that it adds where the engines take turns.

    `mac`, `compute` and `port` are busy cycles of MAC array, vector unit and on-chip port, `array` of transfers inside
    the array, weights included. Where engines take turns the port runs beside the MACs (a vector op's beside its ALU)
    and weights enter beside the MACs of the block in front: `data_ocm` and `data_array` are what exceeds them.
    """

    mac: int = 0
    compute: int = 0
    data_array: int = 0
    data_ocm: int = 0
    macs: int = 0
    port_bytes: int = 0
    port: int = 0
    array: int = 0
    blocks: int = 0  # of weights that enter; the MACs of a block wait for it
    pipelined: bool = False

    @property
    def total(self) -> int:
        """Cycles of the critical path: the sum where engines take turns, else those of the busiest."""
        if self.pipelined:
            return max(self.mac, self.compute, self.port, self.array)
        return self.mac + self.compute + self.data_array + self.data_ocm


class CostModel:
    """Costs of a program's tiles on a target; equal tiles of a layer are worked out once."""

    def __init__(self, program: Program, target: Target) -> None:
        self.program, self.target = program, target
        self._costs = {**DEFAULT_COSTS, **target.costs}
        self._known: dict[tuple[object, ...], Cost] = {}
        self._dims = [_dims(layer, program) for layer in program.layers]

    def cost(self, at: int, tile: Tile, part: int = 0, inside: frozenset[int] = NOTHING) -> Cost:
        """The cost of one output box of layer `at`.

        `inside` names the operands, by input index or OUTPUT, that stay in the array: they cross no port, and weights
        among them enter no more.
        """
        layer = self.program.layers[at]
        key: tuple[object, ...] = (at, part, tile.h, tile.w, tile.n, inside)
        if narrow(layer.op) not in PLACELESS:  # how much of its input a box needs depends on the place
            key = (*key, tile.y, tile.x, tile.c)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._work_out(layer, at, tile, part, inside)
        return found

    def weight_factor(self, at: int) -> float:
        """Bytes read for each byte of the weights of layer `at` (see `axtool.timing.array`)."""
        layer = self.program.layers[at]
        return weight_factor(layer, self._depth(layer, self._dims[at][0][0][2]), self.target)

    def saved(self, at: int) -> float:
        """Products of layer `at` for each one that the array does; 1 but for Winograd."""
        layer = self.program.layers[at]
        if layer.op not in MAC_OPS:
            return 1.0
        return saved(layer, self._depth(layer, self._dims[at][0][0][2]), self.target.array)

    def macs(self, at: int) -> int:
        """Multiply-accumulates of layer `at` by definition: rows that a cascade makes twice count once."""
        layer, (ins, out) = self.program.layers[at], self._dims[at]
        job = Job(layer.op, ins[0], out, layer.attrs, Tile(0, 0, 0, *out))
        if layer.op in PRODUCTS:
            return product_cycles(_counted(job), self.target.array, self._costs).macs
        if layer.op not in MAC_OPS:
            return 0
        return _macs(layer, _counted(job), self._depth(layer, ins[0][2]))

    def _depth(self, layer: Layer, channels: int) -> int:
        """Input channels, in numbers, that one output channel reads; `channels` of the input, in bytes."""
        if narrow(layer.op) == "depthwise" or layer.op not in MAC_OPS:
            return 1
        return channels // in_bytes(layer.attrs) // int(window_of(layer.attrs)["group"])

    def _work_out(self, layer: Layer, at: int, tile: Tile, part: int, inside: frozenset[int]) -> Cost:
        ins, out = self._dims[at]
        job = Job(layer.op, ins[part if layer.op == "concat" else 0], out, layer.attrs, tile, part)
        boxes, port_bytes = self._port_bytes(layer, job, ins, inside)
        flows = self._flows(layer, tile, boxes, inside)
        port = ceil(port_bytes / self.target.memory.ocm_bytes_per_cycle + flows * self._costs["flow"])
        if layer.op == "space_to_depth" and packs(layer, self.target):
            return self._packed(at, layer, tile, port_bytes)
        if layer.op in MAC_OPS and is_gathered(layer, self.target):
            port = self._gathered(layer, job, inside)
        if layer.op in MAC_OPS:
            return self._mac(layer, job, port_bytes, port, inside)
        if layer.op in PRODUCTS:
            return self._product(job, port_bytes, port)
        compute, pipelined = self._compute(layer, tile, part), self.target.engines.pipelined
        if layer.op in COPIES or layer.op in GATHERS:
            moved = self._moved(layer, at, tile)
            port = (moved if self._retiles(layer, at) else max(port, moved)) if port else 0
            exposed = port
        else:
            exposed = max(0, port - compute)
        relaid = self._relaid(layer, tile)
        return Cost(
            compute=compute, data_array=relaid, data_ocm=exposed, port_bytes=port_bytes, port=port, array=relaid,
            pipelined=pipelined,
        )  # fmt: skip

    def _mac(self, layer: Layer, job: Job, port_bytes: int, port: int, inside: frozenset[int]) -> Cost:
        """Steps over the taps and input channels of each output channel, the drain of each, then requantize.

        An input of 16 bits and one of fp16 take the steps, and the array's shifts, of several passes. Transfers run
        beside the MACs: only what exceeds them is charged.
        """
        target, costs = self.target, self._costs
        passes = passes_of(layer, costs)
        depth = self._depth(layer, job.in_dims[2])
        factor = WINOGRAD_WEIGHTS if takes_winograd(layer, depth, target.array) else 1.0
        job = _counted(job)
        tile, outputs = job.tile, self._tiles(job.tile) * job.tile.n
        todo = work(layer, tile, depth, job.out_dims[2], target.array)
        mac = ceil(todo.fills * todo.channels * (todo.steps * passes + costs["mac_drain"]))
        reach = ceil(depth / target.array.input_channels) * hops(layer) * costs["window_shift"]
        shifts = ceil(outputs * (costs["array_shift"] + reach) * passes)
        rate = target.array.weights_bytes_per_cycle
        entering, blocks = 0, 0
        if rate is not None and WEIGHTS not in inside:
            kh, kw = window_of(layer.attrs)["kernel"]
            size = kh * kw * depth * tile.n * number_bytes(layer.op, WEIGHTS)
            entering, blocks = ceil(size * factor / rate), todo.channels * todo.blocks
        act = costs["interpolate"] if window_of(layer.attrs)["act"] else 0
        return Cost(
            mac=mac,
            compute=ceil(outputs * (costs["requantize"] + act) + self._tiles(tile) * narrowing(layer, depth, costs)),
            data_array=shifts + _exposed(entering, mac, blocks),
            data_ocm=max(0, port - mac),
            macs=_macs(layer, job, depth),
            port_bytes=port_bytes,
            port=port,
            array=shifts + entering,
            blocks=blocks,
            pipelined=target.engines.pipelined,
        )

    def _product(self, job: Job, port_bytes: int, port: int) -> Cost:
        """Two activations: transfers run beside the MACs."""
        work = product_cycles(_counted(job), self.target.array, self._costs)
        return Cost(
            mac=work.mac,
            compute=work.compute,
            data_ocm=max(0, port - work.mac),
            macs=work.macs,
            port_bytes=port_bytes,
            port=port,
            pipelined=self.target.engines.pipelined,
        )

    def _compute(self, layer: Layer, tile: Tile, part: int) -> int:
        costs, op = self._costs, narrow(layer.op)
        if op in (*ROW_OPS, "arg_max"):
            channels = self.program.tensors[layer.inputs[0]].numbers[2]
            return ceil(row_cycles(layer, tile, channels, self.target.array, costs))
        match op:
            case _ if op in MIXED_COSTS:
                each = costs[MIXED_COSTS[op]]
            case "lut" if in_bytes(layer.attrs) == 2:
                each = costs["interpolate"]
            case "add" | "mul" | "lut" | "requantize":
                each = costs[op]
            case "resize_linear":
                general = costs["resize_general"] or costs["resize"]
                each = costs["resize"] if max(layer.attrs["factor"]) == 2 else general
            case "max_pool" | "avg_pool":
                kernel = layer.attrs["kernel"]
                each = costs["pool_tap"] * kernel[0] * kernel[1] + costs["requantize"] * (op == "avg_pool")
            case "custom":
                return ceil(custom.cost_of(layer.attrs["id"], tile.h, tile.w, tile.n))
            case "concat":
                each = costs["requantize"] if layer.attrs["parts"][4 * part + 2] else 0.0
            case _:
                each = 0.0
        return ceil(self._tiles(tile) * (tile.n // out_bytes(layer.attrs)) * each)

    def _relaid(self, layer: Layer, tile: Tile) -> int:
        """Cycles in which the array turns what a layer reads and makes."""
        if narrow(layer.op) not in ROW_OPS:
            return 0
        channels = tile.n // out_bytes(layer.attrs)
        return ceil(relayout_cycles(layer, tile, channels, self.target.array, self._costs))

    def _retiles(self, layer: Layer, at: int) -> bool:
        """Whether a line of tokens becomes a map, a map a line, or rows lie side by side: by tiles, each read once."""
        (h, w, c), out = self._dims[at][0][0], self._dims[at][1]
        return layer.op == "reshape" and (c == out[2] or out == (1, h, w * c))

    def _moved(self, layer: Layer, at: int, tile: Tile) -> int:
        """Cycles of a copy by whole tiles, or of a gather by elements."""
        costs, elements = self._costs, tile.h * tile.w * tile.n
        if self._retiles(layer, at):
            return ceil(elements / KIB * costs["copy_per_kib"])
        if layer.op in GATHERS or (layer.op == "slice" and set(layer.attrs["step"]) != {1}):
            lines = ceil(elements / self._array_pixels)
            return ceil(lines * costs["gather"] + elements * costs["gather_per_element"])
        return ceil(elements / KIB * costs["copy_per_kib"])

    def _gathered(self, layer: Layer, job: Job, inside: frozenset[int]) -> int:
        """Cycles in which the window of each tile is fetched tap by tap, and the output written.

        A load fetches what one tap of one input channel meets.
        """
        kh, kw = layer.attrs["kernel"]
        costs, tile = self._costs, job.tile
        loads = int(needed(job, 0).n * kh * kw)
        start = loads * self._tiles(tile) * costs["gather"]
        written = 0 if OUTPUT in inside else self._box_bytes(tile) / self.target.memory.ocm_bytes_per_cycle
        return ceil(start + loads * tile.h * tile.w * costs["gather_per_element"] + written)

    def _packed(self, at: int, layer: Layer, tile: Tile, port_bytes: int) -> Cost:
        """A pass of space-to-depth that reads blocks packed: a copy by tiles; none where a MAC layer reads it so."""
        readers = [one for one in self.program.layers if layer.outputs[0] in one.inputs]
        if readers and all(one.op in MAC_OPS for one in readers):
            return Cost(pipelined=self.target.engines.pipelined)
        port = ceil(tile.h * tile.w * tile.n / KIB * self._costs["copy_per_kib"])
        return Cost(data_ocm=port, port_bytes=port_bytes, port=port, pipelined=self.target.engines.pipelined)

    def _port_bytes(
        self, layer: Layer, job: Job, ins: Sequence[tuple[int, int, int]], inside: frozenset[int]
    ) -> tuple[int, int]:
        """Boxes and bytes between on-chip memory and array: each operand's and the output's, unless they stay inside.

        A box counts as whole tiles of the array, unless it is one pixel or passes by all elements, as keys do.
        """
        reads = range(tensor_reads(layer.op, layer.attrs))
        crossing = [i for i in reads if (job.part if layer.op == "concat" else i) not in inside]
        boxes = [(needed(job, index), index > 0 and layer.op in PRODUCTS) for index in crossing]
        boxes += [] if OUTPUT in inside else [(_by_pixel(job), False)]
        sizes = [
            box.h * box.w * box.n if passes else self._box_bytes(box) for box, passes in boxes if not is_empty(box)
        ]
        return len(sizes), sum(sizes)

    def _flows(self, layer: Layer, tile: Tile, boxes: int, inside: frozenset[int]) -> int:
        """Tile flows of a command: one a box, of which a MAC layer uses every channel for all that it makes.

        What uses a channel that it reads once has a flow for each tile-channel, and so has what it makes, unless it
        goes on with what the layer in front has in the array.
        """
        handed = inside - ({OUTPUT, WEIGHTS} if layer.op in MAC_OPS else {OUTPUT})
        if narrow(layer.op) not in CHANNELWISE or handed:
            return boxes
        return boxes * self._tiles(tile) * (tile.n // out_bytes(layer.attrs))

    def _box_bytes(self, box: Tile) -> int:
        pixels = box.h * box.w
        return box.n * (pixels if pixels == 1 else max(pixels, self._array_pixels))

    def _tiles(self, tile: Tile) -> int:
        return array_fills(self.target.array, tile.h, tile.w)

    @property
    def _array_pixels(self) -> int:
        return self.target.array.rows * self.target.array.columns


def _by_pixel(job: Job) -> Tile:
    """The output box of a job, in bytes, with an element of the array for each of its pixels."""
    tile = job.tile
    if not job.attrs.get("flat"):
        return tile
    size = out_bytes(job.attrs)
    return Tile(0, 0, 0, tile.w, tile.n // size, size)  # a row of pixels lies in channels


def _exposed(entering: int, mac: int, blocks: int) -> int:
    """Cycles in which equal blocks of weights enter and no MACs run: the first, and what exceeds the block in front."""
    if not blocks:
        return 0
    return ceil(entering / blocks + (blocks - 1) * max(0.0, (entering - mac) / blocks))


def _counted(job: Job) -> Job:
    """The job in numbers."""
    return in_numbers(job) if is_sized(job.attrs) else job


def _dims(layer: Layer, program: Program) -> tuple[list[tuple[int, int, int]], tuple[int, int, int]]:
    boxed = layer.inputs if layer.op == "concat" else layer.inputs[:1]
    return [dims_of(program.tensors[name].shape) for name in boxed], dims_of(program.tensors[layer.outputs[0]].shape)


def _macs(layer: Layer, job: Job, depth: int) -> int:
    """Multiply-accumulates by definition, padding included; a transposed convolution has them by input pixel."""
    (kh, kw), tile = window_of(layer.attrs)["kernel"], job.tile
    pixels: float = tile.h * tile.w
    if layer.op == "conv_transpose":
        pixels *= job.in_dims[0] * job.in_dims[1] / (job.out_dims[0] * job.out_dims[1])
    return round(pixels * tile.n * int(kh * kw) * depth)
