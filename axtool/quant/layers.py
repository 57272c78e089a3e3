"""Stages, their running programs and samples  ->  what each device layer loses: up to there, and on its own.

Accumulated: the tensor of the running device against the float model's. Single: the layer alone, fed with the float
model's tensors, quantized. A layer whose single error is large is where the accuracy goes.

The float model runs in pieces, and each tensor is judged as it is made and let go, so that no sample is kept whole.
Everything is counted in steps of the tensor's format, in the order in which the device stores it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.graph.split import Stage
from axtool.ops.arithmetic import LIMITS
from axtool.plan.alone import alone
from axtool.plan.build import plan
from axtool.quant.decibels import decibels, finite
from axtool.quant.observe import Progress, Work, run_pieces
from axtool.quant.pieces import BUDGET_BYTES, Piece, cut
from axtool.runtime.device import DeviceSession, to_stored
from axtool.runtime.model import HostSession
from axtool.sim.images import Numbers
from axtool.target import Target
from axtool.types import Layer, Program, QFormat, Tensor

BAD_DB = 15.0
FEW_LEVELS = 8
Values = Mapping[str, NDArray[Any]]
Sessions = Sequence[HostSession | DeviceSession]
LARGEST = 1e15  # steps: the squares of more are no float32
MOST_KEPT = 64 << 20  # bytes of device memory of the layers that stay ready for the next sample


class Levels:
    """Which integers occur. int8 is looked at in pairs: half the places to visit."""

    def __init__(self) -> None:
        self._seen = np.zeros(2**16, bool)
        self._pairs = False

    def add(self, values: NDArray[Any]) -> None:
        """int8 or int16 values, of one kind always."""
        row = np.ascontiguousarray(values).reshape(-1)
        self._pairs = row.itemsize == 1
        if self._pairs and row.size % 2:
            row = np.append(row, row[-1])
        self._seen[row.view(np.uint16)] = True

    def __len__(self) -> int:
        if not self._pairs:
            return int(self._seen.sum())
        pairs = self._seen.reshape(256, 256)
        return int((pairs.any(axis=0) | pairs.any(axis=1)).sum())


class Rounded:
    """A tensor of the float model in the device's format and order: `steps` unrounded, `codes` as it would be stored.

    `signal` and `error` are sums of squares over the pixels of each channel, in steps: of the values and
    of their rounding.
    """

    def __init__(self, array: Any, tensor: Tensor) -> None:
        self.tensor = tensor
        form = tensor.format
        lo, hi = LIMITS[form.kind]
        pixels = to_stored(np.asarray(array, np.float32), tensor)
        scale, zero = (np.asarray(v if len(v) > 1 else v[0], np.float32) for v in (form.scale, form.zero_point))
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.asarray(pixels / scale)
            steps += zero
        self.missing: NDArray[np.bool_] | None = None
        self.codes = np.clip(np.rint(steps), lo, hi)
        if steps.size and not _square(steps.reshape(-1)) < np.inf:
            fine = np.abs(steps) < LARGEST
            self.missing = ~fine.reshape(-1)
            steps = np.where(fine, steps, zero)
            self.codes = np.where(np.isnan(self.codes), zero, self.codes)
        self.steps, self.codes = (array.reshape(-1, steps.shape[-1]) for array in (steps, self.codes))
        self.signal = _squares(self.steps - zero)
        self.error = _squares(
            self.codes - self.steps if self.missing is None else np.where(fine, self.codes - steps, 0)
        )
        self.count = steps.size - (0 if self.missing is None else int(self.missing.sum()))

    def stored(self) -> Numbers:
        """What the device keeps of it."""
        return self.codes.astype(self.tensor.format.kind).reshape(1, *self.tensor.numbers)


@dataclass
class Energy:
    """Of each channel of a tensor: the mean square of the float model's values and of their rounding, in real units."""

    scale: float
    pixels: int = 0
    signal: NDArray[np.float64] | float = 0.0
    error: NDArray[np.float64] | float = 0.0

    def add(self, values: Rounded) -> None:
        """One sample."""
        self.pixels += len(values.steps)
        self.signal, self.error = self.signal + values.signal, self.error + values.error

    def means(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(channels,) each."""
        factor = self.scale**2 / max(self.pixels, 1)
        return np.atleast_1d(self.signal) * factor, np.atleast_1d(self.error) * factor


@dataclass
class LayerFigures:
    """One layer over all samples: sums of squares and counts, in steps of its output's format.

    `signal` is the float model's. Errors against it: `accumulated`, `single`, and `stored`, which rounding it to the
    format makes, of which `cut` comes from values that the format cannot hold. `values` were compared.
    """

    index: int
    layer: Layer
    format: QFormat
    signal: float = 0.0
    accumulated: float = 0.0
    single: float = 0.0
    stored: float = 0.0
    cut: float = 0.0
    saturated: int = 0
    values: int = 0
    largest: float = 0.0  # accumulated error of a value
    low: float = math.inf  # of the float model
    high: float = -math.inf
    tie_factor: float = 1.0  # how many times coarser the steps are than this tensor needs: it shares a format
    tied_to: str = ""
    levels: Levels = field(default_factory=Levels)
    channel_low: NDArray[np.int64] | None = None  # levels of each channel of the layer alone
    channel_high: NDArray[np.int64] | None = None

    @property
    def single_db(self) -> float:
        return decibels(self.signal, self.single)

    @property
    def accumulated_db(self) -> float:
        return decibels(self.signal, self.accumulated)

    @property
    def bad(self) -> bool:
        return self.single_db < BAD_DB

    @property
    def saturated_share(self) -> float:
        return self.saturated / self.values if self.values else 0.0

    @property
    def varies(self) -> bool:
        """Whether the float model has more than one value there."""
        return self.low < self.high

    @property
    def reach(self) -> float:
        """From the smallest value of the float model to the largest, 0 included, in steps."""
        return max(self.high, 0.0) - min(self.low, 0.0)

    @property
    def coarser(self) -> float:
        """How many times wider the range of the format is than what the float model put there; 1 where it is not."""
        lo, hi = LIMITS[self.format.kind]
        own = self.reach
        return max((hi - lo) / own, 1.0) if own > 0 else 1.0

    @property
    def few_level_channels(self) -> tuple[int, int]:
        """(channels that vary, but over fewer than 8 levels; all channels)."""
        if self.channel_low is None or self.channel_high is None:
            return 0, 0
        count = self.channel_high - self.channel_low + 1
        return int(((count > 1) & (count < FEW_LEVELS)).sum()), count.size

    def to_dict(self) -> dict[str, Any]:
        """Plain values; SQNR in dB, null where it is not finite."""
        few, channels = self.few_level_channels
        return {
            "index": self.index,
            "op": self.layer.op,
            "name": self.layer.name,
            "origin": list(self.layer.origin),
            "output": self.layer.outputs[0],
            "accumulated_sqnr_db": finite(self.accumulated_db),
            "accumulated_exact": self.accumulated == 0,
            "single_sqnr_db": finite(self.single_db),
            "single_exact": self.single == 0,
            "max_abs_error": self.largest * self.format.scale[0],
            "saturated_share": self.saturated_share,
            "used_levels": len(self.levels),
            "few_level_channels": few,
            "channels": channels,
            "tie_factor": self.tie_factor,
            "tied_to": self.tied_to,
            "bad": self.bad,
        }

    def add(self, values: Rounded, device: NDArray[Any], alone: NDArray[Any]) -> None:
        """One sample: the float model's tensor; what the device has there; what the layer makes. All in one order.

        Values of the float model that are no numbers are left out.
        """
        steps = values.steps.reshape(-1)
        device, alone = device.reshape(-1), alone.reshape(-1)
        if values.missing is not None:
            zero = device.dtype.type(self.format.zero_point[0])
            device, alone = (np.where(values.missing, zero, row) for row in (device, alone))
        if not steps.size:
            return
        zero_point = self.format.zero_point[0]
        lo, hi = LIMITS[self.format.kind]
        low, high = float(steps.min()), float(steps.max())
        self.low, self.high = min(self.low, low - zero_point), max(self.high, high - zero_point)
        self.values += values.count
        if low < lo - 0.5 or high > hi + 0.5:
            beyond = steps - np.clip(steps, lo - 0.5, hi + 0.5)
            self.saturated += int(np.count_nonzero(beyond))
            self.cut += _square(beyond)
        self.signal += float(values.signal.sum())
        self.stored += float(values.error.sum())
        error = device - steps
        self.accumulated += _square(error)
        self.largest = max(self.largest, float(error.max()), -float(error.min()))
        self.single += _square(np.subtract(alone, steps, out=error))

    def add_levels(self, alone: NDArray[Any]) -> None:
        """(1, h, w, c): the values that the layer makes of one sample."""
        self.levels.add(alone)
        rows = alone.reshape(-1, alone.shape[-1])
        low, high = rows.min(axis=0).astype(np.int64), rows.max(axis=0).astype(np.int64)
        self.channel_low = low if self.channel_low is None else np.minimum(self.channel_low, low)
        self.channel_high = high if self.channel_high is None else np.maximum(self.channel_high, high)


def check_layers(
    stages: Sequence[Stage],
    sessions: Sessions,
    samples: Iterable[Values],
    target: Target,
    factors: Mapping[str, Sequence[float]] | None = None,
    progress: Progress | None = None,
    budget_bytes: int = BUDGET_BYTES,
) -> tuple[list[LayerFigures], dict[str, Energy]]:
    """The figures of every device layer whose output the float model has too, in order.

    Beside them the energy of each tensor that a layer reads. `stages` are the float model, `sessions` the compiled
    one; tensors of one name are the same, but for the `factors` that their channels (axis 1) have on the device.
    """
    devices = [session for session in sessions if isinstance(session, DeviceSession)]
    wanted = [name for device in devices for name in _judged(device.program)]
    pieces, known = _float_pieces(stages, wanted, budget_bytes)
    checks = _Checks(sessions, known, target, factors or {})
    run_pieces(Work(tuple(pieces), (), histograms=False), samples, checks.visit, progress, checks.begin)
    return [figures for check in checks.devices for figures in check.figures.values()], {
        name: energy for check in checks.devices for name, energy in check.energy.items()
    }


def _judged(program: Program) -> Iterator[str]:
    """Inputs of the program and what its layers make."""
    yield from program.inputs
    for layer in program.layers:
        yield layer.outputs[0]


def _float_pieces(stages: Sequence[Stage], wanted: Sequence[str], budget_bytes: int) -> tuple[list[Piece], set[str]]:
    """The pieces of the float model that make the wanted tensors, and the names of those that there are."""
    import onnx_ir as ir

    names, known = set(wanted), set[str]()
    pieces: list[Piece] = []
    needed: set[str] = set()
    for stage in reversed(stages):
        graph = stage.float_model.graph
        made = {value.name or "" for node in graph for value in node.outputs}
        known |= {value.name or "" for value in graph.inputs} & names
        observed = [value.name or "" for node in graph for value in node.outputs if value.name in names]
        known |= set(observed)
        if observed or needed & made:
            pieces = cut(ir.to_proto(stage.float_model), observed, needed & made, budget_bytes) + pieces
            needed |= set(stage.inputs)
    return pieces, known


class _Checks:
    """All device stages of one compiled model, sample after sample."""

    def __init__(
        self, sessions: Sessions, known: set[str], target: Target, factors: Mapping[str, Sequence[float]]
    ) -> None:
        self._sessions, self._factors = sessions, factors
        count = 0
        self.devices: list[_DeviceCheck] = []
        for session in sessions:
            if isinstance(session, DeviceSession):
                self.devices.append(_DeviceCheck(session, known, target, count))
                count += len(self.devices[-1].figures)

    def begin(self, index: int, feeds: Values) -> None:
        """Run the compiled model on a sample."""
        values = dict(feeds)
        remaining = iter(self.devices)
        last = max((i for i, session in enumerate(self._sessions) if isinstance(session, DeviceSession)), default=-1)
        for session in self._sessions[: last + 1]:
            values |= session.run(values) if isinstance(session, HostSession) else next(remaining).run(values)

    def visit(self, index: int, name: str, array: Any) -> None:
        """Judge a tensor of the float model."""
        if name in self._factors:
            along = (-1,) + (1,) * (array.ndim - 2)
            array = array * np.asarray(self._factors[name], np.float32).reshape(along)
        for device in self.devices:
            device.visit(name, array)


class _DeviceCheck:
    """One device stage: what it made of the sample, what the float model made so far, and the figures."""

    def __init__(self, session: DeviceSession, known: set[str], target: Target, first: int) -> None:
        self._session, self._target = session, target
        program = session.program
        tensors = program.tensors
        layers = [layer for layer in program.layers if layer.outputs[0] in known]
        self.figures = {
            layer.outputs[0]: LayerFigures(first + at, layer, tensors[layer.outputs[0]].format)
            for at, layer in enumerate(layers)
        }
        self._alone: dict[str, DeviceSession] = {}
        self._kept = 0
        self._readers = {
            name: sum(name in layer.inputs for layer in layers)
            for name in {*program.inputs, *(name for layer in layers for name in layer.inputs)} & known
        }
        self.energy = {name: Energy(tensors[name].format.scale[0]) for name in self._readers}
        self._made = tuple(layer.outputs[0] for layer in program.layers)
        self._seen: dict[str, Numbers] = {}
        self._float: dict[str, tuple[Numbers, int]] = {}  # quantized, and how many layers will read it

    def run(self, values: Values) -> dict[str, NDArray[np.float32]]:
        """The outputs of the stage on a sample, every tensor of which is kept to be compared."""
        session = self._session
        fed = {name: session.quantize(name, values[name]) for name in session.program.inputs}
        self._seen, self._float = {**fed, **session.run_quantized(fed, watch=self._made)}, {}
        return {name: session.dequantize(name, self._seen[name]) for name in session.program.outputs}

    def visit(self, name: str, array: Any) -> None:
        """Judge the layer that makes a tensor, and keep the tensor for the layers that read it."""
        figures, readers = self.figures.get(name), self._readers.get(name, 0)
        if figures is None and not readers:
            return
        tensor = self._session.program.tensors[name]
        values = Rounded(array, tensor)
        if readers:
            self._float[name] = values.stored(), readers
            self.energy[name].add(values)
        if figures is not None:
            made = self._run_alone(figures.layer)
            figures.add(values, self._seen[name], made)
            figures.add_levels(made)

    def _run_alone(self, layer: Layer) -> Numbers:
        name = layer.outputs[0]
        session = self._alone.get(name)
        if session is None:
            planned = plan(alone(self._session.program, layer), self._target)
            session = DeviceSession(planned, freeze=False)
            size = sum(planned.sizes.values())
            if self._kept + size <= MOST_KEPT:
                self._alone[name] = session
                self._kept += size
        return session.run_quantized({source: self._take(source) for source in session.program.inputs})[name]

    def _take(self, name: str) -> Numbers:
        """The float model's tensor, where it has it; what the device made, for what exists only there."""
        if name not in self._float:
            return self._seen[name]
        values, readers = self._float.pop(name)
        if readers > 1:
            self._float[name] = values, readers - 1
        return values


def _square(values: NDArray[Any]) -> float:
    return float(np.dot(values, values))


def _squares(pixels: NDArray[Any]) -> NDArray[np.float64]:
    """(pixels, channels) -> the sum of squares of each channel."""
    sums: NDArray[np.float32] = np.einsum("ij,ij->j", pixels, pixels)
    return sums.astype(np.float64)
