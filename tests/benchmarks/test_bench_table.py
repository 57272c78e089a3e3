"""Rows of comparisons, as a document and as a table."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from benchmarks import table
from benchmarks.measure import Timing

FAST, SLOW = Timing((0.001,), (0.001,)), Timing((0.003,), (0.003,))
OURS, PEER = table.side("axtool", "1", FAST), table.side("peer", "2", SLOW)
ROW = table.row("net", "device part", 3.0, 1.4, ours=OURS, peer=PEER, threads=1)


def test_a_ratio_at_its_target_is_met() -> None:
    assert table.row("net", "x", 1.4, 1.4, ours=OURS, peer=PEER)["met"] is True


def test_a_ratio_below_its_target_is_not_met() -> None:
    assert table.row("net", "x", 1.39, 1.4, ours=OURS, peer=PEER)["met"] is False


def test_a_row_without_target_is_neither_met_nor_missed() -> None:
    assert table.row("net", "x", 1.0, None, ours=OURS, peer=PEER)["met"] is None


def test_both_sides_say_name_version_and_times() -> None:
    assert {"name", "version", "median_ms", "min_ms", "runs"} <= ROW["ours"].keys() & ROW["peer"].keys()


def test_the_document_survives_json() -> None:
    made = table.document("engine", [ROW])
    assert json.loads(json.dumps(made, allow_nan=False))["rows"][0]["ratio"] == 3.0


def test_the_document_says_what_made_it_and_where() -> None:
    made = table.document("engine", [])
    assert made["schema"] == "axtool.benchmarks/1"
    assert made["command"] == "benchmarks.engine"
    assert made["machine"]["cpu"]


def test_the_table_marks_a_missed_target() -> None:
    missed = table.row("net", "x", 0.5, 1.0, ours=OURS, peer=PEER)
    assert [line.split()[-1] for line in table.text([ROW, missed]).splitlines()] == ["target", "ok", "MISSED"]


def test_the_processor_names_itself(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: A Fast One: really\n")
    assert table.cpu_model(tmp_path / "cpuinfo") == "A Fast One: really"


@pytest.mark.parametrize("words", [["--rounds", "0"], ["--rounds", "x"], ["resnet49"]])
def test_options_that_make_no_sense_are_refused(words: list[str]) -> None:
    parser = table.parser("engine", None, rounds=25)
    table.add_names(parser, ("resnet50",))
    with pytest.raises(SystemExit) as stopped:
        parser.parse_args(words)
    assert stopped.value.code == 2


def test_no_network_given_stands_for_all() -> None:
    parser: argparse.ArgumentParser = table.parser("engine", None, rounds=25)
    table.add_names(parser, ("resnet50",))
    assert parser.parse_args([]).names == []
