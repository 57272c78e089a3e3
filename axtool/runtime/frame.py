"""One input through a compiled model  ->  its outputs, what they mean, and how long each part took."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from axtool.errors import UsageError, nearest
from axtool.inputs.feeds import read_feeds
from axtool.inputs.images import is_image_name
from axtool.inputs.prepare import Placement, Preparation
from axtool.inputs.spec import InputSpec
from axtool.runtime.model import CompiledModel, load
from axtool.runtime.task import draw, interpret
from axtool.sim.engine import ENGINES, native_available
from axtool.target_file import target_from_dict
from axtool.timing.clock import time_plan
from axtool.types import TensorSpec

log = logging.getLogger("axtool")
UNPREPARED = "no preparation is stored or given: fit, RGB, x 1/255 (say --resize, --color, --scale)"
Prepare = Callable[[Preparation | None], Preparation | None]


@dataclass(frozen=True)
class Frame:
    """What `axtool run` shows. `engine` is the one that ran. `times_s` are measured here: `prepare`, `device`, `host`
    where there are host stages, and `frame`, which is device, host and what passes between them; each the median of
    `repeats` frames, after one that is not measured. `modelled_ms` is the device's time on the chip.
    """

    engine: str
    outputs: Mapping[str, NDArray[Any]]
    times_s: Mapping[str, float]
    modelled_ms: float | None
    result: Mapping[str, Any] | None
    picture: Path | None
    repeats: int = 1

    def drawn(self, suffix: str = ".png") -> bytes:
        """The picture with what was found on it, as a file of that kind. Raises UsageError for nothing to draw."""
        if self.picture is None:
            raise UsageError("--save draws on a picture", hint="give one image as input", code="nothing-to-draw")
        if self.result is None:
            raise UsageError(
                "the file does not say what its outputs mean",
                hint="compile it with --task, or use -o for the arrays",
                code="nothing-to-draw",
            )
        return draw(self.picture, self.result, suffix)


def run_axm(
    path: Path,
    items: Sequence[str],
    *,
    prepare: Prepare = lambda base: base,
    preprocess: str | None = None,
    engine: str = "native",
    threads: int = 1,
    isa: str = "auto",
    repeat: int = 1,
) -> Frame:
    """Run an .axm file on the inputs `items`; `prepare` may change the preparation that the file holds."""
    if engine not in ENGINES:
        hint = nearest(engine, (*ENGINES, "float"))
        raise UsageError(f"there is no engine '{engine}'", hint=hint, code="bad-option")
    if path.suffix.lower() == ".onnx":
        raise UsageError(
            "an .onnx file has no device program",
            where=str(path),
            hint="compile it first (`axtool compile`), or run it with --engine float",
            code="not-axm",
        )
    model = load(path, engine=engine, threads=threads, isa=isa)
    preparation, feeds, prepared_s = feeds_of(model.inputs, items, stored_preparation(model), prepare, preprocess)
    used = "native" if engine == "native" and native_available() else "reference"
    if used == "native":  # the reference takes its time, cold or warm
        model.run(feeds)
    runs = [timed(lambda: model.run(feeds)) for _ in range(repeat)]
    run = runs[-1][0]
    picture, placement = picture_of(items, preparation, model.inputs)
    task = model.artefact.task
    result = interpret(task, run.outputs, placement) if task else None
    times = {"prepare": prepared_s, "device": median(one.device_s for one, _ in runs)}
    if len(model.devices) < len(model.stages):
        times["host"] = median(one.host_s for one, _ in runs)
    times["frame"] = median(seconds for _, seconds in runs)
    return Frame(used, run.outputs, times, modelled_ms(model), result, picture, repeat)


T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What the work gives, and the seconds it took."""
    start = time.perf_counter()
    made = work()
    return made, time.perf_counter() - start


def stored_preparation(model: CompiledModel) -> Preparation | None:
    """How the file says that its inputs are made."""
    stored = model.artefact.preparation
    return None if stored is None else Preparation.from_dict(stored)


def modelled_ms(model: CompiledModel) -> float:
    """Milliseconds of the device stages on the chip, modelled."""
    target = target_from_dict(model.artefact.target)
    return 1e3 * sum(time_plan(device.plan, target).latency_s for device in model.devices)


def feeds_of(
    specs: Sequence[TensorSpec],
    items: Sequence[str],
    base: Preparation | None,
    prepare: Prepare,
    preprocess: str | None,
) -> tuple[Preparation | None, dict[str, NDArray[Any]], float]:
    """(preparation used, feeds, seconds it took). What the first call must import is not in them."""
    if not items:
        wanted = ", ".join(f"{spec.name} {spec.dtype} {list(spec.shape)}" for spec in specs)
        raise UsageError("no input is given", hint=f"give an image, .npy or .npz for {wanted}", code="missing-input")
    preparation = prepare(base)
    if preparation is None and preprocess is None and any(is_image_name(Path(item)) for item in items):
        log.warning(UNPREPARED)
    inputs = [InputSpec(spec.name, spec.shape, spec.dtype) for spec in specs]
    if any(is_image_name(Path(item)) for item in items):
        import cv2  # noqa: F401
    feeds, seconds = timed(lambda: read_feeds(items, inputs, preparation, preprocess))
    return preparation, {name: np.asarray(a) for name, a in feeds.items()}, seconds


def picture_of(
    items: Sequence[str], preparation: Preparation | None, specs: Sequence[TensorSpec]
) -> tuple[Path | None, Placement | None]:
    """The picture among the inputs, and where it lies in the model's input."""
    paths = [Path(item.split("=", 1)[-1]) for item in items]
    found = [path for path in paths if is_image_name(path) and path.is_file()]
    if len(found) != 1 or not specs:
        return None, None
    from axtool.inputs.images import read_image

    height, width = read_image(found[0]).shape[:2]
    spec = InputSpec(specs[0].name, specs[0].shape, specs[0].dtype)
    return found[0], (preparation or Preparation()).resolve(spec).place(height, width)
