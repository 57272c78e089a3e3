"""The words of the compiler. Frozen values only: a step takes one and returns another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["int8", "int16", "int32", "fx32", "fp16", "float32"]
Precision = Literal["int8", "int16", "fx32", "fp16"]  # of a site: what it computes in
Computed = Literal["int8", "int16", "fx32", "fp16", "float"]  # of a node of a model: float is the host's
Memory = Literal["ext", "ocm"]
Layout = Literal["channel_first", "channel_last"]

BYTES: Mapping[str, int] = MappingProxyType({"int8": 1, "int16": 2, "int32": 4, "fx32": 4, "fp16": 2, "float32": 4})


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """An input or output of a model or stage: its name, shape and ONNX element type as a NumPy name."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Site:
    """One ONNX node with everything needed to judge and to lower it, and no graph library behind it.

    `attrs` are canonical: the same for every opset (see `axtool.graph.sites`). `shapes` and `dtypes` are by
    tensor name, for every non-empty input and output; `constants` holds the inputs whose values are known. `raw` are
    the attributes as the node has them. `makers` is the op that makes an input ("" for one of the model), `readers`
    the ops that read an output ("" where it leaves the model): what a rule on the place of a node looks at.
    """

    op: str
    name: str
    index: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    domain: str = ""
    raw: Mapping[str, Any] = field(default_factory=dict)
    makers: Mapping[str, str] = field(default_factory=dict)
    readers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.op} '{self.name}' (node {self.index})"


@dataclass(frozen=True, slots=True)
class QFormat:
    """How a real number is stored.

    int8, int16, int32: `real = (q - zero_point) * scale`, one value or one for each entry of the last axis.
    fx32: int32 with `fraction_bits`. fp16 and float32 need nothing else.
    """

    kind: Kind
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = (0,)
    fraction_bits: int | None = None

    def __post_init__(self) -> None:
        if self.kind.startswith("int") and (not self.scale or not all(0 < s < float("inf") for s in self.scale)):
            raise ValueError(f"scale must be positive and finite, got {self.scale}")


@dataclass(frozen=True, slots=True)
class Tensor:
    """What a value on the device is: never its numbers.

    `shape` is the stored shape (n, h, w, c), n = 1, in bytes: a number of int16 or fp16 is two channels, one of fx32
    four, the low byte first. Constants keep the shape of their array. `layout` says how the ONNX tensor of shape
    `onnx_shape` maps to it: channel_first is (n, c, *spatial), channel_last is (…, c); missing spatial axes are ones
    in front (a rank-2 (n, c) is (n, 1, 1, c)).
    """

    name: str
    shape: tuple[int, ...]
    format: QFormat
    layout: Layout = "channel_last"
    onnx_shape: tuple[int, ...] = ()

    @property
    def number_bytes(self) -> int:
        """Bytes of a number of an activation."""
        return BYTES[self.format.kind]

    @property
    def numbers(self) -> tuple[int, int, int]:
        """(h, w, c) of an activation, in numbers."""
        _, h, w, c = self.shape
        return h, w, c // self.number_bytes


@dataclass(frozen=True, slots=True)
class Layer:
    """One device op, and the ONNX nodes it came from. `attrs` are integers: the fields of `axtool.ops.encoding`."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    origin: tuple[str, ...] = ()
    name: str = ""


@dataclass(frozen=True)
class Program:
    """Layers in an order that runs. `constants` holds the numbers; `tensors` describes every name."""

    tensors: Mapping[str, Tensor]
    layers: tuple[Layer, ...]
    constants: Mapping[str, NDArray[Any]]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Weights:
    """Quantized weights of one MAC site: values in the ONNX layout, one scale for each output channel."""

    values: NDArray[np.int8]
    scale: NDArray[np.float32]  # (cout,)
    bias: NDArray[np.float32]  # (cout,), real units, zeros when the node has none


@dataclass(frozen=True)
class Quantization:
    """The numbers of one device stage: a format and a range for each activation, weights by output tensor name.

    `precision` is by the first output of a site: "fx32" or "fp16"; any other site computes in int8 or int16, as its
    formats say. `read_as` is the int8 format in which such a site reads a tensor that is stored in fx32 or fp16.
    """

    formats: Mapping[str, QFormat]
    ranges: Mapping[str, tuple[float, float]]
    weights: Mapping[str, Weights]
    notes: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)  # why a tensor has its format, by tensor
    given: frozenset[str] = frozenset()  # tensors that a quantized model rounds: no layer may swallow them
    warnings: tuple[str, ...] = ()  # what was given up so that the numbers fit
    precision: Mapping[str, Precision] = field(default_factory=dict)
    read_as: Mapping[str, QFormat] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a tensor lives: bytes [offset, offset + size) of a memory for layers first..last, both included."""

    tensor: str
    memory: Memory
    offset: int
    size: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Tile:
    """A box of an output tensor: rows [y, y+h), columns [x, x+w), channels [c, c+n)."""

    y: int
    x: int
    c: int
    h: int
    w: int
    n: int


@dataclass(frozen=True, slots=True)
class View:
    """A box of a tensor as bytes of a memory.

    `offset` is the address of the element (tile.y, tile.x, tile.c); rows are `row_stride` bytes apart, pixels
    `pixel_stride`. Flat data (weights, tables) is the tile (0, 0, 0, 1, 1, nbytes).
    """

    memory: Memory
    offset: int
    tile: Tile
    row_stride: int
    pixel_stride: int

    @property
    def end(self) -> int:
        """The byte behind the last one."""
        tile = self.tile
        return self.offset + (tile.h - 1) * self.row_stride + (tile.w - 1) * self.pixel_stride + tile.n

    def meets(self, begin: int, end: int) -> bool:
        """Whether bytes [begin, end) and those from the first to the last of the view have any in common."""
        return self.offset < end and begin < self.end


CommandKind = Literal["compute", "load", "store", "move"]
Engine = Literal["mac", "vector", "dma_read", "dma_write", "array"]


@dataclass(frozen=True, slots=True)
class Command:
    """One step of one layer. `part` is the input that a concat copies; `tile` the output box of a compute."""

    kind: CommandKind
    engine: Engine
    layer: int
    tile: Tile
    reads: tuple[View, ...]
    writes: tuple[View, ...]
    part: int = 0


@dataclass(frozen=True)
class Plan:
    """A program with an address for every byte and an order for every step."""

    program: Program
    target: str
    slots: tuple[Slot, ...]
    commands: tuple[Command, ...]
    sizes: Mapping[str, int]  # bytes of each memory that the commands use
    without: tuple[str, ...] = ()  # optimisations that are switched off (`axtool.optimizations`)


@dataclass(frozen=True, slots=True)
class Event:
    """A span of cycles on one lane of the timeline."""

    start: int
    end: int
    lane: str
    category: str
    layer: int
