"""Layers that contradict themselves are refused: one change to a legal layer at a time."""

from dataclasses import replace

import pytest

from axtool.ops.legal import check_layer
from tests.ops.cases import Case, random_case


def one_group(op: str) -> Case:
    """A random layer of `op` with more than one element on each axis."""
    for seed in range(1000):
        case = random_case(op, seed)
        if min(*case.in_dims, *case.out_dims) > 2 and len(case.attrs.get("parts", range(8))) > 4:
            return case
    raise AssertionError(op)


def check(case: Case) -> None:
    check_layer(case.op, case.in_dims, case.out_dims, case.attrs)


def swap(values: tuple[int, ...], at: int, value: int) -> tuple[int, ...]:
    return (*values[:at], value, *values[at + 1 :])


FAULTS = [
    ("conv", {"kernel": (0, 1)}, "kernel"),
    ("conv", {"stride": (1, -1)}, "stride"),
    ("conv", {"dilation": (0, 1)}, "dilation"),
    ("conv", {"dilation": (1, 2**30)}, "reaches beyond"),
    ("depthwise", {"pad": (2**30, 0)}, "reaches beyond"),
    ("max_pool", {"kernel": (2**30, 1)}, "reaches beyond"),
    ("conv", {"group": 0}, "0 groups"),
    ("conv", {"group": 64}, "64 groups"),
    ("conv", {"x_zp": 128}, "x_zp 128 is not an int8"),
    ("conv", {"lo": 5, "hi": 4}, "lo 5 is above hi 4"),
    ("conv", {"act": 2}, "act 2"),
    ("depthwise", {"group": 1}, "want one in each"),
    ("add", {"b": (7, 9, 11)}, "operand b"),
    ("add", {"m_a": -1}, "m_a -1"),
    ("add", {"f_b": 32}, "f_b 32"),
    ("add", {"sub": 2}, "sub 2"),
    ("mul", {"a": (1, 1, 1)}, "does not fit"),
    ("mul", {"m": 2**31}, "m 2147483648"),
    ("concat", {"axis": 3}, "axis 3"),
    ("concat", {"parts": (0, 0, 0)}, "3 integers"),
    ("concat", {"parts": ()}, "0 integers"),
    ("concat", {"parts": (1, 0, 0, 0)}, "offsets"),
    ("concat", {"parts": (0, 0, 0, 0, 10**6, 0, 0, 0)}, "offsets"),
    ("requantize", {"f": -1}, "f -1"),
    ("slice", {"step": (0, 1, 1)}, "by 0"),
    ("slice", {"start": (10**6, 0, 0)}, "positions from 1000000"),
    ("pad", {"mode": 3}, "mode 3"),
    ("pad", {"value": -129}, "value -129"),
    ("avg_pool", {"include_pad": 2}, "include_pad 2"),
    ("resize_nearest", {"factor": (0, 1)}, "factor"),
    ("resize_linear", {"mode": 2}, "mode 2"),
    ("lut", {"per_channel": 2}, "per_channel 2"),
    ("transpose", {"perm": (0, 0, 2)}, "perm"),
    ("depth_to_space", {"mode": 2}, "mode 2"),
    ("depth_to_space", {"block": 0}, "block 0"),
    ("space_to_depth", {"block": 7}, "does not fit"),
    ("matmul", {"b": (1, 9, 11)}, "do not make"),
    ("matmul", {"trans_b": 2}, "trans_b 2"),
]


PRODUCT_FAULTS = [
    ("attention", {"heads": 0}, "0 heads"),
    ("attention", {"heads": 4093}, "4093 heads"),
    ("attention", {"keys": 0}, "0 keys"),
    ("attention", {"keys": 2**18 + 1}, "262145 keys"),
    ("attention", {"mask": 3}, "mask 3"),
    ("attention", {"form": 2}, "form 2"),
    ("attention", {"zp_q": 128}, "zp_q 128"),
    ("attention", {"f_m": 32}, "f_m 32"),
    ("fp16_matmul", {"b_bytes": 4}, "not of two bytes"),
    ("fp16_matmul", {"f": 32}, "f 32"),
    ("fp16_attention", {"f_s": -1}, "f_s -1"),
    ("fp16_attention", {"keys": 0}, "0 keys"),
]


@pytest.mark.parametrize(("op", "change", "reason"), PRODUCT_FAULTS, ids=str)
def test_a_product_of_activations_is_refused_for_an_attribute(op, change, reason):
    case = random_case(op, 5)
    check(case)
    with pytest.raises(ValueError, match=f"^{op}: .*{reason}"):
        check(replace(case, attrs={**case.attrs, **change}))


@pytest.mark.parametrize(("op", "change", "reason"), FAULTS, ids=str)
def test_a_layer_is_refused_for_an_attribute(op, change, reason):
    case = one_group(op)
    check(case)
    with pytest.raises(ValueError, match=f"^{op}: .*{reason}"):
        check(replace(case, attrs={**case.attrs, **change}))


SHAPED = ("requantize", "lut", "add", "resize_nearest", "transpose", "reshape", "depth_to_space", "space_to_depth")


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("op", SHAPED)
def test_an_output_of_another_size_is_refused(op, axis):
    case = one_group(op)
    with pytest.raises(ValueError, match=f"^{op}: "):
        check(replace(case, out_dims=swap(case.out_dims, axis, case.out_dims[axis] + 1)))


@pytest.mark.parametrize("op", ["max_pool", "avg_pool"])
def test_a_pool_keeps_its_channels(op):
    case = one_group(op)
    with pytest.raises(ValueError, match="does not fit"):
        check(replace(case, out_dims=swap(case.out_dims, 2, case.out_dims[2] + 1)))


@pytest.mark.parametrize("size", [0, -1, 2**23, 2**31])
def test_a_size_that_is_none_is_refused(size):
    case = one_group("lut")
    with pytest.raises(ValueError, match="is not a size"):
        check(replace(case, in_dims=(size, 1, 1)))
