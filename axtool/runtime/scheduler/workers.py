"""The worker threads of one scheduler: tasks in, each of them called exactly once, in the order in which they came."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

log = logging.getLogger("axtool")

Task = Callable[[], object]


class _Worker:
    """A thread and what it waits for: `wake` is held while it has nothing to do."""

    __slots__ = ("task", "thread", "wake")

    def __init__(self) -> None:
        self.wake = threading.Lock()
        self.wake.acquire()
        self.task: Task | None = None
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
        self._queue: deque[Task] = deque()  # empty while a worker is idle
        self._idle: list[_Worker] = []  # the last to become idle is the first to be woken: its caches are warm
        self._workers: list[_Worker] = []
        self._inside = threading.local()
        self.closed = False

    def submit(self, task: Task) -> bool:
        """Have a worker call `task`. False, and nothing is called, when the workers are closed.

        Raises RuntimeError where the system gives no thread and there is none yet.
        """
        with self._lock:
            if self.closed:
                return False
            if self._idle:
                worker = self._idle.pop()
                worker.task = task
                worker.wake.release()
                return True
            self._queue.append(task)
            if len(self._workers) < self.limit:
                self._grow(task)
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
            worker.wake.release()  # without a task: the thread ends
        end = time.monotonic() + patience_s
        here = threading.current_thread()
        for worker in list(self._workers):
            if worker.thread is not here:
                worker.thread.join(max(0.0, end - time.monotonic()))
        while (task := self._taken()) is not None:
            self._call(task)
        return not any(worker.thread.is_alive() for worker in self._workers if worker.thread is not here)

    def abandon(self) -> None:
        """In a forked child, which has none of the threads: nothing is left to wait for, and nothing to be called."""
        self._lock = threading.Lock()
        self._queue.clear()
        self._idle, self._workers, self.closed = [], [], True

    def _grow(self, task: Task) -> None:
        """One more thread. Called with the lock held."""
        worker = _Worker()
        worker.thread = threading.Thread(
            target=self._work, args=(worker,), name=f"{self._name} {len(self._workers)}", daemon=True
        )
        self._workers.append(worker)
        try:
            # start() waits until the thread runs; the thread takes the lock only afterwards
            worker.thread.start()
        except RuntimeError:  # the system gives no more threads
            self._workers.remove(worker)
            if not self._workers:  # else those that exist will come to it
                self._queue.remove(task)
                raise

    def _work(self, worker: _Worker) -> None:
        self._inside.here = True
        self._begin()
        while True:
            with self._lock:
                task = self._queue.popleft() if self._queue else None
                if task is None:
                    if self.closed:
                        return
                    self._idle.append(worker)
            if task is None:
                worker.wake.acquire()
                task, worker.task = worker.task, None
                if task is None:
                    return
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
