"""Sweeps: what is tried, in which order, by whom, and what is refused before anything is tried."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axtool.errors import AxError, UsageError
from axtool.report.profile import Request
from axtool.report.sweep import MOST_POINTS, Axis, gather, parse_sweep, submit, sweep
from tests.conftest import Tiny

OCM = Axis("memory.ocm_bytes", ("64", "1MiB", "16MiB"))
READ = Axis("ext.read_bytes_per_s", ("16e9", "128e9"))


def test_an_axis_is_a_key_and_its_values() -> None:
    assert parse_sweep(["memory.ocm_bytes=64,1MiB, 16MiB", "ext.read_bytes_per_s=16e9,128e9"]) == (OCM, READ)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["memory.ocm_bytes"], "want KEY=VALUE,VALUE"),
        (["=1,2"], "want KEY=VALUE,VALUE"),
        ([""], "want KEY=VALUE,VALUE"),
        (["clock_hz="], "a value is empty"),
        (["clock_hz=1,,2"], "a value is empty"),
        (["clock_hz=1,1"], "is there twice"),
        (["clock_hz=1", "clock_hz=2"], "is swept twice"),
        ([f"clock_hz={','.join(map(str, range(1, MOST_POINTS + 2)))}"], "1,001 combinations, at most 1,000"),
        ([f"a={','.join(map(str, range(1000)))}", f"b={','.join(map(str, range(1000)))}"], "1,000,000 combinations"),
    ],
)
def test_axes_that_are_none_or_too_many_are_refused(texts: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_sweep(texts)


def test_points_come_in_the_order_of_the_product_and_what_does_not_fit_is_one_of_them(tiny_models: Tiny) -> None:
    outcomes = sweep(Request(tiny_models / "cls.onnx"), (OCM, READ))
    assert [outcome.point for outcome in outcomes] == [(ocm, read) for ocm in OCM.values for read in READ.values]
    assert [outcome.status for outcome in outcomes] == ["does not fit"] * 2 + ["ok"] * 4
    assert all("needs" in outcome.reason and outcome.totals is None for outcome in outcomes[:2])


def test_a_point_has_the_figures_of_a_profile_with_its_values_set(tiny_models: Tiny) -> None:
    from axtool.report.profile import profile
    from axtool.report.profiled import profile_document

    (outcome,) = sweep(Request(tiny_models / "cls.axm"), (Axis("memory.ocm_bytes", ("1MiB",)),))
    alone = profile_document("m", profile(Request(tiny_models / "cls.axm", settings=("memory.ocm_bytes=1MiB",))))
    assert outcome.totals is not None
    assert {key: value for key, value in outcome.totals.items() if key != "bound"} == {
        key: alone[key] for key in outcome.totals if key != "bound"
    }


def test_any_executor_gives_the_outcomes_of_this_process_in_their_order(tiny_models: Tiny) -> None:
    request, keys = Request(tiny_models / "cls.axm"), (OCM.key,)
    heard: list[tuple[int, int]] = []
    with ThreadPoolExecutor(1) as executor:
        points = [(value,) for value in OCM.values]
        outcomes = gather(submit(executor, request, keys, points), lambda *done: heard.append(done))
    assert outcomes == sweep(request, (OCM,))
    assert heard == [(1, 3), (2, 3), (3, 3)]


def test_processes_give_the_outcomes_of_this_one(tiny_models: Tiny) -> None:
    request = Request(tiny_models / "cls.axm")
    assert sweep(request, (OCM,), jobs=2) == sweep(request, (OCM,))


def test_a_sweep_of_chips_changes_the_chip(tiny_models: Tiny) -> None:
    outcomes = sweep(Request(tiny_models / "cls.onnx"), (Axis("target", ("qc-u-1d5-8mb", "qc-u-1d7-16mb")),))
    assert [outcome.totals["target"] for outcome in outcomes if outcome.totals] == ["qc-u-1d5-8mb", "qc-u-1d7-16mb"]


@pytest.mark.parametrize(
    ("axis", "code"),
    [
        (Axis("memory.ocm_byte", ("1",)), "unknown-target-value"),
        (Axis("clock_hz", ("1GHz", "fast")), "bad-target"),
        (Axis("clock_hz", ("0",)), "bad-target"),
        (Axis("target", ("qc-u-1d5-8mb", "qc")), "unknown-target"),
    ],
)
def test_a_value_that_no_chip_has_is_refused_before_anything_is_tried(tiny_models: Tiny, axis: Axis, code: str) -> None:
    with pytest.raises(AxError) as caught:
        sweep(Request(tiny_models / "cls.axm"), (axis,), progress=pytest.fail)
    assert caught.value.code == code


def test_a_value_that_is_also_set_is_refused(tiny_models: Tiny) -> None:
    with pytest.raises(UsageError, match="--set says its value"):
        sweep(Request(tiny_models / "cls.axm", settings=("clock_hz=1GHz",)), (Axis("clock_hz", ("2GHz",)),))
    with pytest.raises(UsageError, match="--target says its value"):
        sweep(Request(tiny_models / "cls.axm", target="qc-u-1d5-8mb"), (Axis("target", ("qc-u-1d7-16mb",)),))


def test_what_is_wrong_with_the_model_is_no_outcome() -> None:
    with pytest.raises(UsageError) as caught:
        sweep(Request(Path("nothing.onnx")), (OCM,))
    assert caught.value.code == "file-not-found"


@given(st.lists(st.text(max_size=40), max_size=3))
def test_any_text_is_axes_or_a_usage_error(texts: list[str]) -> None:
    with contextlib.suppress(UsageError):
        assert all(axis.key and all(axis.values) for axis in parse_sweep(texts))
