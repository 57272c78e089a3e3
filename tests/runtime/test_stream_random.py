"""Pipelines made at random: a stream gives what a plain loop gives, and memories have seen what they see there."""

from __future__ import annotations

import random
import time
from contextlib import nullcontext
from typing import Any, ClassVar

import pytest

from axtool.runtime import op
from axtool.runtime.op.operator import Operator, Unpacked
from axtool.runtime.scheduler.batch import batch
from axtool.runtime.scheduler.stream import stream
from tests.runtime.stream_case import PoolOwner

FRAMES = 40


class Fails(Exception):
    """What a step raises."""


def total(value: Any) -> int:
    """The sum of all numbers in it."""
    return value if isinstance(value, int) else sum(map(total, value))


class Jitter(Operator):
    """Adds a number, now and then slowly; from several threads at once."""

    stateful: ClassVar[bool] = False
    add: int
    slow: float

    def __call__(self, *values: int) -> Any:
        if (total(values) * 2654435761 + self.add) % 97 < 97 * self.slow:
            time.sleep(0.001)
        made = [total(value) + self.add for value in values]
        return made[0] if len(made) == 1 else Unpacked(made)


class Sums(Operator):
    """Adds up all that it has seen, and fails from a number of frames on; only one thread at a time may be inside."""

    fails_at: int | None

    def __post_init__(self) -> None:
        self.seen: list[int] = []
        self.inside = 0

    def __call__(self, *values: int) -> int:
        self.inside += 1
        assert self.inside == 1, "two threads at once"
        self.seen.append(total(values))
        if self.fails_at is not None and len(self.seen) > self.fails_at:
            self.inside -= 1
            raise Fails(f"after {self.fails_at}")
        made = sum(self.seen) % 1009
        time.sleep(0)
        self.inside -= 1
        return made


def pipeline_of(seed: int) -> tuple[op.Seq, list[Sums]]:
    """The same for the same seed, with fresh memories."""
    rng = random.Random(seed)
    memories = [Sums(rng.choice([None, None, None, rng.randrange(FRAMES)])) for _ in range(rng.randrange(1, 4))]

    def step(depth: int) -> Operator:
        kind = rng.choice(
            ["jitter", "memory", "memory", "jitter", "seq", "par", "each"] if depth else ["jitter", "memory"]
        )
        if kind == "jitter":
            return Jitter(rng.randrange(100), rng.random() * 0.3)
        if kind == "memory":
            return rng.choice(memories)
        inner = [step(depth - 1) for _ in range(rng.randrange(1, 4))]
        if kind == "seq":
            return op.seq(*inner, name=rng.choice(["", "part"]))
        if kind == "par":
            return op.par(*inner)
        summed = op.seq(*inner, Jitter(1, 0.0))
        return op.seq(_Pair(), op.for_each(summed), _Total())

    return op.seq(*[step(2) for _ in range(rng.randrange(1, 7))]), memories


class _Pair(Operator):
    """A list of two for for_each."""

    stateful: ClassVar[bool] = False

    def __call__(self, *values: int) -> list[int]:
        return [total(values), len(values)]


class _Total(Operator):
    """What became of both, as one number."""

    stateful: ClassVar[bool] = False

    def __call__(self, each: Any) -> int:
        return total(each.output)


def looped(pipeline: op.Seq) -> tuple[list[Any], bool]:
    """The results of a plain loop, and whether it ended with an error."""
    results = []
    for frame in range(FRAMES):
        try:
            results.append(pipeline(frame))
        except Fails:
            return results, True
    return results, False


@pytest.mark.parametrize("seed", range(25))
def test_a_stream_and_a_batch_give_what_a_plain_loop_gives(seed: int) -> None:
    rng = random.Random(seed)
    pipeline, wanted_memories = pipeline_of(seed)
    wanted, failed = looped(pipeline)
    owner = PoolOwner(workers=rng.choice([1, 2, 5]), cores=rng.choice([1, 3]))
    try:
        pipeline, memories = pipeline_of(seed)
        results: list[Any] = []
        frames = stream(owner, range(FRAMES), pipeline, max_in_flight=rng.choice([None, 1, 2, 30]))
        with pytest.raises(RuntimeError, match=f"^frame {len(wanted)}: ") if failed else nullcontext():
            results += (result for _, result in frames)
        assert results == wanted
        for memory, loop in zip(memories, wanted_memories, strict=True):  # others may have seen frames behind the error
            assert memory.seen[: len(loop.seen) if failed else None] == loop.seen
        pipeline, _ = pipeline_of(seed)
        with pytest.raises(RuntimeError, match=f"^frame {len(wanted)}: ") if failed else nullcontext():
            assert batch(owner, pipeline, (list(range(FRAMES)),)) == wanted
        assert not owner.closers
    finally:
        owner.close()
