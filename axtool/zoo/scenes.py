"""Pictures made from pictures: enough different ones to calibrate with where a package ships only a few.

The same seed gives the same bytes. `crops` cuts, mirrors and brightens; `montages` puts several such cuts side by side,
each of nearly a whole picture, so that small objects are many and uncut; `text-lines` and `text-pages` write words on
plain and on photographic ground, `characters` scatters single ones over a photograph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]  # (h, w, 3), RGB
VERSION = 2  # of the pictures: a change of any pixel is a new version
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
    """`count` pictures of `size` (height, width); `turn` adds random quarter turns.

    `crops` and `montages` need base pictures.
    """
    rng = np.random.default_rng(seed)
    pictures = [GENERATORS[generator](rng, size, base) for _ in range(count)]
    if turn:
        pictures = [np.ascontiguousarray(np.rot90(picture, int(rng.integers(4)))) for picture in pictures]
    return pictures


def crop(rng: np.random.Generator, size: tuple[int, int], base: Sequence[Image], least: float = 0.5) -> Image:
    """A random part of a random picture at the wanted size, mirrored half of the time, 60 to 140 % as bright.

    At least the share `least` of the largest part of that shape is in it.
    """
    import cv2

    picture = base[int(rng.integers(len(base)))]
    height, width = picture.shape[:2]
    part = rng.uniform(least, 1.0)
    ratio = size[1] / size[0]
    h = int(min(height, width / ratio) * part)
    w = min(width, max(8, int(h * ratio)))
    y, x = int(rng.integers(height - h + 1)), int(rng.integers(width - w + 1))
    cut = cv2.resize(picture[y : y + h, x : x + w], (size[1], size[0]), interpolation=cv2.INTER_AREA)
    cut = cut[:, ::-1] if rng.random() < 0.5 else cut
    return _bytes(cut.astype(np.float32) * rng.uniform(0.6, 1.4))


def montage(rng: np.random.Generator, size: tuple[int, int], base: Sequence[Image]) -> Image:
    """A grid of one to three rows of nearly square cells, each nearly a whole picture."""
    rows = int(rng.integers(1, 4))
    columns = max(1, round(rows * size[1] / size[0]))
    y, x = np.linspace(0, size[0], rows + 1).astype(int), np.linspace(0, size[1], columns + 1).astype(int)
    heights, widths = np.diff(y).tolist(), np.diff(x).tolist()
    return np.vstack([np.hstack([crop(rng, (h, w), base, 0.85) for w in widths]) for h in heights])


def characters(rng: np.random.Generator, size: tuple[int, int], base: Sequence[Image]) -> Image:
    """Three to seven characters of many sizes, colours and slants, apart from each other, over a photograph."""
    image = crop(rng, size, base) if base else _ground(rng, size, base)
    taken: list[tuple[float, float, float]] = []
    for _ in range(int(rng.integers(3, 8))):
        letter = rng.uniform(0.14, 0.3) * size[0]
        y, x = (float(rng.uniform(letter * 0.7, extent - letter * 0.7)) for extent in size)
        if all(np.hypot(x - a, y - b) > 0.75 * (letter + c) for a, b, c in taken):
            taken.append((x, y, letter))
            _character(rng, image, (x, y), letter)
    return image


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
    "montages": montage,
    "characters": characters,
    "text-lines": text_line,
    "text-pages": text_page,
}


def _bytes(values: NDArray[Any]) -> Image:
    return np.asarray(np.clip(values, 0, 255).astype(np.uint8))


def _character(rng: np.random.Generator, image: Image, at: tuple[float, float], letter: float) -> None:
    """One character around `at` (x, y), `letter` pixels high, in one of many inks with an edge of another."""
    import cv2

    symbol = str(rng.choice(list("ABCDEFGHJKLMNPQRSTUVWXYZabdefghkmnqrty23456789")))
    canvas, scale, thick = int(letter * 2.2), letter / 22, max(2, round(letter / 8))
    layers = []
    for stroke in (thick + 4, thick):  # the edge, then the ink on it
        layer = np.zeros((canvas, canvas), np.uint8)
        (width, height), _ = cv2.getTextSize(symbol, cv2.FONT_HERSHEY_DUPLEX, scale, thick)
        corner = ((canvas - width) // 2, (canvas + height) // 2)
        cv2.putText(layer, symbol, corner, cv2.FONT_HERSHEY_DUPLEX, scale, 255, stroke, cv2.LINE_AA)
        layers.append(layer)
    turn = cv2.getRotationMatrix2D((canvas / 2, canvas / 2), float(rng.uniform(-40, 40)), 1.0)
    edge, ink = (cv2.warpAffine(layer, turn, (canvas, canvas)).astype(np.float32)[..., None] / 255 for layer in layers)
    top, left = int(at[1] - canvas / 2), int(at[0] - canvas / 2)
    y0, x0, y1, x1 = max(0, top), max(0, left), min(image.shape[0], top + canvas), min(image.shape[1], left + canvas)
    part = image[y0:y1, x0:x1].astype(np.float32)
    inside = (slice(y0 - top, y1 - top), slice(x0 - left, x1 - left))
    part += edge[inside] * (rng.choice([0.0, 255.0]) - part)
    part += ink[inside] * (rng.uniform(0, 255, 3).astype(np.float32) - part)
    image[y0:y1, x0:x1] = _bytes(part)


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
            if x > at[0] or len(word) < 4:
                return
            continue
        cv2.putText(image, word, (x, at[1] + int(letter / 3)), font, scale, ink, thick, cv2.LINE_AA)
        x += width + int(letter * 0.6)
