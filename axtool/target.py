"""The numbers of one chip. Read from a YAML file of configs/targets, never written in code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Fold = Literal["none", "row", "window"]
Activations = Literal["resident", "external"]
StridedWeights = Literal["plain", "extended"]
Grouped = Literal["groups", "dense"]


# Primitive costs that a file may leave out, and what that means.
DEFAULT_COSTS: Mapping[str, float] = {
    "int16_passes": 2.0, "flow": 0.0, "window_shift": 0.0, "exp": 0.0, "layernorm_root": 0.0, "row_sum": 0.0,
    "burst": 0.0, "resize_general": 0.0,
    "fp16_passes": 2.0, "fx_add": 5.0, "fx_mul": 7.0, "fx_shift": 3.0, "fx_dequantize": 4.0, "fp16_convert": 4.0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Depthwise:
    """The unrolling of depthwise layers: what one step covers of one tap, and how many cycles a step takes."""

    rows: int  # output rows
    columns: int  # output columns
    channels: int
    cycles: int = 1


@dataclass(frozen=True, slots=True)
class Array:
    """The MAC array as spatial unrolling: what one step covers, and how many cycles a step takes.

    `fold` says which taps of a kernel share the input-channel lanes with the channels: none (a step a tap), those of a
    row, or the whole window. It applies to layers of fewer than `fold_below` input channels, to all without it.
    `winograd` divides the steps of ungrouped, undilated 3x3 convolutions of stride 1 that fill the input-channel lanes.
    `duty` is the part of the time in which the array may multiply: its steps take so much longer below 1.
    `strided_weights` extended: a kernel is stored with each side rounded up to a multiple of its stride.
    `grouped` dense: a convolution in groups, other than a depthwise one, runs as one without, zeros between its groups.
    """

    rows: int  # output rows
    columns: int  # output columns
    input_channels: int
    output_channels: int
    cycles: int = 1
    duty: float = 1.0
    fold: Fold = "none"
    fold_below: int | None = None
    winograd: float = 1.0
    depthwise: Depthwise | None = None  # None: the array with one input channel
    weights_bytes_per_cycle: float | None = None  # None: weights enter the array behind the MACs, however many
    strided_weights: StridedWeights = "plain"
    grouped: Grouped = "groups"

    @property
    def cycles_per_step(self) -> float:
        """Cycles from one step to the next, those between in which it may not multiply with them."""
        return self.cycles / self.duty


@dataclass(frozen=True, slots=True)
class MemorySpec:
    """On-chip memories in bytes, ports in bytes a cycle.

    `activations` external: no activation stays on chip between layers. `bands`: where maps do not fit, layers that
    follow each other may run together, band by band of rows. Constants of `near_bytes` in all stay between
    frames in a memory beside the core, and come from there at `near_bytes_per_cycle`.
    """

    ocm_bytes: int
    lrm_bytes_per_pe: int
    ocm_bytes_per_cycle: float
    activations: Activations = "resident"
    bands: bool = True
    double_buffers: bool = True  # of activations: boxes come and go while the array computes; weights always may
    near_bytes: int = 0
    near_bytes_per_cycle: float | None = None  # None with near_bytes 0 alone


@dataclass(frozen=True, slots=True)
class External:
    """The path to external memory: bandwidth in bytes a second each way, burst in bytes, latency in cycles.

    Each direction has `in_flight` requests under way at most; the latency of all but the first hides behind bytes.
    Without `duplex` both directions share one path, at the bandwidth of the direction.
    """

    read_bytes_per_s: float
    write_bytes_per_s: float
    burst_bytes: int
    latency_cycles: int
    shared: bool | None = None  # whether the cores share the bandwidth; None: where there are several
    in_flight: int = 1
    duplex: bool = True


@dataclass(frozen=True, slots=True)
class Engines:
    """Whether port, MAC array and vector unit work on different commands at once."""

    pipelined: bool = False


@dataclass(frozen=True, slots=True)
class Energy:
    """What an access of 32 bits costs, in any one unit."""

    registers: float
    lrm: float
    on_chip: float
    external: float


@dataclass(frozen=True, slots=True)
class Target:
    """One chip: geometry, memories, formats, limits and primitive costs (in cycles, by name)."""

    name: str
    clock_hz: float
    cores: int
    array: Array
    memory: MemorySpec
    external: External
    channel_multiple: int
    vector_unit: bool
    formats: tuple[str, ...] = ("int8",)
    limits: Mapping[str, int] = field(default_factory=dict)  # max_kernel, max_stride, max_dilation, …
    ops: tuple[str, ...] = ()  # the ONNX ops that the chip runs; empty: every one that has a device kernel
    rules: tuple[str, ...] = ()  # limits beyond those of the kernels, by name
    costs: Mapping[str, float] = field(default_factory=dict)
    provenance: Mapping[str, str] = field(default_factory=dict)  # by dotted path: fact | natural | fitted, and of what
    description: str = ""
    engines: Engines = Engines()
    energy: Energy | None = None
    optimizations: tuple[str, ...] = ()  # those of `axtool.optimizations` that pay on the chip
    subword_channels: int = 0  # tensors of at most so many channels are stored in so many, not in the multiple; 0: none

    def stored_channels(self, channels: int) -> int:
        """Bytes from one pixel of a tensor to the next, of `channels` bytes."""
        if channels <= self.subword_channels:
            return self.subword_channels
        return -(-channels // self.channel_multiple) * self.channel_multiple

    @property
    def sharing_cores(self) -> int:
        """How many cores share the external bandwidth, each with an equal part of it."""
        shared = self.cores > 1 if self.external.shared is None else self.external.shared
        return self.cores if shared else 1

    @property
    def read_bytes_per_cycle(self) -> float:
        """What one core reads from external memory in a cycle."""
        return self.external.read_bytes_per_s / self.clock_hz / self.sharing_cores

    @property
    def write_bytes_per_cycle(self) -> float:
        """What one core writes to external memory in a cycle."""
        return self.external.write_bytes_per_s / self.clock_hz / self.sharing_cores
