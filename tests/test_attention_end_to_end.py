"""Transformers of several styles in int8: attention is a layer of the device, a mask its operand, the same bits in both
engines and the numbers of the float model.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from numpy.typing import NDArray

from axtool.artefact import axm
from axtool.artefact.stages import DeviceStage
from axtool.compiler import Compiled, compile_file
from axtool.options import Options
from axtool.runtime.model import CompiledModel
from tests.graph import transformer_models
from tests.test_mixed_end_to_end import Silent

Reals = dict[str, NDArray[np.float32]]
ATTENTIONS = {"bert": 2, "vit": 2, "segformer": 1, "yolo": 1}


def feeds(model: onnx.ModelProto, seed: int) -> Reals:
    """Random numbers; a mask keeps most of its keys, the first one always."""
    rng, made = np.random.default_rng(seed), {}
    for value in model.graph.input:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        made[value.name] = rng.normal(0, 1, shape).astype(np.float32)
        if value.name == "mask":
            made["mask"] = (rng.random(shape) < 0.7).astype(np.float32)
            made["mask"][0, 0] = 1
    return made


@pytest.fixture(scope="module", params=ATTENTIONS)
def built(request, tmp_path_factory) -> tuple[str, Path, Compiled]:
    folder = tmp_path_factory.mktemp(request.param)
    model = ir.to_proto(getattr(transformer_models, request.param)())
    onnx.save(model, str(folder / "m.onnx"))
    for seed in range(8):
        np.savez(folder / f"calib{seed}.npz", **feeds(model, seed))
    options = Options(target="qc-u-1d7-16mb", calib=tuple(str(folder / f"calib{seed}.npz") for seed in range(8)))
    return request.param, folder, compile_file(folder / "m.onnx", folder / "m.axm", options, Silent())


def test_every_attention_of_the_model_is_one_layer(built) -> None:
    name, _, compiled = built
    device = [stage for stage in compiled.artefact.stages if isinstance(stage, DeviceStage)]
    layers = [layer.op for stage in device for layer in stage.plan.program.layers]
    assert layers.count("attention") == ATTENTIONS[name]
    assert "matmul" not in layers


def test_both_engines_give_the_numbers_of_the_float_model(built) -> None:
    _, folder, _ = built
    model = onnx.load(str(folder / "m.onnx"))
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = feeds(model, 99)
    names = [value.name for value in model.graph.output]
    wanted = dict(zip(names, session.run(names, given), strict=True))
    artefact = axm.read(folder / "m.axm")
    made = [CompiledModel(artefact, engine=engine).run(given).outputs for engine in ("native", "reference")]
    for name in names:
        np.testing.assert_array_equal(made[0][name], made[1][name])
        noise = float(((made[0][name] - wanted[name]) ** 2).sum())
        assert 10 * np.log10(float((wanted[name] ** 2).sum()) / noise) > 15  # decibels, of random weights
