"""Trained models written as QDQ ONNX: every layer within a step of the device, and as near to float as the device."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from axtool.compiler import Compiled, compile_file, open_calibration
from axtool.errors import EnvironmentFault
from axtool.graph.float_run import FloatModel
from axtool.inputs.prepare import Preparation
from axtool.options import Options, options_of
from axtool.runtime.model import CompiledModel
from axtool.verify.metrics import Comparison
from axtool.zoo.catalogue import entries
from axtool.zoo.recipe import recipe_of
from tests import shared_data as shared
from tests.quant.qdq_case import forced, formats, pairs, run
from tests.shared_data import IMAGES, MODELS

pytestmark = pytest.mark.slow

SAMPLES, JUDGED, FORCED = 16, 12, 3
STEPS = 1
DECIBELS = 1.0  # between the device and the file, both against float


class Silent:
    """A progress that nobody watches."""

    def step(self, name: str) -> None:
        """Say nothing."""

    def count(self, done: int, total: int) -> None:
        """Say nothing."""


def check(model: Path, options: Options, folder: Path) -> Compiled:
    """Compile and emit the model; assert that the file is what the device computes."""
    made = compile_file(model, folder / "m.axm", replace(options, limit=SAMPLES), Silent(), qdq=folder / "m.qdq.onnx")
    proto = onnx.load(str(folder / "m.qdq.onnx"))
    onnx.checker.check_model(proto)
    device, source = CompiledModel(made.artefact), FloatModel(made.front.parts.stages)
    names = [value.name for value in proto.graph.output]
    assert names == [spec.name for spec in made.front.outputs]
    samples = open_calibration(made.front, replace(options, limit=JUDGED))
    assert samples is not None
    figures = {name: (Comparison(name), Comparison(name)) for name in names}
    for at, feeds in enumerate(samples):
        right, (got, seen), file = source.run(feeds), device.run_watched(feeds), run(proto, feeds)
        for name, (one, other) in figures.items():
            one.add(right[name], got[name])
            other.add(right[name], file[name])
        if at < FORCED:
            steps = forced(onnx.load(str(folder / "m.qdq.onnx")), feeds, seen)
            assert len(steps) >= len(pairs(proto)) / 2
            assert max(steps.values()) <= STEPS, {name: n for name, n in steps.items() if n > STEPS}
    decibels = [(one.sqnr_db, other.sqnr_db) for one, other in figures.values()]
    print(model.name, ", ".join(f"{one:.1f} and {other:.1f} dB" for one, other in decibels))
    assert abs(np.mean([one - other for one, other in decibels])) < DECIBELS
    return made


@pytest.mark.parametrize("name", ["nudenet-320n", "digits-v8det"])
def test_a_zoo_entry_is_the_same_in_onnxruntime(name: str, tmp_path: Path) -> None:
    entry = next(entry for entry in entries() if entry.config.name == name)
    try:
        recipe = recipe_of(entry)
    except EnvironmentFault as fault:
        pytest.skip(str(fault))
    check(recipe.model, options_of(recipe), tmp_path)


TRAINED = {
    "efficientnet_lite0_224": Preparation(
        resize="crop", crop=0.875, mean=(127,) * 3, std=(128,) * 3, scale=1.0, size=(224, 224)
    ),
    "centerface_480x640": Preparation(resize="letterbox", scale=1.0, size=(480, 640)),
}


@shared.needs_models
@shared.needs_images
@pytest.mark.parametrize("name", TRAINED)
def test_a_trained_model_is_the_same_in_onnxruntime(name: str, tmp_path: Path) -> None:
    check(MODELS / f"{name}.onnx", Options(calib=(str(IMAGES),), preparation=TRAINED[name]), tmp_path)


@shared.needs_models
@shared.needs_images
def test_a_trained_model_read_back_has_the_same_formats_and_bits(tmp_path: Path) -> None:
    name = "efficientnet_lite0_224"
    options = Options(calib=(str(IMAGES),), preparation=TRAINED[name], limit=SAMPLES)
    first = compile_file(MODELS / f"{name}.onnx", tmp_path / "a.axm", options, Silent(), qdq=tmp_path / "a.onnx")
    again = compile_file(tmp_path / "a.onnx", tmp_path / "b.axm", Options(), Silent(), qdq=tmp_path / "b.onnx")
    one, other = (formats(onnx.load(str(tmp_path / file))) for file in ("a.onnx", "b.onnx"))
    assert one == other
    samples = open_calibration(first.front, replace(options, limit=4))
    assert samples is not None
    for feeds in samples:
        right, got = (CompiledModel(made.artefact).run(feeds).outputs["logits"] for made in (first, again))
        np.testing.assert_array_equal(got, right)
