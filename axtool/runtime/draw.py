"""A picture and a result of a task  ->  the picture with what was found on it, as pixels or as bytes of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.masks import from_run_lengths

SMALL = 480  # pixels of the longer side: pictures below are enlarged
SHOWN = 5  # labels of pixels that are named beside the picture, the most frequent ones


def draw(
    picture: Path, result: Mapping[str, Any], suffix: str = ".png", labels: NDArray[np.int64] | None = None
) -> bytes:
    """The picture as bytes of a .png, .jpg or .webp, with what `axtool.runtime.task.interpret` found: boxes and labels,
    keypoints joined in their order, masks; or the best class in the corner; or, given the `labels` (h, w) of all its
    pixels, -1 for none, their colours and the most frequent ones in the corner.
    """
    import cv2

    from axtool.inputs.images import read_image

    image = drawn(read_image(picture)[:, :, ::-1], result, labels)
    return bytes(cv2.imencode(suffix, image)[1].tobytes())


def drawn(
    pixels: NDArray[np.uint8], result: Mapping[str, Any], labels: NDArray[np.int64] | None = None
) -> NDArray[np.uint8]:
    """BGR pixels (h, w, 3) -> new ones with what was found, as `draw`; a small picture comes out larger, by a whole
    factor that depends on its size alone.
    """
    import cv2

    longer = max(pixels.shape[:2])
    factor = -(-SMALL // longer) if longer < SMALL else 1  # labels need pixels to be read
    image = np.array(pixels, order="C")
    if factor > 1:
        image = np.asarray(cv2.resize(image, None, fx=factor, fy=factor, interpolation=cv2.INTER_NEAREST), np.uint8)
    thick = max(1, min(image.shape[:2]) // 320)
    for row in result.get("detections", ()):
        if "mask" in row:
            _tint(image, row["mask"], _COLOURS[row["index"] % len(_COLOURS)])
    for row in result.get("detections", ()):
        colour = _COLOURS[row["index"] % len(_COLOURS)]
        x1, y1, x2, y2 = (round(v * factor) for v in row["box"])
        if "corners" in row:  # a turned box
            corners = np.rint(np.array(row["corners"]) * factor).astype(np.int32)
            cv2.polylines(image, [corners], True, colour, thick, cv2.LINE_AA)
        else:
            cv2.rectangle(image, (x1, y1), (x2, y2), colour, thick)
        _keypoints(image, np.array(row.get("keypoints", ())) * factor, colour, thick)
        _write(image, f"{row['label']} {row['score']:.2f}", (x1, y1), colour, thick)
    if result["kind"] == "semantic":
        _labels(image, result["classes"], labels, thick)
    if result["kind"] == "classification":
        for row in result["classes"][:1]:
            _write(image, f"{row['label']} {row['score']:.2f}", (0, 0), _COLOURS[0], thick)
    return image


_COLOURS = (
    (0, 158, 230), (178, 114, 0), (115, 158, 0), (66, 228, 240), (167, 121, 204), (233, 180, 86), (0, 94, 213),
)  # fmt: skip


def _labels(
    image: NDArray[np.uint8], classes: Sequence[Mapping[str, Any]], labels: NDArray[np.int64] | None, thick: int
) -> None:
    """Half the colour of its class on every pixel, and the first classes with their shares from the top down."""
    import cv2

    if labels is not None:
        enlarged = cv2.resize(labels.astype(np.int16), image.shape[1::-1], interpolation=cv2.INTER_NEAREST)
        colours = np.array(_COLOURS, np.uint8)[enlarged % len(_COLOURS)]
        image[...] = np.where(enlarged[..., None] < 0, image, image // 2 + colours // 2)
    for at, row in enumerate(classes[:SHOWN]):
        colour = _COLOURS[row["index"] % len(_COLOURS)]
        _write(image, f"{row['label']} {100 * row['share']:.1f} %", (0, 18 * thick * (at + 1)), colour, thick)


def _tint(image: NDArray[np.uint8], mask: Mapping[str, Any], colour: tuple[int, int, int]) -> None:
    """Half the colour where the mask is."""
    import cv2

    inside = from_run_lengths(mask["counts"], (mask["size"][0], mask["size"][1])).astype(np.uint8)
    inside = cv2.resize(inside, image.shape[1::-1], interpolation=cv2.INTER_NEAREST)
    image[inside > 0] = image[inside > 0] // 2 + np.array(colour, np.uint8) // 2


def _keypoints(image: NDArray[np.uint8], points: NDArray[Any], colour: tuple[int, int, int], thick: int) -> None:
    """Dots of (k, 2 or 3) x, y, each joined to the next by a line."""
    import cv2

    dots = [(round(float(x)), round(float(y))) for x, y in points[:, :2]] if len(points) else []
    for a, b in pairwise(dots):
        cv2.line(image, a, b, colour, thick, cv2.LINE_AA)
    for dot in dots:
        cv2.circle(image, dot, 3 * thick, (255, 255, 255), -1, cv2.LINE_AA)
        cv2.circle(image, dot, 2 * thick, colour, -1, cv2.LINE_AA)


def _write(image: NDArray[np.uint8], text: str, at: tuple[int, int], colour: tuple[int, int, int], thick: int) -> None:
    """Text on a filled box above `at`, or below where there is no room."""
    import cv2

    font, scale = cv2.FONT_HERSHEY_SIMPLEX, 0.5 * thick
    (width, height), base = cv2.getTextSize(text, font, scale, thick)
    x, y = max(0, min(at[0], image.shape[1] - width)), at[1]
    top = y - height - base if y >= height + base else y
    cv2.rectangle(image, (x, top), (x + width, top + height + base), colour, -1)
    cv2.putText(image, text, (x, top + height), font, scale, (0, 0, 0), thick, cv2.LINE_AA)
