"""Ranges of what is computed in fx32 or fp16  ->  the formats of those tensors, and in which int8 others read them.

The fraction bits of an fx32 tensor follow from its range and from the op that makes it; `axtool.ops.fixed_point` has
the rules for a single tensor. A value that only fp16 layers read stays fp16.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from axtool.errors import UsageError
from axtool.ops import fixed_point as fx
from axtool.ops.precise import PRECISE, computes_in, is_bias, moves_whole
from axtool.quant.ties import CLAMPS, Ties
from axtool.types import Precision, QFormat, Site

Range = tuple[float, float]
MOST_FP16 = 32768.0  # a value seen larger than this could leave fp16, which ends at 65504


def precise_formats(
    sites: Sequence[Site],
    ties: Ties,
    spans: Mapping[str, Range],
    whole: Mapping[str, QFormat],
    precision: Mapping[str, Precision],
    inputs: Sequence[str],
    outputs: Collection[str],
) -> dict[str, QFormat]:
    """The formats of the tensors that fx32 and fp16 sites make, by root; `whole` are the others, of int8 and int16.

    Raises UsageError for a range that fx32 cannot hold.
    """
    formats = dict(whole)
    alone = _only_for_fp16(sites, ties, precision, outputs)
    for name in inputs:
        if (wanted := precision.get(name, "int8")) in PRECISE:
            bits = _fit(name, spans[name], fx.fit)
            formats[name] = QFormat("fp16") if wanted == "fp16" else QFormat("fx32", fraction_bits=bits)
    readers: dict[str, list[Site]] = {}
    for site in sites:
        for name in site.inputs:
            readers.setdefault(name, []).append(site)
    for site in sites:
        stored = {name for name, root in ties.root.items() if root in formats and formats[root].kind in PRECISE}
        computed = computes_in(site, precision, stored.intersection(site.inputs))
        for at, name in enumerate(site.outputs):
            if computed not in PRECISE or ties.root.get(name) != name or name in formats:
                continue
            span = spans[name]
            if computed == "fp16" and at == 0:
                formats[name] = _fp16_made(site, span, name in alone, readers.get(name, ()), precision)
                continue
            read = [ties.root[x] for x in site.inputs if x in ties.root and x not in site.constants]
            if moves_whole(site) and all(formats[root].kind == "fp16" for root in read):
                formats[name] = QFormat("fp16")
                continue
            seen = [bits_read(formats[root], spans[root]) for root in read] if computed == "fx32" else []
            formats[name] = QFormat("fx32", fraction_bits=_fit(name, span, _rule(site, seen)))
    return formats


def read_formats(
    sites: Sequence[Site],
    ties: Ties,
    formats: Mapping[str, QFormat],
    precision: Mapping[str, Precision],
    outputs: Collection[str],
    int8: Callable[[str], QFormat],
) -> tuple[dict[str, QFormat], frozenset[str]]:
    """`Quantization.read_as`: by tensor that an int8 site reads and that is stored otherwise; and what only moves on to
    such sites, which is moved in int8: the same bits, of a quarter of the bytes. `int8` is by root.
    """
    stored = {name for name, root in ties.root.items() if formats[root].kind in PRECISE}
    readers: dict[str, list[Site]] = {}
    for site in sites:
        for name in site.inputs:
            readers.setdefault(name, []).append(site)
    early: set[str] = set()

    def in_int8(site: Site) -> bool:
        if not moves_whole(site) or not stored.intersection(site.inputs):
            return computes_in(site, precision) not in PRECISE
        return not early.isdisjoint(site.outputs)

    for site in reversed(sites):
        made = [name for name in site.outputs if name in readers]
        moved = moves_whole(site) and all(ties.root.get(name) == ties.root.get(site.inputs[0]) for name in made)
        free = stored.issuperset(made) and not any(name in outputs for name in site.outputs)
        if made and moved and free and all(in_int8(reader) for name in made for reader in readers[name]):
            early.update(made)
    found: dict[str, QFormat] = {}
    for site in sites:
        if in_int8(site):
            found |= {name: int8(ties.root[name]) for name in site.inputs if name in stored - early}
    return found, frozenset(early)


def bits_read(fmt: QFormat, span: Range) -> int:
    """The fraction bits in which an fx32 site sees a tensor that has this format."""
    if fmt.kind == "fx32" and fmt.fraction_bits is not None:
        return fmt.fraction_bits
    if fmt.kind == "fp16":
        return fx.fit(*span)
    return fx.fx_dequantize(fmt.scale[0], fmt.zero_point[0], fmt.kind).fraction_bits


def _rule(site: Site, bits: Sequence[int]) -> Callable[[float, float], int]:
    """The rule for the fraction bits of what an fx32 site makes of inputs of so many."""
    if site.op in CLAMPS or moves_whole(site):
        return lambda lo, hi: min(bits)  # a Concat has the coarsest of its parts
    if site.op in ("Add", "Sub", "Sum") and bits:
        return lambda lo, hi: fx.residual_add_bits(lo, hi, *bits)
    if site.op == "Sigmoid":
        return lambda lo, hi: fx.SIGMOID_BITS
    return fx.fit


def _fp16_made(
    site: Site, span: Range, alone: bool, readers: Sequence[Site], precision: Mapping[str, Precision]
) -> QFormat:
    """What an fp16 site writes: fp16 for readers that are all fp16, else fx32. A plain MatMul, of two activations or
    with a bias of its own in fx32, leaves 16 integer bits; a layer keeps two bits of headroom.
    """
    if alone and max(map(abs, span)) < MOST_FP16:
        return QFormat("fp16")
    pair = site.op == "MatMul" and not any(name in site.constants for name in site.inputs)
    bias = readers[0] if site.op == "MatMul" and len(readers) == 1 and is_bias(readers[0]) else None
    if pair or (bias is not None and computes_in(bias, precision) == "fx32"):
        return QFormat("fx32", fraction_bits=fx.FP16_MATMUL_BITS)
    return QFormat("fx32", fraction_bits=_fit(site.outputs[0], span, fx.fp16_op_bits))


def _only_for_fp16(
    sites: Sequence[Site], ties: Ties, precision: Mapping[str, Precision], outputs: Collection[str]
) -> set[str]:
    """The roots of which nobody but fp16 sites, and moves on the way to them, reads any tensor."""
    read: set[str] = set()
    other = {ties.root[name] for name in outputs if name in ties.root}
    for site in sites:
        fp16 = computes_in(site, precision) == "fp16"
        for name in site.inputs:
            root = ties.root.get(name)
            if root is None:
                continue
            passed = moves_whole(site) and all(ties.root.get(out) == root for out in site.outputs if out)
            (read if fp16 else set() if passed else other).add(root)
    return read - other


def _fit(name: str, span: Range, rule: Callable[[float, float], int]) -> int:
    try:
        return rule(*span)
    except ValueError as error:
        raise UsageError(f"'{name}' cannot be fx32: {error}", hint="leave it in int8", code="not-fx32") from None
