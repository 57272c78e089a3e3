"""What a layer moves -> its relative energy, by the weights that the target gives an access of 32 bits.

Registers: an accumulator is updated once for each step of a processing element, that is for `input_channels` products.
Local memory: each product reads one byte of an activation, and every byte that crosses the on-chip port is written to
or read from local memory. On-chip memory: bytes of the port, and of every transfer that fills or empties it. External
memory: bytes of its transfers. Idle elements, control and leakage are not in it.
"""

from __future__ import annotations

from axtool.target import Target

ACCESS_BYTES = 4


def relative_energy(target: Target, macs: int, port_bytes: int, near_bytes: int, external_bytes: int) -> float | None:
    """The energy of so many products and bytes, in the unit of the target's weights; None where it gives none."""
    energy = target.energy
    if energy is None:
        return None
    on_chip = port_bytes + near_bytes + external_bytes
    return (
        energy.registers * macs / target.array.input_channels
        + energy.lrm * (macs + port_bytes) / ACCESS_BYTES
        + energy.on_chip * on_chip / ACCESS_BYTES
        + energy.external * external_bytes / ACCESS_BYTES
    )
