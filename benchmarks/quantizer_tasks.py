"""Outputs of a float and of a quantized model, sample by sample  ->  what the task makes of them, as counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from axtool.runtime.task import interpret
from axtool.verify.agreement import Agreement
from benchmarks.mean_precision import MeanPrecision

Arrays = Mapping[str, NDArray[Any]]


class Reading(Protocol):
    """Reads one sample after the other."""

    def add(self, wanted: Arrays, found: Arrays) -> None: ...
    def to_dict(self) -> dict[str, Any]: ...


def reading_of(task: Mapping[str, Any]) -> Reading:
    """Who reads the outputs of a task."""
    kinds = {"text-line": Lines, "pixels": Pixels}
    if task["kind"] in kinds:
        return kinds[task["kind"]]()
    return Scenes(task) if "truth" in task else Same(task)


class Same:
    """Classes or objects that both models see."""

    def __init__(self, task: Mapping[str, Any]) -> None:
        self._task, self._agreement = task, Agreement()

    def add(self, wanted: Arrays, found: Arrays) -> None:
        self._agreement.add(interpret(self._task, wanted), interpret(self._task, found))

    def to_dict(self) -> dict[str, Any]:
        return {k: round(v, 4) if isinstance(v, float) else v for k, v in self._agreement.to_dict().items()}


class Lines:
    """Lines of text that read the same."""

    def __init__(self) -> None:
        self._same = self._all = 0

    def add(self, wanted: Arrays, found: Arrays) -> None:
        texts = [transcript(next(iter(outputs.values()))) for outputs in (wanted, found)]
        self._same += texts[0] == texts[1]
        self._all += 1

    def to_dict(self) -> dict[str, Any]:
        return {"lines_same": self._same, "samples": self._all}


class Pixels:
    """Pixels of (1, classes, h, w) whose best class is the same."""

    def __init__(self) -> None:
        self._same = self._all = self._samples = 0

    def add(self, wanted: Arrays, found: Arrays) -> None:
        best = [next(iter(outputs.values())).argmax(1) for outputs in (wanted, found)]
        self._same += int((best[0] == best[1]).sum())
        self._all += best[0].size
        self._samples += 1

    def to_dict(self) -> dict[str, Any]:
        return {"pixels_same": round(self._same / max(self._all, 1), 4), "samples": self._samples}


class Scenes:
    """mAP50 of both models on pictures whose objects are known: `truth` of the task, in the order of the samples."""

    def __init__(self, task: Mapping[str, Any]) -> None:
        self._task, self._samples = {k: v for k, v in task.items() if k != "truth"}, 0
        self._truth = task["truth"]
        self._float, self._found = MeanPrecision(), MeanPrecision()

    def add(self, wanted: Arrays, found: Arrays) -> None:
        for precision, outputs in ((self._float, wanted), (self._found, found)):
            precision.add(interpret(self._task, outputs)["detections"], self._truth[self._samples])
        self._samples += 1

    def to_dict(self) -> dict[str, Any]:
        means = {"map50": self._found.mean(), "map50_float": self._float.mean()}
        return {key: round(value, 4) for key, value in means.items()} | {"samples": self._samples}


def transcript(scores: NDArray[Any]) -> list[int]:
    """Best path of a CTC output (1, steps, symbols): symbols, repeats taken once, without blanks (0)."""
    best: list[int] = scores[0].argmax(-1).tolist()
    return [symbol for symbol, before in zip(best, [0, *best], strict=False) if symbol not in (0, before)]
