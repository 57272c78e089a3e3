"""A compiled model that runs: `.axm` in, outputs of the source model out.

Host stages run in onnxruntime, device stages on the simulated device. Nothing here needs the compiler.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from axtool.artefact import axm
from axtool.artefact.axm import Artefact, DeviceStage, HostStage
from axtool.errors import EnvironmentFault, UsageError, nearest
from axtool.host_errors import SILENT, run_error, session_error, words
from axtool.runtime.device import DeviceSession
from axtool.sim.engine import native_available
from axtool.types import TensorSpec

Arrays = dict[str, NDArray[Any]]
_T = TypeVar("_T")


@dataclass(frozen=True)
class RunResult:
    """Outputs by name, and the measured seconds of each stage in order (kind, seconds)."""

    outputs: Arrays
    stage_s: tuple[tuple[str, float], ...]

    @property
    def device_s(self) -> float:
        return sum(seconds for kind, seconds in self.stage_s if kind == "device")

    @property
    def host_s(self) -> float:
        return sum(seconds for kind, seconds in self.stage_s if kind == "host")


class HostSession:
    """A host stage in onnxruntime, on one thread: how onnxruntime cuts a sum over threads changes its last bits, and
    the outputs of a compiled model do not depend on the number of threads.
    """

    def __init__(self, stage: HostStage) -> None:
        self._where = _stage(stage)
        try:
            self._session = _open(stage.onnx, ["CPUExecutionProvider"])
        except Exception as error:
            text = f"a host stage does not load: {words(error)}"
            raise UsageError(text, where=self._where, code="bad-host-stage") from error
        self.inputs, self.outputs = stage.inputs, stage.outputs
        _same_names("input", self.inputs, [value.name for value in self._session.get_inputs()])
        _same_names("output", self.outputs, [value.name for value in self._session.get_outputs()])

    @classmethod
    def of_file(cls, path: Path, providers: Sequence[str]) -> HostSession:
        """A whole ONNX file. Raises AxError where onnxruntime refuses it."""
        made = cls.__new__(cls)
        made._where = str(path)
        try:
            made._session = _open(str(path), providers)
        except Exception as error:
            raise session_error(error, str(path)) from error
        made.inputs = tuple(value.name for value in made._session.get_inputs())
        made.outputs = tuple(value.name for value in made._session.get_outputs())
        return made

    @cached_property
    def specs(self) -> dict[str, TensorSpec]:
        """Name, shape and type of every input and output."""
        values = [*self._session.get_inputs(), *self._session.get_outputs()]
        return {value.name: TensorSpec(value.name, tuple(value.shape), numpy_name(value.type)) for value in values}

    def run(self, values: Mapping[str, NDArray[Any]]) -> Arrays:
        """The outputs by name. Raises UsageError where an op refuses the numbers it is given."""
        try:
            results = self._session.run(list(self.outputs), {name: values[name] for name in self.inputs})
        except Exception as error:
            known = run_error(error, self._where)
            if known.code == "no-memory":
                raise known from error
            text = f"a host stage fails on this input: {words(error)}"
            raise UsageError(text, where=self._where, code="host-stage-failed") from error
        return dict(zip(self.outputs, results, strict=True))


def _open(source: bytes | str, providers: Sequence[str]) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = SILENT
    return ort.InferenceSession(source, options, providers=list(providers))


def numpy_name(onnx_type: str) -> str:
    """`tensor(float)` -> `float32`."""
    inner = onnx_type.removeprefix("tensor(").removesuffix(")")
    return {"float": "float32", "double": "float64"}.get(inner, inner)


def _stage(stage: HostStage) -> str:
    """A stage has no name: the tensors that it makes say which one it is."""
    return f"host stage of '{stage.outputs[0]}'" if stage.outputs else "host stage"


def _same_names(what: str, wanted: Sequence[str], found: Sequence[str]) -> None:
    for name in wanted:
        if name not in found:
            hint = nearest(name, found)
            raise UsageError(f"a host stage has no {what} '{name}'", hint=hint, code="bad-host-stage")


class CompiledModel:
    """The stages of an artefact, loaded. `engine` is native or reference; the bits are the same."""

    def __init__(self, artefact: Artefact, *, engine: str = "native", threads: int = 1, isa: str = "auto") -> None:
        self.artefact = artefact
        self.inputs, self.outputs = artefact.inputs, artefact.outputs
        self.stages: list[HostSession | DeviceSession] = [
            DeviceSession(stage.plan, engine=engine, threads=threads, isa=isa)
            if isinstance(stage, DeviceStage)
            else HostSession(stage)
            for stage in artefact.stages
        ]

    @property
    def devices(self) -> list[DeviceSession]:
        return [stage for stage in self.stages if isinstance(stage, DeviceSession)]

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> RunResult:
        """One frame. Raises UsageError for a feed with a wrong name, shape or type."""
        values: Arrays = check_feeds(self.inputs, feeds)
        times: list[tuple[str, float]] = []
        for stage in self.stages:
            start = time.perf_counter()
            values.update(_guarded(stage.run, values))
            kind = "device" if isinstance(stage, DeviceSession) else "host"
            times.append((kind, time.perf_counter() - start))
        return RunResult({spec.name: values[spec.name] for spec in self.outputs}, tuple(times))

    def run_watched(self, feeds: Mapping[str, NDArray[Any]]) -> tuple[Arrays, Arrays]:
        """One frame with every device tensor: (outputs, dequantized tensors by name, ONNX shapes)."""
        values: Arrays = check_feeds(self.inputs, feeds)
        seen: Arrays = {}
        for stage in self.stages:
            if isinstance(stage, DeviceSession):
                made = [name for layer in stage.program.layers for name in layer.outputs]
                quantized = {name: _guarded(stage.quantize, name, values[name]) for name in stage.program.inputs}
                tensors = _guarded(stage.run_quantized, quantized, watch=made)
                seen |= {name: stage.dequantize(name, q) for name, q in tensors.items()}
                values.update({name: seen[name] for name in stage.program.outputs})
            else:
                values.update(stage.run(values))
        return {spec.name: values[spec.name] for spec in self.outputs}, seen


def _guarded(step: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
    """What `step` gives. A ValueError is a fault of the file: engines check what only the numbers say."""
    try:
        return step(*args, **kwargs)
    except ValueError as error:
        raise UsageError(f"the plan cannot be run: {error}", code="not-axm") from error


def load(path: Path, *, engine: str = "native", threads: int = 1, isa: str = "auto") -> CompiledModel:
    """Read and open an .axm file. Raises UsageError when it is not one, or when its plan breaks its own rules."""
    artefact = axm.read(path)
    check_isa(isa, engine)
    try:
        return CompiledModel(artefact, engine=engine, threads=threads, isa=isa)
    except ValueError as error:
        raise UsageError(f"the plan is not legal: {error}", where=str(path), code="not-axm") from error
    except MemoryError as error:
        raise UsageError("asks for more memory than there is", where=str(path), code="not-axm") from error


def check_isa(isa: str, engine: str) -> None:
    """Raise for an instruction set that the native engine does not have on this CPU, or without that engine."""
    if isa == "auto" or engine != "native":
        return
    if not native_available():
        raise EnvironmentFault(
            f"instruction sets are of the native engine, which is not built: --isa {isa}",
            hint="leave out --isa, or install axtool where a C++ compiler is",
            code="no-native-engine",
        )
    from axtool.native import _native

    known = ("auto", *_native.cpu()["isas"])
    if isa not in known:
        hint = nearest(isa, known)
        raise UsageError(f"there is no instruction set '{isa}' on this CPU", hint=hint, code="bad-option")


def check_feeds(specs: tuple[TensorSpec, ...], feeds: Mapping[str, NDArray[Any]]) -> Arrays:
    """The feeds, each with the shape and type that its input wants. Raises UsageError naming what differs."""
    known = [spec.name for spec in specs]
    for name in feeds:
        if name not in known:
            raise UsageError(f"the model has no input '{name}'", hint=nearest(name, known), code="unknown-input")
    checked: Arrays = {}
    for spec in specs:
        if spec.name not in feeds:
            raise UsageError(f"no data for input '{spec.name}'", hint=f"want {describe(spec)}", code="missing-input")
        array = np.asarray(feeds[spec.name])
        if tuple(array.shape) != spec.shape:
            seen = "x".join(map(str, array.shape)) or "a scalar"
            raise UsageError(
                f"input '{spec.name}' wants {describe(spec)}, got {seen}", code="wrong-shape", hint="see `axtool info`"
            )
        if array.dtype != np.dtype(spec.dtype):
            if not np.can_cast(array.dtype, np.dtype(spec.dtype), "same_kind"):
                raise UsageError(f"input '{spec.name}' wants {describe(spec)}, got {array.dtype}", code="wrong-dtype")
            array = array.astype(spec.dtype)
        checked[spec.name] = array
    return checked


def describe(spec: TensorSpec) -> str:
    """`float32 1x3x640x640`."""
    return f"{spec.dtype} {'x'.join(map(str, spec.shape)) or 'scalar'}"
