"""A postamble kernel beside the onnxruntime tail on the same buffers  ->  how far apart their outputs are, a verdict.

The buffers are those that the device makes of the samples, and random ones that hold every value, padding too: what a
picture never shows, such as a saturated box, must come out the same as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.artefact.axm import Artefact
from axtool.errors import UsageError
from axtool.inputs.samples import Samples
from axtool.runtime.model import check_feeds
from axtool.runtime.op.device_part import Lane
from axtool.runtime.parted import Tail, parted
from axtool.runtime.postamble import Postamble
from axtool.runtime.random_buffers import frames_of, random_buffers
from axtool.runtime.tolerance import Tolerance, tolerances_of

Array = NDArray[Any]
Buffers = Sequence[Array]

SMALL = 1e-3  # of an output's largest value: below it, a relative error says nothing


@dataclass
class Errors:
    """What was seen of one output on one kind of buffers, `samples` or `random`."""

    output: str
    buffers: str
    tolerance: Tolerance
    frames: int = 0
    values: int = 0
    max_abs_error: float = 0.0
    max_rel_error: float = 0.0
    used: float = 0.0  # the greatest share of the tolerance
    worst: dict[str, Any] | None = None  # where that is: index, got, wanted
    differing: int = 0  # whole numbers that are not equal
    ties: int = 0  # of those that a kernel shows to be as good: classes of the same score
    non_finite: int = 0  # values that are finite in only one of the two, or another infinity
    whole_numbers: bool = False
    mistaken: str = ""  # another shape or type than the tail's

    def add(self, got: Array, wanted: Array, as_good: Callable[[Array, Array], Array] | None = None) -> None:
        """One frame; `as_good` says where labels that differ name classes of the same score."""
        self.frames += 1
        self.whole_numbers = wanted.dtype.kind != "f"
        self.values += wanted.size
        if (got.shape, got.dtype) != (wanted.shape, wanted.dtype):
            self.mistaken = f"is {got.dtype} {list(got.shape)}, the tail gives {wanted.dtype} {list(wanted.shape)}"
        elif not self.whole_numbers:
            self._floats(got.astype(np.float64), wanted.astype(np.float64))
        else:
            self._whole(got, wanted, got == wanted if as_good is None else as_good(got, wanted))

    def _whole(self, got: Array, wanted: Array, good: Array) -> None:
        self.ties += int((good & (got != wanted)).sum())
        apart = np.argwhere(~good)
        self.differing += len(apart)
        if len(apart) and self.worst is None:
            self.worst = _place(tuple(apart[0]), got, wanted)
        share = self.differing / max(self.values, 1)
        self.used = share / self.tolerance.differing if self.tolerance.differing else float(bool(share)) * _OVER
        if wanted.dtype.kind in "iu" and wanted.size:
            error = np.where(good, 0, np.abs(got.astype(np.float64) - wanted.astype(np.float64)))
            self.max_abs_error = max(self.max_abs_error, float(error.max()))

    def _floats(self, got: Array, wanted: Array) -> None:
        both = np.isfinite(got) & np.isfinite(wanted)
        alike = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
        self.non_finite += int((~both & ~alike).sum())
        if not both.any():
            return
        error, size = np.where(both, np.abs(got - wanted), 0), np.where(both, np.abs(wanted), 0)
        self.max_abs_error = max(self.max_abs_error, float(error.max()))
        large = size > SMALL * size.max()
        if large.any():
            self.max_rel_error = max(self.max_rel_error, float((error[large] / size[large]).max()))
        allowed = np.broadcast_to(self.tolerance.allowed(size), error.shape)
        share = np.divide(error, allowed, out=np.where(error > 0, _OVER, 0.0), where=allowed > 0)
        at = tuple(np.unravel_index(int(share.argmax()), share.shape))
        if share[at] > self.used:
            self.used, self.worst = float(share[at]), _place(at, got, wanted)

    @property
    def failure(self) -> str:
        """Why it fails; empty where it passes."""
        where = f"'{self.output}' on {self.buffers if self.buffers == 'samples' else 'random buffers'}"
        if self.mistaken:
            return f"{where} {self.mistaken}"
        if self.non_finite:
            return f"{where}: {self.non_finite:,} values are finite in only one of the two, or infinities of other sign"
        if self.used <= 1:
            return ""
        at = self.worst or {}
        place = f"at {at['index']} the kernel gives {at['got']:.8g}, the tail {at['wanted']:.8g}"
        if self.differing:
            allowed = self.tolerance.differing
            return f"{where}: {self.differing:,} of {self.values:,} labels differ, want {allowed:.2%} at most; {place}"
        return f"{where}: {place}, {self.used:.3g} times what is allowed"

    def to_dict(self) -> dict[str, Any]:
        """Plain values. `atol` is the least where the kernel's differs from value to value."""
        return {
            "output": self.output,
            "buffers": self.buffers,
            "frames": self.frames,
            "whole_numbers": self.whole_numbers,
            "max_abs_error": None if self.mistaken else self.max_abs_error,
            "max_rel_error": None if self.mistaken else self.max_rel_error,
            "rtol": self.tolerance.rtol,
            "atol": float(np.min(self.tolerance.atol)),
            "tolerance_used": None if self.mistaken else min(self.used, _OVER),
            "worst": self.worst,
            "differing": self.differing,
            "ties": self.ties,
            "allowed_differing_share": self.tolerance.differing,
            "non_finite_mismatches": self.non_finite,
            "passed": not self.failure,
        }


_OVER = 1e9  # stands for infinitely more than a tolerance of nothing


def _place(index: tuple[Any, ...], got: Array, wanted: Array) -> dict[str, Any]:
    return {"index": [int(i) for i in index], "got": float(got[index]), "wanted": float(wanted[index])}


@dataclass(frozen=True)
class TailVerdict:
    """What became of a kernel. `times_s` are medians over all frames: of the kernel, and of the onnxruntime tail."""

    postamble: Postamble
    kernel: str
    outputs: tuple[Errors, ...]
    samples: int
    random_frames: int
    times_s: tuple[float, float]
    notes: tuple[str, ...] = ()

    @property
    def failures(self) -> tuple[str, ...]:
        """A line for each output that fails."""
        return tuple(errors.failure for errors in self.outputs if errors.failure)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        kernel_s, tail_s = self.times_s
        return {
            "postamble": self.postamble.to_dict(),
            "kernel": self.kernel,
            "verdict": "failed" if self.failures else "passed",
            "samples": self.samples,
            "random_frames": self.random_frames,
            "outputs": [errors.to_dict() for errors in self.outputs],
            "failures": list(self.failures),
            "notes": list(self.notes),
            "kernel_ms_measured": 1e3 * kernel_s,
            "onnxruntime_ms_measured": 1e3 * tail_s,
        }


@dataclass
class _Both:
    """The two tails over the same buffers, and what was seen."""

    kernel: Tail
    reference: Tail
    tolerances: tuple[Tolerance, ...]
    rows: dict[tuple[str, str], Errors] = field(default_factory=dict)
    seconds: list[tuple[float, float]] = field(default_factory=list)

    def compare(self, kind: str, buffers: Buffers) -> None:
        start = time.perf_counter()
        got = self.kernel.run(buffers)
        middle = time.perf_counter()
        wanted = self.reference.run(buffers)
        self.seconds.append((middle - start, time.perf_counter() - middle))
        told = getattr(self.kernel.kernel, "equal_labels", None)
        as_good = None if told is None else lambda a, b: told(a, b, *buffers)
        for tolerance, name in zip(self.tolerances, self.kernel.outputs, strict=True):
            row = self.rows.setdefault((kind, name), Errors(name, kind, tolerance))
            row.add(np.asarray(got[name]), np.asarray(wanted[name]), as_good)


def verify_postamble(
    artefact: Artefact,
    path: Path,
    postamble: Postamble,
    samples: Samples,
    *,
    threads: int = 1,
    rtol: float | None = None,
    atol: float | None = None,
    count: Callable[[int, int], None] = lambda done, total: None,
) -> TailVerdict:
    """Compare over all samples and over random buffers; `rtol` and `atol` replace what the kernel says of itself.

    Raises UsageError for a kernel that is not found, that refuses the model, or that fails while it runs.
    """
    ours = parted(artefact, path, postamble, threads=threads)
    theirs = parted(artefact, path, Postamble(), threads=threads)
    try:
        told = tolerances_of(ours.tail.kernel, len(ours.tail.outputs))
    except ValueError as error:
        raise UsageError(str(error), where=str(path), code="bad-postamble") from error
    asked = tuple(_replaced(tolerance, rtol, atol) for tolerance in told)
    both = _Both(ours.tail, theirs.tail, asked)
    lanes, host = ours.device.outputs, dict[str, Array]()
    frames = frames_of([lane.info for lane in lanes if lane.tensor is not None])
    total = len(samples) + frames
    for done, feeds in enumerate(samples, 1):
        buffers, _, _ = ours.buffers(check_feeds(artefact.inputs, feeds))
        both.compare("samples", buffers)
        host = {lane.name: value.copy() for lane, value in zip(lanes, buffers, strict=True) if lane.tensor is None}
        count(done, total)
    seen: dict[str, set[int]] = {}
    for done, buffers in enumerate(random_buffers(lanes, host, frames), len(samples) + 1):
        both.compare("random", buffers)
        _note_values(lanes, buffers, seen)
        count(done, total)
    notes = [
        f"'{name}' saw {len(found)} of 256 values in random buffers: it holds few numbers beside large ones"
        for name, found in seen.items()
        if len(found) < 256
    ]
    warm = both.seconds[1:] or both.seconds
    times = median(kernel for kernel, _ in warm), median(reference for _, reference in warm)
    return TailVerdict(
        postamble, ours.tail.made_by, tuple(both.rows.values()), len(samples), frames, times, tuple(notes)
    )  # fmt: skip


def _replaced(told: Tolerance, rtol: float | None, atol: float | None) -> Tolerance:
    changed = {key: value for key, value in (("rtol", rtol), ("atol", atol)) if value is not None}
    return replace(told, **changed, row=0.0) if changed else told


def _note_values(lanes: Sequence[Lane], buffers: Buffers, seen: dict[str, set[int]]) -> None:
    for lane, buffer in zip(lanes, buffers, strict=True):
        if lane.tensor is not None and lane.info.dtype == np.int8 and len(seen.get(lane.name, ())) < 256:
            seen.setdefault(lane.name, set()).update(np.unique(buffer[lane.info.inside]).tolist())
