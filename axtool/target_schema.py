"""What a target file may say: quantities with units, sections with their defaults, the names of costs and limits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from axtool.target import Activations, Fold, Grouped, StridedWeights

SCHEMA = "axtool.target/1"
ORIGINS = ("fact", "natural", "fitted", "set")
FORMATS = ("int8", "int16", "fx32", "fp16", "float32")

# What each primitive costs, in cycles of the array clock. A tile-channel is one channel of one array-sized tile.
COSTS: Mapping[str, str] = {
    "entry": "one start of the device program",
    "fence": "hand-over between two layers",
    "pipeline": "emptying the instruction pipeline at the end of a layer",
    "mac_drain": "MAC pipeline drain of one output tile-channel",
    "requantize": "one output tile-channel from accumulator to int8",
    "add": "residual add of one tile-channel",
    "mul": "product of one tile-channel",
    "pool_tap": "one tap of a pooling window on one tile-channel",
    "lut": "table look-up of one tile-channel",
    "interpolate": "interpolated table behind a MAC layer, one tile-channel",
    "resize": "linear interpolation by 2 of one tile-channel",
    "resize_general": "linear interpolation by another factor of one tile-channel; 0: as by 2",
    "copy_per_kib": "tile copy through the array, each 1024 bytes",
    "gather": "start of an irregular tile load",
    "gather_per_element": "irregular tile load, each element",
    "array_shift": "neighbour transfers inside the array for one output tile-channel of a MAC layer",
    "int16_passes": "passes of the MAC array over an input of 16 bits, each as long as one over int8",
    "flow": "start of a regular tile flow on the on-chip port: each operand and the output of a command, or each "
    "tile-channel of them where an op uses a channel once",
    "window_shift": "neighbour hop inside the array, each input step of a tile-channel and pixel of a window's reach",
    "exp": "exponential of one tile-channel by iteration",
    "layernorm_root": "square root and division of one LayerNorm tile, above logarithm and exponential",
    "row_sum": "64-bit sum across the rows of the array, one tile",
    "fp16_passes": "passes of the MAC array over an input of fp16, each as long as one over int8",
    "fx_add": "sum of two fx32 of one tile-channel",
    "fx_mul": "product of two fx32 of one tile-channel",
    "fx_shift": "other fraction bits for one fx32 tile-channel",
    "fx_dequantize": "one tile-channel from int8 to fx32",
    "fp16_convert": "one tile-channel from fx32 to fp16 or back",
    "burst": "start of one burst of an external request, beside its bytes",
}
# Largest sizes that the chip runs; one that a file leaves out is no limit.
LIMITS: Mapping[str, str] = {
    "max_kernel": "side of a convolution kernel, and of a pooling window without a limit of its own",
    "max_stride": "step of a window",
    "max_dilation": "distance between the taps of a window",
    "max_grouped_taps": "taps of a convolution in groups, the gaps of its dilation counted",
    "max_pool_kernel": "side of a pooling window",
    "max_pool_stride": "step of a pooling window",
    "max_flow_stride": "step of a window that regular tile flows walk; a larger one is gathered tap by tap",
    "max_packed_block": "side of a block of space-to-depth that one packed flow reads",
}

_FACTORS: Mapping[str, float] = {
    "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30,
}  # fmt: skip
_NUMBER = re.compile(r"^\s*([0-9][0-9_]*\.?[0-9_]*(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z/]*)\s*$")


def parse_quantity(value: object, unit: str) -> object:
    """`"4MiB"` with unit B -> 4194304; numbers pass. Raises ValueError for a text that is not a number of `unit`."""
    if not isinstance(value, str):
        return value
    match = _NUMBER.match(value)
    prefix = match[2].removesuffix(unit) if match and match[2] else ""
    if not match or prefix not in _FACTORS or (match[2] and not match[2].endswith(unit)):
        kinds = {"B": "in B, kB, KiB, MB, MiB, GB, GiB", "": "(positive; k, M or G may follow)"}
        raise ValueError(f"'{value}' is not a number {kinds.get(unit, f'in {unit}, k{unit}, M{unit}, G{unit}')}")
    number = float(match[1].replace("_", "")) * _FACTORS[prefix]
    return int(number) if number.is_integer() else number


def _quantity(unit: str) -> BeforeValidator:
    return BeforeValidator(lambda value: parse_quantity(value, unit))


def _refuse_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("want a number, found a yes/no")
    return value


_PLAIN = BeforeValidator(_refuse_bool)
# The bounds are far beyond any chip, and near enough that a frame's cycles, bytes and figures can still be counted.
Count = Annotated[int, Field(gt=0, le=2**31), _quantity(""), _PLAIN]
Lanes = Annotated[int, Field(gt=0, le=2**16), _quantity(""), _PLAIN]  # of an array, along one axis
Bytes = Annotated[int, Field(gt=0, le=2**62), _quantity("B"), _PLAIN]
Hertz = Annotated[float, Field(ge=1, le=1e11), _quantity("Hz"), _PLAIN]
BytesPerSecond = Annotated[float, Field(ge=1e3, le=1e18), _quantity("B/s"), _PLAIN]
BytesPerCycle = Annotated[float, Field(ge=1e-6, le=1e12), _quantity("B"), _PLAIN]
Cycles = Annotated[float, Field(ge=0, le=1e7), _quantity(""), _PLAIN]
Weight = Annotated[float, Field(gt=0, le=1e9), _quantity(""), _PLAIN]


class Section(BaseModel):
    """Values of one mapping of the file; a key that it does not name is a fault."""

    model_config = ConfigDict(extra="forbid")


class DepthwiseSection(Section):
    rows: Lanes
    columns: Lanes
    channels: Lanes
    cycles: Lanes = 1


class ArraySection(Section):
    rows: Lanes
    columns: Lanes
    input_channels: Lanes
    output_channels: Lanes
    cycles: Lanes = 1
    duty: Annotated[float, Field(ge=0.01, le=1), _quantity(""), _PLAIN] = 1.0
    fold: Fold = "none"
    fold_below: Count | None = None
    winograd: Annotated[float, Field(ge=1, le=1e3), _quantity(""), _PLAIN] = 1.0
    depthwise: DepthwiseSection | None = None
    weights_bytes_per_cycle: BytesPerCycle | None = None
    strided_weights: StridedWeights = "plain"
    grouped: Grouped = "groups"


class MemorySection(Section):
    ocm_bytes: Bytes
    lrm_bytes_per_pe: Bytes
    ocm_bytes_per_cycle: BytesPerCycle
    activations: Activations = "resident"
    bands: bool = True
    double_buffers: bool = True
    near_bytes: Annotated[int, Field(ge=0, le=2**62), _quantity("B"), _PLAIN] = 0
    near_bytes_per_cycle: BytesPerCycle | None = None


class ExternalSection(Section):
    read_bytes_per_s: BytesPerSecond
    write_bytes_per_s: BytesPerSecond
    burst_bytes: Bytes
    latency_cycles: Annotated[int, Field(ge=0, le=1e7), _quantity(""), _PLAIN]
    shared: bool | None = None
    in_flight: Count = 1
    duplex: bool = True


class EnginesSection(Section):
    pipelined: bool = False


class EnergySection(Section):
    registers: Weight
    lrm: Weight
    on_chip: Weight
    external: Weight


class TargetFile(Section):
    """A whole target file, without `schema` and `provenance`."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    description: str = ""
    clock_hz: Hertz
    cores: Lanes
    array: ArraySection
    memory: MemorySection
    external: ExternalSection
    engines: EnginesSection = Field(default_factory=EnginesSection)
    energy: EnergySection | None = None
    channel_multiple: Lanes
    optimizations: list[str] = Field(default_factory=list)
    subword_channels: Annotated[int, Field(ge=0, le=2**31), _quantity(""), _PLAIN] = 0
    vector_unit: bool
    formats: Annotated[list[str], Field(min_length=1)]
    limits: dict[str, Count] = Field(default_factory=dict)
    costs: dict[str, Cycles]


def fields_at(loc: Sequence[int | str]) -> tuple[str, ...]:
    """The keys of the section at a place of the file; none where there is no section."""
    model: type[BaseModel] = TargetFile
    for part in loc:
        inner = _section(model.model_fields[str(part)].annotation)
        if inner is None:
            return ()
        model = inner
    return tuple(model.model_fields)


def known_paths() -> tuple[str, ...]:
    """The dotted path of every value that a file may hold."""
    return (*_paths(TargetFile, ""), *(f"limits.{name}" for name in LIMITS), *(f"costs.{name}" for name in COSTS))


def _paths(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, info in model.model_fields.items():
        inner = _section(info.annotation)
        if inner is not None:
            yield from _paths(inner, f"{prefix}{name}.")
        elif name not in ("limits", "costs"):
            yield prefix + name


def _section(annotation: object) -> type[BaseModel] | None:
    """The section that a field holds, or may hold."""
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None
