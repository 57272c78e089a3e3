"""Limits of pooling and of means over space."""

from __future__ import annotations

from axtool.ops.limits_core import bound, has_kernel, limit, shape_of
from axtool.target import Target
from axtool.types import Site

POOLS = ("MaxPool", "AveragePool")
GLOBAL = ("GlobalAveragePool", "GlobalMaxPool")

has_kernel(GLOBAL)


@limit(*POOLS, *GLOBAL, advice="Pool one or two axes at a time.")
def pooled_axes(site: Site, target: Target) -> str | None:
    """Pools have one or two spatial axes."""
    spatial = len(shape_of(site, site.inputs[0])) - 2
    return None if spatial in (1, 2) else f"there are {max(spatial, 0)}"


@limit(*POOLS, advice="Use several smaller pools.")
def pool_kernel(site: Site, target: Target) -> str | None:
    """Pool windows are at most {max_pool_kernel} on each axis, or as large as the axis."""
    sides, data = tuple(site.attrs["kernel"]), _pair(shape_of(site, site.inputs[0])[2:])
    over = [side for side, size in zip(sides, data, strict=True) if side != size]
    return f"the window is {sides}" if over and max(over) > (bound(target, "max_pool_kernel") or max(over)) else None


@limit(*POOLS, advice="Use a smaller stride, and slice after it.")
def pool_stride(site: Site, target: Target) -> str | None:
    """Pool strides are at most {max_pool_stride}."""
    steps = tuple(site.attrs["strides"])
    return f"strides are {steps}" if max(steps) > (bound(target, "max_pool_stride") or max(steps)) else None


@limit(*POOLS, advice="Reduce the pads: a window of nothing but padding has no value.")
def windows_see_data(site: Site, target: Target) -> str | None:
    """Pads are not negative, and every pool window covers at least one element."""
    pads = tuple(site.attrs["pads"])
    if min(pads) < 0:
        return f"pads are {pads}"
    data, out = shape_of(site, site.inputs[0])[2:], shape_of(site, site.outputs[0])[2:]
    for axis, (have, made) in enumerate(zip(_pair(data), _pair(out), strict=True)):
        k, s, d = (site.attrs[name][axis] for name in ("kernel", "strides", "dilations"))
        last = (made - 1) * s - pads[axis]
        # Only a window that starts in front of the data can miss it with a later tap: of the others the last is enough.
        # Without dilation the first of them has the fewest elements.
        early = range(-pads[axis], 0, s)[: made if d > 1 else 1]
        for start in (*early, last):
            if not _meets(start, k, d, have):
                return f"a window starts at {start} of an axis of {have}"
    return None


def _meets(start: int, kernel: int, dilation: int, size: int) -> bool:
    """Whether a tap of the window that starts there is inside an axis of that size."""
    first = max(0, -(start // dilation))  # the first tap that is not in front of the axis
    return first < kernel and start + first * dilation < size


@limit("AveragePool", advice="Use a depthwise convolution with equal weights instead.")
def average_dilation(site: Site, target: Target) -> str | None:
    """AveragePool is not dilated."""
    steps = tuple(site.attrs["dilations"])
    return f"dilations are {steps}" if max(steps) > 1 else None


@limit("MaxPool", advice="Leave the second output out; unpooling stays on the host.")
def one_output(site: Site, target: Target) -> str | None:
    """MaxPool gives the maxima, not their indices."""
    extra = [name for name in site.outputs[1:] if name]
    return f"the indices are asked for as '{extra[0]}'" if extra else None


@limit("ReduceMean", advice="Average over both spatial axes at once, or reduce on the host.")
def mean_axes(site: Site, target: Target) -> str | None:
    """ReduceMean averages over exactly the spatial axes."""
    rank = len(shape_of(site, site.inputs[0]))
    axes = tuple(site.attrs["axes"])
    good = {4: ((2, 3), (1, 2)), 3: ((2,), (1,))}.get(rank, ())
    return None if axes in good else f"it averages over the axes {axes} of {rank} dimensions"


def _pair(spatial: tuple[int, ...]) -> tuple[int, ...]:
    """Spatial sizes as (h, w); one axis is a row of height 1."""
    return (1, *spatial) if len(spatial) == 1 else spatial
