"""Target files: what comes with the package, units, provenance, and every fault by its path."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import yaml

from axtool.config import package_dir
from axtool.errors import Exit, UsageError
from axtool.target_file import (
    COSTS,
    list_targets,
    load_target,
    parse_quantity,
    set_values,
    target_from_dict,
    target_to_dict,
)

NUMBERS = ("clock_hz", "cores", "channel_multiple", "array.", "memory.", "external.", "limits.", "costs.")


@pytest.fixture
def raw() -> dict[str, Any]:
    text = (package_dir("configs") / "targets" / "qc-u-1d5-8mb.yaml").read_text()
    value = yaml.safe_load(text)
    assert isinstance(value, dict)
    return value


def faults(values: dict[str, Any]) -> tuple[str, ...]:
    with pytest.raises(UsageError) as caught:
        target_from_dict(values, where="mine.yaml")
    assert caught.value.exit == Exit.USAGE
    assert caught.value.code == "bad-target"
    return caught.value.details


def test_the_small_chip_has_the_numbers_of_its_name():
    chip = load_target("qc-u-1d5-8mb")
    assert (chip.clock_hz, chip.memory.ocm_bytes) == (1.5e9, 8 * 2**20)
    assert (chip.external.read_bytes_per_s, chip.external.write_bytes_per_s) == (32e9, 32e9)


def test_the_large_chip_has_the_numbers_of_its_name():
    chip = load_target("qc-u-1d7-16mb")
    assert (chip.clock_hz, chip.memory.ocm_bytes) == (1.7e9, 16 * 2**20)
    assert (chip.external.read_bytes_per_s, chip.external.write_bytes_per_s) == (128e9, 128e9)


@pytest.mark.parametrize("name", list_targets())
def test_every_shipped_target_is_named_like_its_file(name: str):
    assert load_target(name).name == name


@pytest.mark.parametrize("name", list_targets())
def test_every_number_of_a_shipped_target_says_where_it_comes_from(name: str):
    chip = load_target(name)
    paths = [path for path in _leaves(target_to_dict(chip)) if path.startswith(NUMBERS)]
    assert [path for path in paths if path not in chip.provenance] == []


@pytest.mark.parametrize("name", list_targets())
def test_every_fitted_constant_says_to_what(name: str):
    chip = load_target(name)
    fitted = {path: text for path, text in chip.provenance.items() if text.startswith("fitted")}
    assert all(text.startswith("fitted: ") and len(text) > 12 for text in fitted.values())


@pytest.mark.parametrize("name", list_targets())
def test_a_target_survives_json(name: str):
    chip = load_target(name)
    assert target_from_dict(json.loads(json.dumps(target_to_dict(chip)))) == chip


def test_an_unknown_target_gets_the_nearest_name():
    with pytest.raises(UsageError) as caught:
        load_target("qc-u-1d5-8")
    assert caught.value.code == "unknown-target"
    assert "qc-u-1d5-8mb" in caught.value.hint


def test_a_missing_file_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="cannot read"):
        load_target(tmp_path / "none.yaml")


def test_a_file_of_ones_own_is_read(tmp_path, raw):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**raw, "name": "mine", "clock_hz": "800MHz"}))
    assert load_target(path).clock_hz == 800e6


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("4MiB", "B", 4 * 2**20), ("4 MB", "B", 4_000_000), ("64kB", "B", 64_000), ("12", "B", 12),
        ("1.5GHz", "Hz", 1.5e9), ("32GB/s", "B/s", 32e9), ("1e9", "B/s", 1e9), ("1_000", "", 1000), (7, "B", 7),
    ],
)  # fmt: skip
def test_units_are_parsed(text: object, unit: str, value: float):
    assert parse_quantity(text, unit) == value


@pytest.mark.parametrize(
    ("text", "unit"), [("4 apples", "B"), ("MiB", "B"), ("1.5GB", "Hz"), ("-3", "B"), ("4mib", "B"), ("", "B")]
)
def test_a_unit_that_does_not_parse_is_refused(text: str, unit: str):
    with pytest.raises(ValueError, match="is not a number in"):
        parse_quantity(text, unit)


def test_every_fault_is_listed_with_its_path(raw):
    raw["clock_hz"] = 0
    raw["memory"]["ocm_bytes"] = "8 apples"
    raw["external"]["latncy_cycles"] = raw["external"].pop("latency_cycles")
    del raw["costs"]["requantize"]
    raw["costs"]["ad"] = 3
    raw["formats"] = ["int8", "int4"]
    raw["array"]["rows"] = True
    found = faults(raw)
    assert {text.split(":")[0] for text in found} == {
        "clock_hz", "memory.ocm_bytes", "external.latncy_cycles", "external.latency_cycles", "costs.requantize",
        "costs.ad", "formats", "array.rows",
    }  # fmt: skip


def test_an_unknown_key_gets_the_nearest_one(raw):
    raw["external"]["latncy_cycles"] = 3
    assert any("latncy_cycles" in text and "did you mean latency_cycles" in text for text in faults(raw))


def test_an_unknown_limit_gets_the_nearest_one(raw):
    raw["limits"]["max_kernl"] = 3
    assert faults(raw)[0].startswith("limits.max_kernl: unknown key; did you mean max_kernel")


def test_a_missing_cost_says_what_it_is(raw):
    del raw["costs"]["lut"]
    assert faults(raw) == (f"costs.lut: missing ({COSTS['lut']})",)


def test_a_size_that_no_machine_counts_is_refused(raw):
    raw["memory"]["ocm_bytes"] = 10**400
    with pytest.raises(UsageError) as caught:
        target_from_dict(raw)
    assert any(line.startswith("memory.ocm_bytes") for line in caught.value.details)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, 0, "0", None, [], {"a": 1}, "fast"])
def test_a_clock_that_is_no_frequency_is_refused(raw, value: object):
    raw["clock_hz"] = value
    assert any(text.startswith("clock_hz") for text in faults(raw))


def test_a_fact_without_a_source_is_refused(raw):
    raw["cores"] = {"value": 1, "from": "fact"}
    assert faults(raw) == ("cores.source: missing; where is it stated?",)


def test_an_unknown_origin_is_refused(raw):
    raw["cores"] = {"value": 1, "from": "hearsay", "source": "a friend"}
    assert any(text.startswith("cores.from: want one of fact, natural, fitted") for text in faults(raw))


@pytest.mark.parametrize("values", [{}, {"name": "x"}, {"array": 3}, {"memory": []}, {"costs": "many"}])
def test_rubbish_is_refused_with_a_list(values: dict[str, Any]):
    assert len(faults(values)) > 5


def test_one_value_can_be_changed_by_its_path():
    chip = set_values(load_target("qc-u-1d5-8mb"), {"memory.ocm_bytes": "4MiB"})
    assert chip.memory.ocm_bytes == 4 * 2**20
    assert chip.provenance["memory.ocm_bytes"] == "set: by the user"


def test_ext_is_short_for_external():
    chip = load_target("qc-u-1d5-8mb")
    changed = set_values(chip, {"ext.read_bytes_per_s": "16e9"})
    assert changed.external == replace(chip.external, read_bytes_per_s=16e9)


def test_an_unknown_path_gets_the_nearest_one():
    with pytest.raises(UsageError) as caught:
        set_values(load_target("qc-u-1d5-8mb"), {"memory.ocm": 3})
    assert "memory.ocm_bytes" in caught.value.hint


def test_a_changed_value_is_checked_like_a_written_one():
    with pytest.raises(UsageError) as caught:
        set_values(load_target("qc-u-1d5-8mb"), {"clock_hz": "0"})
    assert caught.value.details[0].startswith("clock_hz")


def _leaves(values: dict[str, Any], path: str = "") -> list[str]:
    found = []
    for key, value in values.items():
        found += _leaves(value, f"{path}{key}.") if isinstance(value, dict) else [f"{path}{key}"]
    return found


def test_a_file_that_does_not_say_what_int16_costs_has_two_passes():
    values = target_to_dict(load_target("qc-u-1d5-8mb"))
    del values["costs"]["int16_passes"]
    assert target_from_dict(values).costs["int16_passes"] == 2
