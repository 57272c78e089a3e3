"""Sites of a device stage and ranges  ->  Quantization: a format for each tensor, int8 weights for each MAC site."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import numpy as np

from axtool.errors import UsageError, nearest
from axtool.ops.arithmetic import LIMITS
from axtool.ops.limits_attention import HIDING
from axtool.ops.precise import NOTHING, PRECISE, computes_in
from axtool.quant.bias import correct_bias, follow_drift
from axtool.quant.gram import Gram
from axtool.quant.mixed import precise_formats, read_formats
from axtool.quant.rounding import round_weights
from axtool.quant.ties import Ties, given_names, natural_ranges, tie
from axtool.quant.weights import check_constants, quantize_weights, weight_name
from axtool.quant.wide import narrow_roots, wide_roots
from axtool.target import Target
from axtool.types import Precision, QFormat, Quantization, Site, Weights

LOW, HIGH = -128, 127
DEAD_SCALE = 2.0**-8  # of a tensor that was always zero: values up to 1 still have a place, biases stay fine
MIN_SCALE = 2.0**-60  # scale, 1 / scale and scale * scale stay normal float32 numbers
# A range is cut where int8 gains by it (mse, percentile), and calibration has not seen everything. int16 has the bits
# to hold what lies beyond: on EfficientNet-Lite0 0.8 dB of 27, and the one bit that it takes is not seen.
ROOM = 2.0
FINEST_SUM = 2.0**-14  # an addend in steps of the sum stays within its 31 bits

Range = tuple[float, float]
Chosen = bool | Collection[str]  # all, none, or those of these names


@dataclass(frozen=True, slots=True)
class Decision:
    """Why a tensor has its format. `range` is the range before it was rounded to the format, in real units."""

    tensor: str
    range: Range
    format: QFormat
    why: str
    read_as: QFormat | None = None  # by int8 sites, where the format is none of theirs


def quantize_stage(
    sites: Sequence[Site],
    ranges: Mapping[str, Range],
    target: Target,
    inputs: Sequence[str],
    outputs: Sequence[str],
    given: Mapping[str, QFormat] | None = None,
    means: Mapping[str, Sequence[float]] | None = None,
    grams: Mapping[str, Gram] | None = None,
    *,
    symmetric: Chosen = False,
    after_relu: Collection[str] = (),
    per_tensor: Chosen = False,
    wide: Collection[str] = (),
    drift: Mapping[str, Sequence[float]] | None = None,
    precision: Mapping[str, Precision] = NOTHING,
    read_ranges: Mapping[str, Range] = MappingProxyType({}),
) -> Quantization:
    """Formats, ranges and weights of one device stage. Biases are corrected where `means` has the site's input, and
    follow its `drift`; weights are rounded for the data where `grams` has its output. `symmetric` activations have zero
    point 0, those of `after_relu` too unless their range begins there; `per_tensor` weights have one scale a site (by
    first output). Tensors share what is said of those with which they share a format.

    `precision` says which sites compute in fx32 or fp16, by first output, and which inputs are stored so; `read_ranges`
    are of such tensors where int8 sites read them, by the tensor whose range decides the format: by default its range.

    `given` are formats that the model brings (QDQ), by tensor or weight name; see `taken_over`. `wide` are
    tensors that get int16, with all that share their format. `weights` are by the name of the site's first output: in
    the ONNX layout, with the alpha and beta of a Gemm in them.
    Raises UsageError listing tensors without a range, or that cannot be int16; NumericsError for NaN or Inf in weights.
    """
    given = taken_over(given or {}, sites, inputs, outputs, target)
    precision = {name: wanted for name, wanted in precision.items() if name not in given}
    check_constants(sites)
    form = Form(symmetric, after_relu)
    decisions = resolve(
        sites,
        ranges,
        target,
        inputs,
        outputs,
        given,
        form=form,
        wide=wide,
        precision=precision,
        read_ranges=read_ranges,
    )
    formats = {decision.tensor: decision.format for decision in decisions}
    read_as = {decision.tensor: decision.read_as for decision in decisions if decision.read_as is not None}
    stored = {name for name, fmt in formats.items() if fmt.kind in PRECISE}
    computed = {site.outputs[0]: computes_in(site, precision, stored.intersection(site.inputs)) for site in sites}
    weights: dict[str, Weights] = {}
    notes: list[str] = []
    raised: list[str] = []
    corrected = followed = rounded = 0
    for site in sites:
        if (name := weight_name(site)) is None or computed[site.outputs[0]] in PRECISE:
            continue
        source = read_as.get(site.inputs[0]) or formats.get(site.inputs[0])
        out = formats.get(site.outputs[0])
        if source is not None and out is not None:
            one = per_tensor if isinstance(per_tensor, bool) else site.outputs[0] in per_tensor
            made, told = quantize_weights(site, source, out, given.get(name), per_tensor=one)
            if name not in given and site.outputs[0] in (grams or {}):
                made = round_weights(site, made, (grams or {})[site.outputs[0]])
                rounded += 1
            if name not in given and site.inputs[0] in (means or {}):
                made = correct_bias(site, made, source, (means or {})[site.inputs[0]])
                corrected += 1
            if name not in given and site.inputs[0] in (drift or {}):
                made = follow_drift(site, made, source, (drift or {})[site.inputs[0]])
                followed += 1
            weights[site.outputs[0]] = made
            raised += told
    if rounded:
        notes.append(f"weights rounded for the data in {rounded} of {len(weights)} layers with weights")
    if corrected:
        notes.append(f"bias corrected in {corrected} of {len(weights)} layers with weights")
    if followed:
        notes.append(f"bias follows the drift of the device in {followed} of {len(weights)} layers with weights")
    kept = {decision.tensor: decision.range for decision in decisions}
    kept |= {name: (float(lo), float(hi)) for name, (lo, hi) in ranges.items() if name in kept}
    reasons = {decision.tensor: decision.why for decision in decisions}
    rounded_by_model = frozenset(formats.keys() & given.keys())
    precise = {name: said for name, said in computed.items() if said in PRECISE and said == precision.get(name)}
    return Quantization(
        formats, kept, weights, tuple(notes), reasons, rounded_by_model, tuple(raised), precise, read_as
    )


@dataclass(frozen=True, slots=True)
class Form:
    """Which int8 activations have zero point 0: `symmetric` ones, and of `after_relu` those whose range has two sides.

    Tensors by name: all that share their format are meant.
    """

    symmetric: Chosen = False
    after_relu: Collection[str] = ()

    def __call__(self, name: str, span: Range, ties: Ties, min_scale: float = 0.0) -> QFormat:
        """The format of a root."""
        symmetric = self.symmetric if isinstance(self.symmetric, bool) else _means(self.symmetric, name, ties)
        if _means(self.after_relu, name, ties):
            symmetric = span[0] < 0
        return int8_format(*span, min_scale=min_scale, symmetric=symmetric)


def _means(names: Collection[str], root: str, ties: Ties) -> bool:
    return bool(names) and any(ties.root.get(name) == root for name in names)


def resolve(
    sites: Sequence[Site],
    ranges: Mapping[str, Range],
    target: Target,
    inputs: Sequence[str],
    outputs: Sequence[str],
    given: Mapping[str, QFormat] | None = None,
    *,
    form: Form = Form(),
    wide: Collection[str] = (),
    precision: Mapping[str, Precision] = NOTHING,
    read_ranges: Mapping[str, Range] = MappingProxyType({}),
) -> tuple[Decision, ...]:
    """The format of every float tensor of the stage, with its range and the reason, in graph order."""
    given = taken_over(given or {}, sites, inputs, outputs, target)
    ties = tie(sites, inputs, outputs, given, precision)
    widened = wide_roots(sites, ties, wide, target, given)
    roots = list(dict.fromkeys(ties.root.values()))
    formats = {root: fmt for root in roots if (fmt := _given_of(root, ties, given)) is not None}
    together = {root: _together(given[name] for name in names) for root, names in ties.moved_to.items()}
    known = {**natural_ranges(sites), **ranges, **together}
    _check_ranges([root for root in roots if root not in formats], known, ranges)
    spans = {root: widen(known[root]) if root in known else span_of(formats[root]) for root in roots}
    for site in sites:
        _shape_range(site, ties, spans)
    free = [root for root in roots if root not in formats and root not in ties.precise]
    for root in free:
        formats[root] = int16_format(*spans[root]) if root in widened else form(root, spans[root], ties)
    for site in sites:
        _coarsen_sum(site, ties, spans, formats, [root for root in free if root not in widened], form)
    read_as: Mapping[str, QFormat] = {}
    early: frozenset[str] = frozenset()
    if ties.precise:
        formats = precise_formats(sites, ties, spans, formats, precision, inputs, outputs)
        seen = {**spans, **{name: widen(span) for name, span in read_ranges.items()}}
        in_int8 = cache(lambda root: form(root, seen[root], ties))
        read_as, early = read_formats(sites, ties, formats, precision, outputs, in_int8)
    decisions = []
    for name, root in ties.root.items():
        fmt = in_int8(root) if name in early else given.get(name, formats[root])
        why = "given by the model" if name in given else ties.why[name]
        if name not in given and (root in given or root in ties.moved_to):
            why += f", given by the model for '{', '.join(ties.moved_to.get(root, (root,)))}'"
        span = spans[root] if name not in given else span_of(fmt)
        decisions.append(Decision(name, span, fmt, why, read_as.get(name)))
    return tuple(decisions)


def int8_format(low: float, high: float, min_scale: float = 0.0, *, symmetric: bool = False) -> QFormat:
    """Asymmetric int8 that holds [low, high] and represents 0 exactly; 255 steps, a float32 scale.

    A range that begins at 0 gets zero point -128, one that ends there 127; a symmetric format has 0.
    """
    low, high = widen((low, high))
    if symmetric:
        reach = max(max(-low, high) / HIGH, MIN_SCALE if high > low else DEAD_SCALE, min_scale)
        return QFormat("int8", (float(np.float32(reach)),), (0,))
    scale = max((high - low) / (HIGH - LOW), MIN_SCALE if high > low else DEAD_SCALE, min_scale)
    step = float(np.float32(scale))
    zero = round(LOW - low / step) if low < 0 else LOW
    return QFormat("int8", (step,), (min(max(zero, LOW), HIGH),))


def int16_format(low: float, high: float, room: float = ROOM) -> QFormat:
    """Symmetric int16 that holds [low, high] and as much again on either side; a float32 scale, zero point 0."""
    reach = room * max(map(abs, widen((low, high))))
    return QFormat("int16", (float(np.float32(max(reach / LIMITS["int16"][1], MIN_SCALE if reach else DEAD_SCALE))),))


def span_of(fmt: QFormat) -> Range:
    """The real range that an integer format can hold."""
    lo, hi = LIMITS[fmt.kind]
    steps = [((lo - z) * s, (hi - z) * s) for s, z in zip(fmt.scale, fmt.zero_point, strict=False)]
    return min(low for low, _ in steps), max(high for _, high in steps)


def widen(span: Range) -> Range:
    """The range with 0 in it."""
    return min(float(span[0]), 0.0), max(float(span[1]), 0.0)


def taken_over(
    given: Mapping[str, QFormat], sites: Sequence[Site], inputs: Sequence[str], outputs: Sequence[str], target: Target
) -> dict[str, QFormat]:
    """The formats that a model brings as the device has them: int8 and symmetric int16 as they are.

    int16 with a zero point becomes symmetric over the same values, and int8 where an op has no form in int16.
    """
    names = given_names(given, sites)
    faults: Mapping[str, str] = {}
    if any(given[name].kind == "int16" for name in names):
        faults = narrow_roots(sites, inputs, outputs, target, names)
    kept = {}
    for name in names:
        fmt = given[name]
        if fmt.kind == "int16" and name in faults:
            fmt = int8_format(*span_of(fmt))
        elif fmt.kind == "int16" and fmt.zero_point != (0,):
            fmt = int16_format(*span_of(fmt), room=1.0)
        kept[name] = fmt
    return kept


def _given_of(root: str, ties: Ties, given: Mapping[str, QFormat]) -> QFormat | None:
    """The root's own format, or the one that all its values are moved on in: moves and rounding commute."""
    formats = {given[name] for name in ties.moved_to.get(root, ())}
    return given.get(root) or (formats.pop() if len(formats) == 1 else None)


def _together(formats: Iterable[QFormat]) -> Range:
    """The range that holds those of several formats."""
    lows, highs = zip(*map(span_of, formats), strict=True)
    return min(lows), max(highs)


def _check_ranges(roots: Sequence[str], known: Mapping[str, Range], ranges: Mapping[str, Range]) -> None:
    """Raises UsageError listing what has no range, or one that is not finite or not in order."""
    bad = [f"'{root}' has no range" for root in roots if root not in known]
    hint = nearest(next((root for root in roots if root not in known), ""), sorted(ranges)) if bad else ""
    for root in roots:
        low, high = known.get(root, (0.0, 0.0))
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            bad.append(f"'{root}' has the range [{low}, {high}]")
    if bad:
        shown = "; ".join(bad[:5]) + (f" and {len(bad) - 5} more" if len(bad) > 5 else "")
        raise UsageError(f"ranges do not fit the model: {shown}", hint=hint, code="missing-range", details=bad)


def _shape_range(site: Site, ties: Ties, spans: dict[str, Range]) -> None:
    """What the op itself says about the range: a clamp bounds its output, a padding value needs a place, and so does
    what hides a key in a mask that arrives at run time, whether or not a sample hid one.
    """
    if site.op == "Attention" and (mask := ties.root.get(site.inputs[3] if len(site.inputs) > 3 else "")):
        low, high = spans[mask]
        if low < HIDING or (low, high) == (0.0, 0.0):
            spans[mask] = (HIDING, high)
    root = ties.root.get(site.outputs[0])
    if root is None:
        return
    low, high = spans[root]
    if site.op == "Relu" and root == site.outputs[0]:
        spans[root] = widen((max(low, 0.0), high))
    elif site.op == "Clip" and root == site.outputs[0]:
        floor, ceiling = float(site.attrs["min"]), float(site.attrs["max"])
        spans[root] = widen((min(max(low, floor), ceiling), max(min(high, ceiling), floor)))
    elif site.op == "Pad" and site.attrs.get("mode") == "constant" and math.isfinite(site.attrs["value"]):
        value = float(site.attrs["value"])
        spans[root] = (min(low, value), max(high, value))


def _coarsen_sum(
    site: Site,
    ties: Ties,
    spans: dict[str, Range],
    formats: dict[str, QFormat],
    free: Sequence[str],
    form: Form,
) -> None:
    """A sum far finer than its addends would only resolve their rounding, and their multipliers overflow."""
    root = ties.root.get(site.outputs[0])
    if root is None or root not in free or site.op not in ("Add", "Sub", "Concat"):
        return
    addends = (formats.get(ties.root[name]) for name in site.inputs if name in ties.root)
    coarsest = max((fmt.scale[0] for fmt in addends if fmt is not None), default=0.0)
    if formats[root].scale[0] < coarsest * FINEST_SUM:
        formats[root] = form(root, spans[root], ties, min_scale=coarsest * FINEST_SUM)
