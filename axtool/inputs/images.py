"""Files and folders  ->  images as RGB uint8 arrays; what is no image is found out before any work is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.config import refuse_special
from axtool.errors import UsageError

SUFFIXES = frozenset(
    f".{name}"
    for name in (
        *("jpg", "jpeg", "jpe", "jfif", "png", "bmp", "dib", "webp", "tif", "tiff", "gif", "avif"),
        *("jp2", "pgm", "ppm", "pbm", "pnm"),
    )
)
_JPEG, _PNG = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"


def is_image_name(path: Path) -> bool:
    """True for a file name with the suffix of an image."""
    return path.suffix.lower() in SUFFIXES


def find_files(folder: Path) -> list[Path]:
    """Every file below a folder, sorted by path; names that begin with a dot are left out. Raises UsageError for
    folders that are too deep to be read.
    """
    try:
        files = [(path.relative_to(folder).parts, path) for path in folder.rglob("*") if path.is_file()]
    except (OSError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or "folders are nested too deep"
        raise UsageError(f"cannot be read: {reason}", where=str(folder), code="cannot-read") from error
    return [path for parts, path in sorted(files) if not any(part.startswith(".") for part in parts)]


def read_image(path: Path) -> NDArray[np.uint8]:
    """RGB (h, w, 3) of an image file, turned upright as its EXIF orientation says. Raises UsageError."""
    import cv2

    data = _read(path)
    reason = _damage(data)
    pixels = None if reason else _decode(data, cv2.IMREAD_COLOR)
    if pixels is None:
        raise UsageError(reason or "cannot be decoded as an image", where=str(path), code="not-an-image")
    return np.ascontiguousarray(pixels[:, :, ::-1])


def probe(path: Path) -> str:
    """Why a file is no readable image, or ''. A reduced decode: JPEG at an eighth of its size."""
    import cv2

    try:
        data = _read(path)
    except UsageError as error:
        return error.what
    if reason := _damage(data):
        return reason
    # An image of a few pixels has no eighth.
    reduced = _decode(data, cv2.IMREAD_REDUCED_GRAYSCALE_8)
    good = reduced is not None or _decode(data, cv2.IMREAD_COLOR) is not None
    return "" if good else "cannot be decoded as an image"


def as_rgb(array: NDArray[Any]) -> NDArray[np.uint8]:
    """A uint8 array (h, w), (h, w, 1), (h, w, 3) or (h, w, 4) as RGB (h, w, 3). Raises UsageError for others."""
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)):
        raise UsageError(
            f"want a uint8 image (height, width, 3), got {array.dtype} {list(array.shape)}", code="not-an-image"
        )
    if 0 in array.shape:
        raise UsageError(f"an image of size {list(array.shape)} has no pixels", code="not-an-image")
    if array.ndim == 2:
        array = array[:, :, None]
    return np.repeat(array, 3, axis=2) if array.shape[2] == 1 else array[:, :, :3]


def _read(path: Path) -> bytes:
    refuse_special(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read: {error.strerror}", where=str(path), code="file-not-found") from error


def _damage(data: bytes) -> str:
    """What is wrong with the bytes that a decoder would forgive: it fills the lost part with grey."""
    if not data:
        return "the file is empty"
    tail = data[len(data) // 2 :]
    if data.startswith(_JPEG) and b"\xff\xd9" not in tail:
        return "the JPEG data are cut short"
    if data.startswith(_PNG) and b"IEND" not in tail:
        return "the PNG data are cut short"
    return ""


def _decode(data: bytes, flag: int) -> NDArray[np.uint8] | None:
    import cv2

    try:
        pixels: NDArray[np.uint8] | None = cv2.imdecode(np.frombuffer(_without_profile(data), np.uint8), flag)
    except cv2.error:
        return None
    return pixels


def _without_profile(data: bytes) -> bytes:
    """A PNG without its colour profile: OpenCV uses none, but libpng writes complaints about some to stderr."""
    at = len(_PNG)
    while data.startswith(_PNG) and at + 8 <= len(data):
        end = at + 12 + int.from_bytes(data[at : at + 4], "big")  # length, kind, content, checksum
        kind = data[at + 4 : at + 8]
        if kind == b"iCCP":
            return data[:at] + data[end:]
        if kind == b"IDAT":
            break
        at = end
    return data
