"""What is wrong with a layer: the largest part of its error decides, and so what is advised."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from axtool.quant.advice import Context, Finding, worst_layers
from axtool.quant.layer_figures import Energy, LayerFigures
from axtool.quant.weights import quantize_weights
from axtool.types import Layer, QFormat, Quantization, Site, Weights
from tests import tiny

STEP = QFormat("int8", (0.1,), (0,))
RNG = np.random.default_rng(0)


WIDE, NARROW = frozenset("xy"), frozenset[str]()


def conv(scale: float = 1.0, weights: np.ndarray | None = None) -> Site:
    values = RNG.normal(0, scale, (4, 3, 1, 1)).astype(np.float32) if weights is None else weights
    return Site("Conv", "c", 1, ("x", "w"), ("y",), {"group": 1}, {}, {}, {"w": values})


def figures(output: str = "y", **sums: float) -> LayerFigures:
    """A layer 'c' of 1000 values with a signal of 20 steps, its range used to the full."""
    row = LayerFigures(0, Layer("conv", ("x",), (output,), {}, ("c",), "c"), STEP, signal=4e5, values=1000)
    row.low, row.high = -128.0, 127.0
    for name, value in sums.items():
        setattr(row, name, value)
    return row


def found(
    row: LayerFigures,
    site: Site,
    numbers: Quantization,
    wide: frozenset[str],
    *,
    power: float = 4.0,
    rounded: bool = False,
    formats: tuple[str, ...] = ("int8",),
) -> Finding:
    maker = Site("Conv", "b", 0, ("in",), ("x",))
    step = numbers.formats["x"].scale[0]
    channels = site.constants["w"].shape[1]
    energy = Energy(step, 100, np.full(channels, 100 * power / step**2), np.full(channels, 100 / 12))
    context = Context((maker, site), (numbers,), {"y": row}, {"x": energy}, wide, rounded, formats)
    (finding,) = worst_layers([row], context)
    return finding


def numbers(site: Site, why: str = "observed", x: QFormat = STEP) -> Quantization:
    weights, _ = quantize_weights(site, x, STEP)
    return Quantization({"x": x, "y": STEP}, {}, {"y": weights}, (), {"y": why, "x": "observed"})


def test_values_outside_the_range_ask_for_more_samples() -> None:
    site = conv()
    finding = found(figures(single=4e3, cut=3e3, stored=3.5e3, saturated=50), site, numbers(site), NARROW)
    assert finding.cause == "5 % of the values lie outside its range"
    assert "--method minmax" in finding.advice


def test_all_values_outside_the_range_are_a_hundred_per_cent() -> None:
    site = conv()
    finding = found(figures(single=4e3, cut=3e3, stored=3.5e3, saturated=1000), site, numbers(site), NARROW)
    assert finding.cause == "100 % of the values lie outside its range"


def test_steps_that_are_too_coarse_ask_for_int16() -> None:
    site = conv()
    finding = found(figures(single=4e3, stored=3.5e3), site, numbers(site), WIDE)
    assert finding.cause == "255 steps are too coarse for its values"
    assert finding.recipe == {"match": {"name": "c"}, "format": "int16"}


def test_a_format_that_the_model_brings_is_left_to_it() -> None:
    site = conv()
    brought = replace(numbers(site), given=frozenset("y"))
    finding = found(figures(single=4e3, stored=3.5e3), site, brought, WIDE)
    assert (finding.cause, finding.recipe) == ("it has the format that the model brings", None)


def test_a_chip_without_int16_leaves_the_host() -> None:
    site = conv()
    finding = found(figures(single=4e3, stored=3.5e3), site, numbers(site), NARROW)
    assert finding.recipe == {"match": {"name": "c"}, "format": "float"}
    assert "float on the host" in finding.advice


def test_a_product_that_cannot_be_int16_may_be_fp16_where_the_chip_has_it() -> None:
    site = conv()
    finding = found(figures(single=4e3, stored=3.5e3), site, numbers(site), NARROW, formats=("int8", "fx32", "fp16"))
    assert finding.recipe == {"match": {"name": "c"}, "format": "fp16"}
    assert "fp16 by --recipe (layers: {match: {name: 'c'}, format: fp16})" in finding.advice


def test_a_tie_with_a_wider_tensor_is_told_with_its_factor() -> None:
    site = conv()
    row = figures(single=4e3, stored=3.5e3, low=0.0, high=25.5)
    finding = found(row, site, numbers(site, "as the input of MaxPool 'm' (node 3)"), WIDE)
    assert finding.cause.startswith("its range is 10 times too wide (as the input of MaxPool 'm'")


def test_a_range_set_by_rare_values_asks_for_another_method() -> None:
    site = conv()
    row = figures(signal=1e3, single=1e2, stored=0.9e2)
    finding = found(row, site, numbers(site), WIDE)
    assert finding.cause.startswith("rare values set its range")
    assert "--method percentile or mse, or int16" in finding.advice


def test_a_coarse_input_asks_for_int16_there() -> None:
    site = conv()
    finding = found(figures(single=4e3, stored=1e2), site, numbers(site, x=QFormat("int8", (1.0,), (0,))), WIDE)
    assert finding.cause == "the rounding of 'x', which it reads"
    assert finding.recipe == {"match": {"name": "b"}, "format": "int16"}


def test_coarse_weights_ask_for_rounding_for_the_data() -> None:
    values = RNG.normal(0, 0.01, (4, 300, 1, 1)).astype(np.float32)
    values[:, 0] = 10  # one large weight sets the scale of its channel
    site = conv(weights=values)
    wanted = found(figures(single=4e3, stored=1e2), site, numbers(site), WIDE, power=100.0)
    assert (wanted.cause, wanted.recipe) == ("its weights are too coarse", None)
    assert wanted.advice.startswith("-O 2")
    again = found(figures(single=4e3, stored=1e2), site, numbers(site), WIDE, power=100.0, rounded=True)
    assert again.recipe == {"match": {"name": "c"}, "format": "float"}


def test_a_weight_scale_that_was_raised_is_the_cause() -> None:
    site = conv()
    coarse = Weights(np.zeros((4, 3, 1, 1), np.int8), np.full(4, 9, np.float32), np.zeros(4, np.float32))
    raised = replace(numbers(site), weights={"y": coarse}, warnings=(f"{site}: weight scale raised",))
    assert "raised against overflow" in found(figures(single=4e3, stored=1e2), site, raised, WIDE).cause


def test_the_worst_come_first_and_those_that_lose_next_to_nothing_are_not_named() -> None:
    site = conv()
    rows = [figures(f"t{i}", single=loss, stored=loss) for i, loss in enumerate((1e1, 4e3, 2e3, 9e3, 3e3))]
    named = worst_layers(rows, Context((site,), (numbers(site),), {}, {}, WIDE))
    assert [finding.figures.layer.outputs[0] for finding in named] == ["t3", "t1", "t4"]


def test_the_share_is_of_the_noise_of_all_layers() -> None:
    site = conv()
    rows = [figures(f"t{i}", single=loss, stored=loss) for i, loss in enumerate((1e3, 2e3, 3e3, 4e3))]
    named = worst_layers(rows, Context((site,), (numbers(site),), {}, {}, WIDE))
    assert [finding.share for finding in named] == pytest.approx([0.4, 0.3, 0.2])


def test_a_layer_that_only_moves_values_is_not_named() -> None:
    site = conv()
    moved = numbers(site, "as the input of MaxPool 'm' (node 3)")
    row = figures(single=4e3, stored=3.9e3)
    assert worst_layers([row], Context((site,), (moved,), {}, {}, WIDE)) == ()


def test_the_layer_that_is_named_is_the_one_that_was_spoilt(work: Path) -> None:
    """One weight of 3000 sets the scale of the second layer's channels; the others become 0."""
    graph = """(float[1,4,16,16] x) => (float[1,4,16,16] y) {
      a = Conv(x, wa)
      r = Relu(a)
      y = Conv(r, wb)
    }"""
    rng = np.random.default_rng(4)
    wa, wb = np.abs(rng.normal(0, 1, (4, 4, 1, 1))), rng.normal(0, 1, (4, 4, 1, 1))
    wb[:, 0], wa[0] = 3000.0, 1e-4  # what the large weight reads is next to nothing
    model = tiny.save(work / "m.onnx", graph, {"wa": wa, "wb": wb})
    (work / "r.yaml").write_text("schema: axtool.quant/1\nrecipes: [{method: minmax, bias: none}]\nrefine: []\n")
    ran = tiny.axtool("compile", model, "--calib", "random:32", "--recipe", "r.yaml", "-o", "m.axm", "--json")
    worst = ran.document["layers"]["worst"][0]
    assert (worst["output"], worst["cause"]) == ("y", "its weights are too coarse")
    assert worst["noise_share"] > 0.9
