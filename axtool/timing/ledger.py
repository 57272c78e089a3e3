"""The result of timing: every cycle of the critical path in exactly one category, by layer and in all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from axtool.types import Event

CATEGORIES = ("mac", "compute", "data_array", "data_ocm", "data_external", "other")
CAUSES = ("entry", "fence", "drain")  # what `other` is made of
MIB = 2**20
# What a category, and a lane of transfers, is called in a sentence.
WORDS: Mapping[str, str] = {
    "mac": "the MAC array",
    "compute": "the ALU",
    "data_array": "transfers inside the array",
    "data_ocm": "the on-chip port",
    "data_external": "external memory",
    "dma read": "external reads",
    "near read": "reads of near memory",
    "dma write": "external writes",
    "other": "fixed costs (entry, fence, drain)",
}


@dataclass(frozen=True, slots=True)
class LayerTime:
    """The ledger of one layer, in cycles; `total` is its sum by construction.

    Bytes read and written are of external memory; `near_bytes` are constants read from the memory beside the core.
    `energy` is relative, in the unit of the target's weights (see `axtool.timing.energy`).
    """

    index: int
    name: str
    op: str
    origin: tuple[str, ...]
    ledger: Mapping[str, int]
    causes: Mapping[str, int]
    macs: int
    read_bytes: int
    write_bytes: int
    utilisation: float  # of the MAC array's peak, over all cycles; above 1 where Winograd saves products
    bound: str
    commands: int
    near_bytes: int = 0
    custom: bool = False  # an op that is no built-in one
    energy: float | None = None  # None: the target gives no weights
    reasons: Mapping[str, str] = field(default_factory=dict)  # of every category that has cycles, in words

    @property
    def total(self) -> int:
        return sum(self.ledger.values())


@dataclass(frozen=True)
class Timing:
    """A plan on one core of a chip: layers in order, and the events that a trace shows, one lane for each engine."""

    target: str
    clock_hz: float
    peak_macs_per_cycle: float
    peak_ocm_bytes: int
    ocm_bytes: int
    layers: tuple[LayerTime, ...]
    events: tuple[Event, ...] = field(default=(), repr=False)
    cores: int = 1

    @property
    def total(self) -> int:
        """Cycles of one frame."""
        return sum(layer.total for layer in self.layers)

    @property
    def ledger(self) -> dict[str, int]:
        """Cycles by category, over all layers."""
        return {name: sum(layer.ledger[name] for layer in self.layers) for name in CATEGORIES}

    @property
    def causes(self) -> dict[str, int]:
        """What `other` is made of, over all layers."""
        return {name: sum(layer.causes[name] for layer in self.layers) for name in CAUSES}

    @property
    def macs(self) -> int:
        return sum(layer.macs for layer in self.layers)

    @property
    def read_bytes(self) -> int:
        return sum(layer.read_bytes for layer in self.layers)

    @property
    def write_bytes(self) -> int:
        return sum(layer.write_bytes for layer in self.layers)

    @property
    def near_bytes(self) -> int:
        return sum(layer.near_bytes for layer in self.layers)

    @property
    def latency_s(self) -> float:
        """Of one frame on one core, with the core's part of the bandwidths that the cores share."""
        return self.total / self.clock_hz

    @property
    def frames_per_s_per_core(self) -> float:
        """Frames that one core finishes, one after the other."""
        return self.clock_hz / self.total if self.total else 0.0

    @property
    def frames_per_s(self) -> float:
        """Frames of all cores, each at work on one of its own."""
        return self.cores * self.frames_per_s_per_core

    @property
    def utilisation(self) -> float:
        """The part of the MAC array's peak that the frame uses: all products over all cycles."""
        return self._used(self.macs)

    @property
    def utilisation_outside_custom(self) -> float:
        """The same without the products of custom ops, still over all cycles."""
        return self._used(sum(layer.macs for layer in self.layers if not layer.custom))

    @property
    def energy(self) -> float | None:
        """Relative energy of a frame; None where the target gives no weights."""
        known = [layer.energy for layer in self.layers if layer.energy is not None]
        return sum(known) if known else None

    def _used(self, macs: int) -> float:
        return macs / (self.total * self.peak_macs_per_cycle) if self.total else 0.0

    @property
    def bound(self) -> str:
        """The category with the most cycles, in words."""
        return words(self.ledger)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, units in the names."""
        return {
            "target": self.target,
            "clock_hz": self.clock_hz,
            "cycles": self.total,
            "ledger_cycles": self.ledger,
            "other_cycles": self.causes,
            "latency_ms": self.latency_s * 1e3,
            "cores": self.cores,
            "frames_per_s": self.frames_per_s,
            "frames_per_s_per_core": self.frames_per_s_per_core,
            "macs": self.macs,
            "mac_utilisation": self.utilisation,
            "mac_utilisation_outside_custom": self.utilisation_outside_custom,
            "read_bytes": self.read_bytes,
            "write_bytes": self.write_bytes,
            "near_bytes": self.near_bytes,
            "energy": self.energy,
            "peak_ocm_bytes": self.peak_ocm_bytes,
            "ocm_bytes": self.ocm_bytes,
            "bound": self.bound,
            "layers": [_layer_dict(layer) for layer in self.layers],
        }


def words(
    ledger: Mapping[str, int], waits: Mapping[str, int] | None = None, amounts: Mapping[str, str] | None = None
) -> str:
    """What bound a ledger: its largest category. `waits` splits external cycles by what was waited for."""
    category = max(CATEGORIES, key=lambda name: (ledger[name], -CATEGORIES.index(name)))
    if not ledger[category]:
        return "nothing to do"
    if category == "data_external" and waits is not None:
        category = max(waits, key=lambda name: waits[name])
    text = WORDS[category]
    amount = (amounts or {}).get(category, "")
    return f"bound by {text}: {amount}" if amount else f"bound by {text}"


def explained(
    ledger: Mapping[str, int], waits: Mapping[str, int], causes: Mapping[str, int], amounts: Mapping[str, str]
) -> dict[str, str]:
    """Why there are cycles in a category, for each that has any: who was at work, and on how much.

    External cycles are explained by the transfers that were waited for, fixed ones by their causes.
    """
    reasons = {}
    for category in CATEGORIES:
        if not ledger[category]:
            continue
        if category == "other":
            parts = [f"{cause} {cycles:,}" for cause, cycles in causes.items() if cycles]
            reasons[category] = f"fixed costs: {', '.join(parts)}"
            continue
        names = [name for name in waits if waits[name]] if category == "data_external" else []
        reasons[category] = "; ".join(
            f"{WORDS[name]}: {amounts[name]}" if name in amounts else WORDS[name] for name in names or (category,)
        )
    return reasons


def mib(size: float) -> str:
    """Bytes as text in binary units."""
    return f"{size / MIB:.1f} MiB" if size >= MIB / 10 else f"{size / 1024:.1f} KiB"


def share(part: float, whole: float) -> str:
    """A part as per cent: 12 %, 0.35 %."""
    percent = 100 * part / whole if whole else 0.0
    return f"{percent:.0f} %" if percent >= 9.95 else f"{percent:.2g} %"


def _layer_dict(layer: LayerTime) -> dict[str, Any]:
    return {
        "index": layer.index,
        "name": layer.name,
        "op": layer.op,
        "origin": list(layer.origin),
        "cycles": layer.total,
        "ledger_cycles": dict(layer.ledger),
        "other_cycles": dict(layer.causes),
        "macs": layer.macs,
        "mac_utilisation": layer.utilisation,
        "read_bytes": layer.read_bytes,
        "write_bytes": layer.write_bytes,
        "near_bytes": layer.near_bytes,
        "energy": layer.energy,
        "custom": layer.custom,
        "bound": layer.bound,
        "reasons": dict(layer.reasons),
        "commands": layer.commands,
    }
