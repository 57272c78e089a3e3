"""What is written is what is read, and the same artefact gives the same bytes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from axtool.artefact import axm
from axtool.artefact.axm import Artefact, DeviceStage
from axtool.errors import EnvironmentFault, UsageError
from axtool.plan.build import plan
from axtool.plan.lower import lower
from axtool.target_file import load_target, target_to_dict
from axtool.types import TensorSpec
from tests.artefact.axm_files import Arrays, Manifest, changed, device
from tests.conftest import Tiny
from tests.plan.lower_case import Case


@pytest.mark.parametrize("name", ["cls.axm", "two.axm"])
def test_reading_gives_back_what_was_written(tiny_models: Tiny, tmp_path: Path, name: str) -> None:
    first = axm.read(tiny_models / name)
    axm.write(tmp_path / name, first)
    again = axm.read(tmp_path / name)
    assert (again.target, again.inputs, again.outputs, again.preparation, again.task, again.support) == (
        first.target, first.inputs, first.outputs, first.preparation, first.task, first.support,
    )  # fmt: skip
    assert (again.quantization, again.provenance) == (first.quantization, first.provenance)
    for one, other in zip(first.stages, again.stages, strict=True):
        assert type(one) is type(other)
        if isinstance(one, axm.HostStage):
            assert one == other
        elif isinstance(other, axm.DeviceStage):
            a, b = one.plan, other.plan
            assert (a.slots, a.commands, a.sizes, a.target) == (b.slots, b.commands, b.sizes, b.target)
            assert (a.program.layers, a.program.tensors) == (b.program.layers, b.program.tensors)
            assert a.program.constants.keys() == b.program.constants.keys()
            for key, array in a.program.constants.items():
                np.testing.assert_array_equal(array, b.program.constants[key])


@pytest.mark.parametrize("name", ["cls.axm", "two.axm"])
def test_a_file_that_is_read_and_packed_has_the_same_bytes(tiny_models: Tiny, name: str) -> None:
    artefact = axm.read(tiny_models / name)
    data = axm.pack(artefact)
    assert data == axm.pack(artefact)
    assert data == (tiny_models / name).read_bytes()


def test_the_file_names_the_chip_that_its_plans_are_for(tiny_models: Tiny) -> None:
    artefact = axm.read(tiny_models / "cls.axm")
    assert {stage.plan.target for stage in artefact.device_stages} == {artefact.target["name"]}


def test_any_safetensors_reader_opens_the_file(tiny_models: Tiny) -> None:
    with safe_open(tiny_models / "cls.axm", framework="np") as file:
        assert list(file.metadata()) == ["axm"]
        assert json.loads(file.metadata()["axm"])["format"] == "axtool.axm/1"


def test_nothing_in_the_file_says_where_or_when_it_was_made(tiny_models: Tiny) -> None:
    assert str(tiny_models.folder).encode() not in (tiny_models / "cls.axm").read_bytes()


def test_an_existing_file_is_kept_without_force(tiny_models: Tiny, tmp_path: Path) -> None:
    artefact, path = axm.read(tiny_models / "cls.axm"), tmp_path / "old.axm"
    path.write_bytes(b"old")
    with pytest.raises(UsageError, match="already exists"):
        axm.write(path, artefact)
    assert path.read_bytes() == b"old"
    assert axm.write(path, artefact, force=True) == path.stat().st_size


def test_a_folder_that_cannot_be_written_is_the_machines_fault(
    tiny_models: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(EnvironmentFault, match="Permission denied"):
        axm.write(tmp_path / "new.axm", axm.read(tiny_models / "cls.axm"))
    assert list(tmp_path.iterdir()) == []


def test_a_file_keeps_tensors_of_int16_and_refuses_a_zero_point_for_them(tmp_path: Path) -> None:
    case = Case("(float[1,4,8,8] x) => (float[1,6,8,8] y) { t = Conv(x, w) y = Sigmoid(t) }", w=(6, 4, 1, 1))
    chip = load_target("qc-u-1d5-8mb")
    program = lower(case.sites, case.quantization(["x", "y"]), chip, case.inputs, case.outputs)
    specs = [
        tuple(TensorSpec(name, (1, n, 8, 8), "float32") for name in names) for names, n in ((["x"], 4), (["y"], 6))
    ]
    made = Artefact(target_to_dict(chip), specs[0], specs[1], (DeviceStage(plan(program, chip)),))
    path = tmp_path / "wide.axm"
    path.write_bytes(axm.pack(made))
    (stage,) = axm.read(path).device_stages
    assert stage.plan.program.tensors == program.tensors
    assert {stage.plan.program.tensors[name].format.kind for name in ("x", "t", "y")} == {"int16"}

    def shifted(manifest: Manifest, arrays: Arrays) -> None:
        device(manifest)["tensors"]["x"]["format"]["zero_point"] = [3]

    with pytest.raises(UsageError, match="zero point"):
        axm.read(changed(path, tmp_path / "other.axm", shifted))
