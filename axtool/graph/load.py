"""model.onnx  ->  `Loaded`: a sound onnx_ir.Model with static input shapes and inferred types, and what to say of it.

Everything that may be wrong with a file is said here, once, in the order a reader would find it: the bytes, the
header, the tensors, the names, the ops, the shapes. After it a pass may trust the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from axtool.errors import UsageError
from axtool.graph.export_metadata import export_of
from axtool.graph.external import ExternalFile, files_of
from axtool.graph.load_attributes import check_attributes, check_shape_constants
from axtool.graph.load_checks import check_batch_norms, check_channels, check_indices, check_reshapes
from axtool.graph.load_dims import fix_inputs
from axtool.graph.load_file import Source, read_proto
from axtool.graph.load_functions import inline_functions, opset_of_functions, raise_opset, use_one_domain_name
from axtool.graph.load_graph import check_names, check_text, name_inner_values, name_nodes
from axtool.graph.load_header import Log, check_header, check_ops, places
from axtool.graph.load_infer import infer, infer_shapes, skeleton
from axtool.graph.load_shapes import Annotations, check_model, forget_annotations, refuse_faults
from axtool.graph.load_sizes import check_sizes
from axtool.graph.load_tensors import WeightFault, check_tensors, map_external, settle_initializers, weight_faults
from axtool.graph.load_types import check_types

if TYPE_CHECKING:
    import onnx

__all__ = ["Loaded", "freeze_overridable", "infer_shapes", "load_model"]

_RANDOM = (
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli",
)  # fmt: skip


@dataclass(frozen=True)
class Loaded:
    """A model that passed every check.

    `overridable` names initializers that the caller may replace at run time (they are graph inputs too);
    `dims_fixed` the value each free dimension got, by name or as "x[2]"; `random_ops` the nodes whose result differs
    from run to run.
    """

    path: Path
    model: ir.Model
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    overridable: tuple[str, ...] = ()
    dims_fixed: Mapping[str, int] = field(default_factory=dict)
    external_files: tuple[ExternalFile, ...] = ()
    weight_faults: tuple[WeightFault, ...] = ()
    random_ops: tuple[str, ...] = ()
    producer: str = ""
    opset: int = 0
    ir_version: int = 0
    sha256: str = ""
    size_bytes: int = 0
    export: Mapping[str, Any] = field(default_factory=dict)  # as `axtool.graph.export_metadata` reads it


def load_model(
    path: str | Path,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    permissive: bool = False,
    fix_fp16: bool = False,
) -> Loaded:
    """Read, check and complete a model.

    `input_shapes` gives whole shapes by input name, `dims` sizes by dimension name; a free batch becomes 1.
    `permissive` accepts ops newer than the declared opset, `fix_fp16` mends mixed float types with Casts; both warn.
    Raises AxError for every file that cannot be compiled as it is, and nothing else.
    """
    path = Path(path)
    source = read_proto(path)
    log = Log(str(path))
    opset = check_header(source.proto, log.file)
    check_text(source.proto, log.file)
    export, unread = export_of(source.proto)
    log.notes.extend([unread] if unread else [])
    use_one_domain_name(source.proto)
    extents = check_tensors(source.proto, path.parent, log.file)
    check_attributes(source.proto, log.file)
    check_names(source.proto, log)
    needed = max(check_ops(source.proto, opset, log, permissive), opset_of_functions(source.proto, opset))
    proto = raise_opset(source.proto, opset, needed, log.file)
    proto = inline_functions(proto, needed, log)
    name_nodes(proto)
    name_inner_values(proto)
    dims_fixed = fix_inputs(proto, input_shapes, dims, log)
    overridable = _overridable(proto, log)
    annotations = forget_annotations(proto, keep=not dims_fixed)
    model = _to_ir(proto, log.file)
    map_external(model, extents)
    settle_initializers(model)
    _infer_and_check(model, annotations, log, permissive, fix_fp16)
    return Loaded(
        path=path,
        model=model,
        notes=tuple(log.notes),
        warnings=tuple(log.warnings),
        overridable=overridable,
        dims_fixed=dims_fixed,
        external_files=files_of(extents, path.parent),
        weight_faults=weight_faults(model),
        random_ops=_random_ops(proto),
        producer=_producer(source),
        opset=needed,
        ir_version=int(proto.ir_version),
        sha256=source.sha256,
        size_bytes=source.size_bytes,
        export=export,
    )


def freeze_overridable(model: ir.Model, keep: Sequence[str] = ()) -> tuple[str, ...]:
    """Make constants of the initializers that a caller could override, in place; the names of those frozen."""
    frozen = [v for v in model.graph.inputs if v.name in model.graph.initializers and v.name not in keep]
    for value in frozen:
        model.graph.inputs.remove(value)
    return tuple(value.name or "" for value in frozen)


def _infer_and_check(model: ir.Model, annotations: Annotations, log: Log, permissive: bool, fix_fp16: bool) -> None:
    """Infer all shapes; our own checks come first, since they say more than inference does."""
    annotations.type_outputs(model)
    check_shape_constants(model, log.file)
    proto = skeleton(model)
    check_model(model, proto, log)
    faults = infer(model, proto)
    if check_types(model, log, fix_fp16):
        proto = skeleton(model)
        faults = infer(model, proto)
    check_batch_norms(model, log)
    check_channels(model, log)
    check_indices(model, log)
    check_reshapes(model, log)
    refuse_faults(model, faults, log, permissive)
    check_sizes(model, log.file)
    annotations.compare(model, log)


def _overridable(proto: onnx.ModelProto, log: Log) -> tuple[str, ...]:
    """Initializers that are inputs too. Before IR 4 every initializer had to be one, and none may be overridden."""
    initializers = {tensor.name for tensor in proto.graph.initializer}
    names = tuple(info.name for info in proto.graph.input if info.name in initializers)
    if proto.ir_version >= 4:
        if names:
            shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
            log.notes.append(f"initializers that are inputs too keep their default until they are fed: {shown}")
        return names
    for at in reversed(range(len(proto.graph.input))):
        if proto.graph.input[at].name in initializers:
            del proto.graph.input[at]
    return ()


def _to_ir(proto: onnx.ModelProto, file: str) -> ir.Model:
    try:
        return ir.serde.deserialize_model(proto)
    except Exception as error:  # what the checks above let through, onnx_ir refuses in many ways
        raise UsageError(
            f"the model is malformed: {str(error).splitlines()[0][:300] if str(error) else type(error).__name__}",
            where=file,
            hint="check it with onnx.checker and export it again",
            code="malformed-model",
        ) from None


def _random_ops(proto: onnx.ModelProto) -> tuple[str, ...]:
    ones = {t.name for t in proto.graph.initializer if t.data_type == t.BOOL and any((*t.raw_data, *t.int32_data))}
    found = []
    for place in places(proto.graph):
        node = place.node
        training = node.op_type == "Dropout" and len(node.input) > 2 and node.input[2] in ones
        if node.domain == "" and (node.op_type in _RANDOM or training):
            found.append(str(place))
    return tuple(found)


def _producer(source: Source) -> str:
    return f"{source.proto.producer_name} {source.proto.producer_version}".strip()
