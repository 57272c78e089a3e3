"""Board files: those of the package, where their numbers come from, and every fault of one's own by its path."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from axtool.config import package_dir
from axtool.errors import Exit, UsageError
from axtool.runtime.devices import machine
from axtool.runtime.devices.boards import Link, board_from_dict, list_boards, load_board
from axtool.target_file import load_target

SAID = (
    "chip", "board_model", "board_type", "cores", "clock_hz", "memory_bytes", "window_bytes", "queue",
    "link.bytes_per_s", "link.latency_s", "link.duplex", "switch_s",
)  # fmt: skip


def raw(name: str = "metis-pcie") -> dict[str, Any]:
    value = yaml.safe_load((package_dir("configs") / "boards" / f"{name}.yaml").read_text())
    assert isinstance(value, dict)
    return value


def faults(values: dict[str, Any]) -> tuple[str, ...]:
    with pytest.raises(UsageError) as caught:
        board_from_dict(values, where="mine.yaml")
    assert (caught.value.exit, caught.value.code, caught.value.where) == (Exit.USAGE, "bad-board", "mine.yaml")
    return caught.value.details


@pytest.mark.parametrize("name", list_boards())
def test_every_number_of_a_board_says_where_it_comes_from(name: str) -> None:
    board = load_board(name)
    assert board.name == name
    assert [path for path in SAID if path not in board.provenance] == []


@pytest.mark.parametrize("name", list_boards())
def test_a_board_has_the_clock_of_its_chip_and_no_more_cores(name: str) -> None:
    board = load_board(name)
    chip = load_target(board.chip)
    assert board.clock_hz == chip.clock_hz
    assert board.cores <= chip.cores


def test_a_transfer_takes_its_bytes_over_the_rate_and_the_latency() -> None:
    assert Link(bytes_per_s=1e9, latency_s=1e-5).transfer_s(1_000_000) == pytest.approx(1.01e-3)


def test_a_board_of_ones_own_needs_no_sources() -> None:
    board = board_from_dict(
        {
            "name": "mine", "prefix": "mine", "board_model": "x", "board_type": "pcie", "cores": 2, "clock_hz": "1GHz",
            "memory_bytes": "2GiB", "link": {"bytes_per_s": "1GB/s"},
        }
    )  # fmt: skip
    assert (board.window_bytes, board.queue, board.switch_s, board.link.duplex) == (2 * 2**30, 1, 0.0, True)
    assert board.clocks_mhz == ()


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("cores", 0, "cores: "), ("cores", 4096, "cores: "), ("cores", True, "cores: "), ("cores", "four", "cores: "),
        ("clock_hz", "800", ""), ("clock_hz", "0.8GB", "clock_hz: "), ("memory_bytes", -1, "memory_bytes: "),
        ("memory_bytes", "4 GiBs", "memory_bytes: "), ("window_bytes", "64GiB", "window_bytes: "),
        ("switch_s", "40ms", "switch_s: "), ("switch_s", -0.1, "switch_s: "), ("switch_s", float("nan"), "switch_s: "),
        ("switch_s", float("inf"), "switch_s: "), ("link.bytes_per_s", 0, "link.bytes_per_s: "),
        ("link.latency_s", -1, "link.latency_s: "), ("link.duplex", "maybe", "link.duplex: "),
        ("link.lanes", 4, "link.lanes: unknown key"), ("link", 4, "link: "), ("queue", 0, "queue: "),
        ("prefix", "a-b", "prefix: "), ("prefix", "a:b", "prefix: "), ("board_model", "", "board_model: "),
        ("chip", "metiz", "chip: no target 'metiz'; did you mean metis"), ("core", 4, "core: unknown key"),
        ("runs", "there", "runs: "), ("clocks_mhz", [0], "clocks_mhz.0: "), ("clocks_mhz", 800, "clocks_mhz: "),
        ("schema", "axtool.target/1", "schema: want axtool.board/1"), ("name", "../x", "name: "),
        ("name", None, "name: "),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_by_its_path(path: str, value: Any, said: str) -> None:
    values = raw()
    *sections, leaf = path.split(".")
    place = values
    for section in sections:
        place = place[section]
    place[leaf] = value
    if said:
        assert [fault for fault in faults(values) if fault.startswith(said)]
    else:
        board_from_dict(values)


def test_a_value_that_is_missing_is_named() -> None:
    values = raw()
    del values["link"], values["cores"]
    assert set(faults(values)) == {"link: missing", "cores: missing"}


def test_a_fact_without_a_source_is_a_fault() -> None:
    assert "cores.source: missing; where is it stated?" in faults({**raw(), "cores": {"value": 4, "from": "fact"}})


@pytest.mark.parametrize("junk", ["", "[]", "4", "a: [", "\t", "name: mine"])
def test_a_file_that_is_no_board_is_refused_by_its_name(tmp_path: Path, junk: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(junk)
    with pytest.raises(UsageError, match=r"mine\.yaml"):
        machine.boards_of(str(path))


def test_a_board_file_of_ones_own_is_seen_beside_named_ones(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**raw(), "cores": 2, "prefix": "mine"}))
    with machine.simulated(f"qc-u,{path}*2"):
        assert [(d.info.name, d.info.cores) for d in machine.devices()] == [
            ("qcu-0:1:0", 1), ("mine-0:2:0", 2), ("mine-0:3:0", 2),
        ]  # fmt: skip


@pytest.mark.parametrize(
    "boards",
    [
        "metis", "metis-pcie,", ",", "metis-pcie*0", "metis-pcie*-1", "metis-pcie*", "*4", "metis-pcie*4*4",
        "metis-pcie*65", "metis-pcie*99999999999", "metis-pcie*٣", "../metis-pcie", "metis-pcie.yaml", "/dev/zero.yaml",
        "\x00.yaml",
    ],
)  # fmt: skip
def test_boards_that_do_not_exist_are_refused(boards: str) -> None:
    with pytest.raises(UsageError):
        machine.boards_of(boards)


def test_the_environment_names_the_boards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_stack", [])
    monkeypatch.setenv("AXTOOL_BOARDS", "metis-m2, qc-u*2")
    assert [device.info.name for device in machine.devices()] == ["metis-0:1:0", "qcu-0:2:0", "qcu-0:3:0"]


def test_boards_of_the_environment_that_do_not_exist_are_refused_by_the_name_of_the_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "_stack", [])
    monkeypatch.setenv("AXTOOL_BOARDS", "metis-pci")
    with pytest.raises(UsageError, match="AXTOOL_BOARDS") as caught:
        machine.devices()
    assert "did you mean metis-pcie" in caught.value.hint


NASTY: tuple[Any, ...] = (
    None, "", " ", 0, -1, 1e400, -1e400, float("nan"), 10**400, "1e999", "9" * 5000, "1GiB", [], [[]], {}, {"value": 1},
    {"value": {"value": 1}, "from": "fact"}, {"value": 1, "from": ["fact"]}, {"value": 1, "from": "fact", "source": 4},
    True, "\x00", "\ud800", b"x", ("a",), {1: 2}, "a" * 100_000,
)  # fmt: skip


@pytest.mark.parametrize("path", [*SAID, "name", "prefix", "description", "clocks_mhz", "runs", "link", "schema"])
def test_no_value_of_any_key_ends_in_anything_but_a_board_or_its_faults(path: str) -> None:
    for value in NASTY:
        values = raw()
        *sections, leaf = path.split(".")
        place = values
        for section in sections:
            place = place[section]
        place[leaf] = value
        with suppress(UsageError):
            board = board_from_dict(values)
            assert 1 <= board.cores <= 1024
            assert 0 < board.window_bytes <= board.memory_bytes
            assert board.link.transfer_s(1) >= 0
