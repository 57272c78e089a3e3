"""A config  ->  the pipeline of its model: what is in front of it and behind it, as calls and as operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from axtool.errors import UsageError
from axtool.runtime.detect import SETS
from axtool.runtime.task import OBJECTS
from axtool.zoo.calls import Call, Word
from axtool.zoo.preprocess import calls_of
from axtool.zoo.schema import Config

if TYPE_CHECKING:
    from axtool.runtime.op.combinators import Seq, Step
    from axtool.runtime.op.operator import Operator

THRESHOLD = Word("threshold")
_ALGOS = {"yolo": "yolov8", "yolo-anchored": "yolov5"}
_PLAIN = {"size", "resize", "color", "scale", "fill", "anchor"}  # of a preparation that three operators say as well


@dataclass(frozen=True)
class Steps:
    """The calls in front of a model and behind it; `threshold` is what the word of that name stands for."""

    preprocess: tuple[Call, ...]
    postprocess: tuple[Call, ...]
    threshold: float

    def front(self) -> Seq:
        """From a picture to the model's input."""
        from axtool.runtime.op.combinators import Seq

        return Seq(*[call.built({}) for call in self.preprocess])

    def pipeline(self, model: Step) -> Seq:
        """From a picture to what is in it, with `model` in the middle."""
        from axtool.runtime.op.combinators import Seq

        return Seq(self.front(), model, *self.behind())

    def behind(self) -> list[Operator]:
        """The operators behind the model. Raises UsageError for a task that says too little for them."""
        try:
            return [call.built({THRESHOLD.name: self.threshold}) for call in self.postprocess]
        except (TypeError, ValueError) as error:
            raise UsageError(f"task: {error}", hint="name its labels", code="bad-task") from error


def steps_of(config: Config, size: tuple[int, int] | None = None) -> Steps:
    """The steps of a config; `size` is the (height, width) of the model's input, where the config leaves it open."""
    size = config.preparation.size or size or (0, 0)
    threshold = float(config.task.get("threshold", 0.3)) if config.task else 0.3
    before = calls_of(config.preprocess) if config.preprocess else _preprocess({"size": list(size), **config.input})
    return Steps(before, _behind(config.task), threshold)


def _preprocess(values: Mapping[str, Any]) -> tuple[Call, ...]:
    """Three operators where they say it, with the same bits; else the one that says all."""
    simple = (
        set(values) <= _PLAIN and values.get("resize") == "letterbox" and values.get("color", "RGB") in ("RGB", "BGR")
    )
    scale = float(values.get("scale", 1 / 255))
    if not simple or abs(scale * 255 - 1) > 1e-9:
        return (Call("prepare", **values),)
    height, width = values["size"]
    fill = [int(value) for value in _list(values.get("fill", [114]))]
    extra: dict[str, Any] = {} if fill == [114] else {"fill_color": tuple(fill * 3)[:3]}
    extra |= {"anchor": values["anchor"]} if values.get("anchor", "center") != "center" else {}
    return (
        Call("color_convert", values.get("color", "RGB")), Call("letterbox", width, height, **extra), Call("to_tensor"),
    )  # fmt: skip


def _behind(task: Mapping[str, Any]) -> tuple[Call, ...]:
    """The operators behind the model."""
    count = len(task.get("labels", ()))
    if task.get("kind") in OBJECTS:
        kept = [index for index, label in enumerate(task.get("labels", ())) if label in (task.get("keep") or ())]
        return (*_objects(task), *([Call("filter", class_ids=kept)] if kept else []))
    if task.get("kind") == "classification":
        softmax = [Call("softmax")] if task.get("softmax") else []
        shown = min(5, count) if count else 1
        return (*softmax, Call("top_k", shown), Call("unpack"), Call("ax_classification"))
    if task.get("kind") == "semantic" and count > 1:
        return Call("decode_semantic_segmentation", count), Call("ax_semantic_segmentation")
    return (Call("identity"),)


def _objects(task: Mapping[str, Any]) -> tuple[Call, ...]:
    """From the outputs to objects."""
    decoder, once = _decoder(task), Call("nms", float(task.get("iou", 0.5)))
    rows, prototypes = Call("itemgetter", 0), Call("itemgetter", 1)
    if task["kind"] == "detection":
        picked = [rows] if task["decode"] == "yolact" else []
        suppressed = [] if task["decode"] in SETS else [once]
        return decoder, *picked, *suppressed, Call("to_image_space"), Call("ax_detection")
    if task["kind"] == "pose":
        points = int(task["keypoints"])
        columns = [6 + 3 * point for point in range(points)]
        return decoder, once, Call("to_image_space", keypoint_cols=columns), Call("ax_pose", points)
    masks = Call("proto_to_mask", num_mask_coeffs=_coefficients(task))
    return (
        decoder,
        Call("par", Call("seq", rows, once), prototypes),
        Call("par", Call("seq", rows, Call("to_image_space")), masks),
        Call("ax_segmentation"),
    )


def _decoder(task: Mapping[str, Any]) -> Call:
    """What makes rows of the outputs, by the task's `decode`."""
    kind, decode = task["kind"], str(task["decode"])
    classes = int(task.get("classes") or len(task.get("labels", ())))
    if decode in _ALGOS and kind == "pose":
        return Call("decode_pose", _ALGOS[decode], int(task["keypoints"]), THRESHOLD, num_classes=classes)
    if decode in _ALGOS and kind == "segmentation":
        return Call("decode_segmentation", _ALGOS[decode], classes, _coefficients(task), THRESHOLD)
    faces: dict[str, Any] = {"min_sizes": task["min_sizes"]} if task.get("min_sizes") else {}
    faces |= {"keypoint_scores": True} if kind == "pose" else {}
    decoders = {
        "yolo": Call("decode_detections", "yolov8", classes, THRESHOLD),
        "yolo-anchored": Call("decode_detections", "yolov5", classes, THRESHOLD),
        "yolox": Call(
            "decode_detections", "yolox", classes, THRESHOLD, strides=list(task.get("strides", (8, 16, 32)))
        ),
        "centerface": Call("decode_center_face", THRESHOLD),
        "dbnet": Call("decode_dbnet", THRESHOLD, task.get("mask_threshold", 0.3), task.get("unclip", 1.5)),
        "retinaface": Call("decode_retina_face", THRESHOLD, **faces),
        "ssd": Call("decode_ssd", THRESHOLD),
        "yolact": Call("decode_yolact", THRESHOLD),
        "detr": Call("decode_detr", THRESHOLD),
    }  # fmt: skip
    return decoders[decode]


def _coefficients(task: Mapping[str, Any]) -> int:
    return int(task.get("coefficients") or 32)


def _list(value: Any) -> list[float]:
    return list(value) if isinstance(value, (list, tuple)) else [float(value)]
