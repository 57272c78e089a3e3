"""`UltralyticsYoloPostamble`: split-head YOLO outputs restored from the device's buffers in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.mega.byte_steps import Steps
from axtool.runtime.mega.checks import check_infos
from axtool.runtime.mega.params import check_choice, check_count, check_flag, check_roles, check_size
from axtool.runtime.mega.yolo_heads import find_heads
from axtool.runtime.mega.yolo_steps import Layout, yolo_steps
from axtool.runtime.op.operator import Operator, Unpacked
from axtool.runtime.tensor_info import TensorInfo
from axtool.runtime.tolerance import Tolerance

FORMS = ("auto", "yolov8", "yolov6", "yolox", "yolox-raw")


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
    backend, threads: 'auto', 'scalar', 'avx2', 'avx512' or 'neon', and how many threads share the pixels of a frame;
    all give the same bits.

    Emits float32: the output above, and for masks the prototypes (1, coefficients, h, w) as a second value. Against the
    onnxruntime tail scores, coefficients and prototypes agree to rtol 1e-5 and atol 1e-6; a box is a difference of
    expected bins, each of which rounds at its own size, so boxes agree to 1e-6 of their stride times the bins.
    """

    postamble_slot = "fused_kernel"

    num_classes: int
    dfl_bins: int
    tensor_roles: tuple[str, ...] | None
    has_objectness: bool
    form: str
    keypoint_dims: int
    backend: str
    threads: int
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
        threads: int = 1,
        name: str = "",
    ) -> None:
        check_infos(output_infos)
        self.num_classes = check_count("num_classes", num_classes)
        self.dfl_bins = check_count("dfl_bins", dfl_bins, most=64)
        self.has_objectness = check_flag("has_objectness", has_objectness)
        self.form, self.tensor_roles = _form(form, has_objectness, dfl_bins), check_roles(tensor_roles)
        self.keypoint_dims = check_count("keypoint_dims", keypoint_dims, 2, 3)
        check_size(model_width, model_height)
        self.model_width, self.model_height = model_width, model_height
        self._bins = 1 if has_objectness else dfl_bins
        self._infos = tuple(output_infos)
        self._heads = find_heads(
            output_infos, model_width, model_height, box_channels=4 * self._bins, num_classes=num_classes,
            has_objectness=has_objectness, tensor_roles=tensor_roles,
        )  # fmt: skip
        self._layout = Layout(self.form, num_classes, self._check_extra(), self._bins, keypoint_dims)
        steps = yolo_steps(self._infos, self._heads, self._layout)
        self._steps = Steps(self._infos, steps, self.output_shapes, backend=backend, threads=threads)
        self.backend, self.threads = self._steps.backend, threads
        super().__init__(name=name)

    @property
    def output_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of what is emitted."""
        main = self._layout.shape(self._heads.points)
        if self._heads.proto is None:
            return (main,)
        _, h, w, c = self._infos[self._heads.proto].unpadded_shape
        return main, (1, c, h, w)

    @property
    def tolerances(self) -> tuple[Tolerance, ...]:
        """Boxes: 1e-6 of their stride times the bins."""
        channels_last = self.form != "yolov8"
        shape = self.output_shapes[0]
        atol = np.full((shape[1], shape[2]) if channels_last else (shape[2], shape[1]), Tolerance.atol)
        start = 0
        for level in self._heads.levels:
            atol[start : start + level.boxes, :4] = 1e-6 * level.stride * self._bins
            start += level.boxes
        first = Tolerance(atol=(atol if channels_last else atol.T)[None])
        return (first,) if self._heads.proto is None else (first, Tolerance())

    def __call__(self, *tensors: NDArray[np.int8]) -> Any:
        made = self._steps.run(tensors)
        return made[0] if len(made) == 1 else Unpacked(made)

    def _check_extra(self) -> int:
        """Channels of keypoints, masks or angles. Raises ValueError where levels differ or the form has no room."""
        extra = self._heads.extra
        if extra is None:
            return 0
        if self.form != "yolov8":
            raise ValueError(f"the form '{self.form}' has no {extra}; leave out form, dfl_bins or has_objectness")
        counts = {self._infos[level.index[extra]].unpadded_shape[3] for level in self._heads.levels}
        if len(counts) > 1:
            raise ValueError(
                f"the {extra} outputs have {' and '.join(map(str, sorted(counts)))} channels, want one count"
            )
        channels = counts.pop()
        if extra == "keypoint" and channels % self.keypoint_dims:
            raise ValueError(
                f"{channels} keypoint channels are no multiple of keypoint_dims={self.keypoint_dims}; if they are mask "
                "coefficients, the output of their prototypes is missing"
            )
        if self._heads.proto is not None:
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
