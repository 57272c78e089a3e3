"""Limits of the multiply-accumulate ops: Conv, ConvTranspose, Gemm, MatMul."""

from __future__ import annotations

from axtool.ops.limits_core import limit, shape_of
from axtool.target import Target
from axtool.types import Site

MAC = ("Conv", "ConvTranspose", "Gemm", "MatMul")
MOST_DEPTH = 2**15  # of `axtool.ops.legal`
CONVS = ("Conv", "ConvTranspose")


def is_pair(site: Site) -> bool:
    """Whether a MatMul multiplies two activations."""
    return site.op == "MatMul" and not any(name in site.constants for name in site.inputs)


@limit("MatMul", advice="Split the sum in two MatMuls and add them.")
def matmul_depth(site: Site, target: Target) -> str | None:
    """A product of two activations sums at most 2^15 products, so that int32 holds it."""
    depth = shape_of(site, site.inputs[0])[-1]
    return f"there are {depth:,}" if is_pair(site) and depth > MOST_DEPTH else None


@limit(*MAC, advice="Make the weights initializers; weights computed at run time stay on the host.")
def constant_weights(site: Site, target: Target) -> str | None:
    """Weights and bias are constants, and the data is the first input; a MatMul may have two activations where the
    formats of the target have fx32."""
    if is_pair(site) and "fx32" in target.formats:
        return None
    if site.inputs[0] in site.constants:
        return f"the first input, '{site.inputs[0]}', is the constant"
    for name in site.inputs[1:]:
        if name and name not in site.constants:
            return f"'{name}' is known only at run time"
    return None


@limit(*CONVS, advice="Split a 3-D convolution into 2-D ones, or keep it on the host.")
def spatial_axes(site: Site, target: Target) -> str | None:
    """Convolutions have one or two spatial axes."""
    spatial = len(shape_of(site, site.inputs[0])) - 2
    return None if spatial in (1, 2) else f"there are {max(spatial, 0)}"


@limit(*CONVS, advice="Use several smaller convolutions.")
def kernel(site: Site, target: Target) -> str | None:
    """Kernels are at most {max_kernel} on each axis."""
    sides = tuple(site.attrs["kernel"])
    return f"the kernel is {sides}" if max(sides) > target.limits.get("max_kernel", max(sides)) else None


@limit(*CONVS, advice="Use a smaller stride, and pool or slice after it.")
def stride(site: Site, target: Target) -> str | None:
    """Strides are at most {max_stride}."""
    steps = tuple(site.attrs["strides"])
    return f"strides are {steps}" if max(steps) > target.limits.get("max_stride", max(steps)) else None


@limit(*CONVS, advice="Use a smaller dilation.")
def dilation(site: Site, target: Target) -> str | None:
    """Dilations are at most {max_dilation}."""
    steps = tuple(site.attrs["dilations"])
    return f"dilations are {steps}" if max(steps) > target.limits.get("max_dilation", max(steps)) else None


@limit("Conv", advice="Slice the input instead of cropping it with a negative pad.")
def conv_pads(site: Site, target: Target) -> str | None:
    """Pads of a convolution are not negative."""
    pads = tuple(site.attrs["pads"])
    return f"pads are {pads}" if min(pads) < 0 else None


@limit("ConvTranspose", advice="Slice the output instead of cropping it with a pad below zero.")
def transposed_pads(site: Site, target: Target) -> str | None:
    """Pads before a transposed convolution are not negative."""
    pads = tuple(site.attrs["pads"])
    return f"pads are {pads}" if min(pads[:2]) < 0 else None


@limit("Gemm", advice="Transpose before the Gemm; the device reads one row of data.")
def gemm_rows(site: Site, target: Target) -> str | None:
    """Gemm multiplies one row, A of shape [1, K] with transA 0."""
    shape = shape_of(site, site.inputs[0])
    if site.attrs.get("transA", 0):
        return "transA is 1"
    return None if len(shape) == 2 else f"A has the shape {shape}"


@limit("Gemm", advice="Give C one value for each output column.")
def gemm_bias(site: Site, target: Target) -> str | None:
    """C of a Gemm is one value, or one for each output column: [], [1], [N], [1, 1] or [1, N]."""
    if len(site.inputs) < 3 or not site.inputs[2]:
        return None
    shape = shape_of(site, site.inputs[2])
    columns = site.shapes[site.outputs[0]][-1]
    good = len(shape) <= 2 and all(n == 1 for n in shape[:-1]) and (not shape or shape[-1] in (1, columns))
    return None if good else f"C has the shape {shape}"


@limit("MatMul", advice="Unsqueeze the operands to matrices, or split a batch of weights into several MatMuls.")
def matmul_weights(site: Site, target: Target) -> str | None:
    """MatMul takes one matrix of weights, [K, N], or two activations of 3 or 4 dimensions with the same leading ones,
    of which the second may have ones there."""
    shape = shape_of(site, site.inputs[1])
    if is_pair(site):
        left = shape_of(site, site.inputs[0])
        good = 3 <= len(left) == len(shape) and all(n in (1, of) for n, of in zip(shape[:-2], left[:-2], strict=True))
        return None if good else f"the operands have the shapes {left} and {shape}"
    good = len(shape) >= 2 and all(n == 1 for n in shape[:-2])
    return None if good else f"the weights have the shape {shape}"
