"""A kernel beside the tail that it stands for: random buffers, every padding, outputs within a tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from axtool.runtime import TensorInfo
from axtool.runtime.mega import heads
from axtool.runtime.op import Operator
from axtool.runtime.tolerance import tolerances_of
from axtool.verify.tail import Errors
from tests.runtime.tail_case import Tail, random_buffers

Outputs = list[NDArray[np.float32]]


def as_list(made: Any) -> Outputs:
    return list(made) if isinstance(made, tuple) else [made]


def assert_kernel_is_the_tail(
    tail: bytes,
    kernel: type[Operator],
    size: tuple[int, int],
    params: dict[str, Any],
    *,
    seed: int = 0,
    scale: float = 0.0,
    same_order: bool = False,
) -> None:
    """Same shapes, types and values as onnxruntime gives, from the tensors in any order; NumPy has the same bits."""
    rng, reference = np.random.default_rng(seed), Tail(tail)
    for padded in (True, False):
        infos = reference.infos(rng, padded=padded, scale=scale)
        buffers = random_buffers(infos, rng)
        wanted = reference.run(buffers, infos)
        order = np.arange(len(infos)) if same_order else rng.permutation(len(infos))
        given = [infos[i] for i in order]
        made = kernel(given, *size, **params)
        found = as_list(made(*(buffers[i] for i in order)))
        assert [x.dtype for x in found] == [x.dtype for x in wanted]
        assert list(made.output_shapes) == [x.shape for x in found] == [x.shape for x in wanted]
        assert failures(made, found, wanted) == []
        slow = without_native(kernel, given, size, params)
        for mine, meaning in zip(found, as_list(slow(*(buffers[i] for i in order))), strict=True):
            assert mine.tobytes() == meaning.tobytes()


def failures(kernel: Any, found: Sequence[NDArray[Any]], wanted: Sequence[NDArray[Any]]) -> list[str]:
    """A line for each output that is further from the tail's than the kernel says of itself."""
    rows = [Errors(str(at), "random", bound) for at, bound in enumerate(tolerances_of(kernel, len(wanted)))]
    for row, mine, theirs in zip(rows, found, wanted, strict=True):
        row.add(mine, theirs)
    return [row.failure for row in rows if row.failure]


def without_native(
    kernel: type[Operator], infos: Sequence[TensorInfo], size: tuple[int, int], params: dict[str, Any]
) -> Any:
    """The kernel as it is where the native module is not installed."""
    with mock.patch.object(heads, "_native", return_value=None):
        made = kernel(list(infos), *size, **params)
    assert made.backend == "numpy"
    return made
