"""Programs of any shape, on every chip that comes with the package, in small memories: legal, and the bits of a plan
that computes each layer at once.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axtool.errors import FitError
from axtool.plan.build import plan
from axtool.plan.check_plan import verify_plan
from axtool.plan.whole import whole_plan
from axtool.sim.engine import native_available
from axtool.target import Target
from axtool.target_file import list_targets, load_target
from axtool.types import Program
from tests.plan.hand_programs import Net, feeds_of, run

ENGINE = "native" if native_available() else "reference"
CHIPS = {name: load_target(name) for name in list_targets()}
SIZES = (None, 4, 8, 16, 64)  # KiB on chip; None: as the chip has
LARGEST = 10_000  # elements of a tensor
GROWTHS = (
    "conv", "conv", "depthwise", "add", "add", "mul", "constant", "concat", "concat", "concat", "slice", "slice",
    "rows", "pool", "mean", "lut", "resize", "reshape", "input",
)  # fmt: skip
MAPS = ((1, 1, 1), (1, 1, 40), (1, 30, 16), (9, 7, 3), (12, 12, 16), (20, 17, 34))


class Graph:
    """Grows one layer at a time from tensors picked at random: of any age, several times, of the same layer twice."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.net = Net(*random.choice(MAPS))
        self.pool = ["x"]

    def pick(self, like: tuple[int, ...] | None = None, free: int | None = None) -> str:
        """A tensor, often a young one; of the given dims but for the axis `free`."""
        fits = [n for n in self.pool if like is None or self._same(self.net.dims(n), like, free)]
        return self.random.choice(fits[-3:] if self.random.random() < 0.5 else fits)

    @staticmethod
    def _same(dims: tuple[int, ...], like: tuple[int, ...], free: int | None) -> bool:
        return all(a == b for axis, (a, b) in enumerate(zip(dims, like, strict=True)) if axis != free)

    def grow(self) -> None:
        net, random, x = self.net, self.random, self.pick()
        h, w, c = dims = net.dims(x)
        made = ""
        match random.choice(GROWTHS):
            case "conv":
                made = net.conv(x, random.choice((1, 8, c, 24)), random.choice((1, 3)), act=random.randint(0, 1))
            case "depthwise":
                made = net.depthwise(x)
            case "add":
                made = net.add(x, self.pick(dims))
            case "mul":
                made = net.mul(x, self.pick(dims))
            case "constant":
                made = net.add(x, net.operand(1, 1, c))
            case "concat":
                axis = random.randint(0, 2)
                made = self._concat([x, *(self.pick(dims, axis) for _ in range(random.randint(1, 4)))], axis)
            case "slice" if c > 1:
                start = random.randint(0, c - 1)
                made = net.slice(x, (0, 0, start), (1, 1, 1), (h, w, random.randint(1, c - start)))
            case "rows" if h > 1:
                start = random.randint(0, h - 1)
                made = net.slice(x, (start, 0, 0), (1, 1, 1), (random.randint(1, h - start), w, c))
            case "pool":
                made = net.max_pool(x, 3, random.randint(1, 2))
            case "mean":
                made = net.avg_pool(x, 0, 1, 0)
            case "lut":
                made = net.lut(x)
            case "resize" if h * w * c * 4 <= LARGEST:
                made = net.resize(x)
            case "reshape":
                made = net.reshape(x, (h * w, 1, c))
            case "input":
                made = net.input(f"input{len(net.inputs)}", *dims)
        if made:
            self.pool.append(made)

    def _concat(self, names: list[str], axis: int) -> str:
        """Mostly parts that keep their format, which need no copy."""
        net = self.net
        if sum(np.prod(net.dims(name)) for name in names) > LARGEST:
            return ""
        made = net.concat(*names, axis=axis)
        layer = net.layers[-1]
        parts = [0 if i % 4 == 2 and self.random.random() < 0.8 else v for i, v in enumerate(layer.attrs["parts"])]
        net.layers[-1] = replace(layer, attrs={**layer.attrs, "parts": tuple(parts)})
        return made

    def program(self) -> Program:
        """Outputs are what nobody reads, and some of what is read."""
        net = self.net
        net.lut(self.pick())
        read = {name for layer in net.layers for name in layer.inputs}
        made = [layer.outputs[0] for layer in net.layers]
        net.inputs = [name for name in net.inputs if name in read]
        return net.program(*(name for name in made if name not in read or self.random.random() < 0.2))


def grown(random: Random, layers: int) -> Program:
    graph = Graph(random)
    for _ in range(layers):
        graph.grow()
    return graph.program()


def sized(chip: Target, kib: int | None) -> Target:
    return chip if kib is None else replace(chip, memory=replace(chip.memory, ocm_bytes=kib * 1024))


def same_bits(program: Program, chip: Target) -> None:
    """The plan is legal and gives the bits of the whole plan; a memory that is too small is refused as that."""
    try:
        built = plan(program, chip)
    except FitError:
        return
    verify_plan(built, chip)
    feeds = feeds_of(program)
    expected = run(whole_plan(program, chip), feeds, ENGINE)
    for name, values in run(built, feeds, ENGINE).items():
        np.testing.assert_array_equal(values, expected[name], err_msg=name)


CASES = (
    st.randoms(use_true_random=False),
    st.integers(1, 14),
    st.sampled_from(sorted(CHIPS)),
    st.sampled_from(SIZES),
)


@given(*CASES)
@settings(max_examples=25, deadline=None)
def test_any_graph_has_the_same_bits_on_every_chip(random: Random, layers: int, chip: str, kib: int | None):
    same_bits(grown(random, layers), sized(CHIPS[chip], kib))


@pytest.mark.slow
@given(*CASES)
@settings(max_examples=400, deadline=None)
def test_many_graphs_have_the_same_bits_on_every_chip(random: Random, layers: int, chip: str, kib: int | None):
    same_bits(grown(random, layers), sized(CHIPS[chip], kib))
