"""Profiles as text, at the widths of terminals; and what their rows and sums must be."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import Any

import pytest

from axtool.errors import UsageError
from axtool.report.compared import compared_document, compared_rows
from axtool.report.compared_text import compared_text
from axtool.report.gates import Gates
from axtool.report.profile_rows import arrange, profile_csv
from axtool.report.profile_text import profile_text
from axtool.report.profiled import profile_document
from axtool.report.schemas import check_document
from axtool.report.sweep import Axis, Outcome
from axtool.report.swept import KEPT, swept_csv, swept_document, swept_text
from tests.report import golden
from tests.report.profiles import LAYERS, LONG, document
from tests.report.profiles import profiled as made

WIDTHS = (80, 120, 200)


@pytest.fixture(params=WIDTHS)
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("COLUMNS", str(request.param))
    return int(request.param)


def fits(text: str, width: int) -> str:
    assert max(map(len, text.splitlines())) <= width
    return text


@pytest.mark.parametrize("by", ["layer", "segment", "op"])
def test_a_profile_reads_as_it_did(width: int, by: str) -> None:
    profiled = document()
    golden.check(f"profile_{by}_{width}", fits(profile_text(profiled, arrange(profiled, by=by)), width))


def test_spilled_bytes_have_a_column_where_there_are_any(width: int) -> None:
    profiled = document(spilled=5_000_000)
    golden.check(f"profile_spilled_{width}", fits(profile_text(profiled, arrange(profiled)), width))


@pytest.mark.parametrize("by", ["layer", "op"])
def test_a_comparison_reads_as_it_did(width: int, by: str) -> None:
    compared = compared_document(document(), document(layers=LAYERS[1:4], target="qc-u-1d5-8mb"), Gates(cycles=1))
    check_document(compared)
    golden.check(f"compared_{by}_{width}", fits(compared_text(compared, compared_rows(compared, by=by), by), width))


def sweep() -> dict[str, object]:
    totals = {key: document()[key] for key in KEPT} | {"bound": "mac"}
    slow = {**totals, "latency_ms": 7.25, "spilled_bytes": 3 << 20}
    outcomes = [
        Outcome(("1MiB", "16e9"), None, "conv '/stem/Conv': does not fit the on-chip memory", "does-not-fit", 6),
        Outcome(("1MiB", "32e9"), None, "conv '/stem/Conv': does not fit the on-chip memory", "does-not-fit", 6),
        Outcome(("16MiB", "16e9"), slow),
        Outcome(("16MiB", "32e9"), totals),
    ]
    axes = (Axis("memory.ocm_bytes", ("1MiB", "16MiB")), Axis("ext.read_bytes_per_s", ("16e9", "32e9")))
    return swept_document("model.onnx", axes, outcomes, Gates(latency_ms=5))


def test_a_sweep_reads_as_it_did(width: int) -> None:
    swept = sweep()
    check_document(swept)
    golden.check(f"swept_{width}", fits(swept_text(swept), width))


def test_a_sweep_in_a_file_has_a_line_for_every_point() -> None:
    rows = list(csv.DictReader(io.StringIO(swept_csv(sweep()))))
    assert [(row["memory.ocm_bytes"], row["ext.read_bytes_per_s"], row["status"]) for row in rows] == [
        ("1MiB", "16e9", "does not fit"),
        ("1MiB", "32e9", "does not fit"),
        ("16MiB", "16e9", "ok"),
        ("16MiB", "32e9", "ok"),
    ]
    assert (rows[0]["cycles"], rows[0]["reason"] != "") == ("", True)
    assert rows[3]["cycles"] == str(document()["cycles"])


def test_a_sweep_fails_only_when_no_point_that_fits_holds_the_limits() -> None:
    axes = (Axis("clock_hz", ("1e9", "2e9")),)
    totals = {key: document()[key] for key in KEPT} | {"bound": "mac"}
    gone = Outcome(("1e9",), None, "no", "does-not-fit", 6)
    one = Outcome(("2e9",), totals)
    assert swept_document("m", axes, [gone, one], Gates())["status"] == "ok"
    assert swept_document("m", axes, [gone, one], Gates(cycles=1))["status"] == "failed"
    assert swept_document("m", axes, [gone], Gates())["status"] == "failed"


def test_segments_and_ops_sum_to_the_whole() -> None:
    profiled = document()
    for by in ("segment", "op"):
        rows = arrange(profiled, by=by)
        for key in ("cycles", "macs", "read_bytes", "write_bytes", "spilled_bytes"):
            assert sum(row[key] for row in rows) == sum(row[key] for row in profiled["layers"])
        assert sum(row["share"] for row in rows) == pytest.approx(1)
        assert sum(sum(row["ledger_cycles"].values()) for row in rows) == profiled["cycles"]


def test_the_utilisations_of_a_sum_are_those_of_its_macs_over_its_cycles() -> None:
    rows = {row["op"]: row for row in arrange(document(), by="op")}
    conv, layers = rows["conv"], [one for one in LAYERS if one.op == "conv"]
    macs = sum(one.macs for one in layers)
    assert conv["mac_utilisation"] == pytest.approx(macs / (sum(one.total for one in layers) * 16384))
    assert conv["mac_cycles_utilisation"] == pytest.approx(macs / (sum(one.ledger["mac"] for one in layers) * 16384))
    assert rows["add"]["mac_utilisation"] == 0


def test_an_interrupted_segment_is_two_rows_of_one_name() -> None:
    profiled = document()
    for row, name in zip(profiled["layers"], ("a", "b", "a", "a", "b"), strict=True):
        row["segment"] = name
    assert [(row["name"], row["layers"]) for row in arrange(profiled, by="segment")] == [
        ("a", 1), ("b", 1), ("a", 2), ("b", 1),
    ]  # fmt: skip


def test_a_sort_by_name_is_the_alphabet_and_by_utilisation_the_busiest_first() -> None:
    profiled = document()
    names = [row["name"] for row in arrange(profiled, sort="name")]
    assert names == sorted(names)
    busy = [row["mac_utilisation"] for row in arrange(profiled, sort="mac_utilisation")]
    assert busy == sorted(busy, reverse=True)


@pytest.mark.parametrize(("words", "hint"), [({"by": "segmnt"}, "segment"), ({"sort": "mac"}, "macs")])
def test_rows_and_orders_that_there_are_not_are_refused_with_the_nearest(words: dict[str, str], hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        arrange(document(), **words)
    assert hint in caught.value.hint


def test_a_row_in_a_file_has_its_whole_name_and_its_reason() -> None:
    rows = list(csv.DictReader(io.StringIO(profile_csv(arrange(document())))))
    assert rows[1]["name"] == LONG
    assert rows[1]["bound"] == "bound by the on-chip port: 3.0 MiB at 64 B/cycle"


def test_layers_that_take_turns_are_marked_with_their_group(width: int) -> None:
    profiled = document(groups=(None, 1, 1, None, None))
    golden.check(f"profile_groups_{width}", fits(profile_text(profiled, arrange(profiled)), width))


def test_a_group_is_whole_also_where_not_all_of_it_is_shown() -> None:
    profiled = document(groups=(None, 1, 1, None, None))
    row = next(
        line for line in profile_text(profiled, arrange(profiled, sort="cycles")[:1]).splitlines() if "conv1" in line
    )
    assert " 1-2 " in row


def test_energy_is_said_to_be_relative_and_only_where_a_chip_has_weights() -> None:
    layers = tuple(replace(one, energy=1e6 * one.index) for one in LAYERS)
    weighed = profile_document("m", made(layers))
    assert weighed["energy_relative"] == 10e6
    text = profile_text(weighed, arrange(weighed, sort="energy"))
    assert "relative energy 10 M" in text
    assert [row["index"] for row in arrange(weighed, sort="energy")] == [4, 3, 2, 1, 0]
    assert [row["energy_relative"] for row in arrange(weighed, by="op")] == [2e6, 1e6, 3e6, 4e6]
    bare = profile_document("m", made())
    assert (bare["energy_relative"], "energy" in profile_text(bare, arrange(bare))) == (None, False)


def test_custom_ops_are_left_out_of_the_second_utilisation() -> None:
    layers = (LAYERS[0], replace(LAYERS[2], custom=True))
    found = profile_document("m", made(layers))
    cycles = LAYERS[0].total + LAYERS[2].total
    assert found["mac_utilisation"] == pytest.approx((LAYERS[0].macs + LAYERS[2].macs) / (cycles * 16384))
    assert found["mac_utilisation_outside_custom"] == pytest.approx(LAYERS[0].macs / (cycles * 16384))
    assert "outside custom ops" in profile_text(found, arrange(found))


def test_all_cycles_of_a_row_have_a_reason(width: int) -> None:
    profiled = document()
    text = fits(profile_text(profiled, arrange(profiled, sort="cycles")[:3], why=True), width)
    golden.check(f"profile_why_{width}", text)


def test_a_comparison_of_chips_says_that_cycles_differ_in_length_and_frames_are_of_all_cores() -> None:
    text = " ".join(_compared(document(), document(target="metis")).split())
    assert "latency compares them; frames/s are those of all cores" in text
    alike = _compared(document(), document())
    assert "latency compares" not in alike
    assert "all cores" not in alike


def test_a_figure_that_only_one_chip_has_is_not_compared() -> None:
    weighed = document(layers=tuple(replace(one, energy=1e6 * one.index) for one in LAYERS))
    row = next(line for line in _compared(weighed, document()).splitlines() if line.startswith("relative energy"))
    assert row.split() == ["relative", "energy", "10", "M", "-", "-"]


def test_a_sweep_of_chips_begins_its_lines_with_their_names_and_says_whose_frames_they_are() -> None:
    chips = ("metis", "qc-u-1d7-16mb")
    found = [document(target=chip) for chip in chips]
    outcomes = [
        Outcome((chip,), {key: one[key] for key in KEPT} | {"bound": "mac"})
        for chip, one in zip(chips, found, strict=True)
    ]
    text = swept_text(swept_document("model.onnx", (Axis("target", chips),), outcomes, Gates()))
    assert [line.split()[0] for line in text.splitlines()[2:4] if not line.startswith(" ")] == list(chips)
    assert "frames/s are those of all cores" in text


def _compared(this: dict[str, Any], other: dict[str, Any]) -> str:
    compared = compared_document(this, other, Gates())
    return compared_text(compared, compared_rows(compared))
