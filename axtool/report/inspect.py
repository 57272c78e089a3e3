"""A model file, .onnx or .axm  ->  its description: a JSON document and text. No device is needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from axtool.artefact import axm
from axtool.artefact.axm import Artefact, DeviceStage
from axtool.errors import UsageError
from axtool.ops.costs import params
from axtool.quant.recipe_file import recipe_from_dict
from axtool.report.prepared import effective
from axtool.report.units import header
from axtool.runtime.fitting import fits_of
from axtool.target import Target
from axtool.types import Slot, TensorSpec


def inspect(
    path: Path, target: Target, input_shapes: Mapping[str, tuple[int, ...]], dims: Mapping[str, int]
) -> dict[str, Any]:
    """The document of either kind of file. Raises the AxError of the file that is neither."""
    axm.refuse_pipeline(path)
    if axm.is_axm(path):
        return inspect_artefact(path, axm.read(path))
    return inspect_onnx(path, target, input_shapes, dims)


def inspect_onnx(
    path: Path, target: Target, input_shapes: Mapping[str, tuple[int, ...]], dims: Mapping[str, int]
) -> dict[str, Any]:
    """Inputs, outputs, ops, MACs, parameters, and where each node would run on `target`."""
    from axtool.graph.front import Reading, read_front

    front = read_front(path, target, Reading(input_shapes, dims), freeze=False)
    loaded, parts = front.loaded, front.parts
    sites = [site for stage in parts.stages for site in stage.sites]
    return {
        **header("info"),
        "file": str(path),
        "kind": "onnx",
        "file_bytes": loaded.size_bytes,
        "sha256": loaded.sha256,
        "producer": loaded.producer,
        "opset": loaded.opset,
        "ir_version": loaded.ir_version,
        "target": target.name,
        "inputs": [_spec(spec) for spec in (*front.inputs, *front.overridable)],
        "outputs": [_spec(spec) for spec in front.outputs],
        "ops": dict(sorted(Counter(site.op for site in sites).items())),
        "macs": parts.macs,
        "device_macs": parts.device_macs,
        "parameters": sum(params(site) for site in sites),
        "stages": [
            {
                "kind": stage.kind,
                "nodes": len(stage.model.graph),
                "inputs": list(stage.inputs),
                "outputs": list(stage.outputs),
            }
            for stage in parts.stages
        ],
        "support": [verdict.to_dict() for verdict in parts.verdicts],
        "passes": {result.name: result.count for result in front.cleaned.log if result.count},
        "external_files": [{"file": item.name, "bytes": item.size_bytes} for item in loaded.external_files],
        "weight_faults": [str(fault) for fault in loaded.weight_faults],
        "random_ops": list(loaded.random_ops),
        "export": dict(loaded.export) or None,
        "notes": [*loaded.notes, *front.cleaned.notes],
        "warnings": list(loaded.warnings),
    }


def inspect_artefact(path: Path, artefact: Artefact) -> dict[str, Any]:
    """What an .axm holds: stages, layers, formats, the memory plan, the split with reasons, provenance."""
    stages = [_stage(stage) for stage in artefact.stages]
    _check_recipe(path, artefact)
    return {
        **header("info"),
        "file": str(path),
        "kind": "axm",
        "file_bytes": path.stat().st_size,
        "target": artefact.target["name"],
        "inputs": [_spec(spec) for spec in artefact.inputs],
        "outputs": [_spec(spec) for spec in artefact.outputs],
        "preparation": effective(artefact.preparation),
        "task": dict(artefact.task),
        "export": dict(artefact.export) or None,
        "kernels": [fit.to_dict() for fit in fits_of(artefact)],
        "ops": dict(sorted(Counter(layer["op"] for stage in stages for layer in stage.get("layers", ())).items())),
        "macs": sum(row["macs"] for row in artefact.support),
        "device_macs": sum(row["macs"] for row in artefact.support if row["kind"] == "device"),
        "stages": stages,
        "support": [dict(row) for row in artefact.support],
        "quantization": {
            key: value for key, value in artefact.quantization.items() if key not in ("ranges", "factors")
        },
        "provenance": dict(artefact.provenance),
    }


def _check_recipe(path: Path, artefact: Artefact) -> None:
    """Raise UsageError for a file whose recipe, with what became of it, is none."""
    stored = artefact.quantization.get("recipe")
    if not stored:
        return
    made = recipe_from_dict(stored, str(path))
    if made.resolved is None or len(made.resolved.layers) != len(made.layers):
        hint = "compile the model again"
        raise UsageError("the recipe does not say what became of it", where=str(path), hint=hint, code="not-axm")


def _stage(stage: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"inputs": list(stage.inputs), "outputs": list(stage.outputs)}
    if not isinstance(stage, DeviceStage):
        return {"kind": "host", "onnx_bytes": len(stage.onnx), **row}
    plan, program = stage.plan, stage.plan.program
    return {
        "kind": "device",
        **row,
        "layers": [
            {"index": i, "op": layer.op, "name": layer.name, "origin": list(layer.origin), "output": layer.outputs[0]}
            for i, layer in enumerate(program.layers)
        ],
        "commands": len(plan.commands),
        "constant_bytes": sum(array.nbytes for array in program.constants.values()),
        "tensors": [
            {
                "name": tensor.name,
                "shape": list(tensor.shape),
                "onnx_shape": list(tensor.onnx_shape),
                "format": tensor.format.kind,
                "scale": tensor.format.scale[0] if tensor.format.scale else None,
                "zero_point": tensor.format.zero_point[0],
                "fraction_bits": tensor.format.fraction_bits,
            }
            for name, tensor in program.tensors.items()
            if name not in program.constants
        ],
        "slots": [_slot(slot) for slot in plan.slots if slot.tensor not in program.constants],
        "memory_bytes": dict(plan.sizes),
    }


def _slot(slot: Slot) -> dict[str, Any]:
    return {
        "tensor": slot.tensor, "memory": slot.memory, "offset": slot.offset, "bytes": slot.size,
        "first_layer": slot.first, "last_layer": slot.last,
    }  # fmt: skip


def _spec(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "shape": list(spec.shape), "dtype": spec.dtype}
