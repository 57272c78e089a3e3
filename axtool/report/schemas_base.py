"""What the schemas of all documents share."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


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
