"""Quadric Chimera QC-U: DETR-R101, SegFormer-B0 and the datasheet's operator kernels."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.validation import (
    chimera_detr,
    chimera_frame,
    chimera_operators,
    chimera_segformer,
    chimera_segformer_frame,
)
from benchmarks.validation.rows import LeftOut, Row, Rule

TITLE = "Quadric Chimera QC-U"
TARGETS = ("qc-u-1d5-8mb", "qc-u-1d7-16mb")
ABOUT = """
Two notebooks of Quadric print the profile of an instruction-set simulator, which its datasheet puts within 5 % of the
hardware: DETR-R101 at 750 x 800 on a QC-U of 1.5 GHz, SegFormer-B0 at 256 x 512 on one of 1.7 GHz. The datasheet of the
older QB series adds the MAC utilisation of four convolutions.

- **DETR-R101**: the backbone is planned and timed as an ONNX model, convolution by convolution; then the whole network
  as it is compiled, one program beside the job summary: its size, the ledger of a frame, the most of each memory.
- **SegFormer-B0**: the notebook prints what each change of a hand-written kernel saved. Both networks, Cityscapes and
  ADE20K, are planned and timed as `axtool compile --explain-passes` does, without optimisations and with each:
  totals, gains, and every printed delta. Beside them, each saving is compared with what the primitive costs of the
  target say of the tiles that the change touched, counted from the network's shapes.
- **Operator kernels**: an ONNX model of one convolution each, on the array of a QB16 (8 MACs a processing element,
  1 GHz), 256 channels in and out, operands on chip: `axtool profile kernel.onnx --target qc-u-1d5-8mb --set
  array.input_channels=8 --set clock_hz=1GHz`, with an external memory that takes no time. The datasheet states no
  channel count; 256 explains all four.

What neighbours exchange inside the array grows with the reach of the window: one hop costs `window_shift` for each step
of input channels. One cost for each output tile, which meets DETR's `data_array` as well, explains neither the 5x5 nor
the 7x7 kernel. One start of an irregular flow explains gathers of 1,024 and of 128 elements, random stores and, with
the port's 16 cycles each way, a copy.

*Natural* is not *blind*: six values were written down from a count of instructions, hops or bytes, by someone who knew
what a fit would give. `requantize` is 9 and `add` 10 where DETR's `compute` would close at 10.3 for both and the 1x1
kernel of the datasheet at 7.5, `mac_drain` is 3 for 2.84, `row_sum` 82 for 82.1, `copy_per_kib` 58 for 55.0,
`gather_per_element` 0.25 for 0.24. Whoever counts them as fitted has 13 constants for the figures below, and more than
a third.
"""
WRONG = (
    "Our plan of DETR is not the published one: it double-buffers activations, and cascades halve the external bytes. "
    "Both are left out of the comparison of the whole frame, by `memory.double_buffers: false` and `memory.bands: "
    "false`: only then does it wait for external memory as long as the document says. As `axtool compile` plans it, "
    "the frame is a tenth faster than the published one.",
    "Of DETR's ledger three figures are open. `compute` is a tenth short: our attention and conversions are counted "
    "in fewer instructions. `data_ocm` is half above: three quarters of it are the backbone's convolutions and "
    "residual sums alone, and words of fx32 take four times a byte's cycles at the port, which hand-written kernels "
    "keep in the array. `external writes` are a fifth short: which tensors leave the chip is the planner's choice.",
    "The categories of the frame depend on more than one cause each. `data_array` holds the neighbours of the windows "
    "and the tile copies of LayerNormalizations here, and nothing else that the transformer moves inside the array.",
    "The width of the on-chip port, 64 bytes a cycle, was chosen to meet DETR's `data_ocm`. The one figure that it was "
    "fitted to is open, so it cannot be left out; a store of its own port beside a load of 128 bytes a cycle comes as "
    "close.",
    "SegFormer's absolute cycles are no prediction: what its kernels pay for layouts and for starts of flows, which "
    "convolutions hide, was looked for until both frames closed. The rules say where it is paid (a LayerNormalization "
    "is relaid by tile copies, an op that uses a channel once waits for the flow of each); their costs are those of "
    "copies and of gathers.",
    "Which weights a kernel waits for follows from where kernels end, which we place around attention cores: of the "
    "prefetched weights only sign and rank are asked.",
    "Our program of the Cityscapes head copies its branches without the optimisation, as that of ADE20K does; the "
    "document prints no such row there.",
    "Utilisation of a 1x1 kernel depends on the channel count, which the datasheet does not state: with 128 channels "
    "the port is the bound, not the array.",
    "The processor's instruction cache, scalar code and branches are in the fixed costs of entry, fence and drain "
    "alone.",
)


def rows() -> list[Row]:
    """Every figure."""
    return [
        *chimera_detr.rows(),
        *chimera_frame.rows(),
        *chimera_operators.rows(),
        *chimera_segformer.rows(),
        *chimera_segformer_frame.rows(),
    ]


def rules(rows: Sequence[Row]) -> list[Rule]:
    """What is asked of the frames beside their figures; of SegFormer gains, signs and ranks of what is saved."""
    return [*chimera_frame.rules(), *chimera_segformer_frame.rules()]


def leave_one_out() -> list[LeftOut]:
    """Every figure that a constant is fitted to."""
    return [*chimera_operators.left_out(), *chimera_segformer.left_out()]
