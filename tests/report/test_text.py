"""Reports for people: units, tables, ledgers and their sums."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axtool.report.bars import bars
from axtool.report.inspect import inspect
from axtool.report.inspect_text import info_text
from axtool.report.profile import Request, profile
from axtool.report.profile_rows import arrange, profile_csv
from axtool.report.profile_text import percent, profile_text
from axtool.report.profiled import profile_document
from axtool.report.support import support_text
from axtool.report.tables import table
from axtool.report.units import large, seconds, shape, size
from axtool.target_file import load_target
from axtool.timing.ledger import CATEGORIES
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


@pytest.fixture(autouse=True)
def _no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


@given(st.lists(st.tuples(st.text("abcdefgh/._", max_size=200), st.integers()), max_size=5))
def test_a_table_in_a_file_keeps_every_name_whole(rows: list[tuple[str, int]]) -> None:
    lines = table(("name", "value"), rows, right=(1,)).splitlines()[2:]
    assert [tuple(line.split()) for line in lines] == [tuple(f"{name} {value}".split()) for name, value in rows]


ROWS = [("a/long/name/of/a/layer", "1,234,567", "bound by something", "because of words and words and more words")]
COLUMNS = ("layer", "cycles", "bound by", "why")


def narrow(monkeypatch: pytest.MonkeyPatch, width: int) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    return table(COLUMNS, ROWS * 2, right=(1,), prose=(3,), droppable=(2, 1))


@pytest.mark.parametrize("width", [200, 80, 70, 60, 45])
def test_a_table_is_as_narrow_as_columns_says_also_in_a_pipe(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    assert max(map(len, narrow(monkeypatch, width).splitlines())) <= width


def test_columns_go_by_their_importance_and_nothing_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "bound by" in narrow(monkeypatch, 80)
    assert "bound by" not in narrow(monkeypatch, 60)
    assert "1,234,567" in narrow(monkeypatch, 60)
    assert "1,234,567" not in narrow(monkeypatch, 45)
    for width in (80, 45, 10):
        assert narrow(monkeypatch, width).count("a/long/name/of/a/layer") == 2


def test_wide_characters_take_two_cells() -> None:
    header, _, row, plain = table(("name", "n"), [("文字", 1), ("text", 2)], right=(1,)).splitlines()
    assert (header.index("n", 1), row.index("1"), plain.index("2")) == (len("name  "), 4, 6)


def test_nodes_of_one_reason_are_one_row() -> None:
    row = {"node": "n", "op": "TopK", "kind": "host", "macs": 0, "reasons": ["no sorting."], "advice": ["cut it off."]}
    rows = [{**row, "index": i} for i in range(5)] + [{**row, "index": 5, "op": "NonZero"}]
    text = support_text([*rows, {**row, "index": 6, "kind": "device"}])
    assert text.startswith("6 of 7 nodes after passes on the host")
    assert text.count("no sorting.") == 1
    assert "5 TopK, 1" in text
    assert "and 3 more" in text
    assert support_text([{**row, "kind": "device"}]) == "all 1 node after passes on the device"


@pytest.mark.parametrize(("share", "text"), [(0.034, "3.4 %"), (0.0999, "10 %"), (0.5, "50 %"), (0.0, "0.0 %")])
def test_a_small_share_has_a_decimal(share: float, text: str) -> None:
    assert percent(share) == text


def test_a_profile_has_one_vocabulary(tiny_models: Tiny) -> None:
    profiled = profile_document("m", profile(Request(tiny_models / "cls.axm")))
    text = profile_text(profiled, arrange(profiled, by="op"))
    assert "1 layer " in text
    assert "2 layers" in text
    assert "the MAC array" not in text
    assert all(f"{name}:" in text for name in CATEGORIES)


def test_markup_in_a_name_is_shown_as_it_is() -> None:
    assert "[red]a[/red]" in table(("name",), [("[red]a[/red]",)])


def test_the_bars_are_those_that_cycle_charts_print() -> None:
    ledger = {"mac": 12_448_000, "compute": 7_723_000, "data_array": 1_671_000, "data_ocm": 4_462_000}
    lines = bars(
        {**ledger, "data_external": 9_105_000, "other": 702_000}, {"entry": 700_000, "fence": 2_000}
    ).splitlines()
    assert [(line.split(":")[0].strip(), line.count("▇")) for line in lines] == [
        ("compute", 31), ("data_array", 6), ("mac", 50), ("data_external", 36), ("data_ocm", 17), ("other", 0),
    ]  # fmt: skip
    assert "7.723M cycles (21.4 %)" in lines[0]
    assert lines[-1].endswith("702.000k cycles (1.9 %): entry 700,000, fence 2,000")


def test_an_empty_ledger_has_no_bars() -> None:
    assert "▇" not in bars({"mac": 0, "other": 0})


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


@pytest.mark.parametrize("part", ["tensors", "memory"])
def test_long_names_of_tensors_lose_their_middle_in_a_narrow_terminal(
    tiny_models: Tiny, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    document = inspect(tiny_models / "cls.axm", load_target("qc-u-1d7-16mb"), {}, {})
    for stage in document["stages"]:
        for row in (*stage.get("tensors", ()), *stage.get("slots", ())):
            row["tensor" if "tensor" in row else "name"] = "/block/" * 20
    monkeypatch.setenv("COLUMNS", "80")
    parts = {name: name == part for name in ("support", "layers", "tensors", "memory")}
    table_text = info_text(document, **parts).split("\n\n")[1]
    assert "…" in table_text
    assert max(map(len, table_text.splitlines())) <= 80
