"""Target files: what comes with the package, units, provenance, and every fault by its path."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

import axtool
from axtool.config import package_dir
from axtool.errors import Exit, UsageError
from axtool.target import Depthwise, Energy
from axtool.target_file import list_targets, load_target, set_values, target_from_dict, target_to_dict
from axtool.target_schema import COSTS, known_paths, parse_quantity

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


@pytest.mark.parametrize("text", ["-1", "many", "3 B"])
def test_a_count_that_does_not_parse_is_refused(text: str):
    with pytest.raises(ValueError, match=r"is not a number \(positive; k, M or G may follow\)"):
        parse_quantity(text, "")


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


@pytest.mark.parametrize(("channels", "stored"), [(1, 4), (3, 4), (4, 4), (5, 64), (64, 64), (65, 128), (1000, 1024)])
def test_metis_stores_channels_in_words_of_64_and_pictures_in_four(channels: int, stored: int):
    assert load_target("metis").stored_channels(channels) == stored


def test_rules_and_ops_are_names_of_the_manual(raw):
    raw["limits"] |= {"rules": ["concat_axs", "pad_zeros", "pad_zeros"], "ops": ["Con"]}
    assert faults(raw) == (
        "limits.ops: unknown name 'Con'; did you mean Conv or Cos or Concat?",
        "limits.rules: unknown name 'concat_axs'; did you mean concat_axes or slice_one_axis or pad_axes?",
        "limits.rules: 'pad_zeros' stands there twice",
    )


def test_a_list_of_rules_that_is_none_is_refused(raw):
    raw["limits"]["rules"] = "concat_axes"
    assert faults(raw) == ("limits.rules: want a list of names, found 'concat_axes'",)


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


EVERY_OPTION = {
    "array": {
        "fold": "row", "fold_below": 16, "winograd": 2.25, "weights_bytes_per_cycle": "64",
        "strided_weights": "extended",
        "depthwise": {"rows": 4, "columns": 2, "channels": 16, "cycles": 3},
    },
    "memory": {"activations": "external", "bands": False, "near_bytes": "1MiB", "near_bytes_per_cycle": 32},
    "external": {"shared": True, "in_flight": 4, "duplex": False},
    "engines": {"pipelined": True},
    "energy": {"registers": 1, "lrm": 3, "on_chip": 70, "external": 225},
    "costs": {"flow": 25, "burst": 3},
}  # fmt: skip


@pytest.fixture
def full(raw) -> dict[str, Any]:
    for section, values in EVERY_OPTION.items():
        raw[section] = {**raw.get(section, {}), **deepcopy(values)}
    return raw


def test_every_optional_value_is_read(full):
    chip = target_from_dict(full)
    array, memory, external = chip.array, chip.memory, chip.external
    assert (array.fold, array.fold_below, array.winograd, array.weights_bytes_per_cycle) == ("row", 16, 2.25, 64)
    assert array.depthwise == Depthwise(rows=4, columns=2, channels=16, cycles=3)
    assert (memory.activations, memory.near_bytes, memory.near_bytes_per_cycle) == ("external", 2**20, 32)
    assert not memory.bands
    assert (external.shared, external.in_flight, external.duplex) == (True, 4, False)
    assert array.strided_weights == "extended"
    assert chip.engines.pipelined
    assert chip.energy == Energy(registers=1, lrm=3, on_chip=70, external=225)
    assert (chip.costs["flow"], chip.costs["burst"]) == (25, 3)


def test_every_optional_value_survives_json(full):
    chip = target_from_dict(full)
    assert target_from_dict(json.loads(json.dumps(target_to_dict(chip)))) == chip


@pytest.fixture
def plain(raw: dict[str, Any]) -> dict[str, Any]:
    """A file with nothing that may be left out."""
    raw.pop("energy")
    raw["memory"].pop("activations")
    raw["external"].pop("in_flight")
    raw["costs"].pop("flow")
    return raw


def test_a_file_without_the_optional_values_has_a_dictionary_without_them(plain):
    values = target_to_dict(target_from_dict(plain))
    assert not {"engines", "energy"} & set(values)
    assert set(values["array"]) == {"rows", "columns", "input_channels", "output_channels", "cycles"}
    assert set(values["memory"]) == {"ocm_bytes", "lrm_bytes_per_pe", "ocm_bytes_per_cycle"}
    assert not {"flow", "burst"} & set(values["costs"])


def test_a_file_without_the_optional_values_folds_and_shares_nothing(plain):
    chip = target_from_dict(plain)
    assert (chip.array.fold, chip.array.winograd, chip.array.depthwise) == ("none", 1, None)
    assert (chip.memory.activations, chip.memory.near_bytes, chip.sharing_cores) == ("resident", 0, 1)
    assert (chip.engines.pipelined, chip.energy, chip.external.in_flight) == (False, None, 1)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("array.fold", "column", "Input should be 'none', 'row' or 'window'"),
        ("array.fold_below", 0, "greater than 0"),
        ("array.winograd", 0.5, "greater than or equal to 1"),
        ("array.duty", 0, "greater than or equal to 0.01"),
        ("array.duty", 1.1, "less than or equal to 1"),
        ("array.winograd", "fast", "'fast' is not a number"),
        ("array.weights_bytes_per_cycle", "8 apples", "'8 apples' is not a number"),
        ("array.depthwise", {"rows": 4, "columns": 2}, "missing"),
        ("memory.activations", "everywhere", "Input should be 'resident' or 'external'"),
        ("memory.near_bytes", -1, "greater than or equal to 0"),
        ("external.in_flight", 0, "greater than 0"),
        ("external.shared", "perhaps", "valid boolean"),
        ("engines.pipelined", 3, "valid boolean"),
        ("energy.lrm", 0, "greater than 0"),
        ("costs.flow", -1, "greater than or equal to 0"),
    ],
)
def test_an_optional_value_that_is_none_is_refused_by_its_path(full, path: str, value: object, says: str):
    section, leaf = path.split(".")
    full[section][leaf] = value
    (fault,) = faults(full)
    assert fault.startswith(path)
    assert says in fault


@pytest.mark.parametrize(
    ("path", "near"),
    [("array.winograde", "winograd"), ("array.depthwise.chanels", "channels"), ("engines.pipelin", "pipelined")],
)
def test_an_unknown_optional_key_gets_the_nearest_one(full, path: str, near: str):
    *sections, leaf = path.split(".")
    place = full
    for section in sections:
        place = place[section]
    place[leaf] = 1
    (fault,) = faults(full)
    assert fault.startswith(f"{path}: unknown key; ")
    assert near in fault


@pytest.mark.parametrize(
    ("section", "values", "path"),
    [
        ("array", {"fold_below": 16}, "array.fold_below"),
        ("memory", {"near_bytes": "1MiB"}, "memory.near_bytes_per_cycle"),
        ("memory", {"near_bytes_per_cycle": 32}, "memory.near_bytes"),
    ],
)
def test_a_value_that_means_nothing_alone_is_refused(raw, section: str, values: dict[str, Any], path: str):
    raw[section] |= values
    (fault,) = faults(raw)
    assert fault.startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("path", "value", "stored"),
    [
        ("array.fold", "window", "window"), ("array.winograd", "2.25", 2.25), ("array.duty", 0.5, 0.5),
        ("array.weights_bytes_per_cycle", "8", 8),
        ("external.shared", "true", True), ("external.in_flight", "8", 8), ("engines.pipelined", "yes", True),
        ("costs.flow", "25", 25), ("limits.max_kernel", "7", 7), ("memory.activations", "external", "external"),
    ],
)  # fmt: skip
def test_an_optional_value_can_be_set_by_its_path(path: str, value: str, stored: object):
    chip = set_values(load_target("qc-u-1d5-8mb"), {path: value})
    section, leaf = path.split(".")
    place = getattr(chip, section)
    assert (place[leaf] if isinstance(place, dict) else getattr(place, leaf)) == stored
    assert target_from_dict(target_to_dict(chip)) == chip


def test_a_section_can_be_set_value_by_value():
    changes = {f"array.depthwise.{key}": n for key, n in EVERY_OPTION["array"]["depthwise"].items()}
    chip = set_values(load_target("qc-u-1d5-8mb"), changes)
    assert chip.array.depthwise == Depthwise(rows=4, columns=2, channels=16, cycles=3)


def test_a_section_that_is_set_in_part_names_what_is_missing(plain):
    with pytest.raises(UsageError) as caught:
        set_values(target_from_dict(plain), {"energy.lrm": 3})
    assert caught.value.details == (
        "energy.registers: missing", "energy.on_chip: missing", "energy.external: missing",
    )  # fmt: skip


@pytest.mark.parametrize(("cores", "shared", "sharing"), [(1, None, 1), (4, None, 4), (4, False, 1), (4, True, 4)])
def test_several_cores_share_the_bandwidth_unless_the_file_denies_it(raw, cores: int, shared: object, sharing: int):
    raw["cores"], raw["external"]["shared"] = cores, shared
    chip = target_from_dict(raw)
    assert chip.sharing_cores == sharing
    assert chip.read_bytes_per_cycle == pytest.approx(32e9 / 1.5e9 / sharing)


def test_a_path_is_known_for_every_value_of_a_full_file(full):
    values = {key: value for key, value in full.items() if key not in ("schema", "provenance")}
    leaves = {path.removesuffix(".value").removesuffix(".from").removesuffix(".source") for path in _leaves(values)}
    assert leaves <= set(known_paths())


def test_the_page_of_target_files_names_every_value_and_what_every_cost_is():
    page = (Path(axtool.__file__).parents[1] / "docs" / "targets.md").read_text()
    assert [path for path in known_paths() if path.split(".")[-1] not in page] == []
    assert [name for name, meaning in COSTS.items() if f"| `{name}` | {meaning} |" not in page] == []
