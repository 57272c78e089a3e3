"""Opening what may hang, a camera's driver or a name server  ->  in bounded time, and Ctrl-C is heard meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")


def within(seconds: float, work: Callable[[], T], undo: Callable[[T], object]) -> T:
    """What `work` makes, in a thread of its own, or what it raises. Raises TimeoutError when that takes longer; what is
    made later is undone.
    """
    opening = _Opening(work, undo)
    threading.Thread(target=opening.run, name="source opening", daemon=True).start()
    return opening.wait(seconds)


class _Opening(Generic[T]):
    def __init__(self, work: Callable[[], T], undo: Callable[[T], object]) -> None:
        self._work, self._undo = work, undo
        self._done: SimpleQueue[Callable[[], T]] = SimpleQueue()  # gives what was made, or raises
        self._lock = threading.Lock()
        self._given_up = False

    def run(self) -> None:
        try:
            made = self._work()
        except BaseException as error:
            self._done.put(_raising(error))
            return
        with self._lock:
            if not self._given_up:
                self._done.put(lambda: made)
                return
        self._undo(made)

    def wait(self, seconds: float) -> T:
        try:
            done = self._done.get(timeout=seconds)
        except BaseException as stopped:  # too late, or Ctrl-C
            self._give_up()
            if isinstance(stopped, Empty):
                raise TimeoutError from None
            raise
        return done()

    def _give_up(self) -> None:
        with self._lock:
            self._given_up = True
        if not self._done.empty():
            with suppress(BaseException):
                self._undo(self._done.get()())


def _raising(error: BaseException) -> Callable[[], Any]:
    def again() -> Any:
        raise error

    return again
