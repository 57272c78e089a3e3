"""Float means and the simulated device  ->  how far the channels of each tensor have drifted from the float model.

Analytic correction takes back what rounding the weights of a layer adds to its mean; what rounding, clamping and the
tables before it added stays, and grows from layer to layer. Here the layers run one after the other on some samples.
Before one with weights runs, the mean of what it reads is compared with the float model's, and its bias takes the
difference: what follows is measured behind a layer that is already right. (Correcting all layers at once corrects the
same error again in every layer behind it, and is worse the deeper the model.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from axtool.graph.split import Stage
from axtool.ops.encoding import MAC_OPS
from axtool.ops.packing import add_to_bias
from axtool.plan.alone import alone
from axtool.plan.lower import lowered
from axtool.plan.lower_builder import Builder
from axtool.plan.whole import whole_plan
from axtool.quant.bias import follow_drift
from axtool.quant.trial import Bench, Values
from axtool.quant.weights import weight_name
from axtool.runtime.device import DeviceSession
from axtool.target import Target
from axtool.types import Layer, Program, Quantization, Site

MOST_SAMPLES, LEAST_SAMPLES = 24, 4
MOST_BYTES = 64 << 20  # of tensors that are alive at once, of all samples
_ALIVE = 4  # tensors of the largest size: about as many as a model with residuals has

Rows = Mapping[str, Sequence[float]]
Ints = NDArray[np.signedinteger]


def samples_of(stages: Sequence[Stage], indices: Sequence[int]) -> list[int]:
    """Which of the samples are run: as many as fit, evenly spread."""
    shapes = [
        shape
        for stage in stages
        if stage.kind == "device"
        for site in stage.sites
        for shape in (site.shapes[name] for name in site.outputs if name in site.shapes)
    ]
    largest = max(map(prod, shapes), default=1)
    count = min(max(MOST_BYTES // max(_ALIVE * largest, 1), LEAST_SAMPLES), MOST_SAMPLES, len(indices))
    return [indices[(2 * at + 1) * len(indices) // (2 * count)] for at in range(count)]


def drifts_of(
    bench: Bench, numbers: Callable[[Stage], Quantization], samples: Sequence[Values], means: Rows
) -> dict[str, tuple[float, ...]]:
    """The float mean minus the device's, in real units, of each channel of what layers with weights read.

    `means` are the float model's on the same samples. Sums of integers: the same bits on every CPU.
    """
    found: dict[str, tuple[float, ...]] = {}
    values = [dict(feeds) for feeds in samples]
    last = max((index for index, stage in enumerate(bench.stages) if stage.kind == "device"), default=-1)
    for index, stage in enumerate(bench.stages[: last + 1]):
        if stage.kind == "host":
            for known in values:
                known |= bench.hosts[index].run(known)
        else:
            _Walk(stage, numbers(stage), bench.target, means, found).run(values)
    return found


class _Walk:
    """One device stage, layer after layer."""

    def __init__(
        self,
        stage: Stage,
        numbers: Quantization,
        target: Target,
        means: Rows,
        found: dict[str, tuple[float, ...]],
    ) -> None:
        self._numbers, self._target, self._means, self._found = numbers, target, means, found
        self._fixed = {name for name, fmt in stage.given.items() if fmt.kind == "int8"}
        sites = stage.sites
        self._built: Builder = lowered(sites, numbers, target, stage.inputs, stage.outputs)
        self._program: Program = self._built.program()
        self._made: dict[str, int] = {}  # output channels of a site that earlier layers made, where a Split cuts it

    def run(self, values: Sequence[dict[str, NDArray[np.float32]]]) -> None:
        """Adds to each of the `values` what the stage puts out."""
        program = self._program
        ends = DeviceSession(whole_plan(program, self._target), freeze=False)
        alive: list[dict[str, Ints]] = [
            {name: ends.quantize(name, known[name]) for name in program.inputs} for known in values
        ]
        last = {name: at for at, layer in enumerate(program.layers) for name in layer.inputs}
        for at, layer in enumerate(program.layers):
            part = self._corrected(alone(program, layer), alive)
            session = DeviceSession(whole_plan(part, self._target), freeze=False)
            for tensors in alive:
                made = session.run_quantized({name: tensors[name] for name in part.inputs})
                tensors |= {name: array.copy() for name, array in made.items()}
                for name in [name for name in tensors if last.get(name, at) <= at and name not in program.outputs]:
                    del tensors[name]
        for known, tensors in zip(values, alive, strict=True):
            known |= {name: ends.dequantize(name, tensors[name]) for name in program.outputs}

    def _corrected(self, part: Program, alive: Sequence[Mapping[str, Ints]]) -> Program:
        """The program of one layer; of one with weights, with the bias that follows the drift of what it reads."""
        (layer,) = part.layers
        if layer.op not in MAC_OPS:
            return part
        site = self._built.origins[layer.name][0]
        weights = self._numbers.weights.get(site.outputs[0])
        if weights is None or weight_name(site) in self._fixed:
            return part
        drift = self._drift(site.inputs[0], part, layer, alive)
        if drift is None:
            return part
        source = part.tensors[layer.inputs[0]].format
        sums = self._built.sums[site.outputs[0]]
        bias = follow_drift(site, weights, source, drift).bias + _addend(self._built.origins[layer.name])
        steps = np.rint(bias / (sums.input_scale * sums.scale)).astype(np.int64) - sums.bias
        start = self._made.get(site.outputs[0], 0)
        count = part.tensors[layer.outputs[0]].numbers[2]
        self._made[site.outputs[0]] = start + count
        group = 1 if "depthwise" in layer.op else int(layer.attrs["group"])
        params = add_to_bias(part.constants[layer.inputs[2]], steps[start : start + count], group)
        return replace(part, constants={**part.constants, layer.inputs[2]: params})

    def _drift(
        self, name: str, part: Program, layer: Layer, alive: Sequence[Mapping[str, Ints]]
    ) -> tuple[float, ...] | None:
        """Of the tensor that the layer reads as `name`; None where its channels are not those of the float tensor."""
        wanted = self._means.get(name)
        tensor = part.tensors[layer.inputs[0]]
        if wanted is None or len(wanted) != tensor.numbers[2]:
            return None
        if name not in self._found:
            rows = [tensors[layer.inputs[0]].reshape(-1, len(wanted)) for tensors in alive]
            total = np.sum([row.sum(axis=0, dtype=np.int64) for row in rows], axis=0)
            count = sum(len(row) for row in rows)
            seen = (total - count * tensor.format.zero_point[0]).astype(np.float64) / count * tensor.format.scale[0]
            self._found[name] = tuple((np.asarray(wanted, np.float64) - seen).tolist())
        return self._found[name]


def _addend(sites: Sequence[Site]) -> NDArray[np.float64]:
    """The constant of an Add behind the op with weights: lowering has put it into the bias."""
    if len(sites) > 1 and sites[1].op == "Add":
        return np.concatenate([np.asarray(array, np.float64).reshape(-1) for array in sites[1].constants.values()])
    return np.zeros(1)
