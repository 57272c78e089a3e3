"""An entry and its compiled file  ->  the loaded model with the kernel of the config, and pictures through it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.errors import AxError, UsageError
from axtool.inputs.images import find_files, is_image_name
from axtool.inputs.prepare import Preparation
from axtool.inputs.spec import InputSpec
from axtool.runtime.image import Image
from axtool.runtime.op.load import LoadedSeq, input_size, load
from axtool.runtime.op.operator import Unpacked
from axtool.runtime.postamble import Postamble
from axtool.runtime.streams.axm import Wanted, stream_model
from axtool.runtime.streams.run import StreamOptions, StreamRun, Told
from axtool.runtime.task import interpret, labels_on_picture
from axtool.zoo.catalogue import Entry
from axtool.zoo.pictures import paths_of
from axtool.zoo.pipeline import Steps, steps_of


@dataclass(frozen=True)
class Seen:
    """One picture through a model: its outputs, what they mean (None without a task), and the measured seconds.

    `labels` are those of the picture's pixels, from a semantic segmenter.
    """

    outputs: Mapping[str, NDArray[Any]]
    result: Mapping[str, Any] | None
    prepare_s: float
    frame_s: float
    labels: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class LoadedEntry:
    """A model that is ready for pictures, and the steps of its config."""

    entry: Entry
    model: LoadedSeq
    steps: Steps

    def see(self, path: Path) -> Seen:
        """What is in a picture file. Raises UsageError for what is none, and where the kernel fails."""
        preparation = self.preparation()
        front, image = self.steps.front(), Image.from_file(path)
        begun = time.perf_counter()
        prepared = front(image)
        ready = time.perf_counter()
        with told(self.entry):
            made = self.model(prepared)
        done = time.perf_counter()
        specs, task = self.model.artefact.outputs, self.model.artefact.task
        arrays = made if isinstance(made, Unpacked) else (made,)
        outputs = {spec.name: array for spec, array in zip(specs, arrays, strict=True)}
        placement = preparation.place(image.height, image.width)
        result = interpret(task, outputs, placement) if task else None
        return Seen(outputs, result, ready - begun, done - ready, labels_on_picture(task, outputs, placement))

    def stream(self, items: Sequence[str], options: StreamOptions, wanted: Wanted, told: Told) -> StreamRun:
        """Videos, cameras and folders through the model: as `axtool.runtime.streams.axm.stream_model`."""
        front = self.steps.front().operators
        return stream_model(front, self.model, self.preparation(), items, options, wanted, told=told)

    def preparation(self) -> Preparation:
        """How a picture becomes the input. Raises UsageError where the config's is not for this model."""
        spec = self.model.artefact.inputs[0]
        try:
            return self.entry.config.preparation.resolve(InputSpec(spec.name, spec.shape, spec.dtype))
        except AxError as error:
            key = "preprocess" if self.entry.config.preprocess else "input"
            hint = f"change {key} of the config: axzoo check {self.entry.config.name}"
            raise UsageError(f"{key}: {error}", where=str(self.entry.path), hint=hint, code=error.code) from error


def load_entry(entry: Entry, axm: Path, *, kernel: bool = True, threads: int = 1) -> LoadedEntry:
    """The compiled file of an entry, with the kernel of its config, or with the onnxruntime tail.

    Raises UsageError for a kernel that does not fit the model or cannot be imported.
    """
    with told(entry):
        model = load(axm, using_postamble=entry.config.kernel if kernel else Postamble(), threads=threads)
    assert isinstance(model, LoadedSeq)  # an .axm is never a saved pipeline
    width, height = input_size(model.artefact)
    return LoadedEntry(entry, model, steps_of(entry.config, (height, width)))


@contextmanager
def told(entry: Entry) -> Iterator[None]:
    """Inside the block modules beside a config can be imported, and what a kernel raises is a fault that the user can
    mend: a UsageError that says so.
    """
    beside = str(entry.path.parent)
    added = ":" in entry.config.kernel.kernel_name and beside not in sys.path
    if added:
        sys.path.insert(0, beside)
    try:
        yield
    except (ImportError, TypeError, ValueError, RuntimeError) as error:
        hint = f"the Postamble is that of {entry.path}; --no-kernel runs without it"
        raise UsageError(
            " ".join(str(error).split()), hint="" if entry.config.kernel.is_empty else hint, code="bad-kernel"
        ) from error
    finally:
        if added:
            sys.path.remove(beside)


def pictures_in(inputs: Sequence[str | Path]) -> list[Path]:
    """Picture files, and those of folders. Raises UsageError for what is neither, or a folder without pictures."""
    found: list[Path] = []
    for item in map(Path, inputs):
        inside = [path for path in find_files(item) if is_image_name(path)] if item.is_dir() else [item]
        if not inside:
            raise UsageError("no pictures in this folder", where=str(item), code="no-pictures")
        found += inside
    for path in found:
        if not path.is_file():
            raise UsageError("no such file", where=str(path), hint="give a picture or a folder", code="file-not-found")
        if not is_image_name(path):
            hint = "arrays run without the steps of the config: axtool run MODEL.axm FILE.npy"
            raise UsageError("is no picture", where=str(path), hint=hint, code="not-an-image")
    return found


def own_pictures(entry: Entry) -> list[Path]:
    """The demo picture of a config where it has one, else its validation pictures. Fetches and makes what is not there.

    Raises UsageError for a config that names no pictures.
    """
    config = entry.config
    if config.demo:
        return [entry.file(config.demo)]
    paths = [Path(path) for path in paths_of(entry, config.validation)]
    found = [path for path in paths if path.is_dir() or is_image_name(path)]
    if not found:
        raise UsageError(
            "the config names no pictures", where=str(entry.path), hint="give one of your own", code="no-pictures"
        )
    return pictures_in(found)
