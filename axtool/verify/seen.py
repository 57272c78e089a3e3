"""One sample of a comparison, for whoever draws it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from axtool.inputs.prepare import Preparation
from axtool.verify.task_metrics import TaskMetrics

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Seen:
    """The feeds and the outputs of both sides by name; `metrics` say what the outputs mean."""

    name: str
    feeds: Arrays
    reference: Arrays
    result: Arrays
    metrics: TaskMetrics
    preparation: Preparation | None = None
    labels: tuple[str, ...] = ()  # of the classes, by index


Show = Callable[[Seen], None]


def nobody(seen: Seen) -> None:
    """Shows it to nobody."""
