"""A pipeline and a picture  ->  how long frames and each operator take here, and the memory that they need."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.geometry import frame_context
from axtool.runtime.image import Image
from axtool.runtime.op.combinators import Par, Seq, arguments
from axtool.runtime.op.device_ops import AxRuntimeModel
from axtool.runtime.op.operator import Operator
from axtool.runtime.resources import peak_bytes, restart_peak

QUANTILES = {"p50": 50, "p95": 95, "p99": 99}


@dataclass(frozen=True, eq=False)
class FrameTimes:
    """Measured seconds, (frames, operators); `on_device` says of each operator whether it is the (simulated) device.

    `cpu_s` is the time of all cores over all frames; `peak_bytes` the most memory of this process while they ran, None
    where the system does not say.
    """

    operators: tuple[str, ...]
    on_device: NDArray[np.bool_]
    seconds: NDArray[np.float64]
    cpu_s: float
    peak_bytes: int | None

    @property
    def frame_s(self) -> NDArray[np.float64]:
        """Of each frame."""
        return np.asarray(self.seconds.sum(1))

    @property
    def host_s(self) -> NDArray[np.float64]:
        """Of each frame, what the device does not do."""
        return np.asarray(self.seconds[:, ~self.on_device].sum(1))

    @property
    def device_s(self) -> NDArray[np.float64]:
        """Of each frame, the device: on this machine, which simulates it."""
        return np.asarray(self.seconds[:, self.on_device].sum(1))


def time_frames(
    pipeline: Seq,
    image: Image,
    frames: int,
    warmup: int = 3,
    count: Callable[[int, int], None] = lambda done, total: None,
) -> FrameTimes:
    """Run the same picture `warmup` times unmeasured, then `frames` times with every operator measured."""
    steps = [inner for step in pipeline.operators for inner in step.operators]
    seconds = np.empty((frames, len(steps)))
    cpu_s = 0.0
    for turn in range(-warmup, frames):
        if turn == 0:
            restart_peak()
        values: tuple[Any, ...] = (image,)
        cpu = time.process_time()
        with frame_context(image):
            for at, step in enumerate(steps):
                start = time.perf_counter()
                values = arguments(step(*values))
                seconds[max(turn, 0), at] = time.perf_counter() - start
        if turn >= 0:
            cpu_s += time.process_time() - cpu
            count(turn + 1, frames)
    on_device = np.array([isinstance(step, AxRuntimeModel) for step in steps], bool)
    names = tuple(_name(step) for step in steps)
    return FrameTimes(names, on_device, seconds, cpu_s, peak_bytes())


def _name(step: Operator) -> str:
    """The class, and of what runs side by side also what that is."""
    name = type(step).__name__.removeprefix("_")
    return f"{name}({', '.join(map(_name, step.branches))})" if isinstance(step, Par) else name


def spread_ms(seconds: NDArray[np.float64]) -> Mapping[str, float]:
    """Milliseconds: least, mean, quantiles, greatest and standard deviation."""
    ms = 1e3 * seconds
    quantiles = {name: float(np.percentile(ms, share)) for name, share in QUANTILES.items()}
    return {
        "min": float(ms.min()), "mean": float(ms.mean()), **quantiles, "max": float(ms.max()),
        "stddev": float(ms.std()),
    }  # fmt: skip
