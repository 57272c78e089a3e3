"""Sites of a device stage and their numbers  ->  a Program: ops of `axtool.ops.encoding`, every scale an integer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from axtool.ops import custom
from axtool.ops.precise import PRECISE, moves_whole
from axtool.ops.unary import UNARY
from axtool.plan.cheaper_order import in_cheaper_order
from axtool.plan.layout import LAST, infer_layouts
from axtool.plan.lower_activation import lower_prelu, lower_unary
from axtool.plan.lower_attention import lower_attention, lower_product
from axtool.plan.lower_builder import Builder
from axtool.plan.lower_custom import lower_custom
from axtool.plan.lower_elementwise import lower_batch_norm, lower_binary
from axtool.plan.lower_fp16_products import lower_fp16_attention, lower_fp16_product
from axtool.plan.lower_mac import lower_conv, lower_conv_transpose, lower_matmul
from axtool.plan.lower_mixed import FP16, FX32
from axtool.plan.lower_movement import (
    lower_concat,
    lower_depth_to_space,
    lower_identity,
    lower_pad,
    lower_reshape,
    lower_slice,
    lower_space_to_depth,
    lower_split,
    lower_transpose,
)
from axtool.plan.lower_pool import (
    lower_average_pool,
    lower_global_max_pool,
    lower_max_pool,
    lower_mean,
    lower_reduction,
    lower_resize,
)
from axtool.plan.lower_rows import lower_arg_max, lower_layer_norm, lower_softmax
from axtool.target import Target
from axtool.types import Precision, Program, QFormat, Quantization, Site

IDENTITIES = ("Identity", "Dropout", "Sum", "Max", "Min", "Mean", "Concat")  # with one input that has elements
Lowering = Callable[[Builder, Site], None]
LOWERINGS: Mapping[str, Lowering] = MappingProxyType(
    dict.fromkeys(UNARY, lower_unary)
    | dict.fromkeys(("Add", "Sub", "Mul", "Div", "Sum"), lower_binary)
    | dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), lower_reshape)
    | dict.fromkeys(("Resize", "Upsample"), lower_resize)
    | dict.fromkeys(("GlobalAveragePool", "ReduceMean"), lower_mean)
    | dict.fromkeys(("ReduceSum", "ReduceMax"), lower_reduction)
    | {
        "Gemm": lower_matmul,
        "MatMul": lower_product,
        "Attention": lower_attention,
        "Conv": lower_conv,
        "ConvTranspose": lower_conv_transpose,
        "BatchNormalization": lower_batch_norm,
        "PRelu": lower_prelu,
        "MaxPool": lower_max_pool,
        "GlobalMaxPool": lower_global_max_pool,
        "AveragePool": lower_average_pool,
        "Concat": lower_concat,
        "Split": lower_split,
        "Slice": lower_slice,
        "Pad": lower_pad,
        "Transpose": lower_transpose,
        "DepthToSpace": lower_depth_to_space,
        "SpaceToDepth": lower_space_to_depth,
        "Softmax": lower_softmax,
        "ArgMax": lower_arg_max,
        "LayerNormalization": lower_layer_norm,
    }
)
# Of sites that compute in fx32 and fp16; what only moves numbers is above.
PRECISE_LOWERINGS: Mapping[str, Mapping[str, Lowering]] = MappingProxyType(
    {"fx32": FX32, "fp16": {**FP16, "Attention": lower_fp16_attention, "MatMul": lower_fp16_product}}
)


def lower(
    sites: Sequence[Site],
    quantization: Quantization,
    target: Target,
    inputs: Sequence[str],
    outputs: Sequence[str],
    without: Collection[str] = (),
) -> Program:
    """The program of one device stage. `without` names optimisations that are switched off.

    Every site must be one that `axtool.ops.limits.why_not` accepts, in an order that runs. Formats are needed for the
    inputs and for whatever survives: not for a value that a clamp, a fused activation or a flatten swallows. A format
    that differs where an op cannot change it costs a requantize layer. Raises ValueError for a format or for weights
    that are missing.
    """
    return in_cheaper_order(lowered(sites, quantization, target, inputs, outputs, without).program())


def lowered(
    sites: Sequence[Site],
    quantization: Quantization,
    target: Target,
    inputs: Sequence[str],
    outputs: Sequence[str],
    without: Collection[str] = (),
) -> Builder:
    """What `lower` makes a program of: it also knows which ONNX tensors are held, and what became of each site."""
    shapes = {name: shape for site in sites for name, shape in site.shapes.items()}
    sites = without_identities(sites, quantization.formats, outputs)
    inputs = [name for name in inputs if 0 not in shapes[name]]  # a Concat drops what has no elements
    b = Builder(
        target=target,
        quantization=quantization,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        layouts=infer_layouts(sites, inputs),
        readers=readers_of(sites),
        reserved=frozenset(name for site in sites for name in site.inputs + site.outputs),
        without=frozenset(without),
    )
    for name in b.inputs:
        layout = b.layouts.get(name, LAST)  # an input that only a dropped identity read
        b.tensors[name] = b.describe(name, shapes[name], layout)
        b.hold(name, name, shapes[name], layout)
    for site in sites:
        if site.index not in b.fused:
            b.current = (site,)
            (lower_identity if _is_identity(site) else _lowering_of(site, b.precision(site)))(b, site)
    return b


def _lowering_of(site: Site, precision: Precision) -> Lowering:
    if site.domain == custom.DOMAIN:
        return lower_custom
    if precision not in PRECISE or moves_whole(site):
        return LOWERINGS[site.op]
    lowering = PRECISE_LOWERINGS[precision].get(site.op)
    if lowering is None:
        raise ValueError(f"{site} has no form in {precision}")
    return lowering


def without_identities(
    sites: Sequence[Site], formats: Mapping[str, QFormat], outputs: Sequence[str]
) -> tuple[Site, ...]:
    """The sites without identities: their readers read their input. One that changes a format or is an output stays."""
    source: dict[str, str] = {}
    kept: list[Site] = []
    for site in sites:
        names = {name: source[name] for name in site.inputs if name in source}
        if names:
            shapes = dict(site.shapes) | {new: site.shapes[old] for old, new in names.items()}
            site = replace(site, inputs=tuple(names.get(name, name) for name in site.inputs), shapes=shapes)
        out = site.outputs[0]
        if _is_identity(site) and out not in outputs:
            x = _full_inputs(site)[0]
            if formats.get(out) in (None, formats.get(x)):
                source[out] = x
                continue
        kept.append(site)
    return tuple(kept)


def readers_of(sites: Sequence[Site]) -> dict[str, tuple[Site, ...]]:
    """The sites that read each tensor, one for each time they read it."""
    readers: dict[str, tuple[Site, ...]] = {}
    for site in sites:
        for name in site.inputs:
            if name and name not in site.constants:
                readers[name] = (*readers.get(name, ()), site)
    return readers


def _is_identity(site: Site) -> bool:
    return site.op in IDENTITIES and (site.op in ("Identity", "Dropout") or len(_full_inputs(site)) == 1)


def _full_inputs(site: Site) -> tuple[str, ...]:
    return tuple(name for name in site.inputs if name and 0 not in site.shapes.get(name, ()))
