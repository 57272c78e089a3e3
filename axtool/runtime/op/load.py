"""`op.load`: a compiled model as a sequence of operators, with the postamble that was asked for."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from axtool.artefact import axm
from axtool.artefact.stages import Artefact
from axtool.errors import AxError
from axtool.runtime import profiler
from axtool.runtime.device_config import DeviceConfig
from axtool.runtime.export import postambles_of
from axtool.runtime.named_models import named_model
from axtool.runtime.op.combinators import Seq, arguments
from axtool.runtime.op.compare import fault_of
from axtool.runtime.op.device_ops import (
    AxRuntimeModel,
    Depad,
    Dequant,
    NchwToNhwc,
    Pad,
    Quant,
    QuantizeTransposePad,
    _AlignToModelOutput,
    _ListUnpack,
    is_nchw,
)
from axtool.runtime.op.device_options import DeviceOptions
from axtool.runtime.op.device_part import DevicePart, Lane, cut
from axtool.runtime.op.onnx_model import OnnxModel
from axtool.runtime.op.operator import Operator, Unpacked
from axtool.runtime.postamble import Postamble
from axtool.runtime.random_buffers import FEWEST_FRAMES, random_buffers
from axtool.runtime.tensor_info import TensorInfo
from axtool.types import TensorSpec

log = logging.getLogger("axtool")
DEFAULT = DeviceOptions()


class LoadedSeq(Seq):
    """What `op.load` gives: the operators of one compiled model. `artefact` is what the file holds."""

    def __init__(
        self,
        *operators: Operator,
        path: Path,
        artefact: Artefact,
        postamble: Postamble | None = None,
        infos: Sequence[TensorInfo] = (),
        options: DeviceOptions = DEFAULT,
        name: str = "",
    ) -> None:
        """`infos` are what the last operator, a kernel, is given; empty without one."""
        super().__init__(*operators, name=name)
        self.path, self.artefact, self.postamble, self.infos = path, artefact, postamble, tuple(infos)
        self.options = options

    @property
    def kernel(self) -> Operator | None:
        """The kernel that restores the outputs, where there is one."""
        return self.steps[-1] if self.infos else None

    def optimized(self, policy: str = "auto") -> LoadedSeq:
        """As `Seq.optimized`; and where no Postamble was given, not even an empty one, the kernel for the task in the
        exporter's metadata restores the outputs, if it gives what the onnxruntime tail gives. The log says which.
        """
        made = super().optimized(policy)
        if policy == "auto" and made.postamble is None and made.artefact.export:
            picked = _picked(made)
            if picked is not None:
                made.postamble, kernel, made.infos = picked
                made.steps = (*made.steps[: made.steps.index(made.device) + 1], _ListUnpack(), kernel)
        return made

    @property
    def device(self) -> AxRuntimeModel:
        """The operator that is the device."""
        return next(step for step in self.steps if isinstance(step, AxRuntimeModel))

    @property
    def tail(self) -> Seq:
        """What makes the outputs of the device's buffers: Depad to the postamble graph, or the kernel."""
        return Seq(*self.steps[self.steps.index(self.device) + 1 :])

    def __call__(self, *values: Any) -> Any:
        watched = profiler.active()
        for step in self.steps:
            given = values
            try:
                result = step(*given) if watched is None else watched.call(step, given)
                values = arguments(result)
            except Exception as error:
                if step is not self.kernel:
                    raise
                raise RuntimeError(self._failed(step, given, error)) from error
            if step is self.kernel:
                several = isinstance(result, tuple) and len(self.artefact.outputs) > 1
                self._refuse_others(step, result if several else values)
        return values[0] if len(values) == 1 else Unpacked(values)

    def _refuse_others(self, kernel: Operator, made: Sequence[Any]) -> None:
        """A kernel gives the source model's outputs: as many, of their shapes and types. Raises ValueError."""
        specs = self.artefact.outputs
        if len(made) != len(specs):
            raise self._other(kernel, f"{len(made)} values", "")
        for spec, array in zip(specs, made, strict=True):
            if not isinstance(array, np.ndarray) or (array.shape, array.dtype) != (spec.shape, spec.dtype):
                is_array = isinstance(array, np.ndarray)
                got = f"{array.dtype} {list(array.shape)}" if is_array else type(array).__name__
                hint = "; a kernel restores the tensors of the source model, without the device's padding"
                raise self._other(kernel, f"{got} for '{spec.name}'", hint)

    def _other(self, kernel: Operator, got: str, hint: str) -> ValueError:
        shown = ", ".join(f"{spec.name} {spec.dtype} {list(spec.shape)}" for spec in self.artefact.outputs)
        return ValueError(f"{self.path}: {type(kernel).__name__} gave {got}, the model has {shown}{hint}")

    def _fused(self, steps: list[Operator]) -> tuple[Operator, ...]:
        """What quantizes and pads in one step; the tail, declared or not, stays."""
        for at in reversed(range(len(steps) - 2)):
            first, quant, last = steps[at : at + 3]
            if isinstance(first, NchwToNhwc) and isinstance(quant, Quant) and isinstance(last, Pad):
                steps[at : at + 3] = [QuantizeTransposePad(quant.lanes)]
        return tuple(steps)

    def _failed(self, kernel: Operator, values: Sequence[Any], error: Exception) -> str:
        shown = ", ".join(
            f"{info.name} {value.dtype} {list(np.shape(value))}"
            for info, value in zip(self.infos, values, strict=False)
        )
        made = ", ".join(f"'{spec.name}'" for spec in self.artefact.outputs)
        return (
            f"{self.path}: kernel {type(kernel).__name__} failed while making {made} of {shown}: "
            f"{type(error).__name__}: {error}"
        )


def load(
    file: str | Path,
    *,
    name: str = "",
    core_allocation: int | str | None = None,
    using_postamble: Postamble | None = None,
    device_config: DeviceConfig | None = None,
    batch: int | None = None,
    engine: str = "native",
    threads: int = 1,
) -> Any:
    """A compiled model as a LoadedSeq, or the pipeline of an .axe file as it was saved.

    `file` may also be the name of a model of the zoo, which is built the first time and kept in the cache. The model is
    read and checked here; a board is connected when it is run for the first time, by the scheduler in scope.
    Without a Postamble, or with an empty one, the postamble graph runs in onnxruntime.

    core_allocation  how many cores of the scheduler the model is spread over: None for an equal share among the models
                     in use, a number of cores, or '50%' of what is left.
    batch            how many frames of it a core runs in a row while another model waits for that core; None leaves
                     that to the scheduler. It never changes the bits.
    device_config    settings of the boards that it runs on, by board model; those of the scheduler go before them.
    engine, threads  of a simulated core.

    Raises ValueError or ImportError for a kernel that does not fit the model or is not found, TypeError and ValueError
    for an option that is none, AxError for a file that is not a compiled model.
    """
    _check_types(name, using_postamble)
    options = DeviceOptions(core_allocation, batch, device_config, engine, threads)
    path = Path(file)
    if not path.suffix and not os.path.exists(path):  # False, too, for what is no path at all
        path = named_model(str(file))
    if path.suffix == ".axe":
        given = [*(["name"] if name else []), *(["using_postamble"] if using_postamble is not None else [])]
        given += options.to_dict()
        if given:
            kept = "a saved pipeline has its name, its Postamble and its options already"
            raise ValueError(f"{path}: {kept}; leave out {', '.join(given)}")
        from axtool.runtime.op import axe  # it reads models with this module

        return axe.load_axe(path, engine=engine, threads=threads)
    return sequence_of(axm.read(path), path, using_postamble, name=name, options=options)


def _check_types(name: object, postamble: object) -> None:
    """Raise TypeError for what would fail later, far from where it was written."""
    if postamble is not None and not isinstance(postamble, Postamble):
        raise TypeError(
            f"using_postamble is a {type(postamble).__name__}, want a Postamble: "
            "Postamble(fused_kernel='UltralyticsYoloPostamble', num_classes=80)"
        )
    if not isinstance(name, str):
        raise TypeError(f"name is a {type(name).__name__}, want a text")


def sequence_of(
    artefact: Artefact,
    path: Path,
    postamble: Postamble | None = None,
    *,
    name: str = "",
    options: DeviceOptions = DEFAULT,
) -> LoadedSeq:
    """The operators of an artefact that was read from `path`."""
    kernel_class = None if postamble is None or postamble.is_empty else postamble.kernel_class()
    before, _, _ = cut(artefact)
    specs = {spec.name: spec for spec in (*artefact.inputs, *artefact.outputs)}
    preamble = OnnxModel.of_stages(before, list(specs)[: len(artefact.inputs)], (), path=str(path)) if before else None
    specs |= {} if preamble is None else preamble.specs
    try:
        part = DevicePart(artefact, specs, path, options)
    except AxError:
        raise
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    steps: list[Operator] = _front(part, artefact, preamble)
    steps.append(AxRuntimeModel(part, model=path.name))
    infos: list[TensorInfo] = []
    if kernel_class is None or postamble is None:
        steps += _behind(part.outputs)
        tail = _tail(artefact, part, path)
        steps += [tail] if tail is not None else []
    else:
        if postamble.slot == "kernel":
            steps += _behind(part.outputs)
            infos = [float_info(lane) for lane in part.outputs]
        else:
            _refuse_host_tensors(part.outputs, kernel_class, path)
            infos = [lane.info for lane in part.outputs]
            steps.append(_ListUnpack())
        steps.append(_built(kernel_class, infos, artefact, postamble.params, path))
    return LoadedSeq(*steps, path=path, artefact=artefact, postamble=postamble, infos=infos, options=options, name=name)


def _picked(loaded: LoadedSeq) -> tuple[Postamble, Operator, tuple[TensorInfo, ...]] | None:
    """The first kernel for the exporter's task that fits the device's outputs and equals the tail on random buffers."""
    tail, lanes = loaded.tail, loaded.device.outputs
    infos = tuple(lane.info for lane in lanes)
    if not tail.steps or not isinstance(tail.steps[-1], OnnxModel) or any(lane.tensor is None for lane in lanes):
        return None
    refused: list[str] = []
    for postamble in postambles_of(loaded.artefact.export):
        try:
            kernel = _built(postamble.kernel_class(), list(infos), loaded.artefact, postamble.params, loaded.path)
        except (TypeError, ValueError) as error:
            refused.append(str(error).removeprefix(f"{loaded.path}: "))
            continue
        fault = fault_of(kernel, tail, random_buffers(lanes, {}, FEWEST_FRAMES))
        if not fault:
            log.info("%s: %r picked from the exporter's metadata", loaded.path, postamble)
            return postamble, kernel, infos
        refused.append(f"{postamble!r}: {fault}")
    log.info("%s: no kernel picked from the exporter's metadata: %s", loaded.path, (refused or ["none is known"])[0])
    return None


def _built(
    kernel_class: Callable[..., Operator],
    infos: list[TensorInfo],
    artefact: Artefact,
    params: Mapping[str, Any],
    path: Path,
) -> Operator:
    """The kernel, made as the contract says: (output_infos, model_width, model_height, **params). ValueError for one
    that says that it makes other outputs than the model's.

    What it raises names the file and the kernel: TypeError and ValueError, its refusals, and RuntimeError for the rest.
    """
    where = f"{path}: {getattr(kernel_class, '__name__', kernel_class)}"
    try:
        kernel = kernel_class(infos, *input_size(artefact), **params)
    except TypeError as error:
        raise TypeError(f"{where}: {error}") from error
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    except Exception as error:
        raise RuntimeError(f"{where} fails while it is made: {type(error).__name__}: {error}") from error
    _refuse_other_outputs(kernel, artefact.outputs, path)
    return kernel


def input_size(artefact: Artefact) -> tuple[int, int]:
    """(width, height) of the first input of rank 4, in front of the preamble; (0, 0) without one."""
    return size_of(artefact.inputs)


def size_of(inputs: Sequence[TensorSpec]) -> tuple[int, int]:
    """(width, height) of the first of rank 4; (0, 0) without one."""
    for spec in inputs:
        if len(spec.shape) == 4:
            _, a, b, c = spec.shape
            return (c, b) if a in (1, 3, 4) or c not in (1, 3, 4) else (b, a)
    return 0, 0


def float_info(lane: Lane) -> TensorInfo:
    """What a `kernel=` kernel gets for a lane: float32 of the ONNX shape, no padding."""
    if lane.tensor is None:
        return lane.info
    return TensorInfo(lane.tensor.onnx_shape, np.float32, lane.name)


def _front(part: DevicePart, artefact: Artefact, preamble: OnnxModel | None) -> list[Operator]:
    """What brings the model's inputs to the device."""
    wanted = tuple(lane.name for lane in part.inputs)
    steps: list[Operator] = []
    if preamble is not None:
        preamble.outputs = wanted
        steps.append(preamble)
    elif wanted != tuple(spec.name for spec in artefact.inputs):
        steps.append(_Inputs(tuple(spec.name for spec in artefact.inputs), wanted))
    if any(is_nchw(lane) for lane in part.inputs):
        steps.append(NchwToNhwc(part.inputs))
    return [*steps, Quant(part.inputs), Pad(part.inputs)]


def _behind(lanes: Sequence[Lane]) -> list[Operator]:
    return [Depad(lanes), Dequant(lanes), _AlignToModelOutput(lanes), _ListUnpack()]


def _tail(artefact: Artefact, part: DevicePart, path: Path) -> OnnxModel | _Inputs | None:
    """The postamble graph, or what picks the outputs where there is none and their order is another."""
    _, _, after = cut(artefact)
    given = tuple(lane.name for lane in part.outputs)
    wanted = tuple(spec.name for spec in artefact.outputs)
    if after:
        return OnnxModel.of_stages(after, given, wanted, path=str(path))
    return None if given == wanted else _Inputs(given, wanted)


class _Inputs(Operator):
    """Values picked by name: where the order in which they are given is not the one in which they are wanted."""

    given: tuple[str, ...]
    wanted: tuple[str, ...]

    def __call__(self, *values: Any) -> Any:
        if len(values) != len(self.given):
            raise ValueError(f"want {len(self.given)} values ({', '.join(self.given)}), got {len(values)}")
        known = dict(zip(self.given, values, strict=True))
        picked = [known[name] for name in self.wanted]
        return picked[0] if len(picked) == 1 else Unpacked(picked)


def _refuse_host_tensors(lanes: Sequence[Lane], kernel: type[Operator], path: Path) -> None:
    names = [f"'{lane.name}'" for lane in lanes if lane.tensor is None]
    if names:
        raise ValueError(
            f"{path}: {kernel.__name__}: the postamble also reads {', '.join(names)} from the host, which a fused "
            "kernel does not get; write one for kernel=, or drop the Postamble to run the onnx tail"
        )


def _refuse_other_outputs(kernel: Operator, outputs: Sequence[TensorSpec], path: Path) -> None:
    """A kernel that says what it makes must make what the model declares."""
    told = getattr(kernel, "output_shapes", None)
    wanted = tuple(spec.shape for spec in outputs)
    try:
        made = wanted if told is None else tuple(map(tuple, told))
    except TypeError:
        raise ValueError(
            f"{path}: {type(kernel).__name__}: output_shapes is {told!r}, want a shape for each output"
        ) from None
    if made != wanted:
        declared = ", ".join(f"{spec.name} {list(spec.shape)}" for spec in outputs)
        would = ", ".join(str(list(shape)) for shape in made)
        raise ValueError(
            f"{path}: {type(kernel).__name__} would make {would}, but the model declares {declared}; "
            f"check the kernel and its parameters, or drop the Postamble to run the onnx tail"
        )
