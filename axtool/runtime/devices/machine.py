"""The boards that this process sees: those that AXTOOL_BOARDS names, or one simulated `metis-pcie`.

AXTOOL_BOARDS is a comma-separated list of names in configs/boards or of YAML files; `name*4` is four of them. Boards
are named by the bus they are on, in order: metis-0:1:0, metis-0:2:0, …

Cores are owned by one connection within this process; another process has boards of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import RLock

from axtool.errors import UsageError, located, plural
from axtool.runtime.devices.boards import Board, load_board
from axtool.runtime.devices.remote import RemoteDevice
from axtool.runtime.devices.replay import FRAMES, Recording
from axtool.runtime.devices.seam import Device, DevicesInUse
from axtool.runtime.devices.simulated import SimulatedDevice

ENVIRONMENT = "AXTOOL_BOARDS"
DEFAULT = "metis-pcie"
MOST_BOARDS = 64

Replay = bool | int | str | Path | None  # True: a few frames of each model; a number of them; a file of outputs

_lock = RLock()  # a signal handler may ask for the boards while they are made
_stack: list[Machine] = []
_generation = 0


class Machine:
    """Some boards, by name. `recording` is what they give again where they replay."""

    devices: tuple[SimulatedDevice | RemoteDevice, ...]

    def __init__(self, boards: Sequence[Board], *, realtime: bool = False, recording: Recording | None = None) -> None:
        self._boards, self._realtime, self.recording = tuple(boards), realtime, recording
        self.renew()

    def renew(self) -> None:
        """The same boards as nobody has ever used them."""
        self.devices = tuple(
            _made(board, f"{board.prefix}-0:{bus}:0", realtime=self._realtime, recording=self.recording)
            for bus, board in enumerate(self._boards, 1)
        )

    def __getitem__(self, name: str) -> SimulatedDevice | RemoteDevice:
        """The device of that name, for tests that break it. Raises KeyError."""
        return {device.info.name: device for device in self.devices}[name]


def devices() -> tuple[Device, ...]:
    """The boards of this process, in the order of their indices. Raises UsageError where AXTOOL_BOARDS is wrong."""
    with _lock:
        return _current().devices


def generation() -> int:
    """A number that grows whenever the boards change: what was made for older ones has lost them."""
    return _generation


@contextmanager
def simulated(
    boards: str | Sequence[str | Path] | None = None, *, realtime: bool = False, replay: Replay = None
) -> Iterator[Machine]:
    """These boards instead of those before, for the whole process, until the block is left. Blocks nest.

    `boards` as AXTOOL_BOARDS; None for those that it names. `realtime` paces each core and link as modelled. With
    `replay` the first frames of each model (so many of them, True for a few) are computed once, and come again instead
    of being computed; with a file, those in it come, and nothing is computed.

    What is connected when the block is left loses its boards. Raises DevicesInUse while cores of the boards before are
    connected, UsageError for boards that do not exist.
    """
    machine = make(boards, realtime=realtime, replay=replay)
    _enter(machine)
    try:
        yield machine
    finally:
        _leave(machine)


def make(boards: str | Sequence[str | Path] | None = None, *, realtime: bool = False, replay: Replay = None) -> Machine:
    """A machine of these boards that nobody sees yet. Raises UsageError."""
    recording = None
    if isinstance(replay, (str, Path)):
        recording = Recording.of_file(Path(replay))
    elif replay is not None and replay is not False:
        recording = Recording(FRAMES if replay is True else replay)
    if boards is not None:
        return Machine(boards_of(boards), realtime=realtime, recording=recording)
    named = os.environ.get(ENVIRONMENT, "").strip()
    with located(f"environment variable {ENVIRONMENT}") if named else nullcontext():
        return Machine(boards_of(named or DEFAULT), realtime=realtime, recording=recording)


def boards_of(boards: str | Sequence[str | Path]) -> list[Board]:
    """The boards of a list such as AXTOOL_BOARDS holds. Raises UsageError, TypeError."""
    if not isinstance(boards, (str, list, tuple)):
        raise TypeError(f"boards is a {type(boards).__name__}, want a text such as 'metis-pcie*4', or a list")
    parts = boards.split(",") if isinstance(boards, str) else [str(part) for part in boards] or [""]
    found: list[Board] = []
    for part in parts:
        name, star, times = (text.strip() for text in part.partition("*"))
        if not name or (star and not (times.isascii() and times.isdigit() and int(times[:9]) > 0)):
            raise UsageError(
                f"'{part.strip()}' is no board", hint="metis-pcie, metis-pcie*4 or a YAML file, with commas between",
                code="unknown-board",
            )  # fmt: skip
        number = int(times) if star and len(times) < 9 else (MOST_BOARDS + 1 if star else 1)
        if len(found) + number > MOST_BOARDS:
            raise UsageError(f"more than {plural(MOST_BOARDS, 'board')}", hint="want fewer", code="unknown-board")
        found += [load_board(name)] * number
    return found


def _made(board: Board, name: str, *, realtime: bool, recording: Recording | None) -> SimulatedDevice | RemoteDevice:
    kind = RemoteDevice if board.runs == "process" else SimulatedDevice
    return kind(board, name, realtime=realtime, recording=recording)


def _current() -> Machine:
    """The lock is held."""
    if not _stack:
        _stack.append(make())
    return _stack[-1]


def _enter(machine: Machine) -> None:
    global _generation
    with _lock:
        taken = [
            f"{device.info.name} ({device.info.cores - device.available()} of {device.info.cores} cores)"
            for device in (_stack[-1].devices if _stack else ())
            if device.available() < device.info.cores
        ]
        if taken:
            raise DevicesInUse(
                f"the boards cannot change while cores are connected: {', '.join(taken)}",
                hint="close the scheduler first: scheduler.current().close(), or leave its block",
            )
        _stack.append(machine)
        _generation += 1


def _leave(machine: Machine) -> None:
    global _generation
    with _lock:
        _stack.remove(machine)
        _generation += 1
    for device in machine.devices:
        device.vanish()


def _after_fork() -> None:
    """A child has boards of its own: threads of its parent that hold cores, or locks, are not in it."""
    global _lock, _generation
    _lock = RLock()
    _generation += 1
    for machine in _stack:
        machine.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
