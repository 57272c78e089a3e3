"""Quadric Chimera QC-U: DETR-R101, SegFormer-B0 and the datasheet's operator kernels."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.validation import chimera_detr
from benchmarks.validation.rows import LeftOut, Row, Rule

TITLE = "Quadric Chimera QC-U"
TARGETS = ("qc-u-1d5-8mb", "qc-u-1d7-16mb")
ABOUT = """
Two notebooks of Quadric print the profile of an instruction-set simulator, which the datasheet says is within 5 % of
the hardware: DETR-R101 at 750 x 800 on a QC-U of 1.5 GHz, SegFormer-B0 at 256 x 512 on one of 1.7 GHz.
"""
WRONG = (
    "DETR's transformer does not run on the device yet: what the whole frame takes is not compared, only shown beside "
    "the backbone.",
)


def rows() -> list[Row]:
    """Every figure."""
    return chimera_detr.rows()


def rules(rows: Sequence[Row]) -> list[Rule]:
    """Nothing is asked of sets as a whole."""
    return []


def leave_one_out() -> list[LeftOut]:
    """Nothing is refitted."""
    return []
