"""Pads of sliding windows, against onnxruntime: explicit pads must do what auto_pad and output_shape did."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from axtool.graph.float_run import FloatModel
from axtool.graph.load import load_model
from axtool.graph.sites import sites_of
from axtool.types import Site
from tests.graph.load_models import model, node, save, value

Array = NDArray[Any]


def run(folder: Path, one: onnx.NodeProto, x: Array, **weights: Any) -> tuple[Site, Array]:
    """The site of the node, and what onnxruntime makes of x."""
    proto = model([one], [value("x", list(x.shape))], weights=weights, opset=19)
    loaded = load_model(save(folder, proto))
    (site,) = sites_of(loaded.model)
    return site, FloatModel(loaded.model, optimize="disabled").run({"x": x})["y"]


def noise(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


# onnxruntime has no dilated window with auto_pad, and no pool with a stride larger than its kernel.
WINDOWS = [
    dict(kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"),
    dict(kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_LOWER"),
    dict(kernel_shape=[4, 2], strides=[1, 2], auto_pad="SAME_UPPER"),
    dict(kernel_shape=[2, 5], strides=[3, 1], auto_pad="SAME_LOWER"),
    dict(kernel_shape=[5, 2], strides=[4, 2], auto_pad="SAME_UPPER"),
    dict(kernel_shape=[2, 2], strides=[2, 1], auto_pad="VALID"),
    dict(kernel_shape=[3, 3], pads=[0, 1, 2, 1]),
    dict(kernel_shape=[2, 2]),
]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("op", ["Conv", "MaxPool", "AveragePool"])
def test_resolved_pads_give_the_same_numbers(tmp_path: Path, op: str, window: dict[str, Any]) -> None:
    x = noise(1, 2, 7, 6)
    weights = {"w": noise(3, 2, *window["kernel_shape"])} if op == "Conv" else {}
    site, want = run(tmp_path, node(op, ["x", *weights], ["y"], **window), x, **weights)
    names = {"kernel": "kernel_shape", "strides": "strides", "dilations": "dilations", "pads": "pads"}
    explicit = {names[key]: list(v) for key, v in site.attrs.items() if key in names}
    _, got = run(tmp_path, node(op, ["x", *weights], ["y"], **explicit), x, **weights)
    np.testing.assert_array_equal(got, want)


def test_a_one_dimensional_window_gets_a_first_axis_of_one(tmp_path: Path) -> None:
    one = node("Conv", ["x", "w"], ["y"], pads=[1, 2], strides=[2], dilations=[3])
    site, _ = run(tmp_path, one, noise(1, 2, 20), w=noise(3, 2, 3))
    assert dict(site.attrs) == {
        "kernel": (1, 3), "strides": (1, 2), "dilations": (1, 3), "pads": (0, 1, 0, 2), "group": 1,
    }  # fmt: skip
    assert site.shapes["x"] == (1, 2, 20)


def test_a_three_dimensional_window_keeps_its_axes(tmp_path: Path) -> None:
    site, _ = run(tmp_path, node("Conv", ["x", "w"], ["y"]), noise(1, 2, 4, 4, 4), w=noise(3, 2, 3, 3, 3))
    assert site.attrs["kernel"] == (3, 3, 3)
    assert site.attrs["pads"] == (0,) * 6


def scatter(x: Array, w: Array, attrs: dict[str, Any]) -> Array:
    """ConvTranspose by its definition, with canonical pads: tap ky of row iy lands on row iy * s + ky * d - pad."""
    (kh, kw), (sh, sw), (dh, dw) = attrs["kernel"], attrs["strides"], attrs["dilations"]
    top, left, bottom, right = attrs["pads"]
    _, _, h, width = x.shape
    full_h, full_w = (h - 1) * sh + (kh - 1) * dh + 1, (width - 1) * sw + (kw - 1) * dw + 1
    out = np.zeros((w.shape[1], full_h + max(0, -bottom), full_w + max(0, -right)))
    for ky in range(kh):
        for kx in range(kw):
            part = np.einsum("ihw,io->ohw", x[0], w[:, :, ky, kx])
            out[:, ky * dh : ky * dh + h * sh : sh, kx * dw : kx * dw + width * sw : sw][:, :h, :width] += part
    return out[None, :, top : full_h - bottom, left : full_w - right]


TRANSPOSED = [
    dict(strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]),
    dict(strides=[2, 3], pads=[0, 1, 1, 0]),
    dict(strides=[2, 2], output_shape=[8, 8]),
    dict(strides=[2, 2], output_shape=[9, 10]),
    dict(strides=[2, 2], output_shape=[8, 8], auto_pad="SAME_UPPER"),
    dict(strides=[2, 2], output_shape=[7, 8], auto_pad="SAME_LOWER"),
    dict(strides=[2, 2], auto_pad="SAME_UPPER"),
    dict(strides=[2, 2], auto_pad="SAME_LOWER"),
    dict(strides=[3, 3], auto_pad="VALID"),
    dict(dilations=[2, 1]),
    dict(strides=[3, 2], dilations=[1, 2], output_padding=[2, 1]),
]


@pytest.mark.parametrize("window", TRANSPOSED)
def test_transposed_pads_account_for_all_that_shapes_the_output(tmp_path: Path, window: dict[str, Any]) -> None:
    x, w = noise(1, 2, 4, 4), noise(2, 3, 3, 3)
    site, want = run(tmp_path, node("ConvTranspose", ["x", "w"], ["y"], **window), x, w=w)
    np.testing.assert_allclose(scatter(x, w, dict(site.attrs)), want, rtol=1e-4, atol=1e-5)
    assert site.shapes["y"] == want.shape
