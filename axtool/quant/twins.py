"""Samples  ->  a few bytes each: by them a sample that calibrated a model is known again wherever it comes from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from axtool.quant.data import DataFacts

MOST = 512  # samples that a file keeps
BYTES = 8


def fingerprint(feeds: Mapping[str, NDArray[Any]]) -> str:
    """Of one sample, prepared as it is fed."""
    facts = DataFacts()
    facts.add(0, feeds)
    return fingerprints(facts)[0]


def fingerprints(facts: DataFacts) -> tuple[str, ...]:
    """Of all samples in their order, or of `MOST` evenly spread ones."""
    samples: dict[int, list[str]] = {}
    for index, name in sorted(facts.facts):
        samples.setdefault(index, []).append(f"{name}\0{facts.facts[index, name].digest.hex()}")
    rows = list(samples.values())
    kept = rows if len(rows) <= MOST else [rows[at * len(rows) // MOST] for at in range(MOST)]
    return tuple(hashlib.blake2b("\0".join(row).encode(), digest_size=BYTES).hexdigest() for row in kept)
