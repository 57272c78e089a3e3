"""Work over several processes of this machine: they end with the block that uses them, and with their parent."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.process import BaseProcess

from axtool.errors import EnvironmentFault


@contextmanager
def processes(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that are gone when the block is left. When it fails, or is interrupted, what they do is given up.

    Raises EnvironmentFault when one of them is gone without a word.
    """
    others = set(multiprocessing.active_children())
    # Fresh interpreters: forked ones would inherit the threads of onnxruntime in the middle of their work.
    with without_interrupts():  # the tracker of what processes share begins here
        pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _begin)
    try:
        yield pool
    except BrokenProcessPool as error:
        raise EnvironmentFault(
            "a process ended before its work", hint="it may have run out of memory: try --jobs 1",
            code="lost-process",
        ) from error  # fmt: skip
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            if process not in others:
                process.terminate()
        raise
    finally:
        pool.shutdown()


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Ctrl-C, and SIGHUP of a terminal that closes, reach all processes of it at once. Those that start in this block
    never see them, not even while they import: a blocked signal is inherited. Here they come when the block ends.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """Runs first in each process: only the parent says that the work ends, and its own end says so too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
