"""Tensors that are asked to be int16: their formats, whom they take along, and why some cannot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from axtool.errors import UsageError
from axtool.quant.bias import correct_bias
from axtool.quant.formats import ROOM, int16_format, quantize_stage, resolve, taken_over
from axtool.quant.weights import quantize_weights
from axtool.quant.wide import candidates
from axtool.types import QFormat, Site
from tests.plan.lower_case import Case, target

GRAPH = """(float[1,4,8,8] x) => (float[1,4,4,4] y) {
  a = Conv(x, w) b = Relu(a) c = Reshape(b, s) d = Conv(b, w) m = MaxPool<kernel_shape=[2,2], strides=[2,2]>(d)
  y = Sigmoid(m) }""".replace("c = Reshape(b, s) ", "")


@pytest.fixture(scope="module")
def case() -> Case:
    return Case(GRAPH, w=(4, 4, 1, 1))


def decided(case: Case, *wide: str) -> dict[str, str]:
    return {name: fmt.kind for name, fmt in case.quantization(wide).formats.items()}


def test_only_what_is_asked_for_is_int16(case: Case):
    assert set(decided(case).values()) == {"int8"}
    assert [name for name, kind in decided(case, "x").items() if kind == "int16"] == ["x"]


@pytest.mark.parametrize("name", ["a", "b"])
def test_any_tensor_of_a_group_makes_the_whole_group_int16(case: Case, name: str):
    assert [key for key, kind in decided(case, name).items() if kind == "int16"] == ["a", "b"]


def test_candidates_are_the_groups_whose_ops_all_have_a_form(case: Case):
    assert candidates(case.sites, case.inputs, case.outputs, target()) == ("x", "b", "y")


def test_a_chip_without_int16_has_no_candidates(case: Case):
    chip = replace(target(), formats=("int8",))
    assert candidates(case.sites, case.inputs, case.outputs, chip) == ()
    with pytest.raises(UsageError, match="t has no int16"):
        quantize_stage(case.sites, case.quantization().ranges, chip, case.inputs, case.outputs, wide=["x"])


@pytest.mark.parametrize(("wide", "message"), [
    (["d"], "Conv .* makes 'd'|MaxPool .* reads 'd': MaxPool is for int8 only"),
    (["m"], "MaxPool .* reads 'd': MaxPool is for int8 only"),
    (["ghost"], "no tensor 'ghost' on the device"),
    (["d", "ghost"], "2 tensors cannot be int16"),
])  # fmt: skip
def test_what_cannot_be_int16_is_refused_with_the_op_that_has_no_form(case: Case, wide: list[str], message: str):
    with pytest.raises(UsageError, match=message) as caught:
        case.quantization(wide)
    assert caught.value.code == "not-int16"


def test_a_format_that_the_model_brings_is_not_widened(case: Case):
    given = {"x": QFormat("int8", (0.1,), (3,))}
    assert "x" not in candidates(case.sites, case.inputs, case.outputs, target(), given)
    with pytest.raises(UsageError, match="the model gives 'x' its format"):
        resolve(case.sites, case.quantization().ranges, target(), case.inputs, case.outputs, given, wide=["x"])


@pytest.mark.parametrize(("low", "high"), [(-1.0, 3.0), (-7.0, 0.0), (0.0, 1e-3), (2.0, 5.0)])
def test_int16_holds_its_range_and_room_beyond_around_zero(low: float, high: float):
    fmt = int16_format(low, high)
    assert fmt.zero_point == (0,)
    assert fmt.scale[0] * 32767 == pytest.approx(ROOM * max(-low, high))
    assert fmt.scale[0] == np.float32(fmt.scale[0])


def test_a_tensor_that_was_always_zero_has_a_scale():
    assert int16_format(0.0, 0.0).scale[0] > 0


def conv(*weights: float, bias: float = 0.0, pixels: int = 4) -> Site:
    """A 1x1 convolution of one channel for each weight."""
    w = np.array(weights, np.float32).reshape(-1, 1, 1, 1)
    shape = (1, 1, pixels, pixels)
    return Site(
        "Conv", "conv", 0, ("x", "w", "b"), ("y",),
        {"kernel": (1, 1), "strides": (1, 1), "dilations": (1, 1), "pads": (0, 0, 0, 0), "group": 1},
        {"x": shape, "y": (1, len(weights), pixels, pixels), "w": w.shape, "b": (len(weights),)}, {},
        {"w": w, "b": np.full(len(weights), bias, np.float32)},
    )  # fmt: skip


FINE = QFormat("int16", (2.0**-12,))


def test_small_weights_behind_int16_keep_their_bits():
    made, notes = quantize_weights(conv(0.5, 0.03, 0.001), FINE, QFormat("int8", (1.0,)))
    assert np.abs(made.values).min() > 100
    assert notes == ()


@pytest.mark.parametrize("weight", [0.5, 0.03, 0.001])
def test_the_multiplier_of_a_wide_sum_is_hardly_truncated(weight: float):
    out = QFormat("int8", (1.0,))
    made, _ = quantize_weights(conv(weight), FINE, out)
    multiplier = FINE.scale[0] * float(made.scale[0]) / out.scale[0] * 2.0**31
    assert multiplier / int(multiplier) - 1 < 2.0**-17
    assert made.values.reshape(-1)[0] * made.scale[0] == pytest.approx(weight, rel=0.02)


def test_a_bias_that_leaves_int32_in_the_fine_steps_of_int16_raises_the_weight_scale():
    made, notes = quantize_weights(conv(0.5, bias=1e5), FINE, QFormat("int8", (1.0,)))
    assert 1e5 / (FINE.scale[0] * float(made.scale[0])) < 2**31
    assert "weight scale raised" in notes[0]


@pytest.mark.parametrize("mean", [0.3, -2.0, 7.5])
def test_a_bias_is_corrected_alike_for_both_widths(mean: float):
    """The mean of what rounding the weights takes does not depend on the steps of the input."""
    site, out = conv(0.5, 0.31, -0.123), QFormat("int8", (0.1,))
    biases = []
    for source in (QFormat("int8", (8.0 / 127,)), QFormat("int16", (8.0 / 32767,))):
        made, _ = quantize_weights(site, source, out)
        made = replace(made, values=np.sign(made.values) * np.array([127, 100, 41], np.int8).reshape(-1, 1, 1, 1))
        biases.append(correct_bias(site, made, source, [mean]).bias)
    np.testing.assert_allclose(biases[0], biases[1], atol=2e-3)
    assert np.abs(biases[1]).max() > 0.01


def brought(case: Case, **given: QFormat) -> dict[str, QFormat]:
    return taken_over(given, case.sites, case.inputs, case.outputs, target())


def test_symmetric_int16_that_the_model_brings_is_taken_over(case: Case):
    fmt = QFormat("int16", (0.001,), (0,))
    assert brought(case, b=fmt) == {"b": fmt}
    ranges = {name: span for name, span in case.quantization().ranges.items() if name not in ("a", "b")}
    numbers = quantize_stage(case.sites, ranges, target(), case.inputs, case.outputs, {"b": fmt, "a": fmt})
    assert (numbers.formats["a"], numbers.formats["b"]) == (fmt, fmt)


def test_int16_with_a_zero_point_becomes_symmetric_over_the_same_values(case: Case):
    (made,) = brought(case, b=QFormat("int16", (0.001,), (-32768,))).values()
    assert made.zero_point == (0,)
    assert made.scale[0] * 32767 == pytest.approx(65.535)


def test_int16_that_the_model_brings_becomes_int8_where_an_op_has_no_form_for_it(case: Case):
    (made,) = brought(case, d=QFormat("int16", (0.001,), (0,))).values()
    assert made.kind == "int8"
    assert made.scale[0] * 255 == pytest.approx(65.535, rel=0.01)
