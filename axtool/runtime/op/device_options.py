"""How a model wants to be run on a device: what `op.load` is given for the scheduler and the board, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from axtool.runtime.device_config import DeviceConfig

MOST_CORES = 1 << 16
MOST_BATCH = 1 << 16


@dataclass(frozen=True)
class DeviceOptions:
    """`core_allocation`: None for an equal share of the cores, so many of them, or '50%' of what is left.
    `batch`: the frames that a core runs in a row while another model waits for it; None leaves it to the scheduler.
    Neither changes the bits.
    `device_config`: settings of boards by board model.
    `engine`, `threads` and `isa` are of the simulated cores.

    Raises TypeError and ValueError, naming the option, for what is none.
    """

    core_allocation: int | str | None = None
    batch: int | None = None
    device_config: DeviceConfig | None = None
    engine: str = "native"
    threads: int = 1
    isa: str = "auto"

    def __post_init__(self) -> None:
        _check_allocation(self.core_allocation)
        if self.batch is not None:
            _check_whole("batch", self.batch, "the frames that a core runs in a row", MOST_BATCH)
        if self.device_config is not None and not isinstance(self.device_config, DeviceConfig):
            raise TypeError(
                f"device_config is a {type(self.device_config).__name__}, want a DeviceConfig: "
                "DeviceConfig({'110m': BoardConfig(mvm_limitation=90)})"
            )
        if isinstance(self.threads, bool) or not isinstance(self.threads, int):
            raise TypeError(f"threads is a {type(self.threads).__name__}, want a whole number")

    def to_dict(self) -> dict[str, Any]:
        """What a saved pipeline keeps, as plain values: what is no default and not of the simulation alone."""
        made: dict[str, Any] = {}
        if self.core_allocation is not None:
            made["core_allocation"] = self.core_allocation
        if self.batch is not None:
            made["batch"] = self.batch
        if self.device_config is not None:
            made["device_config"] = {board: settings.said() for board, settings in self.device_config.boards.items()}
        return made

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any], *, engine: str = "native", threads: int = 1) -> DeviceOptions:
        """What `to_dict` wrote; other keys of the entry are not looked at. Raises as the class."""
        known = {key: entry[key] for key in ("core_allocation", "batch") if key in entry}
        boards = entry.get("device_config")
        if boards is not None:
            if not isinstance(boards, dict) or not all(isinstance(fields, dict) for fields in boards.values()):
                raise ValueError(f"device_config is {boards!r}, want a table of tables")
            known["device_config"] = DeviceConfig.from_dict(boards)
        return cls(**known, engine=engine, threads=threads)


def _check_allocation(value: object) -> None:
    """Raise for what is no allocation of cores."""
    wanted = "want a number of cores, a share of them as '50%', or None for an equal share"
    if value is None:
        return
    if isinstance(value, str):
        found = re.fullmatch(r"\s*([0-9]{1,3})\s*%\s*", value)
        if found is None or not 1 <= int(found[1]) <= 100:
            raise ValueError(f"core_allocation is {value[:40]!r}, {wanted}; a share is 1% to 100%")
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"core_allocation is a {type(value).__name__}, {wanted}")
    _check_whole("core_allocation", value, "a number of cores", MOST_CORES)


def _check_whole(what: str, value: object, meaning: str, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} is a {type(value).__name__}, want a whole number: {meaning}")
    if not 1 <= value <= most:
        raise ValueError(f"{what} is {value}, want {meaning}, 1 to {most:,}")
