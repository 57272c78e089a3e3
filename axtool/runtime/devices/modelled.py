"""A model on a board, under its settings  ->  modelled seconds of a frame, and the bytes that bring the model there."""

from __future__ import annotations

from threading import Lock

from axtool.runtime.device_config import BoardConfig
from axtool.runtime.devices.boards import Board
from axtool.runtime.devices.model import DeviceModel
from axtool.runtime.devices.settings import frame_seconds
from axtool.target_file import target_from_dict

COMMAND_BYTES = 64  # of a program on the chip: a command is one line of external memory
MOST_KEPT = 4096  # frame times, of 100 bytes each

_kept: dict[tuple[object, ...], float | None] = {}
_lock = Lock()


def frame_s(model: DeviceModel, stage: int, board: Board, settings: BoardConfig | None) -> float | None:
    """Modelled seconds of one frame of a stage on one core; None for a model that does not say what its chip is."""
    key = (model.key, stage, board.clock_hz, settings)
    with _lock:
        if key in _kept:
            return _kept[key]
    seconds = None
    if model.target:
        target = target_from_dict(model.target, where=model.name)
        (seconds,) = frame_seconds([model.plans[stage]], target, board.clock_hz, settings)
    with _lock:
        if len(_kept) >= MOST_KEPT:
            del _kept[next(iter(_kept))]
        _kept[key] = seconds
    return seconds


def model_bytes(model: DeviceModel) -> int:
    """Bytes that go over the link when a core takes the model: constants and commands."""
    constants = sum(array.nbytes for plan in model.plans for array in plan.program.constants.values())
    return constants + COMMAND_BYTES * sum(len(plan.commands) for plan in model.plans)
