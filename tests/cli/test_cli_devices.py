"""`axtool devices`: what can run a model here, the boards that can be described, and what is wrong with a file."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from axtool.config import package_dir
from axtool.runtime.devices import machine
from axtool.runtime.devices.boards import list_boards, load_board
from tests.tiny import axtool


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AXTOOL_BOARDS", "AXTOOL_CONFIGURE_BOARD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(machine, "_stack", [])


def test_there_is_one_board_until_the_environment_names_others(monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = axtool("devices", "--json").document["devices"]
    assert (row["name"], row["board"], row["board_model"], row["cores"]) == ("metis-0:1:0", "metis-pcie", "110m", 4)
    assert (row["cores_in_use"], row["provenance"]) == (0, "simulated here")
    monkeypatch.setattr(machine, "_stack", [])
    monkeypatch.setenv("AXTOOL_BOARDS", "qc-u*2")
    names = [row["name"] for row in axtool("devices", "--json").document["devices"]]
    assert names == ["qcu-0:1:0", "qcu-0:2:0"]


def test_a_selector_keeps_the_indices_of_all() -> None:
    rows = axtool("devices", "--boards", "metis-pcie*3", "-d", "metis-0:3:0,0", "--json").document["devices"]
    assert [(row["index"], row["name"]) for row in rows] == [(0, "metis-0:1:0"), (2, "metis-0:3:0")]


def test_cores_that_this_process_holds_are_in_use() -> None:
    connection = machine.devices()[0].connect(3)
    assert axtool("devices", "--json").document["devices"][0]["cores_in_use"] == 3
    connection.close()


@pytest.mark.parametrize("width", [80, 120])
def test_every_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for words in (("list", "--boards", "metis-pcie*4,qc-u"), ("boards",), ("show", "metis-pcie"), ("check", "qc-u")):
        assert max(map(len, axtool("devices", *words).out.splitlines())) <= width


@pytest.mark.parametrize("name", list_boards())
def test_every_constant_of_a_board_says_where_it_comes_from(name: str) -> None:
    rows = axtool("devices", "show", name, "--json").document["constants"]
    assert [row["path"] for row in rows if row["origin"] == "unsaid"] == []
    assert all(row["source"] for row in rows if row["origin"] == "fact")
    units = {row["path"]: row["unit"] for row in rows}
    assert (units["clock_hz"], units["link.latency_s"], units["memory_bytes"]) == ("Hz", "s", "B")


@pytest.mark.parametrize("name", list_boards())
def test_the_yaml_of_a_board_loads_to_the_same_board(work: Path, name: str) -> None:
    Path("my.yaml").write_text(axtool("devices", "show", name, "--yaml").out)
    assert load_board("my.yaml") == load_board(name)


def test_a_file_is_checked_whatever_its_ending_and_every_fault_is_listed(work: Path) -> None:
    values = yaml.safe_load((package_dir("configs") / "boards" / "metis-pcie.yaml").read_text())
    Path("board.txt").write_text(yaml.safe_dump(values))
    assert "no fault" in axtool("devices", "check", "board.txt").out
    Path("board.txt").write_text(yaml.safe_dump({**values, "cores": 0, "lanes": 4}))
    ran = axtool("devices", "check", "board.txt")
    assert ran.code == 2
    assert "cores: " in ran.err
    assert "lanes: unknown key" in ran.err


def test_settings_of_the_environment_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AXTOOL_CONFIGURE_BOARD", "400,,90")
    assert "clock 400 MHz, mvm_limitation 90 %" in axtool("devices").out
    monkeypatch.setenv("AXTOOL_CONFIGURE_BOARD", "0")
    assert axtool("devices", "--json").document["settings"] is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--devices", "1"), "there is no device '1'"),
        (("--devices", "0,0"), "twice"),
        (("--boards", "metis-pci"), "did you mean metis-pcie"),
        (("--boards", "metis-pcie*99"), "more than 64 boards"),
        (("shw",), "did you mean show"),
        (("list", "metis-pcie"), "takes no 'metis-pcie'"),
        (("show",), "wants a board"),
        (("check", "no.yaml"), "cannot read"),
        (("show", "metis"), "no board 'metis'"),
        (("show", "metis-pcie", "--boards", "qc-u"), "go with `devices list`"),
        (("boards", "--yaml"), "--yaml goes with"),
    ],
)
def test_what_is_wrong_is_answered_with_what_there_is(words: tuple[str, ...], said: str) -> None:
    ran = axtool("devices", *words)
    assert ran.code == 2
    assert said in ran.err
    assert ran.out == ""


@pytest.mark.parametrize(
    ("variable", "value"), [("AXTOOL_BOARDS", "nonsense"), ("AXTOOL_BOARDS", ",,"), ("AXTOOL_CONFIGURE_BOARD", "fast")]
)
def test_an_environment_of_nonsense_is_named(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    ran = axtool("devices")
    assert ran.code == 2
    assert variable in ran.err


@pytest.mark.parametrize("board", ["metis-pcie", "qc-u"])
def test_parts_of_a_shown_board_are_one_empty_line_apart(board: str) -> None:
    assert "\n\n\n" not in axtool("devices", "show", board).out
