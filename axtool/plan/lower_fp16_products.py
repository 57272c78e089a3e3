"""Attention, and MatMul of two activations, in fp16  ->  fp16_attention and fp16_matmul layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from axtool.ops.limits_mac import is_pair
from axtool.ops.reference_fp16_products import bits_of
from axtool.ops.storing import LARGEST_FP16
from axtool.plan.layout import LAST, axes_of
from axtool.plan.lower_attention import exponential_is_table
from axtool.plan.lower_builder import Builder, spatial
from axtool.plan.lower_mixed import lower_linear
from axtool.types import BYTES, QFormat, Site

FP16 = QFormat("fp16")


def lower_fp16_attention(b: Builder, site: Site) -> None:
    """One layer: scores have the fraction bits of the second output, the result those of the first or is fp16."""
    reads = [_operand(b, site, name) for name in site.inputs[:3]]
    attrs: dict[str, Any] = {"heads": int(site.attrs["heads"]), "keys": b.tensors[reads[1]].numbers[1], "mask": 0}
    if len(site.inputs) > 3 and site.inputs[3]:
        reads.append(_operand(b, site, site.inputs[3], rank=4))
        attrs["mask"] = 1 if b.tensors[reads[3]].numbers[1] == 1 else 2
    looked_up = exponential_is_table(b, rows=b.tensors[reads[0]].numbers[1])
    attrs |= {"scale": bits_of(float(site.attrs["scale"])), "f_s": _bits(b, site.outputs[1]), "form": int(looked_up)}
    b.make("fp16_attention", reads, site, {**attrs, **_result(b, site), "x_bytes": 2}, LAST)


def lower_fp16_product(b: Builder, site: Site) -> None:
    """The product of two activations; one with weights is a linear."""
    if not is_pair(site):
        lower_linear(b, site)
        return
    left, right = (b.read(name, LAST, kind="fp16") for name in site.inputs)
    attrs = {"b": b.tensors[right].numbers, "trans_b": 0, "a_bytes": 2, "b_bytes": 2, **_result(b, site)}
    b.make("fp16_matmul", (left, right), site, attrs, LAST)


def _result(b: Builder, site: Site) -> dict[str, int]:
    fmt = b.format(site.outputs[0])
    return {"f": fmt.fraction_bits or 0, "out_bytes": BYTES[fmt.kind]}


def _bits(b: Builder, name: str) -> int:
    fmt = b.format(name)
    if fmt.kind != "fx32" or fmt.fraction_bits is None:
        raise ValueError(f"the scores '{name}' are {fmt.kind}, want fx32")
    return fmt.fraction_bits


def _operand(b: Builder, site: Site, name: str, rank: int = 0) -> str:
    """The stored tensor of an operand in fp16; one of a constant is made for the site. Infinities become 65504."""
    if name not in site.constants:
        return b.read(name, LAST, rank, kind="fp16")
    values = np.asarray(site.constants[name], np.float32)
    values = values.reshape((1,) * (rank - values.ndim) + values.shape)
    stored = np.clip(values, -LARGEST_FP16, LARGEST_FP16).astype("<f2")
    stored = stored.reshape(1, *spatial(values.shape, axes_of(values.ndim, LAST), 1))
    return b.constant(f"{site.outputs[0]}/{name}", np.ascontiguousarray(stored).view(np.int8), FP16)
