"""Operators on pictures: size, place and colour. uint8 (h, w, c) in and out, an Image where an Image is given."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.inputs.prepare import Preparation
from axtool.runtime import geometry
from axtool.runtime.image import ColorFormat, Image, color_format, converted
from axtool.runtime.op.operator import Operator, choice

Pixels = NDArray[np.uint8]


class InterpolationMode(StrEnum):
    """How a picture is resampled."""

    nearest = "nearest"
    bilinear = "bilinear"
    bicubic = "bicubic"
    lanczos = "lanczos"


class Resize(Operator):
    """Stretch to width x height, or scale so that the smaller edge is `size`."""

    width: int = 0
    height: int = 0
    size: int = 0
    half_pixel_centers: bool = True
    interpolation: InterpolationMode | str = InterpolationMode.bilinear

    def __post_init__(self) -> None:
        self.interpolation = choice(InterpolationMode, self.interpolation, "interpolation")
        if not self.half_pixel_centers:
            raise ValueError("resize: half_pixel_centers=True is required, it is how OpenCV resamples")
        both = self.width > 0 and self.height > 0
        if both == (self.size > 0) or (not both and (self.width or self.height)):
            raise ValueError(
                f"resize wants width and height, or size (the smaller edge): got width={self.width}, "
                f"height={self.height}, size={self.size}"
            )

    def __call__(self, image: Any) -> Any:
        pixels = pixels_of(image, "resize")
        h, w = pixels.shape[:2]
        width, height = self.width, self.height
        if self.size:
            scale = self.size / min(h, w)
            width, height = (self.size, round(h * scale)) if w <= h else (round(w * scale), self.size)
        geometry.moved(geometry.scaled(width / w, height / h), width, height)
        return like(image, resampled(pixels, width, height, InterpolationMode(self.interpolation)))


class Letterbox(Operator):
    """Scale to fit into width x height without changing the shape, and fill the rest with a colour.

    `anchor` is where the picture lies: 'center' or 'top-left'.
    """

    width: int
    height: int
    fill_color: tuple[int, ...] = (114, 114, 114)
    anchor: str = "center"

    def __post_init__(self) -> None:
        if self.width < 1 or self.height < 1:
            raise ValueError(f"letterbox wants a size of at least 1x1, got {self.width}x{self.height}")
        if self.anchor not in ("center", "top-left"):
            raise ValueError(f"letterbox: there is no anchor '{self.anchor}'; known: center, top-left")
        self.fill_color = tuple(self.fill_color)
        if len(self.fill_color) not in (1, 3, 4) or not all(0 <= value <= 255 for value in self.fill_color):
            raise ValueError(f"letterbox wants a fill_color of 1, 3 or 4 values of 0 to 255, got {self.fill_color}")

    def __call__(self, image: Any) -> Any:
        pixels = pixels_of(image, "letterbox")
        small, top, left = self.placed(pixels)
        h, w = small.shape[:2]
        if (h, w) == (self.height, self.width):
            return like(image, small)
        canvas = np.empty((self.height, self.width, *pixels.shape[2:]), np.uint8)
        canvas[:] = self.fill_of(1 if pixels.ndim == 2 else pixels.shape[2])
        canvas[top : top + h, left : left + w] = small.reshape(h, w, *pixels.shape[2:])
        return like(image, canvas)

    def placed(self, pixels: Pixels) -> tuple[Pixels, int, int]:
        """The scaled picture, and the row and the column where it begins. Notes the move in the frame."""
        h, w = pixels.shape[:2]
        anchor: Any = self.anchor
        place = Preparation(resize="letterbox", size=(self.height, self.width), anchor=anchor).place(h, w)
        new_h, new_w = round(h * place.scale_y), round(w * place.scale_x)
        top, left = int(place.offset_y), int(place.offset_x)
        small = pixels if (new_h, new_w) == (h, w) else resampled(pixels, new_w, new_h, InterpolationMode.bilinear)
        geometry.moved(geometry.scaled(place.scale_x, place.scale_y, left, top), self.width, self.height)
        return small, top, left

    def fill_of(self, channels: int) -> tuple[int, ...]:
        """The fill for a picture of so many channels; an alpha that the colour does not name is opaque."""
        color = self.fill_color if len(self.fill_color) > 1 else self.fill_color * 3
        return (*color, 255)[:channels] if len(color) == 3 else color[:channels]


class CenterCrop(Operator):
    """The middle of a picture; `size` is (height, width), or one number for both."""

    size: int | Sequence[int]

    def __call__(self, image: Any) -> Any:
        pixels = pixels_of(image, "center_crop")
        height, width = (self.size, self.size) if isinstance(self.size, int) else self.size
        h, w = pixels.shape[:2]
        if height > h or width > w:
            raise ValueError(f"center_crop of {height}x{width} is larger than the picture of {h}x{w}")
        top, left = -((height - h) // 2), -((width - w) // 2)  # an odd pixel goes in front, as a preparation crops
        geometry.moved(geometry.scaled(1, 1, -left, -top), width, height)
        return like(image, np.ascontiguousarray(pixels[top : top + height, left : left + width]))


class Perspective(Operator):
    """Warp by a 3x3 matrix from picture to result, of width x height pixels."""

    matrix: Sequence[Sequence[float]]
    width: int
    height: int

    def __post_init__(self) -> None:
        if np.shape(self.matrix) != (3, 3) or abs(np.linalg.det(np.asarray(self.matrix, np.float64))) < 1e-12:
            raise ValueError(f"perspective wants a 3x3 matrix that can be inverted, got {self.matrix}")

    def __call__(self, image: Any) -> Any:
        import cv2

        matrix = np.asarray(self.matrix, np.float64)
        geometry.moved(matrix, self.width, self.height)
        warped = cv2.warpPerspective(pixels_of(image, "perspective"), matrix, (self.width, self.height))
        return like(image, np.asarray(warped, np.uint8))


class ColorConvert(Operator):
    """The channels in another order. `src` is needed for an array, whose order nothing says."""

    dst: ColorFormat | str
    src: ColorFormat | str | None = None

    def __post_init__(self) -> None:
        self.dst = color_format(self.dst)
        self.src = None if self.src is None else color_format(self.src)

    def __call__(self, image: Any) -> Any:
        dst = color_format(self.dst)
        if isinstance(image, Image):
            return image.convert(dst)
        pixels = pixels_of(image, "color_convert")
        if self.src is None:
            if pixels.ndim == 2 or pixels.shape[2] == 1:
                return converted(pixels, ColorFormat.GRAY, dst)
            raise ValueError(
                f"color_convert to {dst.value}: the order of an array is not known; say src, or give an Image"
            )
        src, channels = color_format(self.src), 1 if pixels.ndim == 2 else pixels.shape[2]
        if channels != src.channels:
            raise ValueError(f"color_convert from {src.value} wants {src.channels} channels, got {channels}")
        return converted(pixels, src, dst)


def colorconvert(
    first: ColorFormat | str, second: ColorFormat | str | None = None, *, src: ColorFormat | str | None = None
) -> ColorConvert:
    """`color_convert` in its old spelling, with the source first: `colorconvert("BGR", "RGB")`.

    With one colour, or with `src` by name, the first is the destination.
    """
    if second is None:
        return ColorConvert(first, src)
    if src is not None:
        raise TypeError(f"colorconvert: the source is given twice, '{first}' and '{src}'")
    return ColorConvert(second, first)


def pixels_of(image: Any, who: str) -> Pixels:
    """The pixels of a picture. Raises TypeError or ValueError, naming the operator, for what is none."""
    if isinstance(image, Image):
        return image.to_numpy()
    if hasattr(image, "mode") and hasattr(image, "convert"):
        return Image.from_pil(image).to_numpy()
    if not (isinstance(image, np.ndarray) or hasattr(image, "__array__")):
        raise TypeError(
            f"{who} wants a picture: an array (h, w, c), an Image or a PIL image; got {type(image).__name__}"
        )
    pixels = np.asarray(image)
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or 0 in pixels.shape:
        raise ValueError(f"{who} wants a picture, uint8 (h, w, c); got {pixels.dtype} {pixels.shape}")
    return pixels


def like(image: Any, pixels: Pixels) -> Any:
    """Pixels as what they were made from: an Image stays one."""
    return Image(pixels, image.color_format, image.source) if isinstance(image, Image) else pixels


def resampled(pixels: Pixels, width: int, height: int, mode: InterpolationMode) -> Pixels:
    """A picture of another size, by OpenCV."""
    import cv2

    flags = {
        InterpolationMode.nearest: cv2.INTER_NEAREST, InterpolationMode.bilinear: cv2.INTER_LINEAR,
        InterpolationMode.bicubic: cv2.INTER_CUBIC, InterpolationMode.lanczos: cv2.INTER_LANCZOS4,
    }  # fmt: skip
    made = np.asarray(cv2.resize(pixels, (width, height), interpolation=flags[mode]), np.uint8)
    return made.reshape(height, width, *pixels.shape[2:])  # OpenCV drops an axis of one channel
