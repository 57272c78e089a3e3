"""The worker threads of one scheduler: tasks in, each of them called exactly once, in the order in which they came."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

log = logging.getLogger("axtool")

Task = Callable[[], object]


class _Worker:
    """A thread, and what it waits for while it has nothing to do."""

    __slots__ = ("thread", "wake")

    def __init__(self) -> None:
        self.wake = threading.Lock()
        self.wake.acquire()
        self.thread: threading.Thread


class Workers:
    """At most `limit` daemon threads, made when a task finds none idle.

    `begin` is called once in each thread before its first task. A task should keep its own errors: what it lets out
    is logged, and the worker goes on.
    """

    def __init__(self, limit: int, name: str, begin: Callable[[], object]) -> None:
        self.limit = limit
        self._name, self._begin = name, begin
        self._lock = threading.Lock()
        self._queue: deque[Task] = deque()  # empty while a worker is idle and none is on its way
        self._idle: list[_Worker] = []  # the last to become idle is the first to be woken: its caches are warm
        self._workers: list[_Worker] = []
        self._inside = threading.local()
        self._coming = False  # whether a worker is on its way: called, and not yet there
        self.closed = False

    def submit(self, task: Task) -> bool:
        """Have a worker call `task`. False, and nothing is called, when the workers are closed.

        Raises RuntimeError where the system gives no thread and there is none yet.
        """
        with self._lock:
            if self.closed:
                return False
            self._queue.append(task)
            if not self._coming:
                self._call_one(task)
        return True

    def inside(self) -> bool:
        """Whether the calling thread is one of these workers."""
        return getattr(self._inside, "here", False)

    @property
    def count(self) -> int:
        """How many threads there are."""
        return len(self._workers)

    def close(self, patience_s: float) -> bool:
        """Take no more tasks, have those that wait called, and end the threads; True when all of them have ended.

        Waits `patience_s` seconds in all. Tasks that no worker took by then are called here: they are expected to find
        their scheduler closed. A task that runs longer is left to its daemon thread. Called from one of the workers,
        it does not wait for that one.
        """
        with self._lock:
            self.closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.wake.release()  # it finds no task, and ends
        end = time.monotonic() + patience_s
        here = threading.current_thread()
        for worker in list(self._workers):
            if worker.thread is not here:
                with suppress(RuntimeError):  # Ctrl-C came while it was started: it ends when it finds them closed
                    worker.thread.join(max(0.0, end - time.monotonic()))
        while (task := self._taken()) is not None:
            self._call(task)
        ended = not any(worker.thread.is_alive() for worker in self._workers if worker.thread is not here)
        if ended:
            self._begin = _nothing  # it knows the owner, which knows these workers
        return ended

    def abandon(self) -> None:
        """In a forked child, which has none of the threads: nothing is left to wait for, and nothing to be called."""
        self._lock = threading.Lock()
        self._queue.clear()
        self._idle, self._workers, self._coming, self.closed = [], [], False, True

    def _call_one(self, task: Task | None = None) -> None:
        """Wake a worker, or make one, as far as there are any; `task` is what it is for. With the lock held.

        Only one is on its way at a time: when it comes and there is more to do, it calls the next. So many short tasks
        do not wake many threads that then stand in each other's way.
        """
        if self._idle:
            worker = self._idle[-1]
            del self._idle[-1]  # no call between here and the last one, behind which Ctrl-C may strike
            self._coming = True
            worker.wake.release()
        elif len(self._workers) < self.limit and not self.closed:  # `close` waits for those that there are
            self._grow(task)

    def _grow(self, task: Task | None) -> None:
        """One more thread. With the lock held."""
        worker = _Worker()
        worker.thread = threading.Thread(
            target=self._work, args=(worker,), name=f"{self._name} {len(self._workers)}", daemon=True
        )
        try:
            self._coming = True
            self._workers.append(worker)
            # start() waits until the thread runs; the thread takes the lock only afterwards
            worker.thread.start()
        except BaseException as error:
            if worker.thread.ident is not None:  # Ctrl-C while it started: it is there
                raise
            self._coming = False
            self._workers.remove(worker)
            if self._workers and (task is None or isinstance(error, RuntimeError)):
                return  # those that exist will come to it
            if task is not None:
                self._queue.remove(task)
            raise

    def _work(self, worker: _Worker) -> None:
        self._inside.here = True
        self._begin()
        came = True  # from afar: it was called
        while True:
            with self._lock:
                task = self._queue.popleft() if self._queue else None
                if came:
                    self._coming = came = False
                    if self._queue:
                        self._call_one()
                if task is None:
                    if self.closed:
                        return
                    self._idle.append(worker)
            if task is None:
                worker.wake.acquire()
                came = True
                continue
            self._call(task)
            del task  # what it holds is not kept while this thread waits

    def _taken(self) -> Task | None:
        with self._lock:
            return self._queue.popleft() if self._queue else None

    def _call(self, task: Task) -> None:
        try:
            task()
        except KeyboardInterrupt:  # only where the closing thread is the main one
            raise
        except BaseException:  # SystemExit too: this thread is needed again
            log.exception("a task of %s let an error out", self._name)


def _nothing() -> None:
    """What begins in a thread of closed workers: no thread does."""
