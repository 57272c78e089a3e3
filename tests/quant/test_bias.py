"""Bias correction: the mean of an output channel is that of the float layer, up to what int32 rounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from axtool.quant.bias import correct_bias, tap_shares
from axtool.quant.formats import int8_format
from axtool.quant.means import MOST, ChannelMeans, averaged_axes, channel_mean
from axtool.quant.weights import quantize_weights
from axtool.types import QFormat, Site, Weights

IN, OUT = int8_format(-1, 3), int8_format(-20, 20)


def conv(rng: np.random.Generator, *, group: int = 1, transposed: bool = False, **attrs: Any) -> Site:
    """A convolution 6 -> 8 channels of an 7 x 9 image, with weights that round badly."""
    cin, cout, kernel = 6, 8 if group == 1 else 6, attrs.get("kernel", (3, 3))
    shape = (cin, cout // group, *kernel) if transposed else (cout, cin // group, *kernel)
    weights = rng.normal(0, 1, shape).astype(np.float32) ** 3
    defaults = {"kernel": kernel, "strides": (1, 1), "dilations": (1, 1), "pads": (0, 0, 0, 0), "group": group}
    attrs = {**defaults, **attrs}
    op = "ConvTranspose" if transposed else "Conv"
    made = (1, cout, *(_size(op, attrs, axis, size) for axis, size in enumerate((7, 9))))
    bias = rng.normal(0, 1, cout).astype(np.float32)
    return Site(
        op, op, 0, ("x", "w", "b"), ("y",), attrs, {"x": (1, cin, 7, 9), "y": made}, {}, {"w": weights, "b": bias}
    )


def _size(op: str, a: dict[str, Any], axis: int, size: int) -> int:
    pads = a["pads"][axis] + a["pads"][axis + 2]
    reach = (a["kernel"][axis] - 1) * a["dilations"][axis] + 1
    stride = a["strides"][axis]
    return (size + pads - reach) // stride + 1 if op == "Conv" else (size - 1) * stride + reach - pads


def outputs(
    site: Site, weights: NDArray[np.float64], bias: NDArray[np.float64], x: NDArray[Any]
) -> NDArray[np.float64]:
    """The layer as a loop over its taps: (n, cout, h, w)."""
    a, made = site.attrs, site.shapes["y"]
    y = np.zeros((len(x), *made[1:])) + bias[:, None, None]
    group, cin, cout = a["group"], x.shape[1], made[1]
    for oc in range(cout):
        for k in range(cin // group):
            ic = oc // (cout // group) * (cin // group) + k
            taps = weights[oc, k] if site.op == "Conv" else weights[ic, oc % (cout // group)]
            for ky, kx in np.ndindex(*a["kernel"]):
                at = (ky * a["dilations"][0] - a["pads"][0], kx * a["dilations"][1] - a["pads"][1])
                _add(y[:, oc], x[:, ic], taps[ky, kx], a["strides"], at, site.op)
    return y


def _add(y: NDArray[Any], x: NDArray[Any], tap: float, strides: tuple[int, int], at: tuple[int, int], op: str) -> None:
    small, large = (y, x) if op == "Conv" else (x, y)
    for i, j in np.ndindex(*small.shape[1:]):
        r, c = i * strides[0] + at[0], j * strides[1] + at[1]
        if 0 <= r < large.shape[1] and 0 <= c < large.shape[2]:
            target, value = (y[:, i, j], x[:, r, c]) if op == "Conv" else (y[:, r, c], x[:, i, j])
            target += tap * value


def quantized(site: Site) -> Weights:
    return quantize_weights(site, IN, OUT)[0]


def real(weights: Weights, site: Site) -> NDArray[np.float64]:
    scale = weights.scale.astype(np.float64)
    if site.op == "Conv":
        return weights.values * scale[:, None, None, None]
    return (
        weights.values * scale.reshape(1, -1, 1, 1)
        if site.attrs["group"] == 1
        else weights.values * scale[:, None, None, None]
    )


CASES = {
    "plain": {},
    "padded": {"pads": (1, 1, 1, 1)},
    "strided and unevenly padded": {"pads": (0, 1, 2, 0), "strides": (2, 3)},
    "dilated": {"pads": (2, 2, 2, 2), "dilations": (2, 2)},
    "depthwise": {"group": 6, "pads": (1, 1, 1, 1)},
    "1 x 1": {"kernel": (1, 1)},
    "transposed": {"transposed": True, "strides": (2, 2), "pads": (1, 0, 0, 1)},
    "transposed depthwise": {"transposed": True, "group": 6, "strides": (2, 2)},
}


@pytest.mark.parametrize("case", CASES)
def test_constant_channels_give_the_mean_of_the_float_layer(case: str) -> None:
    rng = np.random.default_rng(5)
    site = conv(rng, **CASES[case])
    level = rng.uniform(0, 3, 6)
    x = np.broadcast_to(level[None, :, None, None], (1, 6, 7, 9))
    weights = quantized(site)
    fixed = correct_bias(site, weights, IN, tuple(level))
    wanted = outputs(site, site.constants["w"].astype(float), site.constants["b"].astype(float), x).mean((0, 2, 3))
    plain = outputs(site, real(weights, site), weights.bias.astype(float), x).mean((0, 2, 3))
    better = outputs(site, real(fixed, site), fixed.bias.astype(float), x).mean((0, 2, 3))
    assert np.abs(wanted - better).max() < 1e-3 < np.abs(wanted - plain).max()


def test_weights_stay_as_they_are() -> None:
    site = conv(np.random.default_rng(1))
    weights = quantized(site)
    fixed = correct_bias(site, weights, IN, (1.0,) * 6)
    assert np.array_equal(fixed.values, weights.values)
    assert np.array_equal(fixed.scale, weights.scale)


def test_means_of_another_number_of_channels_change_nothing() -> None:
    site = conv(np.random.default_rng(1))
    weights = quantized(site)
    assert correct_bias(site, weights, IN, (1.0,) * 5) is weights


def test_a_bias_that_would_leave_int32_stays() -> None:
    site = conv(np.random.default_rng(1))
    weights = replace(quantized(site), bias=np.full(8, 1e30, np.float32))
    assert np.array_equal(correct_bias(site, weights, IN, (1.0,) * 6).bias, weights.bias)


def test_an_unpadded_tap_meets_the_input_everywhere() -> None:
    assert tap_shares(conv(np.random.default_rng(1))).tolist() == [1.0] * 9


def test_a_tap_over_padding_meets_the_input_elsewhere_only() -> None:
    site = conv(np.random.default_rng(1), pads=(1, 1, 1, 1))
    assert np.allclose(tap_shares(site).reshape(3, 3)[:, 1], [6 / 7, 1, 6 / 7])


def test_one_tap_of_a_strided_transposed_convolution_meets_a_quarter_of_the_outputs() -> None:
    site = conv(np.random.default_rng(1), transposed=True, strides=(2, 2), kernel=(2, 2))
    assert tap_shares(site).tolist() == [0.25] * 4


def test_a_matmul_has_its_channels_last_and_a_convolution_second() -> None:
    shapes = {"x": (1, 6, 7, 9), "t": (1, 5, 6)}
    weights = {"w": np.zeros((8, 6, 1, 1)), "m": np.zeros((6, 8))}
    sites = (
        Site("Conv", "c", 0, ("x", "w"), ("y",), {}, shapes, {}, weights),
        Site("MatMul", "m", 1, ("t", "m"), ("z",), {}, shapes, {}, weights),
    )
    assert averaged_axes(sites) == {"x": 1, "t": 2}


def test_a_mean_leaves_out_what_is_not_finite() -> None:
    assert channel_mean(np.array([[[1.0, np.inf]], [[np.nan, 3.0]]]).reshape(1, 2, 1, 2), 1).tolist() == [1.0, 3.0]


def test_means_are_the_same_however_the_samples_are_shared() -> None:
    rng = np.random.default_rng(2)
    arrays = [rng.normal(0, 1, (1, 3, 4, 4)) * 10.0**i for i in range(6)]
    whole, parts = ChannelMeans({"x": 1}), [ChannelMeans({"x": 1}), ChannelMeans({"x": 1})]
    for index, array in enumerate(arrays):
        whole.add(index, "x", array)
        parts[index % 2].add(index // 2, "x", array)
    for at, part in enumerate(parts):
        part.renumber(range(at, 6, 2))
    parts[1].merge(parts[0])
    assert parts[1].over_samples() == whole.over_samples()


def test_samples_beyond_the_limit_count_for_nothing() -> None:
    means = ChannelMeans({"x": 1})
    means.add(0, "x", np.ones((1, 1, 2, 2)))
    means.add(MOST, "x", np.full((1, 1, 2, 2), 9))
    assert means.over_samples() == {"x": (1.0,)}


def test_a_site_with_given_weights_is_not_corrected() -> None:
    from axtool.quant.formats import quantize_stage

    site = conv(np.random.default_rng(1))
    given = {"w": QFormat("int8", (0.02,), (0,))}
    ranges = {"x": (-1.0, 3.0), "y": (-20.0, 20.0)}
    plain = quantize_stage((site,), ranges, None, ("x",), ("y",), given)
    asked = quantize_stage((site,), ranges, None, ("x",), ("y",), given, {"x": (1.0,) * 6})
    assert np.array_equal(plain.weights["y"].bias, asked.weights["y"].bias)
