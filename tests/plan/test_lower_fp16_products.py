"""Attention and MatMul of two activations in fp16: operands converted once, numbers of the float model kept."""

from __future__ import annotations

import numpy as np
import pytest

from axtool.errors import FitError
from axtool.ops.fixed_point import from_fx
from axtool.plan.build import plan
from axtool.plan.lower import lower
from axtool.types import Program, QFormat, Quantization
from tests.plan.hand_programs import run
from tests.plan.planned_bits import same_bits
from tests.plan.test_lower_attention import CHIP, Case, Reals, decibels, product

FP16 = QFormat("fp16")


def fx(bits: int) -> QFormat:
    return QFormat("fx32", fraction_bits=bits)


def attention(case: Case, out: QFormat) -> Program:
    formats = {**dict.fromkeys(case.feeds, FP16), "y": out, "y/scores": fx(24)}
    numbers = Quantization(formats, {}, {}, precision={"y": "fp16"})
    return lower((case.site,), numbers, CHIP, tuple(case.feeds), ("y",))


def real_output(program: Program, feeds: dict[str, Reals], name: str) -> Reals:
    stored = {n: x.astype("<f2").view(np.int8).reshape(program.tensors[n].shape[1:]) for n, x in feeds.items()}
    tensor = program.tensors[name]
    made = run(plan(program, CHIP), stored, "native")[name]
    if tensor.format.kind == "fp16":
        return made.view("<f2").astype(np.float32).reshape(tensor.onnx_shape)
    return from_fx(made.view("<i4"), tensor.format.fraction_bits or 0).reshape(tensor.onnx_shape)


@pytest.mark.parametrize("out", [fx(24), FP16], ids=["fx32", "fp16"])
@pytest.mark.parametrize(("length", "keys", "heads", "depth", "made", "mask"), [
    (600, 600, 8, 32, 32, ()), (100, 600, 8, 32, 32, ()), (1, 65, 1, 64, 64, ()), (33, 17, 2, 7, 3, ()),
    (40, 40, 12, 32, 32, (1, 1, 1, 40)), (40, 24, 2, 32, 32, (1, 1, 40, 24)),
])  # fmt: skip
def test_an_attention_in_fp16_is_the_float_attention(
    length: int, keys: int, heads: int, depth: int, made: int, mask: tuple[int, ...], out: QFormat
) -> None:
    case = Case(length, keys, heads, depth, made, mask)
    program = attention(case, out)
    assert [layer.op for layer in program.layers] == ["fp16_attention"]
    assert decibels(case.y, real_output(program, case.feeds, "y") - case.y) > 58


def test_a_planned_fp16_attention_has_the_bits_of_one_step() -> None:
    same_bits(attention(Case(1300, 70, 3, 12, 20), fx(22)))


@pytest.mark.parametrize("fixed", ["q", "k", "v"])
def test_an_operand_in_fp16_may_be_a_constant(fixed: str) -> None:
    case = Case(20, 30, 2, 16, 16, fixed=fixed)
    assert decibels(case.y, real_output(attention(case, fx(24)), case.feeds, "y") - case.y) > 58


def test_rows_of_fp16_scores_that_no_element_holds_are_refused_by_name() -> None:
    with pytest.raises(FitError, match=r"layer 0 fp16_attention 'a'.* 'k'"):
        plan(attention(Case(4, 800, 1, 32, 32), fx(24)), CHIP)


@pytest.mark.parametrize("out", [fx(15), FP16], ids=["fx32", "fp16"])
def test_a_product_of_two_activations_in_fp16_is_the_float_product(out: QFormat) -> None:
    site, feeds, y = product((1, 3, 20, 16), (1, 3, 16, 33))
    numbers = Quantization({"a": FP16, "b": FP16, "y": out}, {}, {}, precision={"y": "fp16"})
    program = lower((site,), numbers, CHIP, ("a", "b"), ("y",))
    assert [layer.op for layer in program.layers] == ["fp16_matmul"]
    same_bits(program)
    assert decibels(y, real_output(program, feeds, "y") - y) > 58
