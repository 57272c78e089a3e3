"""Whether a call comes out of the middle of the runtime, and how to answer it nevertheless.

A signal handler runs between any two steps of the main thread, and a finaliser between any two of whichever thread the
collector strikes: perhaps while that thread holds a lock. To wait there for the same lock would be for ever.
"""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from types import CodeType

_RUNTIME = Path(__file__).parent.parent
# What takes locks that `close` takes, too. None of it calls what the user wrote, but for a custom op of a model.
_LOCKING = frozenset(
    str(_RUNTIME / name)
    for name in (
        "scheduler/cores.py", "scheduler/residency.py", "devices/context.py",
        "devices/machine.py", "devices/owning.py", "devices/simulated.py", "devices/simulated_instance.py",
        "devices/remote.py", "devices/board_process.py", "devices/wire.py",
    )
)  # fmt: skip


def amid(codes: Collection[CodeType]) -> bool:
    """Whether the caller of the caller was called, however far above, by what takes locks: one of these modules, or
    functions with these codes.
    """
    frame = sys._getframe(2)
    while True:
        if frame.f_code.co_filename in _LOCKING or frame.f_code in codes:
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back


def elsewhere(work: Callable[[], object], name: str) -> bool:
    """Have a thread of its own do the work, and wait for nothing. False where there is no thread to be had."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    try:
        _thread.start_new_thread(thread.start, ())  # start() takes a lock that the caller may hold
    except RuntimeError:
        return False
    return True
