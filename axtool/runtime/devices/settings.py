"""Board settings  ->  what they change: the chip that a model is timed on, and the room that it has on the board.

Times are modelled. Settings never change the bits of a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from axtool.errors import FitError
from axtool.runtime.device_config import BadDeviceConfig, BoardConfig
from axtool.target import Target
from axtool.timing.clock import time_plan
from axtool.types import Plan

MHZ = 1e6


def target_under(target: Target, board_clock_hz: float, settings: BoardConfig | None) -> Target:
    """The chip with another clock and a matrix unit that may be busy `mvm_limitation` percent of the time.

    A board runs a chip at the clock of its file while its own is `board_clock_hz`, as it is made: half of that clock is
    half of the chip's. What a target file counts in cycles of the core stays in cycles. External memory has its own
    clock: its bytes a second and the time of its latency stay. A depthwise unit of its own and the vector unit are not
    limited.
    """
    settings = settings or BoardConfig()
    ratio = 1.0 if settings.clock is None else settings.clock * MHZ / board_clock_hz
    duty = target.array.duty * (100 if settings.mvm_limitation is None else settings.mvm_limitation) / 100
    latency = target.external.latency_cycles
    return replace(
        target,
        clock_hz=target.clock_hz * ratio,
        array=replace(target.array, duty=duty),
        external=replace(target.external, latency_cycles=latency if ratio == 1 else ceil(latency * ratio)),
    )


def frame_seconds(
    plans: Sequence[Plan], target: Target, board_clock_hz: float, settings: BoardConfig | None
) -> tuple[float, ...]:
    """Modelled seconds of one frame of each device stage on one core, under the settings of its board."""
    chip = target_under(target, board_clock_hz, settings)
    return tuple(time_plan(plan, chip).latency_s for plan in plans)


def resident_bytes(plans: Sequence[Plan]) -> int:
    """Bytes of a board's memory that a model needs on each core: constants, and what a frame keeps beside the chip."""
    return sum(int(plan.sizes.get("ext", 0)) for plan in plans)


def require_room(
    name: str, needed: int, taken: int, memory_bytes: int, settings: BoardConfig | None, board: str
) -> None:
    """Raise FitError where `needed` bytes of a model do not fit a board's memory beside the `taken` ones.

    `ddr_size` opens so much of it to the models; without it they have it all.
    """
    window_bytes = None if settings is None else settings.ddr_size
    room = memory_bytes if window_bytes is None else min(window_bytes, memory_bytes)
    if taken + needed <= room:
        return
    window = "" if window_bytes is None else f", ddr_size opens {room:,} of its {memory_bytes:,} bytes"
    beside = f" beside {taken:,} of other models" if taken else ""
    raise FitError(
        f"'{name}' needs {needed:,} bytes of the board's memory{beside}; it has {room:,}{window}",
        where=board,
        hint=f"a ddr_size of at least {taken + needed:,} is enough"
        if taken + needed <= memory_bytes
        else "use a board with more memory, fewer cores, or fewer models at a time",
        code="board-memory",
    )


def require_settings(settings: BoardConfig | None, board: str, clocks_mhz: Sequence[int], memory_bytes: int) -> None:
    """Raise BadDeviceConfig, a ValueError, for a clock that a board does not have or more memory than there is.

    `clocks_mhz` empty: the board runs at any clock.
    """
    settings = settings or BoardConfig()
    faults, hints = [], []
    if settings.clock is not None and clocks_mhz and settings.clock not in clocks_mhz:
        faults.append(f"clock {settings.clock:,} MHz is none of the board's")
        hints.append(f"it has {', '.join(f'{clock:,}' for clock in sorted(clocks_mhz))} MHz")
    if settings.ddr_size is not None and settings.ddr_size > memory_bytes:
        faults.append(f"ddr_size {settings.ddr_size:,} bytes is more than the board has")
        hints.append(f"it has {memory_bytes:,} bytes")
    if faults:
        raise BadDeviceConfig("; ".join(faults), where=board, hint="; ".join(hints))
