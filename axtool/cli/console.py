"""What every command shares: the common options, stderr for words, stdout for the result, progress on long work."""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from axtool.legible import legible

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, also on failure.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Only errors on stderr; results stay on stdout (compile, build: none).")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say each step and its seconds; tracebacks of bugs.")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace an existing output file.")]

PREPARE = "Input preparation"


class _Words(logging.Handler):
    """`warning: …` and plain notes on stderr, each different line once."""

    def __init__(self) -> None:
        super().__init__()
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        text = legible(record.getMessage())
        if record.levelno >= logging.WARNING:
            text = f"warning: {text}"
        if text not in self._said:
            self._said.add(text)
            print(text, file=sys.stderr)


def set_up(*, quiet: bool = False, verbose: bool = False) -> None:
    """Say warnings, and with `verbose` notes, on stderr; with `quiet` neither."""
    if not verbose:
        warnings.simplefilter("ignore")  # what libraries say about their own insides
    logger = logging.getLogger("axtool")
    logger.handlers = [_Words()]
    logger.propagate = False
    logger.setLevel(logging.ERROR if quiet else logging.INFO if verbose else logging.WARNING)


def emit(document: dict[str, Any]) -> None:
    """The JSON result of a command on stdout."""
    print(json.dumps(document, indent=2, sort_keys=True, allow_nan=False))


def say(text: str, *, quiet: bool = False) -> None:
    """A line of progress or summary on stderr."""
    if not quiet:
        print(legible(text), file=sys.stderr)


class Progress:
    """Steps and counts of long work: a bar on a terminal, plain lines elsewhere, both with the time that is left.

    Nothing with `quiet` or `as_json`. With `verbose` also the seconds of each step, on stderr.
    """

    def __init__(self, *, quiet: bool = False, verbose: bool = False, as_json: bool = False) -> None:
        self._silent, self._name, self._tenth = quiet or as_json, "", -1
        self._verbose = verbose and not quiet
        self._begun = self._since = self._told_s = time.perf_counter()
        self._bar: Any = None
        self._task: Any = None

    def step(self, name: str) -> None:
        """A named step begins, and the one before it ends."""
        self._end()
        if self._bar is not None:
            self._bar.remove_task(self._task)  # a task of its own: the pace of one step says nothing of the next
            self._task = self._bar.add_task(name, total=None, counted="")
        self._name, self._tenth, self._told_s = name, -1, self._since

    @property
    def elapsed_s(self) -> float:
        """Seconds since this was made."""
        return time.perf_counter() - self._begun

    def _end(self) -> None:
        now = time.perf_counter()
        if self._verbose and self._name:
            line = f"{self._name}: {now - self._since:.2f} s"
            print(line, file=sys.stderr) if self._bar is None else self._bar.console.print(line)
        self._name, self._since = "", now

    def count(self, done: int, total: int) -> None:
        """`done` of `total` parts of the step are finished."""
        counted = f"{done}/{total} {UNITS.get(self._name, '')}".rstrip()
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total, counted=counted)
        elif not self._silent and total > 1:
            tenth = 10 * done // total
            if tenth > self._tenth:
                self._tenth = tenth
                left = time_left(time.perf_counter() - self._since, done, total)
                print(f"{self._name}: {counted}{left and f', {left} left'}", file=sys.stderr)

    def rate(self, done: int, total: int | None, per_s: float) -> None:
        """`done` frames of `total`, None where nobody knows how many come, at so many a second."""
        of = "" if total is None else f"/{total:,}"
        counted = f"{done:,}{of} frames, {per_s:,.1f} frames/s"
        now = time.perf_counter()
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total, counted=counted)
        elif not self._silent and now - self._told_s >= RATE_S:
            self._told_s = now
            left = "" if total is None or per_s <= 0 else time_left(done / per_s, done, total)
            print(f"{self._name}: {counted}{left and f', {left} left'}", file=sys.stderr)

    @contextmanager
    def shown(self) -> Iterator[Progress]:
        """Show the bar for as long as the block runs."""
        if self._silent or not sys.stderr.isatty():
            yield self
            self._end()
            return
        from rich.console import Console
        from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, Task, TextColumn
        from rich.progress import Progress as Bar
        from rich.text import Text

        class TimeLeft(ProgressColumn):
            """The time that is left, by the pace of the last half minute; nothing where none is known."""

            max_refresh = 0.5

            def render(self, task: Task) -> Text:
                seconds = task.time_remaining
                return Text(f"{spoken(seconds)} left" if seconds and not task.finished else "")

        columns = (
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[counted]}"),
            TimeLeft(),
        )  # fmt: skip
        with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
            self._bar, self._task = bar, bar.add_task("starting", total=None, counted="")
            try:
                yield self
                self._end()
            finally:
                self._bar = None


# What is counted in a step; a step that is not here counts nothing, or parts without a name.
UNITS = {
    "calibrating": "samples",
    "trying recipes": "recipes",
    "rounding weights": "samples",
    "checking layers": "samples",
    "comparing": "samples",
    "comparing layers": "samples",
    "comparing tails": "frames",
    "verifying": "samples",
    "sweeping": "configurations",
    "running": "pictures",
    "evaluating float": "pictures",
    "evaluating int8": "pictures",
    "evaluating int8 with the kernel": "pictures",
    "timing": "frames",
    "checking": "configs",
}
RATE_S = 5.0  # between two lines of a stream
SURE_S = 1.0  # the first parts load and warm up: before so many seconds no pace is known


def time_left(elapsed_s: float, done: int, total: int) -> str:
    """Seconds or minutes at the pace so far; "" where none is known or nothing is left."""
    if not done or done >= total or elapsed_s < SURE_S:
        return ""
    return spoken(elapsed_s / done * (total - done))


def spoken(duration_s: float) -> str:
    """Whole seconds, at least one; minutes and seconds; hours and minutes."""
    seconds = round(duration_s)
    if seconds < 60:
        return f"{max(seconds, 1)} s"
    hours, minutes = seconds // 3600, seconds % 3600 // 60
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds % 60} s"
