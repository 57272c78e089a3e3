"""The numbers of one chip. Read from a YAML file of configs/targets, never written in code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Array:
    """The MAC array as spatial unrolling: what one step covers, and how many cycles a step takes."""

    rows: int  # output rows
    columns: int  # output columns
    input_channels: int
    output_channels: int
    cycles: int = 1


@dataclass(frozen=True, slots=True)
class MemorySpec:
    """On-chip memories in bytes, ports in bytes a cycle.

    `activations` external: nothing stays on chip between layers, whatever room there is (chips whose on-chip memory is
    the buffer of one convolution).
    """

    ocm_bytes: int
    lrm_bytes_per_pe: int
    ocm_bytes_per_cycle: float
    activations: Literal["resident", "external"] = "resident"


@dataclass(frozen=True, slots=True)
class External:
    """The path to external memory: bandwidth in bytes a second each way, burst in bytes, latency in cycles."""

    read_bytes_per_s: float
    write_bytes_per_s: float
    burst_bytes: int
    latency_cycles: int


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
    costs: Mapping[str, float] = field(default_factory=dict)
    provenance: Mapping[str, str] = field(default_factory=dict)  # by dotted path: fact | natural | fitted, and of what
    description: str = ""
