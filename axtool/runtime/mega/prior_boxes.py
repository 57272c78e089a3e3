"""Anchor boxes of single-shot detectors, level by level, from the rules of their published configurations.

A level's boxes are separable: lines of the grid, and the sizes of the anchors of one cell. Everything is a fraction of
the input; sizes are (height, width). Rules: `MultiscaleGridAnchorGenerator` and `MultipleGridAnchorGenerator`
(`ssd_anchor_generator`) of the TensorFlow Object Detection API, and the prior boxes of the light face detectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from axtool.runtime.mega.byte_functions import Float


@dataclass(frozen=True, eq=False)
class Priors:
    """Where the centres of a level lie, and the sizes of the anchors of each cell."""

    rows: Float  # (h,)
    cols: Float  # (w,)
    sizes: Float  # (anchors, 2): height, width


def multiscale_grid(
    grids: Sequence[tuple[int, int]],
    size: tuple[int, int],
    *,
    min_level: int,
    anchor_scale: float,
    aspect_ratios: Sequence[float],
    scales_per_octave: int,
) -> list[Priors]:
    """Anchors of 2^level * anchor_scale pixels, for `size` = (height, width) of the input in pixels.

    Centres lie half a stride in where the input divides into strides, else on the lines themselves, as the rule says.
    """
    found = []
    for level, (rows, cols) in enumerate(grids, start=min_level):
        stride = 2**level
        base = [2 ** (octave / scales_per_octave) * stride * anchor_scale for octave in range(scales_per_octave)]
        sizes = [(side / ratio**0.5, side * ratio**0.5) for ratio in aspect_ratios for side in base]
        y, x = (
            (np.arange(count) * stride + (stride / 2 if pixels % stride == 0 else 0)) / pixels
            for count, pixels in zip((rows, cols), size, strict=True)
        )
        found.append(Priors(_f32(y), _f32(x), _f32(np.array(sizes) / size)))
    return found


def multiple_grid(
    grids: Sequence[tuple[int, int]],
    *,
    min_scale: float,
    max_scale: float,
    aspect_ratios: Sequence[float],
    interpolated_scale_aspect_ratio: float,
    reduce_boxes_in_lowest_layer: bool,
    interpolated_second: bool,
) -> list[Priors]:
    """Anchors whose scale grows from the first level to the last, a fraction of the input's side."""
    last = max(len(grids) - 1, 1)
    scales = [min_scale + (max_scale - min_scale) * i / last for i in range(len(grids))] + [1.0]
    found = []
    for level, (rows, cols) in enumerate(grids):
        if level == 0 and reduce_boxes_in_lowest_layer:
            spec = [(0.1, 1.0), (scales[0], 2.0), (scales[0], 0.5)]
        else:
            spec = [(scales[level], ratio) for ratio in aspect_ratios]
            if interpolated_scale_aspect_ratio > 0:
                between = (scales[level] * scales[level + 1]) ** 0.5, interpolated_scale_aspect_ratio
                spec.insert(1 if interpolated_second else len(spec), between)
        sizes = [(scale / ratio**0.5, scale * ratio**0.5) for scale, ratio in spec]
        found.append(Priors(_f32((np.arange(rows) + 0.5) / rows), _f32((np.arange(cols) + 0.5) / cols), _f32(sizes)))
    return found


def square_priors(
    grids: Sequence[tuple[int, int]],
    size: tuple[int, int],
    *,
    min_sizes: Sequence[Sequence[float]],
) -> list[Priors]:
    """Square anchors of `min_sizes` pixels for an input of `size` = (height, width), all cut off at its border."""
    found = []
    for (rows, cols), sides in zip(grids, min_sizes, strict=True):
        y, x = ((np.arange(count) + 0.5) / count for count in (rows, cols))
        found.append(Priors(*(_f32(np.clip(v, 0, 1)) for v in (y, x, [(s / size[0], s / size[1]) for s in sides]))))
    return found


def _f32(values: object) -> Float:
    return np.asarray(values, np.float64).astype(np.float32)
