"""Attributes and shape constants of a model: of the type they say, and of a size that means something.

onnx's shape inference trusts them: an axis of 2^31 or a wrong count of outputs ends the process, a Reshape to 2^40
elements keeps it busy for hours. Error (exit 2): `invalid-model`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from axtool.errors import UsageError, plural
from axtool.graph.load_header import Place, places
from axtool.graph.sites import constant_of

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

MAX_RANK = 64
MAX_SIZE = 2**31 - 1

# AttributeProto.type -> the field that holds the value.
_CONTENT = (
    "", "f", "i", "s", "t", "g", "floats", "ints", "strings", "tensors", "graphs",
    "sparse_tensor", "sparse_tensors", "tp", "type_protos",
)  # fmt: skip
_NO_CONTENT = frozenset({"name", "doc_string", "type", "ref_attr_name"})
_INT, _STRING, _INTS, _TEXT, _MESSAGES = 2, 3, 7, (3, 8), (4, 5, 11, 13)

# Smallest and largest value of the attributes that are sizes or axes.
_AXIS = (-MAX_RANK, MAX_RANK)
_SIZE = (1, MAX_SIZE)
_BOUNDS = {
    "axis": _AXIS, "axes": _AXIS, "perm": (0, MAX_RANK), "batch_dims": (0, MAX_RANK), "kernel_shape": _SIZE,
    "strides": _SIZE, "dilations": _SIZE, "group": _SIZE, "blocksize": (1, 2**15), "num_outputs": _SIZE,
    "pads": (-MAX_SIZE, MAX_SIZE), "output_padding": (0, MAX_SIZE), "output_shape": _SIZE, "split": (0, MAX_SIZE),
    "k": (0, MAX_SIZE), "hidden_size": _SIZE, "scan_input_axes": _AXIS, "scan_output_axes": _AXIS, "num_groups": _SIZE,
}  # fmt: skip
# The words that an attribute may hold, by operator and name. onnx's checker takes any word, and so would we.
_AUTO_PAD = ("", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
_RESIZE = ("nearest", "linear", "bilinear", "cubic")
_WORDS = {
    **{(op, "auto_pad"): _AUTO_PAD for op in ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool")},
    ("Pad", "mode"): ("constant", "reflect", "edge", "wrap"),
    ("Resize", "mode"): _RESIZE, ("Upsample", "mode"): _RESIZE,
    ("Resize", "coordinate_transformation_mode"): (
        "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
        "tf_half_pixel_for_nn", "tf_crop_and_resize",
    ),
    ("Resize", "nearest_mode"): ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    ("DepthToSpace", "mode"): ("DCR", "CRD"), ("Gelu", "approximate"): ("none", "tanh"),
}  # fmt: skip
# Inputs that hold a shape, repeats, sizes or steps; in the ops of `_SHAPES` their product is a count of elements.
_SHAPE_INPUTS = {
    "Reshape": (1,), "Expand": (1,), "ConstantOfShape": (0,), "Tile": (1,), "Resize": (3,), "Slice": (4,),
    "Pad": (1,), "TopK": (1,), "Split": (1,), "CenterCropPad": (1,), "OneHot": (1,),
}  # fmt: skip
_SHAPES = ("Reshape", "Expand", "ConstantOfShape", "Resize", "Tile")


def check_attributes(proto: onnx.ModelProto, file: str) -> None:
    """Raise for an attribute that is not of the type it says, or out of bounds; name the type where none is said."""
    faults: list[str] = []
    functions = (place for f in proto.functions for place in places(f, f"function {f.name}"))
    for place in (*places(proto.graph), *functions):
        for attribute in place.node.attribute:
            held = [field.name for field, _ in attribute.ListFields() if field.name not in _NO_CONTENT]
            kind = attribute.type
            if kind == 0 and len(held) == 1 and not attribute.ref_attr_name:
                attribute.type = _CONTENT.index(held[0])
            elif not 0 < kind < len(_CONTENT) or any(name != _CONTENT[kind] for name in held):
                faults.append(f"{place}: attribute '{attribute.name}' is not of the type that it says")
            elif kind in _MESSAGES and not held and not attribute.ref_attr_name:
                faults.append(f"{place}: attribute '{attribute.name}' is empty")
            elif kind in _TEXT and not all(map(_is_text, (attribute.s, *attribute.strings))):
                faults.append(f"{place}: attribute '{attribute.name}' is not valid UTF-8")
            else:
                faults += (*_out_of_bounds(place, attribute), *_unknown_word(place, attribute))
    _throw(faults, file)


def check_shape_constants(model: ir.Model, file: str) -> None:
    """Raise for a constant shape, size or step that no memory could hold."""
    faults: list[str] = []
    for index, node in enumerate(model.graph):
        if node.domain != "":
            continue
        if node.op_type == "Range":
            faults += _long_range(node, index)
        for at in _SHAPE_INPUTS.get(node.op_type, ()):
            value = node.inputs[at] if at < len(node.inputs) else None
            array = constant_of(value) if value is not None and value.name else None
            if array is None or array.dtype.kind not in "iu" or array.size > 2 * MAX_RANK:
                continue
            numbers = [abs(int(v)) for v in np.asarray(array).reshape(-1)]
            if max(numbers, default=0) > MAX_SIZE or (node.op_type in _SHAPES and math.prod(numbers) > MAX_SIZE):
                faults.append(f"{node.op_type} '{node.name}' (node {index}): input {at} is {array.tolist()}, too large")
    _throw(faults, file)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _out_of_bounds(place: Place, attribute: onnx.AttributeProto) -> Iterator[str]:
    if attribute.ref_attr_name or attribute.type not in (_INT, _INTS) or attribute.name not in _BOUNDS:
        return
    low, high = _BOUNDS[attribute.name]
    numbers: Sequence[int] = list(attribute.ints) if attribute.type == _INTS else [attribute.i]
    if any(not low <= number <= high for number in numbers):
        shown = numbers if attribute.type == _INTS else numbers[0]
        yield f"{place}: attribute '{attribute.name}' is {shown}, want {low}..{high}"
    if attribute.name == "num_outputs" and numbers[0] != len(place.node.output):
        yield f"{place}: num_outputs is {numbers[0]}, but it has {plural(len(place.node.output), 'output')}"


def _unknown_word(place: Place, attribute: onnx.AttributeProto) -> Iterator[str]:
    words = _WORDS.get((place.node.op_type, attribute.name)) if place.node.domain == "" else None
    if words is None or attribute.ref_attr_name or attribute.type != _STRING:
        return
    word = attribute.s.decode()
    if word not in words:
        yield f"{place}: attribute '{attribute.name}' is '{word}', want {', '.join(filter(None, words))}"


def _long_range(node: ir.Node, index: int) -> Iterator[str]:
    arrays = [constant_of(value) if value is not None and value.name else None for value in node.inputs]
    scalars = [float(a.reshape(-1)[0]) for a in arrays if a is not None and a.size == 1 and a.dtype.kind in "iuf"]
    if len(scalars) != 3:
        return
    start, limit, delta = scalars
    if delta == 0 or not all(map(math.isfinite, scalars)) or (limit - start) / delta > MAX_SIZE:
        yield f"Range '{node.name}' (node {index}): from {start:g} to {limit:g} by {delta:g}"


def _throw(faults: Sequence[str], file: str) -> None:
    if faults:
        raise UsageError(
            f"not a valid model: {faults[0]}",
            where=file,
            hint="the file was edited or damaged: export it again",
            code="invalid-model",
            details=faults,
        )
