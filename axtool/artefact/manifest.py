"""The JSON manifest of an .axm file: what every field is, checked before anything is used.

Shapes are element counts, sizes and offsets bytes. Numbers that are not finite do not occur.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

FORMAT = "axtool.axm/1"

Count = Annotated[int, Field(ge=0, lt=2**48)]
Name = Annotated[str, Field(max_length=4096)]


class Strict(BaseModel):
    """Every key known, no silent conversion."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class FormatEntry(Strict):
    kind: Literal["int8", "int16", "int32", "fx32", "fp16", "float32"]
    scale: list[Annotated[float, Field(gt=0)]] = []
    zero_point: list[int] = [0]
    fraction_bits: int | None = None


class TensorEntry(Strict):
    shape: list[Count]
    format: FormatEntry
    layout: Literal["channel_first", "channel_last"]
    onnx_shape: list[Count]


class LayerEntry(Strict):
    op: Name
    name: Name
    inputs: list[Name]
    outputs: list[Name]
    attrs: dict[str, int | list[int]]
    origin: list[Name]


class SlotEntry(Strict):
    tensor: Name
    memory: Literal["ext", "ocm"]
    offset: Count
    size: Count
    first: int
    last: int


class SpecEntry(Strict):
    name: Name
    shape: list[Count]
    dtype: Name


class HostEntry(Strict):
    kind: Literal["host"]
    inputs: list[Name]
    outputs: list[Name]


class DeviceEntry(Strict):
    kind: Literal["device"]
    inputs: list[Name]
    outputs: list[Name]
    tensors: dict[str, TensorEntry]
    layers: list[LayerEntry]
    constants: list[Name]
    slots: list[SlotEntry]
    sizes: dict[Literal["ext", "ocm"], Count]


class Manifest(Strict):
    """The whole of the metadata key `axm`."""

    format: Literal["axtool.axm/1"]
    target: dict[str, Any]
    inputs: list[SpecEntry]
    outputs: list[SpecEntry]
    stages: list[Annotated[HostEntry | DeviceEntry, Field(discriminator="kind")]]
    preparation: dict[str, Any] | None = None
    task: dict[str, Any] = {}
    quantization: dict[str, Any] = {}
    support: list[dict[str, Any]] = []
    provenance: dict[str, Any] = {}
