"""The benchmark of planner and clock on a network of one layer."""

from __future__ import annotations

from benchmarks import plan
from benchmarks.validation.shapes import Built, Shapes, finish


def small() -> Built:
    net = Shapes("small", 16)
    return finish(net, net.conv("images", 8, 3, act="relu"))


def test_planning_and_timing_have_a_row_each_against_their_budgets() -> None:
    rows = plan.compare("small", plan.Subject(small, "qc-u-1d5-8mb", 10.0), rounds=2)
    assert [(row["measured"], row["peer"]["cpu_median_ms"]) for row in rows] == [
        ("planning, CPU", 10_000.0), ("timing, CPU", 1_000.0),
    ]  # fmt: skip
    assert all(row["ours"]["runs"] == 2 and row["ours"]["commands"] > 0 for row in rows)


def test_a_plan_that_takes_longer_than_its_budget_misses_it() -> None:
    planning, _ = plan.compare("small", plan.Subject(small, "qc-u-1d5-8mb", 1e-9), rounds=1)
    assert planning["met"] is False
