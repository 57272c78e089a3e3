"""What the JSON documents of `axzoo` look like, but for `build` and `run`, which say what `compile` and `run` say."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from axtool.report.schemas_base import Document, Ok, Part


class ZooModel(Part):
    name: str
    task: str
    title: str
    licence: str
    licence_note: str
    source: dict[str, Any]
    input_shapes: dict[str, list[int]]
    preparation: dict[str, Any]
    result: dict[str, Any]
    postamble: dict[str, Any] | None
    calibration: list[dict[str, Any]]
    validation: list[dict[str, Any]]
    annotations: str = Field(description="A COCO file of labels; empty without one.")
    expected: list[dict[str, Any]]
    targets: list[str]
    notes: str
    config: str


class ZooList(Ok):
    schema_: Literal["axtool.axzoo.list/1"] = Field(alias="schema")
    models: list[ZooModel]


class ZooInfo(Ok):
    schema_: Literal["axtool.axzoo.info/1"] = Field(alias="schema")
    model: ZooModel


class ZooFault(Part):
    line: int | None = Field(description="Of the config; null where it is not of one line.")
    what: str


class ZooChecked(Part):
    name: str
    file: str
    faults: list[ZooFault]
    notes: list[str] = Field(description="What was not looked at, and why.")


class ZooCheck(Document):
    schema_: Literal["axtool.axzoo.check/1"] = Field(alias="schema")
    status: Literal["ok", "failed"]
    models: list[ZooChecked]


class SpreadMs(Part):
    """Milliseconds over the measured frames."""

    min: float
    mean: float
    p50: float
    p95: float
    p99: float
    max: float
    stddev: float


class TimedOperator(Part):
    operator: str
    where: Literal["host", "device"] = Field(description="The device is simulated on this machine.")
    ms_measured: SpreadMs
    share: float = Field(description="Of the time of all frames.")


class ZooBenchmark(Ok):
    schema_: Literal["axtool.axzoo.benchmark/1"] = Field(alias="schema")
    name: str
    licence: str
    axm: str
    target: str
    picture: str
    postamble: dict[str, Any] | None = Field(description="The kernel that ran; null for the tail in onnxruntime.")
    frames: int
    warmup: int = Field(description="Frames before the measured ones.")
    threads: int
    optimize: Literal["auto", "none"]
    frame_ms_measured: SpreadMs = Field(description="From the picture in memory to what was found.")
    host_ms_measured: SpreadMs = Field(description="The frame without the device.")
    simulated_device_ms_measured: SpreadMs = Field(description="Of the simulation, which says nothing of the chip.")
    device_ms_modelled: float = Field(description="Of one frame on one core of the chip.")
    operators: list[TimedOperator]
    frames_per_s_measured: float = Field(description="With the simulated device, one frame after the other.")
    host_frames_per_s_measured: float | None = Field(description="Of the host's part alone; null where it is nothing.")
    device_frames_per_s_modelled: float | None = Field(description="Of all cores of the chip.")
    cpu_ms_per_frame_measured: float = Field(description="Over all cores of this machine.")
    peak_memory_bytes_measured: int | None = Field(
        description="Of this process while the frames ran; of its whole life where the system cannot count anew, null "
        "where it does not count."
    )


class EvalExpected(Part):
    metric: str
    minimum: float
    measured: float | None = Field(description="Null where it is not of these pictures, or infinite.")
    met: bool


class EvalRow(Part):
    numbers: Literal["float", "int8"]
    tail: str = Field(description="onnxruntime, or the kernel that makes the outputs.")
    pictures: int
    figures: dict[str, float | None] = Field(
        description="Measured, by metric. Shares are of 1; sqnr_db is of the worst output, null where it is exact."
    )
    expected: list[EvalExpected] = Field(
        description="What the config expects of int8; empty for float, and under a limit."
    )


class ZooEval(Document):
    schema_: Literal["axtool.axzoo.eval/1"] = Field(alias="schema")
    status: Literal["ok", "failed"]
    name: str
    licence: str
    axm: str
    against: Literal["labels", "float"]
    limit: int | None = Field(description="Pictures that were asked for; null for all.")
    rows: list[EvalRow]


class ZooShowConfig(Ok):
    schema_: Literal["axtool.axzoo.show-config/1"] = Field(alias="schema")
    name: str
    file: str = Field(description="The config.")
    kernel_file: str | None = Field(description="What defines the kernel; null without one, or where it is nowhere.")
    config: dict[str, Any] = Field(description="Every value, as a config has them.")
    defaults: list[str] = Field(description="Keys that the config leaves out; `task.iou` is one inside another.")


class ZooNew(Ok):
    schema_: Literal["axtool.axzoo.new/1"] = Field(alias="schema")
    name: str
    file: str
    task: dict[str, Any] = Field(description="As guessed; empty where nothing is known.")
    postamble: dict[str, Any] | None
    guesses: list[str] = Field(description="What task and postamble are from, in words.")
