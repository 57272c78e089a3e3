"""`FloatModel`: the stages of a model (or one model) run in float by onnxruntime, one after another.

This is the float path that users and tests compare with. Host stages of a compiled model run elsewhere, in `runtime`.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.errors import UsageError, nearest
from axtool.graph.names import value_names
from axtool.graph.sites import dtype_name
from axtool.host_errors import SILENT, run_error, session_error

Array = NDArray[Any]
Optimize = Literal["disabled", "basic", "extended", "all"]

# A proto that onnxruntime takes as bytes must stay below 2 GB; above this the weights go through a file.
_INLINE_BYTES = 2_000_000_000


class StageLike(Protocol):
    """What is needed of `axtool.graph.split.Stage`."""

    @property
    def model(self) -> ir.Model: ...


class FloatModel:
    """Sessions of all stages, joined by tensor names.

    `outputs` names what to return, by default what every stage puts out. `expose` names values inside the stages to
    return beside them ("all": every one). `frozen` names inputs of
    the user's file that were made constant, so that feeding them is refused by that reason; `unread` names inputs that
    may be fed though no stage reads them. An initializer that is also a graph input may be fed and otherwise keeps its
    value.
    """

    def __init__(
        self,
        stages: ir.Model | Sequence[StageLike],
        *,
        threads: int = 1,
        optimize: Optimize = "basic",
        expose: Sequence[str] | Literal["all"] = (),
        outputs: Sequence[str] = (),
        frozen: Iterable[str] = (),
        unread: Iterable[str] = (),
        where: str = "",
    ) -> None:
        models = [stages] if isinstance(stages, ir.Model) else [_float_model(stage) for stage in stages]
        if not models:
            raise ValueError("a FloatModel needs at least one stage")
        self._where, self._frozen, self._unread = where, frozenset(frozen), frozenset(unread)
        self._sessions = [_Session(m, _exposed(m, expose), threads, optimize, where) for m in models]
        made: set[str] = set()
        self.inputs: dict[str, ir.Value] = {}
        self.overridable: dict[str, ir.Value] = {}
        for session in self._sessions:
            for name, value in session.inputs.items():
                if name not in made:
                    self.inputs.setdefault(name, value)
            self.overridable |= session.overridable
            made.update(session.outputs)
        last = outputs or [name for model in models for name in _names(model.graph.outputs)]
        self.outputs: tuple[str, ...] = tuple(dict.fromkeys(last))
        self.exposed: tuple[str, ...] = tuple(
            dict.fromkeys(name for session in self._sessions for name in session.exposed)
        )
        if expose != "all":
            unknown = [name for name in expose if name not in made and name not in self.inputs]
            if unknown:
                known = tuple(dict.fromkeys(name for model in models for name in value_names(model)))
                raise UsageError(
                    f"no tensor is named '{unknown[0]}'", where=where, hint=nearest(unknown[0], known),
                    code="unknown-tensor", details=unknown,
                )  # fmt: skip

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name, and what is exposed. Raises UsageError for feeds that do not fit."""
        self._check(feeds)
        values: dict[str, Array] = dict(feeds)
        for session in self._sessions:
            values |= session.run(values)
        wanted = dict.fromkeys((*self.outputs, *self.exposed))
        return {name: values[name] for name in wanted if name in values}

    def _check(self, feeds: Mapping[str, Array]) -> None:
        known = {**self.inputs, **self.overridable}
        for name in feeds:
            if name in known or name in self._unread:
                continue
            if name in self._frozen:
                raise UsageError(
                    f"input '{name}' was made constant when the model was compiled",
                    where=self._where,
                    hint="run the original .onnx with --engine float to feed it",
                    code="frozen-input",
                )
            raise UsageError(
                f"the model has no input '{name}'",
                where=self._where,
                hint=nearest(name, list(known)),
                code="unknown-input",
                details=(f"fed: {', '.join(feeds)}", f"inputs: {', '.join(known)}"),
            )
        missing = [name for name in self.inputs if name not in feeds]
        if missing:
            raise UsageError(
                f"input '{missing[0]}' is not fed",
                where=self._where,
                hint=f"the inputs are {', '.join(self.inputs)}",
                code="missing-input",
                details=[f"input '{name}' is not fed" for name in missing],
            )
        faults = [text for name, a in feeds.items() if name in known and (text := _misfit(name, a, known[name]))]
        if faults:
            raise UsageError(faults[0], where=self._where, code="input-mismatch", details=faults)


def _float_model(stage: StageLike) -> ir.Model:
    """A stage of a quantized file rounds where the file rounds (`Stage.float_model`)."""
    model = getattr(stage, "float_model", stage.model)
    assert isinstance(model, ir.Model)
    return model


def _names(values: Iterable[ir.Value]) -> list[str]:
    return [value.name or "" for value in values]


def _misfit(name: str, array: Array, value: ir.Value) -> str:
    """What of a feed differs from the declaration, with both sides, or ""."""
    want = dtype_name(value.dtype)
    seen = "string" if array.dtype.kind in "USO" else array.dtype.name
    if want and seen != want:
        return f"input '{name}': expected {want}, got {seen}"
    if value.shape is None:
        return ""
    declared = [d if isinstance(d, int) else None for d in value.shape]
    fits = len(declared) == array.ndim and all(
        d is None or d == size for d, size in zip(declared, array.shape, strict=True)
    )
    if fits:
        return ""
    shape = ",".join("?" if d is None else str(d) for d in declared)
    return f"input '{name}': expected shape [{shape}], got [{','.join(map(str, array.shape))}]"


def _exposed(model: ir.Model, expose: Sequence[str] | Literal["all"]) -> tuple[str, ...]:
    """The values of this model to return beside its outputs: never inputs, weights or values that are no tensor."""
    outputs = {value.name for value in model.graph.outputs}
    made = [v for node in model.graph for v in node.outputs if v.name and v.name not in outputs]
    tensors = [v.name or "" for v in made if v.type is None or isinstance(v.type, ir.TensorType)]
    return tuple(name for name in tensors if expose == "all" or name in expose)


class _Session:
    """One onnxruntime session."""

    def __init__(self, model: ir.Model, exposed: tuple[str, ...], threads: int, optimize: Optimize, where: str) -> None:
        import onnxruntime as ort

        initializers = model.graph.initializers
        self.inputs = {v.name or "": v for v in model.graph.inputs if v.name not in initializers}
        self.overridable = {v.name or "": v for v in model.graph.inputs if v.name in initializers}
        self.exposed, self._where = exposed, where
        # What is both an input and an output needs no session, but onnxruntime passes it through all the same.
        self.outputs = tuple(dict.fromkeys([*_names(model.graph.outputs), *exposed]))
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.graph_optimization_level = {
            "disabled": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
            "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
            "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
            "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
        }[optimize]
        options.log_severity_level = SILENT
        # A quantized file is run as it is written: onnxruntime would quantize weights anew and fuse roundings.
        options.add_session_config_entry("session.disable_quant_qdq", "1")
        folder: Path | None = None
        source: bytes | str
        if sum(v.const_value.nbytes for v in initializers.values() if v.const_value is not None) > _INLINE_BYTES:
            folder = Path(tempfile.mkdtemp(prefix="axtool-float-"))
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            source = str(folder / "model.onnx")
        try:
            source = _serialise(model, exposed, folder)
            self._session = ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime has no common base class
            raise session_error(error, where) from None

    def run(self, values: Mapping[str, Array]) -> dict[str, Array]:
        feeds = {name: values[name] for name in (*self.inputs, *self.overridable) if name in values}
        try:
            results = self._session.run(list(self.outputs), feeds)
        except Exception as error:  # onnxruntime has no common base class
            raise run_error(error, self._where) from None
        return dict(zip(self.outputs, (np.asarray(r) for r in results), strict=True))


def _serialise(model: ir.Model, exposed: tuple[str, ...], folder: Path | None) -> bytes | str:
    """The model as bytes, or as a path with its weights beside it; `exposed` become outputs of the copy only."""
    if folder is not None:
        path = folder / "model.onnx"
        ir.save(model, path, external_data="weights.bin")
        if exposed:
            import onnx

            proto = onnx.load(path, load_external_data=False)
            proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in exposed)
            path.write_bytes(proto.SerializeToString())
        return str(path)
    proto = ir.serde.serialize_model(model)
    for name in exposed:
        proto.graph.output.add(name=name)
    data: bytes = proto.SerializeToString()
    return data
