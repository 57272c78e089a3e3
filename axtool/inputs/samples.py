"""Folders, images, .npz, .npy or random:N  ->  Samples: feeds for a model, made one at a time, as often as asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from axtool.config import refuse_special
from axtool.errors import UsageError, plural
from axtool.inputs.images import find_files, is_image_name, probe
from axtool.inputs.notice import Notice, note, warning
from axtool.inputs.prepare import Preparation
from axtool.inputs.preprocess import Preprocess, load_preprocess
from axtool.inputs.sources import Arrays, Feeds, Images, Noise, Source, arrays_of
from axtool.inputs.spec import InputSpec

__all__ = ["Feeds", "InputSpec", "Preparation", "Samples", "open_samples"]

MOST_RANDOM = 1_000_000  # random samples: each is kept track of
_SHOWN = 10  # files named one by one in an error or a notice


@dataclass(frozen=True)
class Samples:
    """Feeds by input name, in a fixed order. Iterating reads anew and keeps nothing; it can be sent to a process.

    `preparation` is the complete one where images (or uint8 arrays) are prepared with it, else None.
    """

    specs: tuple[InputSpec, ...]
    sources: tuple[Source, ...]
    picks: tuple[tuple[int, int], ...]  # (source, sample of the source) of each sample
    names: tuple[str, ...]
    notices: tuple[Notice, ...] = ()
    preparation: Preparation | None = None

    def __len__(self) -> int:
        return len(self.picks)

    def __iter__(self) -> Iterator[dict[str, NDArray[Any]]]:
        at = 0
        while at < len(self.picks):
            source = self.picks[at][0]
            end = at
            while end < len(self.picks) and self.picks[end][0] == source:
                end += 1
            yield from self.sources[source].read([sample for _, sample in self.picks[at:end]])
            at = end

    def select(self, indices: Sequence[int]) -> Samples:
        """The samples at ascending indices."""
        return replace(self, picks=tuple(self.picks[i] for i in indices), names=tuple(self.names[i] for i in indices))


def open_samples(
    sources: str | Path | Sequence[str | Path],
    specs: Sequence[InputSpec],
    preparation: Preparation | None = None,
    preprocess: Preprocess | str | None = None,
    limit: int | None = None,
    seed: int = 0,
) -> Samples:
    """Samples for the inputs `specs` from folders, images, .npz, .npy files or `random:N`, one after the other.

    `limit` takes that many, evenly spread. Reads headers and checks that images decode; numbers are read by iteration,
    which raises UsageError for NaN. Raises UsageError for everything that cannot be fed without a guess.
    """
    specs = tuple(specs)
    listed = [sources] if isinstance(sources, str | Path) else list(sources)
    if not listed:
        raise UsageError(
            "no calibration data",
            code="no-samples",
            hint="give a folder of images, an .npz or .npy, or random:32 to try without data",
        )
    if isinstance(preprocess, str):
        preprocess = load_preprocess(preprocess)
    opener = _Opener(specs, preparation, preprocess, limit, seed)
    opened = [source for item in listed for source in opener.open(str(item))]
    picks = [(index, sample) for index, source in enumerate(opened) for sample in range(len(source))]
    if not picks:
        raise UsageError(
            "no calibration samples",
            where=", ".join(str(item) for item in listed),
            code="no-samples",
            hint="want at least one image or array; 32 or more are better",
            details=opener.refused,
        )
    if limit is not None and limit < len(picks):
        picks = [picks[index] for index in _spread(len(picks), limit)]
    names = tuple(opened[source].names[sample] for source, sample in picks)
    complete = next((s.preparation for s in opened if isinstance(s, Images) and s.preprocess is None), None)
    complete = complete or (preparation.resolve(specs[0]) if preparation and _is_image(preparation, specs) else None)
    return Samples(specs, tuple(opened), tuple(picks), names, tuple(opener.notices), complete)


class _Opener:
    """Opens one source after the other, and collects what is to be said about them."""

    def __init__(
        self,
        specs: tuple[InputSpec, ...],
        preparation: Preparation | None,
        preprocess: Preprocess | None,
        limit: int | None,
        seed: int,
    ) -> None:
        self.specs, self.preparation, self.preprocess, self.limit, self.seed = (
            specs,
            preparation,
            preprocess,
            limit,
            seed,
        )
        self.notices: list[Notice] = []
        self.refused: list[str] = []

    def open(self, text: str) -> list[Source]:
        """The sources behind one argument: a folder may hold images, or else array files."""
        if text.startswith("random:"):
            return [self._noise(text)]
        if not text:
            raise UsageError(
                "an empty name of a file or folder", code="bad-option", hint="the folder of the command is '.'"
            )
        path = Path(text)
        refuse_special(path)
        if path.is_dir():
            return self._folder(path)
        if not path.exists():
            raise UsageError(
                "no such file or folder",
                where=text,
                code="file-not-found",
                hint="random:N makes N random samples" if text.startswith("random") else "",
            )
        if path.suffix.lower() in (".npz", ".npy"):
            return [self._arrays(path)]
        if reason := probe(path):
            raise UsageError(
                reason,
                where=text,
                code="not-an-image",
                hint="want an image, a folder of images, .npz, .npy or random:N",
            )
        return [self._images([path], path.parent)]

    def _folder(self, folder: Path) -> list[Source]:
        files = find_files(folder)
        images = [path for path in files if is_image_name(path)]
        arrays = [path for path in files if path.suffix.lower() in (".npz", ".npy")]
        taken = images or arrays
        others = [path for path in files if path not in set(taken)]
        if others:
            one, many = ("no image", "no images") if images or not arrays else ("neither .npz nor .npy",) * 2
            what = plural(len(others), f"file is {one} and is", f"files are {many} and are")
            self.notices.append(note("skipped-files", f"{what} skipped: {_some(others)}", str(folder)))
        if not images:
            return [self._arrays(path) for path in arrays]
        if self.limit is not None and self.limit < len(images):
            images = [images[index] for index in _spread(len(images), self.limit)]
        good, bad = [], []
        for path in images:
            reason = probe(path)
            if reason:
                bad.append(f"{path}: {reason}")
            else:
                good.append(path)
        self.refused += bad
        if bad:
            are = "is" if len(bad) == 1 else "are"
            what = f"{len(bad)} of {plural(len(images), 'image')} cannot be decoded and {are} skipped: {_some(bad)}"
            self.notices.append(warning("undecodable-images", what, str(folder)))
        return [self._images(good, folder)] if good else []

    def _images(self, paths: list[Path], folder: Path) -> Images:
        if len(self.specs) != 1:
            names = ", ".join(f"'{spec.name}'" for spec in self.specs)
            raise UsageError(
                f"images feed one input, the model has {len(self.specs)}: {names}",
                where=str(folder),
                hint="give an .npz with one array for each input",
                code="wrong-input-count",
            )
        spec, preparation = self.specs[0], self.preparation or Preparation()
        if self.preprocess is None:
            if not spec.is_float and spec.dtype != "uint8":
                raise UsageError(
                    f"images cannot feed {spec}",
                    where=str(folder),
                    code="not-an-image-input",
                    hint="give an .npz or .npy",
                )
            preparation = preparation.resolve(spec)
            if not preparation.normalises and preparation.dtype != "uint8":
                self.notices.append(
                    note("default-scale", "pixels are scaled to 0..1: no --scale, --mean or --std is given")
                )
        shown = tuple(str(path.relative_to(folder)) for path in paths)
        return Images(spec, tuple(paths), shown, preparation, self.preprocess)

    def _arrays(self, path: Path) -> Arrays:
        source, notices = arrays_of(path, self.specs, self.preparation, self.preprocess)
        self.notices += notices
        return source

    def _noise(self, text: str) -> Noise:
        count = text.removeprefix("random:")
        # The digits are counted first: Python does not read thousands of them.
        if not count.isdecimal() or len(count) > 20 or not 1 <= int(count) <= MOST_RANDOM:
            raise UsageError(
                f"'{text[:40]}': want random:N with N from 1 to {MOST_RANDOM}",
                hint="for example random:32",
                code="bad-option",
            )
        for spec in self.specs:
            if None in spec.shape:
                raise UsageError(
                    "random samples need a fixed shape",
                    where=str(spec),
                    code="open-shape",
                    hint="fix it with --input-shape",
                )
        self.notices.append(
            warning("random-samples", f"{count} random samples: ranges and accuracy say nothing about real data")
        )
        return Noise(self.specs, int(count), self.seed, self.preparation)


def _is_image(preparation: Preparation, specs: tuple[InputSpec, ...]) -> bool:
    """True when the preparation fits the only input, so that a later run can use it on images."""
    if len(specs) != 1 or not specs[0].is_float:
        return False
    try:
        preparation.resolve(specs[0])
    except UsageError:
        return False
    return True


def _spread(count: int, limit: int) -> list[int]:
    """`limit` indices, evenly spread over `count`: files sorted by class would give the first classes only."""
    if limit < 1:
        raise UsageError(f"a limit of {plural(limit, 'sample')} leaves none", code="bad-option")
    return [index * count // limit for index in range(limit)]


def _some(items: Sequence[object]) -> str:
    shown = ", ".join(str(item) for item in items[:_SHOWN])
    return shown + (f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else "")
