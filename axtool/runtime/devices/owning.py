"""Who has the cores and the memory of one board, within this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock

from axtool.errors import UsageError, plural
from axtool.runtime.device_config import BoardConfig
from axtool.runtime.devices.boards import Board
from axtool.runtime.devices.model import DeviceModel
from axtool.runtime.devices.seam import DeviceInfo, DeviceLost, DevicesInUse
from axtool.runtime.devices.settings import require_room, resident_bytes


def described(board: Board, name: str, *told: str) -> DeviceInfo:
    """What a board of that kind and name says of itself. `told` is how it is simulated."""
    return DeviceInfo(
        name=name,
        board_model=board.board_model,
        board_type=board.board_type,
        cores=board.cores,
        clock_hz=board.clock_hz,
        memory_bytes=board.memory_bytes,
        provenance=", ".join(told),
        board=board.name,
        link_bytes_per_s=board.link.bytes_per_s,
        queue=board.queue,
    )


def board_lost(name: str, core: int | None = None, how: str = "") -> DeviceLost:
    """What a run on a board, or a core of it, that is broken raises."""
    which = name if core is None else f"core {core} of {name}"
    return DeviceLost(
        f"{which} does not answer any more{f': {how}' if how else ''}",
        hint="the frame that was on it has no result; run it on another",
    )


def taken_off(name: str, core: int) -> DeviceLost:
    """What a run or a load raises on a core that its connection, or the model on it, no longer has."""
    return DeviceLost(f"the model was taken off core {core} of {name}", hint="connect and load it again")


class Owners:
    """Cores, each with one owner at a time or dead for good, and the bytes that models hold. Safe to use from several
    threads.
    """

    def __init__(self, board: Board, name: str) -> None:
        self._board, self._name = board, name
        self._owner: dict[int, object] = {}
        self._dead: set[int] = set()
        self._held: dict[object, int] = {}
        self._lock = Lock()

    def free(self) -> int:
        """How many cores nobody has, and that live."""
        with self._lock:
            return len(self._free())

    def take(self, cores: int | Sequence[int] | None, owner: object) -> tuple[int, ...]:
        """So many cores, or these, or all that live, for the owner. Raises DevicesInUse, DeviceLost, UsageError."""
        with self._lock:
            if len(self._dead) == self._board.cores:
                raise board_lost(self._name)
            chosen = self._chosen(cores)
            self._owner.update(dict.fromkeys(chosen, owner))
        return chosen

    def give_back(self, owner: object) -> None:
        """The owner has no cores any more. Idempotent."""
        with self._lock:
            self._owner = {core: one for core, one in self._owner.items() if one is not owner}

    def bury(self, core: int | None = None) -> None:
        """A core, or all of them, will not be given to anybody again."""
        with self._lock:
            self._dead.update(range(self._board.cores) if core is None else (core,))

    def is_dead(self, core: int) -> bool:
        return core in self._dead

    def hold(self, what: object, model: DeviceModel, settings: BoardConfig | None) -> None:
        """Memory of the board for a model. Raises FitError where there is not so much of it."""
        board = self._board
        if board.window_bytes < board.memory_bytes and (settings is None or settings.ddr_size is None):
            settings = replace(settings or BoardConfig(), ddr_size=board.window_bytes)
        needed = resident_bytes(model.plans)
        with self._lock:
            taken = sum(self._held.values())
            require_room(model.name, needed, taken, board.memory_bytes, settings, self._name)
            self._held[what] = needed

    def forget(self, what: object) -> None:
        """The memory that is held for it is free. Idempotent."""
        with self._lock:
            self._held.pop(what, None)

    def refuse_other(self, core: int, cores: Sequence[int]) -> None:
        """Raise UsageError for a core that is none of a connection's."""
        if core not in cores:
            raise UsageError(
                f"core {core} of {self._name} is not of this connection, which has {list(cores)}", code="bad-option"
            )

    def _free(self) -> list[int]:
        return [core for core in range(self._board.cores) if core not in self._owner and core not in self._dead]

    def _chosen(self, cores: int | Sequence[int] | None) -> tuple[int, ...]:
        free, there = self._free(), self._board.cores
        wanted = there - len(self._dead) if cores is None else cores
        if isinstance(wanted, int):
            if wanted < 1:
                raise UsageError(f"want at least 1 core of {self._name}, got {wanted}", code="bad-option")
            if wanted > len(free):
                raise self._in_use(wanted, len(free))
            return tuple(free[:wanted])
        if not wanted or len(set(wanted)) != len(wanted) or not set(wanted) <= set(range(there)):
            raise UsageError(f"{self._name} has the cores 0 to {there - 1}, got {list(wanted)}", code="bad-option")
        usable = sum(core in free for core in wanted)
        if usable < len(wanted):
            raise self._in_use(len(wanted), usable)
        return tuple(wanted)

    def _in_use(self, wanted: int, free: int) -> DevicesInUse:
        return DevicesInUse(
            f"num_sub_devices > available ({wanted} > {free}): {self._name} has {plural(self._board.cores, 'core')}, "
            f"{free} free" + (f", {len(self._dead)} broken" if self._dead else ""),
            hint="close the scheduler or connection that holds the others, or give each of them other devices",
        )


class Fault:
    """A countdown of frames to the moment at which a board breaks, for tests of what stands above it."""

    def __init__(self, strike: Callable[[], None], after: int, *, mid_frame: bool) -> None:
        """After so many frames the next one is lost while it runs (`mid_frame`), or before it begins."""
        self.strike, self._left, self._mid_frame = strike, after, mid_frame
        self._lock = Lock()
        if not (after or mid_frame):
            strike()

    def strikes(self) -> bool:
        """Count a frame that begins: whether it is to be lost while it runs. Strikes at once where it is refused."""
        with self._lock:
            self._left -= 1
            hit = self._left == -1
        if hit and not self._mid_frame:
            self.strike()
        return hit and self._mid_frame
