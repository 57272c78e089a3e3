"""Steps: NumPy's meaning and the native tiles give the same bits; what would leave a buffer is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from axtool.runtime import TensorInfo
from axtool.runtime.mega import byte_functions as bf
from axtool.runtime.mega.byte_steps import Boxes, Map, Placed, Steps, write_steps

native = pytest.importorskip("axtool.native._native")

GRIDS = [(1, 1), (3, 5), (9, 8), (7, 33), (23, 27)]  # the last has more pixels than a tile


def info_of(rng: np.random.Generator, h: int, w: int, c: int, *, padded: bool, scale: float = 0.05) -> TensorInfo:
    """A tensor of h x w pixels of c channels, padded on every axis or at the channels' end."""
    if padded:
        padding = [(0, 0), *(tuple(int(n) for n in rng.integers(0, 4, 2)) for _ in range(3))]
    else:
        padding = [(0, 0)] * 3 + [(0, -c % 4)]
    shape = [size + sum(pair) for size, pair in zip((1, h, w, c), padding, strict=True)]
    return TensorInfo(shape, padding=padding, scale=scale, zero_point=int(rng.integers(-128, 128)))


def placed(rng: np.random.Generator, pixels: int, channels: int) -> tuple[Placed, int]:
    """Channels as planes, or pixel by pixel with room between; and the floats that a target needs."""
    offset, room = (int(n) for n in rng.integers(0, 5, 2))
    if rng.integers(2):
        return Placed(0, offset, 1, pixels + room), offset + channels * (pixels + room)
    return Placed(0, offset, channels + room, 1), offset + pixels * (channels + room)


def both_ways(
    infos: list[TensorInfo], step: Map | Boxes, floats: int, backend: str, threads: int, rng: np.random.Generator
) -> list[bf.Float]:
    buffers = [rng.integers(-128, 128, info.shape).astype(np.int8) for info in infos]
    fast, slow = np.full((2, floats), 7, np.float32)
    made = Steps(infos, [step], [(floats,)], backend=backend, threads=threads)
    assert made.backend == backend
    made._native.run(buffers, [fast])
    write_steps([step], buffers, infos, [slow])
    return [fast, slow]


def functions_of(info: TensorInfo, count: int, rng: np.random.Generator) -> bf.ByteFunctions:
    kinds: list[bf.ByteFunctions] = [bf.linear(info), bf.logistic(info), bf.table(info, np.tanh), bf.constant(1)]
    chosen = [kinds[int(k)] for k in rng.integers(0, len(kinds), min(count, int(rng.integers(1, 4))))]
    if count >= 2 and rng.integers(2):
        chosen = [bf.on_grid(info, 8.0), *chosen][: max(1, count - 1)]
    return bf.together(*chosen)


@pytest.mark.parametrize("backend", native.postamble_backends())
@pytest.mark.parametrize("padded", [False, True], ids=["padded channels", "padded axes"])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 15, 16, 17, 31, 33, 80])
def test_every_backend_writes_the_bits_of_numpy_and_nothing_between(channels: int, padded: bool, backend: str) -> None:
    rng = np.random.default_rng(channels)
    for h, w in GRIDS:
        info = info_of(rng, h, w, channels, padded=padded)
        first = int(rng.integers(0, channels))
        count = int(rng.integers(1, channels - first + 1))
        functions = functions_of(info, count, rng)
        grid = bf.grid_points(h, w, 0.5) if functions.wants_grid else None
        to, floats = placed(rng, h * w, count)
        step = Map(0, first, count, to, functions, grid)
        fast, slow = both_ways([info], step, floats, backend, int(rng.integers(1, 4)), rng)
        assert fast.tobytes() == slow.tobytes()


@pytest.mark.parametrize("backend", native.postamble_backends())
@pytest.mark.parametrize("turned", [False, True], ids=["upright", "turned"])
@pytest.mark.parametrize(("bins", "scale"), [(1, 0.1), (7, 0.1), (16, 0.1), (17, 0.1), (16, 2.0), (64, 0.05)])
def test_boxes_have_the_bits_of_numpy_on_every_backend(bins: int, scale: float, turned: bool, backend: str) -> None:
    rng = np.random.default_rng(bins)
    for h, w in GRIDS:
        infos = [info_of(rng, h, w, 4 * bins, padded=bool(rng.integers(2)), scale=scale)]
        distances, shifted = (bf.linear(infos[0]), False) if bins == 1 else bf.exponential_of_bins(infos[0])
        angle, turn = None, None
        if turned:
            infos.append(info_of(rng, h, w, 1, padded=bool(rng.integers(2))))
            angle, turn = 1, bf.together(bf.table(infos[1], np.cos), bf.table(infos[1], np.sin))
        to, floats = placed(rng, h * w, 4)
        step = Boxes(0, bins, to, distances, bf.grid_points(h, w, 0.5), 8.0, shifted, angle, turn)
        fast, slow = both_ways(infos, step, floats, backend, int(rng.integers(1, 4)), rng)
        assert fast.tobytes() == slow.tobytes()


INFO = TensorInfo((1, 2, 3, 8), scale=0.1)
GOOD: dict[str, Any] = {"source": 0, "first": 0, "count": 8, "to": Placed(0, 0, 8, 1), "functions": bf.linear(INFO)}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"source": 1}, "no such source"),
        ({"first": 1}, "channels beyond the source"),
        ({"count": 0}, "want a channel"),
        ({"to": Placed(1, 0, 8, 1)}, "no such target"),
        ({"to": Placed(0, 1, 8, 1)}, "values beyond the target"),
        ({"to": Placed(0, 0, 9, 1)}, "values beyond the target"),
        ({"to": Placed(0, 0, -8, 1)}, "out of range"),
        ({"functions": bf.on_grid(INFO, 8.0)}, r"want a grid \(2, pixels\)"),
        ({"grid": np.zeros((2, 6), np.float32)}, r"want a grid \(2, pixels\)"),
    ],
)
def test_a_map_that_would_leave_its_memory_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Steps([INFO], [Map(**{**GOOD, **changed})], [(48,)])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"bins": 3}, r"want 4 \* bins channels"),
        ({"grid": np.zeros((2, 5), np.float32)}, r"want a grid \(2, pixels\)"),
        ({"angle": 0}, "want cosine and sine of an angle, or neither"),
        ({"angle": 0, "turn": bf.together(bf.constant(1), bf.constant(0))}, "want an angle a pixel"),
    ],
)
def test_boxes_of_other_tensors_are_refused(changed: dict[str, Any], message: str) -> None:
    good = {"source": 0, "bins": 2, "to": Placed(0, 0, 4, 1), "distances": bf.exponential_of_bins(INFO)[0],
            "grid": bf.grid_points(2, 3, 0.5), "stride": 8.0}  # fmt: skip
    with pytest.raises(ValueError, match=message):
        Steps([INFO], [Boxes(**{**good, **changed})], [(24,)])


@pytest.mark.parametrize("threads", [0, 257, 1.5])
def test_a_number_of_threads_that_is_none_is_refused(threads: Any) -> None:
    with pytest.raises(ValueError, match="threads is"):
        Steps([INFO], [Map(**GOOD)], [(48,)], threads=threads)
