"""A box of a layer's output -> what of each input must be on chip: boxes of tensors, bytes of constants."""

from __future__ import annotations

from axtool.ops.boxes import Job, is_empty, whole
from axtool.ops.encoding import dims_of
from axtool.ops.reference_elementwise import part_box
from axtool.ops.regions import needed, tensor_reads
from axtool.types import Layer, Program, Tile


def boxed_inputs(layer: Layer) -> int:
    """How many of a layer's inputs are tensors read in boxes; the rest are flat constants."""
    return len(layer.inputs) if layer.op == "concat" else tensor_reads(layer.op, layer.attrs)


def job_of(layer: Layer, program: Program, box: Tile, part: int = 0) -> Job:
    """The work that makes one output box."""
    first = layer.inputs[part if layer.op == "concat" else 0]
    dims = dims_of(program.tensors[first].shape)
    return Job(layer.op, dims, dims_of(program.tensors[layer.outputs[0]].shape), layer.attrs, box, part)


def need(layer: Layer, program: Program, index: int, box: Tile) -> Tile:
    """The box of input `index` that the output box is computed from.

    A box that looks at padding alone needs nothing: it gets one element near by, so that every view is a real place.
    """
    part = index if layer.op == "concat" else 0
    tile = needed(job_of(layer, program, box, part), 0 if layer.op == "concat" else index)
    if not is_empty(tile):
        return tile
    h, w, c = dims_of(program.tensors[layer.inputs[index]].shape)
    y, x, first = (min(max(at, 0), size - 1) for at, size in ((tile.y, h), (tile.x, w), (tile.c, c)))
    return Tile(y, x, first, 1, 1, max(1, min(tile.n, c - first)))


def concat_box(layer: Layer, program: Program, index: int) -> Tile:
    """The box of a concat's output that input `index` fills."""
    return part_box(job_of(layer, program, whole_box(program, layer.outputs[0]), index))


def whole_box(program: Program, tensor: str) -> Tile:
    """The box that is all of a tensor."""
    return whole(dims_of(program.tensors[tensor].shape))


def sliceable(layer: Layer) -> bool:
    """Whether weights and parameters may come in slices: their blocks of output channels are outermost.

    Those of a depthwise layer are too small to be worth the requests.
    """
    return layer.op in ("conv", "conv_transpose", "wide_conv", "fp16_linear")


def slices(layer: Layer, program: Program, box: Tile) -> tuple[Tile, Tile]:
    """The bytes of the weights and of the parameters that an output box needs, as flat boxes."""
    job = job_of(layer, program, box)
    return needed(job, 1), needed(job, 2)
