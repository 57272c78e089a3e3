"""A user's op: its integers from the user's `prepare`, its boxes as the user says it reads them."""

from __future__ import annotations

import numpy as np

from axtool.errors import UsageError
from axtool.ops import custom
from axtool.ops.encoding import dims_of
from axtool.ops.limits_core import data_inputs
from axtool.plan.lower_builder import Builder
from axtool.types import QFormat, Site

BYTES = QFormat("int8", (1.0,))  # of numbers that only the user can read


def lower_custom(b: Builder, site: Site) -> None:
    """One `custom` layer. Raises UsageError where `prepare` fails or returns what has no bytes."""
    op, out = custom.of_site(site), site.outputs[0]
    layout = b.layouts[out]
    rank = len(site.shapes[out])
    reads = [b.read(name, layout, rank) for name in data_inputs(site)]
    case = custom.Case(
        tuple(b.tensors[name].format for name in reads),
        b.format(out),
        {want: site.constants[name] for want, name in custom.named_inputs(op, site) if name in site.constants},
        {want: site.shapes[name] for want, name in custom.named_inputs(op, site)}
        | {custom.output_of(op): site.shapes[out]},
    )
    what = f"prepare of custom op '{op.name}' at '{out}'"
    with custom.users_code(what, "it gets a Case and returns the op's numbers as a NumPy array"):
        numbers = np.ascontiguousarray(op.prepare(case))
    if numbers.dtype.kind not in "biufc" or not numbers.nbytes:
        raise UsageError(
            f"prepare of custom op '{op.name}' returns {numbers.dtype}{list(numbers.shape)}, which is no numbers",
            code="custom-op-failed",
            hint="return a NumPy array of numbers; none at all: leave prepare out",
        )
    flat = numbers.reshape(-1).view(np.int8)
    name = b.constant(f"{out}/numbers", flat, BYTES)
    dims = [size for tensor in reads for size in dims_of(b.tensors[tensor].shape)]
    attrs = {"id": op.id, "whole": int(op.reads == "whole"), "count": flat.size, "boxes": tuple(dims)}
    b.make("custom", (*reads, name), site, attrs, layout, out)
