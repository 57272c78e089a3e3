"""The three places samples come from: image files, array files, a seeded generator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from axtool.errors import UsageError, nearest
from axtool.inputs.arrays import Stored, open_arrays
from axtool.inputs.conform import Conform, conform, prepared
from axtool.inputs.images import read_image
from axtool.inputs.notice import Notice, note, warning
from axtool.inputs.prepare import Preparation
from axtool.inputs.preprocess import Preprocess
from axtool.inputs.spec import InputSpec

Feeds: TypeAlias = dict[str, NDArray[Any]]


class Source(Protocol):
    """A list of samples that are made when they are read. It can be sent to another process."""

    @property
    def names(self) -> Sequence[str]:
        """A name for each sample, for messages."""

    def __len__(self) -> int:
        """How many samples."""

    def read(self, indices: Sequence[int]) -> Iterator[Feeds]:
        """The samples at ascending indices."""


@dataclass(frozen=True)
class Images:
    """Image files for a model with one input."""

    spec: InputSpec
    paths: tuple[Path, ...]
    names: tuple[str, ...]
    preparation: Preparation
    preprocess: Preprocess | None = None

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, indices: Sequence[int]) -> Iterator[Feeds]:
        """One decoded image at a time."""
        for index in indices:
            path = self.paths[index]
            pixels = read_image(path)
            yield {self.spec.name: prepared(pixels, self.spec, self.preparation, self.preprocess, str(path))}


@dataclass(frozen=True)
class Arrays:
    """The arrays of one file, one for each input. An input with a single sample is repeated beside the others."""

    path: Path
    columns: tuple[tuple[Conform, Stored], ...]
    count: int

    @property
    def names(self) -> Sequence[str]:
        """file[index] for each sample."""
        return [f"{self.path.name}[{index}]" for index in range(self.count)]

    def __len__(self) -> int:
        return self.count

    def read(self, indices: Sequence[int]) -> Iterator[Feeds]:
        """Samples one at a time; each file member is read front to back."""
        columns = [self._column(how, stored, indices) for how, stored in self.columns]
        for values in zip(*columns, strict=True):
            yield {how.spec.name: value for (how, _), value in zip(self.columns, values, strict=True)}

    def _column(self, how: Conform, stored: Stored, indices: Sequence[int]) -> Iterator[NDArray[Any]]:
        where = f"{self.path}, '{how.spec.name}'"
        if not how.stacked or how.count == 1 < self.count:
            entry = np.array(stored.load())
            value = how.feed(entry[0] if how.stacked and how.rows == 1 else entry, where)
            for _ in indices:
                yield value
            return
        rows = stored.rows(index * how.rows + row for index in indices for row in range(how.rows))
        for index in indices:
            entries = [next(rows) for _ in range(how.rows)]
            yield how.feed(entries[0] if how.rows == 1 else np.stack(entries), f"{where}, sample {index}")


@dataclass(frozen=True)
class Noise:
    """Seeded random samples: normal floats, zeros and ones for integers, noise images where pixels are meant."""

    specs: tuple[InputSpec, ...]
    count: int
    seed: int
    preparation: Preparation | None = None

    @property
    def names(self) -> Sequence[str]:
        """random[index] for each sample."""
        return [f"random[{index}]" for index in range(self.count)]

    def __len__(self) -> int:
        return self.count

    def read(self, indices: Sequence[int]) -> Iterator[Feeds]:
        """Sample i is the same whichever others are read."""
        for index in indices:
            generator = np.random.default_rng([self.seed, index])
            yield {spec.name: self._one(spec, generator) for spec in self.specs}

    def _one(self, spec: InputSpec, generator: np.random.Generator) -> NDArray[Any]:
        shape = tuple(d or 0 for d in spec.shape)
        if self.preparation is not None and self.preparation.normalises and len(self.specs) == 1:
            resolved = self.preparation.resolve(spec)
            height, width = resolved.size or (shape[-2], shape[-1])
            pixels = generator.integers(0, 256, (height, width, 3), np.uint8)
            return prepared(pixels, spec, resolved, None, "random")
        if spec.is_float:
            return generator.standard_normal(shape, np.float32).astype(spec.dtype)
        high = 256 if spec.dtype == "uint8" and len(shape) >= 3 else 2  # a token or a mask: 0 and 1 are always legal
        return generator.integers(0, high, shape).astype(spec.dtype)


def arrays_of(
    path: Path, specs: Sequence[InputSpec], preparation: Preparation | None, preprocess: Preprocess | None
) -> tuple[Arrays, list[Notice]]:
    """The samples of an .npz or .npy file. Raises UsageError when names, types, shapes or counts do not fit."""
    stored = open_arrays(path)
    pairs, notices = match_names(path, stored, specs)
    columns = []
    for spec, array in pairs:
        how, told = conform(
            array.shape,
            array.dtype,
            spec,
            f"{path}, '{array.member.removesuffix('.npy') or spec.name}'",
            preparation,
            preprocess,
        )
        columns.append((how, array))
        notices += told
    counts = {how.spec.name: how.count for how, _ in columns}
    count = 0 if 0 in counts.values() else max(counts.values(), default=0)
    odd = [name for name, value in counts.items() if value not in (1, count)]
    if odd and count:
        listed = ", ".join(f"'{name}' has {value}" for name, value in counts.items())
        raise UsageError(f"the inputs have different numbers of samples: {listed}", where=str(path), code="wrong-count")
    if count > 1 and (alone := [name for name, value in counts.items() if value == 1]):
        notices.append(note("repeated", f"the one sample of {', '.join(alone)} is used for all {count}", str(path)))
    return Arrays(path, tuple(columns), count), notices


def match_names(
    path: Path, stored: dict[str, Stored], specs: Sequence[InputSpec]
) -> tuple[list[tuple[InputSpec, Stored]], list[Notice]]:
    """Each input with its array. One array for one input may have any name. Raises UsageError listing both sets."""
    names = [spec.name for spec in specs]
    missing = [name for name in names if name not in stored]
    if not missing:
        extra = [name for name in stored if name not in names]
        notices = [warning("ignored-arrays", f"no input takes {', '.join(extra)}: ignored", str(path))] if extra else []
        return [(spec, stored[spec.name]) for spec in specs], notices
    if len(stored) == len(specs) == 1:
        (found, array), spec = next(iter(stored.items())), specs[0]
        told = [note("renamed", f"array '{found}' is taken for the only input '{spec.name}'", str(path))]
        return [(spec, array)], told if found else []
    held = ", ".join(name or "one unnamed array" for name in stored) or "nothing"
    raise UsageError(
        f"holds {held}; the inputs are {', '.join(names)}",
        where=str(path),
        code="wrong-input-name",
        hint=nearest(missing[0], list(stored)) if any(stored) else "give an .npz with one array an input",
    )
