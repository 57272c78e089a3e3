"""What streams need of a scheduler. None of it but `connected` connects to a board."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from axtool.runtime.scheduler.cores import Cores

PATIENCE_S = 5.0  # how long whoever leaves early waits for what is running


class Workers(Protocol):
    """A pool of threads that calls tasks in the order in which it was given them."""

    def submit(self, task: Callable[[], object]) -> bool:
        """Have a thread call the task; False when the pool is closed."""
        ...

    def inside(self) -> bool:
        """Whether the calling thread is one of the pool."""
        ...


class Owner(Protocol):
    """A scheduler, as streams see it."""

    closers: set[Callable[[], object]]  # called when it closes, before it waits for its threads

    @property
    def core_count(self) -> int:
        """The cores of the boards that it is given."""
        ...

    @property
    def workers(self) -> Workers: ...

    def context(self) -> Context:
        """A copy of the calling context in which this scheduler is the current one."""
        ...

    @property
    def closed(self) -> bool: ...

    def closed_error(self) -> Exception:
        """What is raised by what a closed scheduler is asked for."""
        ...

    def connected(self) -> Cores:
        """Its cores; connects if need be."""
        ...
