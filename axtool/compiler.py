"""The road, on one page: model.onnx -> clean graph -> stages -> numbers -> programs -> plans -> one .axm.

Every step is a function from value to value; this page says their order and what is said about them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from axtool import __version__
from axtool.artefact import axm
from axtool.artefact.axm import Artefact, DeviceStage, HostStage
from axtool.assemble import assemble
from axtool.config import refuse_overwrite, write_together
from axtool.errors import UnsupportedError, UsageError, located
from axtool.graph.front import Front, read_front
from axtool.graph.names import value_names
from axtool.graph.regions import count_of
from axtool.graph.signature import check_ends, to_bytes
from axtool.graph.split import Stage
from axtool.graph.standard import check_standard
from axtool.inputs.samples import Samples, open_samples
from axtool.inputs.spec import InputSpec
from axtool.optimizations import OPTIMIZATIONS
from axtool.options import Options
from axtool.plan.build import plan
from axtool.plan.build_directives import Directive, matching, require_matched
from axtool.plan.check_plan import verify_plan
from axtool.plan.check_program import verify_program
from axtool.plan.directives_file import load_directives
from axtool.plan.lower import lower
from axtool.quant.calibrate import known_ranges, names_to_calibrate
from axtool.quant.choice import Choice
from axtool.quant.choose import choose
from axtool.quant.emit_qdq import emit_qdq
from axtool.quant.equalize import check_factors
from axtool.quant.findings import findings
from axtool.quant.follow import Followed, asked_of, follow, recut, wish_of, with_bought
from axtool.quant.format_table import format_lines, format_rows
from axtool.quant.layer_report import LayerReport, report_layers
from axtool.quant.observe import channels_of, equalizable_of
from axtool.quant.ranges import Ranges, ranges_text, read_ranges
from axtool.quant.recipe_file import chosen_recipe
from axtool.target import Target
from axtool.target_file import load_target
from axtool.types import Computed, Quantization

log = logging.getLogger("axtool")


class Progress(Protocol):
    """Who watches the road being walked."""

    def step(self, name: str) -> None: ...
    def count(self, done: int, total: int) -> None: ...


@dataclass(frozen=True)
class Compiled:
    """An artefact and what was learned while making it."""

    artefact: Artefact
    front: Front
    ranges: Ranges
    numbers: tuple[Quantization, ...] = ()  # of the device stages
    layers: LayerReport = field(default_factory=LayerReport)
    bought: Mapping[str, Computed] = field(default_factory=dict)  # what a budget chose for nodes, by first output


def compile_file(
    model: Path,
    out: Path,
    options: Options,
    progress: Progress,
    *,
    force: bool = False,
    qdq: Path | None = None,
    ranges: Path | None = None,
) -> Compiled:
    """Compile `model` and write `out`, and beside it the QDQ model `qdq` and the `ranges` where they are wanted: all
    whole, or nothing.
    """
    refuse_overwrite(out, force=force)
    for path, others in ((qdq, ()), (ranges, (qdq,))):
        if path is not None:
            refuse_overwrite(path, force=force, inputs=[model, out, *filter(None, others)])
    compiled = compile_model(model, options, progress)
    files = {out: axm.pack(compiled.artefact)}
    if qdq is not None:
        progress.step("writing QDQ")
        files[qdq] = to_qdq(compiled, load_target(options.target), check=options.reading.check)
    if ranges is not None:
        kept = replace(
            compiled.ranges,
            preparation=compiled.artefact.preparation,
            precision=asked_of(compiled.front),
            bought=compiled.bought,
        )
        files[ranges] = ranges_text(kept).encode()
    progress.step("writing")
    write_together(files, force=force)
    return compiled


def compile_model(model: Path, options: Options, progress: Progress) -> Compiled:
    """The whole road. Raises the AxError of the step that cannot go on."""
    target = load_target(options.target)
    directives = load_directives(options.directives) if options.directives is not None else ()
    recipe = chosen_recipe(options.recipe, options.method, options.percentile, options.optimize, options.budget)
    ranges = None if options.ranges is None else read_ranges(options.ranges)
    wish = wish_of(recipe, target, {} if ranges is None else ranges.precision)
    front = read_front(model, target, options.reading, wish=wish, step=progress.step)
    require_device(front)
    check_ends(front.cleaned.model, str(model))
    say_front(front)
    followed = follow(recipe, front, target)
    samples = open_calibration(front, options)
    if ranges is not None:
        front = with_bought(front, target, ranges.bought)
    choice = measure(front, samples, ranges, followed, options, target, progress)
    bought = choice.bought if ranges is None else ranges.bought
    front = with_bought(front, target, choice.bought)
    if regions := count_of(front.parts.stages):
        log.info("regions: %s", ", ".join(f"{kind} {count}" for kind, count in regions.items()))
    followed = replace(followed, precision=asked_of(front, [name for name, kind in bought.items() if kind == "float"]))
    stages: list[HostStage | DeviceStage] = []
    made: list[Quantization] = []
    for stage in front.parts.stages:
        if stage.kind == "host":
            stages.append(HostStage(to_bytes(stage.model), stage.inputs, stage.outputs))
            continue
        progress.step("quantizing")
        numbers = quantize(stage, choice, front, target)
        made.append(numbers)
        progress.step("planning")
        stages.append(
            build_stage(
                stage, numbers, target, directives, without=switched_off(target, options), check=options.reading.check
            )
        )
    with located(str(options.directives)):
        require_matched(directives, [stage.plan.program for stage in stages if isinstance(stage, DeviceStage)])
    layers = look_at_layers(front, stages, made, samples, choice, followed, options, target, progress)
    artefact = assemble(front, target, stages, samples, choice, followed, options, directives, layers)
    return Compiled(artefact, front, choice.ranges, tuple(made), layers, bought)


def to_qdq(compiled: Compiled, target: Target, *, check: bool = False) -> bytes:
    """The model with the same numbers as standard QDQ ONNX: its stages joined, what the device rounds rounded."""
    front = compiled.front
    with located(str(front.loaded.path)):
        devices = [stage for stage in front.parts.stages if stage.kind == "device"]
        numbers = list(zip(devices, compiled.numbers, strict=True))
        data = emit_qdq(front.cleaned.model, numbers, target, producer=("axtool", __version__))
    if check:
        check_standard(data)
    return data


def say_front(front: Front) -> None:
    """What the passes did and where the model was cut, as notes."""
    done = [f"{result.name} {result.count}" for result in front.cleaned.log if result.count]
    log.info("passes: %s", ", ".join(done) or "nothing to do")
    stages = [f"{stage.kind} {len(stage.model.graph)}" for stage in front.parts.stages]
    log.info("split, nodes of each stage: %s", " | ".join(stages))


def require_device(front: Front) -> None:
    """Raise UnsupportedError, with every reason, for a model of which the device can run nothing.

    Inputs with a default value, which are constants from here on, are named in a warning.
    """
    if front.frozen:
        log.warning("default values became constants and cannot be fed any more: %s", _some(front.frozen))
    if front.parts.device_nodes:
        return
    rows = [f"{v.op} '{v.name}' (node {v.index}): {' '.join(v.reasons)}" for v in front.parts.verdicts]
    raise UnsupportedError(
        "the device can run no part of this model",
        where=str(front.loaded.path),
        hint="`axtool info MODEL.onnx --support` says for every node what would avoid it",
        code="nothing-for-the-device",
        details=rows[:20] + ([f"and {len(rows) - 20} more"] if len(rows) > 20 else []),
    )


def open_calibration(front: Front, options: Options) -> Samples | None:
    """The calibration samples, or None when ranges are given or no tensor needs one."""
    if options.ranges is not None or not (options.calib or names_to_calibrate(front.parts.stages)):
        return None
    specs = [InputSpec(spec.name, spec.shape, spec.dtype) for spec in front.inputs]
    samples = open_samples(options.calib, specs, options.preparation, options.preprocess, options.limit)
    for notice in samples.notices:
        log.log(logging.WARNING if notice.level == "warning" else logging.INFO, "%s", notice)
    return samples


def measure(
    front: Front,
    samples: Samples | None,
    given: Ranges | None,
    followed: Followed,
    options: Options,
    target: Target,
    progress: Progress,
) -> Choice:
    """The range of every device tensor: the given ones, or from running the float model over the samples.

    From samples: by the recipe that does best on those of them that are held back; then all samples make the ranges.
    Raises UsageError for ranges that lack a tensor, or name one that the model does not have.
    """
    stages, overrides = front.parts.stages, followed.overrides
    if options.budget and samples is None:
        raise UsageError("a budget is kept by measuring, which needs calibration samples", hint="give --calib",
                         code="bad-option")  # fmt: skip
    if given is not None:
        say_untried(options)
        with located(str(options.ranges)):
            given.check(
                names_to_calibrate(stages),
                {name for stage in stages for name in value_names(stage.model)},
                channels_of(stages),
            )
            check_factors(equalizable_of(stages), given.factors)
        return Choice(overrides.over(given), overrides=overrides)
    if samples is None:
        return Choice(overrides.over(known_ranges(stages)), overrides=overrides)
    with located(str(front.loaded.path)):
        return choose(
            stages,
            samples,
            followed.file.tried,
            target,
            front.cleaned.given,
            [spec.name for spec in front.outputs],
            progress,
            overrides=overrides,
            refine=followed.file.refined,
            budget=followed.file.allowed,
            jobs=options.jobs,
            cache=options.calib_cache,
            recut=lambda floats: recut(front, target, floats).stages,
        )


def say_untried(options: Options) -> None:
    """Warn of options that say how ranges are found, where ranges are given."""
    asked = {"--recipe": options.recipe, "--method": options.method, "--percentile": options.percentile}
    named = [option for option, value in asked.items() if value is not None]
    if named:
        text = "ranges are given: nothing is tried, and of %s only what it says of formats and single ranges holds"
        log.warning(text if options.recipe else "ranges are given: %s changes nothing", " and ".join(named))


def _some(names: Sequence[str], shown: int = 4) -> str:
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")


def quantize(stage: Stage, choice: Choice, front: Front, target: Target) -> Quantization:
    """Formats and weights of one device stage, and what is to be said about them."""
    with located(str(front.loaded.path)):
        numbers = choice.numbers(stage, target, front.cleaned.given)
    for line in numbers.notes:
        log.info("%s", line)
    for line in format_lines(format_rows(stage.sites, numbers)):
        log.info("%s", line)
    for notice in findings(stage.sites, numbers, choice.observers):
        log.warning("%s", notice)
    return numbers


def build_stage(
    stage: Stage,
    numbers: Quantization,
    target: Target,
    directives: Sequence[Directive],
    *,
    without: Collection[str] = (),
    check: bool,
) -> DeviceStage:
    """Lower, tile, place and emit one device stage; `check` verifies what each step made.

    `without` names the optimisations that are switched off.

    Directives that match none of its layers are for other stages.
    """
    program = lower(stage.sites, numbers, target, stage.inputs, stage.outputs, without)
    if check:
        verify_program(program)
    planned = plan(program, target, matching(directives, program), without)
    if check:
        verify_plan(planned, target)
    return DeviceStage(planned)


def switched_off(target: Target, options: Options) -> tuple[str, ...]:
    """The optimisations behind the graph that the target lists and the user disables, with their places, sorted."""
    return tuple(
        sorted(
            name
            for name in set(options.reading.disable)
            if (one := OPTIMIZATIONS.get(name.partition(":")[0])) is not None
            and one.step != "graph"
            and one.name in target.optimizations
        )
    )


def look_at_layers(
    front: Front,
    stages: Sequence[HostStage | DeviceStage],
    numbers: Sequence[Quantization],
    samples: Samples | None,
    choice: Choice,
    followed: Followed,
    options: Options,
    target: Target,
    progress: Progress,
) -> LayerReport:
    """What each layer loses on some of the samples, where the user wants to know."""
    wanted = samples is not None and options.layer_check and followed.file.check_layers
    if wanted:
        progress.step("checking layers")
    report = report_layers(
        front.parts.stages,
        stages,
        numbers,
        samples if wanted else None,
        target,
        factors=choice.ranges.factors,
        rounded=bool(choice.grams),
        progress=progress.count,
    )
    for notice in report.notices:
        log.warning("%s", notice)
    return report
