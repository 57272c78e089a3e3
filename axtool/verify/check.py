"""A compiled model and its source over a data set  ->  how far apart they are, stage by stage, and a verdict.

Each stage isolates one kind of fault:

- `float`      the user's file against our cleaned, cut graph, both in onnxruntime: an import fault;
- `quant`      our float graph against the reference engine: what quantization loses;
- `reference`  the user's file against the reference engine: both of these;
- `native`     the reference engine against the native one, which must agree bit for bit: an engine fault;
- `all`        the user's file against the native engine: what a user of the chip gets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.artefact.axm import Artefact
from axtool.errors import EnvironmentFault, UsageError, nearest, plural
from axtool.graph.float_run import FloatModel
from axtool.graph.front import Front, Reading, read_front
from axtool.graph.load import Loaded, load_model
from axtool.graph.parts import channel_axes, parts_of
from axtool.inputs.samples import Samples, open_samples
from axtool.inputs.spec import InputSpec
from axtool.plan.check_program import verify_program
from axtool.quant.follow import stored_wish
from axtool.quant.twins import fingerprint
from axtool.runtime.frame import UNPREPARED, Prepare, stored_preparation
from axtool.runtime.model import CompiledModel, load
from axtool.runtime.task import interpret
from axtool.sim.engine import native_available
from axtool.target_file import target_from_dict
from axtool.verify.agreement import Agreement
from axtool.verify.judge import LOSSY, Limits, judge
from axtool.verify.metrics import Comparison
from axtool.verify.seen import Seen, Show, nobody
from axtool.verify.task_metrics import NO_METRICS, TaskMetrics, task_metrics

log = logging.getLogger("axtool")

STAGES = ("all", "float", "quant", "reference", "native")
FROM_SOURCE = ("all", "float", "reference")  # stages whose reference is the user's own graph
FEW = 8  # samples: a share or a decibel of fewer moves with each one
Arrays = Mapping[str, NDArray[Any]]
Run = Callable[[Mapping[str, NDArray[Any]]], Arrays]


@dataclass(frozen=True)
class Request:
    """What to verify: the .axm, the model it came from, and data."""

    model: Path
    against: Path
    data: tuple[str, ...]
    stage: str = "all"
    limit: int | None = None
    threads: int = 1
    prepare: Prepare = lambda base: base
    preprocess: str | None = None
    permissive: bool = False
    fix_fp16: bool = False
    metrics: tuple[str, ...] = ()  # names of `axtool.verify.task_metrics.METRICS`


@dataclass(frozen=True)
class Opened:
    """Everything that is needed to compare: the compiled model, the source's float graph, the samples."""

    model: CompiledModel
    source: Loaded
    front: Front
    samples: Samples


@dataclass(frozen=True)
class Verdict:
    """The figures of each output, the agreement of the task's results, and the reasons for failure (none: passed)."""

    stage: str
    samples: int
    outputs: tuple[Comparison, ...]
    agreement: Agreement | None = None
    metrics: TaskMetrics = NO_METRICS
    failures: tuple[str, ...] = ()
    incomparable: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()
    calibrated_with: int = 0  # samples that calibration saw too

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as the document of `verify` has them."""
        return {
            "stage": self.stage,
            "samples": self.samples,
            "calibrated_with": self.calibrated_with,
            "outputs": [comparison.to_dict() for comparison in self.outputs],
            "agreement": None if self.agreement is None else self.agreement.to_dict(),
            "metrics": self.metrics.to_dict(),
            "checks": list(self.checks),
            "failures": list(self.failures),
            "notes": list(self.notes),
            "next_steps": list(self.next_steps),
            "incomparable": list(self.incomparable),
        }


def open_request(request: Request) -> Opened:
    """Load both models and the data. Raises UsageError where they do not belong together."""
    if request.stage not in STAGES:
        raise UsageError(f"there is no stage '{request.stage}'", hint=nearest(request.stage, STAGES), code="bad-option")
    if request.stage == "native" and not native_available():
        raise EnvironmentFault(
            "stage native compares the engines, and the native one is not built",
            hint="install axtool where a C++ compiler is; the other stages run on the reference engine",
            code="no-native-engine",
        )
    engine = "reference" if request.stage in ("quant", "reference") else "native"
    model = load(request.model, engine=engine, threads=request.threads)
    _check_programs(model, request.model)
    source, front = open_source(model.artefact, request)
    samples = samples_of(model.artefact, request.data, request.limit, request.prepare, request.preprocess)
    return Opened(model, source, front, samples)


def samples_of(
    artefact: Artefact,
    data: tuple[str, ...],
    limit: int | None = None,
    prepare: Prepare = lambda base: base,
    preprocess: str | None = None,
) -> Samples:
    """The samples, prepared as the file or the caller says; what is notable of them is said."""
    specs = [InputSpec(spec.name, spec.shape, spec.dtype) for spec in artefact.inputs]
    preparation = prepare(stored_preparation(artefact))
    samples = open_samples(data, specs, preparation, preprocess, limit)
    if preparation is None and samples.preparation is not None:
        log.warning(UNPREPARED)
    for notice in samples.notices:
        log.log(logging.WARNING if notice.level == "warning" else logging.INFO, "%s", notice)
    return samples


def _check_programs(model: CompiledModel, where: Path) -> None:
    try:
        for device in model.devices:
            verify_program(device.program)
    except ValueError as error:
        raise UsageError(f"the program is not legal: {error}", where=str(where), code="not-axm") from error


def open_source(artefact: Artefact, request: Request) -> tuple[Loaded, Front]:
    """The source as the user's file has it, and read as it was when the artefact was made, with the same shapes.

    Raises UsageError when its inputs or outputs are not those of the artefact.
    """
    shapes = {spec.name: spec.shape for spec in artefact.inputs}
    loaded = load_model(request.against, input_shapes=shapes, permissive=request.permissive, fix_fp16=request.fix_fp16)
    own = {value.name for value in loaded.model.graph.outputs}
    wanted = tuple(spec.name for spec in artefact.outputs)
    reading = Reading(
        input_shapes=shapes,
        outputs=() if set(wanted) == own else wanted,
        permissive=request.permissive,
        fix_fp16=request.fix_fp16,
    )
    wish = stored_wish(artefact.quantization)
    return loaded, read_front(request.against, target_from_dict(artefact.target), reading, wish=wish)


def verify(
    request: Request,
    limits: Limits,
    count: Callable[[int, int], None] = lambda done, total: None,
    show: Show = nobody,
) -> Verdict:
    """Compare over all samples, each of which is shown to `show`.

    A model with random ops cannot be compared with itself, and so with nothing.
    """
    opened = open_request(request)
    front, samples = opened.front, opened.samples
    if front.loaded.random_ops:
        return Verdict(request.stage, 0, (), incomparable=front.loaded.random_ops)
    metrics = task_metrics(
        request.metrics, opened.model.artefact, opened.source.model, exposes=request.stage in FROM_SOURCE
    )
    reference, result = _pair(request, opened, metrics.scores)
    names = [spec.name for spec in opened.model.outputs]
    parts, axes = parts_of(front.cleaned.model), channel_axes(front.cleaned.model)
    comparisons = {name: Comparison(name, parts.get(name, ()), axes.get(name)) for name in names}
    task = opened.model.artefact.task
    agreement = Agreement() if task and task["kind"] != "semantic" else None
    known, again = frozenset(opened.model.artefact.provenance.get("samples", ())), 0
    for done, feeds in enumerate(samples, 1):
        again += bool(known) and fingerprint(feeds) in known
        wanted, got = reference(feeds), result(feeds)
        for name in names:
            comparisons[name].add(np.asarray(wanted[name]), np.asarray(got[name]))
        if agreement is not None:
            agreement.add(interpret(task, wanted), interpret(task, got))
        metrics.add(wanted, got)
        show(Seen(samples.names[done - 1], feeds, wanted, got, metrics, samples.preparation, names_of(task)))
        count(done, len(samples))
    outputs = tuple(comparisons.values())
    judged = judge(request.stage, outputs, agreement, limits, metrics)
    steps = next_steps(request, opened.model.artefact) if judged.failures else ()
    notes = (*judged.notes, *notes_on_data(request, opened.model.artefact, len(samples)))
    if request.stage in LOSSY:
        warn_of_known(again, len(samples))
    return Verdict(
        request.stage, len(samples), outputs, agreement, metrics, judged.failures, (), judged.checks, notes, steps,
        again,
    )  # fmt: skip


def names_of(task: Mapping[str, Any]) -> tuple[str, ...]:
    """The labels of a task by index."""
    return tuple(task.get("labels", ()))


def warn_of_known(again: int, samples: int) -> None:
    """Say how many of the samples calibration saw too, if it saw any."""
    if again:
        text = "%s of %s calibrated this model; figures of other data say more"
        log.warning(text, again, plural(samples, "sample"))


def notes_on_data(request: Request, artefact: Artefact, samples: int) -> tuple[str, ...]:
    """What makes the figures weaker than they look."""
    notes = []
    known = artefact.provenance.get("calibration", ())
    same = [item for item in request.data if Path(item).name in known] if not artefact.provenance.get("samples") else []
    if same and request.stage in LOSSY:
        notes.append(f"{', '.join(same)}: named as the calibration data is; figures of other data say more")
    if samples < FEW:
        notes.append(f"{plural(samples, 'sample')}; {FEW} or more give figures that last")
    return tuple(notes)


def next_steps(request: Request, artefact: Artefact) -> tuple[str, ...]:
    """What to try after a failure."""
    if request.stage == "native":
        return ("this is a bug in axtool: report it",)
    if request.stage == "float":
        return ("compile with --check: it names the step that changes the numbers",)
    steps = ["--layers names the layer that loses the accuracy", "check --scale and --color against the training"]
    quantization = artefact.quantization
    if quantization.get("samples"):
        steps.append(f"calibrate with more than {quantization['samples']} samples")
    if not artefact.task:
        steps.append("compile with --task, whose own figure then decides (--min-top1 0: no list of classes)")
    if str(quantization.get("method", "")).startswith("percentile"):
        steps.append("compile with --method minmax")
    return tuple(steps)


def _pair(request: Request, opened: Opened, beside: tuple[str, ...] = ()) -> tuple[Run, Run]:
    """(what is right, what is judged) for a stage; tensors of the source `beside` its outputs come where it runs."""
    model, front = opened.model, opened.front
    compiled: Run = lambda feeds: model.run(feeds).outputs  # noqa: E731
    outputs = [spec.name for spec in model.outputs]
    if request.stage == "native":
        slow = CompiledModel(model.artefact, engine="reference", threads=request.threads)
        return (lambda feeds: slow.run(feeds).outputs), compiled
    if request.stage == "quant":
        return _ours(request, front, outputs).run, compiled
    source = _source(request, opened, [*outputs, *beside])
    if request.stage == "float":
        return source, _ours(request, front, outputs).run
    return source, compiled


def _ours(request: Request, front: Front, outputs: list[str]) -> FloatModel:
    """Our cleaned, cut graph in onnxruntime."""
    unread = [spec.name for spec in front.inputs]
    where = str(request.against)
    return FloatModel(front.parts.stages, threads=request.threads, outputs=outputs, unread=unread, where=where)


def _source(request: Request, opened: Opened, outputs: list[str]) -> Run:
    """The user's own graph in onnxruntime, with no pass of ours and no optimisation but the basic ones."""
    model = opened.source.model
    own = {value.name for value in model.graph.outputs}
    hidden = [name for name in outputs if name not in own]
    return FloatModel(model, threads=request.threads, expose=hidden, where=str(request.against)).run
