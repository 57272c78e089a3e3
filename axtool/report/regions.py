"""Counts of regions by kind  ->  words."""

from __future__ import annotations

from collections.abc import Mapping

from axtool.errors import plural


def in_words(counts: Mapping[str, int]) -> str:
    """As in "39 fp16 linears, 1 fp16 linear of int8, 11 self-attentions"; "" of none."""
    return ", ".join(_several(kind, count) for kind, count in counts.items())


def _several(kind: str, count: int) -> str:
    noun, of, rest = kind.partition(" of ")
    return f"{plural(count, noun)}{of}{rest}"
