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
from axtool.quant.mixtures import Mixture, ends, mixtures, precision_of_all
from axtool.quant.observe import equalizable_of, plan_work
from axtool.quant.observers import MinMax
from axtool.quant.overrides import Overrides
from axtool.quant.ranges import Ranges
from axtool.quant.recipe import REFINEMENTS, Bias, QuantRecipe
from axtool.quant.trial import Bench, Trial, best
from axtool.quant.turns import Later, observe_turn, reads_of, turn_of, with_later
from axtool.quant.twins import fingerprints
from axtool.quant.widen import Budget, Step, noisiest, widen
from axtool.target import Target
from axtool.types import Precision, QFormat, Quantization, Site

log = logging.getLogger("axtool")

MOST_ROUNDING = 24  # samples that weights are rounded for
MOST_WIDENED = 64  # tensors that are tried in int16
MOST_OFFERED = 256  # changes of any format that are tried
Recut = Callable[[frozenset[str]], Sequence[Stage]]
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
    widened: tuple[
        Step, ...
    ] = ()  # how the tensors in int16 that the ranges name, and the nodes of `mixed`, were chosen
    mixed: tuple[Mixture, ...] = ()  # nodes that a budget bought another format for

    @property
    def precision(self) -> Mapping[str, Precision]:
        """What was bought for nodes of the device, by first output."""
        return precision_of_all(self.mixed)

    @property
    def floats(self) -> frozenset[str]:
        """The first outputs of the nodes that went to the host."""
        return frozenset(name for mixture in self.mixed if mixture.format == "float" for name in mixture.nodes)

    def numbers(self, stage: Stage, target: Target, given: Mapping[str, QFormat]) -> Quantization:
        """Formats and weights of one device stage."""
        ranges, factors, scales = self.ranges, self.ranges.factors, self.overrides.scales
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
            symmetric=scales.symmetric,
            after_relu=scales.after_relu,
            per_tensor=scales.per_tensor,
            wide=self._wide(stage),
            drift=ranges.drift,
            precision={**stage.precision, **self.precision},
            read_ranges=ranges.reads,
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
    recut: Recut | None = None,
) -> Choice:
    """The best of the recipes for these samples, each with the `overrides`. `outputs` are those of the model, `given`
    the formats it brings.

    What `refine` names (`REFINEMENTS`) is then tried on it, one after the other, and kept where it is better. Where
    fewer than two ways are possible, or too few samples are there to hold some back, the first recipe is taken untried,
    without any of it. With a `budget` tensors become int16, and nodes other formats, in the end, by what each is worth
    on the same samples; `recut` gives the stages with more nodes on the host, by the tensors that these make.
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
        also=_floats(stages) if budget and {*budget.formats} - {"int16"} else (),
        jobs=jobs,
        cache=cache,
        progress=watcher.count,
    )
    held = sorted({index for index, _ in statistics.held.kept}) if choices else []
    trials = _Trials(stages, target, given, statistics, overrides, samples, held, watcher, jobs, cache, recut)
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
    bought = _bought(trials, chosen, budget, watcher) if budget else Bought()
    whole = statistics.together()
    for notice in whole.notices(chosen.method):
        log.log(logging.WARNING if notice.level == "warning" else logging.INFO, "%s", notice)
    made = trials.choice(chosen, whole, tuple(mixture.name for mixture in bought.mixtures if not mixture.nodes))
    observers = {name: seen for name, seen in whole.seen.observers.items() if name not in made.ranges.factors}
    known = fingerprints(whole.seen.facts)
    return replace(made, trials=tuple(trials.done), observers=observers, samples=known, widened=bought.steps,
                   mixed=tuple(mixture for mixture in bought.mixtures if mixture.nodes))  # fmt: skip


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


@dataclass(frozen=True)
class Bought:
    """What a budget was spent on, step by step."""

    steps: tuple[Step, ...] = ()
    mixtures: tuple[Mixture, ...] = ()


def _bought(trials: _Trials, recipe: QuantRecipe, budget: Budget, watcher: Watcher) -> Bought:
    if not trials.done:
        what, hint = "a budget needs samples held back to measure by", "give at least 8 calibration samples"
        if budget.sqnr_db is not None:
            raise UsageError(what, hint=hint, code="too-few-samples")
        log.warning("%s, and there are none: no tensor became int16; %s", what, hint)
        return Bought()
    watcher.step("widening to int16" if budget.formats == ("int16",) else "spending the budget")
    bought = trials.widen(recipe, budget, watcher.count)
    for step in bought.steps:
        log.info("%s", step)
    return bought


def _floats(stages: Sequence[Stage]) -> frozenset[str]:
    """The float tensors of the device: in another format each may have a range of its own."""
    sites = [site for stage in stages if stage.kind == "device" for site in stage.sites]
    made = {name: site.dtypes.get(name, "float32") for site in sites for name in (*site.inputs, *site.outputs) if name}
    constants = {name for site in sites for name in site.constants}
    return frozenset(name for name, dtype in made.items() if dtype == "float32" and name not in constants)


def _told(step: Step, mixture: Mixture) -> Step:
    return replace(step, tensor=mixture.name, format=mixture.format, nodes=mixture.nodes)


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
