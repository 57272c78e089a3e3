"""Samples and recipes  ->  the numbers to compile with: ranges of all samples, by the recipe that does best.

One float pass sees all samples. Some are held back: what was seen of them joins the rest only when the recipe is
chosen, by running each recipe on them on the simulated device. Weights are rounded for the data in a second pass.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from axtool.errors import UsageError
from axtool.graph.split import Stage
from axtool.inputs.samples import Samples
from axtool.quant.calib_cache import CalibCache
from axtool.quant.calibrate import gather, names_to_calibrate
from axtool.quant.choice import Choice
from axtool.quant.gram import Gram, gather_grams
from axtool.quant.judged import judged_by
from axtool.quant.observe import plan_work
from axtool.quant.overrides import Overrides
from axtool.quant.recipe import REFINEMENTS, QuantRecipe
from axtool.quant.trial import Trial
from axtool.quant.trials import Bought, Recut, Trials, Watcher
from axtool.quant.twins import fingerprints
from axtool.quant.widen import Budget
from axtool.target import Target
from axtool.types import QFormat

log = logging.getLogger("axtool")

MOST_ROUNDING = 24  # samples that weights are rounded for


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
    trials = Trials(stages, target, given, statistics, overrides, samples, held, watcher, jobs, cache, recut)
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
    own = {*names_to_calibrate(stages)} - made.ranges.factors.keys()  # of others the format is that of what they become
    observers = {name: seen for name, seen in whole.seen.observers.items() if name in own}
    known = fingerprints(whole.seen.facts)
    return replace(made, trials=tuple(trials.done), observers=observers, samples=known, widened=bought.steps,
                   mixed=tuple(mixture for mixture in bought.mixtures if mixture.nodes))  # fmt: skip


def _bought(trials: Trials, recipe: QuantRecipe, budget: Budget, watcher: Watcher) -> Bought:
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


def _grams(stages: Sequence[Stage], samples: Samples, watcher: Watcher) -> Mapping[str, Gram]:
    work, _ = plan_work(stages, histograms=False)
    sites = [site for stage in stages if stage.kind == "device" for site in stage.sites]
    return gather_grams(work, sites, samples, len(samples), watcher.count)


def _say(trials: Sequence[Trial], held: int) -> None:
    for trial in trials:
        figure = "nothing to compare" if trial.sqnr_db is None else f"{trial.sqnr_db:.2f} dB"
        gain = "" if trial.gain_db is None else f" ({trial.refines} {trial.gain_db:+.2f} dB)"
        log.info("%s: %s on %d held-back samples%s", trial.recipe, figure, held, gain)
