"""Channels of very different size between MAC sites  ->  the same float function with channels of like size.

A tensor that MAC sites make and MAC sites read may be multiplied by a positive factor for each channel: the rows of
the weights that make it take the factor, the columns of those that read it the inverse, and what lies between passes
it on (Nagel et al., Data-Free Quantization, arXiv:1906.04721, section 4.1). int8 has one scale for a whole tensor: a
small channel beside a large one would have hardly any levels.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.errors import UsageError
from axtool.quant.ranges import Ranges, Rows
from axtool.quant.weights import weight_name
from axtool.types import Site

Floats = NDArray[np.float64]
Extremes = Mapping[str, tuple[NDArray[Any], NDArray[Any]]]  # (low, high) of each channel, by tensor

# f(k x) = k f(x) for each k > 0, channel by channel. A Clip is not: its upper bound would differ from channel to
# channel. Where calibration never reached the bound other data does, and it cost 4 to 13 dB on EfficientNet-Lite0.
PASSING = frozenset(
    {"Relu", "LeakyRelu", "PRelu", "Identity", "Dropout", "MaxPool", "AveragePool", "GlobalAveragePool",
     "GlobalMaxPool", "Add", "Sub"}
)  # fmt: skip
LARGEST = 64.0  # ratio of the factors of one tensor
WORTH = 2.0  # ratio below which nothing is tried
# Output channels of a depthwise site have a scale each: what it reads may be as even as can be. Those of another share
# one over all that they read, and factors that make the inputs even make the weights uneven: only so much of it.
DENSE_SHARE = 0.35
ROOM = 1.1  # of the range of a tensor in which every channel now comes near the end, for other data


@dataclass(frozen=True)
class Group:
    """Tensors that share their factors, the sites that make them and those that read them."""

    tensors: tuple[str, ...]
    channels: int
    makers: tuple[Site, ...]
    readers: tuple[Site, ...]


def groups_of(
    sites: Sequence[Site], inputs: Sequence[str], outputs: Sequence[str], fixed: Collection[str] = ()
) -> tuple[Group, ...]:
    """The groups of one stage whose channels can be rescaled: all on axis 1.

    What enters or leaves the stage cannot be, nor what is `fixed`: tensors or weights whose format is given.
    """
    union = _Union()
    kept = {*inputs, *outputs, *fixed}
    makers: list[tuple[str, Site]] = []
    readers: list[tuple[str, Site]] = []
    for site in sites:
        data = [name for name in site.inputs if name and name not in site.constants]
        weights = weight_name(site)
        if weights is not None and weights not in fixed and len(data) == 1 and _has_channels_on_axis_1(site):
            makers.append((site.outputs[0], site))
            readers.append((data[0], site))
        elif _passes(site, data):
            for name in data:
                union.join(name, site.outputs[0])
        elif (gate := _gate_of(site, data)) is not None:
            union.join(next(name for name in data if name != gate), site.outputs[0])
            kept.add(gate)
        else:
            kept |= {*data, *site.outputs}
    taken = {union.root(name) for name in kept}
    shapes = {name: shape for site in sites for name, shape in site.shapes.items()}
    found = []
    for root, tensors in union.members([name for name, _ in (*makers, *readers)]).items():
        made = tuple(site for name, site in makers if union.root(name) == root)
        read = tuple(site for name, site in readers if union.root(name) == root)
        if root not in taken and made and read:
            found.append(Group(tensors, shapes[tensors[0]][1], made, read))
    return tuple(found)


def factors_of(groups: Sequence[Group], seen: Extremes) -> dict[str, tuple[float, ...]]:
    """The factors of each tensor of the groups, from the extremes of their channels; 1 for the largest channel or so.

    A group of which nothing was seen has none.
    """
    factors: dict[str, tuple[float, ...]] = {}
    for group in groups:
        sizes = [np.maximum(-low, high) for low, high in (seen[name] for name in group.tensors if name in seen)]
        if not sizes:
            continue
        size = np.max(sizes, axis=0).astype(np.float64)
        if size.max() > 0:
            factors |= dict.fromkeys(group.tensors, _plain(_factors(group, size)))
    return factors


def is_uneven(factors: Mapping[str, Sequence[float]]) -> bool:
    """Whether any factors are worth it."""
    return any(max(each) > WORTH * min(each) for each in factors.values())


def check_factors(groups: Sequence[Group], factors: Mapping[str, Sequence[float]]) -> None:
    """Raises UsageError where factors that come from a file would change what the model computes."""
    known = {name: group for group in groups for name in group.tensors}
    bad = [
        f"'{name}' has channels that cannot be rescaled"
        if name not in known
        else f"'{name}' has {known[name].channels} channels, found {len(each)} factors"
        for name, each in factors.items()
        if name not in known or len(each) != known[name].channels
    ]
    bad += [
        f"'{name}' and '{group.tensors[0]}' want the same factors"
        for group in groups
        for name in group.tensors[1:]
        if factors.get(name) != factors.get(group.tensors[0])
    ]
    if bad:
        shown = "; ".join(bad[:5]) + (f" and {len(bad) - 5} more" if len(bad) > 5 else "")
        raise UsageError(f"factors do not fit the model: {shown}", code="bad-ranges", details=bad)


def rescaled(ranges: Ranges, groups: Sequence[Group], seen: Extremes) -> Ranges:
    """The ranges and means of tensors with their channels multiplied by factors, which are kept beside them.

    The range of such a tensor is all that was seen of it and some room, whatever the method.
    """
    factors = factors_of(groups, seen)
    spans = {name: _range_of(factors[name], *seen[name]) for name in factors if name in ranges and name in seen}
    return replace(
        ranges, tensors={**ranges.tensors, **spans}, means=multiplied(ranges.means, factors), factors=factors
    )


def multiplied(rows: Rows, factors: Rows) -> dict[str, tuple[float, ...]]:
    """Means of channels, of tensors that have factors multiplied by them."""
    return {
        name: tuple(mean * factor for mean, factor in zip(row, factors[name], strict=True)) if name in factors else row
        for name, row in rows.items()
    }


def _range_of(factors: Sequence[float], low: NDArray[Any], high: NDArray[Any]) -> tuple[float, float]:
    each = np.asarray(factors, np.float64) * ROOM
    return min(float((each * low).min()), 0.0), max(float((each * high).max()), 0.0)


def equalized(sites: Sequence[Site], factors: Mapping[str, Sequence[float]]) -> tuple[Site, ...]:
    """The sites with weights and biases that make and read tensors multiplied by their factors."""
    arrays = {name: np.asarray(each, np.float64) for name, each in factors.items()}
    return tuple(_equalized(site, arrays) for site in sites) if arrays else tuple(sites)


def _has_channels_on_axis_1(site: Site) -> bool:
    return site.op == "Conv" or (site.op == "Gemm" and not site.attrs.get("transA", 0))


def _passes(site: Site, data: Sequence[str]) -> bool:
    """Whether the site keeps channels apart and passes a factor on."""
    if len(site.outputs) != 1:
        return False
    shapes = [site.shapes[name] for name in (*data, *site.outputs)]
    if any(len(shape) < 2 or len(shape) != len(shapes[0]) or shape[1] != shapes[0][1] for shape in shapes):
        return False
    if site.op in ("Add", "Sub"):
        return len(data) == 2
    if site.op == "Clip":
        return bool(site.attrs["min"] == 0 and math.isinf(site.attrs["max"]))
    return site.op in PASSING and len(data) == 1


def _gate_of(site: Site, data: Sequence[str]) -> str | None:
    """The operand of a product that is one number for each channel: the other passes its factors on; else None."""
    if site.op != "Mul" or len(data) != 2 or len({len(site.shapes[name]) for name in data}) != 1:
        return None
    made = site.shapes[site.outputs[0]]
    gates = [name for name in data if math.prod(site.shapes[name][2:]) == 1 < math.prod(made[2:])]
    full = [name for name in data if site.shapes[name] == made]
    return gates[0] if len(gates) == 1 and len(full) == 1 and len(made) > 2 else None


def _factors(group: Group, size: Floats) -> Floats:
    """Large where a channel is small and what reads it is large."""
    size = np.maximum(size, size.max() / LARGEST**2)
    read = [_columns(site) for site in group.readers if not _is_depthwise(site)]
    wanted = 1 / size
    if read:
        wanted = np.maximum(np.max([column / column.max() for column in read], axis=0), 1 / LARGEST**2) / size
        wanted = wanted**DENSE_SHARE
    factors = np.minimum(wanted / wanted.min(), LARGEST)
    return np.asarray(factors * (size.max() / (factors * size).max()))


def _is_depthwise(site: Site) -> bool:
    return site.op == "Conv" and site.attrs["group"] > 1 and site.shapes[site.inputs[1]][1] == 1


def _columns(site: Site) -> Floats:
    """The largest weight that each channel of the input meets, next to nothing where all are zero."""
    weights = np.abs(np.asarray(site.constants[site.inputs[1]], np.float64))
    if site.op == "Gemm":
        largest = weights.max(axis=0 if site.attrs.get("transB", 0) else 1)
    else:
        group = site.attrs["group"]
        largest = weights.reshape(group, len(weights) // group, weights.shape[1], -1).max(axis=(1, 3)).reshape(-1)
    return np.asarray(np.maximum(largest, 1e-30))


def _plain(factors: Floats) -> tuple[float, ...]:
    """Factors of four digits: short in a file, and none depends on the last bit of a power."""
    return tuple(float(f"{factor:.4g}") for factor in factors)


def _equalized(site: Site, factors: Mapping[str, Floats]) -> Site:
    name = weight_name(site)
    if name is None:
        return site
    made, read = factors.get(site.outputs[0]), factors.get(site.inputs[0])
    if made is None and read is None:
        return site
    weights = np.asarray(site.constants[name], np.float64)
    rows = weights if site.op == "Conv" or site.attrs.get("transB", 0) else weights.T  # (cout, cin / group, …)
    ones = (1,) * (rows.ndim - 2)
    if read is not None:
        group = int(site.attrs["group"]) if site.op == "Conv" else 1
        each = np.repeat(read.reshape(group, -1), len(rows) // group, axis=0)
        rows = rows / each.reshape(*each.shape, *ones)
    if made is not None:
        rows = rows * made.reshape(-1, 1, *ones)
    constants = dict(site.constants)
    constants[name] = rows if site.op == "Conv" or site.attrs.get("transB", 0) else np.ascontiguousarray(rows.T)
    bias = site.inputs[2] if len(site.inputs) > 2 else ""
    if bias and made is not None:
        constants[bias] = np.asarray(site.constants[bias], np.float64) * made
    return replace(site, constants=constants)


class _Union:
    """Names that belong together."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def root(self, name: str) -> str:
        while self._parent.setdefault(name, name) != name:
            name = self._parent[name]
        return name

    def join(self, a: str, b: str) -> None:
        self._parent[self.root(a)] = self.root(b)

    def members(self, more: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """All names by root, those of `more` too."""
        found: dict[str, list[str]] = {}
        for name in dict.fromkeys((*self._parent, *more)):
            found.setdefault(self.root(name), []).append(name)
        return {root: tuple(names) for root, names in found.items()}
