"""Recipes and mixtures of formats  ->  their figures, by running each on samples that were held back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from numpy.typing import NDArray

from axtool.graph.split import Stage
from axtool.inputs.samples import Samples
from axtool.quant.calib_cache import CalibCache
from axtool.quant.calibrate import Statistics
from axtool.quant.choice import Choice
from axtool.quant.cumulative import drifts_of, samples_of
from axtool.quant.equalize import factors_of, is_uneven, multiplied, rescaled
from axtool.quant.gram import Gram
from axtool.quant.mixtures import Mixture, ends, mixtures
from axtool.quant.observe import equalizable_of
from axtool.quant.observers import MinMax
from axtool.quant.overrides import Overrides
from axtool.quant.recipe import REFINEMENTS, Bias, QuantRecipe
from axtool.quant.trial import Bench, Trial, best
from axtool.quant.turns import Later, observe_turn, reads_of, turn_of, with_later
from axtool.quant.widen import Budget, Step, noisiest, widen
from axtool.target import Target
from axtool.types import QFormat, Quantization

MOST_WIDENED = 64  # tensors that are tried in int16
MOST_OFFERED = 256  # changes of any format that are tried
Recut = Callable[[frozenset[str]], Sequence[Stage]]
Pairs = Sequence[tuple[Mapping[str, NDArray[Any]], Mapping[str, NDArray[Any]]]]


class Watcher(Protocol):
    """Who hears which step begins, and how far it is."""

    def step(self, name: str) -> None: ...
    def count(self, done: int, total: int) -> None: ...


@dataclass(frozen=True)
class Bought:
    """What a budget was spent on, step by step."""

    steps: tuple[Step, ...] = ()
    mixtures: tuple[Mixture, ...] = ()


class Trials:
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
        watcher: Watcher,
        jobs: int,
        cache: CalibCache | None,
        recut: Recut | None,
    ) -> None:
        self._target, self._given, self._statistics = target, given, statistics
        self._overrides, self._samples = overrides, samples
        self._watcher, self._jobs, self._cache, self._recut = watcher, jobs, cache, recut
        self._benches: dict[frozenset[str], Bench] = {}
        self._pairs = _pairs(samples, held, statistics)
        self._bench = Bench(stages, target)
        own = {*overrides.ranges, *overrides.methods, *overrides.scales.turns}  # in the units of the float model
        own |= {name for stage in stages for name in stage.precision}
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

    def widen(self, recipe: QuantRecipe, budget: Budget, count: Callable[[int, int], None]) -> Bought:
        """What becomes int16, fp16 or fx32 in the numbers of a recipe.

        Weights are not rounded for the data meanwhile, and biases do not follow the drift: that would take long, and
        the figures only become better by it.
        """
        bias: Bias = "none" if recipe.bias == "none" else "analytic"
        narrow = self.choice(replace(recipe, round_weights=False, bias=bias), self._statistics)
        offered = self._offered(budget)

        def wider(names: frozenset[str]) -> Choice:
            mixed = tuple(mixture for name, mixture in offered.items() if name in names and mixture.nodes)
            wide = sorted(mixture.name for name, mixture in offered.items() if name in names and not mixture.nodes)
            return replace(narrow, ranges=replace(narrow.ranges, wide=tuple(wide)), mixed=mixed)

        def score(names: frozenset[str]) -> float | None:
            choice = wider(names)
            return self._bench_of(choice).score(self._numbers(choice), self._pairs).decibels()

        def cycles(names: frozenset[str]) -> int:
            choice = wider(names)
            return self._bench_of(choice).cycles(self._numbers(choice))

        last = [name for name, mixture in offered.items() if mixture.format == "float"]
        steps = widen([name for name in offered if name not in last], score, cycles, budget, count, last)
        return Bought(tuple(_told(step, offered[step.tensor]) for step in steps),
                      tuple(offered[step.tensor] for step in steps))  # fmt: skip

    def _bench_of(self, choice: Choice) -> Bench:
        """The stages, cut anew where the choice has nodes on the host that were not there."""
        floats = choice.floats
        if not floats or self._recut is None:
            return self._bench
        if floats not in self._benches:
            self._benches[floats] = Bench(self._recut(floats), self._target)
        return self._benches[floats]

    def _offered(self, budget: Budget) -> dict[str, Mixture]:
        """What a budget may be spent on, by what it is called."""
        stages = [stage for stage in self._bench.stages if stage.kind == "device"]
        found = [mixture for stage in stages for mixture in mixtures(stage.sites, self._target, budget.formats)]
        found = [m for m in found if not any(name in stage.precision for stage in stages for name in m.nodes)]
        if "int16" in budget.formats:
            names = self._bench.candidates(self._given, self._overrides.wide)
            room = max(MOST_WIDENED - len(found), MOST_WIDENED // 4)
            found += [Mixture("int16", name) for name in noisiest(names, self._statistics.seen.observers, room)]
        found = found[:MOST_OFFERED]
        if "float" in budget.formats and self._recut is not None:
            found += [mixture for stage in stages for mixture in ends(stage.sites, stage.inputs, stage.outputs)]
        return {str(mixture): mixture for mixture in found}

    def _numbers(self, choice: Choice) -> Callable[[Stage], Quantization]:
        return lambda stage: choice.numbers(stage, self._target, self._given)

    def choice(self, recipe: QuantRecipe, statistics: Statistics, wide: tuple[str, ...] = ()) -> Choice:
        """What a recipe makes of what was seen, with int16 for `wide`: turn after turn, where the recipe has some."""
        later: dict[tuple[int, str], MinMax] = {}
        for turn in self._overrides.scales.later:
            made = self._in_turn(recipe, statistics, later, wide)
            later |= {(turn, name): seen for name, seen in self._observed(turn, made, statistics).items()}
        return self._in_turn(recipe, statistics, later, wide)

    def _observed(self, turn: int, choice: Choice, statistics: Statistics) -> Mapping[str, MinMax]:
        """What a turn sees of its tensors, of the same samples and with the numbers that there are before it."""
        devices = [stage for stage in self._bench.stages if stage.kind == "device"]
        numbers = [self._numbers(choice)(stage) for stage in devices]
        tensors = [name for made in numbers for name in made.formats]
        indices = sorted({index for index, _ in statistics.seen.facts.facts})
        self._watcher.step(f"calibrating, turn {turn}")
        return observe_turn(
            self._bench.stages,
            numbers,
            turn_of(self._overrides.scales, turn, tensors),
            self._samples.select(indices),
            jobs=self._jobs,
            progress=self._watcher.count,
            cache=self._cache,
        )

    def _in_turn(self, recipe: QuantRecipe, statistics: Statistics, later: Later, wide: tuple[str, ...]) -> Choice:
        """What a recipe makes of what was seen so far."""
        overrides = self._overrides
        if overrides.scales.later:
            statistics = with_later(statistics, overrides.scales, later)
        ranges = overrides.over(statistics.ranges(recipe.method, recipe.percentile, overrides.methods))
        if reads := reads_of(statistics, overrides.scales, later, recipe.method, recipe.percentile):
            ranges = replace(ranges, reads=reads)
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


def _told(step: Step, mixture: Mixture) -> Step:
    return replace(step, tensor=mixture.name, format=mixture.format, nodes=mixture.nodes)


def _pairs(samples: Samples, held: Sequence[int], statistics: Statistics) -> Pairs:
    """The feeds of the held-back samples and the float outputs that are right for them."""
    right = statistics.held.kept
    names = dict.fromkeys(name for _, name in right)
    feeds = samples.select(held)
    return [(feed, {name: right[at, name] for name in names}) for at, feed in zip(held, feeds, strict=True)]
