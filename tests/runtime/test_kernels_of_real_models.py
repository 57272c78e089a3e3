"""Kernels beside the onnxruntime tails of real models, on pictures and on random buffers with the device's padding and
with any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from numpy.typing import NDArray

from axtool.inputs.images import read_image
from axtool.inputs.prepare import Preparation
from axtool.inputs.samples import open_samples
from axtool.inputs.spec import InputSpec
from axtool.runtime import Postamble, TensorInfo, mega, op
from axtool.runtime.op.load import input_size
from axtool.verify.tail import verify_postamble
from tests.runtime.mega_case import as_list, failures
from tests.runtime.real_models import REAL_MODELS, RealModel
from tests.runtime.tail_case import random_buffers
from tests.shared_data import IMAGES, needs_images
from tests.tiny import axtool

pytestmark = [pytest.mark.slow, needs_images]

PICTURES = ("faceapi_sample1.jpg", "skimage_astronaut.png", "sklearn_china.jpg", "skimage_coffee.png")


@dataclass(frozen=True)
class Compiled:
    """A model, the file that it was compiled to, and one with the pictures that it was calibrated with."""

    axm: Path
    pictures: Path
    postamble: Postamble


@pytest.fixture(scope="module", params=REAL_MODELS, ids=lambda model: model.name)
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    model: RealModel = request.param
    if not model.file.is_file():
        pytest.skip(f"{model.file.name} is not at hand")
    folder = tmp_path_factory.mktemp("real")
    made = Compiled(folder / "m.axm", folder / "pictures.npz", Postamble(fused_kernel=model.kernel, **model.params))
    np.savez(made.pictures, **prepared(model))
    ran = axtool("compile", model.file, "--calib", made.pictures, "-o", made.axm, "-q")
    assert ran.code == 0, ran.err
    return made


def prepared(model: RealModel) -> dict[str, NDArray[Any]]:
    """The pictures as the one input of the model reads them."""
    session = ort.InferenceSession(model.file, providers=["CPUExecutionProvider"])
    (value,) = session.get_inputs()
    height, width = value.shape[1:3] if value.shape[3] == 3 else value.shape[2:]
    own = {"size": [height, width], "resize": "letterbox", "layout": "NHWC" if value.shape[3] == 3 else "NCHW"}
    spec = InputSpec(value.name, tuple(value.shape), "float32")
    preparation = Preparation.from_dict({**own, **model.preparation}).resolve(spec)
    return {value.name: np.concatenate([preparation.prepare(read_image(IMAGES / picture)) for picture in PICTURES])}


def any_padding(info: TensorInfo, rng: np.random.Generator) -> TensorInfo:
    """The same numbers in a buffer that is padded before and behind on every axis but the first."""
    around = [(0, 0), *(tuple(rng.integers(0, 4, 2)) for _ in range(3))]
    sizes = [size + before + after for size, (before, after) in zip(info.unpadded_shape, around, strict=True)]
    return TensorInfo(sizes, info.dtype, info.name, around, info.scale, info.zero_point)


def test_pictures_and_random_buffers_of_the_device_give_what_the_tail_gives(compiled: Compiled) -> None:
    artefact = op.load(compiled.axm).artefact
    specs = [InputSpec(spec.name, spec.shape, spec.dtype) for spec in artefact.inputs]
    samples = open_samples(compiled.pictures, specs)
    verdict = verify_postamble(artefact, compiled.axm, compiled.postamble, samples)
    assert verdict.samples == len(PICTURES)
    assert verdict.failures == ()


def test_buffers_with_any_padding_give_what_the_tail_gives(compiled: Compiled) -> None:
    rng, tail = np.random.default_rng(2), op.load(compiled.axm, using_postamble=Postamble())
    graph = tail.steps[-1]
    assert isinstance(graph, op.OnnxModel), "the model has a tail"
    lanes = [replace(lane, info=any_padding(lane.info, rng)) for lane in tail.device.outputs]
    infos = [lane.info for lane in lanes]
    buffers = random_buffers(infos, rng)
    numbers = [buffer[info.inside] for buffer, info in zip(buffers, infos, strict=True)]
    floats = [lane.align(lane.dequantize(inside)) for lane, inside in zip(lanes, numbers, strict=True)]
    params = compiled.postamble.params
    kernel = getattr(mega, compiled.postamble.kernel_name)(infos, *input_size(tail.artefact), **params)
    assert failures(kernel, as_list(kernel(*buffers)), as_list(graph(*floats))) == []
