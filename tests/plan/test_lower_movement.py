"""Chains of ops that only move values, against NumPy: every value arrives, whatever layouts the lowering chose."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from axtool.ops.limits import why_not
from axtool.plan.check_program import verify_program
from axtool.plan.lower import lower
from axtool.types import QFormat, Quantization, Site
from tests.plan.lower_case import run_whole, target

ONE = QFormat("int8", (1.0,), (0,))
EXAMPLES = 60
Array = NDArray[np.float32]


class Chain:
    """Sites made one by one beside the NumPy value of each tensor."""

    def __init__(self, x: Array) -> None:
        self.values: dict[str, Array] = {"x": x}
        self.sites: list[Site] = []

    def add(self, op: str, inputs: tuple[str, ...], made: Array, **attrs: Any) -> None:
        index = len(self.sites)
        out = f"t{index}"
        self.values[out] = np.ascontiguousarray(made)
        names = (*inputs, out)
        self.sites.append(
            Site(
                op, f"n{index}", index, inputs, (out,), attrs,
                shapes={name: self.values[name].shape for name in names},
                dtypes=dict.fromkeys(names, "float32"),
            )
        )  # fmt: skip


def transpose(chain: Chain, name: str, draw: st.DrawFn) -> None:
    x = chain.values[name]
    perm = (0, *(1 + axis for axis in draw(st.permutations(range(x.ndim - 1))))) if x.ndim > 1 else (0,)
    chain.add("Transpose", (name,), x.transpose(perm), perm=perm)


def reshape(chain: Chain, name: str, draw: st.DrawFn) -> None:
    x = chain.values[name]
    shape, left = [1], x.size
    for _ in range(draw(st.integers(0, 2))):
        divisor = draw(st.sampled_from([n for n in range(1, left + 1) if left % n == 0]))
        shape.append(divisor)
        left //= divisor
    chain.add("Reshape", (name,), x.reshape([*shape, left]))


def cut(chain: Chain, name: str, draw: st.DrawFn) -> None:
    x = chain.values[name]
    starts, steps, places = [0] * x.ndim, [1] * x.ndim, [slice(None)] * x.ndim
    axis = draw(st.integers(0, x.ndim - 1))
    step = draw(st.sampled_from([1, 2, -1]))
    start = draw(st.integers(0, x.shape[axis] - 1))
    starts[axis], steps[axis], places[axis] = start, step, slice(start, None, step)
    chain.add("Slice", (name,), x[tuple(places)], starts=tuple(starts), steps=tuple(steps))


def pad(chain: Chain, name: str, draw: st.DrawFn) -> None:
    x = chain.values[name]
    before, after = ([0, *(draw(st.integers(-1, 2)) for _ in x.shape[1:])] for _ in "ba")
    if x.ndim < 2 or any(n + min(b, 0) + min(a, 0) < 1 for n, b, a in zip(x.shape, before, after, strict=True)):
        return
    crop = tuple(slice(max(-b, 0), n - max(-a, 0)) for n, b, a in zip(x.shape, before, after, strict=True))
    widths = [(max(b, 0), max(a, 0)) for b, a in zip(before, after, strict=True)]
    value = np.pad(x[crop], widths, constant_values=7)
    if value.size <= 600:
        chain.add("Pad", (name,), value, before=tuple(before), after=tuple(after), mode="constant", value=7.0)


def concat(chain: Chain, name: str, draw: st.DrawFn) -> None:
    x = chain.values[name]
    alike = [other for other, y in chain.values.items() if y.ndim == x.ndim and y.shape[:-1] == x.shape[:-1]]
    other = draw(st.sampled_from(alike))
    value = np.concatenate([x, chain.values[other]], axis=-1)
    if value.size <= 600:
        chain.add("Concat", (name, other), value, axis=x.ndim - 1)


def largest(chain: Chain, name: str, draw: st.DrawFn) -> None:
    x = chain.values[name]
    if x.ndim > 2:
        chain.add("GlobalMaxPool", (name,), x.max(axis=tuple(range(2, x.ndim)), keepdims=True))


def repeat(chain: Chain, name: str, draw: st.DrawFn) -> None:
    x = chain.values[name]
    axis = draw(st.integers(1, x.ndim - 1)) if x.ndim > 2 else 0
    if axis and x.size <= 300:
        scales = tuple(2.0 if k == axis else 1.0 for k in range(x.ndim))
        rule = {"mode": "nearest", "coordinate": "asymmetric", "nearest": "floor"}
        chain.add("Resize", (name,), np.repeat(x, 2, axis), scales=scales, **rule)


STEPS: tuple[Callable[[Chain, str, st.DrawFn], None], ...] = (transpose, reshape, cut, pad, concat, largest, repeat)


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    shape = (1, *draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    values = np.arange(prod(shape)) * 37 % 255 - 127
    chain = Chain(values.astype(np.float32).reshape(shape))
    for _ in range(draw(st.integers(1, 6))):
        step = draw(st.sampled_from(STEPS))
        step(chain, draw(st.sampled_from(list(chain.values))), draw)
    return chain


@given(chains(), st.data())
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
def test_every_value_arrives_in_its_place(chain: Chain, data: st.DataObject) -> None:
    sites = [site for site in chain.sites if not why_not(site, target())]
    if len(sites) < len(chain.sites) or not sites:
        return  # a resize along the channels of one layout only: not for the device
    made = [site.outputs[0] for site in sites]
    outputs = tuple(dict.fromkeys([made[-1], *data.draw(st.lists(st.sampled_from(made), max_size=2))]))
    numbers = Quantization(dict.fromkeys(chain.values, ONE), {}, {})
    program = lower(sites, numbers, target(), ("x",), outputs)
    verify_program(program)
    results = run_whole(program, {"x": chain.values["x"]})
    for name in outputs:
        np.testing.assert_array_equal(results[name], chain.values[name])
