"""What the JSON document of `axtool run` over streams looks like."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from axtool.report.schemas_base import Document, Part


class Board(Part):
    name: str
    board_model: str = Field(description="The key of its settings.")
    board_type: str
    cores: int
    clock_hz: float
    memory_bytes: int
    provenance: str = Field(description="What stands behind it: a simulation, or hardware.")


class Spread(Part):
    """In the unit of the key that holds it; quantiles within 1.1 %."""

    mean: float | None
    p50: float | None = Field(description="null where only the sum of the calls is known.")
    p99: float | None
    max: float | None


class QueueDepth(Part):
    mean: float
    max: int


class FoundLabel(Part):
    label: str
    objects: int = Field(description="In all frames; of a classifier, the frames in which it was the best.")
    frames: int


class StreamSource(Part):
    source: str
    kind: Literal["pictures", "video", "camera", "network"]
    live: bool
    size: list[int] | None = Field(description="Width and height of the last frame; null without frames.")
    frames: int
    frames_per_s_measured: float | None = Field(description="Behind the first full window; of fewer frames, of all.")
    source_frames_per_s: float | None = Field(description="What the source says; null where it says nothing.")
    dropped_frames: int = Field(description="Of a live source, those that nobody took in time.")
    damaged_packets: int
    latency_ms_measured: Spread | None = Field(description="From the pull of a frame to its result; null without one.")
    queue_depth_measured: QueueDepth | None = Field(description="Decoded frames that waited, after each pull.")
    found: list[FoundLabel] = Field(description="The most frequent first; empty for a model without a task.")
    other_labels: int = Field(description="How many labels are not listed.")
    saved: str | None


class StreamOperator(Part):
    operator: str
    where: Literal["source", "host", "device", "wait"]
    calls: int
    us_measured: Spread
    us_per_frame_measured: float | None
    effective_frames_per_s_measured: float | None = Field(description="Calls a second if nothing else had to be done.")


class StreamCore(Part):
    core: str
    model: str | None = Field(description="What it held at the end.")
    alive: bool
    frames: int
    busy_share_measured: float | None
    modelled_ms_per_frame: float | None
    switches: int
    switch_ms_modelled: float


class StreamRates(Part):
    device_frames_per_s_modelled: float | None
    device_frames_per_s_measured: float | None = Field(description="Of the device as it is simulated here.")
    host_frames_per_s_measured: float | None = Field(description="Of one thread that never waits for a core.")
    system_frames_per_s_measured: float | None = Field(description="Results of all sources; null without any.")


class StreamProcess(Part):
    cpu_percent_measured: float
    cpu_ms_per_frame_measured: float | None
    processors: int
    peak_memory_bytes_measured: int | None


class RunStream(Document):
    """`interrupted` ends with the exit code of the signal; what was recorded until then is whole."""

    schema_: Literal["axtool.run.stream/1"] = Field(alias="schema")
    status: Literal["ok", "interrupted"]  # type: ignore[assignment]
    model: str
    boards: list[Board]
    realtime: bool
    replay: bool
    workers: int
    max_in_flight: int
    order: Literal["as_available", "round_robin"]
    frames: int
    seconds_measured: float
    sources: list[StreamSource]
    operators: list[StreamOperator]
    operators_frames: int = Field(
        description="The frames that `operators` speaks of, but for the source: those behind the first full window of "
        "their source, or all where there are no others."
    )
    cores: list[StreamCore]
    rates: StreamRates
    process: StreamProcess
