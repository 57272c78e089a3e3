"""Every device op: the native engine gives the bytes of the reference, on any shape, box, placement and CPU."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from axtool.ops.arithmetic import qfp
from axtool.ops.boxes import Job
from axtool.ops.encoding import FIELDS, WIDTHS
from axtool.ops.packing import conv_block_bytes, depthwise_block_bytes, pack_params
from axtool.types import Tile
from tests.native.one_command import (
    EXAMPLES,
    Fixed,
    Memory,
    box_in,
    channels,
    limits,
    native,
    same_bytes,
    scale,
    seeded,
    small,
    window,
    wsum_of,
    zero_points,
)


@pytest.mark.parametrize("op", ["conv", "depthwise", "conv_transpose"])
@EXAMPLES
@given(data=st.data())
def test_mac_ops_have_the_bytes_of_the_reference(op: str, data: st.DataObject) -> None:
    draw, memory = data.draw, seeded(data.draw)
    h, w = draw(small), draw(small)
    attrs, out = window(draw, (h, w, 0))
    if op == "depthwise":
        cin = draw(channels)
        cout, group = cin * draw(st.sampled_from([1, 1, 2])), cin
        share = cout
    else:
        group = draw(st.sampled_from([1, 1, 2, 3]))
        cin, share = group * draw(channels), draw(channels)
        cout = group * share
    if op == "conv_transpose":
        out = (h * attrs["stride"][0] + 1, w * attrs["stride"][1])
    lo, hi = limits(draw)
    attrs |= {"group": group, "x_zp": draw(zero_points), "out_zp": draw(zero_points), "lo": lo, "hi": hi}
    attrs["act"] = draw(st.integers(0, 1))
    dims = (*out, cout)
    first = draw(st.integers(0, (cout - 1) // share)) * share
    inside = draw(st.integers(0, (share - 1) // 16)) * 16
    box = box_in(draw, dims)
    tile = Tile(box.y, box.x, first + inside, box.h, box.w, draw(st.integers(1, cout - first - inside)))
    blocks = -(-cout // 16) if op == "depthwise" else group * -(-share // 16)
    size = (
        depthwise_block_bytes(attrs["kernel"]) if op == "depthwise" else conv_block_bytes(attrs["kernel"], cin // group)
    )
    weights = memory.random.integers(-128, 128, blocks * size).astype(np.int8)
    if op != "depthwise" and cin // group % 4:
        weights.reshape(-1, -(-(cin // group) // 4), 16, 4)[:, -1, :, cin // group % 4 :] = 0  # padded input channels
    m, f = np.array([qfp(v) for v in memory.random.uniform(1e-6, 0.01, blocks * 16)]).T
    bias = memory.random.integers(-(2**16), 2**16, blocks * 16)
    params = pack_params(bias, m, f, wsum_of(weights, blocks, op == "depthwise"))
    flat = {1: weights, 2: params, 3: np.sort(memory.random.integers(-(2**14), 2**14, 1025)).astype(np.int16)}
    same_bytes(Job(op, (h, w, cin), dims, attrs, tile), memory, flat)


@pytest.mark.parametrize("op", ["add", "mul"])
@EXAMPLES
@given(data=st.data())
def test_add_and_mul_have_the_bytes_of_the_reference(op: str, data: st.DataObject) -> None:
    draw, memory = data.draw, seeded(data.draw)
    dims = (draw(small), draw(small), draw(channels))
    shapes = [[1, 1, 1], [1, 1, 1]]
    for axis, size in enumerate(dims):
        which = draw(st.sampled_from([(1, 1), (1, 1), (1, 0), (0, 1)]))
        shapes[0][axis], shapes[1][axis] = (size if which[0] else 1), (size if which[1] else 1)
    lo, hi = limits(draw)
    attrs = {"a": tuple(shapes[0]), "b": tuple(shapes[1]), "zp_a": draw(zero_points), "zp_b": draw(zero_points)}
    attrs |= {"out_zp": draw(zero_points), "lo": lo, "hi": hi, "sub": draw(st.integers(0, 1))}
    for m, f in (("m_a", "f_a"), ("m_b", "f_b"), ("m", "f")):
        attrs[m], attrs[f] = scale(draw, 1e6 if draw(st.integers(0, 5)) == 0 else 2.0)
    same_bytes(Job(op, tuple(shapes[0]), dims, attrs, box_in(draw, dims)), memory, {})


@pytest.mark.parametrize("sub", [0, 1])
@pytest.mark.parametrize(("left", "right"), [(1.0, 0.4999), (0.77, 1.4999), (3e-5, 0.5), (31.7, 59.4), (0.123, 200.0)])
def test_add_is_exact_for_every_pair_of_numbers(left: float, right: float, sub: int) -> None:
    (m_a, f_a), (m_b, f_b) = qfp(left), qfp(right)
    attrs = {
        "a": (16, 16, 256),
        "b": (1, 1, 256),
        "zp_a": -7,
        "m_a": m_a,
        "f_a": f_a,
        "zp_b": 127,
        "m_b": m_b,
        "f_b": f_b,
    }
    attrs |= {"out_zp": 11, "lo": -128, "hi": 127, "sub": sub}
    job, memory = Job("add", (16, 16, 256), (16, 16, 256), attrs, Tile(0, 0, 0, 16, 16, 256)), Memory(0)
    every = np.arange(256, dtype=np.uint8)
    memory.random = Fixed(every.repeat(256), every)  # type: ignore[assignment]
    same_bytes(job, memory, {})


@pytest.mark.parametrize("factor", [1 / 127, 0.1249, 1e-6, 0.5])
def test_mul_is_exact_for_every_pair_of_numbers(factor: float) -> None:
    m, f = qfp(factor)
    attrs = {"a": (16, 16, 256), "b": (1, 1, 256), "zp_a": -128, "zp_b": 3, "m": m, "f": f}
    attrs |= {"out_zp": -20, "lo": -100, "hi": 127}
    job, memory = Job("mul", (16, 16, 256), (16, 16, 256), attrs, Tile(0, 0, 0, 16, 16, 256)), Memory(0)
    every = np.arange(256, dtype=np.uint8)
    memory.random = Fixed(every.repeat(256), every)  # type: ignore[assignment]
    same_bytes(job, memory, {})


@pytest.mark.parametrize("op", ["requantize", "lut", "reshape", "transpose", "slice", "pad"])
@EXAMPLES
@given(data=st.data())
def test_ops_of_one_operand_have_the_bytes_of_the_reference(op: str, data: st.DataObject) -> None:
    draw, memory = data.draw, seeded(data.draw)
    dims = (draw(small), draw(small), draw(channels))
    out, attrs, flat = dims, {}, {}
    match op:
        case "requantize":
            lo, hi = limits(draw)
            m, f = scale(draw)
            attrs = {"zp": draw(zero_points), "m": m, "f": f, "out_zp": draw(zero_points), "lo": lo, "hi": hi}
        case "lut":
            attrs = {"per_channel": draw(st.integers(0, 1))}
            flat[1] = memory.random.integers(-128, 128, 256 * (dims[2] if attrs["per_channel"] else 1)).astype(np.int8)
        case "reshape":
            factors = [n for n in range(1, 13) if dims[0] * dims[1] * dims[2] % n == 0]
            first = draw(st.sampled_from(factors))
            rest = dims[0] * dims[1] * dims[2] // first
            second = draw(st.sampled_from([n for n in range(1, 13) if rest % n == 0]))
            out = draw(st.permutations([first, second, rest // second]))
        case "transpose":
            attrs = {"perm": tuple(draw(st.permutations([0, 1, 2])))}
            out = tuple(dims[axis] for axis in attrs["perm"])
        case "slice":
            starts, steps, counts = [], [], []
            for size in dims:
                start, step = draw(st.integers(0, size - 1)), draw(st.sampled_from([1, 1, 2, -1, -3]))
                most = (size - 1 - start) // step + 1 if step > 0 else start // -step + 1
                starts.append(start), steps.append(step), counts.append(draw(st.integers(1, most)))
            attrs, out = {"start": tuple(starts), "step": tuple(steps)}, tuple(counts)
        case "pad":
            before = tuple(draw(st.integers(-1, 4)) for _ in dims)
            attrs = {"before": before, "mode": draw(st.integers(0, 2)), "value": draw(zero_points)}
            out = tuple(size + max(pad, 0) + draw(st.integers(0, 4)) for size, pad in zip(dims, before, strict=True))
    same_bytes(Job(op, dims, tuple(out), attrs, box_in(draw, tuple(out))), memory, flat)


@pytest.mark.parametrize("op", ["max_pool", "avg_pool"])
@EXAMPLES
@given(data=st.data())
def test_pools_have_the_bytes_of_the_reference(op: str, data: st.DataObject) -> None:
    draw, memory = data.draw, seeded(data.draw)
    dims = (draw(small), draw(small), draw(channels))
    attrs, out = window(draw, dims)
    flat = {}
    if op == "avg_pool":
        lo, hi = limits(draw)
        attrs |= {"pad_end": (draw(st.integers(0, 4)), draw(st.integers(0, 4))), "include_pad": draw(st.integers(0, 1))}
        attrs |= {"zp": draw(zero_points), "out_zp": draw(zero_points), "lo": lo, "hi": hi}
        flat[1] = np.array([(count, *qfp(0.9 / count)) for count in range(1, 26)], np.int32)
    same_bytes(Job(op, dims, (*out, dims[2]), attrs, box_in(draw, (*out, dims[2]))), memory, flat)


def test_global_average_pools_are_cut_by_channels_without_a_trace() -> None:
    attrs = {
        "kernel": (20, 20),
        "stride": (1, 1),
        "dilation": (1, 1),
        "pad": (0, 0),
        "pad_end": (0, 0),
        "include_pad": 0,
    }
    attrs |= {"zp": -5, "out_zp": 3, "lo": -128, "hi": 127}
    constants = {1: np.array([(400, *qfp(1.3 / 400))], np.int32)}
    same_bytes(Job("avg_pool", (20, 20, 333), (1, 1, 333), attrs, Tile(0, 0, 0, 1, 1, 333)), Memory(3), constants)


@pytest.mark.parametrize("op", ["resize_nearest", "resize_linear", "depth_to_space", "space_to_depth"])
@EXAMPLES
@given(data=st.data())
def test_ops_that_change_resolution_have_the_bytes_of_the_reference(op: str, data: st.DataObject) -> None:
    draw, memory = data.draw, seeded(data.draw)
    h, w, c = draw(st.integers(1, 8)), draw(st.integers(1, 8)), draw(channels)
    fy, fx = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    match op:
        case "resize_nearest":
            dims, out, attrs = (h, w, c), (h * fy, w * fx, c), {"factor": (fy, fx)}
        case "resize_linear":
            m, f = scale(draw, 2.0 / (4 * fy * fx))
            dims, out, attrs = (h, w, c), (h * fy, w * fx, c), {"factor": (fy, fx), "mode": draw(st.integers(0, 1))}
            attrs |= {"zp": draw(zero_points), "m": m, "f": f, "out_zp": draw(zero_points)}
        case "depth_to_space":
            dims, out, attrs = (h, w, c * fy * fy), (h * fy, w * fy, c), {"block": fy, "mode": draw(st.integers(0, 1))}
        case _:
            dims, out, attrs = (h * fy, w * fy, c), (h, w, c * fy * fy), {"block": fy}
    same_bytes(Job(op, dims, out, attrs, box_in(draw, out)), memory, {})


@EXAMPLES
@given(data=st.data())
def test_concat_parts_have_the_bytes_of_the_reference(data: st.DataObject) -> None:
    draw, memory = data.draw, seeded(data.draw)
    axis, dims = draw(st.integers(0, 2)), [draw(small), draw(small), draw(channels)]
    sizes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
    dims[axis] = sum(sizes)
    parts: list[int] = []
    for index in range(len(sizes)):
        m, f = scale(draw, 2.0) if draw(st.booleans()) else (0, 0)
        parts += [sum(sizes[:index]), draw(zero_points), m, f]
    first = [*dims]
    first[axis] = sizes[0]
    attrs = {"axis": axis, "out_zp": draw(zero_points), "parts": tuple(parts)}
    out = (dims[0], dims[1], dims[2])
    part = draw(st.integers(0, len(sizes) - 1))
    same_bytes(Job("concat", (first[0], first[1], first[2]), out, attrs, box_in(draw, out), part), memory, {})


def test_the_engine_decodes_the_same_table_of_ops() -> None:
    table = [(op, [(name, WIDTHS.get(name, 1)) for name in fields]) for op, fields in FIELDS.items()]
    assert [(name, [tuple(field) for field in fields]) for name, fields in native.op_table()] == table
