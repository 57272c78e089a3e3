"""Which scheduler a pipeline runs on: the one of the enclosing block, of the worker thread, or the process default."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager

from axtool.runtime.device_config import DeviceConfig
from axtool.runtime.devices import machine
from axtool.runtime.devices.select import Selector
from axtool.runtime.scheduler.core import CURRENT, Scheduler, abandon_all

_lock = threading.RLock()  # a signal handler may ask for the default while it is made
_default: Scheduler | None = None
_generation = 0  # of the boards that the default was made for


def current() -> Scheduler:
    """The scheduler in scope, or the process default, which is made when it is first asked for.

    In this order: the one that `create` made in this context; the one that owns the worker thread; the default.
    """
    found = CURRENT.get()
    if found is not None:
        return found
    found = _default
    if found is not None and not found.closed and _generation == machine.generation():
        return found
    return _made()


@contextmanager
def create(
    devices: Selector = None,
    num_workers: int | None = None,
    device_config: DeviceConfig | None = None,
) -> Generator[Scheduler, None, None]:
    """A scheduler that is the current one of the block, in this thread alone; closed when the block is left.

    The arguments are those of `Scheduler`. Raises RuntimeError where the process default has connected to one of the
    devices: run no pipeline before, or release it with `scheduler.current().close()`.
    """
    made = Scheduler(devices, num_workers, device_config)
    default = _default
    if default is not None and default.is_connected:
        taken = {device.name for device in default.devices()}
        both = [device.name for device in made.devices() if device.name in taken]
        if both:
            raise RuntimeError(
                f"the process default scheduler owns {', '.join(both)} already, since a pipeline ran outside of any "
                "scheduler.create(...): enter the block before the first pipeline runs, or release the default with "
                "scheduler.current().close()"
            )
    before = CURRENT.get()
    try:
        CURRENT.set(made)
        yield made
    finally:
        try:
            _unbind(made, before)
        finally:
            try:
                made.close()
            finally:
                _unbind(made, before)  # Ctrl-C may have come in between


def _unbind(made: Scheduler, before: Scheduler | None) -> None:
    if CURRENT.get() is made:  # not so in a generator that is closed elsewhere: this context never had it
        CURRENT.set(before)


def _made() -> Scheduler:
    """The default, made anew where there is none, where it was closed, or where the boards have changed since."""
    global _default, _generation
    with _lock:
        old, generation = _default, machine.generation()
        if old is not None and not old.closed and _generation == generation:
            return old
        if old is not None:
            old.close()  # or waits for who closes it: its cores are free afterwards
        _default, _generation = Scheduler(), generation
        return _default


def close_default() -> None:
    """Close the process default, if there is one: at the end of the interpreter."""
    global _default
    with _lock:
        old, _default = _default, None
    if old is not None:
        old.close()


def _in_child() -> None:
    """After a fork: the child makes a default of its own when it wants one."""
    global _default, _lock
    _lock, _default = threading.RLock(), None
    abandon_all()


atexit.register(close_default)
os.register_at_fork(after_in_child=_in_child)
