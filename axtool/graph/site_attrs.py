"""Raw ONNX attributes of one node  ->  canonical attributes: the same for every opset (table in `canonical`).

An attribute that moved to an input between opsets is read from where the node has it; axes are non-negative, defaults
are filled in, `auto_pad` is resolved. What is only known at run time cannot be canonical: the attributes it decides
are left out, so a limit that needs them says no.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.graph.site_windows import Attrs, conv, conv_transpose, pool

FLT_MAX = float(np.finfo(np.float32).max)


class UnknownAttrError(Exception):
    """An attribute that depends on a value known only at run time, or on a shape that is not static."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one node. `shapes` holds static shapes only, `constants` the inputs with known values."""

    op: str
    opset: int
    raw: Mapping[str, Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shapes: Mapping[str, tuple[int, ...]]
    constants: Mapping[str, NDArray[Any]]

    def has(self, position: int) -> bool:
        """True if the node has that input (a trailing or empty one is absent)."""
        return position < len(self.inputs) and self.inputs[position] != ""

    def shape(self, position: int = 0) -> tuple[int, ...]:
        """The static shape of an input. Raises UnknownAttrError."""
        if not self.has(position) or self.inputs[position] not in self.shapes:
            raise UnknownAttrError(f"input {position} has no static shape")
        return self.shapes[self.inputs[position]]

    def value(self, attr: str, position: int) -> Any:
        """The attribute, or the constant input that replaced it, or None. Raises UnknownAttrError for a runtime one."""
        if attr in self.raw:
            return self.raw[attr]
        if not self.has(position):
            return None
        if self.inputs[position] not in self.constants:
            raise UnknownAttrError(f"{attr} is only known at run time")
        return self.constants[self.inputs[position]]

    def ints(self, attr: str, position: int) -> tuple[int, ...] | None:
        """`value` as a tuple of Python ints."""
        value = self.value(attr, position)
        if value is None:
            return None
        array = np.asarray(value).reshape(-1)
        if array.size and array.dtype.kind not in "iub":
            raise UnknownAttrError(f"{attr} is not made of integers")
        return tuple(int(v) for v in array)

    def floats(self, attr: str, position: int) -> tuple[float, ...] | None:
        """`value` as a tuple of Python floats."""
        value = self.value(attr, position)
        return None if value is None else tuple(float(v) for v in np.asarray(value).reshape(-1))

    def axis(self, default: int, rank: int | None = None) -> int:
        """The `axis` attribute, non-negative."""
        rank = len(self.shape()) if rank is None else rank
        axis = int(self.raw.get("axis", default))
        return axis + rank if axis < 0 else axis


def canonical(facts: Facts) -> dict[str, Any]:
    """Canonical attributes of the node; its raw ones where the op has no entry; {} where they depend on run time."""
    rule = RULES.get(facts.op)
    if rule is None:
        return _raw(facts)
    try:
        return rule(facts)
    except UnknownAttrError:
        return {}
    except (LookupError, ValueError):
        # Attributes that contradict the shapes or each other: loading refuses them unless told to be permissive.
        return {}


def _raw(facts: Facts) -> Attrs:
    attrs = dict(facts.raw)
    if isinstance(attrs.get("axis"), int) and attrs["axis"] < 0 and facts.inputs and facts.inputs[0] in facts.shapes:
        attrs["axis"] += len(facts.shapes[facts.inputs[0]])
    return attrs


def _defaults(**defaults: float | int | str) -> Callable[[Facts], Attrs]:
    """A rule that fills in defaults and converts to the default's type."""

    def rule(facts: Facts) -> Attrs:
        return {name: type(default)(facts.raw.get(name, default)) for name, default in defaults.items()}

    return rule


def _clip(facts: Facts) -> Attrs:
    low, high = facts.floats("min", 1), facts.floats("max", 2)
    lo, hi = (low or (-math.inf,))[0], (high or (math.inf,))[0]
    # Before opset 11 "no limit" was written as the largest float.
    return {"min": -math.inf if lo <= -FLT_MAX else lo, "max": math.inf if hi >= FLT_MAX else hi}


def _split(facts: Facts) -> Attrs:
    axis = facts.axis(0)
    extent, parts = facts.shape()[axis], len(facts.outputs)
    sizes = facts.ints("split", 1)
    if sizes is None:
        chunk = -(-extent // max(1, int(facts.raw.get("num_outputs", parts))))
        sizes = tuple(max(0, min(chunk, extent - part * chunk)) for part in range(parts))
    return {"axis": axis, "sizes": sizes}


def _slice(facts: Facts) -> Attrs:
    shape = facts.shape()
    given, axes, given_steps = facts.ints("starts", 1), facts.ints("axes", 3), facts.ints("steps", 4)
    facts.ints("ends", 2)  # a runtime end makes the extent a runtime one
    if given is None:
        raise UnknownAttrError("starts are missing")
    axes = axes or tuple(range(len(given)))
    starts, steps = [0] * len(shape), [1] * len(shape)
    for at, axis in enumerate(axes):
        extent, step = shape[axis], given_steps[at] if given_steps else 1
        start = given[at] + extent if given[at] < 0 else given[at]
        # A walk backwards begins on an element, a walk forwards may begin just past the last (and is empty).
        starts[axis] = max(0, min(start, extent - 1 if step < 0 else extent))
        steps[axis] = step
    return {"starts": tuple(starts), "steps": tuple(steps)}


def _pad(facts: Facts) -> Attrs:
    rank = len(facts.shape())
    pads, value, axes = facts.ints("pads", 1), facts.floats("value", 2), facts.ints("axes", 3)
    if pads is None:
        raise UnknownAttrError("pads are missing")
    before, after = [0] * rank, [0] * rank
    count = len(pads) // 2
    for at, axis in enumerate(axes if axes is not None else range(rank)):
        before[axis], after[axis] = pads[at], pads[count + at]
    mode = str(facts.raw.get("mode", "constant"))
    return {"before": tuple(before), "after": tuple(after), "mode": mode, "value": value[0] if value else 0.0}


def _reduce(facts: Facts) -> Attrs:
    rank = len(facts.shape())
    axes = facts.ints("axes", 1)
    if not axes:
        axes = () if facts.raw.get("noop_with_empty_axes", 0) else tuple(range(rank))
    return {"axes": _axes(axes, rank), "keepdims": int(facts.raw.get("keepdims", 1))}


def _squeeze(facts: Facts) -> Attrs:
    shape, axes = facts.shape(), facts.ints("axes", 1)
    return {"axes": tuple(i for i, d in enumerate(shape) if d == 1) if axes is None else _axes(axes, len(shape))}


def _unsqueeze(facts: Facts) -> Attrs:
    axes = facts.ints("axes", 1) or ()
    return {"axes": _axes(axes, len(facts.shape()) + len(axes))}


def _axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    return tuple(sorted(axis + rank if axis < 0 else axis for axis in axes))


def _softmax(facts: Facts) -> Attrs:
    old = facts.opset < 13  # normalises over all axes from `axis` on
    return {"axis": facts.axis(1 if old else -1), "flatten": old}


def _arg(facts: Facts) -> Attrs:
    last = int(facts.raw.get("select_last_index", 0))
    return {"axis": facts.axis(0), "keepdims": int(facts.raw.get("keepdims", 1)), "select_last_index": last}


def _top_k(facts: Facts) -> Attrs:
    k = facts.ints("k", 1)
    attrs = {"axis": facts.axis(-1), "largest": int(facts.raw.get("largest", 1)), "k": k[0] if k else 1}
    return attrs | {"sorted": int(facts.raw.get("sorted", 1))}


def _resize(facts: Facts) -> Attrs:
    """Upsample 7/9, Resize 10 (asymmetric, "simple" rounding) and Resize 11+."""
    shape, rank = facts.shape(), len(facts.shape())
    old = facts.op == "Upsample" or facts.opset < 11
    scales = facts.floats("scales", 1 if old else 2)
    sizes = None if old else facts.ints("", 3)
    axes = tuple(int(a) % rank for a in facts.raw.get("axes", range(rank))) if rank else ()
    if scales:
        by_axis = dict(zip(axes, scales, strict=False))
    elif sizes:
        by_axis = _scales_of_sizes(facts, shape, axes, sizes)
    else:
        raise UnknownAttrError("neither scales nor sizes")
    scale = tuple(by_axis.get(axis, 1.0) for axis in range(rank))
    mode = str(facts.raw.get("mode", "nearest"))
    if old:
        rounding = "floor" if min(scale, default=1) >= 1 else "ceil" if max(scale) <= 1 else "simple"
        coordinate = "asymmetric"
    else:
        rounding = str(facts.raw.get("nearest_mode", "round_prefer_floor"))
        coordinate = str(facts.raw.get("coordinate_transformation_mode", "half_pixel"))
    attrs: Attrs = {"mode": mode, "coordinate": coordinate, "nearest": rounding, "scales": scale}
    attrs["antialias"] = int(facts.raw.get("antialias", 0))
    attrs["exclude_outside"] = int(facts.raw.get("exclude_outside", 0))
    if mode == "cubic":
        attrs["cubic_coeff_a"] = float(facts.raw.get("cubic_coeff_a", -0.75))
    if coordinate == "tf_crop_and_resize":
        attrs["roi"] = facts.floats("roi", 1) or ()
        attrs["extrapolation_value"] = float(facts.raw.get("extrapolation_value", 0.0))
    return attrs


def _scales_of_sizes(
    facts: Facts, shape: tuple[int, ...], axes: tuple[int, ...], sizes: tuple[int, ...]
) -> dict[int, float]:
    """Scale of each axis in float32, as onnxruntime has it."""
    pairs = list(zip(axes, sizes, strict=False))
    ratios = {axis: float(np.float32(size) / np.float32(shape[axis])) for axis, size in pairs if shape[axis]}
    policy = str(facts.raw.get("keep_aspect_ratio_policy", "stretch"))
    if policy != "stretch" and ratios:
        one = min(ratios.values()) if policy == "not_larger" else max(ratios.values())
        return dict.fromkeys(ratios, one)
    return ratios


def _dropout(facts: Facts) -> Attrs:
    try:
        training = facts.value("training_mode", 2)
    except UnknownAttrError:
        return {"training": True}
    return {"training": bool(np.asarray(False if training is None else training).any())}


RULES: Mapping[str, Callable[[Facts], Attrs]] = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "MaxPool": pool,
    "AveragePool": pool,
    "LpPool": pool,
    "GlobalAveragePool": _defaults(),
    "GlobalMaxPool": _defaults(),
    "Gemm": _defaults(alpha=1.0, beta=1.0, transA=0, transB=0),
    "MatMul": _defaults(),
    "Clip": _clip,
    "LeakyRelu": _defaults(alpha=0.01),
    "Elu": _defaults(alpha=1.0),
    "Selu": _defaults(alpha=1.67326319217681884765625, gamma=1.05070102214813232421875),
    "Celu": _defaults(alpha=1.0),
    "HardSigmoid": _defaults(alpha=0.2, beta=0.5),
    "ThresholdedRelu": _defaults(alpha=1.0),
    "Shrink": _defaults(lambd=0.5, bias=0.0),
    "Swish": _defaults(alpha=1.0),
    "Gelu": _defaults(approximate="none"),
    "Concat": lambda facts: {"axis": facts.axis(1)},
    "Split": _split,
    "Slice": _slice,
    "Pad": _pad,
    "Resize": _resize,
    "Upsample": _resize,
    "Transpose": lambda facts: {
        "perm": tuple(int(p) for p in facts.raw.get("perm", reversed(range(len(facts.shape())))))
    },
    "Reshape": _defaults(allowzero=0),
    "Flatten": lambda facts: {"axis": facts.axis(1)},
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Identity": _defaults(),
    "Dropout": _dropout,
    "DepthToSpace": lambda facts: {
        "block": int(facts.raw["blocksize"]), "mode": str(facts.raw.get("mode", "DCR"))
    },
    "SpaceToDepth": lambda facts: {"block": int(facts.raw["blocksize"])},
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "Hardmax": _softmax,
    "ArgMax": _arg,
    "ArgMin": _arg,
    "TopK": _top_k,
    "BatchNormalization": _defaults(epsilon=1e-5, training_mode=0),
    "InstanceNormalization": _defaults(epsilon=1e-5),
    "LayerNormalization": lambda facts: {"axis": facts.axis(-1), "epsilon": float(facts.raw.get("epsilon", 1e-5))},
    "Attention": lambda facts: {"heads": int(facts.raw["heads"]), "scale": float(facts.raw["scale"])},
    "Gather": lambda facts: {"axis": facts.axis(0)},
    "GatherElements": lambda facts: {"axis": facts.axis(0)},
    "QuantizeLinear": lambda facts: dict(facts.raw) | {"axis": facts.axis(1)},
    "DequantizeLinear": lambda facts: dict(facts.raw) | {"axis": facts.axis(1)},
    **{
        "Reduce" + kind: _reduce
        for kind in ("Mean", "Sum", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
    },
}  # fmt: skip
