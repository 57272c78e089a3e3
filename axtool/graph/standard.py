"""A model with our own functions in it  ->  the bytes of a plain ONNX file, of an opset that is new enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from axtool.errors import UnsupportedError
from axtool.graph.functions import DOMAIN

if TYPE_CHECKING:
    import onnx

LARGEST_FILE = 2_000_000_000  # bytes that protobuf takes in one piece
IR_VERSIONS = {13: 7, 21: 10}  # the first file formats that go with these opsets
UNCHANGED = ("QuantizeLinear", "DequantizeLinear")  # but for the axis of scales that opset 13 added
HIDDEN = "ax.kept"


def to_standard(model: ir.Model, opset: int, producer: tuple[str, str]) -> bytes:
    """The model with functions inlined and what nobody reads removed, for `opset` at least. `model` is changed.

    Raises UnsupportedError for a model that does not fit one file, or has an op that no rule brings to `opset`.
    """
    from onnx_ir.passes.common import InlinePass, RemoveUnusedNodesPass, RemoveUnusedOpsetsPass

    InlinePass()(model)
    RemoveUnusedNodesPass()(model)
    RemoveUnusedOpsetsPass()(model)
    size = sum(v.const_value.nbytes for v in model.graph.initializers.values() if v.const_value is not None)
    if size > LARGEST_FILE:
        raise UnsupportedError(
            f"{size:,} bytes of weights are too many for one .onnx file", hint="leave out --emit", code="emit-too-large"
        )
    model.ir_version = max(model.ir_version, IR_VERSIONS[opset])
    model.producer_name, model.producer_version = producer
    proto: onnx.ModelProto = ir.to_proto(model)
    if model.opset_imports.get("", opset) < opset:
        proto = _raised(proto, opset)
    return bytes(proto.SerializeToString(deterministic=True))


def check_standard(data: bytes) -> None:
    """Assert what `to_standard` promises: a file that onnx finds valid, with no ops of ours."""
    import onnx

    onnx.checker.check_model(data)
    found = onnx.load_from_string(data)
    assert not found.functions
    assert not any(node.domain in (DOMAIN, HIDDEN) for node in found.graph.node)


def _raised(proto: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """The model in a newer opset. The converter has no rule for Q and DQ, and leaves other domains alone."""
    from onnx import version_converter

    hidden = proto.opset_import.add(domain=HIDDEN, version=1)
    for node in proto.graph.node:
        if node.op_type in UNCHANGED and node.domain == "":
            node.domain = HIDDEN
    try:
        raised: onnx.ModelProto = version_converter.convert_version(proto, opset)
    except Exception as error:  # it has no common base class
        raise UnsupportedError(
            f"onnx cannot bring the model to opset {opset}: {' '.join(str(error).split())[:200]}",
            hint=f"export the model with opset {opset} or newer, or leave out --emit",
            code="emit-opset",
        ) from error
    for node in raised.graph.node:
        if node.domain == HIDDEN:
            node.domain = ""
    for index in reversed([i for i, known in enumerate(raised.opset_import) if known.domain == hidden.domain]):
        del raised.opset_import[index]
    return raised
