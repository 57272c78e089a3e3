"""Built-in operators, kernels and models from eight threads at once: every frame has the bits of one thread."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from axtool.runtime import Image, Postamble, mega, op
from axtool.runtime.geometry import frame_context
from benchmarks.tails import CASES, Case
from tests.conftest import Tiny
from tests.runtime import mega_case, tail_case
from tests.runtime.many_threads import assert_same_in_threads
from tests.tiny import CLASSIFIER, CLASSIFIER_WEIGHTS, model

Frames = list[tuple[Any, ...]]
RNG = np.random.default_rng
IMAGE = op.letterbox(64, 64)  # what brings a picture into the frame that decoders ask for


def pictures(count: int = 5, *, sizes: tuple[int, ...] = (40, 64, 90)) -> Frames:
    rng, made = RNG(7), []
    for _ in range(count):
        pixels = rng.integers(0, 256, (int(rng.choice(sizes)), int(rng.choice(sizes)), 3)).astype(np.uint8)
        made.append((Image.from_array(pixels, "BGR"),))
    return made


def arrays(*shapes: tuple[int, ...], count: int = 5, low: float = 0.0, high: float = 1.0) -> Frames:
    rng = RNG(8)
    return [tuple(rng.uniform(low, high, shape).astype(np.float32) for shape in shapes) for _ in range(count)]


def rows(count: int = 5, columns: int = 6, n: int = 40) -> Frames:
    """Boxes inside 64 x 64 pixels, scores, classes 0 to 2, then anything."""
    rng, made = RNG(9), []
    for _ in range(count):
        corners = np.sort(rng.uniform(0, 64, (n, 2, 2)), 1).reshape(n, 4)
        rest = rng.uniform(0, 1, (n, columns - 4))
        rest[:, 1] = rng.integers(0, 3, n)
        made.append((np.concatenate([corners, rest], 1).astype(np.float32),))
    return made


def in_a_picture(*steps: Any) -> Callable[..., Any]:
    """The steps on values that were made of a picture of 80 x 48 pixels, letterboxed to 64 x 64."""
    inner = op.seq(*steps)

    def call(*values: Any) -> Any:
        with frame_context((80, 48)):
            IMAGE(np.zeros((48, 80, 3), np.uint8))
            return inner(*values)

    return call


MIDDLE = np.array([[22, 24, 40, 38, 0.9, 1], [25, 23, 35, 42, 0.8, 2]], np.float32)  # boxes in every picture
SCORES = arrays((1, 14, 300), low=0.0, high=1.0)
OPERATORS: dict[str, tuple[Callable[..., Any], Frames]] = {
    "resize": (op.resize(33, 21), pictures()),
    "resize by the smaller edge": (op.resize(size=30), pictures()),
    "letterbox": (op.seq(op.letterbox(64, 48)), pictures()),
    "center_crop": (op.center_crop(32), pictures()),
    "perspective": (op.perspective([[1, 0.1, 3], [0, 1.1, 2], [0, 0.001, 1]], 40, 30), pictures()),
    "color_convert": (op.color_convert("RGB"), pictures()),
    "to_tensor": (op.to_tensor(), pictures()),
    "to_image_tensor": (op.to_image_tensor(), pictures()),
    "to_dtype": (op.to_dtype(scale=True), [(one.to_numpy(),) for (one,) in pictures()]),
    "normalize": (op.normalize([0.4, 0.5, 0.6], [0.2, 0.3, 0.4]), arrays((3, 20, 30))),
    "linear_scaling": (op.linear_scaling([127.5], [-1.0]), arrays((3, 20, 30))),
    "contrast_normalize": (op.contrast_normalize(), arrays((3, 20, 30))),
    "prepare": (op.prepare(resize="letterbox", size=[48, 64], layout="NCHW"), pictures()),
    "fused transforms": (
        op.seq(op.color_convert("RGB"), op.letterbox(64, 48), op.to_tensor(), op.normalize([0.4], [0.2])).optimized(),
        pictures(),
    ),
    "decode_detections": (in_a_picture(op.decode_detections("yolov8", 10)), SCORES),
    "decode_detections with objectness": (
        in_a_picture(op.decode_detections("yolov5", 9, confidence_threshold=0.5)), arrays((1, 300, 14)),
    ),
    "decode_detections on a grid": (
        in_a_picture(op.decode_detections("yolox", 9, confidence_threshold=0.5, strides=(8, 16, 32))),
        arrays((1, 84, 14)),
    ),
    "decode_pose": (in_a_picture(op.decode_pose("yolo11", 3)), SCORES),
    "decode_obb": (in_a_picture(op.decode_obb(9)), SCORES),
    "decode_segmentation": (
        in_a_picture(op.decode_segmentation("yolo11", 6, num_mask_coeffs=4)), arrays((1, 14, 300), (1, 4, 16, 16)),
    ),
    "decode_semantic_segmentation": (op.decode_semantic_segmentation(5), arrays((1, 5, 30, 40))),
    "decode_ssd": (in_a_picture(op.decode_ssd()), arrays((1, 200, 4), (1, 200, 5))),
    "decode_detr": (in_a_picture(op.decode_detr(confidence_threshold=0.2)), arrays((1, 20, 5), (1, 20, 4), high=4.0)),
    "decode_retina_face": (in_a_picture(op.decode_retina_face()), arrays((1, 168, 4), (1, 168, 2), (1, 168, 10))),
    "decode_center_face": (op.decode_center_face(), arrays((1, 1, 16, 16), (1, 2, 16, 16), (1, 2, 16, 16))),
    "decode_dbnet": (op.decode_dbnet(), arrays((1, 1, 24, 24))),
    "nms": (op.nms(0.3), rows()),
    "nms of all classes": (op.nms(0.3, class_agnostic=True), rows()),
    "nms of turned boxes": (op.nms(0.3, box_format="xywhr"), rows(columns=7)),
    "to_image_space": (in_a_picture(op.to_image_space()), rows()),
    "to_image_space with keypoints": (in_a_picture(op.to_image_space(keypoint_cols=range(6, 15, 3))), rows(columns=15)),
    "proto_to_mask": (
        in_a_picture(op.proto_to_mask(num_mask_coeffs=4)),
        [(table, proto) for (table,), (proto,) in zip(rows(columns=10), arrays((4, 16, 16), low=-1.0), strict=True)],
    ),
    "filter": (op.seq(op.ax_detection(), op.filter(class_ids=[1], min_score=0.3)), rows()),
    "split": (op.seq(op.ax_detection(), op.split(min_score=0.5), op.pack()), rows()),
    "sort_by": (op.seq(op.ax_detection(), op.sort_by("area", top=5)), rows()),
    "softmax": (op.softmax(), arrays((1, 100), low=-5.0, high=5.0)),
    "top_k": (op.top_k(5), arrays((1, 100))),
    "top1": (op.top1(), arrays((1, 100))),
    "ax_classification": (op.seq(op.top_k(3), op.ax_classification(op.ImagenetClasses)), arrays((1, 100))),
    "ax_detection": (op.ax_detection(op.CocoClasses), rows()),
    "ax_pose": (op.ax_pose(3), rows(columns=15)),
    "ax_obb": (op.ax_obb(), rows(columns=7)),
    "ax_depth_map": (op.ax_depth_map(), arrays((1, 1, 20, 30))),
    "par": (
        op.seq(op.par(op.resize(20, 20), op.letterbox(30, 30)), op.par(op.itemgetter(0), op.itemgetter(1)), op.pack()),
        pictures(),
    ),
    "named par": (op.seq(op.par(op.resize(20, 20, name="a"), op.letterbox(30, 30, name="b"))), pictures()),
    "crop_roi in for_each": (
        op.seq(
            op.letterbox(64, 64), op.constant(MIDDLE), op.to_image_space(), op.ax_detection(),
            op.for_each(op.crop_roi("bbox"), op.resize(16, 16), op.to_tensor(), iter="found"),
        ),
        pictures(),
    ),
    "crop_rotated_roi in for_each": (
        op.seq(
            op.letterbox(64, 64), op.constant(rows(columns=7)[0][0][:8]), op.to_image_space(box_format="xywhr"),
            op.ax_obb(), op.for_each(op.crop_rotated_roi(), op.resize(16, 16)),
        ),
        pictures(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_gives_each_thread_the_bits_of_one(name: str) -> None:
    call, frames = OPERATORS[name]
    assert_same_in_threads(call, frames)


KERNELS = {case.kernel: case for case in reversed(CASES)}
SHARED = [name for name in KERNELS if "threads" in inspect.signature(getattr(mega, name)).parameters]


def kernel_of(case: Case, **more: Any) -> tuple[Any, Frames]:
    """The kernel of a tail, and the buffers of several frames."""
    rng = RNG(3)
    infos = tail_case.Tail(case.tail()).infos(rng)
    kernel = getattr(mega, case.kernel)(infos, case.model_width, case.model_height, **case.params, **more)
    return kernel, [tuple(tail_case.random_buffers(infos, rng)) for _ in range(3)]


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_gives_each_thread_the_bits_of_one(kernel: str) -> None:
    assert_same_in_threads(*kernel_of(KERNELS[kernel]), rounds=1)


@pytest.mark.parametrize("kernel", SHARED)
def test_a_kernel_with_threads_of_its_own_does_so_too(kernel: str) -> None:
    """The team serves one call; the others do their own work."""
    assert_same_in_threads(*kernel_of(KERNELS[kernel], threads=3), rounds=1)


def test_a_kernel_without_the_native_module_does_so_too() -> None:
    case = KERNELS["RetinaFacePostamble"]
    infos = tail_case.Tail(case.tail()).infos(RNG(3))
    kernel = mega_case.without_native(mega.RetinaFacePostamble, infos, (640, 640), {})
    frames = [tuple(tail_case.random_buffers(infos, RNG(seed))) for seed in range(3)]
    assert_same_in_threads(kernel, frames, rounds=1, threads=3)


def images(count: int, shape: tuple[int, ...]) -> Frames:
    return [(RNG(seed).normal(0, 1, shape).astype(np.float32),) for seed in range(count)]


def test_a_graph_in_onnxruntime_gives_each_thread_the_bits_of_one(tmp_path: Path) -> None:
    onnx.save(model(CLASSIFIER, CLASSIFIER_WEIGHTS), str(tmp_path / "net.onnx"))
    assert_same_in_threads(op.onnx_model(tmp_path / "net.onnx"), images(8, (1, 3, 16, 16)))


@pytest.mark.parametrize("optimized", [False, True])
def test_a_model_of_two_device_stages_gives_each_thread_the_bits_of_one(tiny_models: Tiny, optimized: bool) -> None:
    loaded = op.load(tiny_models / "two.axm")
    assert_same_in_threads(loaded.optimized() if optimized else loaded, images(8, (1, 3, 8, 8)))


def test_its_raw_buffers_are_the_frames_own(tiny_models: Tiny) -> None:
    loaded = op.load(tiny_models / "two.axm")
    front = op.seq(*loaded.operators[: loaded.operators.index(loaded.device) + 1])
    assert_same_in_threads(front, images(8, (1, 3, 8, 8)))


@pytest.mark.parametrize("optimized", [False, True])
def test_a_detector_from_picture_to_objects_gives_each_thread_the_bits_of_one(digits: Path, optimized: bool) -> None:
    kernel = Postamble(fused_kernel="UltralyticsYoloPostamble", num_classes=10)
    pipeline = op.seq(
        op.color_convert("RGB"), op.letterbox(160, 160), op.to_tensor(), op.load(digits, using_postamble=kernel),
        op.decode_detections("yolov8", 10, confidence_threshold=0.01), op.nms(), op.to_image_space(), op.ax_detection(),
    )  # fmt: skip
    frames = pictures(6, sizes=(100, 160, 230))
    assert_same_in_threads(pipeline.optimized() if optimized else pipeline, frames, rounds=2)


def test_a_model_on_every_element_of_a_list_gives_each_thread_the_bits_of_one(classifier: Path) -> None:
    pipeline = op.seq(
        op.letterbox(64, 64), op.constant(MIDDLE), op.to_image_space(), op.ax_detection(),
        op.for_each(op.crop_roi("bbox"), op.resize(16, 16), op.to_tensor(), op.load(classifier), op.top_k(3)),
    )  # fmt: skip
    assert_same_in_threads(pipeline, pictures(), rounds=2)


def test_copies_of_a_pipeline_share_a_model_without_sharing_a_frame(digits: Path) -> None:
    pipeline = op.seq(op.letterbox(160, 160), op.to_tensor(), op.load(digits)).optimized()
    copies = [pipeline.copy() for _ in range(3)]
    frames = [(index % 3, picture) for index, (picture,) in enumerate(pictures(6))]
    assert_same_in_threads(lambda index, picture: copies[index](picture), frames, rounds=2)


def test_four_threads_may_load_a_model_each_at_the_same_time(digits: Path) -> None:
    def call(picture: Any) -> Any:
        return op.seq(op.letterbox(160, 160), op.to_tensor(), op.load(digits)).optimized()(picture)

    assert_same_in_threads(call, pictures(2), rounds=1, threads=4)
