"""Faults in random combination: whatever strikes, what comes out is right, in order, and nothing is left behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from axtool.runtime import op, scheduler
from tests.conftest import Tiny
from tests.runtime.fault_plan import Episode, Fault, Form, broken_promises, numbered, play, possible
from tests.runtime.left_behind import nothing_left
from tests.runtime.watchdog import watchdog

EPISODE_S = 60.0  # no episode takes nearly as long: 5 s of patience for a thread, a few times over

Load = Callable[[], op.Operator]
Wanted = Callable[[int, bool], Any]


@pytest.fixture(scope="module")
def load(tiny_models: Tiny) -> Load:
    loaded: op.LoadedSeq = op.load(tiny_models / "two.axm")
    return loaded.copy


@pytest.fixture(scope="module")
def wanted(load: Load) -> Wanted:
    prepare, model = op.seq(op.letterbox(8, 8), op.to_tensor()), load()

    @cache
    def result(number: int, with_model: bool) -> Any:
        """What a frame gives alone."""
        with scheduler.create():
            return op.seq(*prepare.operators, *([model] if with_model else []), op.pack())(numbered(number))

    return result


def held(episode: Episode, load: Load, wanted: Wanted) -> None:
    """Play an episode, and hold what came out against what may."""
    print(episode)  # what fails is to be played again
    with nothing_left(), watchdog(EPISODE_S):
        outcome = play(episode, load)
        broken = broken_promises(episode, outcome, wanted)
        error = outcome.error
        del outcome
    assert not broken, f"{broken}\nended with {error!r}"


PAIRS = [(fault, form) for fault in Fault for form in Form if possible(fault, form)]


@pytest.mark.parametrize(("fault", "form"), PAIRS, ids=lambda one: one.name.lower())
def test_a_fault_alone_keeps_every_promise(fault: Fault, form: Form, load: Load, wanted: Wanted) -> None:
    episodes = (Episode.drawn(seed, [fault]) for seed in range(1000))
    held(next(one for one in episodes if one.form is form and one.frames > 10 and one.model), load, wanted)


@pytest.mark.parametrize("seconds", [20, pytest.param(600, marks=pytest.mark.slow)])
def test_faults_in_random_combination_keep_every_promise(seconds: int, load: Load, wanted: Wanted) -> None:
    end, seed = time.monotonic() + seconds, seconds * 1_000_000
    while time.monotonic() < end:
        held(Episode.drawn(seed), load, wanted)
        seed += 1
