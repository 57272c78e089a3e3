"""Pools that round up have the shapes and the numbers of onnxruntime."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from axtool.graph.float_run import FloatModel
from axtool.graph.load import load_model
from tests.graph.load_models import model, node, save, value

DROPPED = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0, 1, 1, 1]}  # of a width of 3: a window behind the end
MIXED = {"kernel_shape": [2, 3], "strides": [2, 3], "pads": [0, 1, 0, 2]}  # a height of 5 needs the rounding up
NEEDED = {"kernel_shape": [2, 2], "strides": [2, 2]}
GAPS = {"kernel_shape": [2, 1], "strides": [2, 3], "pads": [0, 0, 0, 0]}


@pytest.mark.parametrize("opset", [11, 18, 22])
@pytest.mark.parametrize("pool", [DROPPED, MIXED, NEEDED, GAPS], ids=["dropped", "mixed", "needed", "gaps"])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "AveragePool, pads counted"])
def test_a_pool_that_rounds_up_is_the_one_of_onnxruntime(
    op: str, pool: dict[str, Any], opset: int, tmp_path: Path
) -> None:
    more = {"count_include_pad": 1} if "," in op else {}
    first = node(op.split(",")[0], ["x"], ["m"], ceil_mode=1, **pool, **more)
    proto = model([first, node("Relu", ["m"], ["y"])], [value("x", [1, 2, 5, 3])], opset=opset)
    x = np.random.default_rng(0).normal(0, 1, (1, 2, 5, 3)).astype(np.float32)
    loaded = load_model(save(tmp_path, proto))
    options = ort.SessionOptions()
    options.log_severity_level = 4  # it warns of shapes in the file, which has none
    (want,) = ort.InferenceSession(proto.SerializeToString(), options).run(["y"], {"x": x})
    assert tuple(loaded.model.graph.outputs[0].shape or ()) == want.shape
    np.testing.assert_array_equal(FloatModel(loaded.model).run({"x": x})["y"], want)
