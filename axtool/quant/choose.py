"""Samples and recipes  ->  the numbers to compile with: ranges of all samples, by the recipe that does best.

One float pass sees all samples. Some are held back: what was seen of them joins the rest only when the recipe is
chosen, by running each recipe on them on the simulated device. Weights are rounded for the data in a second pass.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from numpy.typing import NDArray

from axtool.graph.sites import sites_of
from axtool.graph.split import Stage
from axtool.inputs.samples import Samples
from axtool.quant.calib_cache import CalibCache
from axtool.quant.calibrate import Statistics, gather
from axtool.quant.formats import quantize_stage
from axtool.quant.gram import Gram, gather_grams
from axtool.quant.observe import plan_work
from axtool.quant.observers import MinMax
from axtool.quant.overrides import Overrides
from axtool.quant.ranges import Ranges
from axtool.quant.recipe import QuantRecipe
from axtool.quant.trial import Bench, Trial, best
from axtool.quant.twins import fingerprints
from axtool.target import Target
from axtool.types import QFormat, Quantization

log = logging.getLogger("axtool")

MOST_ROUNDING = 24  # samples that weights are rounded for
Pairs = Sequence[tuple[Mapping[str, NDArray[Any]], Mapping[str, NDArray[Any]]]]


@dataclass(frozen=True)
class Choice:
    """What the numbers of a model are made from, and how it was chosen.

    Biases are corrected as far as the ranges come with means, weights rounded for the data as far as there are `grams`.
    """

    ranges: Ranges
    grams: Mapping[str, Gram] = field(default_factory=dict)
    trials: tuple[Trial, ...] = ()
    observers: Mapping[str, MinMax] = field(default_factory=dict)  # what calibration saw of all samples
    recipe: QuantRecipe | None = None  # the one that was kept
    samples: tuple[str, ...] = ()  # by which they are known again
    overrides: Overrides = field(default_factory=Overrides)

    def numbers(self, stage: Stage, target: Target, given: Mapping[str, QFormat]) -> Quantization:
        """Formats and weights of one device stage."""
        ranges, means = self.ranges, self.ranges.means
        numbers = quantize_stage(
            sites_of(stage.model),
            ranges,
            target,
            stage.inputs,
            stage.outputs,
            given,
            means,
            self.grams,
            symmetric=self.overrides.symmetric,
            per_tensor=self.overrides.per_tensor,
        )
        return self.overrides.explained(numbers)


class Watcher(Protocol):
    """Who hears which step begins, and how far it is."""

    def step(self, name: str) -> None: ...
    def count(self, done: int, total: int) -> None: ...


def choose(
    stages: Sequence[Stage],
    samples: Samples,
    recipes: Sequence[QuantRecipe],
    target: Target,
    given: Mapping[str, QFormat],
    outputs: Sequence[str],
    watcher: Watcher,
    *,
    overrides: Overrides | None = None,
    round_weights: bool = False,
    jobs: int = 1,
    cache: CalibCache | None = None,
) -> Choice:
    """The best of the recipes for these samples, each with the `overrides`. `outputs` are those of the model, `given`
    the formats it brings.

    With `round_weights` the best recipe is tried once more with weights that are rounded for the data. Where fewer than
    two ways are possible, or too few samples are there to hold some back, the first recipe is taken untried.
    """
    watcher.step("calibrating")
    overrides = overrides or Overrides()
    choices = len(recipes) > 1 or round_weights
    methods = {*(recipe.method for recipe in recipes), *(method for method, _ in overrides.methods.values())}
    statistics = gather(
        stages,
        samples,
        histograms=methods != {"minmax"},
        outputs=outputs,
        jobs=jobs,
        cache=cache,
        progress=watcher.count,
    )
    held = sorted({index for index, _ in statistics.held.kept}) if choices else []
    trial = _Trials(stages, target, given, statistics, overrides, _pairs(samples, held, statistics))
    if choices and held:
        watcher.step("trying recipes")
        for done, recipe in enumerate(recipes, 1):
            trial.run(recipe)
            watcher.count(done, len(recipes))
    chosen = best(trial.done).recipe if trial.done else recipes[0]
    grams: Mapping[str, Gram] = {}
    if round_weights:
        watcher.step("rounding weights")
        rest = [index for index in range(len(samples)) if index not in set(held)]
        found = _grams(stages, samples.select(rest[:: -(-len(rest) // MOST_ROUNDING)]), watcher)
        rounded = replace(chosen, round_weights=True)
        if not trial.done or best((best(trial.done), trial.run(rounded, found))).recipe == rounded:
            chosen, grams = rounded, found
    _say(trial.done, len(held))
    whole = statistics.together()
    for notice in whole.notices(chosen.method):
        log.log(logging.WARNING if notice.level == "warning" else logging.INFO, "%s", notice)
    ranges = _ranges(whole, chosen, overrides)
    known = fingerprints(whole.seen.facts)
    return Choice(ranges, grams, tuple(trial.done), whole.seen.observers, chosen, known, overrides)


class _Trials:
    """Recipes run on held-back samples, one after the other."""

    def __init__(
        self,
        stages: Sequence[Stage],
        target: Target,
        given: Mapping[str, QFormat],
        statistics: Statistics,
        overrides: Overrides,
        pairs: Pairs,
    ) -> None:
        self._target, self._given, self._statistics, self._pairs = target, given, statistics, pairs
        self._overrides = overrides
        self._bench = Bench(stages, target)
        self.done: list[Trial] = []

    def run(self, recipe: QuantRecipe, grams: Mapping[str, Gram] | None = None) -> Trial:
        ranges = _ranges(self._statistics, recipe, self._overrides)
        choice = Choice(ranges, grams or {}, overrides=self._overrides)
        figure = self._bench.score(lambda stage: choice.numbers(stage, self._target, self._given), self._pairs)
        self.done.append(Trial(recipe, figure))
        return self.done[-1]


def _ranges(statistics: Statistics, recipe: QuantRecipe, overrides: Overrides) -> Ranges:
    ranges = overrides.over(statistics.ranges(recipe.method, recipe.percentile, overrides.methods))
    return replace(ranges, method=str(recipe), means=ranges.means if recipe.correct_bias else {})


def _pairs(samples: Samples, held: Sequence[int], statistics: Statistics) -> Pairs:
    """The feeds of the held-back samples and the float outputs that are right for them."""
    right = statistics.held.kept
    names = dict.fromkeys(name for _, name in right)
    feeds = samples.select(held)
    return [(feed, {name: right[at, name] for name in names}) for at, feed in zip(held, feeds, strict=True)]


def _grams(stages: Sequence[Stage], samples: Samples, watcher: Watcher) -> Mapping[str, Gram]:
    work, _ = plan_work(stages, histograms=False)
    sites = [site for stage in stages if stage.kind == "device" for site in sites_of(stage.model)]
    return gather_grams(work, sites, samples, len(samples), watcher.count)


def _say(trials: Sequence[Trial], held: int) -> None:
    for trial in trials:
        figure = "nothing to compare" if trial.sqnr_db is None else f"{trial.sqnr_db:.2f} dB"
        log.info("%s: %s on %d held-back samples", trial.recipe, figure, held)
