"""The layer check at the end of compilation: what it looks at, where it is told, and when it is left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from axtool.quant.layer_figures import LayerFigures
from axtool.quant.layer_report import MOST_VALUES, chosen_samples, part_notices
from axtool.types import Layer, QFormat, Site
from tests import tiny
from tests.conftest import Tiny
from tests.tiny import axtool

GRAPH = """(float[1,3,16,16] x) => (float[1,4,16,16] y) {
  a = Conv(x, wa)
  e = Exp(a)
  y = Conv(e, wb)
}"""
WEIGHTS = {"wa": np.random.default_rng(3).normal(0, 1, (4, 3, 1, 1)), "wb": (4, 4, 1, 1)}


@pytest.fixture
def model(work: Path) -> Path:
    """Exp has few large values: the layer behind it is fed with coarse steps."""
    np.savez("d.npz", x=np.random.default_rng(0).normal(size=(32, 3, 16, 16)).astype(np.float32))
    return tiny.save(work / "m.onnx", GRAPH, WEIGHTS)


def test_the_worst_layers_are_in_the_text_the_document_and_the_file(model: Path) -> None:
    ran = axtool("compile", model, "--calib", "d.npz", "-o", "m.axm", "--json")
    layers = ran.document["layers"]
    assert (layers["samples"], layers["checked"]) == (8, 2)
    assert layers["worst"]
    assert axtool("info", "m.axm", "--json").document["quantization"]["layers"] == layers
    worst = layers["worst"][0]
    line = f"{worst['single_sqnr_db']:.1f} dB, {100 * worst['noise_share']:.0f} %: {worst['op']} '{worst['name']}'"
    text = axtool("compile", model, "--calib", "d.npz", "-o", "n.axm").out
    assert "2 layers checked on 8 samples" in text
    assert line in text
    assert line in axtool("info", "m.axm").out


def test_values_of_more_steps_than_float32_has_squares_for_are_left_out(model: Path) -> None:
    Path("r.yaml").write_text("schema: axtool.quant/1\nlayers: [{match: {op: '*'}, range: [-1.0e-45, 1.0e-45]}]")
    words = ("--calib", "random:8", "--recipe", "r.yaml", "-o", "m.axm")
    ran = axtool("compile", model, *words, "--json")
    assert ran.code == 0, ran.err
    assert ran.document["layers"]["checked"] == 2


def test_a_model_that_loses_nothing_says_so(tiny_models: Tiny, work: Path) -> None:
    ran = axtool("compile", tiny_models / "cls.onnx", "--calib", "random:8", "-o", "m.axm")
    assert "each loses next to nothing" in ran.out


@pytest.mark.parametrize("words", [("--no-layer-check",), ("-O", "0")])
def test_the_check_is_left_out_where_nobody_wants_it(model: Path, words: tuple[str, ...]) -> None:
    ran = axtool("compile", model, "--calib", "random:8", "-o", "m.axm", *words, "--json")
    assert ran.document["layers"] is None
    assert "checking layers" not in ran.err


def test_given_ranges_have_no_samples_to_check(model: Path) -> None:
    axtool("compile", model, "--calib", "random:8", "-o", "m.axm", "--save-ranges", "r.json")
    assert axtool("compile", model, "--ranges", "r.json", "-o", "n.axm", "--json").document["layers"] is None


def test_the_figures_are_those_of_verify(model: Path) -> None:
    np.savez("few.npz", x=np.load("d.npz")["x"][:4])
    worst = axtool("compile", model, "--calib", "few.npz", "-o", "m.axm", "--json").document["layers"]["worst"]
    rows = axtool("verify", "m.axm", "--against", model, "--data", "few.npz", "--layers", "--json").document["layers"]
    figures = {row["output"]: row["single_sqnr_db"] for row in rows}
    assert worst
    for row in worst:
        assert row["single_sqnr_db"] == pytest.approx(figures[row["output"]], abs=0.01)


def test_samples_that_are_held_back_are_looked_at() -> None:
    from axtool.quant.calibrate import held_back

    assert set(chosen_samples(32, 1000)) == held_back(32, 0)


def test_of_few_samples_all_are_looked_at() -> None:
    assert chosen_samples(3, 1000) == [0, 1, 2]


@pytest.mark.parametrize(("values", "number"), [(1000, 8), (MOST_VALUES // 3, 3), (10 * MOST_VALUES, 1)])
def test_a_large_model_is_checked_on_fewer_samples(values: int, number: int) -> None:
    assert len(chosen_samples(100, values)) == number


SLICE = Site("Slice", "s", 1, ("y",), ("p",))


def row(name: str, levels: int, channels: tuple[int, ...] = (100,)) -> LayerFigures:
    """A layer that uses so many levels in all, and in each channel."""
    figures = LayerFigures(0, Layer("slice", ("y",), (name,)), QFormat("int8", (1.0,), (0,)), values=10_000)
    figures.low, figures.high = 0.0, float(levels > 1)
    figures.levels.add(np.arange(levels, dtype=np.int8))
    figures.channel_low = np.zeros(len(channels), np.int64)
    figures.channel_high = np.array(channels) - 1
    return figures


def test_a_part_that_is_cut_out_with_hardly_any_levels_is_named() -> None:
    (told,) = part_notices((SLICE,), {"p": row("p", 5)}, ())
    assert (told.code, "'p' 5 of 'y'" in str(told)) == ("few-levels-part", True)


@pytest.mark.parametrize("levels", [1, 8, 200])
def test_a_part_with_levels_enough_or_a_constant_one_is_not_named(levels: int) -> None:
    assert part_notices((SLICE,), {"p": row("p", levels)}, ()) == ()


def test_channels_of_an_output_with_hardly_any_levels_are_counted() -> None:
    (told,) = part_notices((), {"p": row("p", 200, (200, 3, 5))}, ("p",))
    assert "'p' 2 of 3" in str(told)


@pytest.mark.parametrize("channels", [(200, 8, 9), (200, 1, 1), (3, 3, 3)])
def test_channels_of_one_size_and_constant_ones_are_not_told(channels: tuple[int, ...]) -> None:
    assert part_notices((), {"p": row("p", 200, channels)}, ("p",)) == ()


def test_a_part_of_a_real_model_is_named(work: Path) -> None:
    graph = """(float[1,3,16,16] x) => (float[1,4,16,16] z, float[1,4,16,16] q) {
      y = Conv(x, w)
      a, b = Split <axis=1, split=[2,2]> (y)
      z = Conv(a, u)
      q = Conv(b, v)
    }"""
    w = np.random.default_rng(1).normal(0, 1, (4, 3, 1, 1))
    w[2:] *= 0.002
    weights = {"w": w, "u": (4, 2, 1, 1), "v": (4, 2, 1, 1)}
    ran = axtool("compile", tiny.save(work / "m.onnx", graph, weights, opset=11), "--calib", "random:8", "-o", "m.axm")
    assert (ran.code, "'b'" in ran.err and "they are cut from" in ran.err) == (0, True)
