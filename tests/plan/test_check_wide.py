"""Programs that take numbers of two bytes for others, or tear their bytes apart, are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from axtool.plan.check_program import verify_program
from axtool.types import Layer, Program, QFormat
from tests.plan.lower_case import Case

GRAPH = """(float[1,4,6,6] x) => (float[1,4,6,8] y, float[1,2,6,6] z, float[1,4,6,6] t)
  <int64[8] p = {0,0,0,1,0,0,0,1}, int64[2] two = {2,2}> {
  a = Relu(x) y = Pad(a, p) z, rest = Split<axis=1>(a, two) t = Concat<axis=1>(z, rest) }"""


@pytest.fixture(scope="module")
def program() -> Program:
    made = Case(GRAPH).lowered(wide=["a", "t"])
    assert [layer.op for layer in made.layers][:2] == ["wide_requantize", "pad"]
    return made


def changed(program: Program, op: str, change: Callable[[Layer], Layer]) -> Program:
    at = next(index for index, layer in enumerate(program.layers) if layer.op == op)
    layers = [change(layer) if index == at else layer for index, layer in enumerate(program.layers)]
    return replace(program, layers=tuple(layers))


def attrs(op: str, **values: object) -> Callable[[Program], Program]:
    return lambda program: changed(program, op, lambda layer: replace(layer, attrs={**layer.attrs, **values}))


def as_int8(name: str) -> Callable[[Program], Program]:
    def change(program: Program) -> Program:
        tensor = program.tensors[name]
        narrow = replace(tensor, format=QFormat("int8", tensor.format.scale), onnx_shape=())
        return replace(program, tensors={**program.tensors, name: narrow})

    return change


FAULTS: dict[str, tuple[Callable[[Program], Program], str]] = {
    "bytes that the output does not have": (as_int8("a"), "counts 2 bytes a number in 'a', which has 1"),
    "a slice that begins inside a number": (attrs("slice", start=(0, 0, 1)), "tears them apart"),
    "a slice that leaves out bytes": (attrs("slice", start=(0, 0, 7), step=(1, 1, -1)), "tears them apart"),
    "padding by half a number": (attrs("pad", before=(0, 1, 1)), "tears them apart"),
    "padding with bytes that are not zero": (attrs("pad", value=3), "tears them apart"),
    "channels that are mirrored byte by byte": (attrs("pad", before=(0, 1, 2), mode=1), "tears them apart"),
    "a concat that rescales bytes": (attrs("concat", parts=(0, 0, 1 << 30, 31, 4, 0, 0, 0)), "tears them apart"),
    "a move from two bytes to one": (as_int8("y"), "does not take them|cannot change a format"),
}


def test_the_program_is_legal_as_it_is(program: Program):
    verify_program(program)


@pytest.mark.parametrize("fault", FAULTS)
def test_an_illegal_program_of_wide_numbers_is_refused(program: Program, fault: str):
    break_it, reason = FAULTS[fault]
    with pytest.raises(ValueError, match=reason):
        verify_program(break_it(program))
