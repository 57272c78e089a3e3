"""What `op.load` is told about cores, batches and boards: what is kept, and what is refused with the reason."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest

from axtool.errors import UsageError
from axtool.runtime import op
from axtool.runtime.device_config import BoardConfig, DeviceConfig
from axtool.runtime.op.device_options import DeviceOptions
from tests.conftest import Tiny

LIMITS = DeviceConfig({"110m": BoardConfig(clock=600, mvm_limitation=90)})


@pytest.mark.parametrize("value", [None, 1, 4, "1%", "50%", " 100 % "])
def test_an_allocation_is_a_number_of_cores_or_a_share(value: Any) -> None:
    assert DeviceOptions(core_allocation=value).core_allocation == value


@pytest.mark.parametrize("value", [0, -1, 1 << 20, "0%", "101%", "50", "half", "", "5.5%", "\u0665%"])
def test_an_allocation_that_is_none_is_refused_with_what_is_wanted(tiny_models: Tiny, value: Any) -> None:
    with pytest.raises(ValueError, match=r"core_allocation is .*want"):
        op.load(tiny_models / "two.axm", core_allocation=value)


@pytest.mark.parametrize("value", [True, 1.5, [2], b"50%"])
def test_an_allocation_of_another_type_is_refused(tiny_models: Tiny, value: Any) -> None:
    with pytest.raises(TypeError, match=r"core_allocation is a .*want a number of cores"):
        op.load(tiny_models / "two.axm", core_allocation=value)


@pytest.mark.parametrize("value", [0, -3, 1 << 20])
def test_a_batch_is_at_least_one_frame(tiny_models: Tiny, value: int) -> None:
    with pytest.raises(ValueError, match=r"batch is .*want the frames that a core runs in a row, 1 to"):
        op.load(tiny_models / "two.axm", batch=value)


@pytest.mark.parametrize("value", [True, 2.0, "2"])
def test_a_batch_is_a_whole_number(tiny_models: Tiny, value: Any) -> None:
    with pytest.raises(TypeError, match=r"batch is a .*want a whole number"):
        op.load(tiny_models / "two.axm", batch=value)


@pytest.mark.parametrize("value", [{"110m": {"clock": 600}}, BoardConfig(clock=600), "0"])
def test_settings_of_boards_are_a_device_config(tiny_models: Tiny, value: Any) -> None:
    with pytest.raises(TypeError, match=r"device_config is a .*want a DeviceConfig: DeviceConfig\(\{'110m'"):
        op.load(tiny_models / "two.axm", device_config=value)


def test_a_loaded_model_has_what_it_was_told(tiny_models: Tiny) -> None:
    loaded = op.load(tiny_models / "two.axm", core_allocation="50%", batch=4, device_config=LIMITS)
    model = loaded.device.part.model
    assert (model.core_allocation, model.batch, model.device_config) == ("50%", 4, LIMITS)


def test_a_saved_pipeline_keeps_the_options_of_its_models(tiny_models: Tiny, tmp_path: Path) -> None:
    op.seq(op.load(tiny_models / "two.axm", core_allocation=2, batch=3, device_config=LIMITS)).save_axe(
        tmp_path / "x.axe"
    )
    (model,) = op.load(tmp_path / "x.axe").operators
    assert model.options == DeviceOptions(core_allocation=2, batch=3, device_config=LIMITS)


def test_options_that_nobody_chose_are_not_in_the_file(tiny_models: Tiny, tmp_path: Path) -> None:
    op.seq(op.load(tiny_models / "two.axm")).save_axe(tmp_path / "x.axe")
    text = (tmp_path / "x.axe").read_bytes()
    assert [word for word in (b"core_allocation", b"batch", b"device_config") if word in text] == []


@pytest.mark.parametrize("given", [{"core_allocation": 1}, {"batch": 2}, {"device_config": LIMITS}])
def test_a_saved_pipeline_takes_no_options_of_its_own(tiny_models: Tiny, tmp_path: Path, given: dict[str, Any]) -> None:
    op.seq(op.load(tiny_models / "two.axm")).save_axe(tmp_path / "x.axe")
    with pytest.raises(ValueError, match=f"leave out {next(iter(given))}"):
        op.load(tmp_path / "x.axe", **given)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ('core_allocation = "all"', "core_allocation is 'all', want"),
        ("core_allocation = [1]", "core_allocation is a list"),
        ("batch = 0", "batch is 0, want"),
        ('batch = "x"', "batch is a str"),
        ("device_config = 3", "device_config is 3, want a table of tables"),
        ("device_config = {110m = 3}", "want a table of tables"),
        ("device_config = {110m = {speed = 3}}", "speed"),
        ("device_config = {110m = {clock = -1}}", "clock"),
    ],
)
def test_options_in_a_file_that_are_none_are_refused_with_the_reason(
    tiny_models: Tiny, tmp_path: Path, entry: str, said: str
) -> None:
    with zipfile.ZipFile(tmp_path / "x.axe", "w") as archive:
        model = f'{{operator = "load", model = "m.axm", {entry}}}'
        archive.writestr("pipeline.toml", f'format = 1\npipeline = {{operator = "seq", steps = [{model}]}}')
        archive.writestr("m.axm", (tiny_models / "two.axm").read_bytes())
    with pytest.raises(UsageError, match="not a pipeline that can be loaded") as error:
        op.load(tmp_path / "x.axe")
    assert said in str(error.value)


def test_two_loads_of_one_file_are_the_same_model_to_a_core(tiny_models: Tiny) -> None:
    keys = {op.load(tiny_models / "two.axm").device.part.model.key for _ in range(2)}
    assert len(keys) == 1


@pytest.mark.parametrize("other", [{"core_allocation": 1}, {"batch": 2}, {"device_config": LIMITS}, {"threads": 2}])
def test_another_option_makes_another_model(tiny_models: Tiny, other: dict[str, Any]) -> None:
    path = tiny_models / "two.axm"
    assert op.load(path).device.part.model.key != op.load(path, **other).device.part.model.key


def test_another_file_is_another_model(tiny_models: Tiny) -> None:
    keys = {op.load(tiny_models / name).device.part.model.key for name in ("two.axm", "cls.axm")}
    assert len(keys) == 2
