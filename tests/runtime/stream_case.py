"""A scheduler without boards, for tests of streams alone: threads, a number of cores, and a close."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any, ClassVar

from axtool.runtime import op

WAIT_S = 10.0  # far above what anything in these tests takes; one that waits so long has failed
CURRENT: ContextVar[object] = ContextVar("current", default=None)


class Pool:
    """Threads that call tasks in order."""

    def __init__(self, count: int) -> None:
        self._tasks: deque[Callable[[], object] | None] = deque()
        self._some = threading.Semaphore(0)
        self._inside = threading.local()
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(count)]
        self.closed = False
        for thread in self.threads:
            thread.start()

    def submit(self, task: Callable[[], object]) -> bool:
        if self.closed:
            return False
        self._tasks.append(task)
        self._some.release()
        return True

    def inside(self) -> bool:
        return getattr(self._inside, "here", False)

    def close(self) -> None:
        self.closed = True
        for _ in self.threads:
            self._tasks.append(None)
            self._some.release()

    def _run(self) -> None:
        self._inside.here = True
        while self._some.acquire():
            task = self._tasks.popleft()
            if task is None:
                return
            task()


class PoolOwner:
    """What streams need of a scheduler."""

    def __init__(self, workers: int = 4, cores: int = 2) -> None:
        self.workers, self.core_count = Pool(workers), cores
        self.closers: set[Callable[[], object]] = set()
        self.closed = False

    def context(self) -> Context:
        context = copy_context()
        context.run(CURRENT.set, self)
        return context

    def closed_error(self) -> Exception:
        return RuntimeError("this scheduler is closed")

    def close(self) -> None:
        self.closed = True
        for close in list(self.closers):
            close()
        self.workers.close()


class Anyhow(op.Operator):
    """A function that several threads may call at once, in any order."""

    stateful: ClassVar[bool] = False
    fn: Callable[..., Any]

    def __call__(self, *values: Any) -> Any:
        return self.fn(*values)


class Counting(op.Operator):
    """An operator with a memory: how many it has seen."""

    seen: int = 0

    def __call__(self, value: Any) -> tuple[Any, int]:
        self.seen += 1
        return value, self.seen
