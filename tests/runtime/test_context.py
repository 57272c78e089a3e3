"""`Context`: connections and instances made from it end with it, and what is asked wrongly is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axtool.errors import UsageError
from axtool.runtime import Context
from axtool.runtime.devices import machine
from axtool.runtime.devices.context import Model
from axtool.runtime.devices.seam import DeviceLost, DevicesInUse


@pytest.fixture
def context() -> Iterator[Context]:
    with machine.simulated("metis-pcie*2"), Context() as made:
        yield made


@pytest.fixture
def model(context: Context, digits: Path) -> Model:
    return context.load_model(digits)


def buffers(model: Model) -> tuple[list[np.ndarray[Any, Any]], list[np.ndarray[Any, Any]]]:
    inputs, outputs = (
        [np.zeros(info.shape, info.dtype) for info in infos] for infos in (model.inputs(), model.outputs())
    )
    return inputs, outputs


def test_a_connection_is_made_by_index_by_name_or_where_there_is_room(context: Context) -> None:
    assert context.device_connect(1, 2).device.name == "metis-0:2:0"
    assert context.device_connect("metis-0:1:0", 3).cores == (0, 1, 2)
    assert context.device_connect(num_sub_devices=2).device.name == "metis-0:2:0"
    with pytest.raises(DevicesInUse, match=r"2 > 1\): free are 1 of metis-0:1:0, 0 of metis-0:2:0"):
        context.device_connect(num_sub_devices=2)


def test_an_instance_fills_the_outputs(context: Context, model: Model) -> None:
    inputs, outputs = buffers(model)
    connection = context.device_connect()
    connection.load_model_instance(model).run(inputs, outputs)
    assert any(array.any() for array in outputs)
    assert model.input_tensor_layout == "NHWC"


def test_release_cascades_to_connections_and_instances(context: Context, model: Model) -> None:
    connection = context.device_connect(0, 4)
    instance = connection.load_model_instance(model)
    context.release()
    context.release()
    with pytest.raises(DeviceLost):
        instance.run(*buffers(model))
    with pytest.raises(DeviceLost, match="closed"):
        connection.load_model_instance(model)
    with pytest.raises(DeviceLost, match="released"):
        context.device_connect()
    assert machine.devices()[0].available() == 4


def test_as_many_instances_as_cores(context: Context, model: Model) -> None:
    connection = context.device_connect(0, 2)
    first, _ = (connection.load_model_instance(model) for _ in range(2))
    with pytest.raises(DevicesInUse, match="each of the 2 cores"):
        connection.load_model_instance(model)
    first.close()
    assert connection.load_model_instance(model)
    connection.close()
    connection.close()
    with pytest.raises(DeviceLost, match="closed"):
        connection.load_model_instance(model)


@pytest.mark.parametrize("number", [0, -1, 10**9])
def test_a_number_of_cores_that_no_device_has_is_refused(context: Context, number: int) -> None:
    with pytest.raises((UsageError, DevicesInUse)):
        context.device_connect(num_sub_devices=number)


@pytest.mark.parametrize("number", [True, 1.5, "2", None, [0], float("nan")])
def test_a_number_of_cores_is_a_whole_number(context: Context, number: Any) -> None:
    with pytest.raises(TypeError, match="want a whole number"):
        context.device_connect(num_sub_devices=number)


@pytest.mark.parametrize("device", [2, -1, "x", "0,1", "", True, 1.5, b"0", object()])
def test_what_is_not_one_device_is_refused(context: Context, device: Any) -> None:
    with pytest.raises(ValueError, match="device"):
        context.device_connect(device)


@pytest.mark.parametrize("path", ["no.axm", ".", "/dev/zero", "\x00"])
def test_what_is_no_compiled_model_is_refused(context: Context, path: str) -> None:
    with pytest.raises(UsageError):
        context.load_model(path)


def test_other_types_are_told(context: Context, model: Model, digits: Path) -> None:
    connection = context.device_connect()
    wrong: Any = digits
    with pytest.raises(TypeError, match=r"want what Context\.load_model gives"):
        connection.load_model_instance(wrong)
    settings: Any = {"clock": 400}
    with pytest.raises(TypeError, match="want a BoardConfig"):
        connection.load_model_instance(model, settings=settings)
    values: Any = [[1, 2]]
    with pytest.raises(ValueError, match="got list"):
        connection.load_model_instance(model).run(values, [])
