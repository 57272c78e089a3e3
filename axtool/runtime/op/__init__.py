"""The operators of pipelines: classes (`op.DecodeDetections`) and their snake_case names (`op.decode_detections`)."""

from __future__ import annotations

from typing import Any

from axtool.runtime.op.operator import Operator, registered

__all__ = ["Operator"]


def __getattr__(name: str) -> Any:
    """An operator that was registered after this module: one of the user's own, by its snake_case name."""
    found = registered(name)
    if found is None:
        raise AttributeError(f"there is no operator '{name}'")
    return found
