"""Every family of tails stays within what its kernel says of itself, as `axtool verify --postamble` judges it."""

from __future__ import annotations

import numpy as np
import pytest

from axtool.runtime import mega
from axtool.runtime.tolerance import tolerances_of
from axtool.verify.tail import Errors
from benchmarks.tails import CASES, Case
from tests.runtime.tail_case import Tail


@pytest.mark.slow  # tails of full size in onnxruntime
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_kernel_uses_less_than_half_of_what_it_allows_itself(case: Case) -> None:
    tail, rng = Tail(case.tail()), np.random.default_rng(3)
    infos = tail.infos(rng, padded=False)
    kernel = getattr(mega, case.kernel)(infos, case.model_width, case.model_height, **case.params)
    told = tolerances_of(kernel, len(kernel.output_shapes))
    rows = [Errors(str(index), "random", tolerance) for index, tolerance in enumerate(told)]
    uniform = [rng.integers(-128, 128, info.shape).astype(np.int8) for info in infos]
    extremes = [rng.choice([-128, 127], info.shape).astype(np.int8) for info in infos]
    for buffers in (uniform, extremes):
        made = kernel(*buffers)
        as_good = None
        if hasattr(kernel, "equal_labels"):
            as_good = lambda got, wanted, b=buffers: kernel.equal_labels(got, wanted, *b)  # noqa: E731
        outputs = made if isinstance(made, tuple) else (made,)
        for row, got, wanted in zip(rows, outputs, tail.run(buffers, infos), strict=True):
            row.add(got, wanted, as_good)
    assert [row.failure for row in rows if row.failure] == []
    assert max(row.used for row in rows) < 0.5
