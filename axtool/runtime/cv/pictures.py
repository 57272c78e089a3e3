"""A picture, a folder of pictures, or what a program gives  ->  frames, with the interface of an opened video."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sized
from fractions import Fraction
from pathlib import Path
from typing import Any

from axtool.errors import UsageError
from axtool.inputs.images import find_files, is_image_name
from axtool.runtime.cv.reader import Timed
from axtool.runtime.image import Image


class Pictures:
    """The pictures of a folder and the folders in it, sorted by path, or a single one."""

    fps: Fraction | None = None
    damaged = 0

    def __init__(self, path: Path) -> None:
        self._files = [file for file in find_files(path) if is_image_name(file)] if path.is_dir() else [path]
        if not self._files:
            raise UsageError(
                "no pictures in this folder", where=str(path), hint="they are known by their suffix: .jpg, .png, ...",
                code="no-pictures",
            )  # fmt: skip
        self.frame_count: int | None = len(self._files)

    def frames(self) -> Generator[Timed, None, None]:
        """Each as RGB. Raises UsageError at a file that is no picture."""
        for file in self._files:
            yield Timed(Image.from_file(file))

    def close(self) -> None:
        """Nothing is open between two pictures."""


class Given:
    """What an iterable gives, as it is."""

    fps: Fraction | None = None
    damaged = 0

    def __init__(self, values: Iterable[Any]) -> None:
        self._values = values
        self.frame_count = len(values) if isinstance(values, Sized) else None

    def frames(self) -> Generator[Timed, None, None]:
        """The values; a generator is closed in the thread that ran it."""
        values = iter(self._values)
        try:
            for value in values:
                yield Timed(value)
        finally:
            self._close(values)

    def close(self) -> None:
        """Close a generator that was never run."""
        self._close(self._values)

    @staticmethod
    def _close(values: Any) -> None:
        if isinstance(values, Generator):
            values.close()
