"""An image and a Preparation  ->  the array the model wants, and the Placement that leads back to the image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from axtool.errors import UsageError, nearest, plural
from axtool.inputs.spec import InputSpec, show_shape

Resize = Literal["fit", "letterbox", "crop", "none"]
Color = Literal["RGB", "BGR", "GRAY"]
ImageLayout = Literal["NCHW", "NHWC"]
Interpolation = Literal["linear", "area", "cubic", "nearest"]
Anchor = Literal["center", "top-left"]

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "resize": get_args(Resize),
    "color": get_args(Color),
    "layout": get_args(ImageLayout),
    "interpolation": get_args(Interpolation),
    "anchor": get_args(Anchor),
}
_PIXEL_UNITS = 2.0  # a mean or std above this is in 0..255 units


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the image lies in the model's input: model = image * scale + offset, both ways, pixel edges as coordinates.

    Pixel i covers [i, i+1), so the whole image is [0, width] x [0, height].
    """

    scale_x: float
    scale_y: float
    offset_x: float
    offset_y: float
    image_size: tuple[int, int]  # (height, width) of the original image
    model_size: tuple[int, int]  # (height, width) of the model's input

    def to_model(self, points: NDArray[Any]) -> NDArray[np.float64]:
        """Image coordinates (..., 2) of x, y -> model coordinates."""
        return np.asarray(points, np.float64) * (self.scale_x, self.scale_y) + (self.offset_x, self.offset_y)

    def to_image(self, points: NDArray[Any]) -> NDArray[np.float64]:
        """Model coordinates (..., 2) of x, y -> image coordinates."""
        return (np.asarray(points, np.float64) - (self.offset_x, self.offset_y)) / (self.scale_x, self.scale_y)


@dataclass(frozen=True)
class Preparation:
    """How an image becomes a model input: resize, colour order, then `(pixel * scale - mean) / std`.

    `fit` stretches to `size`; `letterbox` keeps the shape and fills the rest with `fill` (0..255); `crop` scales so
    that the middle `crop` of the shorter fit fills the input; `none` takes the image as it is. `mean` and `std` are in
    the channel order of the model. `scale` of None is 1/255, or 1 where mean or std are in 0..255 units (any above 2)
    or the input is uint8. What is None is taken from the model's input by `resolve`.
    """

    size: tuple[int, int] | None = None  # (height, width)
    resize: Resize = "fit"
    crop: float = 0.875
    anchor: Anchor = "center"  # where letterbox puts the image
    fill: tuple[float, ...] = (114.0,)
    color: Color | None = None
    scale: float | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    layout: ImageLayout | None = None
    dtype: str = "float32"
    interpolation: Interpolation = "linear"

    def __post_init__(self) -> None:
        for key, choices in _CHOICES.items():
            value = getattr(self, key)
            if value is not None and value not in choices:
                hint = nearest(str(value), choices)
                raise UsageError(f"{key} '{value}' is not one of {', '.join(choices)}", hint=hint, code="bad-option")
        if self.size is not None and (len(self.size) != 2 or min(self.size) < 1):
            raise UsageError(f"size {self.size}: want height and width, each at least 1", code="bad-option")
        if not 0 < self.crop <= 1:
            raise UsageError(f"crop {self.crop}: want a fraction above 0 and at most 1", code="bad-option")
        if self.dtype not in ("float32", "float16", "uint8"):
            raise UsageError(f"an image cannot become {self.dtype}: want float32, float16 or uint8", code="bad-option")
        for key in ("fill", "mean", "std", "scale"):
            _check_numbers(key, getattr(self, key))

    @property
    def normalises(self) -> bool:
        """True when the user said how pixel values become numbers."""
        return self.scale is not None or self.mean is not None or self.std is not None

    @property
    def channels(self) -> int:
        """Channels of the prepared image."""
        return 1 if self.color == "GRAY" else 3

    @property
    def factor(self) -> float:
        """The scale that is used when `scale` is None."""
        if self.scale is not None:
            return self.scale
        values = (*(self.mean or ()), *(self.std or ()))
        return 1.0 if self.dtype == "uint8" or any(abs(v) > _PIXEL_UNITS for v in values) else 1 / 255

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON and YAML; `from_dict` reads them back."""
        return {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Preparation:
        """The Preparation that `to_dict` wrote. Raises UsageError for unknown keys and bad values."""
        known = [f.name for f in fields(cls)]
        for key in values:
            if key not in known:
                raise UsageError(f"unknown preparation key '{key}'", hint=nearest(key, known), code="bad-option")
        try:
            return cls(**{key: _from_plain(key, value) for key, value in values.items()})
        except (TypeError, ValueError, OverflowError) as error:
            raise UsageError(f"preparation: {error}", code="bad-option") from error

    def resolve(self, spec: InputSpec) -> Preparation:
        """This preparation with every open choice taken from the model's input.

        Raises UsageError when the input is no image, or wants another size or other channels.
        """
        shape, layout = _image_dims(spec, self.layout)
        channels, height, width = shape if layout == "NCHW" else (shape[2], shape[0], shape[1])
        color = self.color or ("GRAY" if channels == 1 else "RGB")
        count = 1 if color == "GRAY" else 3
        if channels not in (None, count):
            raise UsageError(
                f"{color} images have {plural(count, 'channel')}, the input wants {channels}",
                where=str(spec),
                hint="give --color, or arrays (.npz, .npy) or --preprocess file.py:function",
                code="wrong-channels",
            )
        size = self.size
        if size is None and height is not None and width is not None:
            size = (height, width)
        elif size is None and self.resize != "none":
            raise UsageError(
                "the input leaves height and width open",
                where=str(spec),
                hint="fix them with --input-shape, or give --size HEIGHT,WIDTH",
                code="open-shape",
            )
        if size is not None and (height not in (None, size[0]) or width not in (None, size[1])):
            raise UsageError(
                f"expected {height}x{width}, preparation says {size[0]}x{size[1]}", where=str(spec), code="wrong-size"
            )
        dtype = spec.dtype if spec.dtype in ("float16", "uint8") else "float32"
        return replace(self, size=size, layout=layout, color=color, dtype=dtype)

    def place(self, height: int, width: int) -> Placement:
        """Where an image of this size goes. Raises UsageError when `none` is asked for and the size differs."""
        h, w = self.size or (height, width)
        if self.resize == "none" and (height, width) != (h, w):
            raise UsageError(
                f"expected {h}x{w} got {height}x{width}", code="wrong-size", hint="give --resize fit, letterbox or crop"
            )
        if self.resize in ("fit", "none"):
            return Placement(w / width, h / height, 0.0, 0.0, (height, width), (h, w))
        ratios = h / height, w / width
        ratio = min(ratios) if self.resize == "letterbox" else max(ratios) / self.crop
        new_h, new_w = max(1, round(height * ratio)), max(1, round(width * ratio))
        if self.resize == "letterbox":
            new_h, new_w = min(new_h, h), min(new_w, w)
        else:
            new_h, new_w = max(new_h, h), max(new_w, w)
        # Floor division puts the odd pixel of a border after the image, and of a crop before it.
        top, left = ((h - new_h) // 2, (w - new_w) // 2) if self._centred else (0, 0)
        return Placement(new_w / width, new_h / height, float(left), float(top), (height, width), (h, w))

    def prepare(self, image: str | Path | NDArray[np.uint8]) -> NDArray[Any]:
        """The model's input (1, c, h, w) or (1, h, w, c) for an image file or an RGB uint8 array (h, w[, 3]).

        Of type `dtype`: float32 unless the model wants otherwise. Raises UsageError for what is no image.
        """
        from axtool.inputs.images import as_rgb, read_image

        pixels = as_rgb(image) if isinstance(image, np.ndarray) else read_image(Path(image))
        try:
            placed = self._resized(pixels)
        except UsageError as error:
            where = "" if isinstance(image, np.ndarray) else str(image)
            raise UsageError(error.what, where=where, hint=error.hint, code=error.code) from None
        return self.normalise(placed)

    def normalise(self, pixels: NDArray[np.uint8]) -> NDArray[Any]:
        """uint8 (h, w, c) in the model's channel order -> (1, c, h, w) or (1, h, w, c) of `dtype`."""
        tables = _tables(self.factor, self.mean, self.std, pixels.shape[2], self.dtype)
        planes = np.stack([tables[c][pixels[:, :, c]] for c in range(pixels.shape[2])])  # (c, h, w)
        return np.ascontiguousarray(planes if self.layout != "NHWC" else planes.transpose(1, 2, 0))[None]

    @property
    def _centred(self) -> bool:
        return self.resize == "crop" or self.anchor == "center"

    def _resized(self, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """RGB (h, w, 3) -> uint8 (h, w, c) of the model's size and colours."""
        import cv2

        height, width = pixels.shape[:2]
        place = self.place(height, width)
        (h, w), (new_h, new_w) = place.model_size, (round(height * place.scale_y), round(width * place.scale_x))
        if (new_h, new_w) != (height, width):
            flag = {"linear": cv2.INTER_LINEAR, "area": cv2.INTER_AREA, "cubic": cv2.INTER_CUBIC}
            pixels = cv2.resize(pixels, (new_w, new_h), interpolation=flag.get(self.interpolation, cv2.INTER_NEAREST))
        if self.color == "GRAY":
            pixels = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)[:, :, None]
        elif self.color == "BGR":
            pixels = pixels[:, :, ::-1]
        top, left = int(place.offset_y), int(place.offset_x)
        if self.resize == "crop":
            return np.ascontiguousarray(pixels[-top : h - top, -left : w - left])
        if (new_h, new_w) == (h, w):
            return pixels
        canvas = np.empty((h, w, pixels.shape[2]), np.uint8)
        canvas[:] = np.clip(np.rint(self.fill), 0, 255).astype(np.uint8)
        canvas[top : top + new_h, left : left + new_w] = pixels
        return canvas


@lru_cache(maxsize=8)
def _tables(
    scale: float, mean: tuple[float, ...] | None, std: tuple[float, ...] | None, channels: int, dtype: str
) -> NDArray[Any]:
    """(c, 256): the prepared value of each pixel value, computed in float64 and rounded once."""
    means, stds = np.asarray(mean or (0.0,), np.float64), np.asarray(std or (1.0,), np.float64)
    for key, values in (("mean", means), ("std", stds)):
        if values.size not in (1, channels):
            raise UsageError(
                f"{key} has {plural(values.size, 'value')}, the input {plural(channels, 'channel')}", code="bad-option"
            )
    values = (np.arange(256)[None] * scale - means.reshape(-1, 1)) / stds.reshape(-1, 1)
    values = np.broadcast_to(values, (channels, 256))
    if dtype == "uint8":
        return np.clip(np.rint(values), 0, 255).astype(np.uint8)
    return values.astype(np.float16 if dtype == "float16" else np.float32)


def _image_dims(
    spec: InputSpec, layout: ImageLayout | None
) -> tuple[tuple[int | None, int | None, int | None], ImageLayout]:
    """The three image dimensions of an input and their layout; the axis of 1 or 3 is the channels."""
    shape = spec.shape
    if len(shape) not in (3, 4) or (len(shape) == 4 and shape[0] not in (None, 1)):
        raise UsageError(
            f"images are [1, c, h, w], the input {show_shape(shape)}",
            where=str(spec),
            hint="give arrays (.npz or .npy) instead of images",
            code="not-an-image-input",
        )
    first, second, last = shape[-3:]
    if layout is None:
        layout = "NHWC" if last in (1, 3) and first not in (1, 3) else "NCHW"
    return (first, second, last), layout


def _check_numbers(key: str, value: tuple[float, ...] | float | None) -> None:
    values = () if value is None else value if isinstance(value, tuple) else (value,)
    if value is not None and (len(values) not in (1, 3) or not np.all(np.isfinite(values))):
        raise UsageError(f"{key} {value}: want one finite number, or one for each channel", code="bad-option")
    if key in ("std", "scale") and any(v == 0 for v in values):
        raise UsageError(f"{key} must not be 0", code="bad-option")


def _from_plain(key: str, value: Any) -> Any:
    """A JSON or YAML value as the field's type."""
    if value is None or key not in ("size", "fill", "mean", "std"):
        return float(value) if value is not None and key in ("scale", "crop") else value
    values = value if isinstance(value, list | tuple) else (value, value) if key == "size" else (value,)
    return tuple(int(v) if key == "size" else float(v) for v in values)
