"""Rules that a target may choose, of the ops that multiply: convolutions, Gemm, and the block of attention.

The block is the one that YOLO11 and its relatives have: queries and keys are cut out of one convolution, multiplied
head by head, put through a Softmax, and multiplied with the values. A compiler that knows the block as a whole runs
its MatMul, Softmax, Reshape and Transpose there and nowhere else.
"""

from __future__ import annotations

from math import prod

from axtool.ops.limits_core import choice, data_inputs, shape_of
from axtool.target import Target
from axtool.types import Site

WINDOWS = ("Conv", "ConvTranspose", "AveragePool", "MaxPool")
# What stands next to a Reshape or Transpose of the block; Mul scales the scores.
BLOCK = frozenset({"MatMul", "Softmax", "Split", "Mul"})
SWAP_LAST = (0, 1, 3, 2)


@choice(*WINDOWS, advice="Export with explicit pads: pads=[top, left, bottom, right] and no auto_pad.")
def explicit_pads(site: Site, target: Target) -> str | None:
    """Pads are written out: auto_pad is NOTSET."""
    auto = str(site.raw.get("auto_pad", "NOTSET"))
    return None if auto == "NOTSET" else f"auto_pad is {auto}"


@choice("Conv", advice="Use one group, or a smaller square kernel with equal strides and dilations.")
def grouped_square(site: Site, target: Target) -> str | None:
    """A convolution in groups has a square kernel, equal strides, equal dilations and at most {max_grouped_taps} taps,
    the gaps of its dilation counted."""
    if site.attrs["group"] == 1:
        return None
    for name in ("kernel", "strides", "dilations"):
        if len(set(site.attrs[name])) > 1:
            return f"with {site.attrs['group']} groups {name} are {tuple(site.attrs[name])}"
    spread = [(k - 1) * d + 1 for k, d in zip(site.attrs["kernel"], site.attrs["dilations"], strict=True)]
    over = prod(spread) > target.limits.get("max_grouped_taps", prod(spread))
    return f"the window spans {spread[0]} x {spread[1]} = {prod(spread)}" if over else None


@choice("ConvTranspose", advice="Use one group: put the weights of all into one kernel, with zeros.")
def transposed_group(site: Site, target: Target) -> str | None:
    """A transposed convolution has one group."""
    group = site.attrs["group"]
    return None if group == 1 else f"there are {group}"


@choice("ConvTranspose", advice="Use equal pads on both ends, and slice or pad after it.")
def transposed_pads_symmetric(site: Site, target: Target) -> str | None:
    """A transposed convolution has the same pads at both ends of an axis."""
    pads = tuple(int(p) for p in site.raw.get("pads", ()))
    half = len(pads) // 2
    return None if pads[:half] == pads[half:] else f"pads are {pads}"


@choice("ConvTranspose", advice="Leave output_shape out; pads and output_padding say the same.")
def transposed_shape_free(site: Site, target: Target) -> str | None:
    """A transposed convolution has no output_shape."""
    shape = tuple(int(n) for n in site.raw.get("output_shape", ()))
    return f"output_shape is {shape}" if shape else None


@choice("Gemm", advice="Transpose A in front of the Gemm.")
def gemm_straight(site: Site, target: Target) -> str | None:
    """Gemm has transA 0."""
    return "transA is 1" if site.attrs.get("transA", 0) else None


@choice("MatMul", advice="Write a product with constant weights as a 1x1 convolution or a Gemm.")
def attention_matmul(site: Site, target: Target) -> str | None:
    """MatMul runs inside an attention block only: two operands of the run time, [1, heads, M, K] and
    [1, heads, K, N]."""
    if len(data_inputs(site)) < 2:
        fixed = [name for name in site.inputs if name in site.constants]
        return f"'{fixed[0]}' is a constant"
    shapes = [shape_of(site, name) for name in site.inputs]
    good = all(len(shape) == 4 for shape in shapes) and shapes[0][:2] == shapes[1][:2]
    return None if good else f"the operands have the shapes {shapes[0]} and {shapes[1]}"


@choice("Softmax", advice="Nothing to do at the end of a network: the host computes it. Elsewhere avoid it.")
def attention_softmax(site: Site, target: Target) -> str | None:
    """Softmax runs inside an attention block only: along the last axis of scores [1, heads, N, N]."""
    shape = shape_of(site, site.inputs[0])
    if len(shape) != 4 or shape[2] != shape[3] or site.attrs["axis"] != 3:
        return f"the axis is {site.attrs['axis']} of {shape}"
    near = _neighbours(site)
    return None if near & {"MatMul", "Transpose"} else f"its neighbours are {_names(near)}"


@choice("Reshape", advice="Remove it, or move it to the end of the network, where the host computes it.")
def attention_reshape(site: Site, target: Target) -> str | None:
    """Reshape only drops or adds axes of one element, except next to an attention block, where it cuts channels into
    heads and rows into one axis, or back."""
    data, out = shape_of(site, site.inputs[0]), shape_of(site, site.outputs[0])
    if _without_ones(data) == _without_ones(out):
        return None
    near = _neighbours(site)
    if (_cuts_heads(data, out) or _cuts_heads(out, data)) and near & (BLOCK | {"Transpose"}):
        return None
    return f"it makes {out} of {data} between {_names(near)}"


@choice("Transpose", advice="Export the network in NCHW, and transpose at its end on the host.")
def attention_transpose(site: Site, target: Target) -> str | None:
    """Transpose is the identity, except in an attention block, where it may swap the last two of 4 axes."""
    perm = tuple(site.attrs["perm"])
    if perm == tuple(range(len(perm))):
        return None
    near = _neighbours(site)
    if perm == SWAP_LAST and near & BLOCK:
        return None
    return f"perm is {perm} between {_names(near)}"


def _cuts_heads(image: tuple[int, ...], heads: tuple[int, ...]) -> bool:
    """[1, heads * d, H, W] -> [1, heads, d, H * W]."""
    whole = len(image) == len(heads) == 4 and image[0] == heads[0]
    return whole and image[1] == heads[1] * heads[2] and image[2] * image[3] == heads[3]


def _neighbours(site: Site) -> set[str]:
    """The ops that make what the node reads or read what it makes."""
    readers = {op for name in site.outputs for op in site.readers.get(name, ())}
    return ({site.makers.get(name, "") for name in data_inputs(site)} | readers) - {""}


def _names(ops: set[str]) -> str:
    return ", ".join(sorted(ops)) or "none"


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)
