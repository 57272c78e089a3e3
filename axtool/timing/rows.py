"""What each layer did and what it was charged -> its row of the timing, with what bound it in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from axtool.ops.encoding import FIELDS
from axtool.ops.moves import COPIES, GATHERS
from axtool.target import Target
from axtool.timing.array import array_fills, peak_macs
from axtool.timing.cost import CostModel
from axtool.timing.energy import relative_energy
from axtool.timing.lanes import ENGINES, LANES, TRANSFERS
from axtool.timing.ledger import CATEGORIES, CAUSES, LayerTime, explained, mib, share, words
from axtool.timing.sweep import Charges, totals
from axtool.types import Layer, Program


@dataclass
class Account:
    """What the commands of one layer have done so far. Bytes of external and near memory are those of transfers."""

    macs: int = 0
    port_bytes: int = 0
    read_bytes: int = 0
    near_bytes: int = 0
    write_bytes: int = 0
    commands: int = 0


def layer_rows(costs: CostModel, accounts: Sequence[Account], charges: Charges) -> tuple[LayerTime, ...]:
    """One row a layer, in order; a layer without commands has zeros."""
    return tuple(_row(costs, at, account, charges) for at, account in enumerate(accounts))


def _row(costs: CostModel, at: int, account: Account, charges: Charges) -> LayerTime:
    program, target = costs.program, costs.target
    layer, busy = program.layers[at], totals(LANES, charges.busy[at])
    ledger = totals(CATEGORIES, charges.ledger[at])
    total, peak, macs = sum(ledger.values()), peak_macs(target), costs.macs(at)
    external = account.read_bytes + account.write_bytes
    used = share(account.macs, busy["mac"] * peak * costs.saved(at))
    amounts = {
        "mac": f"{used} of it in use",
        "compute": _busy(layer, program, target),
        "data_ocm": _moved(layer, target, account.port_bytes, busy["port"]),
        "dma read": f"{mib(account.read_bytes)} at {target.read_bytes_per_cycle:.1f} B/cycle",
        "dma write": f"{mib(account.write_bytes)} at {target.write_bytes_per_cycle:.1f} B/cycle",
        "near read": f"{mib(account.near_bytes)} at {target.memory.near_bytes_per_cycle or 0:.1f} B/cycle",
    }
    causes, waits = totals(CAUSES, charges.causes[at]), totals(TRANSFERS, charges.waits[at])
    return LayerTime(
        index=at,
        name=layer.name or layer.outputs[0],
        op=layer.op,
        origin=layer.origin,
        ledger=ledger,
        causes=causes,
        macs=macs,
        read_bytes=account.read_bytes,
        write_bytes=account.write_bytes,
        utilisation=macs / (total * peak) if total else 0.0,
        bound=words(*_binding(target, ledger, waits, busy), amounts),
        commands=account.commands,
        near_bytes=account.near_bytes,
        custom=layer.op not in FIELDS,
        energy=relative_energy(target, account.macs, account.port_bytes, account.near_bytes, external),
        reasons=explained(ledger, waits, causes, amounts),
    )


def _binding(
    target: Target, ledger: Mapping[str, int], waits: Mapping[str, int], busy: Mapping[str, int]
) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """The cycles of which the most bind a layer, by category, and those of transfers by lane.

    Where engines take turns, those that are charged. Pipelined engines hide behind each other in the ledger: there it
    is the queue with the most work, and reads and writes are one queue where they share a path.
    """
    if not target.engines.pipelined:
        return ledger, waits
    transfers = {name: busy[name] for name in TRANSFERS}
    reads, near, writes = transfers.values()
    external = max(reads, near, writes) if target.external.duplex else max(reads + writes, near)
    return {**{LANES[name]: busy[name] for name in ENGINES}, "data_external": external}, transfers


def _moved(layer: Layer, target: Target, port_bytes: int, cycles: int) -> str:
    """What crossed the on-chip port, and how fast: ops that only move data are slower than the port."""
    moves = layer.op in (*COPIES, *GATHERS)
    rate = port_bytes / cycles if moves and cycles else target.memory.ocm_bytes_per_cycle
    return f"{mib(port_bytes)} at {rate:.3g} B/cycle"


def _busy(layer: Layer, program: Program, target: Target) -> str:
    """How many of the array's elements have an output pixel, on average over the tiles that the layer fills."""
    array = target.array
    _, h, w, _ = program.tensors[layer.outputs[0]].shape
    elements = array_fills(array, h, w) * array.rows * array.columns
    return f"{share(h * w, elements)} of the elements"
