"""The signatures of operators, held to a table: pipelines that were written for these names run as they are.

A line is an operator as it is called, with its defaults. What stands behind `|` is our own addition: behind all that
others know, so that positional arguments mean the same. Every operator also takes `name=`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np
import pytest

import axtool.runtime
from axtool.runtime import op

TABLE = """
resize(width=0, height=0, size=0, half_pixel_centers=True, interpolation=bilinear)
center_crop(size)
crop_roi(property=None, indices=None, format=xyxy)
crop_rotated_roi()
letterbox(width, height, fill_color=(114, 114, 114) | anchor='center')
color_convert(dst, src=None)
to_tensor()
to_image_tensor()
to_dtype(dtype=float32, scale=False)
normalize(mean, std, layout=CHW)
linear_scaling(scale, shift=(0.0,), layout=CHW)
contrast_normalize()
perspective(matrix, width, height)
onnx_model(path, *, provider=None)
decode_detections(algo, num_classes, confidence_threshold=0.25, max_boxes_pre_nms=30000,
    input_format='auto' | strides=())
decode_obb(num_classes, confidence_threshold=0.25, max_boxes_pre_nms=30000)
decode_pose(algo, num_keypoints, confidence_threshold=0.25, max_boxes_pre_nms=30000,
    input_format='auto' | num_classes=1)
decode_segmentation(algo, num_classes, num_mask_coeffs=32, confidence_threshold=0.25,
    max_boxes_pre_nms=30000, input_format='auto')
decode_semantic_segmentation(num_classes)
nms(iou_threshold=0.45, class_agnostic=False, max_boxes=300, backend='opencv', box_format='xyxy')
to_image_space(box_cols=(0, 4), box_format='xyxy', keypoint_cols=None)
proto_to_mask(mask_threshold=0.5, num_mask_coeffs=32)
filter(class_ids=None, min_score=None, fn=None)
split(class_ids=None, min_score=None, fn=None)
top_k(k, dim=None, largest=True, sorted=True)
top1( | dim=None)
softmax()
sort_by(by='score', descending=True, top=None)
observer(fn)
dumper(folder, stem='frame')
ax_classification(class_id_type=int)
ax_depth_map()
ax_detection(class_id_type=int)
ax_obb(class_id_type=int)
ax_pose(num_keypoints=17, keypoint_names=None, class_id_type=int)
ax_segmentation(class_id_type=int)
ax_semantic_segmentation()
seq(*operators)
par(*branches)
for_each(*operators, iter='input', save=None)
pack()
unpack()
itemgetter(index)
identity()
constant(value)
frame_context(image)
"""

METHODS = """
optimized(policy='auto')
batch(*inputs)
stream(source, *, frame_callback=None, split_at=None, max_in_flight=None, queue_depths=None)
save_axe(path, *, name='', description='', task='detection' | force=False)
copy()
"""

RESULTS = """
BBox(x0, y0, x1, y1)
DetectedObject(index, class_id, bbox, score)
OrientedObject(index, class_id, cx, cy, w, h, angle, score)
PoseObject(index, keypoints, bbox, score, class_id | keypoint_names)
SegmentedObject(index, class_id, mask, bbox, score)
Classification(class_id, score)
Keypoint(x, y, confidence, name)
DepthMap(depth)
"""

OLD = {
    "axclassification": "ax_classification", "axdepthmap": "ax_depth_map", "axdetection": "ax_detection",
    "axobb": "ax_obb", "axpose": "ax_pose", "axsegmentation": "ax_segmentation", "centercrop": "center_crop",
    "croproi": "crop_roi", "foreach": "for_each", "linearscaling": "linear_scaling", "todtype": "to_dtype",
    "toimage": "to_image_tensor", "topk": "top_k", "totensor": "to_tensor",
}  # fmt: skip


def lines(table: str) -> list[tuple[str, str]]:
    """(name, parameters with the mark of our own taken out) of every line."""
    whole = table.replace("\n    ", " ").strip().splitlines()
    return [(line.partition("(")[0], line.partition("(")[2][:-1]) for line in whole]


def shown(function: Callable[..., Any], leave_out: tuple[str, ...]) -> str:
    """The parameters as the table writes them."""
    parts: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in leave_out:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not any(part.startswith("*") for part in parts):
            parts.append("*")
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        default = "" if parameter.default is parameter.empty else f"={value(parameter.default)}"
        parts.append(f"{star}{parameter.name}{default}")
    return ", ".join(parts)


def value(default: Any) -> str:
    if isinstance(default, Enum):
        return str(default.value)
    return default.__name__ if isinstance(default, type) else repr(default)


@pytest.mark.parametrize(("name", "wanted"), lines(TABLE), ids=[name for name, _ in lines(TABLE)])
def test_an_operator_is_called_as_the_table_says(name: str, wanted: str) -> None:
    ours = wanted.replace(" | ", ", ").removeprefix(", ")
    assert shown(getattr(op, name), ("name",) if name != "frame_context" else ()) == ours


@pytest.mark.parametrize(("name", "wanted"), lines(METHODS), ids=[name for name, _ in lines(METHODS)])
def test_a_method_of_a_sequence_is_called_as_the_table_says(name: str, wanted: str) -> None:
    assert shown(getattr(op.Seq, name), ("self",)) == wanted.replace(" | ", ", ")


@pytest.mark.parametrize(("name", "wanted"), lines(RESULTS), ids=[name for name, _ in lines(RESULTS)])
def test_a_result_has_its_parts_in_the_order_of_the_table(name: str, wanted: str) -> None:
    given = inspect.signature(getattr(axtool.runtime, name)).parameters
    assert ", ".join(part for part in given if not part.startswith("_")) == wanted.replace(" | ", ", ")


@pytest.mark.parametrize("name", ["DetectedObject", "OrientedObject", "PoseObject", "SegmentedObject"])
def test_an_object_may_be_made_of_what_is_known(name: str) -> None:
    made = getattr(axtool.runtime, name)(class_id=3, score=0.5)
    assert (made.index, made.class_id, made.score) == (0, 3, 0.5)


def test_a_model_is_loaded_by_its_file_and_everything_else_by_name() -> None:
    known = "name='', core_allocation=None, using_postamble=None, device_config=None, batch=None"
    assert shown(op.load, ()) == f"file, *, {known}, engine='native', threads=1"


@pytest.mark.parametrize("name", [name for name, _ in lines(TABLE) if name != "frame_context"])
def test_every_operator_takes_a_name(name: str) -> None:
    parameter = inspect.signature(getattr(op, name)).parameters["name"]
    assert (parameter.kind, parameter.default) == (parameter.KEYWORD_ONLY, "")


@pytest.mark.parametrize("name", [name for name, _ in lines(TABLE) if name != "frame_context"])
def test_the_class_is_the_operator_by_its_other_name(name: str) -> None:
    assert getattr(op, "".join(part.capitalize() for part in name.split("_"))) is getattr(op, name)


@pytest.mark.parametrize("old", OLD)
def test_an_old_spelling_is_the_same_operator(old: str) -> None:
    assert getattr(op, old) is getattr(op, OLD[old])


def test_color_convert_in_its_old_spelling_has_the_source_first() -> None:
    for made in (op.colorconvert("bgr", "rgb"), op.colorconvert("RGB", src="BGR")):
        assert (made.dst, made.src) == ("RGB", "BGR")
    assert (op.colorconvert("RGB").dst, op.colorconvert("RGB").src) == ("RGB", None)
    with pytest.raises(TypeError, match="the source is given twice, 'BGR' and 'RGBA'"):
        op.colorconvert("BGR", "RGB", src="RGBA")


@pytest.mark.parametrize("algo", ["yolov5", "yolov7", "yolov8", "yolov9", "yolov10", "yolo11", "yolox"])
def test_the_decoder_knows_the_families_by_their_names(algo: str) -> None:
    assert op.decode_detections(algo, 80).algo == algo


WRONG = {
    "resize": (lambda: op.resize(width=8), ValueError),
    "resize by a word": (lambda: op.resize(size=8, interpolation="cubic"), ValueError),
    "center_crop": (lambda: op.center_crop(9)(np.zeros((8, 8, 3), np.uint8)), ValueError),
    "crop_roi outside": (lambda: op.crop_roi("bbox")(0), TypeError),
    "color_convert without a source": (lambda: op.color_convert("RGB")(np.zeros((2, 2, 3), np.uint8)), ValueError),
    "onnx_model of nothing": (lambda: op.onnx_model("nowhere.onnx"), FileNotFoundError),
    "decode_detections by a word": (lambda: op.decode_detections("yolov80", 80), ValueError),
    "decode_detections below": (lambda: op.decode_detections("yolov8", 80, confidence_threshold=-0.1), ValueError),
    "decode_detections above": (lambda: op.decode_detections("yolov8", 80, confidence_threshold=1.1), ValueError),
    "decode_detections of no box": (lambda: op.decode_detections("yolov8", 80, max_boxes_pre_nms=0), ValueError),
    "decode_obb below": (lambda: op.decode_obb(15, confidence_threshold=-1), ValueError),
    "decode_pose of no box": (lambda: op.decode_pose("yolov8", 17, max_boxes_pre_nms=0), ValueError),
    "nms by a word": (lambda: op.nms(backend="numba"), ValueError),
    "nms of a form": (lambda: op.nms(box_format="ltwh"), ValueError),
    "top_k of none": (lambda: op.top_k(0), ValueError),
    "ax_depth_map of volumes": (lambda: op.ax_depth_map()(np.zeros((2, 3, 4))), ValueError),
    "save_axe of another suffix": (lambda: op.seq().save_axe("x.zip"), ValueError),
    "stream without room": (lambda: op.seq().stream([], max_in_flight=0), ValueError),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_refused_by_the_error_that_others_catch(case: str) -> None:
    make, error = WRONG[case]
    with pytest.raises(error):
        make()
