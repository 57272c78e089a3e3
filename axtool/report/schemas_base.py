"""What the schemas of all documents share."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Part(BaseModel):
    """Every key known, no silent conversion."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Tool(Part):
    name: Literal["axtool"]
    version: str


class Document(Part):
    """The keys that every document has."""

    tool: Tool
    command: str
    status: Literal["ok", "failed", "error"]


class Ok(Document):
    """A document of a command that only succeeds or fails with an error document."""

    status: Literal["ok"]


class Tensor(Part):
    name: str
    shape: list[int]
    dtype: str


class WorstLayer(Part):
    """A layer that loses much on its own."""

    op: str
    name: str
    origin: list[str]
    output: str
    single_sqnr_db: float | None = Field(description="Of the layer alone, against the float model; null: not finite.")
    accumulated_sqnr_db: float | None = Field(description="Of all up to here.")
    noise_share: float = Field(description="Of the noise that all layers make on their own, relative to their signal.")
    saturated_share: float
    used_levels: int | None
    cause: str = Field(description="What takes most of it.")
    advice: str
    recipe: dict[str, Any] | None = Field(description="The entry of a recipe file that does so; null where none does.")


class CheckedLayers(Part):
    samples: int
    checked: int = Field(description="Layers whose output the float model has, too.")
    worst: list[WorstLayer] = Field(description="The worst first, three at most; none that loses next to nothing.")
