"""What the JSON documents of `profile` and `targets` look like."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from axtool.report.schemas_base import Document, Ok, Part

Ledger = dict[str, int]


class Utilised(Part):
    """How busy the MAC array is."""

    macs: int
    mac_utilisation: float = Field(description="Of the array's peak, over all cycles.")
    mac_cycles_utilisation: float = Field(description="Of the array's peak, over the cycles that are charged to it.")


class ProfileRow(Utilised):
    stage: int
    index: int
    name: str
    op: str
    origin: list[str]
    segment: str = Field(description="The block of the model that it belongs to, by the names of its nodes.")
    cycles: int
    share: float = Field(description="Of the cycles of the frame.")
    ledger_cycles: Ledger
    other_cycles: Ledger
    read_bytes: int
    write_bytes: int
    spilled_bytes: int = Field(description="Of what it makes, and that waits outside for want of room on the chip.")
    bound: str
    commands: int


class Profile(Document, Utilised):
    schema_: Literal["axtool.profile/1"] = Field(alias="schema")
    status: Literal["ok", "failed"]
    model: str
    modelled: Literal[True]
    target: str
    clock_hz: float
    cores: int
    cycles: int
    latency_ms: float = Field(description="Of one frame, which one core works on.")
    frames_per_s: float | None = Field(description="Of all cores of the device, and of it alone; null without cycles.")
    frames_per_s_per_core: float | None = Field(description="Of one core while all work.")
    host_nodes: int = Field(description="Nodes that run on the host and are not in any figure here.")
    peak_macs_per_cycle: float
    ledger_cycles: Ledger
    other_cycles: Ledger
    peak_ocm_bytes: int
    ocm_bytes: int
    external_read_bytes: int
    external_write_bytes: int
    external_bytes: int
    spilled_bytes: int = Field(description="Activations between layers that have no room on the chip.")
    exceeded: list[str]
    layers: list[ProfileRow]


class TargetRow(Part):
    name: str
    description: str
    clock_hz: float
    cores: int
    macs_per_cycle: int
    ocm_bytes: int
    read_bytes_per_s: float
    write_bytes_per_s: float


class Targets(Ok):
    schema_: Literal["axtool.targets/1"] = Field(alias="schema")
    targets: list[TargetRow]
    values: dict[str, Any] | None = None
