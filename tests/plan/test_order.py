"""Orders of layers: legal, never worse than the given one, and the best there is where all can be looked at."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from axtool.plan.memory import ALIGNMENT
from axtool.plan.order import activation_bytes, activations, order
from axtool.plan.order_search import search
from axtool.target_file import load_target
from axtool.types import Layer, Program, QFormat, Tensor
from tests.plan.hand_programs import Net

CHIP = load_target("qc-u-1d5-8mb")


def largest_live_set(program: Program, layers: tuple[Layer, ...], sizes: dict[str, int]) -> int:
    """From first principles: at each layer, what was made or fed by now and is read now or later, and its outputs."""
    most = 0
    for at, layer in enumerate(layers):
        later = {name for other in layers[at:] for name in other.inputs}
        earlier = {name for other in layers[:at] for name in (*other.inputs, *other.outputs)}
        alive = {name for name in sizes if name in earlier and name in later} | set(layer.outputs)
        alive |= {name for name in layer.inputs if name in sizes}
        most = max(most, sum(-(-sizes[name] // ALIGNMENT) * ALIGNMENT for name in alive))
    return most


def is_legal(program: Program, layers: tuple[Layer, ...]) -> bool:
    made = {*program.inputs, *program.constants}
    for layer in layers:
        if not made.issuperset(layer.inputs):
            return False
        made.update(layer.outputs)
    return True


@st.composite
def graphs(draw: st.DrawFn, most: int = 6) -> Program:
    """Layers that each read one or two of the tensors in front of them."""
    names = ["x"]
    layers = []
    for i in range(draw(st.integers(2, most))):
        chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
        layers.append(Layer("add", tuple(chosen), (f"t{i}",), {}, (), f"layer {i}"))
        names.append(f"t{i}")
    sizes = {name: draw(st.integers(1, 40)) for name in names}
    tensors = {name: Tensor(name, (1, 1, size, 64), QFormat("int8", (1.0,))) for name, size in sizes.items()}
    return Program(tensors, tuple(layers), {}, ("x",), (names[-1],))


def sizes_of(program: Program) -> dict[str, int]:
    return {name: activation_bytes(program, name, CHIP) for name in activations(program)}


@given(graphs())
@settings(max_examples=150, deadline=None)
def test_no_order_of_a_small_graph_has_a_lower_peak(program: Program):
    sizes = sizes_of(program)
    legal = [layers for layers in permutations(program.layers) if is_legal(program, layers)]
    best = min(largest_live_set(program, layers, sizes) for layers in legal)
    assert largest_live_set(program, order(program, CHIP).layers, sizes) == best


@given(graphs(most=14))
@settings(max_examples=100, deadline=None)
def test_an_order_is_legal_and_never_worse_than_the_given_one(program: Program):
    sizes, found = sizes_of(program), order(program, CHIP)
    assert sorted(layer.name for layer in found.layers) == sorted(layer.name for layer in program.layers)
    assert is_legal(program, found.layers)
    assert largest_live_set(program, found.layers, sizes) <= largest_live_set(program, program.layers, sizes)


def test_branches_that_shrink_run_one_after_the_other():
    net = Net(32, 32, 8)
    wide = [net.conv("x", 64) for _ in range(4)]
    program = net.program(net.concat(*(net.conv(name, 8) for name in wide)))
    found = order(program, CHIP)
    assert largest_live_set(program, found.layers, sizes_of(program)) < 32 * 32 * (8 + 2 * 64)


def test_a_chain_keeps_its_order():
    net = Net(16, 16, 8)
    x = "x"
    for _ in range(50):
        x = net.conv(x, int(np.random.default_rng(0).integers(8, 64)))
    program = net.program(x)
    assert search(program, sizes_of(program)) is None
    assert order(program, CHIP) is program
