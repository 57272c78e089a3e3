"""Formats of fx32 and fp16 tensors: those that a compiler printed for its network, and the rules one by one."""

import json
from pathlib import Path

import numpy as np
import pytest

from axtool.errors import UsageError
from axtool.quant.formats import quantize_stage, resolve
from axtool.quant.ties import observed_names, tie
from axtool.target_file import load_target
from axtool.types import QFormat, Site

PRINTED = json.loads((Path(__file__).parents[1] / "ops" / "data" / "fixed_point_formats.json").read_text())
TARGET = load_target("qc-u-1d5-8mb")
WIDE = (-1e6, 1e6)


def site(op, inputs, out, constants=(), **attrs):
    names = (*inputs, *constants, out)
    return Site(
        op, out, ord(out[0]), (*inputs, *constants), (out,), attrs,
        shapes=dict.fromkeys(names, (1, 4, 8)), dtypes=dict.fromkeys(names, "float32"),
        constants={name: np.ones((8,) if op == "Add" else (8, 8), np.float32) for name in constants},
    )  # fmt: skip


def bits(sites, ranges, precision, inputs, outputs):
    decided = resolve(sites, ranges, TARGET, inputs, outputs, precision=precision)
    return {decision.tensor: decision.format.fraction_bits for decision in decided}


def stage_of(rule, lo, hi):
    """(sites, ranges, precision by tensor) that make 'y' by a rule; some rules are about what lies around it."""
    fx = {"x": "fx32", "y": "fx32"}
    spans = {"x": (-10.0, 10.0), "y": (lo, hi)}
    product, sum_ = site("MatMul", ["x"], "m", ["w"]), site("Add", ["m"], "a", ["b"])
    norm = site("LayerNormalization", ["x"], "y")
    match rule:
        case "fp16_op":
            return [product, site("Add", ["m"], "y", ["b"])], spans, fx | {"m": "fp16", "y": "fp16"}
        case "ffn_block" | "layer_norm":
            return [norm], spans, fx
        case "keep" if lo == 0:  # behind a product and its bias
            inside = {"m": (-hi, hi), "a": (-hi, hi)}
            return [product, sum_, site("Relu", ["a"], "y")], spans | inside, fx | {"m": "fp16", "a": "fx32"}
        case "keep":
            before = site("LayerNormalization", ["x"], "n")
            return [before, site("Unsqueeze", ["n"], "y")], spans | {"n": (lo, hi)}, fx | {"n": "fx32"}
        case "concatenate":
            parts = [site("LayerNormalization", ["x"], name) for name in ("n", "o")]
            ends = {"n": (lo, lo / 2), "o": (0.0, hi)}
            return [*parts, site("Concat", ["n", "o"], "y")], spans | ends, fx | {"n": "fx32", "o": "fx32"}
        case "residual_add":
            inside = {"m": "fp16", "a": "fp16"}
            return [product, sum_, site("Add", ["a", "x"], "y")], spans | {"a": (-1.0, 1.0)}, fx | inside
        case "fp16_matmul_add":
            return [product, site("Add", ["m"], "y", ["b"])], spans | {"m": (lo, hi)}, fx | {"m": "fp16"}
        case "sigmoid":
            return [site("Sigmoid", ["x"], "y")], spans, fx
    raise AssertionError(rule)


def test_all_printed_formats_come_out_of_the_quantizer():
    got = []
    for rule, lo, hi, _ in PRINTED["formats"]:
        sites, ranges, precision = stage_of(rule, lo, hi)
        got.append([rule, lo, hi, bits(sites, ranges, precision, ["x"], ["y"])["y"]])
    assert len(got) == 67  # 66 rows of its table, and the Sigmoid that is an output
    assert got == PRINTED["formats"]


def test_what_only_fp16_sites_read_stays_fp16():
    sites = [site("MatMul", ["x"], "m", ["w"]), site("Reshape", ["m"], "r"), site("MatMul", ["r", "r"], "y")]
    precision = {"m": "fp16", "y": "fp16"}
    made = quantize_stage(
        sites, {"x": (-1, 1), "m": (-9, 9), "y": (-50, 50)}, TARGET, ["x"], ["y"], precision=precision
    )
    assert made.formats["m"] == made.formats["r"] == QFormat("fp16")
    assert made.formats["y"] == QFormat("fx32", fraction_bits=15)
    assert made.formats["x"].kind == "int8"
    assert not made.weights


def test_values_that_could_leave_fp16_are_fx32():
    sites = [site("MatMul", ["x"], "m", ["w"]), site("MatMul", ["m", "m"], "y")]
    precision = {"m": "fp16", "y": "fp16"}
    made = quantize_stage(sites, {"x": (-1, 1), "m": WIDE, "y": (-50, 50)}, TARGET, ["x"], ["y"], precision=precision)
    assert made.formats["m"].kind == "fx32"


def test_an_int8_site_reads_fx32_in_int8_of_its_own_range():
    sites = [site("LayerNormalization", ["x"], "n"), site("MatMul", ["n"], "y", ["w"])]
    precision = {"x": "fx32", "n": "fx32"}
    ranges = {"x": (-1, 1), "n": (-10, 5), "y": (-3, 3)}
    made = quantize_stage(sites, ranges, TARGET, ["x"], ["y"], precision=precision, symmetric=["n"])
    assert made.read_as == {"n": QFormat("int8", (float(np.float32(10 / 127)),), (0,))}
    assert made.weights["y"].values.dtype == np.int8
    narrower = quantize_stage(
        sites, ranges, TARGET, ["x"], ["y"], precision=precision, symmetric=["n"], read_ranges={"n": (-4, 4)}
    )
    assert narrower.read_as["n"].scale == (float(np.float32(4 / 127)),)
    assert narrower.formats["n"] == made.formats["n"]


def test_the_form_of_int8_is_chosen_by_tensor():
    sites = [site("Conv", ["x"], "y", ["w"], group=1), site("Relu", ["y"], "z")]
    ranges = {"x": (-2, 1), "z": (0, 6)}
    made = quantize_stage(sites, ranges, TARGET, ["x"], ["z"], after_relu=["x", "z"])
    assert (made.formats["x"].zero_point, made.formats["z"].zero_point) == ((0,), (-128,))
    assert made.formats["z"].scale == (float(np.float32(6 / 255)),)
    assert quantize_stage(sites, ranges, TARGET, ["x"], ["z"], symmetric=["z"]).formats["z"].zero_point == (0,)


def test_the_sum_before_a_clamp_of_another_precision_has_a_range_of_its_own():
    sites = [site("Add", ["x", "x"], "a"), site("Relu", ["a"], "y")]
    assert observed_names(sites, ["x"], ["y"]) == ("x", "y")
    assert observed_names(sites, ["x"], ["y"], (), {"a": "fx32"}) == ("x", "a", "y")


def test_a_clamp_in_fx32_keeps_the_bits_of_its_input():
    sites = [site("Add", ["x", "x"], "a"), site("Relu", ["a"], "y")]
    assert tie(sites, ["x"], ["y"], (), {"a": "fx32", "y": "fx32"}).root["y"] == "a"
    got = bits(sites, {"x": (-1, 1), "a": (-100, 2)}, {"a": "fx32", "y": "fx32"}, ["x"], ["y"])
    assert got["y"] == got["a"] == 24


def test_a_range_that_fx32_cannot_hold_is_named():
    sites = [site("LayerNormalization", ["x"], "y")]
    with pytest.raises(UsageError, match="'y' cannot be fx32"):
        quantize_stage(sites, {"x": (-1, 1), "y": (0, 1e30)}, TARGET, ["x"], ["y"], precision={"y": "fx32"})
