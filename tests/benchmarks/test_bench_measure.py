"""The harness that times: turns, warm-up, inputs, and what is made of the seconds."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable

import pytest

from benchmarks.measure import Timing, interleave, run_process, run_python, settle

TIMING = Timing(wall_s=(0.004, 0.001, 0.002), cpu_s=(0.003, 0.001, 0.005))


def recorded(calls: list[tuple[str, int]], name: str) -> Callable[[int], Callable[[], object]]:
    return lambda number: lambda: calls.append((name, number))


def test_median_and_least_are_in_milliseconds() -> None:
    assert (TIMING.median_ms, TIMING.min_ms) == (2.0, 1.0)


def test_cpu_time_has_its_own_median_and_least() -> None:
    assert (TIMING.cpu_median_ms, TIMING.cpu_min_ms) == (3.0, 1.0)


def test_every_case_is_timed_as_often_as_asked() -> None:
    times = interleave({"a": recorded([], "a"), "b": recorded([], "b")}, rounds=4, warm_up=1)
    assert {name: len(timing.wall_s) for name, timing in times.items()} == {"a": 4, "b": 4}


def test_no_case_sees_an_input_twice() -> None:
    calls: list[tuple[str, int]] = []
    interleave({"a": recorded(calls, "a"), "b": recorded(calls, "b")}, rounds=3, warm_up=2)
    assert len(calls) == len(set(calls)) == 2 * 2 * 5


def test_every_round_has_every_case_once() -> None:
    calls: list[tuple[str, int]] = []
    interleave({name: recorded(calls, name) for name in "abc"}, rounds=4, warm_up=0, again=False)
    names = [name for name, _ in calls]
    assert [sorted(names[at : at + 3]) for at in range(0, 12, 3)] == [["a", "b", "c"]] * 4


def test_no_case_always_follows_the_same_one() -> None:
    calls: list[tuple[str, int]] = []
    interleave({name: recorded(calls, name) for name in "abc"}, rounds=9, warm_up=0, again=False)
    names = [name for name, _ in calls]
    assert {before for before, name in itertools.pairwise(names) if name == "a"} >= {"b", "c"}


def test_settling_waits_for_a_busy_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu_s = iter([0.0, 0.002, 0.002, 0.004, 0.004, 0.004])  # before and after each of three steps, the last one quiet
    monkeypatch.setattr("benchmarks.measure.time.process_time", lambda: next(cpu_s))
    settle(most_s=60)
    assert list(cpu_s) == []


def test_settling_gives_up_on_a_thread_that_is_always_busy() -> None:
    start = time.perf_counter()
    settle(step_s=1e-9, most_s=0.02)
    assert 0.02 <= time.perf_counter() - start < 1


def test_preparing_an_input_is_not_timed() -> None:
    def slow(number: int) -> Callable[[], object]:
        sum(range(2_000_000))
        return lambda: None

    timing = interleave({"slow": slow}, rounds=3, warm_up=0)["slow"]
    assert timing.cpu_min_ms < 1


def test_a_process_is_charged_its_own_cpu() -> None:
    idle = run_process([sys.executable, "-S", "-c", "import time; time.sleep(0.3)"])
    assert idle.wall_s >= 0.3 > idle.cpu_s > 0


def test_what_a_process_prints_is_kept() -> None:
    assert run_python("import sys; print(sys.argv[1])", "word").stdout == "word\n"


def test_a_process_that_fails_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="ended with 3"):
        run_python("raise SystemExit(3)")
