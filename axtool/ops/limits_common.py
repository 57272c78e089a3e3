"""What every device op asks of its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from axtool.errors import plural
from axtool.ops.limits_core import data_inputs, data_outputs, limit
from axtool.target import Target
from axtool.types import Site

# What a lowering reads. A canonical attribute that depends on a value known only at run time is absent.
NEEDED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Conv": ("kernel", "strides", "dilations", "pads", "group"),
        "ConvTranspose": ("kernel", "strides", "dilations", "pads", "group"),
        "MaxPool": ("kernel", "strides", "dilations", "pads"),
        "AveragePool": ("kernel", "strides", "dilations", "pads", "count_include_pad"),
        "Clip": ("min", "max"),
        "Concat": ("axis",),
        "Split": ("axis", "sizes"),
        "Slice": ("starts", "steps"),
        "Pad": ("before", "after", "mode", "value"),
        "Resize": ("mode", "coordinate", "nearest", "scales"),
        "Upsample": ("mode", "coordinate", "nearest", "scales"),
        "ReduceMean": ("axes", "keepdims"),
        "ReduceSum": ("axes", "keepdims"),
        "ReduceMax": ("axes", "keepdims"),
        "Attention": ("heads", "scale"),
        "Transpose": ("perm",),
        "DepthToSpace": ("block", "mode"),
        "SpaceToDepth": ("block",),
        "BatchNormalization": ("epsilon",),
        "Softmax": ("axis",),
        "ArgMax": ("axis", "keepdims", "select_last_index"),
        "LayerNormalization": ("axis", "epsilon"),
    }
)
LONGEST_AXIS = 2**22  # an engine counts to 2^23 bytes along an axis, two for each element in int16
# Ops whose inputs are all data; of every other op the first one is, and the rest have limits of their own.
ALL_DATA = ("Add", "Sub", "Mul", "Div", "Concat", "Sum", "Max", "Min", "Mean", "MatMul", "Attention")
MAKE_INDICES = ("ArgMax",)  # whole numbers, whatever their input is
ROW_WISE = frozenset({"Relu", "Gelu", "Silu", "HardSwish", "Clip", "LeakyRelu", "Sigmoid", "Tanh"})  # between two Gemms
SHAPE_ADVICE = "Fix the shape with --input-shape NAME:1,3,H,W or --dim NAME=N."


def _runtime(site: Site) -> tuple[str, ...]:
    """The names that live on the device. Concat drops its empty inputs, so they do not count."""
    inputs = tuple(name for name in data_inputs(site) if site.op in ALL_DATA or name == site.inputs[0])
    if site.op == "Concat":
        inputs = tuple(name for name in inputs if 0 not in site.shapes.get(name, ()))
    return tuple(dict.fromkeys(inputs + data_outputs(site)))


@limit(advice=SHAPE_ADVICE)
def static_shapes(site: Site, target: Target) -> str | None:
    """Every shape is known at compile time."""
    for name in _runtime(site):
        shape = site.shapes.get(name)
        if shape is None:
            return f"the shape of '{name}' is unknown"
        if any(n < 0 for n in shape):
            return f"'{name}' has the shape {shape}"
    return None


@limit(advice="Fold the branch away: it computes what is already known.")
def runtime_input(site: Site, target: Target) -> str | None:
    """At least one input is known only at run time."""
    return None if data_inputs(site) else "every input is a constant"


@limit(advice="Reshape around it, or compute this part after the network.")
def rank(site: Site, target: Target) -> str | None:
    """Tensors have 1 to 4 dimensions."""
    for name in _runtime(site):
        if not 1 <= len(site.shapes.get(name, (1,))) <= 4:
            return f"'{name}' has {plural(len(site.shapes[name]), 'dimension')}, {site.shapes[name]}"
    return None


@limit(advice="Compile with batch 1; a larger batch loops over it.")
def batch(site: Site, target: Target) -> str | None:
    """The first dimension, the batch, is 1."""
    rows = "fx32" in target.formats and _is_of_rows(site)
    for name in _runtime(site):
        shape = site.shapes.get(name, ())
        if len(shape) > 1 and shape[0] > 1 and not (rows and len(shape) == 2):
            return f"'{name}' has the shape {shape}"
    return None


def _is_of_rows(site: Site) -> bool:
    """Whether a node belongs to the Gemms of a feed-forward block: tokens [1, L, C] are rows [L, C] for it, and again
    tokens behind it. Rows lie in memory as the tokens do.
    """
    source, out = site.inputs[0], site.outputs[0]
    made = site.makers.get(source, "")
    if site.op == "Reshape":
        shapes = sorted((site.shapes.get(source, ()), site.shapes.get(out, ())), key=len)
        return len(shapes[0]) == 2 and shapes[1] == (1, *shapes[0])
    return (site.op == "Gemm" and (made == "Reshape" or made in ROW_WISE)) or (site.op in ROW_WISE and made == "Gemm")


@limit(advice="Remove the branch that carries no elements.")
def not_empty(site: Site, target: Target) -> str | None:
    """No tensor is empty."""
    for name in _runtime(site):
        if 0 in site.shapes.get(name, ()):
            return f"'{name}' has the shape {site.shapes[name]}"
    return None


@limit(advice="Reshape it, so that two axes share the elements.")
def axis_length(site: Site, target: Target) -> str | None:
    """Every axis has fewer than 2^22 elements."""
    for name in _runtime(site):
        if max(site.shapes.get(name, ()), default=0) >= LONGEST_AXIS:
            return f"'{name}' has the shape {site.shapes[name]}"
    return None


@limit(advice="Integer, boolean and string values stay on the host; export the network in float32.")
def float_values(site: Site, target: Target) -> str | None:
    """Values are float32 in the model (int8 or int16 on the device), but for the indices that an ArgMax makes."""
    for name in _runtime(site):
        if site.op in MAKE_INDICES and name in site.outputs:
            continue
        dtype = site.dtypes.get(name, "of unknown type")
        if dtype != "float32":
            return f"'{name}' is {dtype}"
    return None


@limit(advice="Make the parameters initializers, so that they are known at compile time.")
def known_parameters(site: Site, target: Target) -> str | None:
    """Axes, sizes, bounds and scales are known at compile time."""
    missing = [name for name in NEEDED.get(site.op, ()) if name not in site.attrs]
    return f"'{missing[0]}' is not" if missing else None
