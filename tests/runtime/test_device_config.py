"""Settings of boards: what is one, what the environment says, and which of several stands."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from axtool.errors import UsageError
from axtool.runtime.device_config import BadDeviceConfig, BoardConfig, DeviceConfig, from_environment, resolve

NOTHING = BoardConfig()


def env(text: str) -> dict[str, str]:
    return {"AXTOOL_CONFIGURE_BOARD": text}


def test_the_page_s_example_is_a_device_config():
    limits = DeviceConfig({"110m": BoardConfig(mvm_limitation=90)})
    assert limits.of("110m").mvm_limitation == 90


def test_a_board_model_that_is_not_named_has_no_settings():
    assert DeviceConfig({"110m": BoardConfig(clock=400)}).of("120p") == NOTHING


@pytest.mark.parametrize("clock", [0, -1, 400.5, True, "400", 100_001, float("nan"), pytest.param(10**6000, id="huge")])
def test_a_clock_is_a_whole_number_of_megahertz(clock):
    with pytest.raises(ValueError, match="clock: want a whole number of MHz from 1 to 100,000"):
        BoardConfig(clock=clock)


@pytest.mark.parametrize("size", [0, -1, 1.5, False, "512MiB", 2**63])
def test_a_memory_size_is_a_whole_number_of_bytes(size):
    with pytest.raises(ValueError, match="ddr_size: want a whole number of bytes"):
        BoardConfig(ddr_size=size)


@pytest.mark.parametrize("percent", [0, 0.5, 100.1, -90, True, "90", float("nan"), float("inf")])
def test_a_limitation_is_a_percentage_from_1_to_100(percent):
    with pytest.raises(ValueError, match="mvm_limitation: want a percentage from 1 to 100"):
        BoardConfig(mvm_limitation=percent)


def test_every_fault_of_a_board_is_named_at_once():
    with pytest.raises(BadDeviceConfig) as failed:
        BoardConfig(clock=0, ddr_size=-1, mvm_limitation=200)
    assert isinstance(failed.value, UsageError)
    assert [word for word in ("clock", "ddr_size", "mvm_limitation") if word in str(failed.value)] == [
        "clock", "ddr_size", "mvm_limitation",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("boards", "told"),
    [
        ([("110m", NOTHING)], "want a mapping of board models to BoardConfig"),
        (None, "want a mapping of board models to BoardConfig"),
        ({110: NOTHING}, "110: want the name of a board model"),
        ({" ": NOTHING}, "want the name of a board model"),
        ({"110m": {"clock": 400}}, "'110m': want a BoardConfig, found dict"),
        ({"110m": None}, "'110m': want a BoardConfig, found NoneType"),
    ],
)
def test_what_is_no_mapping_of_board_models_to_settings_is_refused(boards, told: str):
    with pytest.raises(ValueError, match=told):
        DeviceConfig(boards)


def test_numpy_integers_are_integers():
    config = DeviceConfig({"110m": BoardConfig(clock=np.int64(400))})
    assert type(config.to_dict()["110m"]["clock"]) is int


def test_changing_the_mapping_afterwards_changes_nothing():
    boards = {"110m": BoardConfig(clock=400)}
    config = DeviceConfig(boards)
    boards["110m"] = BoardConfig(clock=800)
    assert config.of("110m").clock == 400
    with pytest.raises(TypeError):
        config.boards["110m"] = BoardConfig(clock=800)  # type: ignore[index]


def test_equal_configs_have_equal_hashes_in_any_order():
    a, b = BoardConfig(clock=400), BoardConfig(mvm_limitation=90)
    first, second = DeviceConfig({"a": a, "b": b}), DeviceConfig({"b": b, "a": a})
    assert first == second
    assert hash(first) == hash(second)


def test_a_config_can_be_copied_pickled_and_written_down():
    config = DeviceConfig({"110m": BoardConfig(clock=400, ddr_size=2**29, mvm_limitation=12.5)})
    assert copy.deepcopy(config) == config
    assert pickle.loads(pickle.dumps(config)) == config
    assert DeviceConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"110m": {"clok": 400}}, "110m: .*no setting 'clok' .did you mean clock"),
        ({"110m": 400}, "110m: .*want a mapping of settings, found int"),
        ({"a": {"clock": 0}, "b": {"mvm_limitation": 0}}, "a: .*clock.*b: .*mvm_limitation"),
        (["110m"], "found list"),
    ],
)
def test_a_written_config_with_faults_names_board_and_setting(values, told: str):
    with pytest.raises(ValueError, match=told):
        DeviceConfig.from_dict(values)


def test_board_models_that_no_board_has_are_told():
    config = DeviceConfig({"110m": NOTHING, "110M": NOTHING, "x": NOTHING})
    assert config.unknown(["110m", "120p"]) == ("110M", "x")


# The environment: 0 | 1 | [clock],[ddr_size],[mvm_limitation]


@pytest.mark.parametrize("text", ["", "1", " 1 ", ",,", ","])
def test_a_variable_that_gives_no_setting_says_nothing(text: str):
    assert from_environment(env(text)) == NOTHING


def test_a_variable_that_is_not_set_says_nothing():
    assert from_environment({}) == NOTHING


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("400", BoardConfig(clock=400)),
        (",,90", BoardConfig(mvm_limitation=90)),
        (",0x20000000", BoardConfig(ddr_size=2**29)),
        (",0X2000_0000".replace("_", ""), BoardConfig(ddr_size=2**29)),
        (",1024,", BoardConfig(ddr_size=1024)),
        ("600, 0x40000000 , 12.5", BoardConfig(clock=600, ddr_size=2**30, mvm_limitation=12.5)),
        ("1,", BoardConfig(clock=1)),
        ("0x190", BoardConfig(clock=400)),
        (",,90.0", BoardConfig(mvm_limitation=90)),
    ],
)
def test_the_parts_of_the_variable_are_clock_memory_and_limitation(text: str, settings: BoardConfig):
    assert from_environment(env(text)) == settings


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("fast", "clock: 'fast' is not a number"),
        ("400MHz", "clock: '400MHz' is not a number"),
        (",512MiB", "ddr_size: '512MiB' is not a number"),
        (",,90%", "mvm_limitation: '90%' is not a number"),
        (",,0x5A", "mvm_limitation: '0x5A' is not a number"),
        ("-400", "clock: '-400' is not a number"),
        ("4_00", "clock: '4_00' is not a number"),
        ("٤٠٠", "is not a number"),
        ("1e3", "clock: '1e3' is not a number"),
        ("0,", "clock: want a whole number of MHz"),
        (",,0", "mvm_limitation: want a percentage"),
        (",,101", "mvm_limitation: want a percentage"),
        (",,,", "has 4 parts"),
        ("a,b,c", "clock: 'a' .*ddr_size: 'b' .*mvm_limitation: 'c'"),
        ("9" * 5000, "clock: "),
        (",,.", "is not a number"),
    ],
)
def test_a_variable_of_another_grammar_is_refused_with_the_part_and_the_grammar(text: str, told: str):
    with pytest.raises(BadDeviceConfig, match=told) as failed:
        from_environment(env(text))
    assert "AXTOOL_CONFIGURE_BOARD" in failed.value.what
    assert len(failed.value.what) < 1000
    assert "[clock],[ddr_size],[mvm_limitation]" in failed.value.hint


# Which stands


MODEL = DeviceConfig({"110m": BoardConfig(clock=200, mvm_limitation=50)})
SCHEDULER = DeviceConfig({"110m": BoardConfig(clock=400)})


def test_what_a_model_declares_stands_where_nothing_else_is_said():
    assert resolve("110m", model=MODEL, environ={}) == BoardConfig(clock=200, mvm_limitation=50)


def test_the_scheduler_overrides_what_a_model_declares():
    assert resolve("110m", scheduler=SCHEDULER, model=MODEL, environ={}).clock == 400


def test_the_environment_overrides_both():
    found = resolve("110m", scheduler=SCHEDULER, model=MODEL, environ=env("600,,70"))
    assert found == BoardConfig(clock=600, mvm_limitation=70)


def test_a_setting_that_a_level_leaves_out_is_left_to_the_next():
    found = resolve("110m", scheduler=SCHEDULER, model=MODEL, environ=env(",0x1000"))
    assert found == BoardConfig(clock=400, ddr_size=0x1000, mvm_limitation=50)


def test_a_board_that_the_scheduler_does_not_name_is_left_to_the_model_s_own_config():
    other = DeviceConfig({"120p": BoardConfig(clock=400, mvm_limitation=1)})
    assert resolve("110m", scheduler=other, model=MODEL, environ={}) == MODEL.of("110m")


def test_a_board_that_nobody_names_stays_as_it_is():
    assert resolve("120p", scheduler=SCHEDULER, model=MODEL, environ={}) == NOTHING


def test_the_environment_speaks_of_every_board():
    assert resolve("120p", environ=env("400")) == BoardConfig(clock=400)


def test_0_in_the_environment_leaves_boards_alone_whatever_else_is_asked():
    assert resolve("110m", scheduler=SCHEDULER, model=MODEL, environ=env("0")) == NOTHING


def test_1_in_the_environment_sets_what_scheduler_and_model_ask(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AXTOOL_CONFIGURE_BOARD", "1")
    assert resolve("110m", scheduler=SCHEDULER, model=MODEL) == BoardConfig(clock=400, mvm_limitation=50)


def test_the_environment_of_the_process_is_read_each_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AXTOOL_CONFIGURE_BOARD", "100")
    assert resolve("110m").clock == 100
    monkeypatch.setenv("AXTOOL_CONFIGURE_BOARD", "200")
    assert resolve("110m").clock == 200


def test_settings_read_as_a_sentence():
    assert str(BoardConfig(clock=400, ddr_size=2**20, mvm_limitation=12.5)) == (
        "clock 400 MHz, ddr_size 1,048,576 bytes, mvm_limitation 12.5 %"
    )
    assert str(NOTHING) == "as it is"
