"""How the pixels that a model sees lie in the picture that it was made from: one 3x3 matrix a frame.

Transforms that move pixels multiply their own matrix in front; `to_image_space` goes back. The frame travels in a
context variable, so that a step needs no more than its picture. A sequence opens one for the picture it is called with.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


@dataclass
class Frame:
    """`model = matrix @ picture`, both in pixels with pixel i covering [i, i+1). Sizes are (width, height).

    The picture may be cut out of the whole one that the pipeline was given: `whole = to_whole @ picture`.
    """

    image_size: tuple[int, int]
    model_size: tuple[int, int]
    matrix: Matrix = field(default_factory=lambda: np.eye(3))
    image: Any = None
    whole_size: tuple[int, int] | None = None
    to_whole: Matrix = field(default_factory=lambda: np.eye(3))

    @classmethod
    def of(cls, image: Any, size: tuple[int, int]) -> Frame:
        """A frame at its beginning. A pair of numbers is no picture that could be cut."""
        return cls(size, size, image=None if isinstance(image, tuple) else image)

    @property
    def is_cut(self) -> bool:
        """Whether the picture is a part of a larger one."""
        return self.whole_size is not None

    def moved(self, matrix: Matrix, width: int, height: int) -> None:
        """Note a transform of the pixels that the model sees, and their new size."""
        self.matrix = matrix @ self.matrix
        self.model_size = (width, height)

    def cut(self, image: Any, matrix: Matrix) -> None:
        """Go on with a part of the picture; `matrix` is from pixels of the picture to those of the part."""
        size = size_of(image)
        assert size is not None
        self.whole_size = self.whole_size or self.image_size
        self.to_whole = self.to_whole @ np.linalg.inv(matrix)
        self.image, self.image_size, self.model_size, self.matrix = image, size, size, np.eye(3)

    def to_image(self, points: Any) -> NDArray[np.float64]:
        """Model pixels (..., 2) of x, y -> pixels of the picture."""
        return mapped(np.asarray(np.linalg.inv(self.matrix), np.float64), points)

    def in_whole(self, points: Any) -> NDArray[np.float64]:
        """Points (..., 2) in [0, 1] of the picture -> in [0, 1] of the whole picture."""
        whole = mapped(self.to_whole, np.asarray(points, np.float64) * self.image_size)
        return np.asarray(whole / (self.whole_size or self.image_size))


_CURRENT: ContextVar[Frame | None] = ContextVar("frame", default=None)


def current() -> Frame | None:
    """The frame that is worked on, where there is one."""
    return _CURRENT.get()


def need(who: str) -> Frame:
    """The frame that is worked on. Raises RuntimeError, naming who asks, where there is none."""
    frame = current()
    if frame is None:
        raise RuntimeError(
            f"{who} does not know the picture: run the whole pipeline on it, or wrap single steps in "
            "`with op.frame_context(image):`"
        )
    return frame


def moved(matrix: Matrix, width: int, height: int) -> None:
    """Note a transform in the current frame; nothing where there is none."""
    frame = current()
    if frame is not None:
        frame.moved(matrix, width, height)


def mapped(matrix: Matrix, points: Any) -> NDArray[np.float64]:
    """Points (..., 2) through a 3x3 matrix."""
    flat = np.asarray(points, np.float64)
    made = np.concatenate([flat, np.ones((*flat.shape[:-1], 1))], -1) @ matrix.T
    return np.asarray(made[..., :2] / made[..., 2:])


def scaled(scale_x: float, scale_y: float, offset_x: float = 0.0, offset_y: float = 0.0) -> Matrix:
    """The matrix of a scaling and a shift."""
    return np.array([[scale_x, 0, offset_x], [0, scale_y, offset_y], [0, 0, 1.0]])


@contextmanager
def frame_context(image: Any) -> Iterator[Frame]:
    """A frame for the steps inside the block. `image` is a picture (h, w[, c]), an Image, or (width, height)."""
    size = size_of(image)
    if size is None:
        raise TypeError(f"a frame is of a picture or of (width, height), got {type(image).__name__}")
    token = _CURRENT.set(Frame.of(image, size))
    try:
        frame = current()
        assert frame is not None
        yield frame
    finally:
        _CURRENT.reset(token)


@contextmanager
def frame_of(values: tuple[Any, ...]) -> Iterator[None]:
    """A frame for a whole pipeline: of its first value where that is a picture and no frame is open yet."""
    size = size_of(values[0]) if values and current() is None else None
    if size is None:
        yield
        return
    token = _CURRENT.set(Frame.of(values[0], size))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def begin(value: Any) -> None:
    """From here on, the frame of a value where that is a picture, and none where it is not."""
    size = size_of(value)
    _CURRENT.set(None if size is None else Frame.of(value, size))


@contextmanager
def branch() -> Iterator[Frame | None]:
    """A copy of the frame, so that branches that move pixels differently do not meet."""
    frame = current()
    made = None if frame is None else replace(frame)
    token = _CURRENT.set(made)
    try:
        yield made
    finally:
        _CURRENT.reset(token)


def adopt(frame: Frame | None) -> None:
    """Go on with the pixels of a branch."""
    here = current()
    if here is not None and frame is not None:
        for part in fields(Frame):
            setattr(here, part.name, getattr(frame, part.name))


def size_of(image: Any) -> tuple[int, int] | None:
    """(width, height) of a picture, an Image, a PIL image or a pair of numbers; None for anything else."""
    if isinstance(image, np.ndarray):  # first, and without a text: every frame is asked
        return (image.shape[1], image.shape[0]) if image.dtype == np.uint8 and image.ndim in (2, 3) else None
    if isinstance(image, tuple) and len(image) == 2 and all(isinstance(value, int) for value in image):
        return image
    if hasattr(image, "__array__") and hasattr(image, "dtype"):  # torch's tensors too
        bytes_ = str(image.dtype).endswith("uint8") and len(image.shape) in (2, 3)
        return (int(image.shape[1]), int(image.shape[0])) if bytes_ else None
    width, height = getattr(image, "width", None), getattr(image, "height", None)
    return (width, height) if isinstance(width, int) and isinstance(height, int) else None
