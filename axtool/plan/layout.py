"""How an ONNX tensor lies in memory as (1, h, w, c), and a layout for every tensor that keeps movement low."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from axtool.ops import custom
from axtool.ops.limits_core import data_inputs, data_outputs, shape_of
from axtool.ops.limits_elementwise import slope_axis
from axtool.ops.limits_movement import RESIZE, SHAPE_OPS, resize_factors
from axtool.ops.limits_rows import REDUCTIONS, ROW_OPS, row_axis_of
from axtool.types import Layout, Site

Axes = tuple[int | None, int | None, int | None]  # the ONNX axis that is stored as h, w and c; None is an axis of one
Perm = tuple[int, int, int]

FIRST: Layout = "channel_first"
LAST: Layout = "channel_last"
IMAGE_OPS = (
    "Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "DepthToSpace",
    "SpaceToDepth", "BatchNormalization",
)  # fmt: skip
_AXES: Mapping[tuple[int, Layout], Axes] = {
    (4, FIRST): (2, 3, 1),
    (4, LAST): (1, 2, 3),
    (3, FIRST): (None, 2, 1),
    (3, LAST): (None, 1, 2),
    (2, LAST): (None, 0, 1),
    (1, LAST): (None, None, 0),
}


def layout_for(rank: int, layout: Layout) -> Layout:
    """The layout itself; below 3 dimensions there is only one."""
    return layout if rank > 2 else LAST


def axes_of(rank: int, layout: Layout) -> Axes:
    """The ONNX axis stored as each of h, w, c."""
    return _AXES[rank, layout_for(rank, layout)]


def stored_shape(shape: Sequence[int], layout: Layout, number_bytes: int = 1) -> tuple[int, int, int, int]:
    """(1, h, w, c) of an ONNX shape, c in bytes."""
    h, w, c = (1 if axis is None else int(shape[axis]) for axis in axes_of(len(shape), layout))
    return 1, h, w, c * number_bytes


def permutation(have: Axes, want: Axes) -> Perm:
    """The transpose of (h, w, c) from one assignment of axes to another. Axes of one fill the places left over."""
    found = [have.index(axis) if axis is not None and axis in have else None for axis in want]
    spare = iter(place for place in range(3) if place not in found)
    h, w, c = (next(spare) if place is None else place for place in found)
    return h, w, c


def moves_nothing(stored: Sequence[int], perm: Perm) -> bool:
    """Whether the transpose of a stored (1, h, w, c) leaves every byte where it is."""
    dims = tuple(stored[1:])
    long = [place for place in perm if dims[place] > 1]
    return long == sorted(long) and tuple(dims[place] for place in perm) == dims


@lru_cache(maxsize=4096)
def keeps_order(shape: tuple[int, ...], layout: Layout, made: tuple[int, ...], made_layout: Layout) -> bool:
    """Whether reshaping `shape` into `made` (in ONNX order) keeps the order of the stored elements."""
    numbers = np.arange(prod(shape), dtype=np.int32)
    return np.array_equal(_in_stored_order(numbers, shape, layout), _in_stored_order(numbers, made, made_layout))


def cheapest_reshape(
    shape: tuple[int, ...], have: Layout, made: tuple[int, ...], want: Layout
) -> tuple[Layout, Layout]:
    """The layouts of the two ends of a reshape that need the fewest transposes before and after it."""
    ends = ((first, last) for first in (FIRST, LAST) for last in (FIRST, LAST))
    pairs = [pair for pair in ends if keeps_order(shape, pair[0], made, pair[1])]  # both last is always one
    return min(pairs, key=lambda pair: (pair[0] != have) + (pair[1] != want))


def wanted_layout(site: Site) -> Layout | None:
    """The layout that an op needs its data in, or None when either will do."""
    rank = len(shape_of(site, site.inputs[0]))
    if site.domain == custom.DOMAIN:  # (h, w, c) is what the user's code was promised
        return FIRST if rank == 4 else LAST
    if site.op in IMAGE_OPS:
        return layout_for(rank, FIRST)
    if site.op in ("MatMul", "Gemm", "Attention"):
        return LAST
    if site.op == "ReduceMean":
        return layout_for(rank, FIRST if max(site.attrs["axes"]) == rank - 1 else LAST)
    if site.op in REDUCTIONS:
        return layout_for(rank, FIRST if min(site.attrs["axes"]) > 1 else LAST)
    if site.op in ROW_OPS:
        return layout_for(rank, LAST if row_axis_of(site) == rank - 1 else FIRST)
    if site.op == "PRelu":
        return _by_axis(slope_axis(site) or 0, rank, channel=True)
    if site.op in RESIZE:
        changed = [axis for axis, factor in enumerate(resize_factors(site) or ()) if factor > 1]
        return (FIRST if max(changed) == rank - 1 else LAST if 1 in changed else FIRST) if changed else None
    return None


def infer_layouts(sites: Sequence[Site], inputs: Sequence[str]) -> dict[str, Layout]:
    """A layout for each tensor: what its maker gives, its readers want, or what spares a transpose, in that order."""
    demands = _demands(sites)
    layouts: dict[str, Layout] = {}
    shapes = {name: shape for site in sites for name, shape in site.shapes.items()}
    for name in inputs:
        if name in shapes:
            layouts[name] = demands.get(name, _default(len(shapes[name])))
    for site in sites:
        for name in data_outputs(site):
            layouts[name] = _made_layout(site, name, layouts, demands)
    return layouts


def _by_axis(axis: int, rank: int, *, channel: bool) -> Layout | None:
    if axis == 0 or rank < 3:
        return None
    return FIRST if (axis == 1) is channel else LAST


def _default(rank: int) -> Layout:
    return FIRST if rank == 4 else LAST


def _demands(sites: Sequence[Site]) -> dict[str, Layout]:
    """What the readers of each tensor want: the first one with a need of its own, else what is wanted downstream."""
    demands: dict[str, Layout] = {}
    for site in reversed(sites):
        need = wanted_layout(site)
        if need is not None:
            for name in data_inputs(site):
                demands[name] = layout_for(len(site.shapes[name]), need)
        elif site.outputs[0] in demands:
            for name in data_inputs(site):
                wish = _before(site, name, demands[site.outputs[0]])
                if wish is not None:
                    demands.setdefault(name, wish)
    return demands


def _before(site: Site, name: str, after: Layout) -> Layout | None:
    """The layout of an input from which an op that only passes values on makes the layout `after` for nothing."""
    shape, made = site.shapes[name], site.shapes[site.outputs[0]]
    if site.op == "Transpose":
        return next((have for have in (FIRST, LAST) if _free_transpose(site, have, after)), None)
    if site.op in SHAPE_OPS:
        return next((have for have in (LAST, FIRST) if keeps_order(shape, have, made, after)), None)
    return layout_for(len(shape), after) if len(shape) == len(made) else None


def _made_layout(site: Site, name: str, layouts: Mapping[str, Layout], demands: Mapping[str, Layout]) -> Layout:
    shape = site.shapes[name]
    need = wanted_layout(site)
    if need is not None:
        return layout_for(len(shape), need)
    wish = layout_for(len(shape), demands.get(name, _default(len(shape))))
    choices = (wish, LAST if wish == FIRST else FIRST)
    source = site.inputs[0]
    if site.op == "Transpose":
        return next((made for made in choices if _free_transpose(site, layouts[source], made)), wish)
    if site.op in SHAPE_OPS:
        held = layouts[source]
        return next((made for made in choices if keeps_order(site.shapes[source], held, shape, made)), wish)
    given = {layouts[x] for x in data_inputs(site) if len(site.shapes[x]) == len(shape) and x in layouts}
    return layout_for(len(shape), given.pop() if len(given) == 1 else wish)


def transposed_axes(site: Site, made: Layout) -> Axes:
    """The input axis of a Transpose that is stored as each of h, w, c when its output has the layout `made`."""
    perm = site.attrs["perm"]
    h, w, c = (None if axis is None else int(perm[axis]) for axis in axes_of(len(perm), made))
    return h, w, c


def _free_transpose(site: Site, have: Layout, made: Layout) -> bool:
    shape = site.shapes[site.inputs[0]]
    perm = permutation(axes_of(len(shape), have), transposed_axes(site, made))
    return moves_nothing(stored_shape(shape, have), perm)


def _in_stored_order(numbers: NDArray[np.int32], shape: tuple[int, ...], layout: Layout) -> NDArray[np.int32]:
    kept = [axis for axis in axes_of(len(shape), layout) if axis is not None]
    rest = [axis for axis in range(len(shape)) if axis not in kept]
    return numbers.reshape(shape).transpose(rest + kept).reshape(-1)
