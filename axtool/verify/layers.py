"""Layer by layer: the accumulated error, and the error that each layer makes on its own.

Accumulated: the tensor of the running device against the float model's. Single: the layer alone, fed with the float
model's tensors, quantized. A layer whose single error is large is where the accuracy goes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.graph.float_run import FloatModel
from axtool.graph.split import Stage
from axtool.plan.build import plan
from axtool.runtime.device import DeviceSession
from axtool.runtime.model import CompiledModel
from axtool.target import Target
from axtool.target_file import target_from_dict
from axtool.types import Layer, Program, QFormat
from axtool.verify.check import Opened, Request, open_request
from axtool.verify.metrics import Comparison, finite

BAD_DB = 15.0


@dataclass
class LayerFigures:
    """One layer over all samples. `saturated` counts the values of the float model that its int8 output cannot hold,
    `levels` are the int8 values that occur.
    """

    index: int
    layer: Layer
    accumulated: Comparison
    single: Comparison
    saturated: int = 0
    values: int = 0
    levels: NDArray[np.bool_] | None = None

    @property
    def bad(self) -> bool:
        return self.single.sqnr_db < BAD_DB

    def to_dict(self) -> dict[str, Any]:
        """Plain values; SQNR in dB."""
        return {
            "index": self.index,
            "op": self.layer.op,
            "name": self.layer.name,
            "origin": list(self.layer.origin),
            "output": self.layer.outputs[0],
            "accumulated_sqnr_db": finite(self.accumulated.sqnr_db),
            "accumulated_exact": self.accumulated.exact,
            "single_sqnr_db": finite(self.single.sqnr_db),
            "single_exact": self.single.exact,
            "max_abs_error": self.accumulated.max_error,
            "saturated_share": self.saturated / self.values if self.values else 0.0,
            "used_levels": 0 if self.levels is None else int(self.levels.sum()),
            "bad": self.bad,
        }


def verify_layers(request: Request, count: Callable[[int, int], None] = lambda done, total: None) -> list[LayerFigures]:
    """The figures of every device layer whose output the float model has, in order."""
    opened = open_request(request)
    target = target_from_dict(opened.model.artefact.target)
    names = _shared_names(opened)
    source = FloatModel(
        opened.front.parts.stages,
        threads=request.threads,
        expose=names,
        unread=[spec.name for spec in opened.model.inputs],
        where=str(request.against),
    )
    rows = _rows(opened.model, set(names), target)
    for done, feeds in enumerate(opened.samples, 1):
        wanted = {**feeds, **source.run(feeds)}
        _, seen = opened.model.run_watched(feeds)
        for device, session, figures in rows:
            _add(device, session, figures, {**seen, **wanted}, wanted, seen)
        count(done, len(opened.samples))
    return [figures for _, _, figures in rows]


Row = tuple[DeviceSession, DeviceSession, LayerFigures]


def _shared_names(opened: Opened) -> list[str]:
    """Tensors that both the device and the float graph have, inputs of the device included."""
    known: set[str] = set()
    for stage in opened.front.parts.stages:
        if isinstance(stage, Stage):
            known |= {value.name or "" for node in stage.model.graph for value in node.outputs}
            known |= {value.name or "" for value in stage.model.graph.inputs}
    names = [
        name
        for device in opened.model.devices
        for name in (*device.program.inputs, *(n for layer in device.program.layers for n in layer.outputs))
    ]
    return [name for name in dict.fromkeys(names) if name in known]


def _rows(model: CompiledModel, known: set[str], target: Target) -> list[Row]:
    rows: list[Row] = []
    for device in model.devices:
        for layer in device.program.layers:
            if layer.outputs[0] in known:
                session = DeviceSession(plan(alone(device.program, layer), target))
                name = layer.outputs[0]
                figures = LayerFigures(len(rows), layer, Comparison(name), Comparison(name), 0, 0, np.zeros(256, bool))
                rows.append((device, session, figures))
    return rows


def alone(program: Program, layer: Layer) -> Program:
    """The program of one layer: its tensors, its constants, nothing else."""
    names = dict.fromkeys((*layer.inputs, *layer.outputs))
    constants = {name: program.constants[name] for name in names if name in program.constants}
    inputs = tuple(dict.fromkeys(name for name in layer.inputs if name not in constants))
    return Program({name: program.tensors[name] for name in names}, (layer,), constants, inputs, layer.outputs)


def _add(
    device: DeviceSession,
    session: DeviceSession,
    figures: LayerFigures,
    values: Mapping[str, NDArray[Any]],
    wanted: Mapping[str, NDArray[Any]],
    seen: Mapping[str, NDArray[Any]],
) -> None:
    name = figures.layer.outputs[0]
    shape = device.program.tensors[name].onnx_shape
    reference = np.asarray(wanted[name], np.float32).reshape(shape)
    figures.accumulated.add(reference, seen[name])
    feeds = {n: np.asarray(values[n], np.float32).reshape(_shape(session, n)) for n in session.program.inputs}
    quantized = session.run_quantized({n: session.quantize(n, array) for n, array in feeds.items()})
    q = quantized[name]
    figures.single.add(reference, session.dequantize(name, q))
    low, high = range_of(device.program.tensors[name].format)
    figures.saturated += int(((reference < low) | (reference > high)).sum())
    figures.values += q.size
    assert figures.levels is not None
    figures.levels[np.unique(q).astype(np.int64) + 128] = True


def range_of(form: QFormat) -> tuple[float, float]:
    """The real values that int8 can hold, half a step further at both ends: what is rounded is not cut off."""
    scale, zero_point = form.scale[0], form.zero_point[0]
    return (-128.5 - zero_point) * scale, (127.5 - zero_point) * scale


def _shape(session: DeviceSession, name: str) -> tuple[int, ...]:
    return session.program.tensors[name].onnx_shape
