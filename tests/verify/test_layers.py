"""Layer by layer: a layer alone loses nothing but what rounding takes, whatever its sizes."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np
import onnx
import pytest

from axtool.quant.layer_figures import LayerFigures
from axtool.quant.layers import alone
from axtool.runtime.device import DeviceSession
from axtool.runtime.model import load
from axtool.verify.check import Request, verify
from axtool.verify.judge import Limits
from axtool.verify.layers import verify_layers
from tests import tiny
from tests.tiny import axtool

# Odd sizes and channel counts, so that no padded row or channel goes unnoticed.
GRAPH = """(float[1,3,17,13] x) => (float[1,10,17,13] y, float[1,7] z) {
  a = Conv <kernel_shape=[3,3], pads=[1,1,1,1]> (x, wa, ba)
  ra = Relu(a)
  b = Conv <kernel_shape=[3,3], pads=[1,1,1,1], group=5> (ra, wb)
  s = Add(ra, b)
  m = MaxPool <kernel_shape=[3,3], pads=[1,1,1,1]> (s)
  t = Sigmoid(s)
  y = Concat <axis=1> (m, t)
  e = AveragePool <kernel_shape=[2,2], strides=[2,2]> (m)
  p = GlobalAveragePool(e)
  f = Flatten(p)
  z = Gemm(f, wz, bz)
}"""
WEIGHTS = {"wa": (5, 3, 3, 3), "ba": (5,), "wb": (5, 1, 3, 3), "wz": (5, 7), "bz": (7,)}


@pytest.fixture(scope="module")
def request_(tmp_path_factory: pytest.TempPathFactory) -> Request:
    folder = tmp_path_factory.mktemp("layers")
    onnx.save(tiny.model(GRAPH, WEIGHTS), str(folder / "m.onnx"))
    np.savez(folder / "d.npz", x=np.random.default_rng(0).normal(size=(4, 3, 17, 13)).astype(np.float32))
    ran = axtool(
        "compile", folder / "m.onnx", "--calib", folder / "d.npz", "--method", "minmax", "-o", folder / "m.axm", "-q"
    )
    assert ran.code == 0, ran.err
    return Request(folder / "m.axm", folder / "m.onnx", (str(folder / "d.npz"),))


@pytest.fixture(scope="module")
def rows(request_: Request) -> list[LayerFigures]:
    return verify_layers(request_)


def test_every_layer_whose_tensor_the_float_model_has_is_judged(request_: Request, rows: list[LayerFigures]) -> None:
    names = [layer.outputs[0] for layer in load(request_.model).devices[0].program.layers]
    assert [row.layer.outputs[0] for row in rows] == names


def test_no_single_layer_loses_more_than_rounding(rows: list[LayerFigures]) -> None:
    figures = {row.layer.outputs[0]: row.single_db for row in rows}
    assert min(figures.values()) > 30, figures
    assert not any(row.bad for row in rows)


def test_the_accumulated_error_of_an_output_is_the_models(request_: Request, rows: list[LayerFigures]) -> None:
    outputs = {comparison.name: comparison for comparison in verify(request_, Limits()).outputs}
    for row in rows:
        if row.layer.outputs[0] in outputs:
            assert row.accumulated_db == pytest.approx(outputs[row.layer.outputs[0]].sqnr_db, abs=1e-3)


def test_ranges_of_the_data_itself_cut_nothing_off(rows: list[LayerFigures]) -> None:
    assert all(row.to_dict()["saturated_share"] == 0 for row in rows)


def test_every_value_of_every_sample_is_counted(request_: Request, rows: list[LayerFigures]) -> None:
    tensors = load(request_.model).devices[0].program.tensors
    assert [row.values for row in rows] == [4 * prod(tensors[row.layer.outputs[0]].shape) for row in rows]


def test_a_layer_alone_gives_the_bits_that_it_gives_in_the_model(request_: Request) -> None:
    from axtool.plan.build import plan
    from axtool.target_file import target_from_dict

    model = load(request_.model)
    (device,) = model.devices
    program = device.program
    target = target_from_dict(model.artefact.target)
    x = np.load(Path(request_.data[0]))["x"][:1]
    made = [name for layer in program.layers for name in layer.outputs]
    inputs = {name: device.quantize(name, x) for name in program.inputs}
    tensors = {**inputs, **device.run_quantized(inputs, watch=made)}
    for layer in program.layers:
        session = DeviceSession(plan(alone(program, layer), target))
        result = session.run_quantized({name: tensors[name] for name in session.program.inputs})
        np.testing.assert_array_equal(result[layer.outputs[0]], tensors[layer.outputs[0]], err_msg=layer.name)
