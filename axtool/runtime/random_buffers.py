"""Buffers that a device might write, with every value of its numbers: what a kernel must restore as its tail does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.op.device_part import Lane
from axtool.runtime.tensor_info import TensorInfo

Array = NDArray[Any]

FEWEST_FRAMES = 4
MOST_FRAMES = 384  # a buffer of one number sees every value in so many
MOST_NUMBERS = 1 << 26  # of all buffers together: some seconds of the tail of a large detector
EXTREMES = 4  # every so manieth frame holds only the least and the greatest number


def frames_of(infos: Sequence[TensorInfo]) -> int:
    """So many that the smallest buffer sees every value, as far as the numbers of all allow."""
    numbers = [prod(info.unpadded_shape) for info in infos if info.dtype == np.int8] or [256]
    whole = sum(prod(info.shape) for info in infos)
    cards = -(-256 // max(min(numbers), 1))
    wanted = min(cards + cards // 3 + 1, MOST_FRAMES)
    return max(min(wanted, MOST_NUMBERS // max(whole, 1)), FEWEST_FRAMES)


def random_buffers(
    lanes: Sequence[Lane], host: Mapping[str, Array], frames: int, seed: int = 0
) -> Iterator[list[Array]]:
    """Buffers of the device, padding and all: every value equally often, shuffled, and in every fourth frame only
    the least and the greatest. Tensors of the host are those of the last sample.
    """
    rng = np.random.default_rng(seed)
    for frame in range(frames):
        made = []
        for lane in lanes:
            if lane.tensor is None:
                made.append(host[lane.name])
                continue
            low, high = _limits(lane.info)
            if frame % EXTREMES == EXTREMES - 1:
                array = rng.choice(np.array([low, high]), lane.info.shape)
            elif lane.info.dtype == np.int8:
                array = rng.integers(-128, 128, lane.info.shape)
                array[lane.info.inside] = _deck(rng, lane.info.unpadded_shape, frame)
            else:
                array = rng.integers(low, high, lane.info.shape, endpoint=True)
            made.append(array.astype(lane.info.dtype))
        yield made


def _deck(rng: np.random.Generator, shape: Sequence[int], frame: int) -> Array:
    """Numbers of one frame: the next cards of a pack that holds every value once, dealt anew when it is used up."""
    size = prod(shape)
    first = (frame - frame // EXTREMES) * size  # frames of extremes deal no cards
    return rng.permutation((first + np.arange(size)) % 256).reshape(tuple(shape)) - 128


def _limits(info: TensorInfo) -> tuple[int, int]:
    """The least and the greatest number. Fixed point of 32 bits stays near 0, where its sums are exact in float32."""
    if info.dtype == np.int32:
        return -(1 << 20), 1 << 20
    bounds = np.iinfo(info.dtype)
    return int(bounds.min), int(bounds.max)
