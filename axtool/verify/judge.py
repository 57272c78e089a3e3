"""The figures of a comparison and what is asked of them  ->  what was checked, what fails, and what is only noted.

Where the file says what its outputs mean, the task's own figure decides and the SQNR is a note: a detector whose boxes
are found again is good at any SQNR. Where it does not, the SQNR of every output decides, and of a list of classes its
best one too. The stages that compare float with float, or engine with engine, always want their SQNR.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from axtool.errors import plural
from axtool.verify.agreement import Agreement
from axtool.verify.metrics import Comparison
from axtool.verify.task_metrics import NO_LIMITS, NO_METRICS, Least, TaskMetrics

EQUAL = float("inf")
# The SQNR in dB that every output needs, by stage; and what each input of a final Concat needs in it.
FLOOR_DB: Mapping[str, float] = {"all": 10.0, "reference": 10.0, "quant": 10.0, "float": 60.0, "native": EQUAL}
PART_FLOOR_DB: Mapping[str, float] = {"all": 3.0, "reference": 3.0, "quant": 3.0, "float": 60.0, "native": EQUAL}
LOSSY = ("all", "reference", "quant")
SHARE = 0.9  # of the samples with the same best class, of the objects found again
ENOUGH_OBJECTS = 10  # fewer say nothing about a share


@dataclass(frozen=True)
class Limits:
    """What the user asks for, None for what is left to the defaults. `min_sqnr_db` replaces the floor of the stage."""

    min_sqnr_db: float | None = None
    min_cosine: float | None = None
    max_error: float | None = None
    min_top1: float | None = None
    min_channel_db: float | None = None
    min_found: float | None = None
    metrics: Least = NO_LIMITS


@dataclass(frozen=True)
class Judgement:
    """One line each: what was checked, why it fails (nothing: passed), what is said beside."""

    checks: tuple[str, ...]
    failures: tuple[str, ...]
    notes: tuple[str, ...]


def judge(
    stage: str,
    outputs: Sequence[Comparison],
    agreement: Agreement | None,
    limits: Limits,
    metrics: TaskMetrics = NO_METRICS,
) -> Judgement:
    """Judge a comparison. A limit that nothing can meet fails too; where metrics were asked for, they decide."""
    share, share_failures, share_notes, decides = _shares(stage, outputs, agreement, limits)
    if metrics:
        checked, failed = metrics.judged(limits.metrics)
        share, share_failures, decides = [*share, *checked], [*share_failures, *failed], stage in LOSSY
    floor = FLOOR_DB[stage] if limits.min_sqnr_db is None else limits.min_sqnr_db
    part_floor = min(PART_FLOOR_DB[stage], floor)
    parts = any(c.parts for c in outputs)
    sqnr = f"SQNR {_bound(floor)} per output" + (f", {_bound(part_floor)} per input of a Concat" if parts else "")
    below = [line for c in outputs for line in _sqnr(c, floor, part_floor)]
    noted = decides and limits.min_sqnr_db is None
    failures = ([] if noted else below) + [line for c in outputs for line in _limits(c, limits)] + share_failures
    notes = [f"{line} (a note: the task decides)" for line in below if noted] + share_notes
    checks = [*share, *([] if noted else [sqnr]), "no dead channels", "the same values finite", *_asked(limits)]
    return Judgement(tuple(checks), tuple(failures), tuple(notes))


def _shares(
    stage: str, outputs: Sequence[Comparison], agreement: Agreement | None, limits: Limits
) -> tuple[list[str], list[str], list[str], bool]:
    """(checks, failures, notes, whether they decide instead of the SQNR) of the classes and of the objects."""
    lossy = stage in LOSSY
    checks: list[str] = []
    failures: list[str] = []
    notes: list[str] = []
    decides = False
    classes = {c.name: c.top1_agree / c.top1_total for c in outputs if c.top1_total}
    objects = agreement is not None and not agreement.classified
    if agreement is not None and agreement.classified:
        classes, decides = {"the classes": agreement.found_share}, lossy
    wanted = limits.min_top1 if limits.min_top1 is not None or objects or not lossy or not classes else SHARE
    if wanted is not None:
        checks.append(f"top-1 agreement >= {wanted:g}")
        if not classes:
            failures.append("--min-top1: no output is a list of classes")
        failures += [
            f"'{name}': top-1 agreement {share:.4f}, want at least {wanted:g}"
            for name, share in classes.items()
            if share < wanted
        ]
    if agreement is not None and objects and (lossy or limits.min_found is not None):
        enough = agreement.objects >= ENOUGH_OBJECTS
        least = limits.min_found if limits.min_found is not None else SHARE if enough else None
        decides = lossy and enough
        if least is None:
            few = plural(agreement.objects, "object is", "objects are")
            notes.append(f"{few} too few for a share; want {ENOUGH_OBJECTS}: SQNR decides")
        else:
            checks.append(f"found share >= {least:g} of {plural(agreement.objects, 'object')}")
            if agreement.found_share < least:
                share = f"{agreement.found_share:.4f}"
                failures.append(f"{share} of the objects are found again, want at least {least:g}")
    elif limits.min_found is not None:
        failures.append("--min-found: the file does not say how its outputs become objects")
    return checks, failures, notes, decides


def _sqnr(c: Comparison, floor: float, part_floor: float) -> list[str]:
    reasons = []
    if c.sqnr_db < floor:
        reasons.append(f"'{c.name}': SQNR {c.sqnr_db:.2f} dB, want {_wanted(floor)}")
    part = c.worst_part
    if part is not None and part[1] < part_floor:
        where = f"the part that '{part[0].name}' gives, [{part[0].start}:{part[0].stop}] of axis {part[0].axis}"
        reasons.append(f"'{c.name}': {where}, has {part[1]:.2f} dB, want {_wanted(part_floor)}")
    return reasons


def _limits(c: Comparison, limits: Limits) -> list[str]:
    reasons = []
    if c.mismatched:
        reasons.append(f"'{c.name}': {plural(c.mismatched, 'value is', 'values are')} finite in only one of the two")
    if c.dead_channels:
        reasons.append(f"'{c.name}': channels {c.dead_channels[:8]} are dead: one single value where signal is")
    worst = c.worst_channel
    if limits.min_channel_db is not None and worst is not None and worst[1] < limits.min_channel_db:
        reasons.append(f"'{c.name}': channel {worst[0]} has {worst[1]:.2f} dB, want {limits.min_channel_db:g}")
    if limits.min_cosine is not None and c.cosine < limits.min_cosine:
        reasons.append(f"'{c.name}': cosine {c.cosine:.6f}, want at least {limits.min_cosine:g}")
    if limits.max_error is not None and c.max_error > limits.max_error:
        reasons.append(f"'{c.name}': max error {c.max_error:.6g}, want at most {limits.max_error:g}")
    return reasons


def _asked(limits: Limits) -> list[str]:
    """The checks that only options bring."""
    asked = []
    if limits.min_channel_db is not None:
        asked.append(f"SQNR >= {limits.min_channel_db:g} dB per channel")
    if limits.min_cosine is not None:
        asked.append(f"cosine >= {limits.min_cosine:g}")
    if limits.max_error is not None:
        asked.append(f"error <= {limits.max_error:g}")
    return asked


def _bound(floor: float) -> str:
    return "exact" if floor == EQUAL else f">= {floor:g} dB"


def _wanted(floor: float) -> str:
    return "equal bits" if floor == EQUAL else f"at least {floor:g} dB"
