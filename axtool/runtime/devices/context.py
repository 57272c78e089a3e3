"""`Context`: the devices that there are, connections to them and models on their cores, all released together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from types import TracebackType

from axtool.artefact import axm
from axtool.errors import UsageError
from axtool.runtime.device import buffer_shape
from axtool.runtime.device_config import BoardConfig
from axtool.runtime.devices import machine
from axtool.runtime.devices.model import DeviceModel
from axtool.runtime.devices.seam import Buffer, Connection, Device, DeviceInfo, DeviceLost, DevicesInUse, Instance
from axtool.runtime.devices.select import Selector, UnknownDevice, listed, select_devices
from axtool.runtime.tensor_info import TensorInfo


class Context:
    """What a process holds of its devices. `release`, or the end of a `with` block, gives all of it back.

    >>> with Context() as context:
    ...     connection = context.device_connect("metis-0:1:0", num_sub_devices=1)
    ...     instance = connection.load_model_instance(context.load_model("model.axm"))
    ...     instance.run(inputs, outputs)
    """

    def __init__(self) -> None:
        """The devices are those that there are now. Raises UsageError where AXTOOL_BOARDS is wrong."""
        self._devices: dict[str, Device] = {device.info.name: device for device in machine.devices()}
        self._open: dict[Connection, None] = {}
        self._released = False
        self._lock = Lock()

    def list_devices(self) -> list[DeviceInfo]:
        """Every device, in the order of the indices of selectors."""
        return [device.info for device in self._devices.values()]

    def select(self, selector: Selector = None) -> list[DeviceInfo]:
        """The devices that a selector names. Raises UnknownDevice."""
        return select_devices(selector, self.list_devices())

    def available(self, name: str) -> int:
        """How many cores of a device nobody has connected to."""
        return self._devices[name].available()

    def connect(self, name: str, cores: int | Sequence[int] | None = None) -> Connection:
        """Take so many cores of a device, or these, or all. Raises UnknownDevice, DevicesInUse, DeviceLost."""
        device = self._devices[select_devices([name], self.list_devices())[0].name]
        with self._lock:
            self._refuse_released()
            connection = device.connect(cores)
            self._open[connection] = None
        return connection

    def disconnect(self, connection: Connection) -> None:
        """Close one connection. Idempotent."""
        with self._lock:
            self._open.pop(connection, None)
        connection.close()

    def device_connect(self, device: int | str | None = None, num_sub_devices: int = 1) -> DeviceConnection:
        """Take `num_sub_devices` cores of a device, by index or name; of the first that has so many free by default.

        Raises UnknownDevice, DevicesInUse, DeviceLost, TypeError.
        """
        if isinstance(num_sub_devices, bool) or not isinstance(num_sub_devices, int):
            raise TypeError(f"num_sub_devices is a {type(num_sub_devices).__name__}, want a whole number")
        name = self._with_room(num_sub_devices) if device is None else self._one(device)
        return DeviceConnection(self, self.connect(name, num_sub_devices))

    def load_model(self, path: str | os.PathLike[str]) -> Model:
        """A compiled model, read and checked; no device is needed for it. Raises UsageError."""
        with self._lock:
            self._refuse_released()
        return Model(Path(path))

    @property
    def released(self) -> bool:
        """Whether `release` was called."""
        return self._released

    def release(self) -> None:
        """Close every connection and every instance that was made from this context. Idempotent."""
        with self._lock:
            self._released = True
            opened, self._open = list(self._open), {}
        for connection in opened:
            connection.close()

    def __enter__(self) -> Context:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _one(self, device: int | str) -> str:
        found = self.select(device)
        if len(found) != 1:
            raise UnknownDevice(f"want one device, {device!r} names {len(found)}", hint=listed(found))
        return found[0].name

    def _with_room(self, wanted: int) -> str:
        if not self._devices:
            raise UnknownDevice("there is no device")
        rooms = {name: device.available() for name, device in self._devices.items()}
        for name, free in rooms.items():
            if free >= wanted:
                return name
        shown = ", ".join(f"{free} of {name}" for name, free in rooms.items())
        raise DevicesInUse(
            f"num_sub_devices > available ({wanted} > {max(rooms.values())}): free are {shown}",
            hint="close what holds the others, or ask for fewer",
        )

    def _refuse_released(self) -> None:
        """The lock is held."""
        if self._released:
            raise DeviceLost("this context has been released", hint="make a new Context")


class Model:
    """A compiled model as devices take it: the one device stage of a file, its buffers and its host stages' place."""

    def __init__(self, path: Path) -> None:
        """Raises UsageError for what is no .axm file, or one with several device stages."""
        artefact = axm.read(path)
        stages = artefact.device_stages
        if len(stages) != 1:
            raise UsageError(
                f"has {len(stages)} device stages, a model instance runs exactly one", where=str(path),
                hint="op.load runs whole models, what is on the host between them, too", code="several-stages",
            )  # fmt: skip
        self.path, self.artefact, self._plan = path, artefact, stages[0].plan
        status = path.stat()
        key = f"{path.resolve()}:{status.st_mtime_ns}:{status.st_size}"
        self.device_model = DeviceModel(key, str(path), (self._plan,), artefact.target)
        try:
            self.device_model.check()
        except ValueError as error:
            raise UsageError(f"the plan is not legal: {error}", where=str(path), code="not-axm") from error

    def inputs(self) -> list[TensorInfo]:
        """What `ModelInstance.run` takes: padded buffers, NHWC."""
        return [self._info(name) for name in self._plan.program.inputs]

    def outputs(self) -> list[TensorInfo]:
        """What it fills."""
        return [self._info(name) for name in self._plan.program.outputs]

    @property
    def input_tensor_layout(self) -> str:
        """Of the buffers."""
        return "NHWC"

    def _info(self, name: str) -> TensorInfo:
        from axtool.runtime.op.device_part import info_of  # operators are made of devices

        return info_of(self._plan.program.tensors[name], buffer_shape(self._plan, name))


class DeviceConnection:
    """Cores of one device, for model instances."""

    def __init__(self, context: Context, connection: Connection) -> None:
        self._context, self._connection = context, connection
        self._taken: dict[int, ModelInstance] = {}
        self._closed = False

    @property
    def device(self) -> DeviceInfo:
        return self._connection.device.info

    @property
    def cores(self) -> tuple[int, ...]:
        return self._connection.cores

    def load_model_instance(self, model: Model, *, settings: BoardConfig | None = None) -> ModelInstance:
        """Put a model on a core of this connection that has none.

        Raises DevicesInUse when each has one, FitError, DeviceLost, TypeError.
        """
        if not isinstance(model, Model):
            raise TypeError(f"model is a {type(model).__name__}, want what Context.load_model gives")
        if settings is not None and not isinstance(settings, BoardConfig):
            raise TypeError(f"settings is a {type(settings).__name__}, want a BoardConfig")
        if self._closed or self._context.released:
            raise DeviceLost("this connection is closed", where=self.device.name, hint="connect again")
        for core in self.cores:
            held = self._taken.get(core)
            if held is None or held.closed:
                made = ModelInstance(model, self._connection.load(core, model.device_model, settings))
                self._taken[core] = made
                return made
        raise DevicesInUse(
            f"each of the {len(self.cores)} cores of this connection has a model instance",
            hint="close one of them, or connect to more cores",
        )

    def close(self) -> None:
        """Free the cores. Idempotent."""
        self._closed = True
        self._context.disconnect(self._connection)


class ModelInstance:
    """A model on one core."""

    def __init__(self, model: Model, instance: Instance) -> None:
        self.model, self._instance = model, instance
        self.closed = False

    def run(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
        """Fill `outputs` for `inputs`; blocks. Raises ValueError for buffers of other shapes or types, DeviceLost."""
        self._instance.run(0, inputs, outputs)

    def close(self) -> None:
        """Take the model off its core. Idempotent."""
        self.closed = True
        self._instance.close()
