"""The table of fx32 and fp16 formats that a compile says."""

import numpy as np

from axtool.quant.format_table import FormatRow, format_lines, format_rows
from axtool.quant.formats import quantize_stage
from axtool.quant.layer_figures import LayerFigures, Rounded
from axtool.types import Layer, QFormat, Quantization
from tests.quant.test_mixed import TARGET, site


def numbers() -> tuple[list, Quantization]:
    sites = [
        site("MatMul", ["x"], "m", ["w"]), site("Add", ["m"], "a", ["b"]), site("LayerNormalization", ["a"], "n"),
        site("MatMul", ["n"], "q", ["w"]), site("MatMul", ["q", "q"], "y"),
    ]  # fmt: skip
    ranges = {"x": (-1, 1), "a": (-41.7654, 67.4873), "n": (-7, 10), "q": (-2, 2), "y": (-9, 3)}
    precision = {"m": "fp16", "a": "fp16", "n": "fx32", "q": "fp16", "y": "fp16"}
    return sites, quantize_stage(sites, ranges, TARGET, ["x"], ["y"], precision=precision)


def test_a_row_for_each_tensor_that_the_device_makes_so():
    assert format_rows(*numbers()) == (
        FormatRow("a", "Add", "a", -41.7654, 67.4873, 22),
        FormatRow("n", "LayerNormalization", "n", -7, 10, 27),
        FormatRow("q", "MatMul", "q", -2, 2, None),
        FormatRow("y", "MatMul", "y", -9, 3, 15),
    )


def test_the_columns_line_up_and_name_what_they_hold():
    first, *rows = format_lines(format_rows(*numbers()))
    assert first.split("  ")[0] == "source name"
    assert first.endswith("fraction bits")
    assert len({row.rindex("[") for row in rows}) == 1
    assert rows[0].endswith("[-41.7654, 67.4873]  22")
    assert rows[2].endswith("fp16")


def test_a_model_in_int8_has_no_table():
    sites = [site("MatMul", ["x"], "y", ["w"])]
    made = quantize_stage(sites, {"x": (-1, 1), "y": (-1, 1)}, TARGET, ["x"], ["y"])
    assert format_lines(format_rows(sites, made)) == []


def test_errors_of_fx32_are_counted_in_real_units():
    fmt = QFormat("fx32", fraction_bits=8)
    values = Rounded(np.array([[[0.5, 1.0 + 2**-10]]], np.float32), fmt)
    assert values.codes.tolist() == [[128, 256]]
    figures = LayerFigures(0, Layer("fx_add", ("x",), ("y",)), fmt)
    figures.add(values, np.array([0.5, 1.0], np.float32), np.array([0.25, 1.0], np.float32))
    assert figures.stored == 2.0**-20
    assert figures.largest == 2.0**-10
    assert figures.single == 0.25**2 + 2.0**-20
    assert figures.used_levels is None
