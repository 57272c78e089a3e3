# ruff: noqa: E501 (a fault is one line)
"""A legal program passes; each way to be illegal is refused with its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from axtool.plan.check_program import verify_program
from axtool.types import Layer, Program, QFormat
from tests.plan.lower_case import Case

WIDE = {"format": QFormat("int16", (1.0,)), "shape": (1, 6, 6, 8)}
GRAPH = """(float[1,4,6,6] x) => (float[1,8,3,3] y) {
  a = Conv<pads=[1,1,1,1]>(x, w) b = Sigmoid(a) c = MaxPool<kernel_shape=[2,2], strides=[2,2]>(b)
  d = Relu(c) y = Concat<axis=1>(c, d) }"""


@pytest.fixture(scope="module")
def program() -> Program:
    return Case(GRAPH, w=(4, 4, 3, 3)).lowered()


def with_layer(program: Program, at: int, change: Callable[[Layer], Layer]) -> Program:
    layers = list(program.layers)
    layers[at] = change(layers[at])
    return replace(program, layers=tuple(layers))


def with_attrs(program: Program, at: int, **attrs: object) -> Program:
    return with_layer(program, at, lambda layer: replace(layer, attrs={**layer.attrs, **attrs}))


def with_tensor(program: Program, name: str, **fields: object) -> Program:
    changed = replace(program.tensors[name], **fields)  # type: ignore[arg-type]
    return replace(program, tensors={**program.tensors, name: changed})


def with_constant(program: Program, kind: str, change: Callable[[np.ndarray], np.ndarray]) -> Program:
    name = next(name for name in program.constants if name.endswith(kind))
    values = change(program.constants[name])
    wide = with_tensor(program, name, shape=values.shape)
    return replace(wide, constants={**program.constants, name: values})


def without_attr(layer: Layer) -> Layer:
    return replace(layer, attrs={name: value for name, value in layer.attrs.items() if name != "stride"})


def renamed(program: Program) -> Program:
    return replace(program, tensors={**program.tensors, "x": replace(program.tensors["x"], name="z")})


FAULTS: dict[str, tuple[Callable[[Program], Program], str]] = {
    "an op that is none": (lambda p: with_layer(p, 0, lambda x: replace(x, op="fft")), "is no device op"),
    "an attribute is missing": (lambda p: with_layer(p, 0, without_attr), r"attributes \['stride'\] are missing or unknown"),
    "an attribute too many": (lambda p: with_attrs(p, 0, colour=1), r"attributes \['colour'\]"),
    "a kernel of one number": (lambda p: with_attrs(p, 0, kernel=(3,)), "want 2 integers"),
    "bounds that cross": (lambda p: with_attrs(p, 0, lo=5, hi=4), "lo 5 is above hi 4"),
    "layers out of order": (lambda p: replace(p, layers=p.layers[::-1]), "before it is made"),
    "two writers": (lambda p: replace(p, layers=(p.layers[0], *p.layers)), "already has a value"),
    "an output nobody makes": (lambda p: replace(p, outputs=("z",)), "output 'z' is not made"),
    "an output listed twice": (lambda p: replace(p, outputs=("y", "y")), "listed twice"),
    "a read of the unknown": (lambda p: with_layer(p, 1, lambda x: replace(x, inputs=("ghost",))), "nothing describes"),
    "a name that is another": (renamed, "calls itself 'z'"),
    "an activation in float32": (lambda p: with_tensor(p, "c", format=QFormat("float32")), "'c' is float32"),
    "int16 in the bytes of int8": (lambda p: with_tensor(p, "c", format=QFormat("int16", (1.0,))), "3, 3, 4.*wants.*3, 3, 8"),
    "int16 with a zero point": (lambda p: with_tensor(p, "c", format=QFormat("int16", (1.0,), (4,))), "int16 with zero"),
    "a maximum of int16": (
        lambda p: with_tensor(with_tensor(p, "b", **WIDE), "c", **WIDE), "layer 'a' .* counts 1 bytes|two bytes"),
    "a batch of two": (lambda p: with_tensor(p, "x", shape=(2, 6, 6, 4)), r"want \(1, h, w, c\)"),
    "a shape that is not the stored one": (lambda p: with_tensor(p, "x", onnx_shape=(1, 4, 6, 7)), "is stored as"),
    "a pool that rescales": (lambda p: with_tensor(p, "c", format=QFormat("int8", (0.5,))), "cannot change a format"),
    "a concat that copies another format": (lambda p: with_tensor(with_attrs(p, 3, parts=(0, 0, 0, 0, 4, 0, 0, 0)), "y", format=QFormat("int8", (0.5,))), "another format"),
    "a concat with a gap": (lambda p: with_attrs(p, 3, parts=(0, 0, 1, 0, 5, 0, 1, 0)), r"\(concat\)"),
    "weights cut short": (lambda p: with_constant(p, "/weights", lambda x: x[:-1]), "constant 'b/weights' has"),
    "an interpolated table cut short": (lambda p: with_constant(p, "b/table", lambda x: x[:-1]), "constant 'b/table' has"),
    "params of another type": (lambda p: with_constant(p, "/params", lambda x: x.astype(np.int16)), "described as int32"),
    "no table for a lut": (lambda p: with_layer(p, 2, lambda x: replace(x, inputs=x.inputs[:1])), "has 0 constants, want 1"),
}  # fmt: skip


def test_a_lowered_program_is_legal(program: Program) -> None:
    assert [layer.op for layer in program.layers] == ["conv", "max_pool", "lut", "concat"]
    verify_program(program)


@pytest.mark.parametrize("fault", FAULTS)
def test_an_illegal_program_is_refused(program: Program, fault: str) -> None:
    break_it, reason = FAULTS[fault]
    with pytest.raises(ValueError, match=reason):
        verify_program(break_it(program))
