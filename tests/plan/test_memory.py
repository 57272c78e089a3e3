"""Placement: no overlap, aligned, near the lower bound, the same every time."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from axtool.plan.memory import ALIGNMENT, live_bytes, lower_bound, peak, place
from axtool.types import Slot


@st.composite
def slots(draw: st.DrawFn) -> list[Slot]:
    spans = st.tuples(st.integers(0, 12), st.integers(0, 4), st.integers(1, 5000))
    return [
        Slot(f"t{i}", "ocm", 0, size, first, first + length)
        for i, (first, length, size) in enumerate(draw(st.lists(spans, max_size=20)))
    ]


@given(slots())
@settings(max_examples=100, deadline=None)
def test_live_slots_never_overlap(wanted: list[Slot]):
    placed = place(wanted)
    for i, a in enumerate(placed):
        for b in placed[i + 1 :]:
            together = a.first <= b.last and b.first <= a.last
            assert not together or a.offset + a.size <= b.offset or b.offset + b.size <= a.offset


@given(slots())
@settings(max_examples=50, deadline=None)
def test_offsets_are_aligned_and_nothing_else_changes(wanted: list[Slot]):
    for before, after in zip(wanted, place(wanted), strict=True):
        assert after.offset % ALIGNMENT == 0
        assert (before.tensor, before.size, before.first, before.last) == (
            after.tensor, after.size, after.first, after.last,
        )  # fmt: skip


@given(slots())
@settings(max_examples=50, deadline=None)
def test_no_peak_is_below_the_largest_live_set(wanted: list[Slot]):
    assert peak(place(wanted)) >= lower_bound(wanted)


def test_a_chain_is_placed_at_its_lower_bound():
    random.seed(1)
    chain = [Slot(f"t{i}", "ocm", 0, random.randrange(1, 1 << 20), i, i + 1) for i in range(300)]
    assert peak(place(chain)) == lower_bound(chain)


def test_sorting_by_size_alone_is_not_enough():
    sizes = [(10, 0, 1), (10, 1, 3), (60, 2, 4), (20, 3, 5), (40, 0, 2), (30, 5, 6), (50, 4, 6)]
    wanted = [Slot(str(i), "ocm", 0, 64 * size, first, last) for i, (size, first, last) in enumerate(sizes)]
    assert peak(place(wanted)) == lower_bound(wanted)


def test_live_bytes_counts_both_ends_of_a_lifetime():
    assert live_bytes([Slot("a", "ocm", 0, 64, 1, 2), Slot("b", "ocm", 0, 1, 2, 2)]) == [0, 64, 128]


def test_placing_nothing_gives_nothing():
    assert place([]) == ()
    assert peak([]) == 0
