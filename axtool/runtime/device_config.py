"""`DeviceConfig`: settings of boards, by board model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class BoardConfig:
    """Settings of one model of board; None leaves the board as it is.

    `clock` in MHz, `ddr_size` in bytes, `mvm_limitation` in percent of what the matrix unit can do.
    """

    clock: int | None = None
    ddr_size: int | None = None
    mvm_limitation: float | None = None


@dataclass(frozen=True)
class DeviceConfig:
    """A BoardConfig for each board model that it names, as {'110m': BoardConfig(mvm_limitation=90)}."""

    boards: Mapping[str, BoardConfig]
