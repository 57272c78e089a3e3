"""Pictures made from pictures: enough different ones to calibrate with where a package ships only a few.

The same seed gives the same bytes. `crops` cuts, mirrors and brightens; `text-lines` and `text-pages` write words on
plain and on photographic ground.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]  # (h, w, 3), RGB
VERSION = 1  # of the pictures: a change of any pixel is a new version
WORDS = tuple(
    word
    for line in (
        "invoice total amount date order number customer street city paid due tax item price unit report page",
        "table figure open close north south river stone light winter garden market window paper train signal",
        "north-east No. 42 1,250.00 2024-03-17 A4 50% (ref) #7731 www.example.org Tel: 555-0182",
    )
    for word in line.split()
)


def make(
    generator: str, count: int, seed: int, size: tuple[int, int], base: Sequence[Image], *, turn: bool = False
) -> list[Image]:
    """`count` pictures of `size` (height, width). `crops` needs base pictures; `turn` adds random quarter turns."""
    rng = np.random.default_rng(seed)
    pictures = [GENERATORS[generator](rng, size, base) for _ in range(count)]
    if turn:
        pictures = [np.ascontiguousarray(np.rot90(picture, int(rng.integers(4)))) for picture in pictures]
    return pictures


def crop(rng: np.random.Generator, size: tuple[int, int], base: Sequence[Image]) -> Image:
    """A random part of a random picture at the wanted size, mirrored half of the time, 60 to 140 % as bright."""
    import cv2

    picture = base[int(rng.integers(len(base)))]
    height, width = picture.shape[:2]
    part = rng.uniform(0.5, 1.0)
    ratio = size[1] / size[0]
    h = int(min(height, width / ratio) * part)
    w = min(width, max(8, int(h * ratio)))
    y, x = int(rng.integers(height - h + 1)), int(rng.integers(width - w + 1))
    cut = cv2.resize(picture[y : y + h, x : x + w], (size[1], size[0]), interpolation=cv2.INTER_AREA)
    cut = cut[:, ::-1] if rng.random() < 0.5 else cut
    return _bytes(cut.astype(np.float32) * rng.uniform(0.6, 1.4))


def text_line(rng: np.random.Generator, size: tuple[int, int], base: Sequence[Image]) -> Image:
    """One line of words that fills the picture; upside down half of the time."""
    image = _ground(rng, size, base)
    _write(rng, image, (4, size[0] // 2), size[0] * 0.55, size[1] - 8)
    return np.ascontiguousarray(image[::-1, ::-1]) if rng.random() < 0.5 else image


def text_page(rng: np.random.Generator, size: tuple[int, int], base: Sequence[Image]) -> Image:
    """Paragraphs of one to three columns with a heading."""
    image = _ground(rng, size, base)
    height, width = size
    letter, columns = rng.uniform(0.02, 0.06) * height, int(rng.integers(1, 4))
    y = int(letter * 2)
    _write(rng, image, (width // 20, y), letter * 1.8, width * 0.8)
    while y < height - letter * 3:
        y += int(letter * rng.choice([1.6, 1.6, 1.6, 3.0]))
        for column in range(columns):
            if rng.random() < 0.9:
                left = width // 20 + column * width // columns
                _write(rng, image, (left, y + int(letter)), letter, width / columns * rng.uniform(0.5, 0.85))
    return image


GENERATORS: Mapping[str, Callable[[np.random.Generator, tuple[int, int], Sequence[Image]], Image]] = {
    "crops": crop,
    "text-lines": text_line,
    "text-pages": text_page,
}


def _bytes(values: NDArray[Any]) -> Image:
    return np.asarray(np.clip(values, 0, 255).astype(np.uint8))


def _ground(rng: np.random.Generator, size: tuple[int, int], base: Sequence[Image]) -> Image:
    if base and rng.random() < 0.4:
        faded = crop(rng, size, base).astype(np.float32) * 0.35 + rng.uniform(120, 165)
        return _bytes(faded)
    paper = np.full((*size, 3), rng.uniform(200, 255, 3), np.float32)
    return _bytes(paper + rng.normal(0, rng.uniform(0, 6), (*size, 1)))


def _write(rng: np.random.Generator, image: Image, at: tuple[int, int], letter: float, room: float) -> None:
    """Words from `at` (x, baseline) on until `room` pixels are used; capitals are `letter` pixels high."""
    import cv2

    font = int(rng.choice([cv2.FONT_HERSHEY_SIMPLEX, cv2.FONT_HERSHEY_DUPLEX, cv2.FONT_HERSHEY_COMPLEX]))
    scale, thick = letter / 22, max(1, round(letter / 14))
    ink = tuple(int(v) for v in rng.uniform(0, 90, 3))
    x = at[0]
    while True:
        word = str(rng.choice(WORDS))
        (width, _), _ = cv2.getTextSize(word, font, scale, thick)
        if x + width > at[0] + room:
            return
        cv2.putText(image, word, (x, at[1] + int(letter / 3)), font, scale, ink, thick, cv2.LINE_AA)
        x += width + int(letter * 0.6)
