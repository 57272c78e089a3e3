"""A model, compiled or not  ->  the timing of its device stages on a chip.

Cycles need shapes, hardly numbers: a bare .onnx is planned with the same range for every tensor, and an .axm can be
planned again for another chip from the Program that it holds.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from axtool.artefact import axm
from axtool.errors import UnsupportedError, UsageError, located, plural
from axtool.plan.build import plan
from axtool.plan.build_directives import matching, require_matched
from axtool.plan.check_program import verify_program
from axtool.plan.directives_file import directives_from_dict, load_directives
from axtool.report.feed_forward import feed_forward_blocks
from axtool.report.plan_facts import groups, peak_bytes, peak_local_bytes, spilled_bytes, spilled_slots
from axtool.report.segments import segments
from axtool.sim.checks import read_commands, read_layers
from axtool.sim.images import encode_plan, sizes_of
from axtool.target import Target
from axtool.target_file import load_target, set_values, target_from_dict, target_to_dict
from axtool.timing.clock import time_plan
from axtool.timing.ledger import Timing
from axtool.types import Plan, Program

if TYPE_CHECKING:
    from axtool.graph.front import Reading

DEFAULT_TARGET = "qc-u-1d7-16mb"
Step = Callable[[str], None]  # says that a named step begins

log = logging.getLogger("axtool")


def _silent(name: str) -> None:
    """Nobody is told."""


@dataclass(frozen=True)
class Request:
    """What to profile. `settings` are KEY=VALUE changes of the chip, such as memory.ocm_bytes=4MiB."""

    model: Path
    target: str | None = None
    settings: tuple[str, ...] = ()
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    directives: Path | None = None  # what the planner is told; without, what the file keeps of its own
    recipe: str | None = None  # of an .onnx: what computes in which format


@dataclass(frozen=True)
class Stage:
    """The timing of a device stage, and what of its plan a profile shows beside; tuples have an entry a layer."""

    timing: Timing
    segments: tuple[str, ...]
    spilled_bytes: tuple[int, ...]
    groups: tuple[int | None, ...]
    peak_spilled_bytes: int = 0  # the most at one time
    peak_lrm_bytes: int = 0  # of one processing element
    feed_forward: tuple[tuple[int, int], ...] = ()  # the two linears of each block, as indices of layers


@dataclass(frozen=True)
class Profiled:
    """The device stages of a model on a chip, and how many nodes run beside them, which no timing counts."""

    target: Target
    stages: tuple[Stage, ...]
    host_nodes: int = 0

    @property
    def timings(self) -> tuple[Timing, ...]:
        return tuple(stage.timing for stage in self.stages)


def profile(request: Request, step: Step = _silent) -> Profiled:
    """The timing of each device stage. Raises UnsupportedError when the device runs nothing of the model."""
    source = Source(request, step)
    found = source.on(request.target, request.settings, step)
    concats = sum(layer.op == "concat" for timing in found.timings for layer in timing.layers)
    if concats and not source.compiled:
        log.warning(
            "planned without data, as if all tensors had one format: in the compiled file %s may take more cycles, "
            "since parts of other scales are rescaled",
            plural(concats, "concat"),
        )
    return found


class Source:
    """A model file, read once, and its Programs by what lowering asks a chip: many chips are profiled from it.

    `target` and `settings` of the request are those of `on`, which may be called with others.
    """

    def __init__(self, request: Request, step: Step = _silent) -> None:
        self._model, self._request = request.model, request
        self._directives = load_directives(request.directives) if request.directives is not None else ()
        self._lowered: dict[str, tuple[list[Program], int]] = {}
        self._artefact: axm.Artefact | None = None
        if axm.is_axm(self._model):
            step("reading")
            self._artefact = axm.read(self._model)
            if request.recipe is not None:
                raise UsageError("--recipe is of an .onnx: a compiled file has its formats", where=str(self._model))

    @property
    def compiled(self) -> bool:
        """Whether the file is an .axm, whose formats are known."""
        return self._artefact is not None

    def target(self, name: str | None, settings: tuple[str, ...] = ()) -> Target:
        """The chip of that name or file with its changes; without a name the one of the file, or the default one."""
        if name is None and self._artefact is not None:
            return changed(target_from_dict(self._artefact.target), settings)
        return changed(load_target(name or DEFAULT_TARGET), settings)

    def on(self, name: str | None, settings: tuple[str, ...] = (), step: Step = _silent) -> Profiled:
        """The timing on a chip. Raises FitError when the model does not fit it, and what reading a model raises."""
        target = self.target(name, settings)
        plans, host_nodes = self._plans(
            target, as_compiled=name is None and not settings and not self._directives, step=step
        )
        if not plans:
            raise UnsupportedError(
                "the device can run no part of this model",
                where=str(self._model),
                hint="`axtool info MODEL --support` says why",
                code="nothing-for-the-device",
            )
        step("timing")
        try:
            return Profiled(target, tuple(_stage(planned, target) for planned in plans), host_nodes)
        except OverflowError:
            raise UsageError(
                f"a frame takes more cycles on {target.name} than can be counted",
                where=str(self._model),
                hint="look at the slowest values of the chip: axtool targets show",
                code="too-many-cycles",
            ) from None

    def _plans(self, target: Target, *, as_compiled: bool, step: Step) -> tuple[list[Plan], int]:
        if self._artefact is None:
            programs, host_nodes = self._programs(target, step)
            step("planning")
            return self._planned(programs, target), host_nodes
        host_nodes = sum(row["kind"] == "host" for row in self._artefact.support)
        plans = [_legal(stage.plan, self._model) for stage in self._artefact.device_stages]
        if as_compiled:
            return plans, host_nodes
        step("planning")
        made = self._planned([_fitting(stage.program, target, self._model) for stage in plans], target)
        kept = [replace(one, without=stage.without) for one, stage in zip(made, plans, strict=True)]
        return kept, host_nodes

    def _planned(self, programs: list[Program], target: Target) -> list[Plan]:
        told = self._directives
        if not told and self._artefact is not None and self._artefact.provenance.get("directives"):
            told = directives_from_dict(self._artefact.provenance["directives"], where=str(self._model))
        with located(str(self._request.directives or self._model)):
            require_matched(told, programs)
        return [plan(program, target, matching(told, program)) for program in programs]

    def _programs(self, target: Target, step: Step) -> tuple[list[Program], int]:
        from axtool.graph.front import Reading

        key = _of_lowering(target)
        if key not in self._lowered:
            reading = Reading(self._request.input_shapes, self._request.dims)
            self._lowered[key] = programs_of_onnx(self._model, target, reading, step, self._request.recipe)
        return self._lowered[key]


def plans_of_onnx(
    model: Path, target: Target, reading: Reading, step: Step = _silent, recipe: str | None = None
) -> tuple[list[Plan], int]:
    """The plans of the device stages of a float model, and how many nodes run on the host beside them."""
    programs, host_nodes = programs_of_onnx(model, target, reading, step, recipe)
    step("planning")
    return [plan(program, target) for program in programs], host_nodes


def programs_of_onnx(
    model: Path, target: Target, reading: Reading, step: Step, recipe: str | None = None
) -> tuple[list[Program], int]:
    """What is planned of a float model: every tensor gets the range [-1, 1], and the format that the recipe says, a
    name of configs/quant or a file; without one int8.

    That changes no cycle but those of a Concat: parts of one format may lie in place, where calibrated ones that differ
    are rescaled.
    """
    from axtool.graph.front import read_front
    from axtool.plan.lower import lower
    from axtool.quant.follow import wish_of
    from axtool.quant.formats import quantize_stage
    from axtool.quant.recipe_file import load_recipe
    from axtool.quant.ties import observed_names

    wish = None if recipe is None else wish_of(load_recipe(recipe), target)
    front = read_front(model, target, reading, wish=wish, step=step)
    programs = []
    for stage in front.parts.stages:
        if stage.kind == "device":
            sites = stage.sites
            ranges = dict.fromkeys(observed_names(sites, stage.inputs, stage.outputs, (), stage.precision), (-1, 1))
            with located(str(front.loaded.path)):
                given, precision = front.cleaned.given, stage.precision
                numbers = quantize_stage(sites, ranges, target, stage.inputs, stage.outputs, given, precision=precision)
            programs.append(lower(sites, numbers, target, stage.inputs, stage.outputs))
    return programs, sum(verdict.kind == "host" for verdict in front.parts.verdicts)


def _of_lowering(target: Target) -> str:
    """What of a chip says how a model is cut and lowered: all but how fast it is and how much it holds."""
    aside = ("name", "description", "provenance", "clock_hz", "cores", "memory", "external", "costs")
    return json.dumps({key: value for key, value in target_to_dict(target).items() if key not in aside}, sort_keys=True)


def _stage(planned: Plan, target: Target) -> Stage:
    program = planned.program
    outputs = [program.tensors[layer.outputs[0]].shape for layer in program.layers]
    names = segments([layer.origin for layer in program.layers], [(shape[1], shape[2]) for shape in outputs])
    out = spilled_slots(planned)
    return Stage(
        time_plan(planned, target),
        names,
        spilled_bytes(planned, out),
        groups(planned),
        peak_bytes(out),
        peak_local_bytes(planned, target),
        feed_forward_blocks(program),
    )


def changed(target: Target, settings: tuple[str, ...]) -> Target:
    """The chip with the KEY=VALUE changes made, in order. Raises UsageError."""
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
