"""A text graph with random weights: lowered, run by the reference arithmetic, compared with onnxruntime."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from numpy.typing import NDArray

from axtool.graph.functions import attach
from axtool.graph.sites import sites_of
from axtool.ops.boxes import Box, Job, flat_tile, whole
from axtool.ops.encoding import dims_of
from axtool.ops.limits import why_not
from axtool.ops.reference import compute
from axtool.ops.storing import to_numbers, to_reals
from axtool.plan.check_program import verify_program
from axtool.plan.layout import axes_of
from axtool.plan.lower import lower
from axtool.plan.lower_wide import as_bytes
from axtool.quant.formats import quantize_stage
from axtool.sim.images import numbers_of
from axtool.target import Array, External, MemorySpec, Target
from axtool.types import Program, Quantization, Site, Tensor

Feeds = dict[str, NDArray[np.float32]]
Stored = dict[str, NDArray[np.int8]]


def target(*, vector_unit: bool = True, limits: Mapping[str, int] | None = None) -> Target:
    return Target(
        name="t",
        clock_hz=1e9,
        cores=1,
        array=Array(4, 4, 4, 16),
        memory=MemorySpec(1 << 22, 4096, 64.0),
        external=External(1e9, 1e9, 64, 100),
        channel_multiple=16,
        vector_unit=vector_unit,
        formats=("int8", "int16", "fx32"),
        limits=limits or {},
    )


class Case:
    """A text graph with random weights: its sites, ranges from random inputs, and what onnxruntime makes of them."""

    def __init__(
        self, graph: str, opset: int = 18, spread: float = 1.0, domain_ax: bool = False, **weights: object
    ) -> None:
        rng = np.random.default_rng(7)
        imports = f'"": {opset}' + (', "ax": 1' if domain_ax else "")
        model = onnx.parser.parse_model(f"<ir_version: 9, opset_import: [{imports}]> g {graph}")
        for name, given in weights.items():
            array = (
                rng.normal(0, 0.5, given).astype(np.float32)
                if isinstance(given, tuple)
                else np.asarray(given, np.float32)
            )
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        if domain_ax:
            model = ir.to_proto(attach(ir.from_proto(model)))
        else:
            model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        self.inputs = tuple(value.name for value in model.graph.input)
        self.outputs = tuple(value.name for value in model.graph.output)
        self.sites: tuple[Site, ...] = sites_of(ir.from_proto(model))
        self.feeds: Feeds = {
            value.name: rng.normal(0, spread, [d.dim_value for d in value.type.tensor_type.shape.dim]).astype(
                np.float32
            )
            for value in model.graph.input
        }
        self.floats = self._run(model)

    def _run(self, model: onnx.ModelProto) -> Feeds:
        names = list(dict.fromkeys(name for site in self.sites for name in site.outputs if name))
        watched = onnx.ModelProto()
        watched.CopyFrom(model)
        known = {value.name for value in watched.graph.output}
        watched.graph.output.extend(
            onnx.helper.make_empty_tensor_value_info(name) for name in names if name not in known
        )
        session = ort.InferenceSession(watched.SerializeToString(), providers=["CPUExecutionProvider"])
        made = dict(zip([value.name for value in session.get_outputs()], session.run(None, self.feeds), strict=True))
        return self.feeds | made

    def quantization(self, wide: Collection[str] = ()) -> Quantization:
        ranges = {name: (float(x.min(initial=0)), float(x.max(initial=0))) for name, x in self.floats.items()}
        return quantize_stage(self.sites, ranges, target(), self.inputs, self.outputs, wide=wide)

    def lowered(self, *, vector_unit: bool = True, wide: Collection[str] = ()) -> Program:
        for site in self.sites:
            assert why_not(site, target()) == ()
        numbers = self.quantization(wide)
        program = lower(self.sites, numbers, target(vector_unit=vector_unit), self.inputs, self.outputs)
        verify_program(program)
        return program

    def errors(self, program: Program) -> dict[str, tuple[float, float]]:
        """For each output: the largest error in its steps, and the SQNR in dB, against the clamped float result."""
        made = run_whole(program, self.feeds)
        result = {}
        for name in self.outputs:
            want, step = self.floats[name].astype(np.float64), program.tensors[name].format.scale[0]
            assert made[name].shape == want.shape
            noise = made[name] - want
            sqnr = 10 * np.log10(np.sum(want**2) / max(np.sum(noise**2), 1e-30))
            result[name] = (float(np.abs(noise).max() / step), float(sqnr))
        return result


def to_stored(x: NDArray[np.float32], tensor: Tensor) -> NDArray[np.float32]:
    kept = [axis for axis in axes_of(x.ndim, tensor.layout) if axis is not None]
    rest = [axis for axis in range(x.ndim) if axis not in kept]
    return x.transpose(rest + kept).reshape(1, *tensor.numbers)


def from_stored(x: NDArray[np.float32], tensor: Tensor) -> NDArray[np.float32]:
    shape = tensor.onnx_shape
    kept = [axis for axis in axes_of(len(shape), tensor.layout) if axis is not None]
    order = [axis for axis in range(len(shape)) if axis not in kept] + kept
    return x.reshape([shape[axis] for axis in order]).transpose(np.argsort(order))


def run_whole(program: Program, feeds: Feeds) -> Feeds:
    """The outputs in ONNX shape, real numbers."""
    values = whole_values(program, feeds)
    described = {name: program.tensors[name] for name in program.outputs}
    return {name: from_stored(to_reals(numbers_of(values[name], t), t.format), t) for name, t in described.items()}


def quantized(program: Program, feeds: Feeds) -> Stored:
    """The inputs as the device stores them, (h, w, c) in bytes."""
    described = {name: program.tensors[name] for name in program.inputs}
    return {name: as_bytes(to_numbers(to_stored(feeds[name], t), t.format)[0]) for name, t in described.items()}


def whole_values(program: Program, feeds: Feeds) -> Stored:
    """Every layer at once over whole tensors, with the reference arithmetic: (h, w, c) of each activation."""
    values = quantized(program, feeds)
    for layer in program.layers:
        out_dims = dims_of(program.tensors[layer.outputs[0]].shape)
        boxes = [_box(program, values, name) for name in layer.inputs]
        if layer.op == "concat":
            out = np.zeros(out_dims, np.int8)
            for part, box in enumerate(boxes):
                job = Job(layer.op, box.values.shape, out_dims, layer.attrs, whole(out_dims), part)
                offset, axis = layer.attrs["parts"][4 * part], layer.attrs["axis"]
                place = [slice(None)] * 3
                place[axis] = slice(offset, offset + box.values.shape[axis])
                out[tuple(place)] = compute(job, [box])
        else:
            in_dims = dims_of(program.tensors[layer.inputs[0]].shape)
            out = compute(Job(layer.op, in_dims, out_dims, layer.attrs, whole(out_dims)), boxes)
        assert out.shape == out_dims
        values[layer.outputs[0]] = out
    return values


def _box(program: Program, values: dict[str, NDArray[np.int8]], name: str) -> Box:
    if name in values:
        return Box(values[name], whole(values[name].shape))
    array = program.constants[name]
    if array.ndim == 4:
        return Box(array[0], whole(array.shape[1:]))
    data = array.reshape(-1).view(np.int8)
    return Box(data.reshape(1, 1, -1), flat_tile(0, data.size))
