"""The ops of 16 bits against their formulas in Python's integers, one number at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axtool.ops.arithmetic import qfp
from axtool.ops.boxes import Box, Tile, whole
from axtool.ops.elements import in_bytes, out_bytes
from axtool.ops.legal import check_layer
from axtool.ops.packing import pack_conv_weights, pack_params
from axtool.ops.reference import compute
from axtool.ops.regions import needed, number_bytes
from tests.ops.cases import Case, random_case

EXAMPLES = 30
WIDE = ("wide_conv", "wide_depthwise", "wide_add", "wide_mul", "wide_requantize", "wide_lut", "wide_avg_pool")
any_case = st.integers(0, 2**32 - 1)


def numbers(array: np.ndarray, size: int) -> np.ndarray:
    """The numbers in the bytes of a tensor."""
    return np.ascontiguousarray(array).view(np.dtype("<i2") if size == 2 else np.int8)


def operand(case: Case, at: int = 0) -> np.ndarray:
    return numbers(case.operands[at], in_bytes(case.attrs, at))


def result(case: Case) -> np.ndarray:
    return numbers(compute(case.job(), case.boxes()), out_bytes(case.attrs))


def rounded(acc: int, m: int, f: int) -> int:
    return (int(acc) * int(m) + ((1 << int(f)) >> 1)) >> int(f)


def clamp(q: int, a: dict) -> int:
    return min(max(q, a["lo"]), a["hi"])


def on_line(table: np.ndarray, v: int) -> int:
    index, right = (v >> 6) + 512, v & 63
    return (int(table[index]) * (64 - right) + int(table[index + 1]) * right + (1 << 12)) >> 13


def places(shape: tuple[int, ...], seed: int, most: int = 12) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(seed)
    return [tuple(int(rng.integers(n)) for n in shape) for _ in range(most)]


def window(case: Case, y: int, x: int) -> list[tuple[int, int, int, int]]:
    """(ky, kx, row, column) of each tap."""
    a = case.attrs
    return [
        (ky, kx, y * a["stride"][0] - a["pad"][0] + ky * a["dilation"][0],
         x * a["stride"][1] - a["pad"][1] + kx * a["dilation"][1])
        for ky in range(a["kernel"][0]) for kx in range(a["kernel"][1])
    ]  # fmt: skip


@pytest.mark.parametrize("op", ["wide_conv", "wide_depthwise"])
@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=any_case)
def test_sums_of_products_are_never_wrapped(op, seed):
    case = random_case(op, seed)
    a, x, out = case.attrs, operand(case), result(case)
    h, w, cin = x.shape
    group = a["group"]
    coutg, cing = len(case.w) // group, cin // group
    params = case.operands[2].reshape(-1, 4, 16)
    for y, col, c in places(out.shape, seed):
        first = c // coutg * cing if op == "wide_conv" else c // (len(case.w) // cin)
        per_group = -(-coutg // 16)
        block, lane = (c // coutg * per_group + c % coutg // 16, c % coutg % 16) if op == "wide_conv" else divmod(c, 16)
        acc = int(case.bias[c])
        for ky, kx, row, column in window(case, y, col):
            if 0 <= row < h and 0 <= column < w:
                for i in range(case.w.shape[1]):
                    acc += (int(x[row, column, first + i]) - a["x_zp"]) * int(case.w[c, i, ky, kx])
        m, f = params[block, 1, lane], params[block, 2, lane]
        if a["act"]:
            v = min(max(rounded(acc, m, f), -(2**15)), 2**15 - 1)
            assert out[y, col, c] == clamp(on_line(case.operands[3], v), a)
        else:
            assert out[y, col, c] == clamp(rounded(acc, m, f) + a["out_zp"], a)


def test_a_sum_beyond_32_bits_is_exact():
    x, w = np.full((1, 1, 1200), 32767, np.int16), np.full((1, 1200, 1, 1), 127, np.int8)
    m, f = qfp(2.0**-18)
    attrs = {"kernel": (1, 1), "stride": (1, 1), "dilation": (1, 1), "pad": (0, 0), "group": 1, "x_zp": 0, "out_zp": 0}
    attrs |= {"lo": -(2**15), "hi": 2**15 - 1, "act": 0, "x_bytes": 2, "out_bytes": 2}
    params = pack_params([5], m, f, [1200 * 127])
    case = Case("wide_conv", (1, 1, 2400), (1, 1, 2), attrs, (x.view(np.int8), pack_conv_weights(w, 1), params))
    total = 1200 * 127 * 32767 + 5
    assert total > 2**32
    assert result(case)[0, 0, 0] == (total + 2**17) >> 18


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=any_case)
def test_an_addition_meets_in_sixteen_fraction_bits(seed):
    case = random_case("wide_add", seed)
    a, left, right, out = case.attrs, operand(case, 0), operand(case, 1), result(case)
    for place in places(out.shape, seed):
        terms = []
        for x, side in ((left, "a"), (right, "b")):
            at = tuple(0 if n == 1 else i for n, i in zip(x.shape, place, strict=True))
            product = (int(x[at]) - a[f"zp_{side}"]) * a[f"m_{side}"]
            terms.append((product << 16) >> a[f"f_{side}"])
        total = terms[0] - terms[1] if a["sub"] else sum(terms)
        assert out[place] == clamp(((total + 2**15) >> 16) + a["out_zp"], a)


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=any_case)
def test_a_product_is_rounded_once(seed):
    case = random_case("wide_mul", seed)
    a, left, right, out = case.attrs, operand(case, 0), operand(case, 1), result(case)
    for place in places(out.shape, seed):
        one, other = (
            int(x[tuple(0 if n == 1 else i for n, i in zip(x.shape, place, strict=True))]) for x in (left, right)
        )
        product = (one - a["zp_a"]) * (other - a["zp_b"])
        assert out[place] == clamp(rounded(product, a["m"], a["f"]) + a["out_zp"], a)


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=any_case)
def test_a_change_of_steps_is_rounded_once(seed):
    case = random_case("wide_requantize", seed)
    a, x, out = case.attrs, operand(case), result(case)
    for place in places(out.shape, seed):
        assert out[place] == clamp(rounded(int(x[place]) - a["zp"], a["m"], a["f"]) + a["out_zp"], a)


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=any_case)
def test_a_table_has_an_entry_for_each_int8_and_a_line_for_each_int16(seed):
    case = random_case("wide_lut", seed)
    a, x, out, table = case.attrs, operand(case), result(case), case.operands[1]
    for place in places(out.shape, seed):
        v = int(x[place])
        assert out[place] == clamp(int(table[v + 128]) if a["x_bytes"] == 1 else on_line(table, v), a)


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=any_case)
def test_an_average_is_a_sum_times_the_constant_of_its_count(seed):
    case = random_case("wide_avg_pool", seed)
    a, x, out = case.attrs, operand(case), result(case)
    h, w, _ = x.shape
    rows = {int(count): (int(m), int(f)) for count, m, f in case.operands[1].reshape(-1, 3)}
    top, left = a["pad"] if a["include_pad"] else (0, 0)
    bottom, right = a["pad_end"] if a["include_pad"] else (0, 0)
    for y, col, c in places(out.shape, seed):
        cells = [(row, column) for _, _, row, column in window(case, y, col)]
        count = sum(-top <= row < h + bottom and -left <= column < w + right for row, column in cells)
        total = sum(int(x[row, column, c]) - a["zp"] for row, column in cells if 0 <= row < h and 0 <= column < w)
        q = rounded(total, *rows[count]) if count else 0
        assert out[y, col, c] == clamp(q + a["out_zp"], a)


@pytest.mark.parametrize("op", WIDE)
def test_bytes_of_a_tensor_may_lie_anywhere(op):
    """A box of bytes inside larger memory is read through its strides."""
    case = random_case(op, 3)
    boxes = case.boxes()
    x = case.operands[0]
    roomy = np.full((x.shape[0], x.shape[1], x.shape[2] + 7), 9, np.int8)
    roomy[:, :, : x.shape[2]] = x
    boxes[0] = Box(roomy[:, :, : x.shape[2]], whole(x.shape))
    np.testing.assert_array_equal(compute(case.job(), boxes), compute(case.job(), case.boxes()))


def test_what_a_tile_needs_is_in_bytes_of_the_operand():
    case = next(c for c in (random_case("wide_requantize", s) for s in range(99)) if c.attrs["x_bytes"] == 2
                and c.attrs["out_bytes"] == 1 and c.out_dims[2] > 4)  # fmt: skip
    box = needed(case.job(Tile(0, 0, 1, 1, 1, 3)), 0)
    assert (box.c, box.n) == (2, 6)


@pytest.mark.parametrize(("op", "read", "attrs", "want"), [
    ("wide_conv", 0, {"x_bytes": 2, "out_bytes": 1}, 2), ("wide_conv", 1, {"x_bytes": 2, "out_bytes": 1}, 1),
    ("wide_conv", 2, {"x_bytes": 1, "out_bytes": 2}, 4), ("wide_conv", 3, {"x_bytes": 2, "out_bytes": 1}, 2),
    ("wide_add", 1, {"a_bytes": 1, "b_bytes": 2, "out_bytes": 1}, 2),
    ("wide_add", 0, {"a_bytes": 1, "b_bytes": 2, "out_bytes": 1}, 1),
    ("wide_lut", 1, {"x_bytes": 1, "out_bytes": 2}, 2), ("wide_lut", 1, {"x_bytes": 2, "out_bytes": 1}, 4),
    ("wide_avg_pool", 1, {"x_bytes": 2, "out_bytes": 2}, 4),
])  # fmt: skip
def test_every_operand_has_its_number_of_bytes(op, read, attrs, want):
    assert number_bytes(op, read, attrs) == want


FAULTS = [
    ("wide_conv", {"x_bytes": 3}, "x_bytes 3 is not 1 or 2"),
    ("wide_conv", {"x_bytes": 1, "out_bytes": 1}, "no operand has numbers of two bytes"),
    ("wide_add", {"b_bytes": 0}, "b_bytes 0 is not 1 or 2"),
    ("wide_requantize", {"x_bytes": 2, "zp": 3}, "zp 3 of a number of two bytes is not 0"),
    ("wide_mul", {"out_bytes": 2, "out_zp": -1}, "out_zp -1 of a number of two bytes is not 0"),
    ("wide_requantize", {"out_bytes": 2, "out_zp": 0, "hi": 2**15}, "hi 32768 is not an int16"),
    ("wide_requantize", {"x_bytes": 2, "zp": 0, "out_bytes": 1, "hi": 128}, "hi 128 is not an int8"),
    ("wide_lut", {"x_bytes": 1, "out_bytes": 1}, "no operand has numbers of two bytes"),
    ("wide_conv", {"x_bytes": 2, "x_zp": 0, "out_bytes": 2, "out_zp": 0, "act": 1}, "act 1 makes numbers of one byte"),
]


@pytest.mark.parametrize(("op", "changes", "message"), FAULTS)
def test_a_layer_of_wide_numbers_that_contradicts_itself_is_refused(op, changes, message):
    case = random_case(op, 1)
    even = [(*dims[:2], dims[2] * 2) for dims in (case.in_dims, case.out_dims)]
    with pytest.raises(ValueError, match=message):
        check_layer(op, *even, case.attrs | changes)


def test_a_tensor_that_ends_inside_a_number_is_refused():
    case = next(c for c in (random_case("wide_requantize", s) for s in range(99)) if c.attrs["x_bytes"] == 2)
    with pytest.raises(ValueError, match="cuts a number"):
        check_layer(case.op, (*case.in_dims[:2], case.in_dims[2] + 1), case.out_dims, case.attrs)
