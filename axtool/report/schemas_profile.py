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


class Row(Utilised):
    stage: int
    index: int
    name: str
    op: str = Field(description="Empty for a segment.")
    segment: str = Field(description="The block of the model that it belongs to, by the names of its nodes.")
    cycles: int
    share: float = Field(description="Of the cycles of the frame.")
    ledger_cycles: Ledger
    read_bytes: int
    write_bytes: int
    near_bytes: int = Field(description="Constants from the memory beside the core.")
    spilled_bytes: int = Field(description="Of what it makes, and that waits outside for want of room on the chip.")
    energy_relative: float | None = Field(
        description="In accesses of the cheapest kind; null: the chip has no weights."
    )
    group: int | None = Field(description="The first of the layers whose commands take turns with its own; else null.")
    custom: bool = Field(description="An op that is no built-in one.")
    bound: str
    commands: int


class ProfileRow(Row):
    origin: list[str]
    reasons: dict[str, str] = Field(
        description="By category, for each that has cycles: who was at work, and on how much."
    )
    other_cycles: Ledger


class SumRow(Row):
    """Of a run of layers of one segment, or of all of one op."""

    layers: int


class Job(Part):
    """A profile in short: what each memory holds at most, and where the cycles of a frame go. All of it is modelled."""

    target: str
    clock_hz: float
    cores: int
    cycles: int
    latency_ms: float
    peak_ocm_bytes: int
    ocm_bytes: int
    peak_lrm_bytes: int = Field(description="The most that a command keeps in each processing element.")
    lrm_bytes_per_pe: int
    peak_spilled_bytes: int = Field(description="Of activations outside the chip at one time.")
    external_read_bytes: int
    external_write_bytes: int
    macs: int
    feed_forward_blocks: int = Field(description="Pairs of linears with nothing but an activation between them.")
    feed_forward_macs: int = Field(description="Of their linears; part of `macs`.")
    mac_utilisation: float = Field(description="Of the array's peak, over all cycles.")
    ledger_cycles: Ledger
    other_cycles: Ledger


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
    mac_utilisation_outside_custom: float = Field(description="Of the MACs that are in no custom op, over all cycles.")
    energy_relative: float | None = Field(description="Of a frame; no unit that is measured. Null without weights.")
    near_bytes: int
    host_nodes: int = Field(description="Nodes that run on the host and are not in any figure here.")
    peak_macs_per_cycle: float
    ledger_cycles: Ledger
    other_cycles: Ledger
    peak_ocm_bytes: int
    ocm_bytes: int
    peak_lrm_bytes: int = Field(description="The most that a command keeps in each processing element.")
    lrm_bytes_per_pe: int
    feed_forward_blocks: int = Field(description="Pairs of linears with nothing but an activation between them.")
    feed_forward_macs: int = Field(description="Of their linears; part of `macs`.")
    external_read_bytes: int
    external_write_bytes: int
    external_bytes: int
    spilled_bytes: int = Field(description="Activations between layers that have no room on the chip.")
    peak_spilled_bytes: int = Field(description="Of those, the most at one time.")
    exceeded: list[str]
    layers: list[ProfileRow]
    segments: list[SumRow]
    ops: list[SumRow]


class Side(Part):
    model: str
    target: str
    clock_hz: float
    cores: int


class Figure(Part):
    """A total, or the cycles of a category. Differences are other less this."""

    figure: str
    this: float | None
    other: float | None
    difference: float | None
    ratio: float | None = Field(description="Other over this; null where this has none.")


class ComparedRow(Part):
    """Layers that came from the same ONNX nodes, or all of one op or segment."""

    name: str
    op: str
    matched: Literal["both", "this", "other"] = Field(description="Which side has such layers.")
    this_layers: list[str]
    other_layers: list[str]
    this_cycles: int
    other_cycles: int
    this_macs: int
    other_macs: int
    this_read_bytes: int
    other_read_bytes: int
    this_write_bytes: int
    other_write_bytes: int
    this_spilled_bytes: int
    other_spilled_bytes: int
    difference_cycles: int
    difference_ledger_cycles: Ledger


class ProfileCompare(Document):
    schema_: Literal["axtool.profile.compare/1"] = Field(alias="schema")
    status: Literal["ok", "failed"]
    modelled: Literal[True]
    this: Side
    other: Side
    totals: list[Figure]
    categories: list[Figure]
    layers: list[ComparedRow]
    ops: list[ComparedRow]
    segments: list[ComparedRow]
    exceeded: list[str] = Field(description="Of the limits, by this.")


class SweptAxis(Part):
    key: str
    values: list[str]


class SweptPoint(Part):
    """One combination; the figures are null where there are none."""

    values: dict[str, str]
    status: Literal["ok", "does not fit", "refused"]
    reason: str = Field(description="Why there are no figures; empty where there are.")
    target: str | None
    clock_hz: float | None
    cores: int | None
    cycles: int | None
    latency_ms: float | None
    frames_per_s: float | None
    mac_utilisation: float | None
    ledger_cycles: Ledger | None
    peak_ocm_bytes: int | None
    ocm_bytes: int | None
    external_read_bytes: int | None
    external_write_bytes: int | None
    external_bytes: int | None
    spilled_bytes: int | None
    energy_relative: float | None
    bound: str | None = Field(description="The category with the most cycles.")
    exceeded: list[str]


class ProfileSweep(Document):
    """Failed when nothing fits, or when limits are set and no configuration holds them."""

    schema_: Literal["axtool.profile.sweep/1"] = Field(alias="schema")
    status: Literal["ok", "failed"]
    model: str
    modelled: Literal[True]
    axes: list[SweptAxis]
    summary: str
    points: list[SweptPoint] = Field(description="In the order of the product, the last axis the fastest.")


class TargetRow(Part):
    name: str
    description: str
    clock_hz: float
    cores: int
    macs_per_cycle: int
    ocm_bytes: int
    read_bytes_per_s: float
    write_bytes_per_s: float


class ConstantRow(Part):
    path: str
    value: int | float | bool | str | list[str] | list[int]
    unit: str
    origin: Literal["fact", "natural", "fitted", "set", "default", "unsaid"]
    source: str


class Targets(Ok):
    schema_: Literal["axtool.targets/1"] = Field(alias="schema")
    action: Literal["list", "show", "check"]
    targets: list[TargetRow]
    values: dict[str, Any] | None = Field(None, description="Of one chip: what its file states.")
    constants: list[ConstantRow] | None = Field(None, description="Of one chip: all values, defaults too.")
    origins: dict[str, int] | None = Field(None, description="Constants of each origin.")


class DeviceRow(Part):
    index: int
    name: str
    board: str
    board_model: str
    board_type: str
    cores: int
    cores_in_use: int = Field(description="By this process; another one has boards of its own.")
    clock_hz: float
    memory_bytes: int
    link_bytes_per_s: float | None = Field(description="Each way; null where nobody says.")
    queue: int = Field(description="Frames that one core takes at once.")
    provenance: str


class BoardRow(Part):
    name: str
    description: str
    chip: str
    board_model: str
    board_type: str
    cores: int
    clock_hz: float
    memory_bytes: int
    link_bytes_per_s: float
    switch_s: float = Field(description="To start another model on a core, beside the transfer of its bytes.")


class Devices(Ok):
    schema_: Literal["axtool.devices/1"] = Field(alias="schema")
    action: Literal["list", "boards", "show", "check"]
    devices: list[DeviceRow] = Field(description="Of list.")
    settings: dict[str, int | float] | None = Field(
        None, description="Of list: what AXTOOL_CONFIGURE_BOARD sets on every board: clock (MHz), ddr_size (bytes), "
        "mvm_limitation (percent); null where it forbids to set any."
    )  # fmt: skip
    boards: list[BoardRow] = Field(description="Of boards; of show and check the one.")
    constants: list[ConstantRow] | None = Field(None, description="Of one board: all values, defaults too.")
    origins: dict[str, int] | None = Field(None, description="Constants of each origin.")
