"""Stages, their running programs and samples  ->  what each device layer loses: up to there, and on its own.

Accumulated: the tensor of the running device against the float model's. Single: the layer alone, fed with the float
model's tensors, quantized. A layer whose single error is large is where the accuracy goes.

The float model runs in pieces, and each tensor is judged as it is made and let go, so that no sample is kept whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.graph.split import Stage
from axtool.ops.storing import DTYPES, counted, unit_of
from axtool.plan.alone import alone
from axtool.plan.build import plan
from axtool.quant.layer_figures import Energy, LayerFigures, blocks_of
from axtool.quant.observe import Progress, Work, run_pieces
from axtool.quant.pieces import BUDGET_BYTES, Piece, cut
from axtool.runtime.device import DeviceSession
from axtool.runtime.model import HostSession
from axtool.sim.images import Numbers
from axtool.target import Target
from axtool.types import Layer, Program

Values = Mapping[str, NDArray[Any]]
Sessions = Sequence[HostSession | DeviceSession]
MOST_KEPT = 64 << 20  # bytes of device memory of the layers that stay ready for the next sample


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
    again = not isinstance(samples, Sized) or len(samples) > 1
    checks = _Checks(sessions, known, target, factors or {}, MOST_KEPT if again else 0)
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
        self, sessions: Sessions, known: set[str], target: Target, factors: Mapping[str, Sequence[float]], kept: int
    ) -> None:
        self._sessions, self._factors = sessions, factors
        count = 0
        self.devices: list[_DeviceCheck] = []
        for session in sessions:
            if isinstance(session, DeviceSession):
                self.devices.append(_DeviceCheck(session, known, target, count, kept))
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

    def __init__(self, session: DeviceSession, known: set[str], target: Target, first: int, kept: int) -> None:
        self._session, self._target, self._room = session, target, kept
        program = session.program
        tensors = program.tensors
        layers = [layer for layer in program.layers if layer.outputs[0] in known]
        self.figures = {
            layer.outputs[0]: LayerFigures(first + at, layer, tensors[layer.outputs[0]].format)
            for at, layer in enumerate(layers)
        }
        self._alone: dict[str, DeviceSession] = {}
        self._readers = {
            name: sum(name in layer.inputs for layer in layers)
            for name in {*program.inputs, *(name for layer in layers for name in layer.inputs)} & known
        }
        self.energy = {name: Energy(unit_of(tensors[name].format)) for name in self._readers}
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
        made = self._run_alone(figures.layer)[0] if figures is not None else None
        form = tensor.format
        codes = np.empty(tensor.numbers, DTYPES[form.kind]) if readers else None
        for rows, values in blocks_of(np.asarray(array), tensor):
            if codes is not None:
                codes[rows] = values.codes.reshape(codes[rows].shape)
                self.energy[name].add(values)
            if figures is not None and made is not None:
                figures.add(values, counted(self._seen[name][0, rows], form), counted(made[rows], form))
                figures.add_levels(made[rows])
        if codes is not None:
            self._float[name] = codes[None], readers

    def _run_alone(self, layer: Layer) -> Numbers:
        name = layer.outputs[0]
        session = self._alone.get(name)
        if session is None:
            planned = plan(alone(self._session.program, layer), self._target)
            session = DeviceSession(planned, freeze=False)
            size = sum(planned.sizes.values())
            if size <= self._room:
                self._alone[name] = session
                self._room -= size
        return session.run_quantized({source: self._take(source) for source in session.program.inputs})[name]

    def _take(self, name: str) -> Numbers:
        """The float model's tensor, where it has it; what the device made, for what exists only there."""
        if name not in self._float:
            return self._seen[name]
        values, readers = self._float.pop(name)
        if readers > 1:
            self._float[name] = values, readers - 1
        return values
