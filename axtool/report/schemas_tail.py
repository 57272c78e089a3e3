"""What the documents of `run` and `verify` say of a postamble kernel."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from axtool.report.schemas_base import Part


class RunTail(Part):
    made_by: str = Field(description="The class of the kernel, or onnxruntime.")
    postamble: dict[str, Any] = Field(description="The slot with its kernel, and the parameters; empty for none.")


class TailPlace(Part):
    index: list[int]
    got: float | None = Field(description="Of the kernel; null: not finite.")
    wanted: float | None = Field(description="Of the onnxruntime tail; null: not finite.")


class TailRow(Part):
    """|kernel - tail| <= atol + rtol * |tail| for each value of an output; whole numbers are equal."""

    output: str
    buffers: Literal["samples", "random"] = Field(description="Of the device on the samples, or with every value.")
    frames: int
    whole_numbers: bool
    max_abs_error: float | None = Field(description="Null for an output of another shape or type than the tail's.")
    max_rel_error: float | None = Field(description="Of values of at least a thousandth of the output's largest.")
    rtol: float
    atol: float = Field(description="The least, where it differs from value to value.")
    tolerance_used: float | None = Field(description="The largest share of the tolerance; above 1 fails.")
    worst: TailPlace | None = Field(description="The value with that share; null where all are equal.")
    differing: int = Field(description="Whole numbers that are not equal.")
    ties: int = Field(description="More that differ, where both are classes of the same score.")
    allowed_differing_share: float = Field(description="Of the whole numbers.")
    non_finite_mismatches: int
    passed: bool


class TailVerdict(Part):
    postamble: dict[str, Any] = Field(description="The slot with its kernel, and the parameters.")
    kernel: str
    verdict: Literal["passed", "failed"]
    samples: int
    random_frames: int
    outputs: list[TailRow]
    failures: list[str]
    notes: list[str]
    kernel_ms_measured: float = Field(description="Median over all frames, on this machine.")
    onnxruntime_ms_measured: float = Field(description="With depad, dequantize and align; one thread.")
