"""A model on a board, under its settings  ->  modelled seconds of a frame, and the bytes that bring the model there."""

from __future__ import annotations

from dataclasses import replace
from threading import Lock

from axtool.runtime.device_config import BoardConfig
from axtool.runtime.devices.boards import Board
from axtool.runtime.devices.model import DeviceModel
from axtool.target import Target
from axtool.target_file import target_from_dict
from axtool.timing.clock import time_plan

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
        target = target_under(target_from_dict(model.target, where=model.name), board.clock_hz, settings)
        seconds = time_plan(model.plans[stage], target).latency_s
    with _lock:
        if len(_kept) >= MOST_KEPT:
            del _kept[next(iter(_kept))]
        _kept[key] = seconds
    return seconds


def target_under(target: Target, board_clock_hz: float, settings: BoardConfig | None) -> Target:
    """The chip with its clock changed in the ratio in which `settings.clock` changes that of the board."""
    if settings is None or settings.clock is None:
        return target
    return replace(target, clock_hz=target.clock_hz * settings.clock * 1e6 / board_clock_hz)


def model_bytes(model: DeviceModel) -> int:
    """Bytes that go over the link when a core takes the model: constants and commands."""
    constants = sum(array.nbytes for plan in model.plans for array in plan.program.constants.values())
    return constants + COMMAND_BYTES * sum(len(plan.commands) for plan in model.plans)


def memory_bytes(model: DeviceModel) -> int:
    """Bytes of the board's memory that the model takes on one core: commands, constants, buffers and spilled maps."""
    return sum(int(plan.sizes.get("ext", 0)) + COMMAND_BYTES * len(plan.commands) for plan in model.plans)
