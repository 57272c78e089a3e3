"""Attention and MatMul of two activations as layers: the numbers of the float model within the steps of int8."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from axtool.errors import FitError
from axtool.ops.arithmetic import dequantize, quantize_host
from axtool.ops.limits import why_not
from axtool.plan.build import plan
from axtool.plan.check_plan import verify_plan
from axtool.plan.lower import lower
from axtool.quant.formats import quantize_stage
from axtool.target import Target
from axtool.target_file import load_target
from axtool.timing.cost import CostModel
from axtool.types import Program, QFormat, Quantization, Site
from tests.plan.hand_programs import run
from tests.plan.planned_bits import same_bits

CHIP = load_target("qc-u-1d7-16mb")
Reals = NDArray[np.float32]


def attention(q: Reals, k: Reals, v: Reals, heads: int, scale: float, mask: Reals | None = None) -> tuple[Reals, Reals]:
    """Context and scores of the float model."""

    def split(x: Reals) -> Reals:
        return x.reshape(x.shape[1], heads, -1).transpose(1, 0, 2)

    scores = split(q) @ split(k).transpose(0, 2, 1) * np.float32(scale)
    masked = scores if mask is None else scores + mask.reshape(-1, mask.shape[-1])
    e = np.exp(masked - masked.max(axis=2, keepdims=True))
    context = (e / e.sum(axis=2, keepdims=True)) @ split(v)
    return context.transpose(1, 0, 2).reshape(1, q.shape[1], -1), scores[None]


class Case:
    """One Attention with random operands: its site, float numbers and quantization."""

    def __init__(
        self, length: int, keys: int, heads: int, depth: int, made: int, mask: tuple[int, ...] = (), fixed: str = ""
    ) -> None:
        rng = np.random.default_rng([length, keys, heads])
        shapes = {"q": (1, length, heads * depth), "k": (1, keys, heads * depth), "v": (1, keys, heads * made)}
        self.feeds = {name: rng.normal(0, 1.5, shape).astype(np.float32) for name, shape in shapes.items()}
        if mask:
            self.feeds["mask"] = np.where(rng.random(mask) < 0.3, np.float32(-10000), np.float32(0))
            self.feeds["mask"][..., 0] = 0
        self.scale = depth**-0.5
        self.y, self.scores = attention(*(self.feeds[n] for n in "qkv"), heads, self.scale, self.feeds.get("mask"))
        names = tuple(self.feeds)
        every = {**self.feeds, "y": self.y, "y/scores": self.scores}
        shapes = {name: values.shape for name, values in every.items()}
        dtypes = dict.fromkeys(shapes, "float32")
        constants = {name: self.feeds.pop(name) for name in fixed}
        attrs = {"heads": heads, "scale": self.scale}
        outputs = ("y", "y/scores")
        self.site = Site("Attention", "a", 0, names, outputs, attrs, shapes, dtypes, constants, domain="ax")
        ranges = {name: (float(values.min()), float(values.max())) for name, values in every.items()}
        self.numbers = quantize_stage((self.site,), ranges, CHIP, tuple(self.feeds), ("y",))
        self.program = lower((self.site,), self.numbers, CHIP, tuple(self.feeds), ("y",))

    def run(self) -> Reals:
        """What the planned program makes of the operands."""
        return real_output(self.program, self.numbers, self.feeds, "y")


def real_output(program: Program, numbers: Quantization, feeds: Mapping[str, Reals], name: str) -> Reals:
    stored = {n: quantize_host(x, numbers.formats[n]).reshape(program.tensors[n].shape[1:]) for n, x in feeds.items()}
    built = plan(program, CHIP)
    verify_plan(built, CHIP)
    made = run(built, {n: np.asarray(x, np.int8) for n, x in stored.items()}, "native")[name]
    return dequantize(made.view(np.int8), numbers.formats[name]).reshape(program.tensors[name].onnx_shape)


def decibels(signal: Reals, noise: Reals) -> float:
    return float(10 * np.log10((signal**2).sum() / max(float((noise**2).sum()), 1e-20)))


@pytest.mark.parametrize(("length", "keys", "heads", "depth", "made", "mask"), [
    (197, 197, 3, 64, 64, ()), (600, 100, 8, 32, 32, ()), (1, 65, 1, 64, 64, ()), (33, 17, 2, 7, 3, ()),
    (40, 40, 12, 32, 32, (1, 1, 1, 40)), (40, 24, 2, 32, 32, (1, 1, 40, 24)), (12, 9, 1, 16, 16, (1, 9)),
    (5, 9, 1, 4, 4, (9,)),
])  # fmt: skip
def test_attention_is_the_float_attention_within_steps_of_int8(
    length: int, keys: int, heads: int, depth: int, made: int, mask: tuple[int, ...]
) -> None:
    case = Case(length, keys, heads, depth, made, mask)
    assert [layer.op for layer in case.program.layers] == ["attention"]
    assert decibels(case.y, case.run() - case.y) > 22


@pytest.mark.parametrize("fixed", ["q", "k", "v", "qv"])
def test_an_operand_of_an_attention_may_be_a_constant(fixed: str) -> None:
    case = Case(20, 30, 2, 16, 16, fixed=fixed)
    assert decibels(case.y, case.run() - case.y) > 22


def test_masked_keys_weigh_nothing() -> None:
    case = Case(8, 16, 2, 16, 16, (1, 1, 1, 16))
    hidden = case.feeds["mask"].reshape(-1) < 0
    before = case.run()
    case.feeds["v"][:, hidden] = 0
    np.testing.assert_array_equal(case.run(), before)


@pytest.mark.parametrize("kib", [8, 16, 64])
def test_a_planned_attention_has_the_bits_of_one_step_on_any_chip(kib: int) -> None:
    case = Case(300, 70, 4, 12, 12)
    chip = replace(CHIP, memory=replace(CHIP.memory, ocm_bytes=kib << 10))
    assert same_bits(case.program, chip).sizes["ocm"] <= kib << 10


def test_a_row_of_scores_that_no_element_holds_is_refused_by_name() -> None:
    site = Case(4, 3600, 1, 16, 16).site
    (reason,) = why_not(site, CHIP)
    assert "3600 keys need" in reason.seen
    assert "4,096" in reason.seen
    with pytest.raises(FitError, match="layer 0 attention 'a'") as caught:
        plan(Case(4, 3600, 1, 16, 16).program, CHIP)
    assert "'k'" in str(caught.value)


def product(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[Site, dict[str, Reals], Reals]:
    rng = np.random.default_rng(3)
    feeds = {"a": rng.normal(0, 1, a).astype(np.float32), "b": rng.normal(0, 1, b).astype(np.float32)}
    y = feeds["a"] @ feeds["b"]
    shapes = {"a": a, "b": b, "y": y.shape}
    return Site("MatMul", "m", 0, ("a", "b"), ("y",), {}, shapes, dict.fromkeys(shapes, "float32")), feeds, y


@pytest.mark.parametrize(("a", "b"), [
    ((1, 3, 20, 16), (1, 3, 16, 33)), ((1, 3, 20, 16), (1, 1, 16, 7)), ((1, 65, 17), (1, 17, 3)),
    ((1, 1, 1), (1, 1, 1)),
])  # fmt: skip
def test_a_product_of_two_activations_is_the_float_product(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    site, feeds, y = product(a, b)
    assert not why_not(site, CHIP)
    ranges = {name: (float(x.min()), float(x.max())) for name, x in {**feeds, "y": y}.items()}
    numbers = quantize_stage((site,), ranges, CHIP, ("a", "b"), ("y",))
    program = lower((site,), numbers, CHIP, ("a", "b"), ("y",))
    assert [layer.op for layer in program.layers] == ["matmul"]
    same_bits(program)
    noise = real_output(program, numbers, feeds, "y") - y
    assert decibels(y, noise) > 30


@pytest.mark.parametrize("name", ["metis", "nvdla-2048", "dpu-b4096"])
def test_chips_without_words_of_32_bits_multiply_by_constants_alone(name: str) -> None:
    chip: Target = load_target(name)
    assert why_not(product((1, 3, 20, 16), (1, 3, 16, 33))[0], chip)
    assert why_not(Case(8, 8, 1, 8, 8).site, chip)


def test_the_attention_of_onnx_itself_stays_on_the_host() -> None:
    (reason,) = why_not(replace(Case(8, 8, 1, 8, 8).site, domain=""), CHIP)
    assert "ONNX's own" in reason.seen


def test_scores_without_a_format_are_an_error() -> None:
    case = Case(8, 8, 1, 8, 8)
    formats: dict[str, QFormat] = {n: f for n, f in case.numbers.formats.items() if n != "y/scores"}
    with pytest.raises(ValueError, match="'y/scores' has no format"):
        lower((case.site,), Quantization(formats, {}, {}), CHIP, tuple(case.feeds), ("y",))


def test_heads_of_a_product_take_the_whole_array_one_after_the_other() -> None:
    site, feeds, y = product((1, 4, 600, 32), (1, 4, 32, 100))
    ranges = {name: (float(x.min()), float(x.max())) for name, x in {**feeds, "y": y}.items()}
    numbers = quantize_stage((site,), ranges, CHIP, ("a", "b"), ("y",))
    built = plan(lower((site,), numbers, CHIP, ("a", "b"), ("y",)), CHIP)
    tiles = [command.tile for command in built.commands if command.kind == "compute"]
    assert [(tile.h, tile.w) for tile in tiles] == [(1, 600)] * 4
    steps = 4 * 100 * (2 + 3)  # heads, columns, two steps of 16 inputs and the drain
    assert sum(CostModel(built.program, CHIP).cost(0, tile).mac for tile in tiles) == steps
