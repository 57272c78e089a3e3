"""The lanes of a frame -> what each cycle is charged to: an exclusive ledger for each layer.

Time is cut where any lane changes. A piece belongs to the first busy lane of the order of `LANES`, and to the layer
that the lane works for. So a wait for a transfer is charged to the layer whose bytes are on their way: constants that
come early and are late all the same are their own layer's, not that of the layer in front.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from axtool.timing.lanes import ENGINES, LANES, TRANSFERS, Lane
from axtool.timing.ledger import CATEGORIES, CAUSES

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Charges:
    """Cycles by layer (rows): of each category, of each cause of `other`, of each transfer lane that alone was busy.

    `busy` has those of every lane, whatever else ran.
    """

    ledger: Ints  # (layers, len(CATEGORIES))
    causes: Ints  # (layers, len(CAUSES))
    waits: Ints  # (layers, len(TRANSFERS))
    busy: Ints  # (layers, len(LANES))


@dataclass(frozen=True)
class _Spans:
    """The spans of one lane as arrays, in order of time."""

    starts: Ints
    ends: Ints
    layers: Ints
    causes: Ints


def sweep(lanes: Mapping[str, Lane], layers: int) -> Charges:
    """Charge every cycle from 0 to the end of the last span once; a cycle in which no lane is busy is a bug."""
    spans = {name: _arrays(lane) for name, lane in lanes.items() if lane.starts}
    columns = (CATEGORIES, CAUSES, TRANSFERS, LANES)
    charges = Charges(*(np.zeros((layers, len(names)), np.int64) for names in columns))
    if not spans:
        return charges
    cuts = np.unique(np.concatenate([[0], *(s.starts for s in spans.values()), *(s.ends for s in spans.values())]))
    lane_of, layer_of, cause_of = _owners(spans, cuts)
    lengths = np.diff(cuts)
    assert (lane_of >= 0).all(), f"nothing runs from cycle {cuts[:-1][lane_of < 0][0]} on"
    names = list(LANES)
    for name, lane in spans.items():
        np.add.at(charges.busy[:, names.index(name)], lane.layers, lane.ends - lane.starts)
    category = np.array([CATEGORIES.index(LANES[name]) for name in names])[lane_of]
    np.add.at(charges.ledger, (layer_of, category), lengths)
    control, transfer = lane_of == names.index("control"), lane_of >= len(ENGINES)
    np.add.at(charges.causes, (layer_of[control], cause_of[control]), lengths[control])
    np.add.at(charges.waits, (layer_of[transfer], lane_of[transfer] - len(ENGINES)), lengths[transfer])
    return charges


def _arrays(lane: Lane) -> _Spans:
    return _Spans(*(np.array(values, np.int64) for values in (lane.starts, lane.ends, lane.layers, lane.causes)))


def _owners(spans: Mapping[str, _Spans], cuts: Ints) -> tuple[Ints, Ints, Ints]:
    """For each piece between two cuts the first busy lane of the order, its layer and its cause; -1 where none is."""
    lane_of, layer_of, cause_of = (np.full(len(cuts) - 1, -1, np.int64) for _ in range(3))
    for number, name in reversed(list(enumerate(LANES))):
        if name not in spans:
            continue
        lane = spans[name]
        begin, end = np.searchsorted(cuts, lane.starts), np.searchsorted(cuts, lane.ends)
        counts = end - begin
        which = np.repeat(np.arange(len(counts)), counts)
        pieces = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + begin[which]
        lane_of[pieces], layer_of[pieces], cause_of[pieces] = number, lane.layers[which], lane.causes[which]
    return lane_of, layer_of, cause_of


def totals(names: Iterable[str], row: Ints) -> dict[str, int]:
    """One row of charges by name."""
    return {name: int(cycles) for name, cycles in zip(names, row, strict=True)}
