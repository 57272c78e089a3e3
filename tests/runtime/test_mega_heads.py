"""Strips: NumPy's meaning and the native loops give the same bits; what would leave a buffer is refused."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from numpy.typing import NDArray

from axtool.runtime import TensorInfo
from axtool.runtime.mega.byte_functions import Float, table
from axtool.runtime.mega.heads import Heads
from axtool.runtime.mega.strips import Kind, Place, Strip, activated, softmax_pairs, write_strips

native = pytest.importorskip("axtool.native._native")

KINDS: tuple[Kind, ...] = ("affine", "sigmoid", "tanh", "softmax", "table", "softmax_pair", "grid_box", "corner_box")


def strip_of(kind: Kind, info: TensorInfo, place: Place, rng: np.random.Generator) -> Strip:
    rows, cols = info.unpadded_shape[1:3]
    if kind in ("grid_box", "corner_box"):
        random = [rng.normal(0, 2, size).astype(np.float32) for size in ((2, 256), (place.anchors, 2), rows, cols, 2)]
        centres, sizes, of_rows, of_cols, steps = random
        first = bool(rng.integers(2))
        return Strip(kind, place, centres, sizes=sizes, rows=of_rows, cols=of_cols, steps=steps, columns_first=first)
    if kind == "table":
        return Strip(kind, place, table(info, np.tanh).tables[0])
    return activated(info, {"affine": "none", "softmax_pair": "softmax"}.get(kind, kind), place)


def random_case(kind: Kind, rng: np.random.Generator) -> tuple[TensorInfo, Strip, int]:
    """A tensor of any padding, and a strip that takes any of its channels to any order of rows."""
    anchors, before, after = (int(n) for n in rng.integers((1, 0, 0), (5, 3, 3)))
    count = {"softmax_pair": 2, "grid_box": 4, "corner_box": 4}.get(kind) or int(rng.integers(1, 40))
    rows, cols = (int(n) for n in rng.integers(1, 12, 2))
    group = before + count + after
    padding = [(0, 0), *(tuple(int(n) for n in rng.integers(0, 4, 2)) for _ in range(3))]
    inside = (1, rows, cols, anchors * group)
    shape = [size + sum(pair) for size, pair in zip(inside, padding, strict=True)]
    scale, zero = float(np.float32(rng.uniform(0.001, 0.4))), int(rng.integers(-128, 128))
    info = TensorInfo(shape, padding=padding, scale=scale, zero_point=zero)
    extra, offset = (int(n) for n in rng.integers(0, 3, 2))
    values = count + extra
    by_anchor = bool(rng.integers(2))
    steps = (rows * cols * values, values) if by_anchor else (values, anchors * values)
    place = Place(0, 0, anchors, group, before, count, offset, *steps)
    return info, strip_of(kind, info, place, rng), offset + rows * cols * anchors * values


def both_ways(info: TensorInfo, strip: Strip, floats: int, backend: str, rng: np.random.Generator) -> list[Float]:
    buffer = rng.integers(-128, 128, info.shape).astype(np.int8)
    fast, slow = np.full((2, floats), 7, np.float32)
    made = Heads([info], [strip], [(floats,)], backend=backend)
    assert made.backend == backend
    made._native.run([buffer], [fast])
    write_strips([strip], [buffer], [info], [slow])
    return [fast, slow]


@pytest.mark.parametrize("backend", native.head_backends())
@pytest.mark.parametrize("kind", KINDS)
def test_every_backend_writes_the_bits_of_numpy_and_nothing_between(kind: Kind, backend: str) -> None:
    rng = np.random.default_rng(KINDS.index(kind))
    for _ in range(40):
        fast, slow = both_ways(*random_case(kind, rng), backend, rng)
        assert fast.tobytes() == slow.tobytes()


@pytest.mark.parametrize("backend", native.head_backends())
@pytest.mark.parametrize("kind", ["affine", "sigmoid", "tanh", "softmax"])
@pytest.mark.parametrize("channels", [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64])
def test_rows_without_padding_are_one_run(kind: Kind, channels: int, backend: str) -> None:
    rng = np.random.default_rng(channels)
    info = TensorInfo((1, 3, 5, channels), scale=0.07, zero_point=-9)
    strip = strip_of(kind, info, Place(0, 0, 1, channels, 0, channels, 0, channels, channels), rng)
    fast, slow = both_ways(info, strip, 15 * channels, backend, rng)
    assert fast.tobytes() == slow.tobytes()


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_share_rows_and_the_bits_stay(threads: int) -> None:
    rng = np.random.default_rng(5)
    info, strip, floats = random_case("sigmoid", rng)
    buffer = rng.integers(-128, 128, info.shape).astype(np.int8)
    one, many = (Heads([info], [strip], [(floats,)], threads=count) for count in (1, threads))
    wanted, found = np.zeros((2, floats), np.float32)
    one._native.run([buffer], [wanted])
    many._native.run([buffer], [found])
    assert found.tobytes() == wanted.tobytes()


def test_callers_on_several_threads_get_their_own_frames() -> None:
    info = TensorInfo((1, 64, 64, 8), scale=0.1)
    place = Place(0, 0, 1, 8, 0, 8, 0, 8, 8)
    heads = Heads([info], [activated(info, "none", place)], [(1, 4096, 8)], threads=2)
    wrong: list[int] = []

    def ask(value: int) -> None:
        for _ in range(20):
            (found,) = heads.run([np.full(info.shape, value, np.int8)])
            if not (found == np.float32(value) * np.float32(0.1)).all():
                wrong.append(value)

    callers = [threading.Thread(target=ask, args=(value,)) for value in (-7, 3, 90)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


def test_both_values_of_a_softmax_pair_sum_to_one() -> None:
    pairs = softmax_pairs(TensorInfo((1, 1, 1, 2), scale=0.1, zero_point=40))
    np.testing.assert_allclose(pairs.sum(1), 1, rtol=1e-6)
    np.testing.assert_allclose(pairs[255 + 30], [1 / (1 + np.exp(-3.0)), 1 / (1 + np.exp(3.0))], rtol=1e-6)


SHAPE, NO_PADDING, NONE = (1, 2, 3, 8), ((0, 0),) * 4, np.empty(0, np.float32)
TABLE = np.zeros(256, np.float32)


def raw_heads(places: tuple[int, ...], kind: str = "table", table: NDArray[np.float32] = TABLE) -> None:
    heads = native.Heads("scalar", 1)
    heads.add_source(SHAPE, NO_PADDING)
    heads.add_target(48)
    heads.add_strip(kind, places, False, 1.0, 0.0, table, NONE, NONE, NONE, NONE, NONE)


GOOD = (0, 0, 1, 8, 0, 8, 0, 8, 8)


def changed(**values: int) -> tuple[int, ...]:
    names = ("source", "target", "anchors", "group", "first", "count", "offset", "anchor_step", "pixel_step")
    return tuple(values.get(name, number) for name, number in zip(names, GOOD, strict=True))


@pytest.mark.parametrize(
    ("places", "message"),
    [
        (changed(source=1), "no such source"),
        (changed(target=-1), "no such target"),
        (changed(first=1), "channels beyond the source"),
        (changed(anchors=2), "channels beyond the source"),
        (changed(offset=1), "values beyond the target"),
        (changed(pixel_step=9), "values beyond the target"),
        (changed(pixel_step=-8), "out of range"),
        (changed(count=0), "want an anchor and a channel"),
    ],
)
def test_a_strip_that_would_leave_its_memory_is_refused(places: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        raw_heads(places)


def test_a_table_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="table of another size"):
        raw_heads(GOOD, table=TABLE[:255])


def test_buffers_of_another_shape_or_number_are_refused() -> None:
    heads = native.Heads("auto", 1)
    heads.add_source(SHAPE, NO_PADDING)
    heads.add_target(48)
    target, buffer = np.zeros(48, np.float32), np.zeros(SHAPE, np.int8)
    with pytest.raises(ValueError, match="buffer 0 has another shape"):
        heads.run([buffer[:, :1].copy()], [target])
    with pytest.raises(ValueError, match="target 0 has another size"):
        heads.run([buffer], [target[:-1].copy()])
    with pytest.raises(ValueError, match="another number"):
        heads.run([], [target])


def test_padding_larger_than_the_buffer_is_refused() -> None:
    with pytest.raises(ValueError, match="a size or a padding out of range"):
        native.Heads("auto", 1).add_source((1, 2, 3, 4), ((0, 0), (9, -8), (0, 0), (0, 0)))


def test_a_backend_of_another_cpu_is_refused_with_those_there_are() -> None:
    missing = ({"avx2", "avx512", "neon"} - set(native.head_backends())).pop()
    with pytest.raises(ValueError, match=f"'{missing}' does not exist on this CPU; there are auto, scalar"):
        Heads([TensorInfo((1, 1, 1, 8))], [], [], backend=missing)
