"""A compiled model in three parts that are timed apart: what brings the inputs to the device, the device, the tail.

The tail is what lies behind the device: a postamble kernel, or depad, dequantize, align and the onnxruntime graph.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.artefact.stages import Artefact
from axtool.errors import AxError, UsageError
from axtool.runtime.op.combinators import arguments
from axtool.runtime.op.device_ops import AxRuntimeModel
from axtool.runtime.op.device_options import DeviceOptions
from axtool.runtime.op.load import LoadedSeq, sequence_of
from axtool.runtime.op.operator import Operator
from axtool.runtime.postamble import Postamble

Arrays = dict[str, NDArray[Any]]
DROP = "check the kernel and its parameters, or --postamble none runs the onnxruntime tail"


@dataclass(frozen=True)
class Tail:
    """The operators behind the device. `kernel` is the last of them where it is one, else None."""

    where: str
    steps: tuple[Operator, ...]
    kernel: Operator | None
    outputs: tuple[str, ...]

    @property
    def made_by(self) -> str:
        """The class of the kernel, or onnxruntime."""
        return "onnxruntime" if self.kernel is None else type(self.kernel).__name__

    def run(self, buffers: Sequence[NDArray[Any]]) -> Arrays:
        """The buffers of the device -> the outputs by name. Raises UsageError for a kernel that fails."""
        values: tuple[Any, ...] = (list(buffers),)
        for step in self.steps:
            try:
                values = arguments(step(*values))
            except AxError:
                raise
            except Exception as error:
                if step is not self.kernel:
                    raise
                what = f"kernel {self.made_by} fails while it runs: {type(error).__name__}: {error}"
                raise UsageError(what, where=self.where, hint=DROP, code="bad-postamble") from error
        return self._named(values)

    def _named(self, values: tuple[Any, ...]) -> Arrays:
        if len(values) == 1 and isinstance(values[0], (list, tuple)):
            values = tuple(values[0])  # as a kernel of the user's returns several
        if len(values) != len(self.outputs) or not all(isinstance(value, np.ndarray) for value in values):
            kinds = ", ".join(type(value).__name__ for value in values)
            what = f"{self.made_by} gives {kinds or 'nothing'}, want an array for each of {', '.join(self.outputs)}"
            raise UsageError(what, where=self.where, hint=DROP, code="bad-postamble")
        return dict(zip(self.outputs, values, strict=True))


@dataclass(frozen=True)
class Parted:
    """A loaded model."""

    loaded: LoadedSeq
    front: tuple[Operator, ...]
    device: AxRuntimeModel
    tail: Tail

    def buffers(self, feeds: Mapping[str, NDArray[Any]]) -> tuple[list[NDArray[Any]], float, float]:
        """(the device's buffers, seconds of what is in front of it, seconds of the device)."""
        start = time.perf_counter()
        values: tuple[Any, ...] = tuple(feeds[spec.name] for spec in self.loaded.artefact.inputs)
        for step in self.front:
            values = arguments(step(*values))
        middle = time.perf_counter()
        found = self.device(*values)
        return found, middle - start, time.perf_counter() - middle


def parted(
    artefact: Artefact,
    path: Path,
    postamble: Postamble,
    *,
    engine: str = "native",
    threads: int = 1,
    isa: str = "auto",
) -> Parted:
    """The model with this postamble. Raises UsageError for a kernel that is not found or that refuses the model."""
    try:
        options = DeviceOptions(engine=engine, threads=threads, isa=isa)
        loaded = sequence_of(artefact, path, postamble, options=options)
    except AxError:
        raise
    except (ValueError, TypeError, ImportError, RuntimeError) as error:
        what = str(error).removeprefix(f"{path}: ")
        raise UsageError(what, where=str(path), hint=DROP, code="bad-postamble") from error
    names = tuple(spec.name for spec in artefact.outputs)
    front = loaded.steps[: loaded.steps.index(loaded.device)]
    return Parted(loaded, front, loaded.device, Tail(str(path), loaded.tail.steps, loaded.kernel, names))
