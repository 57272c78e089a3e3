"""A model and values of a chip to try  ->  its totals on every combination of them.

The combinations are worked on by any `concurrent.futures.Executor`; the order of what comes back is that of the
product, the last axis the fastest, whoever was done first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, as_completed
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

from axtool.errors import AxError, Exit, UsageError, plural
from axtool.processes import processes, without_interrupts
from axtool.report.profile import Request, Source
from axtool.report.profiled import largest, profile_document
from axtool.target_file import load_target

MOST_POINTS = 1000  # combinations of one sweep: an afternoon at a few seconds each
TARGET = "target"  # the axis that is no value of a chip, but which chip
KEPT = (
    "target", "clock_hz", "cores", "cycles", "latency_ms", "frames_per_s", "mac_utilisation", "ledger_cycles",
    "peak_ocm_bytes", "ocm_bytes", "external_read_bytes", "external_write_bytes", "external_bytes", "spilled_bytes",
    "energy_relative",
)  # fmt: skip
Point = tuple[str, ...]  # one value of each axis
Progress = Callable[[int, int], None]  # so many of so many points are done


def _silent(done: int, total: int) -> None:
    """Nobody is told."""


@dataclass(frozen=True)
class Axis:
    """A value of the chip by its dotted path, or `target`, and the texts to try."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """What came of one point: totals, or why there are none. `exit` is that of the error, 0 without one."""

    point: Point
    totals: dict[str, Any] | None
    reason: str = ""
    code: str = ""
    exit: int = 0

    @property
    def status(self) -> str:
        if self.totals is not None:
            return "ok"
        return "does not fit" if self.exit == Exit.DOES_NOT_FIT else "refused"


def parse_sweep(texts: Sequence[str]) -> tuple[Axis, ...]:
    """`KEY=V1,V2` for each axis. Raises UsageError for what is none, and for a product that is too large."""
    axes = tuple(_axis(text) for text in texts)
    keys = [axis.key for axis in axes]
    if again := next((key for key in keys if keys.count(key) > 1), ""):
        raise UsageError(f"--sweep {again}: is swept twice", hint="give all its values at once", code="bad-option")
    points = prod(len(axis.values) for axis in axes)
    if points > MOST_POINTS:
        raise UsageError(
            f"--sweep: {points:,} combinations, at most {MOST_POINTS:,} are tried",
            hint="leave values out, or sweep in parts",
            code="bad-option",
        )
    return axes


def _axis(text: str) -> Axis:
    key, equals, rest = text.partition("=")
    key, values = key.strip(), tuple(value.strip() for value in rest.split(","))
    example = "for example --sweep memory.ocm_bytes=4MiB,8MiB,16MiB"
    if not equals or not key:
        raise UsageError(f"--sweep {text}: want KEY=VALUE,VALUE", hint=example, code="bad-option")
    if not all(values):
        raise UsageError(f"--sweep {text}: a value is empty", hint=example, code="bad-option")
    if len(set(values)) < len(values):
        raise UsageError(f"--sweep {text}: a value is there twice", hint=example, code="bad-option")
    return Axis(key, values)


def sweep(request: Request, axes: Sequence[Axis], jobs: int = 1, progress: Progress = _silent) -> list[Outcome]:
    """One outcome a point, in order, by `jobs` processes, or in this one.

    Raises UsageError when a key or a value is none that the chip has, and the error of the first point when every
    point is refused: then it is the model's fault.
    """
    _require_known(request, axes)
    keys, points = tuple(axis.key for axis in axes), list(product(*(axis.values for axis in axes)))
    if jobs > 1 and len(points) > 1:
        with processes(min(jobs, len(points))) as pool:
            with without_interrupts():  # the processes begin with the first point
                futures = submit(pool, request, keys, points)
            outcomes = gather(futures, progress)
    else:
        outcomes = []
        for done, point in enumerate(points, 1):
            outcomes.append(run_point(request, keys, point))
            progress(done, len(points))
    if all(outcome.status == "refused" for outcome in outcomes):
        run = _at(request, keys, points[0])
        Source(request).on(run.target, run.settings)
    return outcomes


def submit(
    executor: Executor, request: Request, keys: tuple[str, ...], points: Sequence[Point]
) -> list[Future[Outcome]]:
    """The points as work for processes, or machines."""
    return [executor.submit(run_point, request, keys, point) for point in points]


def gather(futures: Sequence[Future[Outcome]], progress: Progress) -> list[Outcome]:
    """The outcomes in the order of the futures; `progress` hears of each that is done."""
    for done, future in enumerate(as_completed(futures), 1):
        future.result()
        progress(done, len(futures))
    return [future.result() for future in futures]


def _require_known(request: Request, axes: Sequence[Axis]) -> None:
    """Every value alone is one that the chip takes. Raises UsageError with the faults of all."""
    source = Source(replace(request, directives=None))
    given = {setting.partition("=")[0] for setting in request.settings}
    for axis in axes:
        if axis.key in given or (axis.key == TARGET and request.target is not None):
            option = "--target" if axis.key == TARGET else "--set"
            raise UsageError(f"--sweep {axis.key}: {option} says its value", hint="leave one out", code="bad-option")
    chips = next((axis.values for axis in axes if axis.key == TARGET), None)
    for chip in chips or ():
        load_target(chip)
    base = chips[0] if chips else request.target
    for axis in axes:
        for value in axis.values if axis.key != TARGET else ():
            try:
                source.target(base, (*request.settings, f"{axis.key}={value}"))
            except AxError as error:
                raise UsageError(
                    f"--sweep {axis.key}={value}: {error.what}", hint=error.hint, code=error.code, details=error.details
                ) from error


def run_point(request: Request, keys: tuple[str, ...], point: Point) -> Outcome:
    """The totals of one combination. An AxError becomes a part of the outcome. Runs in any process."""
    try:
        run = _at(request, keys, point)
        document = profile_document(str(request.model), _source(request).on(run.target, run.settings))
    except AxError as error:
        return Outcome(point, None, str(error), error.code, int(error.exit))
    return Outcome(point, {key: document[key] for key in KEPT} | {"bound": largest(document["ledger_cycles"])})


def _at(request: Request, keys: Sequence[str], point: Sequence[str]) -> Request:
    """The request with the values of a point."""
    pairs = dict(zip(keys, point, strict=True))
    target = pairs.pop(TARGET, request.target)
    return replace(request, target=target, settings=(*request.settings, *(f"{k}={v}" for k, v in pairs.items())))


# The model that this process works on: it is read and lowered once, not once a point.
_opened: list[tuple[Request, Source]] = []


def _source(request: Request) -> Source:
    if not _opened or _opened[0][0] != request:
        _opened[:] = [(request, Source(request))]
    return _opened[0][1]


def fitting(outcomes: Sequence[Outcome]) -> str:
    """`7 of 9 configurations fit`."""
    fit = sum(outcome.totals is not None for outcome in outcomes)
    return f"{fit} of {plural(len(outcomes), 'configuration')} {'fits' if fit == 1 else 'fit'}"
