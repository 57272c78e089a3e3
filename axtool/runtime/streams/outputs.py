"""Where the frames of a stream go: a video, a folder of pictures, lines of JSON. All whole, or not there at all.

Each output has `write`, `finish` and `discard`. What is written has a temporary name until `finish`.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import IO, Any, Protocol

from axtool.config import cannot_write, permissions_of_a_new_file, real_path, refuse_overwrite
from axtool.errors import UsageError, nearest
from axtool.runtime import cv
from axtool.runtime.cv.writer import SUFFIXES
from axtool.runtime.image import Image
from axtool.runtime.streams.pipeline import Seen
from axtool.runtime.streams.sources import Watched

VIDEO_SUFFIXES = tuple(SUFFIXES)
PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
DEFAULT_FPS = Fraction(25)  # of a video from a source that does not say its rate


class Output(Protocol):
    """What keeps the frames of one source."""

    path: Path

    def write(self, frame: Any, seen: Seen) -> None:
        """The next frame."""

    def finish(self) -> None:
        """All frames are there: give the file its name."""

    def discard(self) -> None:
        """Leave nothing behind."""


class _Folder:
    """The folder of an output: made with the first file in it, taken away again where the run fails."""

    def __init__(self, path: Path) -> None:
        self._path, self._made = path, False

    def make(self) -> None:
        """Raises EnvironmentFault when the disk refuses."""
        if not self._path.is_dir():
            try:
                self._path.mkdir(parents=True)
            except OSError as error:
                raise cannot_write(self._path, error) from error
            self._made = True

    def discard(self) -> None:
        """Unless somebody put something into it."""
        if self._made:
            with suppress(OSError):
                self._path.rmdir()


class VideoFile:
    """The drawn frames as a video, at the rate of the source."""

    def __init__(self, path: Path, fps: Fraction | None, *, force: bool) -> None:
        self.path, self._fps, self._force = path, fps or DEFAULT_FPS, force
        self._folder = _Folder(path.parent)
        self._writer: cv.VideoWriter | None = None

    def write(self, frame: Any, seen: Seen) -> None:
        """One frame; the first one says the size."""
        assert seen.drawn is not None  # the pipeline draws where something is to be saved
        if self._writer is None:
            self._folder.make()
            self._writer = cv.VideoWriter(self.path, self._fps, force=self._force)
        self._writer.write(Image.from_array(seen.drawn, "BGR"))

    def finish(self) -> None:
        """Close and rename. A source without frames leaves no file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def discard(self) -> None:
        """Leave nothing behind."""
        if self._writer is not None:
            self._writer.discard()
            self._writer = None
        self._folder.discard()


class PictureFiles:
    """Each drawn frame as a picture: into a file, or into a folder by the name of the picture that was read.

    `inputs` are files and folders that are read: no picture in them is written over.
    """

    def __init__(self, path: Path, *, force: bool, inputs: Sequence[Path] = ()) -> None:
        self.path, self._force = path, force
        self._inputs = {real_path(place) for place in inputs}
        self._single = path.suffix.lower() in PICTURE_SUFFIXES
        self._folder = _Folder(path.parent if self._single else path)
        self._drafts: tempfile.TemporaryDirectory[str] | None = None
        self._written: dict[Path, Path] = {}  # where each picture goes, and its draft

    def write(self, frame: Any, seen: Seen) -> None:
        """One frame. Raises UsageError for one that may not be written over, EnvironmentFault when the disk refuses."""
        import cv2

        assert seen.drawn is not None
        path = self.path if self._single else self._named(frame)
        if path.parent.is_dir():
            refuse_overwrite(path, force=self._force)
        self._refuse_input(path)
        data = cv2.imencode(path.suffix, seen.drawn)[1].tobytes()
        self._folder.make()
        try:
            if self._drafts is None:
                self._drafts = tempfile.TemporaryDirectory(prefix=".axtool-", dir=path.parent)
            draft = Path(self._drafts.name) / f"{len(self._written)}{path.suffix}"
            draft.write_bytes(data)
        except OSError as error:
            raise cannot_write(path, error) from error
        self._written[path] = draft

    def finish(self) -> None:
        """Give each picture its name. Raises EnvironmentFault when the disk refuses."""
        written, path = self._written, self.path
        try:
            for path, draft in written.items():
                refuse_overwrite(path, force=self._force)
                os.replace(draft, real_path(path))
        except OSError as error:
            raise cannot_write(path, error) from error
        finally:
            self.discard()

    def discard(self) -> None:
        """Leave nothing behind of what has no name yet."""
        self._written = {}
        if self._drafts is not None:
            self._drafts.cleanup()
            self._drafts = None
        self._folder.discard()

    def _refuse_input(self, path: Path) -> None:
        """Raise UsageError where a picture would go over one that is read."""
        real = real_path(path)
        if path.exists() and not self._inputs.isdisjoint((real, *real.parents)):
            raise UsageError(
                "is an input of this command", where=str(path), hint="choose another folder", code="output-is-input"
            )

    def _named(self, frame: Any) -> Path:
        number = len(self._written)
        stem = Path(getattr(frame, "source", "") or f"{number:06d}").stem
        path = self.path / f"{stem}.png"
        while path in self._written:  # two folders below have a picture of the same name
            path = self.path / f"{stem}-{number:06d}.png"
            number += 1
        return path


class ResultLines:
    """One JSON object a line for every frame of every source: stream and frame (both from 0), source and result."""

    def __init__(self, path: Path, *, force: bool) -> None:
        self.path, self._force = path, force
        self._file: IO[str] | None = None
        self._temporary = ""

    def write(self, stream: int, source: str, index: int, seen: Seen) -> None:
        """The result of a frame of the source with this number and name. Raises EnvironmentFault for a full disk."""
        line = {"stream": stream, "source": source, "frame": index, "result": seen.result}
        try:
            self._opened().write(json.dumps(line, sort_keys=True, allow_nan=False) + "\n")
        except OSError as error:
            raise cannot_write(self.path, error) from error

    def finish(self) -> None:
        """Give the file its name. Without frames it is empty."""
        try:
            self._opened().close()
            refuse_overwrite(self.path, force=self._force)
            os.chmod(self._temporary, permissions_of_a_new_file())
            os.replace(self._temporary, real_path(self.path))
        except OSError as error:
            raise cannot_write(self.path, error) from error
        self._file = None

    def discard(self) -> None:
        """Leave nothing behind."""
        if self._file is not None:
            with suppress(OSError):  # a full disk says so again
                self._file.close()
            Path(self._temporary).unlink(missing_ok=True)
            self._file = None

    def _opened(self) -> IO[str]:
        if self._file is None:
            handle, self._temporary = tempfile.mkstemp(
                prefix=".axtool-", suffix=".tmp", dir=real_path(self.path).parent
            )
            self._file = os.fdopen(handle, "w", encoding="utf-8")
        return self._file


def outputs_of(save: str | None, sources: Sequence[Watched], *, force: bool, inputs: Sequence[Path]) -> list[Any]:
    """An Output for each source, None without `save`: a file, a folder, or a pattern with {name} or {index}.

    Raises UsageError, before anything is read, for a name of no kind, one file for several sources, and files that are
    there already without `force`.
    """
    if save is None:
        return [None] * len(sources)
    paths = [_path_for(save, source, index, len(sources)) for index, source in enumerate(sources)]
    if len(set(paths)) < len(paths):
        raise UsageError(
            "two sources would be saved to one file", where=save, hint="name them apart with {index}: out-{index}.mp4",
            code="bad-option",
        )  # fmt: skip
    made: list[Any] = []
    for path, source in zip(paths, sources, strict=True):
        suffix = path.suffix.lower()
        if source.kind == "pictures" and suffix not in VIDEO_SUFFIXES:
            if suffix in PICTURE_SUFFIXES:
                if source.total != 1:
                    raise UsageError(
                        f"{source.reader.name} do not go into one picture", where=str(path),
                        hint="name a folder, or a video", code="bad-option",
                    )  # fmt: skip
                refuse_overwrite(path, force=force, inputs=inputs)
            elif path.exists() and not path.is_dir():
                raise UsageError("is no folder", where=str(path), hint="choose another name", code="output-exists")
            made.append(PictureFiles(path, force=force, inputs=inputs))
            continue
        if suffix not in VIDEO_SUFFIXES:
            hint = nearest(suffix, VIDEO_SUFFIXES)
            raise UsageError(f"--save {path}: want {', '.join(VIDEO_SUFFIXES)}", hint=hint, code="bad-option")
        if path.parent.exists() or not _is_folder(save):  # a folder that is named is made
            refuse_overwrite(path, force=force, inputs=inputs)
        made.append(VideoFile(path, source.fps, force=force))
    return made


def _path_for(save: str, source: Watched, index: int, count: int) -> Path:
    pattern = "{name}" in save or "{index}" in save
    text = save.replace("{name}", source.short).replace("{index}", str(index))
    path = Path(text)
    folder = _is_folder(text)
    if pattern and not folder:
        return path
    if folder and source.kind == "pictures":
        return path if count == 1 or pattern else path / source.short
    if folder:
        return path / f"{source.short}.mp4"
    if count > 1:
        raise UsageError(
            f"--save {save}: {count} sources do not go into one file", hint="name a folder, or say out-{name}.mp4",
            code="bad-option",
        )  # fmt: skip
    return path


def _is_folder(text: str) -> bool:
    """Whether a name is that of a folder, which need not be there."""
    return text.endswith("/") or not Path(text).suffix or Path(text).is_dir()
