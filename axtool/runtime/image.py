"""`Image`: a picture that knows the order of its channels."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.errors import nearest

Pixels = NDArray[np.uint8]


class ColorFormat(StrEnum):
    """The order of the channels of a picture."""

    RGB = "RGB"
    BGR = "BGR"
    RGBA = "RGBA"
    BGRA = "BGRA"
    GRAY = "GRAY"

    @property
    def channels(self) -> int:
        return 1 if self is ColorFormat.GRAY else len(self.value)


def color_format(value: ColorFormat | str) -> ColorFormat:
    """A format by its name in any case. Raises ValueError with the nearest names."""
    if isinstance(value, ColorFormat):
        return value
    known = [item.value for item in ColorFormat]
    if str(value).upper() not in known:
        raise ValueError(f"there is no colour format '{value}'; {nearest(str(value).upper(), known)}")
    return ColorFormat(str(value).upper())


class Image:
    """uint8 pixels (h, w, c), or (h, w) for GRAY, and their format; `source` says where the picture is from."""

    def __init__(self, pixels: Pixels, color: ColorFormat, source: str = "") -> None:
        self._pixels, self.color_format, self.source = pixels, color, source

    @classmethod
    def from_array(
        cls,
        array: NDArray[Any],
        fallback_color_format: ColorFormat | str | None = None,
        source: str = "",
        like: Image | None = None,
    ) -> Image:
        """uint8 (h, w, 3 or 4), or (h, w[, 1]) which is GRAY. Raises ValueError for another shape or type, or where
        neither a format nor an image of the same format is given.
        """
        pixels = np.asarray(array)
        if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or 0 in pixels.shape:
            raise ValueError(f"a picture is uint8 (h, w, c), got {pixels.dtype} {pixels.shape}")
        channels = 1 if pixels.ndim == 2 else pixels.shape[2]
        if channels == 1:
            return cls(pixels.reshape(pixels.shape[:2]), ColorFormat.GRAY, source)
        if fallback_color_format is None and like is None:
            raise ValueError(
                f"the order of {channels} channels is not known: say fallback_color_format, 'RGB' or 'BGR'"
            )
        color = (
            like.color_format
            if fallback_color_format is None and like
            else color_format(str(fallback_color_format or ""))
        )
        if color.channels != channels:
            raise ValueError(f"{color.value} has {color.channels} channels, the picture {channels}")
        return cls(pixels, color, source)

    @classmethod
    def from_file(cls, path: str | Path) -> Image:
        """A picture file as RGB. Raises UsageError for what is none."""
        from axtool.inputs.images import read_image

        return cls(read_image(Path(path)), ColorFormat.RGB, str(path))

    @classmethod
    def from_pil(cls, image: Any, source: str = "") -> Image:
        """A PIL image; palettes and other modes become RGB."""
        known = {"RGB": ColorFormat.RGB, "RGBA": ColorFormat.RGBA, "L": ColorFormat.GRAY}
        mode = image.mode if image.mode in known else "RGB"
        return cls(np.asarray(image.convert(mode)), known[mode], source)

    @classmethod
    def from_any(cls, value: Any, fallback_color_format: ColorFormat | str | None = None) -> Image:
        """An Image, a PIL image, or an array (torch's too). Raises TypeError for anything else."""
        if isinstance(value, Image):
            return value
        if hasattr(value, "mode") and hasattr(value, "convert"):
            return cls.from_pil(value)
        if isinstance(value, np.ndarray) or hasattr(value, "__array__"):
            return cls.from_array(np.asarray(value), fallback_color_format)
        raise TypeError(f"a picture is an Image, an array or a PIL image, got {type(value).__name__}")

    @property
    def width(self) -> int:
        return int(self._pixels.shape[1])

    @property
    def height(self) -> int:
        return int(self._pixels.shape[0])

    def to_numpy(self) -> Pixels:
        """The pixels, read-only."""
        view = self._pixels.view()
        view.flags.writeable = False
        return view

    def convert(self, color: ColorFormat | str) -> Image:
        """The picture with its channels in another order; itself where it has it already."""
        wanted = color_format(color)
        if wanted is self.color_format:
            return self
        return Image(converted(self._pixels, self.color_format, wanted), wanted, self.source)

    def __repr__(self) -> str:
        source = f", source={self.source!r}" if self.source else ""
        return f"Image({self.width}x{self.height}, {self.color_format.value}{source})"


def converted(pixels: Pixels, src: ColorFormat, dst: ColorFormat) -> Pixels:
    """Pixels in another order of channels. A new alpha is opaque; gray is OpenCV's weighting."""
    import cv2

    if src is dst:
        return pixels
    code = getattr(cv2, f"COLOR_{src.value}2{dst.value}")
    return np.asarray(cv2.cvtColor(np.ascontiguousarray(pixels), code), np.uint8)
