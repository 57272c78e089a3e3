"""`Interrupts`: signals wait while a frame is written, so that every file of a run has the same frames."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Inside the block, a signal that comes during `held()` is handled behind it, by whoever handled it before.

    Does nothing outside of the main thread, where Python handles no signals, and for signals that nobody handles.
    """

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._holds = False
        self._came: list[tuple[int, FrameType | None]] = []

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if callable(signal.getsignal(number)):
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Signals wait until the block is left; one that waits goes before an error of the block."""
        self._holds = True
        try:
            yield
        finally:
            self._holds = False
            if self._came:
                number, frame = self._came.pop(0)
                self._before[number](number, frame)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._holds:
            self._came.append((number, frame))
        else:
            self._before[number](number, frame)
