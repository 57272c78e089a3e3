"""Several streams at once: in turn, as their frames arrive, or each with a callback in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from queue import SimpleQueue
from typing import Any

from axtool.errors import nearest
from axtool.runtime.scheduler.owner import PATIENCE_S, Owner

HELD = 4  # frames of one stream that wait for the consumer of `as_available`

Triple = tuple[int, Any, Any]
Triples = Generator[Triple, None, None]
Callback = Callable[[int, Any, Any], object]


def multistream(
    owner: Owner, streams: Iterable[Iterable[Any]], *, order: str = "as_available", on_frame: Callback | None = None
) -> Triples | None:
    """What `Scheduler.multistream` says."""
    if order not in ("as_available", "round_robin"):
        raise ValueError(f"multistream: there is no order '{order}'; {nearest(order, ['as_available', 'round_robin'])}")
    if on_frame is None:
        return as_available(owner, streams) if order == "as_available" else round_robin(owner, streams)
    _require_callable(on_frame, "on_frame")
    if order == "as_available":
        with_callback(owner, streams, on_frame)
        return None
    turns = round_robin(owner, streams)
    try:
        for triple in turns:
            on_frame(*triple)
    finally:
        turns.close()
    return None


def round_robin(owner: Owner, streams: Iterable[Iterable[Any]]) -> Triples:
    """What `Scheduler.round_robin` says. What are no streams is refused at once."""
    return _turns(_checked(owner, streams))


def as_available(owner: Owner, streams: Iterable[Iterable[Any]]) -> Triples:
    """What `Scheduler.as_available` says. What are no streams is refused at once; threads begin with the first pull."""
    return _arrivals(owner, _checked(owner, streams))


def with_callback(owner: Owner, streams: Iterable[Iterable[Any]], callback: Callback) -> None:
    """What `Scheduler.with_callback` says."""
    _require_callable(callback, "callback")
    errors: list[BaseException] = []
    stopped = threading.Event()

    def failed(error: BaseException) -> None:
        errors.append(error)
        stopped.set()

    def run(index: int, stream: Iterable[Any]) -> None:
        error: BaseException | None = None
        try:
            for given, result in _pairs(index, stream):
                if stopped.is_set():
                    break
                callback(index, given, result)
        except BaseException as caught:
            error = caught
            failed(caught)
        try:
            callback(index, None, error)
        except BaseException as caught:
            failed(caught)

    threads = _Threads(owner, _checked(owner, streams), run)
    try:
        threads.start()
        threads.join()
    except BaseException:  # Ctrl-C, or the system gave no thread
        stopped.set()
        threads.join(PATIENCE_S)
        raise
    if errors:
        raise errors.pop(0)


def _turns(streams: Sequence[Iterable[Any]]) -> Triples:
    """One frame of each stream in turn, in the calling thread."""
    live = {index: _pairs(index, stream) for index, stream in enumerate(streams)}
    errors: list[Exception] = []
    try:
        while live:
            for index, pairs in list(live.items()):
                try:
                    pair = next(pairs, None)
                except Exception as error:
                    errors.append(error)
                    del live[index]
                    yield index, None, error
                    continue
                if pair is None:
                    del live[index]
                    yield index, None, None
                else:
                    yield index, *pair
    finally:
        for index, pairs in live.items():
            pairs.close()
            _close(streams[index])  # one that was never begun, too
    if errors:
        raise errors.pop(0)


def _arrivals(owner: Owner, streams: Sequence[Iterable[Any]]) -> Triples:
    """Frames as they come, each stream in a thread of its own that waits when `HELD` of its frames have no taker."""
    arrived: SimpleQueue[tuple[int, tuple[Any, Any] | None, BaseException | None]] = SimpleQueue()
    rooms: list[SimpleQueue[None]] = [SimpleQueue() for _ in streams]
    for room in rooms:
        for _ in range(HELD):
            room.put(None)
    left = threading.Event()

    def run(index: int, stream: Iterable[Any]) -> None:
        try:
            for pair in _pairs(index, stream):
                rooms[index].get()
                if left.is_set():
                    return
                arrived.put((index, pair, None))
        except BaseException as error:
            arrived.put((index, None, error))
        else:
            arrived.put((index, None, None))

    threads, running = _Threads(owner, streams, run), len(streams)
    try:
        threads.start()
        while running:
            index, pair, error = arrived.get()
            if error is not None:
                try:
                    raise error
                finally:
                    del error  # its traceback holds this generator, which would hold it for ever
            if pair is None:
                running -= 1
                yield index, None, None
                continue
            rooms[index].put(None)
            yield index, *pair
            del pair
    finally:
        left.set()
        for room in rooms:
            room.put(None)  # its thread may be waiting for it
        threads.join(PATIENCE_S)


class _Threads:
    """A daemon thread for each stream, in copies of the calling context."""

    def __init__(
        self, owner: Owner, streams: Sequence[Iterable[Any]], run: Callable[[int, Iterable[Any]], None]
    ) -> None:
        self._threads = [
            threading.Thread(target=owner.context().run, args=(run, index, stream), name=f"stream {index}", daemon=True)
            for index, stream in enumerate(streams)
        ]

    def start(self) -> None:
        """Raises RuntimeError where the system gives no more threads."""
        for thread in self._threads:
            thread.start()

    def join(self, patience_s: float | None = None) -> None:
        """Wait for all of them, `patience_s` seconds at most."""
        until = None if patience_s is None else time.monotonic() + patience_s
        for thread in self._threads:
            if thread.ident is not None and thread is not threading.current_thread():
                thread.join(None if until is None else max(0.0, until - time.monotonic()))


def _pairs(index: int, stream: Iterable[Any]) -> Generator[tuple[Any, Any], None, None]:
    """The (input, result) of a stream. It is closed with what reads it. Raises TypeError for what is no pair."""
    frames: Iterator[Any] = iter(stream)
    try:
        for pair in frames:
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeError(
                    f"stream {index} gave a {type(pair).__name__}, want pairs of a frame and its result, as "
                    "pipeline.stream(source) gives them"
                )
            yield pair
            del pair
    finally:
        _close(frames)


def _close(stream: Iterable[Any]) -> None:
    if isinstance(stream, Generator):
        stream.close()


def _checked(owner: Owner, streams: Iterable[Iterable[Any]]) -> list[Iterable[Any]]:
    """The streams as a list. Raises TypeError for what gives no frames, ValueError for one that is there twice."""
    if owner.closed:
        raise owner.closed_error()
    if isinstance(streams, (str, bytes)) or not isinstance(streams, Iterable):
        raise TypeError(f"streams is a {type(streams).__name__}, want a list of streams: [pipeline.stream(source), …]")
    listed = list(streams)
    seen: dict[int, int] = {}
    for index, stream in enumerate(listed):
        if isinstance(stream, (str, bytes)) or not isinstance(stream, Iterable):
            raise TypeError(f"stream {index} is a {type(stream).__name__}, want what pipeline.stream(source) gives")
        if isinstance(stream, Iterator) and seen.setdefault(id(stream), index) != index:
            raise ValueError(
                f"streams {seen[id(stream)]} and {index} are the same one; make one of each: "
                "pipeline.copy().stream(source)"
            )
    return listed


def _require_callable(callback: object, name: str) -> None:
    if not callable(callback):
        raise TypeError(
            f"{name} is a {type(callback).__name__}, want a function that is called with (stream_id, input, result)"
        )
