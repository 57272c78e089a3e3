"""`UltralyticsYoloPostamble`: split-head YOLO outputs restored from the device's buffers in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.mega import byte_functions as bf
from axtool.runtime.mega.checks import check_backend, check_infos, check_tensors
from axtool.runtime.mega.params import check_choice, check_count, check_flag, check_roles, check_size
from axtool.runtime.mega.pool import Pool
from axtool.runtime.mega.yolo_heads import Level, find_heads
from axtool.runtime.op.operator import Operator, Unpacked
from axtool.runtime.tensor_info import TensorInfo
from axtool.runtime.tolerance import Tolerance

FORMS = ("auto", "yolov8", "yolov6", "yolox", "yolox-raw")


@dataclass(frozen=True)
class _Prepared:
    """What one level needs each frame; `start` is its first anchor."""

    level: Level
    start: int
    boxes: bf.ByteFunctions
    shifted: bool
    grid: bf.Float
    scores: bf.ByteFunctions
    objectness: bf.ByteFunctions | None
    extra: bf.ByteFunctions | None
    cos: bf.ByteFunctions | None
    sin: bf.ByteFunctions | None


class UltralyticsYoloPostamble(Operator):
    """The tail of a YOLO with a split head: per level a box tensor and a class tensor, and where there are any
    objectness, keypoints, mask coefficients with prototypes, or an angle.

    Covers YOLOv8, YOLOv9/GELAN and YOLO11 (detection, pose, segmentation, oriented boxes), YOLOv6 (`dfl_bins=17`, or
    `dfl_bins=1, form='yolov6'` where the distances are not distributions) and YOLOX (`has_objectness=True`).

    num_classes: classes of the model. dfl_bins: bins of each distance; the box tensor has 4 * dfl_bins channels.
    tensor_roles: what each output is, in output order, where channel counts do not tell ('box', 'class', 'keypoint',
    'mask', 'proto', 'angle', 'objectness'). has_objectness: the heads of YOLOX, whose box tensor has 4 channels.
    form: how the source model arranges its output, which the device's buffers do not show:
    'yolov8' (1, 4 + num_classes + extra, N), 'yolov6' (1, N, 5 + num_classes) with a column of ones, 'yolox'
    (1, N, 5 + num_classes), 'yolox-raw' the same with boxes left relative to the grid; 'auto' takes 'yolox' with
    objectness, 'yolov6' for 17 bins, else 'yolov8'. keypoint_dims: 3 with a visibility, else 2.

    Emits float32: the output above, and for masks the prototypes (1, coefficients, h, w) as a second value. Against the
    onnxruntime tail scores, coefficients and prototypes agree to rtol 1e-5 and atol 1e-6; a box is a difference of
    expected bins, each of which rounds at its own size, so boxes agree to 1e-5 of their stride times the bins.
    """

    postamble_slot = "fused_kernel"

    num_classes: int
    dfl_bins: int
    tensor_roles: tuple[str, ...] | None
    has_objectness: bool
    form: str
    keypoint_dims: int
    backend: str
    model_width: int
    model_height: int

    def __init__(
        self,
        output_infos: Sequence[TensorInfo],
        model_width: int,
        model_height: int,
        *,
        num_classes: int,
        dfl_bins: int = 16,
        tensor_roles: Sequence[str] | None = None,
        has_objectness: bool = False,
        form: str = "auto",
        keypoint_dims: int = 3,
        backend: str = "auto",
        name: str = "",
    ) -> None:
        check_infos(output_infos)
        self.num_classes, self.dfl_bins = (
            check_count("num_classes", num_classes),
            check_count("dfl_bins", dfl_bins, most=64),
        )
        self.has_objectness = check_flag("has_objectness", has_objectness)
        self.form, self.tensor_roles = _form(form, has_objectness, dfl_bins), check_roles(tensor_roles)
        self.keypoint_dims, self.backend = check_count("keypoint_dims", keypoint_dims, 2, 3), check_backend(backend)
        check_size(model_width, model_height)
        self.model_width, self.model_height = model_width, model_height
        self._bins = 1 if has_objectness else dfl_bins
        self._infos = tuple(output_infos)
        self._heads = find_heads(
            output_infos, model_width, model_height, box_channels=4 * self._bins, num_classes=num_classes,
            has_objectness=has_objectness, tensor_roles=tensor_roles,
        )  # fmt: skip
        self._extra_channels = self._check_extra()
        starts = np.cumsum([0, *(level.points for level in self._heads.levels)])
        self._levels = [
            self._prepared(level, int(start)) for level, start in zip(self._heads.levels, starts, strict=False)
        ]
        self._pool = Pool(self.output_shapes[0])
        self._distances = [np.empty((4, level.points), np.float32) for level in self._heads.levels]
        self._proto_pool = Pool(self.output_shapes[1]) if self._heads.proto is not None else None
        super().__init__(name=name)

    @property
    def output_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of what is emitted."""
        first = 4 if self.form == "yolov8" else 5
        channels, points = first + self.num_classes + self._extra_channels, self._heads.points
        main = (1, channels, points) if self.form == "yolov8" else (1, points, channels)
        if self._heads.proto is None:
            return (main,)
        _, h, w, c = self._infos[self._heads.proto].unpadded_shape
        return main, (1, c, h, w)

    @property
    def tolerances(self) -> tuple[Tolerance, ...]:
        """Boxes: 1e-5 of their stride times the bins."""
        channels_last = self.form != "yolov8"
        shape = self.output_shapes[0]
        atol = np.full((shape[1], shape[2]) if channels_last else (shape[2], shape[1]), Tolerance.atol)
        start = 0
        for level in self._heads.levels:
            atol[start : start + level.points, :4] = 1e-5 * level.stride * self._bins
            start += level.points
        first = Tolerance(atol=(atol if channels_last else atol.T)[None])
        return (first,) if self._heads.proto is None else (first, Tolerance())

    def __call__(self, *tensors: NDArray[np.int8]) -> Any:
        buffers = check_tensors(tensors, self._infos)
        out = self._pool.take()
        rows = out[0].T if self.form == "yolov8" else out[0]  # (anchors, channels)
        for ready, distances in zip(self._levels, self._distances, strict=True):
            self._restore(ready, buffers, rows[ready.start : ready.start + ready.level.points], distances)
        if self._heads.proto is None or self._proto_pool is None:
            return out
        proto = self._proto_pool.take()
        info = self._infos[self._heads.proto]
        inside = buffers[self._heads.proto][info.inside][0]
        bf.map_s8_f32(inside, self._proto, proto.reshape(proto.shape[1], -1).T, backend=self.backend)
        return Unpacked((out, proto))

    def _restore(
        self, ready: _Prepared, tensors: Sequence[NDArray[np.int8]], rows: bf.Float, distances: bf.Float
    ) -> None:
        """One level into its rows (anchors, channels) of the output."""

        def inside(role: str) -> NDArray[np.int8]:
            index = ready.level.outputs[role]
            buffer: NDArray[np.int8] = tensors[index][self._infos[index].inside][0]
            return buffer

        backend, boxes, first = self.backend, inside("box"), 4
        if self.has_objectness:
            bf.map_s8_f32(boxes, ready.boxes, rows[:, :4], grid=ready.grid, backend=backend)
            assert ready.objectness is not None
            bf.map_s8_f32(inside("objectness"), ready.objectness, rows[:, 4:5], backend=backend)
            first = 5
        else:
            if self._bins == 1:
                bf.map_s8_f32(boxes, ready.boxes, distances.T, backend=backend)
            else:
                bf.bins_s8_f32(boxes, self._bins, ready.boxes, ready.shifted, distances, backend=backend)
            cos, sin = self._turns(ready, inside) if ready.cos is not None else (None, None)
            bf.boxes_f32(distances, ready.grid, ready.level.stride, rows[:, :4], cos=cos, sin=sin, backend=backend)
            if self.form == "yolov6":
                rows[:, 4] = 1
                first = 5
        last = first + self.num_classes
        bf.map_s8_f32(inside("class"), ready.scores, rows[:, first:last], backend=backend)
        if ready.extra is not None and self._heads.extra is not None:
            grid = ready.grid - np.float32(0.5) if self._heads.extra == "keypoint" else None
            bf.map_s8_f32(inside(self._heads.extra), ready.extra, rows[:, last:], grid=grid, backend=backend)

    def _turns(self, ready: _Prepared, inside: Any) -> tuple[bf.Float, bf.Float]:
        """Cosine and sine of the angle of every anchor of a level."""
        assert ready.cos is not None
        assert ready.sin is not None
        turns = []
        for function in (ready.cos, ready.sin):
            values = np.empty((ready.level.points, 1), np.float32)
            bf.map_s8_f32(inside("angle"), function, values, backend=self.backend)
            turns.append(values[:, 0])
        return turns[0], turns[1]

    def _prepared(self, level: Level, start: int) -> _Prepared:
        info = {role: self._infos[index] for role, index in level.outputs.items()}
        shifted, cos, sin = False, None, None
        if self.form == "yolox":
            size = bf.table(info["box"], lambda x: np.exp(x.astype(np.float32)) * np.float32(level.stride))
            boxes = bf.together(bf.on_grid(info["box"], level.stride), size, size)
        elif self._bins == 1:
            boxes = bf.linear(info["box"])
        else:
            boxes, shifted = bf.exponential_of_bins(info["box"])
        extra = None
        if self._heads.extra == "mask":
            extra = bf.linear(info["mask"])
        elif self._heads.extra == "keypoint":
            extra = bf.on_grid(info["keypoint"], level.stride, 2.0)
            if self.keypoint_dims == 3:
                extra = bf.together(extra, bf.logistic(info["keypoint"]))
        elif self._heads.extra == "angle":
            extra = bf.table(info["angle"], _angle)
            cos = bf.table(info["angle"], lambda x: np.cos(_angle(x)))
            sin = bf.table(info["angle"], lambda x: np.sin(_angle(x)))
        offset = 0.0 if self.has_objectness else 0.5
        return _Prepared(
            level, start, boxes, shifted, bf.grid_points(level.height, level.width, offset), bf.logistic(info["class"]),
            bf.logistic(info["objectness"]) if self.has_objectness else None, extra, cos, sin,
        )  # fmt: skip

    def _check_extra(self) -> int:
        """Channels of keypoints, masks or angles. Raises ValueError where levels differ or the form has no room."""
        extra = self._heads.extra
        if extra is None:
            return 0
        if self.form != "yolov8":
            raise ValueError(f"the form '{self.form}' has no {extra}; leave out form, dfl_bins or has_objectness")
        counts = {self._infos[level.outputs[extra]].unpadded_shape[3] for level in self._heads.levels}
        if len(counts) > 1:
            raise ValueError(
                f"the {extra} outputs have {' and '.join(map(str, sorted(counts)))} channels, want one count"
            )
        channels = counts.pop()
        if extra == "keypoint" and channels % self.keypoint_dims:
            raise ValueError(f"{channels} keypoint channels are no multiple of keypoint_dims={self.keypoint_dims}")
        if self._heads.proto is not None:
            self._proto = bf.linear(self._infos[self._heads.proto])
            protos = self._infos[self._heads.proto].unpadded_shape[3]
            if protos != channels:
                raise ValueError(f"{channels} mask coefficients for {protos} prototypes: want one for each")
        return channels


def _form(form: str, has_objectness: bool, dfl_bins: int) -> str:
    check_choice("form", form, FORMS)
    if form == "auto":
        return "yolox" if has_objectness else "yolov6" if dfl_bins == 17 else "yolov8"
    if form.startswith("yolox") != has_objectness:
        raise ValueError(f"the form '{form}' wants has_objectness={not has_objectness}")
    return form


def _angle(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Radians in [-pi/4, 3 pi/4), as the Ultralytics OBB head writes them."""
    return (1 / (1 + np.exp(-x)) - 0.25) * np.pi
