"""The operators of pipelines: classes (`op.DecodeDetections`) and their snake_case names (`op.decode_detections`)."""

from __future__ import annotations

from typing import Any

from axtool.runtime.op.combinators import Constant, ForEach, Identity, Itemgetter, Pack, Par, Seq, Unpack
from axtool.runtime.op.operator import Operator, registered

seq, par, unpack, pack, itemgetter, identity = Seq, Par, Unpack, Pack, Itemgetter, Identity
constant, for_each = Constant, ForEach

__all__ = [
    "Constant", "ForEach", "Identity", "Itemgetter", "Operator", "Pack", "Par", "Seq", "Unpack",
    "constant", "for_each", "identity", "itemgetter", "pack", "par", "seq", "unpack",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """An operator that was registered after this module: one of the user's own, by its snake_case name."""
    found = registered(name)
    if found is None:
        raise AttributeError(f"there is no operator '{name}'")
    return found
