"""The verdict on a kernel as people read it."""

from __future__ import annotations

from typing import Any

import pytest

from axtool.report.postambles import kernel_lines, written
from axtool.report.verified_tail import tail_text
from tests.report import golden


def row(output: str, buffers: str, **changed: Any) -> dict[str, Any]:
    return {
        "output": output, "buffers": buffers, "frames": 4, "whole_numbers": False, "max_abs_error": 6.1e-5,
        "max_rel_error": 1.34e-6, "rtol": 1e-5, "atol": 1e-6, "tolerance_used": 0.09, "worst": None, "differing": 0,
        "ties": 0, "allowed_differing_share": 0.0, "non_finite_mismatches": 0, "passed": True, **changed,
    }  # fmt: skip


TAIL: dict[str, Any] = {
    "postamble": {"fused_kernel": "UltralyticsYoloPostamble", "num_classes": 80, "tensor_roles": ["box", "class"]},
    "kernel": "UltralyticsYoloPostamble",
    "verdict": "failed",
    "samples": 1,
    "random_frames": 4,
    "outputs": [
        row("output0", "samples"),
        row("a/rather/long/name/of/an/output", "samples", max_abs_error=0.0, max_rel_error=0.0, tolerance_used=0.0),
        row("labels", "samples", whole_numbers=True, differing=3, passed=False),
        row("shares", "samples", whole_numbers=True, differing=3, ties=27, allowed_differing_share=0.01),
        row("output0", "random", max_abs_error=375.0, max_rel_error=375.2, tolerance_used=1.52e8, passed=False),
        row("chances", "random", non_finite_mismatches=2, passed=False),
        row("shape", "random", max_abs_error=None, max_rel_error=None, tolerance_used=None, passed=False),
    ],
    "failures": ["'labels' on samples: 3 of 400 labels differ, want 0.00% at most; at [0, 7] the kernel gives 3"],
    "notes": ["'proto' saw 85 of 256 values in random buffers: it holds few numbers beside large ones"],
    "kernel_ms_measured": 0.238,
    "onnxruntime_ms_measured": 1.3,
}


@pytest.mark.parametrize("width", [80, 120, 200])
def test_the_verdict_reads_so(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    golden.check(f"verified_tail_{width}", tail_text(TAIL))


KERNELS: list[dict[str, Any]] = [
    {
        "kernel": "AnchoredYoloPostamble",
        "postamble": {"fused_kernel": "AnchoredYoloPostamble", "num_classes": 80},
        "python": "Postamble(fused_kernel='AnchoredYoloPostamble', num_classes=80)",
        "origins": {"num_classes": "the labels of the file"},
        "missing": {"anchors": "(w, h) pairs in pixels from the model's configuration"},
    },
    {
        "kernel": "DenseHeadPostamble",
        "postamble": {"fused_kernel": "DenseHeadPostamble", "outputs": [["box", 4]], "join": False},
        "python": "Postamble(fused_kernel='DenseHeadPostamble', outputs=[['box', 4]], join=False)",
        "origins": {"outputs": "a family of the kernel's manual: check it"},
        "missing": {},
    },
]


def test_kernels_that_fit_read_so() -> None:
    golden.check("kernels", "\n".join([*kernel_lines("my model.axm", KERNELS), *kernel_lines("m.axm", KERNELS[1:])]))


def test_no_kernel_is_no_line() -> None:
    assert kernel_lines("m.axm", []) == []


def test_a_postamble_is_written_with_its_kernel_first_also_where_json_sorted_its_keys() -> None:
    sorted_keys = {"decoded": False, "fused_kernel": "UltraFacePostamble", "name": "tail"}
    assert written(sorted_keys) == "UltraFacePostamble,decoded=false,name=tail"
