"""Layers between formats: the immediates that a compiler printed, and which way they go."""

import json
from pathlib import Path

import numpy as np
import pytest

from axtool.errors import UsageError
from axtool.ops.arithmetic import LIMITS
from axtool.plan.convert import as_fx32, conversion
from axtool.types import QFormat

PRINTED = json.loads((Path(__file__).parents[1] / "ops" / "data" / "fixed_point_formats.json").read_text())


def fx(bits):
    return QFormat("fx32", fraction_bits=bits)


def int8(scale, zero=0):
    return QFormat("int8", (scale,), (zero,))


def test_all_printed_quantize_immediates_come_out_of_the_conversion():
    assert len(PRINTED["quantize"]) == 24
    for x_bits, shift, rest, inverse in PRINTED["quantize"]:
        scale = float(np.float32(2.0 ** (rest + shift - x_bits) / inverse))
        ((op, attrs, made),) = conversion(fx(x_bits), int8(scale))
        assert (op, made) == ("fx_quantize", int8(scale))
        assert (attrs["shift"], attrs["rest"], attrs["inverse"]) == (shift, rest, inverse)
        assert (attrs["x_bytes"], attrs["out_bytes"], attrs["lo"], attrs["hi"]) == (4, 1, *LIMITS["int8"])


def test_all_printed_dequantize_immediates_come_out_of_the_conversion():
    assert len(PRINTED["dequantize"]) == 25  # 24 of the linear layers, and one of the map that the backbone leaves
    for bits, shift, scale, zero in PRINTED["dequantize"]:
        have = int8(scale / 2**31, zero)
        ((op, attrs, made),) = conversion(have, as_fx32(have))
        assert (op, made) == ("fx_dequantize", fx(bits))
        assert (attrs["zp"], attrs["scale"], attrs["shift"]) == (zero, scale, shift)


@pytest.mark.parametrize(
    ("have", "want", "ops"),
    [
        (fx(20), fx(20), []),
        (fx(20), fx(24), ["fx_requantize"]),
        (int8(0.1), int8(0.2), ["requantize"]),
        (int8(0.1), QFormat("int16", (0.2,)), ["wide_requantize"]),
        (int8(0.1), fx(20), ["fx_dequantize", "fx_requantize"]),
        (QFormat("fp16"), fx(20), ["fx_from_fp16"]),
        (fx(20), QFormat("fp16"), ["fp16_from_fx"]),
        (QFormat("fp16"), int8(0.1), ["fx_from_fp16", "fx_quantize"]),
        (int8(0.1), QFormat("fp16"), ["fx_dequantize", "fp16_from_fx"]),
    ],
)
def test_the_way_between_two_formats(have, want, ops):
    steps = conversion(have, want)
    assert [op for op, _, _ in steps] == ops
    assert not steps or steps[-1][2] == want


def test_fp16_becomes_int8_by_fx32_that_holds_all_of_int8():
    (_, attrs, between), _ = conversion(QFormat("fp16"), int8(0.1, -100))
    assert between == fx(attrs["f"]) == fx(26)  # (127 + 100) * 0.1 is below 31


def test_there_is_no_way_to_a_format_of_the_host():
    with pytest.raises(ValueError, match="no layer makes float32 of fx32"):
        conversion(fx(20), QFormat("float32"))


def test_a_fixed_point_with_too_small_a_scale_behind_it_is_an_error_of_the_user() -> None:
    with pytest.raises(UsageError, match="cannot be rounded to int8") as caught:
        conversion(QFormat("fx32", fraction_bits=31), QFormat("int8", (2.0**-40,)))
    assert (caught.value.code, caught.value.hint[:24]) == ("not-fx32", "its range is too small f")
