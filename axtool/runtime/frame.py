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

from axtool.artefact.stages import Artefact
from axtool.errors import UsageError, nearest
from axtool.inputs.feeds import read_feeds
from axtool.inputs.images import is_image_name
from axtool.inputs.prepare import Placement, Preparation
from axtool.inputs.spec import InputSpec
from axtool.runtime.draw import draw
from axtool.runtime.model import CompiledModel, check_feeds, load
from axtool.runtime.postamble import Postamble
from axtool.runtime.task import interpret, labels_on_picture
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

    With a Postamble, `tail` says what made the outputs of the device's buffers; then `front` and `tail` are timed, what
    is before and behind the device with quantization and padding, instead of `host`.
    """

    engine: str
    outputs: Mapping[str, NDArray[Any]]
    times_s: Mapping[str, float]
    modelled_ms: float | None
    result: Mapping[str, Any] | None
    picture: Path | None
    repeats: int = 1
    tail: Mapping[str, Any] | None = None
    labels: NDArray[np.int64] | None = None  # of the picture's pixels, from a semantic segmenter

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
        return draw(self.picture, self.result, suffix, self.labels)


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
    postamble: Postamble | None = None,
) -> Frame:
    """Run an .axm file on the inputs `items`; `prepare` may change the preparation that the file holds.

    With a Postamble the tail is its kernel, or onnxruntime where it is empty, and timed by itself.
    """
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
    preparation, feeds, prepared_s = feeds_of(
        model.inputs, items, stored_preparation(model.artefact), prepare, preprocess
    )
    used = "native" if engine == "native" and native_available() else "reference"
    tail = None
    if postamble is None:
        outputs, times = _whole(model, feeds, repeat, warm=used == "native")
    else:
        outputs, times, made_by = _parted(model, path, feeds, postamble, repeat, engine, threads, isa)
        tail = {"made_by": made_by, "postamble": postamble.to_dict()}
    picture, placement = picture_of(items, preparation, model.inputs)
    task = model.artefact.task
    result = interpret(task, outputs, placement) if task else None
    return Frame(
        used, outputs, {"prepare": prepared_s, **times}, modelled_ms(model.artefact), result, picture, repeat, tail,
        labels_on_picture(task, outputs, placement),
    )  # fmt: skip


Outputs = Mapping[str, NDArray[Any]]


def _whole(
    model: CompiledModel, feeds: dict[str, NDArray[Any]], repeat: int, *, warm: bool
) -> tuple[Outputs, dict[str, float]]:
    """(outputs, seconds) of the stages as the file has them."""
    if warm:  # the reference takes its time, cold or warm
        model.run(feeds)
    runs = [timed(lambda: model.run(feeds)) for _ in range(repeat)]
    times = {"device": median(one.device_s for one, _ in runs)}
    if len(model.devices) < len(model.stages):
        times["host"] = median(one.host_s for one, _ in runs)
    return runs[-1][0].outputs, times | {"frame": median(seconds for _, seconds in runs)}


def _parted(
    model: CompiledModel,
    path: Path,
    feeds: dict[str, NDArray[Any]],
    postamble: Postamble,
    repeat: int,
    engine: str,
    threads: int,
    isa: str,
) -> tuple[Outputs, dict[str, float], str]:
    """(outputs, seconds, what made the tail) with a Postamble."""
    from axtool.runtime.parted import parted  # operators are imported only where they run

    parts = parted(model.artefact, path, postamble, engine=engine, threads=threads, isa=isa)
    checked = check_feeds(model.inputs, feeds)
    outputs: Outputs = {}
    seen: dict[str, list[float]] = {"front": [], "device": [], "tail": [], "frame": []}
    for _ in range(1 + repeat):
        (buffers, front_s, device_s), _ = timed(lambda: parts.buffers(checked))
        outputs, tail_s = timed(lambda: parts.tail.run(buffers))  # noqa: B023
        for key, value in zip(seen, (front_s, device_s, tail_s, front_s + device_s + tail_s), strict=True):
            seen[key].append(value)
    return outputs, {key: median(values[1:]) for key, values in seen.items()}, parts.tail.made_by


T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What the work gives, and the seconds it took."""
    start = time.perf_counter()
    made = work()
    return made, time.perf_counter() - start


def stored_preparation(artefact: Artefact) -> Preparation | None:
    """How the file says that its inputs are made."""
    stored = artefact.preparation
    return None if stored is None else Preparation.from_dict(stored)


def modelled_ms(artefact: Artefact) -> float:
    """Milliseconds of the device stages on the chip, modelled."""
    target = target_from_dict(artefact.target)
    return 1e3 * sum(time_plan(stage.plan, target).latency_s for stage in artefact.device_stages)


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
