"""The stream benchmark on a network of one layer: the peer does what it claims, the rows are complete."""

from __future__ import annotations

import time

import pytest

from benchmarks import stream
from tests.conftest import Tiny


def test_the_peer_gives_every_frame_in_order_with_a_bounded_window() -> None:
    begun: list[int] = []
    for handed, (frame, result) in enumerate(stream.pooled(range(50), lambda x: begun.append(x) or -x, 4, 8)):
        assert (frame, result) == (handed, -handed)
        assert len(begun) <= handed + 8
    assert len(begun) == 50


def test_a_plain_core_does_not_lose_the_time_that_a_thread_wakes_too_late() -> None:
    core, start = stream.PlainCores(1, 0.002), time.perf_counter()
    assert stream.drained(stream.pooled(range(20), core.run, 2, 4)) == 20
    assert time.perf_counter() - start >= 20 * 0.002


def test_the_host_s_part_is_a_row_of_each_kind(tiny_models: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "FRAMES", 50)
    rows = stream.host_rows(tiny_models / "two.axm", rounds=1)
    assert [(row["name"], row["target"]) for row in rows] == [
        ("no-op", 1.0), ("no-op", None), ("model, replayed", 1.0), ("model, replayed", None),
    ]  # fmt: skip


def test_a_rate_is_the_frames_over_those_that_the_cores_are_modelled_to_do(tiny_models: Tiny) -> None:
    ours, pool = stream.load_rows("tiny", tiny_models / "two.axm", 4, 1, 1e-4, 0.97)
    assert (ours["target"], pool["target"]) == (0.97, None)
    for row in (ours, pool):
        assert row["cores"] == 4
        assert row["ratio"] == pytest.approx(row["peer"]["median_ms"] / row["ours"]["median_ms"], rel=0.02, abs=1e-4)
        assert row["ours"]["frames_per_s"] == pytest.approx(1e3 / row["ours"]["median_ms"], rel=0.02, abs=1e-4)
        assert 0 < row["ratio"] <= 1.05
