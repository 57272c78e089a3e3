"""Stages and samples  ->  Ranges: one streaming pass in onnxruntime, each tensor observed at once and let go."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from axtool.errors import NumericsError, UsageError, plural
from axtool.inputs.notice import Notice, warning
from axtool.inputs.samples import Samples
from axtool.quant.calib_cache import CalibCache
from axtool.quant.clip import clip
from axtool.quant.data import data_notices
from axtool.quant.memory import check_memory, give_back, value_bytes
from axtool.quant.observe import Feeds, Progress, Seen, StageLike, observe, observed_of, plan_work
from axtool.quant.observers import MinMax
from axtool.quant.pieces import BUDGET_BYTES
from axtool.quant.ranges import Ranges
from axtool.quant.recipe import QuantRecipe, recipes_of
from axtool.quant.ties import natural_ranges

MOST_KEPT = 64 << 20  # bytes of float outputs of held-back samples
MOST_TOLD = 4  # tensors that are named one by one
MOST_HELD = 8  # samples: a recipe that is better on so many is better


@dataclass(frozen=True)
class Statistics:
    """What one pass saw: of the samples that are `held` back for trying recipes, and of the others."""

    seen: Seen
    held: Seen
    natural: Mapping[str, tuple[float, float]]
    names: tuple[str, ...] = ()  # of the samples
    _found: dict[tuple[str, str, float], tuple[float, float]] = field(default_factory=dict, compare=False, repr=False)

    def ranges(self, method: str, percentile: float, others: Mapping[str, tuple[str, float]] | None = None) -> Ranges:
        """The ranges that a method finds in what was seen of the samples that are not held back.

        `others` are methods, with their percentiles, of tensors that have one of their own.
        """
        ways = others or {}
        limits = {
            name: self._range(name, observer, *ways.get(name, (method, percentile)))
            for name, observer in self.seen.observers.items()
        }
        label = str(QuantRecipe(method, percentile, "none"))
        means = self.seen.means.over_samples()
        return Ranges({**self.natural, **limits}, self.seen.facts.count, label, means=means)

    def _range(self, name: str, observer: MinMax, method: str, percentile: float) -> tuple[float, float]:
        """What a method finds, found once: some look at many ranges, and recipes share them."""
        key = name, method, percentile
        if key not in self._found:
            self._found[key] = clip(observer, method, percentile)
        return self._found[key]

    def together(self) -> Statistics:
        """The same with no sample held back: what was seen of all of them."""
        self.seen.merge(self.held)
        self.held.kept.clear()
        return Statistics(self.seen, self.held, self.natural, self.names)

    def notices(self, method: str) -> tuple[Notice, ...]:
        """What is to be said about the samples and about what they made of the float model."""
        seen = self.seen
        return (
            *data_notices(seen.facts, self.names, method),
            *_non_finite(seen.observers),
            *_not_numbers(seen.watched),
        )


def calibrate(
    stages: Sequence[StageLike],
    samples: Iterable[Feeds],
    method: str = "minmax",
    percentile: float = 99.99,
    *,
    jobs: int = 1,
    progress: Progress | None = None,
    budget_bytes: int = BUDGET_BYTES,
) -> Ranges:
    """The range of every tensor of the device stages whose format depends on data, from one pass over the samples.

    `method` as in `clip`. Errors and the other arguments as in `gather`.
    """
    recipes_of(method, percentile, 0)
    plain = method == "minmax"
    found = gather(stages, samples, histograms=not plain, jobs=jobs, progress=progress, budget_bytes=budget_bytes)
    ranges = found.ranges(method, percentile)
    return Ranges(ranges.tensors, ranges.samples, ranges.method, found.notices(method), means=ranges.means)


def gather(
    stages: Sequence[StageLike],
    samples: Iterable[Feeds],
    *,
    histograms: bool = True,
    outputs: Sequence[str] = (),
    also: Collection[str] = (),
    jobs: int = 1,
    progress: Progress | None = None,
    budget_bytes: int = BUDGET_BYTES,
    cache: CalibCache | None = None,
) -> Statistics:
    """What one pass over the samples sees of every tensor of the device stages whose format depends on data.

    With `outputs`, those of the model, some samples are held back and their float outputs kept. Tensors in `also` are
    observed, whether their format depends on it or not. `jobs` processes share
    the samples when these are a `Samples`; what is seen is the same for any number. `progress` is called with (done,
    total). Tensors with a range that holds for any data are not observed. What the `cache` has is not run again.
    Raises UsageError where there are no samples, NumericsError for NaN or Inf in weights and where a tensor has no
    finite value at all.
    """
    check_memory(stage.model for stage in stages)
    work, natural = plan_work(stages, histograms or cache is not None, budget_bytes, outputs, also)
    count = len(samples) if isinstance(samples, Samples) else 0
    held = held_back(count, _bytes_of(stages, work.kept)) if work.kept else frozenset()
    entry = cache.entry(work, samples, held) if cache is not None and isinstance(samples, Samples) else None
    found = None if entry is None else entry.read(work)
    if found is not None:
        seen, apart = found
    elif jobs > 1 and isinstance(samples, Samples) and count > 1:
        from axtool.quant.jobs import observe_in_processes

        seen, apart = observe_in_processes(work, samples, min(jobs, count), progress, held)
    else:
        seen, apart = observe(work, samples, progress, held)
        give_back()
    if not seen.facts.count:
        raise UsageError("no calibration samples", code="no-samples", hint="give a folder of images, .npz or .npy")
    if entry is not None and found is None:
        entry.write(seen, apart)
    if not histograms:
        seen.forget_histograms()
        apart.forget_histograms()
    _check_finite(seen.observers)
    return Statistics(seen, apart, natural, samples.names if isinstance(samples, Samples) else ())


def held_back(count: int, output_bytes: int) -> frozenset[int]:
    """A quarter of the samples, evenly spread, at most `MOST_HELD`; none of fewer than eight."""
    number = min(count // 4, MOST_HELD, MOST_KEPT // max(output_bytes, 1)) if count >= 8 else 0
    return frozenset((2 * index + 1) * count // (2 * number) for index in range(number))


def _bytes_of(stages: Sequence[StageLike], names: Sequence[str]) -> int:
    """Bytes of the float outputs of one sample."""
    made = {value.name: value_bytes(value) for stage in stages for value in stage.model.graph.outputs}
    return sum(made.get(name, 0) for name in names)


def names_to_calibrate(stages: Sequence[StageLike]) -> tuple[str, ...]:
    """The tensors whose range has to come from data. None, for a model that brings all its formats."""
    from axtool.graph.sites import sites_of

    devices = [stage for stage in stages if stage.kind == "device"]
    return tuple(dict.fromkeys(name for stage in devices for name in observed_of(stage, sites_of(stage.model))))


def known_ranges(stages: Sequence[StageLike]) -> Ranges:
    """The ranges that hold for any data: all that a model needs of which `names_to_calibrate` names nothing."""
    from axtool.graph.sites import sites_of

    known = [natural_ranges(sites_of(stage.model)) for stage in stages if stage.kind == "device"]
    return Ranges({name: limits for ranges in known for name, limits in ranges.items()}, method="the model's own")


def _check_finite(observers: Mapping[str, MinMax]) -> None:
    """Raises NumericsError listing the tensors of which no value was finite."""
    dead = [
        f"'{name}': {observer.nan} NaN, {observer.inf} Inf of {observer.count}"
        for name, observer in observers.items()
        if observer.count and not observer.finite
    ]
    if dead:
        shown = "; ".join(dead[:5]) + (f" and {len(dead) - 5} more" if len(dead) > 5 else "")
        raise NumericsError(
            f"no finite value in calibration: {shown}",
            code="non-finite-activations",
            hint="check the input preparation, or keep these nodes on the host with --outputs",
            details=dead,
        )


def _non_finite(observers: Mapping[str, MinMax]) -> tuple[Notice, ...]:
    """The first tensors that hold NaN or Inf, where it begins, each with its count; the others together."""
    found = [(name, observer) for name, observer in observers.items() if observer.nan or observer.inf]
    told = [
        warning(
            "non-finite-activations",
            f"{observer.nan} NaN and {observer.inf} Inf of {observer.count} values in calibration; "
            f"the range is from the finite ones",
            f"tensor '{name}'",
        )
        for name, observer in found[:MOST_TOLD]
    ]
    if rest := [name for name, _ in found[MOST_TOLD:]]:
        what = f"{plural(len(rest), 'more tensor holds', 'more tensors hold')} NaN or Inf in calibration"
        told.append(warning("non-finite-activations", f"{what}: '{rest[0]}'" + (" and others" if rest[1:] else "")))
    return tuple(told)


def _not_numbers(watched: Mapping[str, MinMax]) -> tuple[Notice, ...]:
    """Only NaN: an infinity may be meant, as a mask is."""
    return tuple(
        warning(
            "non-finite-outputs",
            f"{observer.nan} NaN of {observer.count} values of the float model in calibration",
            f"tensor '{name}'",
        )
        for name, observer in watched.items()
        if observer.nan
    )
