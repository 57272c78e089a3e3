# ruff: noqa: E501 (a graph is one line)
"""Tensors of 16 bits: each op lowered with some of them or all, run by the reference arithmetic, and planned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from axtool.ops.wide import why_not_wide
from axtool.plan.build import plan
from axtool.plan.check_plan import verify_plan
from axtool.plan.lower_wide import permute_steps
from axtool.plan.whole import whole_plan
from axtool.quant.wide import candidates
from axtool.runtime.device import DeviceSession
from axtool.sim.images import numbers_of
from axtool.target import MemorySpec
from axtool.types import BYTES
from tests.plan.lower_case import Case, quantized, run_whole, target, whole_values
from tests.plan.test_lower_numbers import CASES, LEAST_SQNR_DB

LEAST_WIDE_DB = 72.0
# Those without a form in int16: maxima, sums over gaps, linear interpolation, and what picks bytes apart.
NARROW = {
    "transposed conv", "grouped transposed conv", "1-D transposed conv", "max pool", "max pool, dilated", "1-D max pool",
    "global max pool", "linear", "linear, pytorch, to more than one", "linear, asymmetric", "depth to space, CRD",
    "prelu for each channel", "prelu along the last axis", "a conv with a prelu for each channel", "slice with steps",
    "pad with a constant",
}  # fmt: skip
# A chain of everything that int16 can do, with a branch of each kind.
CHAIN = """(float[1,4,16,16] x) => (float[1,6] y, float[1,8,8,8] z) <float[4] s = {1.0,1.0,2.0,2.0}, int64[8] p = {0,0,1,0,0,0,1,0}, int64[2] two = {3,3}> {
  a = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w1, b1) b = HardSwish(a)
  c = Conv<pads=[1,1,1,1], group=8>(b, w2, b2) d = Relu(c)
  e = GlobalAveragePool(d) f = Conv(e, w3, b3) g = Sigmoid(f) h = Mul(d, g)
  i = Add(h, b) j = AveragePool<kernel_shape=[2,2], strides=[2,2]>(i)
  k = Resize<mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor">(j, , s)
  l = Concat<axis=1>(k, i) m = Conv(l, w4, b4) z = LeakyRelu<alpha=0.1>(m)
  n = Pad(z, p) o = SpaceToDepth<blocksize=2>(n) q = GlobalAveragePool(o) r = Flatten(q) y = Gemm<transB=1>(r, w5, b5)
}"""
WEIGHTS = {
    "w1": (8, 4, 3, 3), "b1": (8,), "w2": (8, 1, 3, 3), "b2": (8,), "w3": (8, 8, 1, 1), "b3": (8,), "w4": (8, 16, 1, 1),
    "b4": (8,), "w5": (6, 32), "b5": (6,),
}  # fmt: skip


def exact(given: object, seed: int = 3) -> np.ndarray:
    """Weights that int8 holds exactly: whole numbers up to 127 in every output channel, over 256."""
    if not isinstance(given, tuple):
        return np.asarray(given, np.float32)
    values = np.random.default_rng(seed).integers(-127, 128, given)
    if len(given) > 1:
        values.reshape(given[0], -1)[:, 0] = 127
    if len(given) in (2, 3) or given[:2] == (1, 1):  # a Gemm or MatMul may have its channels last
        values[..., 0, :] = 127
    return (values / 256).astype(np.float32)


def all_wide(case: Case) -> tuple[str, ...]:
    return candidates(case.sites, case.inputs, case.outputs, target())


@pytest.fixture(scope="module")
def chain() -> Case:
    return Case(CHAIN, **{name: exact(shape) for name, shape in WEIGHTS.items()})


@pytest.mark.parametrize("name", CASES)
def test_an_op_in_int16_is_as_close_to_float_as_its_weights_are(name: str) -> None:
    graph, weights = CASES[name]
    case = Case(graph, **{key: exact(given) if key in "wvb" else given for key, given in weights.items()})
    wide = all_wide(case)
    program = case.lowered(wide=wide)
    for output, (_, sqnr) in case.errors(program).items():
        kind = program.tensors[output].format.kind
        assert (kind == "int16") is (name not in NARROW)
        assert sqnr >= (LEAST_WIDE_DB if kind == "int16" else LEAST_SQNR_DB), f"{output}: {sqnr:.1f} dB"


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", [0, 1])
def test_any_set_of_tensors_may_be_wide(name: str, seed: int) -> None:
    graph, weights = CASES[name]
    case = Case(graph, **weights)
    rng = np.random.default_rng(seed)
    program = case.lowered(wide=[root for root in all_wide(case) if rng.integers(2)])
    for output, (_, sqnr) in case.errors(program).items():
        assert sqnr >= LEAST_SQNR_DB, f"{output}: {sqnr:.1f} dB"


def test_a_chain_in_int16_is_far_closer_to_float_than_in_int8(chain: Case) -> None:
    narrow, wide = (chain.errors(chain.lowered(wide=names)) for names in ((), all_wide(chain)))
    for output, (_, sqnr) in wide.items():
        assert sqnr > max(55.0, narrow[output][1] + 20.0)


@pytest.mark.parametrize("seed", range(6))
def test_a_planned_chain_has_the_bits_of_whole_tensors(chain: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    wide = [root for root in all_wide(chain) if rng.integers(3)]
    program = chain.lowered(wide=wide)
    chip = replace(target(), memory=MemorySpec((5 << 10, 1 << 13, 1 << 20)[seed % 3], 4096, 64.0), costs=COSTS)
    planned = plan(program, chip)
    verify_plan(planned, chip)
    values = whole_values(program, chain.feeds)
    inputs = {
        name: numbers_of(q[None].view(np.uint8), program.tensors[name])
        for name, q in quantized(program, chain.feeds).items()
    }
    watch = sorted(values.keys() - inputs.keys())
    for made_by, engine in ((planned, "reference"), (planned, "native"), (whole_plan(program, chip), "native")):
        made = DeviceSession(made_by, engine=engine).run_quantized(inputs, watch=watch)
        for name, array in made.items():
            want = numbers_of(values[name][None].view(np.uint8), program.tensors[name])
            np.testing.assert_array_equal(array, want, err_msg=f"{engine}: {name}")


COSTS = dict.fromkeys(
    ("entry", "fence", "pipeline", "mac_drain", "requantize", "add", "mul", "pool_tap", "lut", "interpolate", "resize",
     "copy_per_kib", "gather", "gather_per_element", "array_shift"), 2.0) | {"int16_passes": 2.0}  # fmt: skip


@pytest.mark.parametrize("vector_unit", [True, False])
def test_a_function_behind_a_conv_reads_the_sum_in_int16_where_its_result_is_int16(vector_unit: bool) -> None:
    case = Case("(float[1,5,9,8] x) => (float[1,6,9,8] y) { t = Conv(x, w) y = Sigmoid(t) }", w=exact((6, 5, 1, 1)))
    program = case.lowered(wide=["y"], vector_unit=vector_unit)
    assert [layer.op for layer in program.layers] == ["wide_conv", "wide_lut"]
    assert [program.tensors[layer.outputs[0]].format.kind for layer in program.layers] == ["int16", "int16"]
    assert BYTES[program.tensors["x"].format.kind] == 1


def test_a_function_behind_a_conv_of_int16_stays_in_the_conv_where_its_result_is_int8() -> None:
    case = Case("(float[1,5,9,8] x) => (float[1,6,9,8] y) { t = Conv(x, w) y = Sigmoid(t) }", w=exact((6, 5, 1, 1)))
    (layer,) = case.lowered(wide=["x", "t"]).layers
    assert (layer.op, layer.attrs["act"], layer.attrs["x_bytes"], layer.attrs["out_bytes"]) == ("wide_conv", 1, 2, 1)


@pytest.mark.parametrize("dims", [(2, 3, 4), (1, 3, 4), (2, 1, 4), (2, 3, 1), (1, 1, 5), (1, 1, 1)])
@pytest.mark.parametrize("perm", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_layers_that_move_bytes_permute_numbers(dims: tuple[int, int, int], perm: tuple[int, int, int]) -> None:
    numbers = np.random.default_rng(1).integers(-(2**15), 2**15, dims, dtype=np.int16)
    held = numbers.view(np.int8)
    for op, made, attrs in permute_steps(dims, perm, 2):
        held = held.transpose(attrs["perm"]) if op == "transpose" else held
        assert op == "reshape" or attrs["perm"][2] == 2
        held = np.ascontiguousarray(held).reshape(*made[:2], made[2] * 2)
    np.testing.assert_array_equal(held.view(np.int16), numbers.transpose(perm))


def test_a_value_without_a_form_in_int16_says_why() -> None:
    case = Case("(float[1,4,8,8] x) => (float[1,4,4,4] y) { y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) }")
    assert all_wide(case) == ()
    (site,) = case.sites
    assert why_not_wide(site, "x", target()).endswith("reads 'x': MaxPool is for int8 only")
    assert why_not_wide(site, "x", replace(target(), formats=("int8",))) == "t has no int16"


def test_the_same_feeds_give_the_same_outputs_however_an_input_is_stored(chain: Case) -> None:
    """An int16 input holds the samples to 16 bits: the result moves by no more than the int8 rounding of the input."""
    one, other = (run_whole(chain.lowered(wide=wide), chain.feeds) for wide in (("b",), ("b", "x")))
    for name, array in one.items():
        assert np.abs(array - other[name]).max() < 0.2 * np.abs(array).max()
