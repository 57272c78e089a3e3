"""Timings of a compiled model  ->  the profile as one JSON document. All of it is modelled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from axtool.report.profile import Profiled, Stage
from axtool.report.units import header
from axtool.timing.ledger import CATEGORIES

SUMS = ("cycles", "macs", "read_bytes", "write_bytes", "near_bytes", "spilled_bytes")  # of layers, that add up
# What a layer's own figures are taken from; the rest of a row is worked out here.
TAKEN = (
    "index", "name", "op", "origin", "cycles", "ledger_cycles", "other_cycles", "macs", "mac_utilisation", "read_bytes",
    "write_bytes", "near_bytes", "bound", "reasons", "commands", "custom",
)  # fmt: skip


def profile_document(model: str, profiled: Profiled) -> dict[str, Any]:
    """Totals and layers over all device stages, in order.

    Every core works on a frame of its own: `latency_ms` is that of one frame, `frames_per_s` of all cores together.
    """
    timings = profiled.timings
    peak = timings[0].peak_macs_per_cycle
    layers = [row for number, stage in enumerate(profiled.stages) for row in _rows(number, stage, peak)]
    cycles = sum(timing.total for timing in timings)
    for row in layers:
        row["share"] = row["cycles"] / max(cycles, 1)
    one_core = timings[0].clock_hz / cycles if cycles else None
    energies = [row["energy_relative"] for row in layers]
    reads, writes = (sum(row[key] for row in layers) for key in ("read_bytes", "write_bytes"))
    ledger = {name: sum(timing.ledger[name] for timing in timings) for name in CATEGORIES}
    macs = sum(timing.macs for timing in timings)
    return {
        **header("profile"),
        "model": model,
        "modelled": True,
        "target": profiled.target.name,
        "clock_hz": timings[0].clock_hz,
        "cores": profiled.target.cores,
        "cycles": cycles,
        "latency_ms": sum(timing.latency_s for timing in timings) * 1e3,
        "frames_per_s": None if one_core is None else one_core * profiled.target.cores,
        "frames_per_s_per_core": one_core,
        "host_nodes": profiled.host_nodes,
        "macs": macs,
        "peak_macs_per_cycle": peak,
        "mac_utilisation": used(macs, cycles, peak),
        "mac_cycles_utilisation": used(macs, ledger["mac"], peak),
        "mac_utilisation_outside_custom": used(sum(row["macs"] for row in layers if not row["custom"]), cycles, peak),
        "energy_relative": None if None in energies else sum(energies),
        "ledger_cycles": ledger,
        "other_cycles": {name: sum(timing.causes[name] for timing in timings) for name in timings[0].causes},
        "peak_ocm_bytes": max(timing.peak_ocm_bytes for timing in timings),
        "ocm_bytes": timings[0].ocm_bytes,
        "peak_lrm_bytes": max(stage.peak_lrm_bytes for stage in profiled.stages),
        "lrm_bytes_per_pe": profiled.target.memory.lrm_bytes_per_pe,
        "feed_forward_blocks": sum(len(stage.feed_forward) for stage in profiled.stages),
        "feed_forward_macs": sum(_feed_forward_macs(stage) for stage in profiled.stages),
        "external_read_bytes": reads,
        "external_write_bytes": writes,
        "external_bytes": reads + writes,
        "near_bytes": sum(row["near_bytes"] for row in layers),
        "spilled_bytes": sum(row["spilled_bytes"] for row in layers),
        "peak_spilled_bytes": max(stage.peak_spilled_bytes for stage in profiled.stages),
        "exceeded": [],
        "layers": layers,
    }


def used(macs: float, cycles: float, peak: float) -> float:
    """The part of the MAC array's peak that `macs` in so many cycles are."""
    return macs / (cycles * peak) if cycles else 0.0


def largest(ledger: Mapping[str, int]) -> str:
    """The category with the most cycles; - where there are none."""
    name = max(CATEGORIES, key=lambda category: ledger[category])
    return name if ledger[name] else "-"


def _feed_forward_macs(stage: Stage) -> int:
    return sum(stage.timing.layers[at].macs for block in stage.feed_forward for at in block)


def _rows(number: int, stage: Stage, peak: float) -> list[dict[str, Any]]:
    layers = stage.timing.to_dict()["layers"]
    return [
        {
            "stage": number,
            **{key: layer[key] for key in TAKEN},
            "segment": segment,
            "group": group,
            "spilled_bytes": out,
            "energy_relative": layer["energy"],
            "mac_cycles_utilisation": used(layer["macs"], layer["ledger_cycles"]["mac"], peak),
        }
        for layer, segment, group, out in zip(layers, stage.segments, stage.groups, stage.spilled_bytes, strict=True)
    ]
