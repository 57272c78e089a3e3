"""Reports for people: units, tables, ledgers and their sums."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axtool.report.inspect import inspect
from axtool.report.profile import Request, profile
from axtool.report.profiled import arrange, bars, profile_csv, profile_document
from axtool.report.tables import table
from axtool.report.units import large, seconds, shape, size
from axtool.target_file import load_target
from tests.conftest import Tiny


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.50 KiB"), (2 << 20, "2.00 MiB"), (5 << 40, "5120.00 GiB")],
)
def test_bytes_have_binary_units(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0"), (950, "950"), (12_300, "12.3 k"), (4_090_000_000, "4.09 G")])
def test_counts_have_decimal_prefixes(count: int, text: str) -> None:
    assert large(count) == text


@pytest.mark.parametrize(("value", "text"), [(1.25, "1.25 s"), (0.0125, "12.5 ms"), (83e-5, "830 µs")])
def test_times_have_the_unit_that_fits(value: float, text: str) -> None:
    assert seconds(value) == text


def test_shapes_are_joined_by_x() -> None:
    assert (shape([1, 3, 8, 8]), shape(())) == ("1x3x8x8", "scalar")


@given(st.lists(st.tuples(st.text("abcdefgh/ ._", max_size=200), st.integers()), max_size=5))
def test_a_table_fits_and_loses_no_letter(rows: list[tuple[str, int]]) -> None:
    text = table(("name", "value"), rows, right=(1,))
    assert all(len(line) <= 120 for line in text.splitlines())
    letters = "".join(text.split())
    for name, _ in rows:
        for word in name.split():
            assert all(letter in letters for letter in word)


def test_markup_in_a_name_is_shown_as_it_is() -> None:
    assert "[red]a[/red]" in table(("name",), [("[red]a[/red]",)])


def test_the_bars_of_a_ledger_sum_to_the_whole() -> None:
    text = bars({"mac": 30, "other": 10})
    assert [line.split()[-2] for line in text.splitlines()] == ["75.0", "25.0"]
    assert bars({"mac": 0})


def test_sums_by_op_keep_the_totals(tiny_models: Tiny) -> None:
    document = profile_document("m", profile(Request(tiny_models / "cls.axm")))
    layers, ops = arrange(document), arrange(document, by="op")
    for key in ("cycles", "macs", "read_bytes", "write_bytes"):
        assert sum(row[key] for row in layers) == sum(row[key] for row in ops)
    assert sum(sum(row["ledger_cycles"].values()) for row in ops) == document["cycles"]


def test_the_csv_has_a_row_for_each_layer_and_its_ledger(tiny_models: Tiny) -> None:
    document = profile_document("m", profile(Request(tiny_models / "cls.axm")))
    rows = list(csv.DictReader(io.StringIO(profile_csv(arrange(document)))))
    assert len(rows) == len(document["layers"])
    for row in rows:
        parts = [int(value) for key, value in row.items() if key.endswith("_cycles")]
        assert sum(parts) == int(row["cycles"])


def test_a_description_of_a_compiled_file_has_the_format_of_every_tensor(tiny_models: Tiny) -> None:
    document = inspect(tiny_models / "cls.axm", load_target("qc-u-1d7-16mb"), {}, {})
    (stage,) = document["stages"]
    names = {tensor["name"] for tensor in stage["tensors"]}
    assert {layer["output"] for layer in stage["layers"]} <= names
    assert all(tensor["format"] == "int8" and tensor["scale"] > 0 for tensor in stage["tensors"])
