"""Functions of one value that follow each other and that nobody else looks into  ->  one function, rounded once.

The learned scale and offset behind an activation, for one (PP-LCNetV3): a convolution with padding that reads them can
take up no offset, and as layers of their own they would be two more roundings to int8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from axtool.ops.limits_elementwise import slope_axis
from axtool.ops.tables import Function
from axtool.ops.unary import UNARY, evaluate
from axtool.plan.lower_builder import Builder
from axtool.types import Site


@dataclass(frozen=True, slots=True)
class Chain:
    """Sites of which each alone reads the one before it, as one function of what the first one reads."""

    sites: tuple[Site, ...]

    @property
    def out(self) -> str:
        return self.sites[-1].outputs[0]

    def __call__(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        for site in self.sites:
            function = function_of(site)
            assert function is not None
            x = function(x)
        return x


def chain_after(b: Builder, name: str) -> Chain | None:
    """The functions behind a tensor that only they see, or None. A sum or product by scalars alone is no function yet:
    a layer with weights takes it up, and elsewhere it is a layer of its own.
    """
    sites: list[Site] = []
    site = _function(b.only_reader(name))
    while site is not None:
        sites.append(site)
        site = _next(b, site.outputs[0])
    return Chain(tuple(sites)) if any(not is_affine(site) for site in sites) else None


def chain_from(b: Builder, site: Site) -> Chain | None:
    """A site with the functions behind it. None for one that is no function, or a lone sum or product by a scalar."""
    if function_of(site) is None:
        return None
    sites = [site]
    while (after := _next(b, sites[-1].outputs[0])) is not None:
        sites.append(after)
    return None if len(sites) == 1 and is_affine(site) else Chain(tuple(sites))


def _next(b: Builder, name: str) -> Site | None:
    """The function that alone reads a tensor, unless the model rounds it."""
    return None if name in b.quantization.given else _function(b.only_reader(name))


def _function(site: Site | None) -> Site | None:
    return site if site is not None and function_of(site) is not None else None


def function_of(site: Site) -> Function | None:
    """The function of an op that treats every value alike, or None."""
    if site.op in UNARY and site.op != "Identity":
        return lambda x: evaluate(site.op, x, site.attrs)
    if site.op == "PRelu" and slope_axis(site) == 0:
        alpha = float(np.asarray(site.constants[site.inputs[1]]).reshape(-1)[0])
        return lambda x: evaluate("LeakyRelu", x, {"alpha": alpha})
    if is_affine(site):
        fixed = next(name for name in site.inputs if name in site.constants)
        return _affine(site.op, float(np.asarray(site.constants[fixed]).reshape(-1)[0]), first=site.inputs[0] == fixed)
    return None


def is_affine(site: Site) -> bool:
    """Whether a site adds one finite number to every value, or multiplies each by it."""
    fixed = [np.asarray(site.constants[name]) for name in site.inputs if name in site.constants]
    if site.op not in ("Add", "Sub", "Mul", "Div") or len(site.inputs) != 2 or len(fixed) != 1 or fixed[0].size != 1:
        return False
    if site.shapes[data_of(site)] != site.shapes[site.outputs[0]] or not np.isfinite(fixed[0]).all():
        return False
    return site.op != "Div" or site.inputs[0] == data_of(site)


def data_of(site: Site) -> str:
    """The first input that is no constant."""
    return next((name for name in site.inputs if name not in site.constants), "")


def _affine(op: str, number: float, *, first: bool) -> Function:
    """x op number, or number op x where the number is the `first` input."""
    if op == "Add":
        return lambda x: x + number
    if op == "Sub":
        return (lambda x: number - x) if first else (lambda x: x - number)
    return (lambda x: x * number) if op == "Mul" else (lambda x: x / number)


def swallow(b: Builder, sites: Sequence[Site]) -> None:
    """From now on these sites are done: an earlier layer does what they do."""
    b.fused.update(site.index for site in sites)
