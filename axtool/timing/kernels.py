"""A program -> its kernels: the layers between attention cores, and each attention core with the layers that feed it.

An attention core holds its local memory while it runs, so that a kernel ends in front of it and behind it. A network
without attention is one kernel.
"""

from __future__ import annotations

from axtool.ops.elements import narrow
from axtool.ops.encoding import MAC_OPS
from axtool.types import Program

CORES = ("attention", "fp16_attention")
LINEAR = (*MAC_OPS, "fp16_linear", "matmul")
KERNELS_OF_AN_ENTRY = 3  # of 4 KiB of local memory 3 are for kernels of 1 KiB each, 1 for the stack


def kernel_starts(program: Program) -> tuple[int, ...]:
    """The first layer of each kernel, in order; empty for a program without layers."""
    if not program.layers:
        return ()
    maker = {name: at for at, layer in enumerate(program.layers) for name in layer.outputs}
    starts = {0}
    for at, layer in enumerate(program.layers):
        if layer.op in CORES:
            starts.add(_fed_from(program, maker, at))
            if at + 1 < len(program.layers):
                starts.add(at + 1)
    return tuple(sorted(starts))


def _fed_from(program: Program, maker: dict[str, int], core: int) -> int:
    """The layer that normalises the tokens of the queries: the kernel of a core begins there, or at the core itself."""
    at: int | None = maker.get(program.layers[core].inputs[0])
    while at is not None and narrow(program.layers[at].op) != "layer_norm":
        before = maker.get(program.layers[at].inputs[0])
        if narrow(program.layers[at].op) in ("add", "fx_add", *CORES):
            return core
        at = before
    return core if at is None else at
