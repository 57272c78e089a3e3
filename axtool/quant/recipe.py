"""A way to quantize: how ranges are found, and which accuracy techniques are used. `compile` tries a few of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from axtool.errors import UsageError
from axtool.quant.clip import METHODS

DEFAULT_PERCENTILE = 99.999
Bias = Literal["none", "analytic", "cumulative"]


@dataclass(frozen=True, slots=True)
class QuantRecipe:
    """One way. `percentile` matters to that method only."""

    method: str = "percentile"
    percentile: float = DEFAULT_PERCENTILE
    bias: Bias = "analytic"
    equalize: bool = False
    round_weights: bool = False

    def __str__(self) -> str:
        method = f"percentile {self.percentile:g}" if self.method == "percentile" else self.method
        done = {
            "channels equalized": self.equalize,
            "weights rounded for the data": self.round_weights,
            "bias corrected": self.bias == "analytic",
            "bias corrected layer after layer": self.bias == "cumulative",
        }
        return ", ".join([method, *(words for words, is_done in done.items() if is_done)])


# No fixed recipe is safe on every model: the first is the best on most, each of the others on some.
TRIED = (
    QuantRecipe(),
    QuantRecipe(bias="none"),
    QuantRecipe("minmax"),
    QuantRecipe("percentile", 99.99),
    QuantRecipe("mse"),
)

# What is tried on the best of the recipes, one after the other in this order, each on the best so far.
REFINEMENTS: Mapping[str, Callable[[QuantRecipe], QuantRecipe]] = MappingProxyType(
    {
        "equalize": lambda recipe: replace(recipe, equalize=True),
        "round_weights": lambda recipe: replace(recipe, round_weights=True),
        "cumulative": lambda recipe: replace(recipe, bias="cumulative"),
    }
)
REFINED: tuple[tuple[str, ...], ...] = ((), ("equalize", "cumulative"), tuple(REFINEMENTS))  # by level of optimization


def recipes_of(method: str | None, percentile: float | None, optimize: int) -> tuple[QuantRecipe, ...]:
    """The recipes to try, the preferred one first: all ways at `optimize` 1, or those with the method the user chose.

    Only the plain one at `optimize` 0. Raises UsageError for a method or a percentile that is none.
    """
    if method is not None and method not in METHODS:
        raise UsageError(f"method '{method}' is not {' or '.join(METHODS)}", code="bad-option")
    if percentile is not None and not 50 < percentile <= 100:
        raise UsageError(f"percentile {percentile:g}: want more than 50 and at most 100", code="bad-option")
    chosen = DEFAULT_PERCENTILE if percentile is None else percentile
    if not optimize:
        return (QuantRecipe(method or "percentile", chosen, bias="none"),)
    if method is None and percentile is None:
        return TRIED
    return tuple(QuantRecipe(method or "percentile", chosen, bias) for bias in ("analytic", "none"))
