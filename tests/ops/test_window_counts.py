"""The counts of an average pool's windows are those of its cells, whatever the sizes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from axtool.ops.window_counts import window_counts


def by_cells(have, made, window):
    along = []
    for axis in (0, 1):
        before, after = (window["pad"][axis], window["pad_end"][axis]) if window["include_pad"] else (0, 0)
        starts = np.arange(made[axis]) * window["stride"][axis] - window["pad"][axis]
        cells = starts[:, None] + np.arange(window["kernel"][axis]) * window["dilation"][axis]
        along.append(np.unique(((cells >= -before) & (cells < have[axis] + after)).sum(axis=1)))
    return sorted({int(n) for n in np.outer(*along).reshape(-1) if n > 0})


def pair(low, high):
    return st.tuples(st.integers(low, high), st.integers(low, high))


@given(
    have=pair(1, 9), made=pair(1, 9), kernel=pair(1, 5), stride=pair(1, 4), dilation=pair(1, 3), pad=pair(-2, 6),
    pad_end=pair(-2, 6), include_pad=st.integers(0, 1),
)  # fmt: skip
def test_counts_are_those_of_the_cells(have, made, **window):
    assert window_counts(have, made, window) == by_cells(have, made, window)


def test_sizes_cost_nothing():
    window = {
        "kernel": (3, 2), "stride": (1, 2), "dilation": (1, 1), "pad": (1, 0), "pad_end": (1, 0), "include_pad": 0,
    }  # fmt: skip
    assert window_counts((2**31 - 1, 2**30), (2**31 - 1, 2**29), window) == [4, 6]


@pytest.mark.parametrize("kernel", [(2**31 - 1, 1), (300, 300)])
def test_windows_cut_in_too_many_ways_are_refused(kernel):
    window = {
        "kernel": kernel, "stride": (1, 1), "dilation": (1, 1), "pad": kernel, "pad_end": kernel, "include_pad": 0,
    }  # fmt: skip
    with pytest.raises(ValueError, match=r"kernel|count"):
        window_counts((2**31 - 1, 2**31 - 1), (2**31 - 1, 2**31 - 1), window)
