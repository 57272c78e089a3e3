"""What the numbers of a model are made from: ranges, matrices, the recipe that was kept, what a budget bought."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from axtool.errors import plural
from axtool.graph.split import Stage
from axtool.quant.equalize import equalized
from axtool.quant.formats import quantize_stage
from axtool.quant.gram import Gram, scaled_gram
from axtool.quant.mixtures import Mixture, precision_of_all
from axtool.quant.observers import MinMax
from axtool.quant.overrides import Overrides
from axtool.quant.ranges import Ranges
from axtool.quant.recipe import QuantRecipe
from axtool.quant.trial import Trial
from axtool.quant.widen import Step
from axtool.target import Target
from axtool.types import Computed, Precision, QFormat, Quantization, Site


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

    @property
    def bought(self) -> Mapping[str, Computed]:
        """Both together."""
        return {**self.precision, **dict.fromkeys(sorted(self.floats), "float")}

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
