"""Limits of a profile: what their texts mean, and what is above them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axtool.errors import UsageError
from axtool.report.gates import Gates, judged, parse_gates

TOTALS = {"latency_ms": 5.0, "cycles": 1000, "external_bytes": 2048}


@pytest.mark.parametrize(
    ("text", "ms"),
    [("5ms", 5.0), ("5", 5.0), ("5000us", 5.0), ("5000 µs", 5.0), ("0.005s", 5.0), (".5ms", 0.5), ("1e3ns", 1e-3)],
)
def test_a_latency_has_a_unit_or_is_in_milliseconds(text: str, ms: float) -> None:
    assert parse_gates(text, None, None).latency_ms == pytest.approx(ms)


@pytest.mark.parametrize(("text", "count"), [("20MiB", 20 * 2**20), ("20MB", 20e6), ("2e7", 2e7), ("0", 0)])
def test_bytes_have_binary_or_decimal_units(text: str, count: float) -> None:
    assert parse_gates(None, None, text).external_bytes == count


@pytest.mark.parametrize(("text", "count"), [("2M", 2e6), ("36111116", 36111116), ("1e12", 1e12)])
def test_cycles_have_decimal_prefixes(text: str, count: float) -> None:
    assert parse_gates(None, text, None).cycles == count


@pytest.mark.parametrize("text", ["", "fast", "-5ms", "5m", "5 parsecs", "nan", "inf", "1e999", "5ms5", "5MS"])
def test_a_latency_that_is_no_time_is_refused_by_its_option(text: str) -> None:
    with pytest.raises(UsageError, match="--max-latency"):
        parse_gates(text, None, None)


@pytest.mark.parametrize("text", ["", "much", "-1", "20Mib", "nan", "inf", "1e999", "5ms"])
def test_bytes_and_cycles_that_are_no_numbers_are_refused_by_their_options(text: str) -> None:
    with pytest.raises(UsageError, match="--max-external-bytes"):
        parse_gates(None, None, text)
    with pytest.raises(UsageError, match="--max-cycles"):
        parse_gates(None, text, None)


def test_a_value_at_its_limit_passes() -> None:
    assert judged(TOTALS, Gates(5.0, 1000, 2048)) == {"status": "ok", "exceeded": []}


def test_each_limit_that_is_exceeded_is_said_with_both_numbers() -> None:
    found = judged(TOTALS, Gates(4.999, 999, 2047))
    assert found["status"] == "failed"
    assert found["exceeded"] == [
        "latency 5 ms, limit 4.999 ms", "1,000 cycles, limit 999 cycles", "external traffic 2,048 B, limit 2,047 B",
    ]  # fmt: skip


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_any_texts_are_limits_or_a_usage_error(latency: str, cycles: str, external: str) -> None:
    with contextlib.suppress(UsageError):
        found = parse_gates(latency, cycles, external)
        assert all(limit is not None and limit >= 0 for limit in (found.latency_ms, found.cycles, found.external_bytes))
