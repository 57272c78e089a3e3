"""A compiled model  ->  the pipeline of a stream: prepare a frame, run the model, say what is in it, draw it.

The result of the pipeline is a `Seen`. Every operator here is a pure function of its frame, so that frames may go
through it side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from axtool.artefact.stages import Artefact
from axtool.errors import UsageError, plural
from axtool.inputs.prepare import Preparation
from axtool.inputs.preprocess import Preprocess
from axtool.inputs.spec import InputSpec, show_shape
from axtool.runtime import geometry
from axtool.runtime.draw import drawn
from axtool.runtime.image import ColorFormat, Image
from axtool.runtime.op.combinators import Seq
from axtool.runtime.op.load import LoadedSeq
from axtool.runtime.op.operator import Operator
from axtool.runtime.op.prepare import Prepare
from axtool.runtime.op.tensors import ToTensor
from axtool.runtime.op.transforms import ColorConvert, Letterbox
from axtool.runtime.task import interpret, labels_on_picture


@dataclass(frozen=True, eq=False)
class Seen:
    """What is in a frame: in the words of `axtool.runtime.task.interpret`, None for a model without a task; and the
    frame with that drawn on it, BGR (h, w, 3), where it was asked for.
    """

    result: Mapping[str, Any] | None
    drawn: NDArray[np.uint8] | None = None


def preparation_for(artefact: Artefact, preparation: Preparation | None, where: Path) -> Preparation:
    """How a frame becomes the input of a model. Raises UsageError for a model that takes more than a picture."""
    if len(artefact.inputs) != 1:
        names = ", ".join(spec.name for spec in artefact.inputs)
        raise UsageError(
            f"a stream feeds one input, the model has {plural(len(artefact.inputs), 'input')}: {names}",
            where=str(where), hint="run it once, with NAME=FILE for each input", code="wrong-input-count",
        )  # fmt: skip
    spec = artefact.inputs[0]
    return (preparation or Preparation()).resolve(InputSpec(spec.name, spec.shape, spec.dtype))


def pipeline_of(front: Sequence[Operator], model: LoadedSeq, preparation: Preparation, *, draws: bool = False) -> Seq:
    """From a frame to a Seen: `front` makes the input, and the resolved `preparation` says where the frame lies in it.

    Raises UsageError where something is to be drawn and the model does not say what its outputs mean.
    """
    if draws and not model.artefact.task:
        raise UsageError(
            "the file does not say what its outputs mean", where=str(model.path),
            hint="compile it with --task, or leave out --save", code="nothing-to-draw",
        )  # fmt: skip
    seen = Interpret(model.artefact, preparation, draws=draws)
    return Seq(*front, model, seen, *([Annotate()] if draws else [])).optimized()


def front_of(preparation: Preparation) -> list[Operator]:
    """The operators of a preparation: three that are made one where they say all of it, with the same bits."""
    plain = preparation.resize == "letterbox" and preparation.color in ("RGB", "BGR") and preparation.mean is None
    plain &= preparation.std is None and preparation.factor == 1 / 255 and preparation.dtype == "float32"
    plain &= preparation.layout != "NHWC" and preparation.interpolation == "linear" and preparation.size is not None
    if not plain or preparation.size is None or preparation.color is None:
        return [Prepare(**preparation.to_dict())]
    fill = tuple(int(value) for value in np.clip(np.rint(preparation.fill), 0, 255))
    colour = (fill * 3)[:3]
    height, width = preparation.size
    letterbox = Letterbox(width, height, fill_color=colour, anchor=preparation.anchor)
    return [ColorConvert(preparation.color), letterbox, ToTensor()]


class Preprocessed(Operator):
    """The user's own function: RGB pixels (h, w, 3) -> the model's input, of `shape` or without its batch of one.

    Raises UsageError for what is of another shape.
    """

    function: Preprocess
    shape: tuple[int, ...]
    portable: ClassVar[bool] = False
    stateful: ClassVar[bool] = True  # nobody knows what a function of the user's keeps

    def __call__(self, image: Any) -> Any:
        made = self.function(Image.from_any(image).convert(ColorFormat.RGB).to_numpy())
        if made.shape not in (self.shape, self.shape[1:]):
            raise UsageError(
                f"gives {show_shape(made.shape)}, the model wants {show_shape(self.shape)}", where=str(self.function),
                hint="change the function", code="preprocess",
            )  # fmt: skip
        return made.astype(np.float32, copy=False)


class Interpret(Operator):
    """The outputs of a model -> a Seen, and with `draws` also the labels of the frame's pixels, for `Annotate`."""

    portable: ClassVar[bool] = False
    stateful: ClassVar[bool] = False

    def __init__(self, artefact: Artefact, preparation: Preparation, *, draws: bool = False, name: str = "") -> None:
        self._task, self._names = artefact.task, [spec.name for spec in artefact.outputs]
        self._preparation, self._draws = preparation, draws
        super().__init__(name=name)

    def __call__(self, *outputs: Any) -> Any:
        if not self._task:
            return Seen(None)
        width, height = geometry.need("interpret").image_size
        placement = self._preparation.place(height, width)
        arrays = dict(zip(self._names, outputs, strict=True))
        result = interpret(self._task, arrays, placement)
        if not self._draws:
            return Seen(result)
        return result, labels_on_picture(self._task, arrays, placement)


class Annotate(Operator):
    """A result and the labels of the pixels -> a Seen with the frame that they are drawn on."""

    portable: ClassVar[bool] = False
    stateful: ClassVar[bool] = False

    def __call__(self, found: tuple[Mapping[str, Any], NDArray[np.int64] | None]) -> Seen:
        result, labels = found
        image = Image.from_any(geometry.need("annotate").image)
        return Seen(result, drawn(image.convert(ColorFormat.BGR).to_numpy(), result, labels))
