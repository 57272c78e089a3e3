"""Weights rounded for the data: the same steps, a smaller error in the sums of that data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from axtool.quant.formats import int8_format
from axtool.quant.gram import MOST_K, Gram, gather_grams, gram_f32, has_gram, scaled_gram, windows, windows_f32
from axtool.quant.rounding import round_rows_f64, round_weights
from axtool.quant.weights import LIMIT, channel_weights, quantize_weights
from axtool.types import Site, Weights

IN, OUT = int8_format(-4, 4), int8_format(-40, 40)


def conv(cin: int, cout: int, k: int = 3, group: int = 1, size: int = 9, **attrs: Any) -> Site:
    rng = np.random.default_rng(3)
    weights = rng.normal(0, 1, (cout, cin // group, k, k)).astype(np.float32)
    defaults = {"kernel": (k, k), "strides": (1, 1), "dilations": (1, 1), "pads": (0, 0, 0, 0), "group": group}
    a = {**defaults, **attrs}
    made = tuple(
        (size + a["pads"][i] + a["pads"][i + 2] - (k - 1) * a["dilations"][i] - 1) // a["strides"][i] + 1
        for i in (0, 1)
    )
    shapes = {"x": (1, cin, size, size), "y": (1, cout, *made), "w": weights.shape}
    return Site("Conv", "c", 0, ("x", "w"), ("y",), a, shapes, {}, {"w": weights})


def pictures(cin: int, count: int = 12, size: int = 9) -> NDArray[np.float32]:
    """Channels and neighbours that go together, as those of pictures do."""
    rng = np.random.default_rng(8)
    mixed = rng.normal(0, 1, (cin, max(cin // 3, 1)))
    base = rng.normal(0, 1, (count, max(cin // 3, 1), size, size)).cumsum(axis=2).cumsum(axis=3)
    return np.einsum("ck,nkhw->nchw", mixed, base / np.abs(base).max()).astype(np.float32)


def gram_of(site: Site, arrays: NDArray[np.float32]) -> Gram:
    rows = np.concatenate([windows(site, array[None], 10_000, 0) for array in arrays], axis=1).astype(np.float64)
    return Gram(np.matmul(rows.transpose(0, 2, 1), rows))


def outputs(site: Site, weights: NDArray[np.float64], arrays: NDArray[np.float32]) -> NDArray[np.float64]:
    """The sums of all windows of all arrays, (cout, windows), as one matrix product a group."""
    rows = np.concatenate([windows(site, array[None], 10_000, 0) for array in arrays], axis=1).astype(np.float64)
    parts = weights.reshape(len(rows), -1, weights.shape[1])
    return np.matmul(parts, rows.transpose(0, 2, 1)).reshape(len(weights), -1)


def real(site: Site, weights: Weights) -> NDArray[np.float64]:
    return channel_weights(site, weights.values) * weights.scale.astype(np.float64)[:, None]


SITES = {
    "3x3": conv(6, 8),
    "1x1": conv(12, 5, k=1),
    "grouped": conv(8, 12, group=4),
    "depthwise": conv(7, 7, group=7, pads=(1, 1, 1, 1)),
}


@pytest.mark.parametrize("name", SITES)
def test_no_output_channel_is_further_off_than_with_the_nearest_steps(name: str) -> None:
    site = SITES[name]
    arrays = pictures(site.shapes["x"][1])
    nearest = quantize_weights(site, IN, OUT)[0]
    rounded = round_weights(site, nearest, gram_of(site, arrays))
    exact = outputs(site, channel_weights(site), arrays)
    lost = [np.square(exact - outputs(site, real(site, w), arrays)).sum(axis=1) for w in (rounded, nearest)]
    assert (lost[0] <= lost[1] * (1 + 1e-9)).all()
    assert lost[0].sum() < 0.6 * lost[1].sum()


def test_scales_and_bias_stay_and_steps_keep_to_int8() -> None:
    site = SITES["3x3"]
    nearest = quantize_weights(site, IN, OUT)[0]
    rounded = round_weights(site, nearest, gram_of(site, pictures(6)))
    assert rounded.scale is nearest.scale
    assert rounded.bias is nearest.bias
    assert np.abs(rounded.values.astype(int)).max() <= LIMIT


def test_inputs_that_do_not_go_together_leave_the_nearest_steps() -> None:
    site = SITES["1x1"]
    nearest = quantize_weights(site, IN, OUT)[0]
    assert np.array_equal(round_weights(site, nearest, Gram(np.eye(12)[None])).values, nearest.values)


def test_inputs_that_were_always_zero_leave_the_nearest_steps() -> None:
    site = SITES["depthwise"]
    nearest = quantize_weights(site, IN, OUT)[0]
    assert np.array_equal(round_weights(site, nearest, Gram(np.zeros((7, 9, 9)))).values, nearest.values)


def test_all_groups_at_once_give_what_each_gives_alone() -> None:
    site = SITES["grouped"]
    gram = gram_of(site, pictures(8))
    nearest = quantize_weights(site, IN, OUT)[0]
    together = round_weights(site, nearest, gram).values
    for group in range(4):
        part = slice(group * 3, group * 3 + 3)
        alone = conv(2, 3)
        alone = Site("Conv", "c", 0, ("x", "w"), ("y",), alone.attrs, {}, {}, {"w": site.constants["w"][part]})
        weights = Weights(nearest.values[part], nearest.scale[part], nearest.bias[part])
        assert np.array_equal(
            round_weights(alone, weights, Gram(gram.matrices[group : group + 1])).values, together[part]
        )


@pytest.mark.parametrize("attrs", [{}, {"strides": (2, 1)}, {"pads": (1, 0, 2, 1)}, {"dilations": (2, 2)}])
def test_windows_are_what_the_taps_of_a_convolution_meet(attrs: dict[str, Any]) -> None:
    site = conv(2, 3, **attrs)
    x = np.random.default_rng(1).normal(0, 1, (1, 2, 9, 9)).astype(np.float32)
    top, left, bottom, right = site.attrs["pads"]
    padded = np.pad(x[0], ((0, 0), (top, bottom), (left, right)))
    (sh, sw), (dh, dw) = site.attrs["strides"], site.attrs["dilations"]
    _, _, lines, columns = site.shapes["y"]
    expected = [
        padded[:, r * sh : r * sh + 2 * dh + 1 : dh, c * sw : c * sw + 2 * dw + 1 : dw].reshape(-1)
        for r in range(lines)
        for c in range(columns)
    ]
    assert np.array_equal(windows(site, x, 10_000, 0)[0], np.array(expected))


def test_some_of_many_windows_are_chosen_the_same_way_each_time() -> None:
    x = pictures(6)[:1]
    few = windows(SITES["3x3"], x, 10, seed=4)
    assert few.shape == (1, 10, 54)
    assert np.array_equal(few, windows(SITES["3x3"], x, 10, seed=4))


def test_a_long_window_a_turned_gemm_and_a_transposed_convolution_have_no_matrix() -> None:
    long = conv(MOST_K // 9 + 1, 1)
    shapes = {"x": (4, 1), "w": (4, 3), "y": (1, 3)}
    turned = Site("Gemm", "g", 0, ("x", "w"), ("y",), {"transA": 1}, shapes, {}, {"w": np.ones((4, 3))})
    transposed = Site("ConvTranspose", "t", 0, ("x", "w"), ("y",), {"group": 1}, long.shapes, {}, long.constants)
    assert [has_gram(site) for site in (long, turned, transposed, SITES["3x3"])] == [False, False, False, True]


def test_matrices_are_summed_over_the_samples() -> None:
    site = SITES["1x1"]
    arrays = pictures(12, count=3)
    from axtool.quant.observe import Work

    grams = gather_grams(Work((), (), False), [site], [{"x": array[None]} for array in arrays], 3)
    assert np.allclose(grams["y"].matrices, gram_of(site, arrays).matrices, rtol=1e-5)


def random_rounding(groups: int, rows: int, k: int, seed: int = 0) -> list[Any]:
    """Operands of round_rows_f64, whose results do not depend on a tie."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1, (groups, 2 * k + 3, k)) @ rng.normal(0, 1, (k, k))
    grams = np.matmul(x.transpose(0, 2, 1), x)
    real = rng.normal(0, 40, (groups, rows, k))
    order = np.argsort(np.diagonal(grams, axis1=1, axis2=2), axis=1)
    damping = np.diagonal(grams, axis1=1, axis2=2).mean(axis=1) / 100
    steps, lost = np.empty_like(real), np.empty((2, groups, rows))
    return [real, np.clip(np.rint(real), -127, 127), grams, order, damping, 127.0, steps, lost]


@pytest.mark.parametrize(
    ("groups", "rows", "k"),
    [(1, 1, 1), (3, 2, 5), (7, 1, 9), (1, 17, 31), (2, 16, 32), (1, 33, 33), (1, 15, 100), (1, 40, 147)],
)
def test_the_native_rounding_has_the_bits_of_the_loops(groups: int, rows: int, k: int) -> None:
    native = pytest.importorskip("axtool.native._native")
    mine, theirs = random_rounding(groups, rows, k), random_rounding(groups, rows, k)
    assert round_rows_f64(*mine)
    assert native.round_rows_f64(*theirs)
    assert np.array_equal(mine[-2], theirs[-2])
    assert np.array_equal(mine[-1], theirs[-1])


def test_a_matrix_that_is_not_definite_is_told() -> None:
    native = pytest.importorskip("axtool.native._native")
    operands = random_rounding(2, 3, 40)
    operands[2][1] -= 1e6 * np.eye(40)
    assert not round_rows_f64(*operands)
    assert not native.round_rows_f64(*operands)


def test_the_losses_are_those_of_the_matrix() -> None:
    real, nearest, grams, *_, steps, lost = operands = random_rounding(2, 5, 60)
    assert round_rows_f64(*operands)
    for way, made in enumerate((steps, nearest)):
        expected = ((real - made) @ grams * (real - made)).sum(axis=2)
        assert np.allclose(lost[way], expected, rtol=1e-9)


@pytest.mark.parametrize(("groups", "rows", "k"), [(1, 1, 1), (5, 30, 9), (1, 300, 33), (2, 3, 64), (1, 17, 100)])
def test_native_matrices_have_the_bits_of_the_loops(groups: int, rows: int, k: int) -> None:
    native = pytest.importorskip("axtool.native._native")
    x = np.random.default_rng(k).normal(0, 3, (groups, rows, k)).astype(np.float32)
    mine, theirs = np.ones((groups, k, k)), np.ones((groups, k, k))
    gram_f32(x, mine)
    native.gram_f32(x, theirs)
    assert np.array_equal(mine, theirs)
    assert np.array_equal(mine, mine.transpose(0, 2, 1))


@pytest.mark.parametrize("group", [1, 2, 6, 18])
def test_native_windows_are_those_of_the_loops(group: int) -> None:
    native = pytest.importorskip("axtool.native._native")
    rng = np.random.default_rng(group)
    image = rng.normal(0, 1, (18, 9, 7)).astype(np.float32)
    y, x = rng.integers(-6, 9, 50), rng.integers(-6, 8, 50)
    mine, theirs = (np.full((group, 50, 18 // group * 6), np.nan, np.float32) for _ in range(2))
    windows_f32(image, (3, 2), (2, 3), y, x, mine)
    native.windows_f32(image, (3, 2), (2, 3), y, x, theirs)
    assert np.array_equal(mine, theirs)


def test_the_same_weights_are_rounded_once_and_others_anew() -> None:
    site = SITES["3x3"]
    gram = gram_of(site, pictures(6))
    nearest = quantize_weights(site, IN, OUT)[0]
    first = round_weights(site, nearest, gram)
    assert round_weights(site, nearest, gram).values is first.values
    coarser = Weights(nearest.values // 2, nearest.scale * 2, nearest.bias)
    assert not np.array_equal(round_weights(site, coarser, gram).values, first.values)


def test_a_scaled_matrix_is_that_of_scaled_inputs() -> None:
    site, arrays = SITES["grouped"], pictures(8)
    factors = tuple(np.linspace(0.5, 4, 8))
    scaled = gram_of(site, arrays * np.asarray(factors, np.float32)[:, None, None])
    gram = gram_of(site, arrays)
    assert np.allclose(scaled_gram(site, gram, factors).matrices, scaled.matrices, rtol=1e-4, atol=1e-6)
    assert scaled_gram(site, gram, ()) is gram
