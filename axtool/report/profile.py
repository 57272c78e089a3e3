"""A model, compiled or not  ->  the timing of its device stages on a chip.

Cycles need shapes, not numbers: a bare .onnx is planned with the same range for every tensor, and an .axm can be
planned again for another chip from the Program that it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from axtool.artefact import axm
from axtool.errors import UnsupportedError, UsageError, located
from axtool.plan.build import plan
from axtool.plan.check_program import verify_program
from axtool.sim.checks import read_commands, read_layers
from axtool.sim.images import encode_plan, sizes_of
from axtool.target import Target
from axtool.target_file import load_target, set_values, target_from_dict
from axtool.timing.clock import time_plan
from axtool.timing.ledger import Timing
from axtool.types import Plan, Program

if TYPE_CHECKING:
    from axtool.graph.front import Reading

DEFAULT_TARGET = "qc-u-1d7-16mb"


@dataclass(frozen=True)
class Request:
    """What to profile. `settings` are KEY=VALUE changes of the chip, such as memory.ocm_bytes=4MiB."""

    model: Path
    target: str | None = None
    settings: tuple[str, ...] = ()
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Profiled:
    """The timing of each device stage, and how many nodes run beside them, which no timing counts."""

    timings: tuple[Timing, ...]
    host_nodes: int = 0


def profile(request: Request, step: Callable[[str], None] = lambda name: None) -> Profiled:
    """The timing of each device stage. Raises UnsupportedError when the device runs nothing of the model."""
    target, plans, host_nodes = _plans(request, step)
    if not plans:
        raise UnsupportedError(
            "the device can run no part of this model",
            where=str(request.model),
            hint="`axtool info MODEL --support` says why",
            code="nothing-for-the-device",
        )
    step("timing")
    return Profiled(tuple(time_plan(planned, target) for planned in plans), host_nodes)


def _plans(request: Request, step: Callable[[str], None]) -> tuple[Target, list[Plan], int]:
    if not axm.is_axm(request.model):
        from axtool.graph.front import Reading

        target = _changed(load_target(request.target or DEFAULT_TARGET), request.settings)
        return target, *plans_of_onnx(request.model, target, Reading(request.input_shapes, request.dims), step)
    step("reading")
    artefact = axm.read(request.model)
    target = target_from_dict(artefact.target) if request.target is None else load_target(request.target)
    plans = [_legal(stage.plan, request.model) for stage in artefact.device_stages]
    host_nodes = sum(row["kind"] == "host" for row in artefact.support)
    if request.target is None and not request.settings:
        return target, plans, host_nodes
    target = _changed(target, request.settings)
    step("planning")
    return target, [plan(_fitting(stage.program, target, request.model), target) for stage in plans], host_nodes


def plans_of_onnx(
    model: Path, target: Target, reading: Reading, step: Callable[[str], None] = lambda name: None
) -> tuple[list[Plan], int]:
    """The plans of the device stages of a float model, and how many nodes run on the host beside them.

    Every tensor gets the range [-1, 1], which changes no cycle.
    """
    from axtool.graph.front import read_front
    from axtool.plan.lower import lower
    from axtool.quant.formats import quantize_stage
    from axtool.quant.ties import observed_names

    front = read_front(model, target, reading, step=step)
    step("planning")
    plans = []
    for stage in front.parts.stages:
        if stage.kind == "device":
            sites = stage.sites
            ranges = dict.fromkeys(observed_names(sites, stage.inputs, stage.outputs), (-1.0, 1.0))
            with located(str(front.loaded.path)):
                numbers = quantize_stage(sites, ranges, target, stage.inputs, stage.outputs, front.cleaned.given)
            plans.append(plan(lower(sites, numbers, target, stage.inputs, stage.outputs), target))
    return plans, sum(verdict.kind == "host" for verdict in front.parts.verdicts)


def _changed(target: Target, settings: tuple[str, ...]) -> Target:
    changes: dict[str, object] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise UsageError(
                f"--set {setting}: want KEY=VALUE", hint="for example memory.ocm_bytes=4MiB", code="bad-option"
            )
        changes[key] = value
    return set_values(target, changes) if changes else target


def _legal(planned: Plan, where: Path) -> Plan:
    """The plan of a file, after the checks that an engine makes. Raises UsageError."""
    try:
        verify_program(planned.program)
        layers, layer_offsets, commands, command_offsets = encode_plan(planned)
        read_commands(commands, command_offsets, read_layers(layers, layer_offsets), sizes_of(planned))
    except ValueError as error:
        raise UsageError(f"the plan is not legal: {error}", where=str(where), code="not-axm") from error
    return planned


def _fitting(program: Program, target: Target, model: Path) -> Program:
    fused = any(layer.attrs.get("act") for layer in program.layers)
    if fused and not target.vector_unit:
        raise UsageError(
            f"{target.name} has no vector unit, the file fuses activations behind MAC layers",
            where=str(model),
            hint=f"compile the model with --target {target.name}",
            code="other-lowering",
        )
    return program
