"""Which operators must see the frames of a stream in order, and what a copy of a pipeline shares with its original."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axtool.runtime import mega, op
from axtool.runtime.op import operator as registry
from axtool.runtime.op.operator import walk
from tests.conftest import Tiny
from tests.runtime import kernels_of_the_user


class Remembering(op.Operator):
    """An operator with a memory, as a user writes it."""

    def __init__(self, *, name: str = "") -> None:
        self.seen: list[Any] = []
        super().__init__(name=name)

    def __call__(self, value: Any) -> list[Any]:
        self.seen.append(value)
        return list(self.seen)


class Pure(op.Operator):
    """One that says that it has none."""

    stateful = False
    factor: int = 2

    def __call__(self, value: Any) -> Any:
        return self.factor * value


class PureToo(Pure):
    """One that stands on a class of the user's that said so."""


class OwnNms(op.Nms):
    """A built-in operator made the user's own."""


class Locked(op.Operator):
    """A memory that cannot be copied."""

    def __init__(self, *, name: str = "") -> None:
        self.lock = threading.Lock()
        super().__init__(name=name)

    def __call__(self, value: Any) -> Any:
        return value


class LockedButCopied(Locked):
    """The same with its own word on copies."""

    def copy(self) -> LockedButCopied:
        return LockedButCopied(name=self.name)


class HoldsModel(op.Operator):
    """An operator that has a pipeline inside that nobody sees."""

    def __init__(self, inner: Any, *, name: str = "") -> None:
        self.inner, self.count = inner, 0
        super().__init__(name=name)

    def __call__(self, value: Any) -> Any:
        self.count += 1
        return self.inner(value)


def above(item: Any) -> bool:
    return bool(item.score > 0.5)


def pure_above(item: Any) -> bool:
    return bool(item.score > 0.5)


pure_above.stateful = False  # type: ignore[attr-defined]


def test_every_built_in_operator_may_be_called_from_several_threads_but_those_that_look_on_or_call_the_users() -> None:
    import axtool.runtime.streams.pipeline  # noqa: F401  # the last of the modules that have operators

    built_in = {cls for cls in registry._REGISTRY.values() if cls.__module__.startswith("axtool.")}
    assert {cls.__name__ for cls in built_in if cls.stateful} == {"Observer", "Dumper", "Preprocessed"}
    assert {getattr(mega, name).stateful for name in mega.__all__} == {False}


@pytest.mark.parametrize(
    ("make", "stateful"),
    [
        (Remembering, True),
        (Pure, False),
        (PureToo, False),
        (OwnNms, True),
        (lambda: op.filter(min_score=0.5), False),
        (lambda: op.filter(fn=above), True),
        (lambda: op.filter(fn=pure_above), False),
        (lambda: op.split(fn=above), True),
        (lambda: op.sort_by("area"), False),
        (lambda: op.sort_by(above), True),
        (lambda: op.ax_detection(), False),
        (lambda: op.ax_detection(class_id_type=op.CocoClasses), False),
        (lambda: op.ax_detection(class_id_type=lambda index: index), True),
        (lambda: op.observer(pure_above), True),
        (lambda: op.for_each(op.identity()), False),
        (lambda: op.for_each(op.identity(), save="folder"), True),
        (lambda: op.seq(above).operators[0], True),
        (lambda: op.seq(pure_above).operators[0], False),
        (lambda: op.seq(np.sqrt).operators[0], True),
    ],
)
def test_what_may_remember_something_is_stateful(make: Callable[[], op.Operator], stateful: bool) -> None:
    assert make().stateful is stateful


def test_a_group_is_not_stateful_for_what_is_inside_it() -> None:
    pipeline = op.seq(op.par(Remembering(), op.identity()), op.for_each(Remembering()))
    assert [type(one).__name__ for one in walk(pipeline) if one.stateful] == ["Remembering", "Remembering"]


def test_a_kernel_of_the_users_is_stateful_unless_it_says_that_it_is_not() -> None:
    assert kernels_of_the_user.SoftmaxTail.stateful


def test_a_copy_remembers_apart_from_its_original() -> None:
    first = op.seq(op.identity(), Remembering())
    first(1)
    second = first.copy()
    assert (second(2), first(3)) == ([1, 2], [1, 3])


@pytest.mark.parametrize("group", [op.par, op.for_each, lambda step: op.seq(step, name="inner")])
def test_a_copy_remembers_apart_inside_groups_too(group: Any) -> None:
    memory = Remembering()
    op.seq(group(memory)).copy()([7])
    assert memory.seen == []


def test_an_operator_that_occurs_twice_does_so_in_a_copy() -> None:
    memory = Remembering()
    twice = op.seq(op.par(op.seq(memory), op.seq(op.identity(), memory)), op.pack())
    copied = twice.copy()
    assert copied("a") == (["a"], ["a", "a"])
    assert memory.seen == []


def test_a_copy_calls_the_same_functions(tmp_path: Path) -> None:
    sink = Remembering()
    op.seq(op.observer(sink.__call__), sink.__call__).copy()("frame")
    assert sink.seen == ["frame", "frame"]


def test_what_cannot_be_copied_is_named_with_what_to_do() -> None:
    with pytest.raises(TypeError, match=r"Locked cannot be copied: .*lock.*give the class a copy\(\) method, or say"):
        op.seq(Locked()).copy()


def test_a_class_may_say_how_it_is_copied() -> None:
    pipeline = op.seq(LockedButCopied())
    assert pipeline.copy().operators[0].lock is not pipeline.operators[0].lock


def test_an_optimized_pipeline_goes_on_with_the_memory_of_its_operators() -> None:
    memory = Remembering()
    assert op.seq(Locked(), op.par(memory)).optimized()("x") == ["x"]
    assert memory.seen == ["x"]


def test_copies_share_one_compiled_model(tiny_models: Tiny) -> None:
    first = op.seq(op.load(tiny_models / "two.axm"))
    second = first.copy()
    assert second.operators[0].device is not first.operators[0].device
    assert second.operators[0].device.part is first.operators[0].device.part


def test_a_copy_of_an_operator_that_holds_a_model_shares_that_too(tiny_models: Tiny) -> None:
    image = np.random.default_rng(3).normal(0, 1, (1, 3, 8, 8)).astype(np.float32)
    first = op.seq(HoldsModel(op.load(tiny_models / "two.axm")))
    second = first.copy()
    wanted = first(image)
    for got, array in zip(second(image), wanted, strict=True):
        np.testing.assert_array_equal(got, array)
    assert (first.operators[0].count, second.operators[0].count) == (1, 1)
    assert second.operators[0].inner.device.part is first.operators[0].inner.device.part


def test_copies_of_a_dumper_never_write_over_each_other(tmp_path: Path) -> None:
    first = op.seq(op.dumper(tmp_path))
    second = first.copy()
    for index in range(3):
        first(np.array([index]))
        second(np.array([index]))
    assert len(list(tmp_path.iterdir())) == 6


def test_copies_of_a_for_each_that_saves_never_write_over_each_other(tmp_path: Path) -> None:
    first = op.seq(op.for_each(op.identity(), save=tmp_path))
    second = first.copy()
    for pipeline in (first, second, first):
        pipeline([np.array([1]), np.array([2])])
    assert len(list(tmp_path.iterdir())) == 6
