"""A name  ->  a model with fixed shapes, pictures to calibrate it with, other pictures to judge it on, and its task.

Pictures are named, not shipped: the zoo's configs say which generator makes them from which files of which packages.
Some models are only at hand in a folder `shared` beside the repository; without it they are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from axtool.inputs.prepare import Preparation
from axtool.inputs.samples import Samples, open_samples
from axtool.inputs.spec import InputSpec
from axtool.zoo.catalogue import Entry, find
from axtool.zoo.pictures import paths_of
from axtool.zoo.recipe import recipe_of
from axtool.zoo.schema import FilePictures, Scenes, WheelPictures
from axtool.zoo.sources import model_file, pictures_of
from benchmarks.attention import detr_r101, segformer_b0
from benchmarks.networks import NETWORKS

CALIBRATION, JUDGED = 32, 40
SHARED = Path(__file__).resolve().parents[2] / "shared"
Feeds = Mapping[str, NDArray[Any]]
Pictures = Sequence[WheelPictures | FilePictures | Scenes]


class NotAtHand(Exception):
    """A model or a picture is not on this machine; the message says why."""


@dataclass(frozen=True)
class Case:
    """What every quantizer is given and judged by. `task` is that of a zoo config, with the `truth` where it is known,
    or another `kind`: "text-line", "pixels", "nothing".
    """

    model: onnx.ModelProto
    calibration: Sequence[Feeds] | Samples
    judged: Sequence[Feeds] | Samples
    task: Mapping[str, Any]


def build(name: str, *, calibration: int = CALIBRATION, judged: int = JUDGED) -> Case:
    """The case of a name, with at most that many samples. Raises NotAtHand."""
    made = CASES[name](calibration, judged)
    return Case(fixed(made.model), first(made.calibration, calibration), first(made.judged, judged), made.task)


def fixed(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]] | None = None) -> onnx.ModelProto:
    """The model with static shapes, simplified, of an opset that has weights per channel (13 and up).

    All quantizers are given this one file: half of them cannot read a model as exporters write it.
    """
    import onnxsim

    if shapes:
        model, sound = onnxsim.simplify(model, overwrite_input_shapes={k: list(v) for k, v in shapes.items()})
        if not sound:
            raise NotAtHand("the simplified model is another one")
    if model.opset_import[0].version < 13:
        model = onnx.version_converter.convert_version(model, 13)
        model, _ = onnxsim.simplify(model)
    return _lifted(model)


def _lifted(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same with its Constant nodes as initializers, where NNCF looks for biases."""
    graph = model.graph
    for node in [node for node in graph.node if node.op_type == "Constant" and node.attribute[0].name == "value"]:
        graph.initializer.add().CopyFrom(node.attribute[0].t)
        graph.initializer[-1].name = node.output[0]
        graph.node.remove(node)
    return model


def first(samples: Sequence[Feeds] | Samples, count: int) -> Sequence[Feeds] | Samples:
    """At most `count` samples."""
    if isinstance(samples, Samples):
        return samples.select(range(min(count, len(samples))))
    return samples[:count]


def save_samples(samples: Iterable[Feeds], path: Path) -> None:
    """An .npz with one array (n, ...) an input, its members not compressed."""
    rows: dict[str, list[NDArray[Any]]] = {}
    for feeds in samples:
        for name, array in feeds.items():
            rows.setdefault(name, []).append(array)
    np.savez(path, allow_pickle=False, **{name: np.concatenate(arrays) for name, arrays in rows.items()})


def _zoo(name: str, calibration: int, judged: int) -> Case:
    """An entry of the zoo: its own sets, generated ones as large as they are wanted."""
    entry = find(name)
    recipe = recipe_of(entry)
    model = fixed(onnx.load(recipe.model), recipe.input_shapes)
    task = {**recipe.task, "threshold": 0.3} if recipe.task["kind"] == "detection" else recipe.task
    sets = [_grown(entry.config.calibration, calibration), _grown(entry.config.validation, judged)]
    known, other = (_samples(model, paths_of(entry, pictures), entry.config.preparation) for pictures in sets)
    if len(other) < judged and len(known) > calibration:  # what calibration leaves is as unseen as the rest
        spare = known.select(range(calibration, len(known)))
        return Case(model, known, [*other, *spare], task)
    return Case(model, known, other, task)


def _digits(head: str, decode: str, calibration: int, judged: int) -> Case:
    """Scenes of digits whose objects are known, 160 x 160."""
    model = _shared(f"digitscene/digits_{head}_160.onnx")
    known, other = _scenes("calib100", calibration), _scenes("test200", judged)
    task = {"kind": "detection", "decode": decode, "classes": 10, "labels": [], "threshold": 0.02, "iou": 0.6}
    with np.load(SHARED / "models" / "digitscene" / "test200.npz") as scenes:
        rows = np.concatenate([scenes["boxes"], scenes["cls"][:, None]], 1).astype(float)
        starts = scenes["offsets"].tolist()
    truth = [rows[a:b].tolist() for a, b in pairwise(starts[: judged + 1])]
    return Case(model, known, other, {**task, "truth": truth})


def _digits_of_the_zoo(calibration: int, judged: int) -> Case:
    """The detector that the zoo brings, with its own scenes where no others are at hand."""
    try:
        return _digits("v8det", "yolo", calibration, judged)
    except NotAtHand:
        return _zoo("digits-v8det", calibration, judged)


def _scenes(file: str, count: int) -> list[Feeds]:
    with np.load(SHARED / "models" / "digitscene" / f"{file}.npz") as scenes:
        pictures = scenes["images"][:count]  # (n, 160, 160, 3), RGB
    return [{"images": picture.transpose(2, 0, 1)[None].astype(np.float32) / 255} for picture in pictures]


def _grown(sets: Pictures, count: int) -> Pictures:
    return [item.model_copy(update={"count": max(item.count, count)}) if isinstance(item, Scenes) else item
            for item in sets]  # fmt: skip


def _samples(model: onnx.ModelProto, paths: Sequence[str | Path], preparation: Preparation) -> Samples:
    (value,) = model.graph.input
    shape = tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
    return open_samples(list(paths), [InputSpec(value.name, shape, "float32")], preparation)


# Photographs of different packages: nothing that a network is judged on was cut from a picture that calibrated it.
PHOTOS = {
    "calibration": (
        ("foolbox", "3.3.4", ("foolbox/data/imagenet_0*.jpg",)),
        ("scikit-image", "0.26.0", ("skimage/data/astronaut.png", "skimage/data/coffee.png")),
    ),
    "judged": (
        ("foolbox", "3.3.4", ("foolbox/data/imagenet_1*.jpg",)),
        ("scikit-image", "0.26.0", ("skimage/data/chelsea.png", "skimage/data/rocket.jpg")),
    ),
}  # fmt: skip


def _photos(use: str, count: int, size: tuple[int, int]) -> tuple[str, ...]:  # size: height, width
    base = [WheelPictures(kind="pypi", package=p, version=v, paths=list(paths)) for p, v, paths in PHOTOS[use]]
    seed = {"calibration": 1, "judged": 2}[use]
    scenes = Scenes(kind="generated", generator="crops", count=count, seed=seed, size=size, base=base)
    return paths_of(_any_entry(), [scenes])


def _any_entry() -> Entry:
    return find("nudenet-320n")  # of generated pictures nothing is relative to it


def _photographs(
    load: Callable[[], onnx.ModelProto],
    size: tuple[int, int],
    preparation: Preparation,
    task: Mapping[str, Any],
    calibration: int,
    judged: int,
) -> Case:
    """A network of photographs of (height, width)."""
    model = load()
    known = _samples(model, _photos("calibration", calibration, size), preparation)
    other = _samples(model, _photos("judged", judged, size), preparation) if judged else []
    return Case(model, known, other, task)


def _shared(file: str) -> onnx.ModelProto:
    path = SHARED / "models" / file
    if not path.is_file():
        raise NotAtHand(f"{file} is not in a folder 'shared' beside the repository")
    return onnx.load(path)


def _recognizer(calibration: int, judged: int) -> Case:
    """PP-OCR's recogniser, from the wheel that brings the detector of the zoo."""
    entry = find("ppocr-det")
    model_file(entry)  # the wheel is at hand from here on
    (path,) = pictures_of("rapidocr-onnxruntime", "1.4.4", ["rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"])
    model = fixed(onnx.load(path), {"x": (1, 3, 48, 320)})
    known, other = (list(_lines(count, seed)) for count, seed in ((calibration, 1), (judged, 2)))
    return Case(model, known, other, {"kind": "text-line"})


def _lines(count: int, seed: int) -> Iterator[Feeds]:
    """Upright lines of words, 48 x 320, on plain paper of many colours, as the recogniser wants them."""
    import cv2

    from axtool.zoo.scenes import WORDS

    rng = np.random.default_rng(seed)
    fonts = (cv2.FONT_HERSHEY_SIMPLEX, cv2.FONT_HERSHEY_DUPLEX, cv2.FONT_HERSHEY_COMPLEX, cv2.FONT_HERSHEY_TRIPLEX)
    for _ in range(count):
        ink, paper = rng.uniform(0, 90, 3), rng.uniform(170, 255, 3)
        picture = np.full((48, 320, 3), paper) + rng.normal(0, rng.uniform(0, 8), (48, 320, 1))
        picture = np.clip(picture, 0, 255).astype(np.uint8)
        text = " ".join(str(word) for word in rng.choice(WORDS, int(rng.integers(2, 5))))
        font, scale, thick = int(rng.choice(fonts)), float(rng.uniform(0.7, 1.1)), int(rng.integers(1, 3))
        (width, height), _base = cv2.getTextSize(text, font, scale, thick)
        scale *= min(1.0, 300 / width)
        at = (int(rng.integers(4, 12)), 24 + round(height * min(1.0, 300 / width)) // 2)
        cv2.putText(picture, text, at, font, scale, ink.tolist(), thick, cv2.LINE_AA)
        yield {"x": (picture.transpose(2, 0, 1)[None].astype(np.float32) / 255 - 0.5) / 0.5}


_IMAGENET = Preparation(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), resize="fit")
_LITE = Preparation(mean=(127.0,) * 3, std=(128.0,) * 3, resize="fit")

_CLASSES = {"kind": "classification", "softmax": True}
_SQUARE = (224, 224)


def _seeded(name: str) -> Callable[[int, int], Case]:
    return partial(_photographs, NETWORKS[name], _SQUARE, _IMAGENET, _CLASSES)


CASES: dict[str, Callable[[int, int], Case]] = {
    "efficientnet-lite0": partial(
        _photographs, lambda: _shared("efficientnet_lite0_224.onnx"), _SQUARE, _LITE, _CLASSES
    ),
    "ppocr-rec": _recognizer,
    "nudenet-320n": partial(_zoo, "nudenet-320n"),
    "digits-v8det": _digits_of_the_zoo,
    "digits-v8pose": partial(_digits, "v8pose", "yolo"),
    "digits-v8seg": partial(_digits, "v8seg", "yolo"),
    "digits-v5anchor": partial(_digits, "v5anchor", "yolo-anchored"),
    "mobilenet_v2": _seeded("mobilenet_v2"),
    "resnet50": _seeded("resnet50"),
    "segformer-b0": partial(_photographs, segformer_b0, (256, 512), _IMAGENET, {"kind": "pixels"}),
    "detr-r101": partial(_photographs, detr_r101, (750, 800), _IMAGENET, {"kind": "nothing"}),
    "ppocr-cls": partial(_zoo, "ppocr-cls"),
    "ppocr-det": partial(_zoo, "ppocr-det"),
    "centerface": partial(_zoo, "centerface"),
    "ddddocr-yolox": partial(_zoo, "ddddocr-yolox"),
}


@dataclass(frozen=True)
class Amount:
    """How many samples a model is calibrated with and judged on, where nobody says how many; 0: it only costs."""

    calibration: int = CALIBRATION
    judged: int = JUDGED


AMOUNTS: Mapping[str, Amount] = {
    **dict.fromkeys(("digits-v8det", "digits-v8pose", "digits-v8seg", "digits-v5anchor"), Amount(judged=200)),
    "segformer-b0": Amount(calibration=12),
    "detr-r101": Amount(calibration=12, judged=0),
}
