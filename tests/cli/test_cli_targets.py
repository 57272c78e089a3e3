"""`axtool targets`: the chips that there are, where each constant comes from, and what is wrong with a file."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from axtool.report.constants import constants, unit
from axtool.target_file import list_targets, load_target, set_values
from tests.tiny import axtool

TARGET = "qc-u-1d7-16mb"


def test_the_list_has_every_chip() -> None:
    assert [row["name"] for row in axtool("targets", "--json").document["targets"]] == list(list_targets())


@pytest.mark.parametrize("width", [80, 120])
def test_the_list_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for words in (("list",), ("show", "metis"), ("check", TARGET)):
        ran = axtool("targets", *words)
        assert max(map(len, ran.out.splitlines())) <= width


def test_the_list_says_how_many_cores_a_chip_has_and_of_what_the_figures_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = axtool("targets", "list").out
    metis = next(line.split() for line in out.splitlines() if line.startswith("metis "))
    assert metis[1:5] == ["0.8", "GHz", "4", "32,768"]
    assert "on-chip memory of one core" in " ".join(out.split())


def test_show_prints_every_constant_with_value_unit_and_source() -> None:
    out = axtool("targets", "show", TARGET).out
    row = next(line.split() for line in out.splitlines() if "memory.ocm_bytes " in line)
    assert row[1:4] == ["16,777,216", "B", "fact:"]
    for constant in constants(load_target(TARGET)):
        assert constant.path in out
        assert constant.source.split(" ")[0] in out


@pytest.mark.parametrize("name", list_targets())
def test_every_constant_of_a_chip_of_the_list_says_where_it_comes_from(name: str) -> None:
    rows = axtool("targets", "show", name, "--json").document["constants"]
    assert [row["path"] for row in rows if row["origin"] == "unsaid" and row["path"] != "formats"] == []
    assert all(row["source"] for row in rows if row["origin"] in ("fact", "fitted"))


def test_what_a_file_leaves_out_is_a_default_and_what_it_changes_is_set() -> None:
    target = set_values(load_target(TARGET), {"external.in_flight": 4})
    origins = {constant.path: constant.origin for constant in constants(target)}
    assert origins["external.in_flight"] == "set"
    assert origins["external.duplex"] == "default"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("clock_hz", "Hz"), ("memory.ocm_bytes", "B"), ("memory.lrm_bytes_per_pe", "B"), ("cores", ""),
        ("memory.ocm_bytes_per_cycle", "B/cycle"), ("external.read_bytes_per_s", "B/s"), ("costs.add", "cycles"),
        ("costs.int16_passes", "passes"), ("external.latency_cycles", "cycles"), ("array.rows", ""),
    ],
)  # fmt: skip
def test_a_constant_has_the_unit_that_its_name_says(path: str, said: str) -> None:
    assert unit(path) == said


@pytest.mark.parametrize("name", list_targets())
def test_the_yaml_of_a_chip_loads_to_the_same_chip(work: Path, name: str) -> None:
    ran = axtool("targets", "show", name, "--yaml")
    Path("my.yaml").write_text(ran.out)
    assert load_target("my.yaml") == load_target(name)
    assert axtool("targets", "show", "my.yaml", "--yaml").out == ran.out


def test_an_own_file_is_checked_whatever_its_ending(work: Path) -> None:
    values = yaml.safe_load(axtool("targets", "show", TARGET, "--yaml").out)
    Path("chip.txt").write_text(yaml.safe_dump({**values, "clock_hz": "1GHz"}))
    ran = axtool("targets", "check", "chip.txt")
    assert (ran.code, "no fault; " in ran.out, "1 GHz" in ran.out) == (0, True, True)
    assert axtool("targets", "check", "chip.txt", "--json").document["origins"]["unsaid"] >= 1


def test_every_fault_of_a_file_is_listed_by_its_path(work: Path) -> None:
    values = yaml.safe_load(axtool("targets", "show", TARGET, "--yaml").out)
    del values["costs"]["add"]
    del values["memory"]["ocm_bytes"]
    changed = {**values, "clock_hz": 0, "cors": 2, "external": {**values["external"], "burst_bytes": "4 parsecs"}}
    Path("chip.yaml").write_text(yaml.safe_dump(changed))
    ran = axtool("targets", "check", "chip.yaml", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "bad-target")
    faults = ran.document["error"]["details"]
    for path in ("clock_hz", "cors", "costs.add", "memory.ocm_bytes", "external.burst_bytes"):
        assert any(line.startswith(f"{path}:") for line in faults), path
    assert all(line in ran.err for line in faults)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show", "qc"), "no target 'qc'"),
        (("lst",), "did you mean list?"),
        (("show",), "wants a target"),
        (("list", TARGET), "axtool targets show"),
        (("check", "no.yaml"), "no.yaml"),
        (("show", "--yaml"), "--yaml goes with"),
        (("list", "--yaml"), "--yaml goes with"),
        (("show", TARGET, "--yaml", "--json"), "--yaml goes with"),
        (("show", "qc", "--yaml"), "no target 'qc'"),
        (("check", "."), "."),
    ],
)
def test_bad_words_after_targets_are_refused(work: Path, words: tuple[str, ...], said: str) -> None:
    ran = axtool("targets", *words)
    assert ran.code == 2
    assert said in ran.err


@pytest.mark.parametrize("text", ["", "[]", "a: [", "\x00", "name: chip\nclock_hz: fast\n", "!!int x"])
def test_what_is_no_target_is_refused_without_a_traceback(work: Path, text: str) -> None:
    Path("chip.yaml").write_text(text)
    for words in (("check",), ("show",)):
        ran = axtool("targets", *words, "chip.yaml")
        assert (ran.code, "Traceback" in ran.err) == (2, False)
