"""A transformer compiled in mixed precision: whole on the device, the same bits in both engines, close to float."""

from __future__ import annotations

import logging

import numpy as np
import onnxruntime as ort
import pytest

from axtool.artefact import axm
from axtool.compiler import Compiled, compile_file
from axtool.options import Options
from axtool.runtime.model import CompiledModel
from tests.small_transformer import samples, written

LEAST_DB = 30.0


class Silent:
    """A progress that nobody watches."""

    def step(self, name: str) -> None:
        """Say nothing."""

    def count(self, done: int, total: int) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("mixed")


@pytest.fixture(scope="module")
def compiled(folder) -> Compiled:
    model, calib, recipe = written(folder)
    options = Options(target="qc-u-1d5-8mb", calib=(str(calib),), recipe=str(recipe))
    return compile_file(model, folder / "small.axm", options, Silent())


@pytest.fixture(scope="module")
def float_outputs(folder, compiled):
    session = ort.InferenceSession(str(folder / "small.onnx"), providers=["CPUExecutionProvider"])
    return [
        dict(zip(("class", "box"), session.run(["class", "box"], {"image": x}), strict=True)) for x in samples(2, 9)
    ]


def ops_of(compiled: Compiled) -> list[str]:
    (stage,) = compiled.artefact.stages
    return [layer.op for layer in stage.plan.program.layers]


def test_the_whole_transformer_is_one_program_on_the_device(compiled):
    assert [verdict.kind for verdict in compiled.front.parts.verdicts if verdict.kind == "host"] == []
    assert len(compiled.artefact.stages) == 1


def test_a_feed_forward_block_is_int8_between_sums_and_norms_in_fx32(compiled):
    program = compiled.artefact.stages[0].plan.program
    made = {layer.outputs[0]: layer for layer in program.layers}
    chain, name = [], "l0_norm2"
    while name in made and len(chain) < 8:
        chain.append(made[name].op)
        name = made[name].inputs[-1 if made[name].op == "fx_add" else 0]
    assert chain[:8] == [
        "fx_layer_norm", "fx_add", "fx_dequantize", "conv", "conv", "fx_quantize", "fx_layer_norm", "fx_add",
    ]  # fmt: skip


def test_heads_are_plain_products_and_boxes_end_in_a_sigmoid_of_31_bits(compiled):
    (numbers,) = compiled.numbers
    assert numbers.formats["class"].fraction_bits == 15
    assert numbers.formats["box"].fraction_bits == 31
    assert ops_of(compiled)[-1] == "fx_lut"


def test_both_engines_make_the_same_bits_close_to_the_float_model(folder, compiled, float_outputs):
    artefact = axm.read(folder / "small.axm")
    models = [CompiledModel(artefact, engine=engine) for engine in ("native", "reference")]
    for image, right in zip(samples(2, 9), float_outputs, strict=True):
        one, other = (model.run({"image": image}).outputs for model in models)
        for name, want in right.items():
            np.testing.assert_array_equal(one[name], other[name])
            noise = float(np.square(one[name] - want).sum())
            assert 10 * np.log10(float(np.square(want).sum()) / noise) > LEAST_DB


def test_the_log_has_the_table_of_formats(folder, tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="axtool"):
        options = Options(target="qc-u-1d5-8mb", calib=(str(folder / "calib"),), recipe=str(folder / "mixed.yaml"))
        compile_file(folder / "small.onnx", tmp_path / "again.axm", options, Silent())
    lines = [record.getMessage() for record in caplog.records]
    table = lines[next(at for at, line in enumerate(lines) if line.startswith("source name")) :]
    assert any(line.startswith("l0_sum1 ") and line.endswith("  24") for line in table)
    assert any(line.startswith("box ") and line.endswith("  31") for line in table)
