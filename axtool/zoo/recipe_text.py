"""A config  ->  the text of a recipe: a Python file that runs, judges and times its model with axtool.runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from axtool.zoo.schema import Config

_PLAIN = {"size", "resize", "color", "scale", "fill", "anchor"}  # of a preparation that three operators say as well


def recipe_text(config: Config, model: str, script: str, size: tuple[int, int] | None = None) -> str:
    """The recipe of a config whose compiled file is named `model`, for a file named `script` beside it.

    `size` is the (height, width) of the model's input, for a config that leaves it to the model.
    """
    size = config.preparation.size or size or (0, 0)
    kernel = f"POSTAMBLE = {_wrapped(repr(config.kernel))}"
    threshold = float(config.task.get("threshold", 0.3)) if config.task else 0.3
    behind = _behind(config.task)
    return f'''"""{config.title}

Made by `axzoo build {config.name}`. Licence of the model: {config.licence}.

    python {script} --run PICTURE
    python {script} --eval FOLDER --float MODEL.onnx
    python {script} --benchmark PICTURE
"""

from pathlib import Path

from axtool.runtime import Postamble, op
from axtool.runtime.recipe import main

MODEL_NAME = {config.name!r}
INPUT_SIZE = {tuple(size)}  # height, width
LABELS = {_wrapped(repr(list(config.task.get("labels", ()))))}
SOURCES = {{"onnx": {_wrapped(repr(config.source.model_dump(mode="json")))}}}
{kernel}
THRESHOLD = {threshold}

preprocess = {_preprocess({"size": list(size), **config.input})}


def postprocess(threshold):
    """What the model's outputs mean."""
    return op.seq(
{behind}
    )


def build_pipeline(axm_path):
    """From a picture to what is in it."""
    return op.seq(preprocess, op.load(axm_path, using_postamble=POSTAMBLE), postprocess(THRESHOLD))


def build_accuracy_pipeline(axm_path):
    """The same for figures: what `--eval` holds against the float model, with the same threshold for both."""
    return op.seq(preprocess, op.load(axm_path, using_postamble=POSTAMBLE), postprocess(THRESHOLD))


def build_float_pipeline(onnx_path):
    """The source model in onnxruntime, between the same steps."""
    return op.seq(preprocess, op.onnx_model(onnx_path), postprocess(THRESHOLD))


if __name__ == "__main__":
    model = Path(__file__).with_name({model!r})
    raise SystemExit(main(build_pipeline, build_accuracy_pipeline, build_float_pipeline, LABELS, model))
'''


def _preprocess(values: Mapping[str, Any]) -> str:
    """Three operators where they say it, with the same bits; else the one that says all."""
    simple = (
        set(values) <= _PLAIN and values.get("resize") == "letterbox" and values.get("color", "RGB") in ("RGB", "BGR")
    )
    scale = float(values.get("scale", 1 / 255))
    if not simple or abs(scale * 255 - 1) > 1e-9:
        words = ", ".join(f"{key}={value!r}" for key, value in values.items())
        return f"op.prepare({words})"
    height, width = values["size"]
    fill = [int(value) for value in _list(values.get("fill", [114]))]
    extra = "" if fill == [114] else f", fill_color={tuple(fill * 3)[:3]}"
    extra += f", anchor={values['anchor']!r}" if values.get("anchor", "center") != "center" else ""
    return (
        f"op.seq(\n    op.color_convert({values.get('color', 'RGB')!r}),\n    op.letterbox({width}, {height}{extra}),\n"
        "    op.to_tensor(),\n)"
    )


def _behind(task: Mapping[str, Any]) -> str:
    """The operators behind the model, one a line."""
    iou, count = float(task.get("iou", 0.5)), len(task.get("labels", ()))
    decode = {
        "yolo": f"op.decode_detections('yolov8', {int(task.get('classes', count))}, threshold)",
        "yolo-anchored": f"op.decode_detections('yolov5', {count}, threshold)",
        "yolox": f"op.decode_detections('yolox', {count}, threshold, strides={list(task.get('strides', (8, 16, 32)))})",
        "centerface": "op.decode_center_face(threshold)",
        "dbnet": f"op.decode_dbnet(threshold, {task.get('mask_threshold', 0.3)}, {task.get('unclip', 1.5)})",
    }
    if task.get("kind") == "detection":
        kept = [index for index, label in enumerate(task.get("labels", ())) if label in (task.get("keep") or ())]
        steps = [decode[str(task["decode"])], f"op.nms({iou})", "op.to_image_space()", "op.ax_detection()"]
        steps += [f"op.filter(class_ids={kept})"] if kept else []
    elif task.get("kind") == "classification":
        softmax = ["op.softmax()"] if task.get("softmax") else []
        steps = [*softmax, f"op.top_k({min(5, count) if count else 1})", "op.unpack()", "op.ax_classification()"]
    else:
        steps = ["op.identity()"]
    return "\n".join(f"        {step}," for step in steps)


def _wrapped(text: str) -> str:
    """A literal on lines of a readable length: lists break after a comma."""
    if len(text) < 90:
        return text
    lines, line = [], ""
    for word in text.split(", "):
        if len(line) + len(word) > 96:
            lines.append(line)
            line = "    "
        line += f"{word}, "
    return "\n".join([*(item.rstrip() for item in lines), line.removesuffix(", ")])


def _list(value: Any) -> list[float]:
    return list(value) if isinstance(value, (list, tuple)) else [float(value)]
