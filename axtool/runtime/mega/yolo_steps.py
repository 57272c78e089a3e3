"""The steps of a split-head YOLO: its levels, one after another, into the output of the source model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.mega import byte_functions as bf
from axtool.runtime.mega.byte_steps import Boxes, Map, Placed
from axtool.runtime.mega.levels import Level
from axtool.runtime.mega.yolo_heads import Heads
from axtool.runtime.tensor_info import TensorInfo


@dataclass(frozen=True)
class Layout:
    """How the source model arranges its output: `form` and `keypoint_dims` of the kernel, `bins` of a distance."""

    form: str
    num_classes: int
    extra_channels: int
    bins: int
    keypoint_dims: int

    @property
    def channels(self) -> int:
        """Of an anchor: box, what comes between, scores, extra."""
        return self.first_class + self.num_classes + self.extra_channels

    @property
    def first_class(self) -> int:
        return 4 if self.form == "yolov8" else 5

    def shape(self, points: int) -> tuple[int, int, int]:
        """Of the output."""
        return (1, self.channels, points) if self.form == "yolov8" else (1, points, self.channels)

    def at(self, channel: int, start: int, points: int) -> Placed:
        """Where a channel of the anchors from `start` on lies, of `points` anchors."""
        if self.form == "yolov8":
            return Placed(0, channel * points + start, 1, points)
        return Placed(0, start * self.channels + channel, self.channels, 1)


def yolo_steps(infos: Sequence[TensorInfo], heads: Heads, layout: Layout) -> list[Map | Boxes]:
    """All levels, and the prototypes as the second target."""
    made: list[Map | Boxes] = []
    start = 0
    for level in heads.levels:
        made += _Level(infos, level, layout, start, heads.points).steps(heads.extra)
        start += level.boxes
    if heads.proto is not None:
        info = infos[heads.proto]
        _, h, w, c = info.unpadded_shape
        made.append(Map(heads.proto, 0, c, Placed(1, 0, 1, h * w), bf.linear(info)))
    return made


@dataclass(frozen=True)
class _Level:
    """One level, whose first anchor is `start` of `points`."""

    infos: Sequence[TensorInfo]
    level: Level
    layout: Layout
    start: int
    points: int

    def steps(self, extra: str | None) -> list[Map | Boxes]:
        layout = self.layout
        made: list[Map | Boxes] = []
        if layout.form.startswith("yolox"):
            made.append(self._map("box", 0, self._pixels() if layout.form == "yolox" else None, self._grid(0.0)))
            made.append(self._map("objectness", 4, bf.logistic(self._info("objectness"))))
        else:
            made.append(self._boxes())
        if layout.form == "yolov6":
            ones = bf.constant(1)
            made.append(Map(self.level.index["class"], 0, 1, layout.at(4, self.start, self.points), ones))
        made.append(self._map("class", layout.first_class, bf.logistic(self._info("class"))))
        first_extra = layout.first_class + layout.num_classes
        if extra == "mask":
            made.append(self._map("mask", first_extra))
        elif extra == "keypoint":
            made.append(self._map("keypoint", first_extra, self._keypoints(), self._grid(0.0)))
        elif extra == "angle":
            made.append(self._map("angle", first_extra, bf.table(self._info("angle"), _angle)))
        return made

    def _info(self, role: str) -> TensorInfo:
        return self.infos[self.level.index[role]]

    def _grid(self, offset: float) -> bf.Float:
        return bf.grid_points(self.level.rows, self.level.cols, offset)

    def _map(
        self, role: str, channel: int, functions: bf.ByteFunctions | None = None, grid: bf.Float | None = None
    ) -> Map:
        """All channels of a role from `channel` of the output on; as they are where no function is given."""
        info = self._info(role)
        made = bf.linear(info) if functions is None else functions
        to = self.layout.at(channel, self.start, self.points)
        return Map(self.level.index[role], 0, info.unpadded_shape[3], to, made, grid if made.wants_grid else None)

    def _boxes(self) -> Boxes:
        info, bins = self._info("box"), self.layout.bins
        distances, shifted = (bf.linear(info), False) if bins == 1 else bf.exponential_of_bins(info)
        angle, turn = self.level.index.get("angle"), None
        if angle is not None:
            cos = bf.table(self.infos[angle], lambda x: np.cos(_angle(x)))
            turn = bf.together(cos, bf.table(self.infos[angle], lambda x: np.sin(_angle(x))))
        to = self.layout.at(0, self.start, self.points)
        source, grid = self.level.index["box"], self._grid(0.5)
        return Boxes(source, bins, to, distances, grid, self.level.stride, shifted, angle, turn)

    def _pixels(self) -> bf.ByteFunctions:
        """Centre and size in pixels, of a box that is encoded relative to its grid point."""
        info, stride = self._info("box"), self.level.stride
        size = bf.table(info, lambda x: np.exp(x.astype(np.float32)) * np.float32(stride))
        return bf.together(bf.on_grid(info, stride), size, size)

    def _keypoints(self) -> bf.ByteFunctions:
        info = self._info("keypoint")
        made = bf.on_grid(info, self.level.stride, 2.0)
        return bf.together(made, bf.logistic(info)) if self.layout.keypoint_dims == 3 else made


def _angle(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Radians in [-pi/4, 3 pi/4), as the Ultralytics OBB head writes them."""
    return (1 / (1 + np.exp(-x)) - 0.25) * np.pi
