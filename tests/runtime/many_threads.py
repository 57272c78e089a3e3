"""One thing called from eight threads at once, held to the bits that it gives one thread."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

from axtool.runtime import Image

THREADS, ROUNDS = 8, 2
_PATIENCE_S = 120.0


def assert_same_in_threads(
    call: Callable[..., Any], frames: Sequence[tuple[Any, ...]], *, rounds: int = ROUNDS, threads: int = THREADS
) -> None:
    """Every thread goes `rounds` times through the frames in an order of its own, and keeps its last results: each is
    what one thread alone got, when it is made and when the others have gone on.
    """
    wanted = [digest(call(*frame)) for frame in frames]
    assert len(set(wanted)) > 1, "frames that all give the same say nothing"
    wrong: list[str] = []
    begin = threading.Barrier(threads)

    def work(number: int) -> None:
        order = random.Random(number)
        kept: list[tuple[int, Any]] = []
        try:
            begin.wait(_PATIENCE_S)
            for _ in range(rounds):
                for index in order.sample(range(len(frames)), len(frames)):
                    made = call(*frames[index])
                    if digest(made) != wanted[index]:
                        wrong.append(f"thread {number}: frame {index} has other bits")
                    kept = [*kept[-5:], (index, made)]
            wrong.extend(
                f"thread {number}: frame {index} was written over"
                for index, made in kept
                if digest(made) != wanted[index]
            )
        except BaseException as error:
            wrong.append(f"thread {number}: {type(error).__name__}: {error}")

    with quick_switches():
        running = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join(_PATIENCE_S)
    assert not any(thread.is_alive() for thread in running), "a thread does not come back"
    assert wrong == []


@contextmanager
def quick_switches() -> Iterator[None]:
    """Threads change every 10 microseconds instead of every 5 ms: what is not safe shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def digest(value: Any) -> bytes:
    """Every bit of a result: arrays with their type and shape, groups with what is in them, objects by their fields."""
    if isinstance(value, Image):
        return value.color_format.encode() + digest(value.to_numpy())
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}".encode() + value.tobytes()
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}{len(value)}".encode() + b"".join(map(digest, value))
    if is_dataclass(value) and not isinstance(value, Enum | type):
        return type(value).__name__.encode() + b"".join(digest(getattr(value, one.name)) for one in fields(value))
    return repr(value).encode()
