"""Samples and recipes  ->  the numbers to compile with: ranges of all samples, by the recipe that does best.

One float pass sees all samples. Some are held back: what was seen of them joins the rest only when the recipe is
chosen, by running each recipe on them on the simulated device. Weights are rounded for the data in a second pass.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from numpy.typing import NDArray

from axtool.errors import UsageError, plural
from axtool.graph.split import Stage
from axtool.inputs.samples import Samples
from axtool.quant.calib_cache import CalibCache
from axtool.quant.calibrate import Statistics, gather
from axtool.quant.cumulative import drifts_of, samples_of
from axtool.quant.equalize import equalized, factors_of, is_uneven, multiplied, rescaled
from axtool.quant.formats import quantize_stage
from axtool.quant.gram import Gram, gather_grams, scaled_gram
from axtool.quant.judged import judged_by
from axtool.quant.observe import equalizable_of, plan_work
from axtool.quant.observers import MinMax
from axtool.quant.overrides import Overrides
from axtool.quant.ranges import Ranges
from axtool.quant.recipe import REFINEMENTS, Bias, QuantRecipe
from axtool.quant.trial import Bench, Trial, best
from axtool.quant.twins import fingerprints
from axtool.quant.widen import Budget, Step, noisiest, widen
from axtool.target import Target
from axtool.types import QFormat, Quantization, Site

log = logging.getLogger("axtool")

MOST_ROUNDING = 24  # samples that weights are rounded for
MOST_WIDENED = 64  # tensors that are tried in int16
Pairs = Sequence[tuple[Mapping[str, NDArray[Any]], Mapping[str, NDArray[Any]]]]


@dataclass(frozen=True)
class Choice:
    """What the numbers of a model are made from, and how it was chosen.

    Biases are corrected as far as the ranges come with means, weights rounded for the data as far as there are `grams`.
    """

    ranges: Ranges
    grams: Mapping[str, Gram] = field(default_factory=dict)
    trials: tuple[Trial, ...] = ()
    # What calibration saw of all samples, of tensors that are as they were.
    observers: Mapping[str, MinMax] = field(default_factory=dict)
    recipe: QuantRecipe | None = None  # the one that was kept
    samples: tuple[str, ...] = ()  # by which they are known again
    overrides: Overrides = field(default_factory=Overrides)
    widened: tuple[Step, ...] = ()  # how the tensors in int16 that the ranges name were chosen

    def numbers(self, stage: Stage, target: Target, given: Mapping[str, QFormat]) -> Quantization:
        """Formats and weights of one device stage."""
        ranges, factors = self.ranges, self.ranges.factors
        sites = equalized(stage.sites, factors)
        numbers = quantize_stage(
            sites,
            ranges,
            target,
            stage.inputs,
            stage.outputs,
            given,
            ranges.means,
            {site.outputs[0]: self._gram(site) for site in sites if site.outputs[0] in self.grams},
            symmetric=self.overrides.symmetric,
            per_tensor=self.overrides.per_tensor,
            wide=self._wide(stage),
            drift=ranges.drift,
            precision=stage.precision,
        )
        if changed := sum(bool(site.inputs) and site.inputs[0] in factors for site in sites):
            note = f"channels equalized before {plural(changed, 'layer')}"
            numbers = replace(numbers, notes=(*numbers.notes, note))
        return self.overrides.explained(numbers)

    def _wide(self, stage: Stage) -> list[str]:
        """The tensors of one stage that are int16."""
        known = {*stage.inputs, *(value.name for node in stage.model.graph for value in node.outputs)}
        names = dict.fromkeys((*self.overrides.wide, *self.ranges.wide))
        return [name for name in names if name in known]

    def _gram(self, site: Site) -> Gram:
        """The matrix of a site whose inputs are multiplied by their factors."""
        return scaled_gram(site, self.grams[site.outputs[0]], self.ranges.factors.get(site.inputs[0], ()))


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
    refine: Sequence[str] = (),
    budget: Budget | None = None,
    jobs: int = 1,
    cache: CalibCache | None = None,
) -> Choice:
    """The best of the recipes for these samples, each with the `overrides`. `outputs` are those of the model, `given`
    the formats it brings.

    What `refine` names (`REFINEMENTS`) is then tried on it, one after the other, and kept where it is better. Where
    fewer than two ways are possible, or too few samples are there to hold some back, the first recipe is taken untried,
    without any of it. With a `budget` tensors become int16 in the end, by what each is worth on the same samples.
    Raises UsageError for a budget where none are held back, NumericsError for one that cannot be met.
    """
    watcher.step("calibrating")
    overrides = overrides or Overrides()
    choices = len(recipes) > 1 or bool(refine) or bool(budget)
    methods = {*(recipe.method for recipe in recipes), *(method for method, _ in overrides.methods.values())}
    statistics = gather(
        stages,
        samples,
        histograms=methods != {"minmax"},
        outputs=judged_by(stages, outputs),
        jobs=jobs,
        cache=cache,
        progress=watcher.count,
    )
    held = sorted({index for index, _ in statistics.held.kept}) if choices else []
    trials = _Trials(stages, target, given, statistics, overrides, samples, held)
    chosen = recipes[0]
    if held:
        watcher.step("trying recipes")
        steps = [name for name in REFINEMENTS if name in refine and trials.offers(name)]
        for done, recipe in enumerate(recipes, 1):
            trials.run(recipe)
            watcher.count(done, len(recipes) + len(steps))
        for done, name in enumerate(steps, len(recipes) + 1):
            if name == "round_weights":
                watcher.step("rounding weights")
                rest = [index for index in range(len(samples)) if index not in set(held)]
                trials.grams = _grams(stages, samples.select(rest[:: -(-len(rest) // MOST_ROUNDING)]), watcher)
            trials.refine(name)
            watcher.count(done, len(recipes) + len(steps))
        chosen = trials.best
    _say(trials.done, len(held))
    widened = _widened(trials, chosen, budget, watcher) if budget else ()
    whole = statistics.together()
    for notice in whole.notices(chosen.method):
        log.log(logging.WARNING if notice.level == "warning" else logging.INFO, "%s", notice)
    made = trials.choice(chosen, whole, tuple(step.tensor for step in widened))
    observers = {name: seen for name, seen in whole.seen.observers.items() if name not in made.ranges.factors}
    known = fingerprints(whole.seen.facts)
    return replace(made, trials=tuple(trials.done), observers=observers, samples=known, widened=widened)


class _Trials:
    """Recipes run on held-back samples, one after the other."""

    def __init__(
        self,
        stages: Sequence[Stage],
        target: Target,
        given: Mapping[str, QFormat],
        statistics: Statistics,
        overrides: Overrides,
        samples: Samples,
        held: Sequence[int],
    ) -> None:
        self._target, self._given, self._statistics = target, given, statistics
        self._overrides, self._samples = overrides, samples
        self._pairs = _pairs(samples, held, statistics)
        self._bench = Bench(stages, target)
        own = {*overrides.ranges, *overrides.methods}  # in the units of the float model
        self._groups = [group for group in equalizable_of(stages) if own.isdisjoint(group.tensors)]
        self.grams: Mapping[str, Gram] = {}
        self.done: list[Trial] = []

    @property
    def best(self) -> QuantRecipe:
        """The best so far."""
        return best(self.done).recipe

    def offers(self, refinement: str) -> bool:
        """Whether the model has anything to refine so."""
        return refinement != "equalize" or is_uneven(factors_of(self._groups, self._statistics.seen.extremes.seen))

    def run(self, recipe: QuantRecipe) -> None:
        """Try one recipe."""
        score = self._bench.score(self._numbers(self.choice(recipe, self._statistics)), self._pairs)
        self.done.append(Trial(recipe, score.decibels(), score.each()))

    def refine(self, name: str) -> None:
        """Try a refinement on the best recipe so far."""
        before = best(self.done)
        self.run(REFINEMENTS[name](before.recipe))
        made = self.done[-1]
        if made.sqnr_db is not None and before.sqnr_db is not None:
            self.done[-1] = replace(made, refines=name, gain_db=made.sqnr_db - before.sqnr_db)

    def widen(self, recipe: QuantRecipe, budget: Budget, count: Callable[[int, int], None]) -> tuple[Step, ...]:
        """What becomes int16 in the numbers of a recipe.

        Weights are not rounded for the data meanwhile, and biases do not follow the drift: that would take long, and
        the figures only become better by it.
        """
        bias: Bias = "none" if recipe.bias == "none" else "analytic"
        narrow = self.choice(replace(recipe, round_weights=False, bias=bias), self._statistics)

        def wider(names: frozenset[str]) -> Choice:
            return replace(narrow, ranges=replace(narrow.ranges, wide=tuple(sorted(names))))

        names = self._bench.candidates(self._given, self._overrides.wide)
        return widen(
            noisiest(names, self._statistics.seen.observers, MOST_WIDENED),
            lambda names: self._bench.score(self._numbers(wider(names)), self._pairs).decibels(),
            lambda names: self._bench.cycles(self._numbers(wider(names))),
            budget,
            count,
        )

    def _numbers(self, choice: Choice) -> Callable[[Stage], Quantization]:
        return lambda stage: choice.numbers(stage, self._target, self._given)

    def choice(self, recipe: QuantRecipe, statistics: Statistics, wide: tuple[str, ...] = ()) -> Choice:
        """What a recipe makes of what was seen, with int16 for `wide`."""
        overrides = self._overrides
        ranges = overrides.over(statistics.ranges(recipe.method, recipe.percentile, overrides.methods))
        if recipe.equalize:
            ranges = rescaled(ranges, self._groups, statistics.seen.extremes.seen)
        ranges = replace(ranges, method=str(recipe), wide=wide, means=ranges.means if recipe.bias != "none" else {})
        made = Choice(ranges, self.grams if recipe.round_weights else {}, recipe=recipe, overrides=overrides)
        return self._followed(made, statistics) if recipe.bias == "cumulative" else made

    def _followed(self, choice: Choice, statistics: Statistics) -> Choice:
        """The choice with biases that follow the drift of the device on the samples that were seen."""
        chosen = samples_of(self._bench.stages, statistics.seen.means.samples)
        means = multiplied(statistics.seen.means.over_samples(chosen), choice.ranges.factors)
        feeds = list(self._samples.select(chosen))
        drift = drifts_of(self._bench, self._numbers(choice), feeds, means)
        return replace(choice, ranges=replace(choice.ranges, drift=drift))


def _widened(trials: _Trials, recipe: QuantRecipe, budget: Budget, watcher: Watcher) -> tuple[Step, ...]:
    if not trials.done:
        what, hint = "a budget needs samples held back to measure by", "give at least 8 calibration samples"
        if budget.sqnr_db is not None:
            raise UsageError(what, hint=hint, code="too-few-samples")
        log.warning("%s, and there are none: no tensor became int16; %s", what, hint)
        return ()
    watcher.step("widening to int16")
    steps = trials.widen(recipe, budget, watcher.count)
    for step in steps:
        log.info("'%s' in int16: %.2f dB, %+.2f%% of cycles", step.tensor, step.sqnr_db, 100 * step.cycles)
    return steps


def _pairs(samples: Samples, held: Sequence[int], statistics: Statistics) -> Pairs:
    """The feeds of the held-back samples and the float outputs that are right for them."""
    right = statistics.held.kept
    names = dict.fromkeys(name for _, name in right)
    feeds = samples.select(held)
    return [(feed, {name: right[at, name] for name in names}) for at, feed in zip(held, feeds, strict=True)]


def _grams(stages: Sequence[Stage], samples: Samples, watcher: Watcher) -> Mapping[str, Gram]:
    work, _ = plan_work(stages, histograms=False)
    sites = [site for stage in stages if stage.kind == "device" for site in stage.sites]
    return gather_grams(work, sites, samples, len(samples), watcher.count)


def _say(trials: Sequence[Trial], held: int) -> None:
    for trial in trials:
        figure = "nothing to compare" if trial.sqnr_db is None else f"{trial.sqnr_db:.2f} dB"
        gain = "" if trial.gain_db is None else f" ({trial.refines} {trial.gain_db:+.2f} dB)"
        log.info("%s: %s on %d held-back samples%s", trial.recipe, figure, held, gain)
