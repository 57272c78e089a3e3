"""Seeded episodes of a scheduler under faults  ->  what came out, held against what may come out.

An episode streams numbered frames in one of the forms there are, with some faults planned. Whatever happens, each
stream gives the first frames of its source, in order, each with the result that it has alone; the stream is whole
unless a fault cut it; and an error is one that was planned.
"""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import FrameType
from typing import Any, ClassVar

import numpy as np

from axtool.runtime import op, scheduler
from axtool.runtime.devices import machine
from axtool.runtime.devices.seam import DeviceLost
from tests.runtime.left_behind import cores_taken

BOARDS = {"metis-pcie": 45, "metis-pcie*2": 45, "metis-process": 5, "metis-process,metis-pcie": 5}  # and how often
HANG_S = 0.15  # a source that stops for so long
SLOW_S = 0.01  # 100 times what the operators of an episode take
UNEVEN_S = 0.001


class Fault(StrEnum):
    """What goes wrong."""

    OPERATOR = "an operator raises"
    CALLBACK = "a callback raises"
    SOURCE = "a source raises"
    HANG = "a source hangs"
    LEFT = "the consumer stops early"
    INTERRUPT = "Ctrl-C"
    DEVICE = "a device dies mid-frame"
    CLOSED = "closed from another thread"
    SLOW = "a worker is slow by 100x"


class Form(StrEnum):
    """How the frames are asked for."""

    STREAM = "stream"
    BATCH = "batch"
    AS_AVAILABLE = "as_available"
    ROUND_ROBIN = "round_robin"
    WITH_CALLBACK = "with_callback"


NOT_OF_A_BATCH = {Fault.CALLBACK, Fault.SOURCE, Fault.HANG, Fault.LEFT}  # it has its frames, and gives them at the end
CUTS_ALL = {Fault.LEFT, Fault.INTERRUPT, Fault.CLOSED}  # what may end every stream of an episode
CUTS_ONE = {Fault.OPERATOR, Fault.CALLBACK, Fault.SOURCE}  # what ends the stream that it is planned for


def possible(fault: Fault, form: Form) -> bool:
    """Whether a fault can strike frames that are asked for like that."""
    return form is not Form.BATCH or fault not in NOT_OF_A_BATCH


class Planned(Exception):
    """A fault that was planned; what surfaces has it, or is it."""


@dataclass(frozen=True)
class Episode:
    """What is run. `faults` says where each strikes: at a frame of the first stream, or after milliseconds."""

    seed: int
    form: Form
    boards: str
    workers: int | None
    window: int | None
    streams: int
    frames: int
    model: bool
    stateful: bool
    split: bool
    faults: dict[Fault, int]

    @classmethod
    def drawn(cls, seed: int, wanted: Sequence[Fault] | None = None) -> Episode:
        """The episode of a seed, with these faults or any."""
        rng = random.Random(seed)
        form = rng.choice(list(Form))
        known = [fault for fault in Fault if possible(fault, form)]
        faults = rng.sample(known, rng.choice([0, 1, 1, 2, 3])) if wanted is None else wanted
        frames = rng.choice([0, 1, 2, 7, 30, 60])
        return cls(
            seed=seed,
            form=form,
            boards=rng.choices(list(BOARDS), BOARDS.values())[0],
            workers=rng.choice([None, None, 0, 1, 2, 5]),
            window=rng.choice([None, None, None, 1, 2, 5]),
            streams=1 if form in (Form.STREAM, Form.BATCH) else rng.choice([1, 2, 5]),
            frames=frames,
            model=rng.random() < 0.5,
            stateful=rng.random() < 0.3,
            split=rng.random() < 0.3,
            faults={fault: rng.randrange(max(frames, 1)) for fault in faults},
        )


@dataclass
class Outcome:
    """What came out: of each stream its (frame, result) pairs and, where the form tells it, its error."""

    came: list[list[tuple[Any, Any]]]
    ended: list[Any]
    error: BaseException | None = None
    struck: set[Fault] = field(default_factory=set)
    cores: int = 0  # that are still taken when the scheduler is closed


class Uneven(op.Operator):
    """Passes a frame on, some sooner than others, so that they overtake one another where they may."""

    stateful: ClassVar[bool] = False

    def __call__(self, frame: Any) -> Any:
        if wait := (UNEVEN_S, 0.0, UNEVEN_S / 2)[number_of(frame) % 3]:
            time.sleep(wait)
        return frame


class Faulty(op.Operator):
    """Passes a frame on, or does what is planned for it: `at` raises there, `slow` makes one thread slow."""

    at: int | None = None
    slow: bool = False
    stateful: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._slow_one: int | None = None

    def __call__(self, frame: Any) -> Any:
        if number_of(frame) == self.at:
            raise Planned("operator")
        if self.slow:
            me = threading.get_ident()
            self._slow_one = self._slow_one or me
            if me == self._slow_one:
                time.sleep(SLOW_S)
        return frame


class FaultyInOrder(Faulty):
    """The same with a memory: it refuses a frame that does not follow the one before, or comes while that is here."""

    stateful: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._last = -1

    def __call__(self, frame: Any) -> Any:
        assert number_of(frame) == self._last + 1, f"frame {number_of(frame)} behind frame {self._last}"
        time.sleep(0)  # who may come in, comes now
        self._last += 1
        return super().__call__(frame)


def numbered(number: int) -> np.ndarray:
    """A picture that has its number in it."""
    picture = np.random.default_rng(number).integers(0, 256, (9, 12, 3), np.uint8)
    picture[0, 0] = (number % 256, number // 256, 0)
    return picture


def number_of(frame: Any) -> int:
    """The number of a frame."""
    return int(frame[0, 0, 0]) + 256 * int(frame[0, 0, 1])


def play(episode: Episode, load: Callable[[], op.Operator]) -> Outcome:
    """Run an episode. `load` gives the model for those that have one."""
    outcome = Outcome([[] for _ in range(episode.streams)], [None] * episode.streams)
    with machine.simulated(episode.boards) as boards, ended(outcome):
        own = scheduler.Scheduler(num_workers=episode.workers)
        helpers = _helpers(episode, own, boards, outcome)
        try:
            for helper in helpers:
                helper.start()
            with interruptible(episode.faults.get(Fault.INTERRUPT), outcome):
                _consume(episode, own, load, outcome)
        finally:
            own.close()
            for helper in helpers:
                helper.join()
            if Fault.DEVICE not in episode.faults:  # cores that are lost are nobody's, and not to be had either
                outcome.cores = cores_taken()
    return outcome


@contextlib.contextmanager
def ended(outcome: Outcome) -> Iterator[None]:
    """Keeps how the block ended."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        outcome.error = error


@contextlib.contextmanager
def interruptible(after_ms: int | None, outcome: Outcome) -> Iterator[None]:
    """Ctrl-C after so many milliseconds, if the block is not done by then."""
    if after_ms is None:
        yield
        return
    armed, main = True, threading.get_ident()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if armed:
            outcome.struck.add(Fault.INTERRUPT)
            raise KeyboardInterrupt

    timer = threading.Timer(after_ms / 1e3, signal.pthread_kill, (main, signal.SIGINT))
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        timer.start()
        yield
    finally:
        armed = False
        timer.cancel()
        if timer.ident is not None:
            timer.join()
        time.sleep(0)  # a signal that is on its way arrives while the handler is still ours
        signal.signal(signal.SIGINT, before)


def _helpers(episode: Episode, own: scheduler.Scheduler, boards: Any, outcome: Outcome) -> list[threading.Thread]:
    """The threads that do what is planned for a time."""
    made = []
    if Fault.CLOSED in episode.faults:

        def close() -> None:
            time.sleep(episode.faults[Fault.CLOSED] / 1e3)
            outcome.struck.add(Fault.CLOSED)
            own.close()

        made.append(threading.Thread(target=close, name="closes the scheduler"))
    if Fault.DEVICE in episode.faults:
        after = episode.faults[Fault.DEVICE]  # one that is dead from the start is no fault of a frame
        boards["metis-0:1:0"].lose(after=after, mid_frame=after == 0 or episode.seed % 2 == 0)
    return made


def _source(episode: Episode, stream: int) -> Iterator[np.ndarray]:
    planned = episode.faults if stream == 0 else {}
    for number in range(episode.frames):
        if planned.get(Fault.SOURCE) == number:
            raise Planned("source")
        if planned.get(Fault.HANG) == number:
            time.sleep(HANG_S)
        yield numbered(number)


def _pipeline(episode: Episode, stream: int, load: Callable[[], op.Operator]) -> op.Seq:
    kind = FaultyInOrder if episode.stateful else Faulty
    at = episode.faults.get(Fault.OPERATOR) if stream == 0 else None
    faulty = kind(at=at, slow=Fault.SLOW in episode.faults, name="faulty")
    return op.seq(Uneven(), faulty, op.letterbox(8, 8), op.to_tensor(), *([load()] if episode.model else []), op.pack())


def _consume(episode: Episode, own: scheduler.Scheduler, load: Callable[[], op.Operator], outcome: Outcome) -> None:
    left_at = episode.faults.get(Fault.LEFT)
    raises_at = episode.faults.get(Fault.CALLBACK)

    def on_frame(frame: Any) -> None:
        if number_of(frame) == raises_at:
            raise Planned("callback")

    def came(stream: int, frame: Any, result: Any) -> bool:
        """Whether the consumer goes on."""
        if frame is None:
            outcome.ended[stream] = result
        else:
            outcome.came[stream].append((frame, result))
            if stream == 0 and len(outcome.came[0]) - 1 == left_at:
                outcome.struck.add(Fault.LEFT)
                return False
        return True

    if episode.form is Form.BATCH:
        frames = list(_source(episode, 0))
        results = own.batch(_pipeline(episode, 0, load), (frames,))
        outcome.came[0] += zip(frames, results, strict=True)
        return
    streams = [
        own.stream(
            _source(episode, number), _pipeline(episode, number, load), max_in_flight=episode.window,
            split_at="faulty" if episode.split else None,
            frame_callback=on_frame if raises_at is not None and number == 0 else None,
        )
        for number in range(episode.streams)
    ]  # fmt: skip
    if episode.form is Form.WITH_CALLBACK:

        def callback(stream: int, frame: Any, result: Any) -> None:
            if not came(stream, frame, result):
                raise Planned("callback")

        own.with_callback(streams, callback)
        return
    if episode.form is Form.STREAM:
        triples = ((0, frame, result) for frame, result in streams[0])
    else:
        triples = own.as_available(streams) if episode.form is Form.AS_AVAILABLE else own.round_robin(streams)
    with contextlib.closing(triples):
        for stream, frame, result in triples:
            if not came(stream, frame, result):
                break


def broken_promises(episode: Episode, outcome: Outcome, wanted: Callable[[int, bool], Any]) -> list[str]:
    """What the outcome of an episode should not be; `wanted` gives the result of a frame alone, with a model or not."""
    found = [f"{outcome.cores} cores are still taken"] if outcome.cores else []
    for number, pairs in enumerate(outcome.came):
        for index, (frame, result) in enumerate(pairs):
            if number_of(frame) != index:
                found.append(f"stream {number} gave frame {number_of(frame)} where frame {index} was due")
                break
            if not _same(result, wanted(index, episode.model)):
                found.append(f"stream {number}, frame {index}: not the bits that it has alone")
        if len(pairs) != _due(episode, outcome, number):
            may_be_cut = _may_be_cut(episode, outcome, number)
            if not may_be_cut or len(pairs) > episode.frames:
                found.append(f"stream {number} gave {len(pairs)} of {episode.frames} frames, and nothing cut it")
    if outcome.error is not None and not _planned(outcome.error, episode):
        found.append(f"ended with {outcome.error!r}, which nothing planned")
    if outcome.error is None and _must_raise(episode):
        found.append("ended well in spite of its faults")
    return found


def _due(episode: Episode, outcome: Outcome, stream: int) -> int:
    """How many frames a stream gives when nothing but what is planned at its frames cuts it."""
    cuts = [episode.faults[fault] for fault in CUTS_ONE & set(episode.faults)] if stream == 0 else []
    if stream == 0 and Fault.LEFT in outcome.struck:
        cuts.append(episode.faults[Fault.LEFT] + 1)
    return min([episode.frames, *cuts])


def _may_be_cut(episode: Episode, outcome: Outcome, stream: int) -> bool:
    planned = set(episode.faults)
    if outcome.struck & CUTS_ALL or (
        episode.model and Fault.DEVICE in planned and len(machine.boards_of(episode.boards)) == 1
    ):
        return True
    if episode.form is Form.BATCH:
        return outcome.error is not None
    if episode.form in (Form.AS_AVAILABLE, Form.WITH_CALLBACK):  # the first error drops what others have
        return outcome.error is not None
    return False


def _must_raise(episode: Episode) -> bool:
    """Whether a fault is sure to strike: at a frame that there is, and nothing else can come before it."""
    planned = set(episode.faults)
    return bool(planned & {Fault.OPERATOR, Fault.SOURCE}) and not planned & CUTS_ALL and episode.frames > 0


def _planned(error: BaseException, episode: Episode) -> bool:
    """Whether an error is, or comes of, a fault of the episode."""
    chain: list[BaseException] = []
    here: BaseException | None = error
    while here is not None and here not in chain:
        chain.append(here)
        here = here.__cause__ or here.__context__
    planned = set(episode.faults)
    return any(
        (isinstance(one, Planned) and planned & (CUTS_ONE | {Fault.LEFT}))
        or (isinstance(one, KeyboardInterrupt) and Fault.INTERRUPT in planned)
        or (isinstance(one, DeviceLost) and Fault.DEVICE in planned)
        or (isinstance(one, RuntimeError) and "closed" in str(one) and Fault.CLOSED in planned)
        for one in chain
    )


def _same(result: Any, wanted: Any) -> bool:
    return len(result) == len(wanted) and all(map(np.array_equal, result, wanted))
